/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal as a file: opening, locking, reading what is new, appending,
 * replacing it. What its bytes mean is in journal_bytes.c.
 */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define LOCK_TRIES 200
#define LOCK_PAUSE_NS 10000000L
#define PATH_BYTES 4096

int rn_journal_init(struct rn_journal *j, const char *path, const char *what)
{
    *j = (struct rn_journal){.path = strdup(path), .what = what, .fd = -1};
    return j->path ? 0 : RATION_ENOMEM;
}

void rn_journal_done(struct rn_journal *j)
{
    rn_journal_unlock(j);
    free(j->path);
    j->path = NULL;
}

static int fail(const struct rn_journal *j, struct ration_error *error, int code, const char *what,
                const char *why)
{
    return rn_error_set(error, code, 0, "\"%s\": %s%s", j->path, what, why);
}

/* Adds to the notices of a call that succeeds. */
__attribute__((format(printf, 2, 3))) static void notice(struct ration_error *error,
                                                         const char *format, ...)
{
    size_t len = error ? strlen(error->text) : 0;
    va_list args;

    if (!error || sizeof error->text - len < sizeof "; ")
        return;
    va_start(args, format);
    if (len != 0)
        len += (size_t)snprintf(error->text + len, sizeof error->text - len, "; ");
    vsnprintf(error->text + len, sizeof error->text - len, format, args);
    va_end(args);
}

static void notice_loss(const struct rn_journal *j, struct ration_error *error, const char *why)
{
    notice(error, "\"%s\": %s; the %s that were in it do not hold any more", j->path, why, j->what);
}

static void remember(struct rn_journal *j, const struct stat *st)
{
    j->device = st->st_dev;
    j->inode = st->st_ino;
    j->size = st->st_size;
}

bool rn_journal_is_current(const struct rn_journal *j)
{
    struct stat st;

    if (stat(j->path, &st) != 0)
        return errno == ENOENT && j->inode == 0;
    return st.st_dev == j->device && st.st_ino == j->inode && st.st_size == j->size;
}

/* --- opening and locking --------------------------------------------------------- */

/* *fd is -1 if there is no file. */
static int open_locked(const struct rn_journal *j, int flags, int lock, int *fd, struct stat *st,
                       struct ration_error *error)
{
    if (error)
        *error = (struct ration_error){0};
    for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
        struct stat by_path;

        *fd = open(j->path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0660);
        if (*fd < 0 && errno == ENOENT)
            return 0;
        if (*fd < 0)
            return fail(j, error, RATION_EIO, "cannot be opened: ", strerror(errno));
        if (flock(*fd, lock | LOCK_NB) == 0 && fstat(*fd, st) == 0 &&
            stat(j->path, &by_path) == 0 && st->st_ino == by_path.st_ino &&
            st->st_dev == by_path.st_dev) {
            if (S_ISREG(st->st_mode))
                return 0;
            close(*fd);
            return fail(j, error, RATION_EFOREIGN, "not a regular file; it was left alone", "");
        }
        close(*fd);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    return fail(j, error, RATION_EBUSY,
                "locked for two seconds by another process that changes it; try again", "");
}

/* --- reading ------------------------------------------------------------------------ */

static ssize_t read_all(int fd, char *out, size_t len, off_t from)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, out + got, len - got, from + (off_t)got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static void start_over(struct rn_journal *j, uint64_t id, const struct rn_journal_reader *reader)
{
    if (j->id != 0)
        reader->restart(reader->arg);
    j->id = id;
    j->end = id ? RN_JOURNAL_HEADER_BYTES : 0;
    j->records = j->skipped = 0;
}

static int check_file(struct rn_journal *j, int fd, const struct rn_journal_reader *reader,
                      struct ration_error *error)
{
    char header[RN_JOURNAL_HEADER_BYTES];
    ssize_t got = read_all(fd, header, sizeof header, 0);
    uint64_t id = 0, magic = RN_JOURNAL_MAGIC;
    struct ration_error why;

    if (got < 0)
        return fail(j, error, RATION_EIO, "cannot be read: ", strerror(errno));
    size_t same = (size_t)got < sizeof magic ? (size_t)got : sizeof magic;

    /* Shorter is nothing yet, or the beginning of a header whose writer was killed. */
    if (got == RN_JOURNAL_HEADER_BYTES || memcmp(header, &magic, same) != 0) {
        int code = rn_journal_read_header(header, (size_t)got, j->what, &id, &why);

        if (code != 0)
            return fail(j, error, code, why.text, "");
    }
    if (id != j->id)
        start_over(j, id, reader);
    return 0;
}

static int read_records(struct rn_journal *j, int fd, off_t size,
                        const struct rn_journal_reader *reader, struct ration_error *error)
{
    uint64_t from = j->end;
    struct rn_journal_scan scan = {.id = j->id, .sequence = j->sequence};
    size_t len = size > (off_t)from ? (size_t)size - (size_t)from : 0;
    char *bytes = len ? malloc(len) : NULL;
    ssize_t got;
    int code;

    if (len == 0 || j->id == 0)
        return free(bytes), 0;
    if (!bytes)
        return fail(j, error, RATION_ENOMEM, "out of memory for reading it", "");
    got = read_all(fd, bytes, len, (off_t)from);
    if (got < 0) {
        free(bytes);
        return fail(j, error, RATION_EIO, "cannot be read: ", strerror(errno));
    }
    /* Of a file read from its beginning all numbers are expected, also known ones. */
    if (from == RN_JOURNAL_HEADER_BYTES)
        scan.sequence = 0;
    code = rn_journal_scan(&scan, bytes, (size_t)got, reader->see, reader->arg);
    free(bytes);
    if (code != 0) {
        start_over(j, 0, reader); /* half of it was seen: all of it again next time */
        return fail(j, error, code, "cannot be taken over: ", ration_error_text(code));
    }
    j->end += scan.end;
    j->records += scan.records;
    j->skipped += scan.skipped;
    if (scan.sequence > j->sequence)
        j->sequence = scan.sequence;
    if (scan.skipped != 0)
        notice(error, "\"%s\": %" PRIu64 " damaged bytes were skipped, from byte %" PRIu64 " on",
               j->path, scan.skipped, from + scan.skipped_at);
    return 0;
}

static int read_file(struct rn_journal *j, int fd, const struct stat *st,
                     const struct rn_journal_reader *reader, struct ration_error *error)
{
    int code = check_file(j, fd, reader, error);

    /* Shorter than what was read: not by us, so not what it was. */
    if (code == 0 && j->id != 0 && (uint64_t)st->st_size < j->end) {
        start_over(j, j->id, reader);
        notice_loss(j, error, "cut short while in use");
    }
    if (code == 0)
        code = read_records(j, fd, st->st_size, reader, error);
    remember(j, st); /* even if it is not a journal: until it changes */
    return code;
}

int rn_journal_read(struct rn_journal *j, const struct rn_journal_reader *reader,
                    struct ration_error *error)
{
    struct stat st;
    int fd, code = open_locked(j, O_RDONLY, LOCK_SH, &fd, &st, error);

    if (code != 0)
        return code;
    if (fd < 0) {
        if (j->id != 0) {
            start_over(j, 0, reader);
            notice_loss(j, error, "deleted while in use");
        }
        remember(j, &(struct stat){0});
        return 0;
    }
    code = read_file(j, fd, &st, reader, error);
    close(fd);
    if (code == 0 && st.st_size == 0) /* a writer may have just made it: nothing is said there */
        notice_loss(j, error, "an empty file");
    /* No process writes while we have the lock: a writer was interrupted. */
    if (code == 0 && (uint64_t)st.st_size > j->end)
        notice(error,
               "\"%s\": its last %" PRIu64 " bytes, from byte %" PRIu64 " on, are no complete "
               "record and were left out; a crash, or damage: see which of the %s are missing",
               j->path, (uint64_t)st.st_size - j->end, j->end, j->what);
    return code;
}

/* --- writing ------------------------------------------------------------------------- */

static bool write_all(int fd, const char *data, size_t len, off_t at)
{
    while (len != 0) {
        ssize_t n = pwrite(fd, data, len, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
        at += n;
    }
    return true;
}

static int new_id(struct rn_journal *j, uint64_t *id, struct ration_error *error)
{
    do {
        if (getrandom(id, sizeof *id, 0) != sizeof *id)
            return fail(j, error, RATION_EIO, "the system has no random numbers", "");
    } while (*id == 0);
    return 0;
}

/* All or nothing, on the disk. */
static int append(struct rn_journal *j, const struct rn_buf *bytes, struct ration_error *error)
{
    if (bytes->failed)
        return fail(j, error, RATION_ENOMEM, "out of memory for a record", "");
    if (!write_all(j->fd, bytes->data, bytes->len, (off_t)j->end) || fdatasync(j->fd) != 0) {
        int why = errno;

        /* If this fails, too, it does not check and the next one cuts it off. */
        if (ftruncate(j->fd, (off_t)j->end) == 0)
            j->size = (off_t)j->end;
        return fail(j, error, RATION_EIO, "cannot be written: ", strerror(why));
    }
    j->end += bytes->len;
    j->size = (off_t)j->end;
    return 0;
}

/* Makes the name as durable as the file. Some file systems cannot synchronise directories:
 * then nothing can be done. */
static void sync_directory(const struct rn_journal *j)
{
    const char *slash = strrchr(j->path, '/');
    char *name = slash ? strndup(j->path, (size_t)(slash - j->path) + 1) : strdup(".");
    int fd = name ? open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    free(name);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static int give_birth(struct rn_journal *j, struct ration_error *error)
{
    struct rn_buf bytes = {0};
    uint64_t id;
    int code = new_id(j, &id, error);

    if (code != 0)
        return code;
    rn_journal_put_header(&bytes, id);
    fchmod(j->fd, 0660); /* regardless of the umask, as the state file */
    code = append(j, &bytes, error);
    if (code == 0) {
        j->id = id;
        sync_directory(j);
    }
    rn_buf_done(&bytes);
    return code;
}

int rn_journal_lock(struct rn_journal *j, const struct rn_journal_reader *reader,
                    struct ration_error *error)
{
    struct stat st;
    int fd, code = open_locked(j, O_RDWR | O_CREAT, LOCK_EX, &fd, &st, error);

    if (code == 0 && fd < 0)
        code = fail(j, error, RATION_EIO, "cannot be created: its directory has gone", "");
    if (code != 0)
        return code;
    code = read_file(j, fd, &st, reader, error);
    j->fd = fd;
    /* The writer of a record that is not complete was killed, or had no room for it. */
    if (code == 0 && (uint64_t)j->size != j->end) {
        if (ftruncate(fd, (off_t)j->end) != 0)
            code = fail(j, error, RATION_EIO, "cannot be cut: ", strerror(errno));
        else
            notice(error,
                   "\"%s\": its last %" PRIu64 " bytes, from byte %" PRIu64
                   " on, were no complete record and were cut off",
                   j->path, (uint64_t)j->size - j->end, j->end);
        if (code == 0)
            j->size = (off_t)j->end;
    }
    if (code == 0 && j->id == 0)
        code = give_birth(j, error);
    if (code != 0)
        rn_journal_unlock(j);
    return code;
}

void rn_journal_unlock(struct rn_journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}

int rn_journal_write(struct rn_journal *j, const struct rn_record *records, size_t n,
                     struct ration_error *error)
{
    struct rn_buf bytes = {0};
    int code;

    for (size_t i = 0; i < n; i++)
        rn_journal_put_record(&bytes, j->id, &records[i]);
    code = append(j, &bytes, error);
    rn_buf_done(&bytes);
    if (code == 0) {
        j->sequence += n;
        j->records += n;
    }
    return code;
}

/* --- replacing ------------------------------------------------------------------------- */

static int write_new(struct rn_journal *j, const char *name, const struct rn_buf *bytes,
                     struct stat *st, struct ration_error *error)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0660), code = 0;

    if (fd < 0)
        return fail(j, error, RATION_EIO, "cannot be rewritten: ", strerror(errno));
    fchmod(fd, 0660);
    if (!write_all(fd, bytes->data, bytes->len, 0) || fsync(fd) != 0 || fstat(fd, st) != 0 ||
        rename(name, j->path) != 0) {
        code = fail(j, error, RATION_EIO, "cannot be rewritten: ", strerror(errno));
        unlink(name);
    }
    close(fd);
    if (code == 0)
        sync_directory(j);
    return code;
}

int rn_journal_rewrite(struct rn_journal *j, bool (*next)(void *arg, struct rn_record *record),
                       void *arg, struct ration_error *error)
{
    char name[PATH_BYTES];
    struct rn_buf bytes = {0};
    struct rn_record record;
    uint64_t id, records = 0, last = 0;
    struct stat st;
    int code = new_id(j, &id, error);

    if (code == 0 && snprintf(name, sizeof name, "%s.new-%ld-%" PRIx64, j->path, (long)getpid(),
                              (uint64_t)rn_clock_boot_ns()) >= (int)sizeof name)
        code = fail(j, error, RATION_EINVAL, "the path is too long", "");
    rn_journal_put_header(&bytes, id);
    for (; code == 0 && next(arg, &record); records++) {
        rn_journal_put_record(&bytes, id, &record);
        last = record.sequence;
    }
    if (last < j->sequence) { /* so that none is given twice */
        record = (struct rn_record){.kind = RN_RECORD_MARK, .sequence = j->sequence};
        rn_journal_put_record(&bytes, id, &record);
        records++;
    }
    if (code == 0 && bytes.failed)
        code = fail(j, error, RATION_ENOMEM, "out of memory for rewriting it", "");
    if (code == 0)
        code = write_new(j, name, &bytes, &st, error);
    if (code == 0) {
        j->id = id;
        j->end = bytes.len;
        j->records = records;
        j->skipped = 0;
        remember(j, &st);
    }
    rn_buf_done(&bytes);
    rn_journal_unlock(j);
    return code;
}
