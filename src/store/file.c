/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a table: anonymous, or a file that is created, checked, resumed or
 * rebuilt.
 *
 * Every process that uses a file holds a shared flock. A process that gets the
 * exclusive lock is alone: it may resume the time line, free what a killed process
 * left, or rebuild the file at another size. A new file is written under another
 * name and then moved into place, so that a kill leaves no half-written one. A
 * damaged file is left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/blocks.h"
#include "store/mapping.h"
#include "store/slots.h"

#define DEFAULT_BYTES (UINT64_C(64) << 20)
#define LOCK_TRIES 200
#define LOCK_PAUSE_NS 10000000L
#define PATH_BYTES 4096

/* What one call of open was asked for, and where it reports errors. */
struct opening {
    const char *path;
    uint64_t bytes;
    double block_share;
    bool keep_share;
    struct ration_error *error;
};

/* The result of one attempt. */
enum attempt { OPENED, TRY_AGAIN, WAIT, FAILED };

__attribute__((format(printf, 3, 4))) static enum attempt fail(struct opening *o, int code,
                                                               const char *format, ...)
{
    int n = o->path
                ? snprintf(o->error->text, sizeof o->error->text, "state file \"%s\": ", o->path)
                : 0;
    va_list args;

    va_start(args, format);
    if (n >= 0 && (size_t)n < sizeof o->error->text)
        vsnprintf(o->error->text + n, sizeof o->error->text - (size_t)n, format, args);
    va_end(args);
    o->error->code = code;
    return FAILED;
}

/* What to do about a file that cannot be opened or created. */
static const char *advice_for(int code)
{
    switch (code) {
    case EACCES:
    case EPERM:
        return "; this process must be able to read and write the file, and its folder to make it";
    case ENOENT:
    case ENOTDIR:
        return "; make its folder first";
    case EROFS:
        return "; choose a file system that can be written";
    default:
        return "";
    }
}

/* Creates a complete, mapped file beside the path, under a temporary name that it
 * leaves in `name`. */
static struct rn_table *new_file(struct opening *o, char name[PATH_BYTES])
{
    struct rn_table *table = NULL;
    void *mapping = NULL;
    int fd = -1, error;

    if (snprintf(name, PATH_BYTES, "%s.new-%ld-%" PRIx64, o->path, (long)getpid(),
                 (uint64_t)rn_clock_boot_ns()) >= PATH_BYTES) {
        fail(o, RATION_EINVAL, "the path is longer than %d bytes", PATH_BYTES - 64);
        return NULL;
    }
    fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);
    if (fd < 0) {
        fail(o, RATION_EIO, "cannot be created: %s%s", strerror(errno), advice_for(errno));
        return NULL;
    }
    error = posix_fallocate(fd, 0, (off_t)o->bytes);
    if (error) {
        fail(o, RATION_EIO, "cannot reserve %" PRIu64 " bytes: %s", o->bytes, strerror(error));
        goto out;
    }
    fchmod(fd, 0660); /* regardless of the umask: a group shares the table */
    mapping = rn_mapping_new(o->bytes, fd);
    if (!mapping || rn_mapping_init(mapping, o->bytes, o->block_share) != 0 ||
        !(table = rn_mapping_table_new(mapping, fd)))
        fail(o, RATION_EIO, "cannot be mapped: %s", strerror(errno));
out:
    if (!table) {
        if (mapping)
            munmap(mapping, o->bytes);
        close(fd);
        unlink(name);
    }
    return table;
}

/* Creates the file, unless another process was faster: its file is as good. Not every file
 * system can rename without replacing. */
static enum attempt create_file(struct opening *o)
{
    char name[PATH_BYTES];
    struct rn_table *table = new_file(o, name);
    bool placed;

    if (!table)
        return FAILED;
    placed = renameat2(AT_FDCWD, name, AT_FDCWD, o->path, RENAME_NOREPLACE) == 0 ||
             ((errno == EINVAL || errno == ENOSYS) && link(name, o->path) == 0) || errno == EEXIST;
    if (!placed)
        fail(o, RATION_EIO, "cannot be created: %s", strerror(errno));
    unlink(name);
    rn_mapping_table_free(table);
    return placed ? TRY_AGAIN : FAILED;
}

/* Copies one live slot into a table that only this thread uses. */
static void move_slot(struct rn_table *to, const struct rn_table *from, struct rn_slot_value v,
                      int64_t now)
{
    struct rn_found found;
    uint64_t *words = to->contexts[0].scratch;

    if (rn_tag_has_block(v.tag)) {
        unsigned class = rn_block_class(v.state);
        uint32_t block = rn_block_alloc(to, class);

        if (block == RN_NIL) {
            to->header->evictions++;
            return;
        }
        rn_block_read(from, class, rn_block_offset(v.state), words, rn_blocks_class_words(class));
        rn_block_write(to, class, block, words, rn_blocks_class_words(class));
        v.state = rn_block_state(class, rn_block_version(v.state), block);
    }
    if (rn_slot_claim(to, v.tag & RN_TAG_HASH, now, v.tag & RN_TAG_KEEP, &found) == 0)
        rn_slot_swap(found.slot, found.value, v);
    else
        to->header->evictions++;
}

/* Moves all live states into a new file of the size asked for and puts that in
 * place of the old one, which this process alone has open. */
static enum attempt rebuild(struct opening *o, const struct rn_table *old)
{
    char name[PATH_BYTES];
    struct rn_table *table = new_file(o, name);
    const struct rn_slot *slots = old->groups[0].slots;
    int64_t now = rn_table_now(old);

    if (!table)
        return FAILED;
    table->header->secret = old->header->secret;
    table->header->check = rn_mapping_header_check(table->header);
    table->header->anchor = old->header->anchor;
    table->header->evictions = old->header->evictions;
    table->header->generation = old->header->generation;
    if (old->header->version == RN_LAYOUT_VERSION)
        memcpy(rn_table_board(table), rn_table_board((struct rn_table *)old), RN_BOARD_BYTES);
    for (uint64_t i = 0; i < old->group_count * RN_GROUP_SLOTS; i++) {
        struct rn_found found = {(struct rn_slot *)&slots[i], rn_slot_load(&slots[i])};

        if ((found.value.tag & RN_KIND_MASK) != RN_KIND_PENDING &&
            rn_slot_idle_at(old, &found) > now)
            move_slot(table, old, found.value, now);
    }
    enum attempt attempt = TRY_AGAIN;

    if (rename(name, o->path) != 0) {
        attempt = fail(o, RATION_EIO, "cannot be replaced: %s", strerror(errno));
        unlink(name);
    }
    rn_mapping_table_free(table);
    return attempt;
}

static enum attempt check_header(struct opening *o, int fd, struct rn_header *h)
{
    struct stat st;
    ssize_t got = pread(fd, h, sizeof *h, 0);

    if (got < 0 || fstat(fd, &st) != 0)
        return fail(o, RATION_EIO, "cannot be read: %s", strerror(errno));
    if ((size_t)got < sizeof h->magic || h->magic != RN_MAGIC)
        return fail(o, RATION_EFOREIGN,
                    "not a ration state file; it was left alone: name another file or move this "
                    "one away");
    if ((size_t)got < RN_CHECKED_BYTES + sizeof h->check)
        return fail(o, RATION_ETORN, "cut off within its header; it was left alone: move it away");
    if (h->version < RN_LAYOUT_OLDEST || h->version > RN_LAYOUT_VERSION ||
        h->header_bytes != sizeof *h)
        return fail(o, RATION_EVERSION,
                    "layout version %u where this library reads %u; it was left alone: use the "
                    "version that wrote it or move it away",
                    h->version, RN_LAYOUT_VERSION);
    if (!rn_mapping_header_is_sound(h))
        return fail(o, RATION_ETORN, "its header is damaged; it was left alone: move it away");
    if ((uint64_t)st.st_size != h->bytes)
        return fail(o, RATION_ETORN,
                    "%" PRIu64 " bytes long where its header says %" PRIu64
                    "; it was left alone: move it away",
                    (uint64_t)st.st_size, h->bytes);
    return OPENED;
}

/* Sets the time line if this process is alone, else checks it. A file whose time line lies in the
 * future is set aside: every wait would be wrong, and live counters look like stale ones. */
static enum attempt resume(struct opening *o, struct rn_anchor *anchor, bool alone)
{
    enum rn_resumed resumed = alone                        ? rn_anchor_resume(anchor)
                              : rn_anchor_is_sound(anchor) ? RN_RESUMED
                                                           : RN_RESUMED_DAMAGED;
    char name[PATH_BYTES];

    switch (resumed) {
    case RN_RESUMED:
        break;
    case RN_RESUMED_MENDED:
        fail(o, 0,
             "part of its clock was damaged, by a crash or the disk, and was restored from a copy");
        break;
    case RN_RESUMED_AHEAD:
        if (snprintf(name, sizeof name, "%s.aside-%" PRId64, o->path,
                     rn_clock_wall_ns() / RN_SECOND_NS) >= (int)sizeof name ||
            rename(o->path, name) != 0)
            return fail(o, RATION_EIO,
                        "more than a day ahead of the wall clock, and cannot be set "
                        "aside: %s",
                        strerror(errno));
        fail(o, 0, "more than a day ahead of the wall clock; set aside as \"%s\"", name);
        return TRY_AGAIN;
    case RN_RESUMED_DAMAGED:
        return fail(o, RATION_ETORN, "its clock is damaged; it was left alone: move it away");
    }
    return OPENED;
}

static bool is_at_path(const char *path, int fd)
{
    struct stat by_fd, by_path;

    return fstat(fd, &by_fd) == 0 && stat(path, &by_path) == 0 && by_fd.st_ino == by_path.st_ino &&
           by_fd.st_dev == by_path.st_dev;
}

/* A different division between slots and blocks is worth a rebuild from here on. */
#define DIVIDED_PART 32

/* Whether the table, which this process alone has open, should be divided as asked
 * for: it is another division, and what lives fits. */
static bool divide_again(const struct opening *o, const struct rn_table *table)
{
    uint64_t arena = table->slab_count * table->slab_words * 8, wanted;
    struct rn_table_memory memory;
    struct rn_header plan;

    if (o->keep_share || o->block_share == 0)
        return false;
    rn_mapping_plan(&plan, table->bytes, o->block_share);
    wanted = plan.slabs * plan.slab_words * 8;
    if ((wanted > arena ? wanted - arena : arena - wanted) < table->bytes / DIVIDED_PART)
        return false;
    rn_table_memory(table, rn_table_now(table), &memory);
    return memory.live <= plan.groups * RN_GROUP_SLOTS * RN_SLOT_LOAD_PERCENT / 100 &&
           memory.block_bytes_used <= wanted - wanted / 8;
}

/* The file is sound and locked: exclusively if `alone`. */
static enum attempt use_file(struct opening *o, int fd, const struct rn_header *h, bool alone,
                             struct rn_table **out)
{
    bool old = h->version != RN_LAYOUT_VERSION;
    bool resize =
        old || (o->bytes != 0 && o->bytes != h->bytes) || (o->block_share != 0 && h->slabs == 0);
    void *mapping;
    struct rn_table *table;
    enum attempt attempt;

    if (old && !alone)
        return fail(o, RATION_EBUSY,
                    "in use with layout version %u and cannot be rebuilt for version %u meanwhile; "
                    "stop the others first",
                    h->version, RN_LAYOUT_VERSION);
    if (resize && !alone)
        return fail(o, RATION_EBUSY,
                    "in use with %" PRIu64 " bytes%s and cannot be rebuilt meanwhile; stop the "
                    "others or leave the size as it is",
                    h->bytes, h->slabs == 0 ? " and no room for blocks" : "");
    mapping = rn_mapping_new(h->bytes, fd);
    table = mapping ? rn_mapping_table_new(mapping, fd) : NULL;
    if (!table) {
        if (mapping)
            munmap(mapping, h->bytes);
        return fail(o, RATION_ENOMEM, "cannot be mapped: %s", strerror(errno));
    }
    table->path = realpath(o->path, NULL);
    attempt = resume(o, &table->header->anchor, alone);
    if (attempt == OPENED && (!table->path || (alone && rn_blocks_collect(table) != 0)))
        attempt = fail(o, RATION_ENOMEM, "out of memory");
    if (attempt == OPENED && (resize || (alone && divide_again(o, table)))) {
        o->bytes = o->bytes ? o->bytes : h->bytes;
        if (o->block_share == 0) /* a process that needs no blocks must not take them from others */
            o->block_share =
                (double)(h->slabs * h->slab_words * 8) * 100 / (double)(h->bytes - RN_BOARD_BYTES);
        attempt = rebuild(o, table);
    } else if (attempt == OPENED && alone &&
               (flock(fd, LOCK_SH) != 0 || !is_at_path(o->path, fd))) {
        attempt = TRY_AGAIN;
    }
    if (attempt == OPENED)
        *out = table;
    else
        table->fd = -1, rn_mapping_table_free(table); /* the caller closes fd */
    return attempt;
}

static enum attempt try_open(struct opening *o, struct rn_table **out)
{
    struct rn_header header;
    struct stat st;
    int fd = open(o->path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    enum attempt attempt;

    if (fd < 0 && errno == ENOENT) {
        uint64_t asked = o->bytes;

        o->bytes = asked ? asked : DEFAULT_BYTES;
        attempt = create_file(o);
        o->bytes = asked;
        return attempt;
    }
    if (fd < 0)
        return fail(o, RATION_EIO, "cannot be opened: %s%s", strerror(errno), advice_for(errno));
    bool alone = flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (!alone && flock(fd, LOCK_SH | LOCK_NB) != 0)
        attempt = WAIT;
    else if (!is_at_path(o->path, fd))
        attempt = TRY_AGAIN;
    else if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        attempt = fail(o, RATION_EFOREIGN, "not a regular file");
    else
        attempt = check_header(o, fd, &header);
    if (attempt == OPENED)
        attempt = use_file(o, fd, &header, alone, out);
    if (attempt != OPENED)
        close(fd);
    return attempt;
}

/* Follows a symbolic link, so that a rebuild replaces the file and not the link. */
static int open_file(struct opening *o, struct rn_table **out)
{
    char resolved[PATH_MAX];
    struct stat st;

    if (lstat(o->path, &st) == 0 && S_ISLNK(st.st_mode)) {
        if (!realpath(o->path, resolved)) {
            fail(o, RATION_EIO, "a symbolic link that leads nowhere; name the file itself");
            return RATION_EIO;
        }
        o->path = resolved;
    }
    for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
        enum attempt attempt = try_open(o, out);

        if (attempt == OPENED)
            return 0;
        if (attempt == FAILED)
            return o->error->code;
        if (attempt == WAIT)
            nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    fail(o, RATION_EBUSY,
         "locked for two seconds by a process that creates or rebuilds it; try "
         "again when it is done");
    return RATION_EBUSY;
}

int rn_table_check_file(const struct rn_table *table, struct ration_error *error)
{
    struct stat st;

    if (table->fd < 0)
        return 0;
    if (fstat(table->fd, &st) != 0)
        return rn_error_set(error, RATION_EIO, 0, "state file \"%s\": cannot be looked at: %s",
                            table->path, strerror(errno));
    if ((uint64_t)st.st_size < table->bytes)
        return rn_error_set(error, RATION_ETORN, 0,
                            "state file \"%s\": cut from %" PRIu64 " to %" PRIu64
                            " bytes while in use; its counters are lost: stop all its users, "
                            "move it away and start again",
                            table->path, table->bytes, (uint64_t)st.st_size);
    if (!is_at_path(table->path, table->fd))
        return rn_error_set(error, RATION_EIO, 0,
                            "state file \"%s\": deleted, moved or replaced while in use; this "
                            "process still counts in the old one, and processes that start now "
                            "do not: restart all its users",
                            table->path);
    return 0;
}

int rn_table_open(const struct rn_table_options *options, struct rn_table **out,
                  struct ration_error *error)
{
    struct ration_error unused;
    struct opening o = {.path = options->path,
                        .bytes = options->bytes / RN_PAGE * RN_PAGE,
                        .block_share = options->block_share,
                        .keep_share = options->keep_share,
                        .error = error ? error : &unused};

    *o.error = (struct ration_error){0};
    if (options->bytes != 0 && options->bytes < RN_TABLE_BYTES_MIN)
        fail(&o, RATION_EINVAL, "%" PRIu64 " bytes of memory; at least %" PRIu64 " are needed",
             options->bytes, RN_TABLE_BYTES_MIN);
    else if (options->bytes > RN_TABLE_BYTES_MAX)
        fail(&o, RATION_EINVAL, "a size of %" PRIu64 " bytes is more than 16 TiB", options->bytes);
    else if (!(options->block_share >= 0 && options->block_share <= RN_TABLE_SHARE_MAX))
        fail(&o, RATION_EINVAL, "%g percent for blocks; at most %g leave room for keys",
             options->block_share, RN_TABLE_SHARE_MAX);
    if (o.error->code != 0)
        return o.error->code;
    if (options->path)
        return open_file(&o, out);
    o.bytes = o.bytes ? o.bytes : DEFAULT_BYTES;
    void *mapping = rn_mapping_new(o.bytes, -1);

    if (mapping && rn_mapping_init(mapping, o.bytes, o.block_share) == 0 &&
        (*out = rn_mapping_table_new(mapping, -1)))
        return 0;
    if (mapping)
        munmap(mapping, o.bytes);
    fail(&o, RATION_ENOMEM, "cannot reserve %" PRIu64 " bytes of memory: %s", o.bytes,
         strerror(errno));
    return RATION_ENOMEM;
}
