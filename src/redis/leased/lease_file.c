/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/leased/lease_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/siphash.h"

#define MAGIC UINT64_C(0x73657361656c6e72) /* "rnleases" */
#define VERSION 1
#define BOOT_BYTES 40
#define HEADER_BYTES 4096

struct header {
    uint64_t magic;
    uint32_t version, record_bytes, records, unused;
    char boot[BOOT_BYTES]; /* the kernel's id of this boot */
    uint64_t holder, check;
    _Atomic uint32_t open; /* records may have units left */
};

struct rn_lease_part {
    struct header header;
    char rest[HEADER_BYTES - sizeof(struct header)];
    struct rn_lease_record records[RN_LEASE_FILE_RECORDS];
};

static_assert(sizeof(struct rn_lease_part) % 4096 == 0, "parts are mapped one by one");

/* Detects damage, not attacks: the key is no secret. */
static const struct rn_hash_key check_key = {UINT64_C(0x6c65617365732066),
                                             UINT64_C(0x696c65206f662072)};

static uint64_t check_of(const struct header *h)
{
    return rn_siphash(&check_key, h, offsetof(struct header, check));
}

static bool read_boot(char out[BOOT_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, BOOT_BYTES - 1) : -1;

    if (fd >= 0)
        close(fd);
    return got > 0;
}

/* --- parts ------------------------------------------------------------------------------ */

/* The lock lasts while the descriptor is open: a kill releases it. */
static bool set_lock(int fd, unsigned number, bool locked)
{
    struct flock lock = {.l_type = locked ? F_WRLCK : F_UNLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)(number * sizeof(struct rn_lease_part)),
                         .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static struct rn_lease_part *map_part(int fd, unsigned number)
{
    struct rn_lease_part *part = mmap(NULL, sizeof *part, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                      (off_t)(number * sizeof *part));

    return part != MAP_FAILED ? part : NULL;
}

/* Written in this boot, and not yet returned. */
static bool is_left(const struct header *h, const char boot[BOOT_BYTES])
{
    return h->magic == MAGIC && h->version == VERSION &&
           h->record_bytes == sizeof(struct rn_lease_record) &&
           h->records == RN_LEASE_FILE_RECORDS && h->check == check_of(h) &&
           memcmp(h->boot, boot, BOOT_BYTES) == 0 && h->open;
}

static void start_part(struct rn_lease_part *part, uint64_t holder, const char boot[BOOT_BYTES])
{
    struct header *h = &part->header;

    memset(part, 0, sizeof *part);
    *h = (struct header){.magic = MAGIC,
                         .version = VERSION,
                         .record_bytes = sizeof(struct rn_lease_record),
                         .records = RN_LEASE_FILE_RECORDS,
                         .holder = holder};
    memcpy(h->boot, boot, BOOT_BYTES);
    h->check = check_of(h);
    h->open = true;
}

static struct rn_lease_file file_of(struct rn_lease_part *part, uint64_t holder, int fd)
{
    return (struct rn_lease_file){
        .part = part, .records = part->records, .holder = holder, .fd = fd};
}

static int fail(struct ration_error *error, const char *path, const char *what, const char *why)
{
    return rn_error_set(error, RATION_EIO, 0, "\"%s\": %s%s", path, what, why);
}

static int open_path(const char *path, bool create, struct stat *st)
{
    int fd =
        open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (create ? O_CREAT : 0), 0660);

    if (fd >= 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode)) {
        if (st->st_size == 0)
            (void)fchmod(fd, 0660); /* whatever the umask, as for the state file */
        return fd;
    }
    if (fd >= 0) {
        close(fd);
        errno = EINVAL;
    }
    return -1;
}

static int fail_foreign(struct ration_error *error, const char *path)
{
    return fail(error, path, "not a lease file; it was left alone: move it away", "");
}

/* Whether the file is of another kind. Checked before a part is claimed: another worker may hold
 * the lock on the first part while it checks as well. */
static bool is_foreign(int fd)
{
    off_t at = (off_t)(offsetof(struct rn_lease_part, header) + offsetof(struct header, magic));
    uint64_t magic = 0;

    return pread(fd, &magic, sizeof magic, at) > 0 && magic != 0 && magic != MAGIC;
}

/* 0: the part is mapped, empty and the caller's. RATION_EBUSY: it has units left. */
static int claim(const char *path, int fd, unsigned number, uint64_t holder, off_t size,
                 struct rn_lease_file *out, struct ration_error *error)
{
    off_t begin = (off_t)(number * sizeof(struct rn_lease_part));
    bool exists = size >= begin + (off_t)sizeof(struct rn_lease_part);
    int failed = exists ? 0 : posix_fallocate(fd, begin, sizeof(struct rn_lease_part));
    struct rn_lease_part *part = failed == 0 ? map_part(fd, number) : NULL;
    char boot[BOOT_BYTES] = {0};

    if (!part || !read_boot(boot)) {
        if (part)
            munmap(part, sizeof *part);
        return fail(error, path, "cannot be used: ", strerror(failed ? failed : errno));
    }
    bool foreign = part->header.magic != 0 && part->header.magic != MAGIC;

    if (foreign || is_left(&part->header, boot)) {
        munmap(part, sizeof *part);
        return foreign ? fail_foreign(error, path) : RATION_EBUSY;
    }
    start_part(part, holder, boot);
    *out = file_of(part, holder, fd);
    return 0;
}

static int open_file(const char *path, uint64_t holder, struct rn_lease_file *out,
                     struct ration_error *error)
{
    struct stat st;
    int code = RATION_EBUSY, fd = open_path(path, true, &st);

    if (fd < 0)
        return fail(error, path, "cannot be opened: ", strerror(errno));
    if (is_foreign(fd)) {
        close(fd);
        return fail_foreign(error, path);
    }
    for (unsigned i = 0; i < RN_LEASE_FILE_PARTS && code == RATION_EBUSY; i++) {
        if (!set_lock(fd, i, true))
            continue;
        code = fstat(fd, &st) == 0 ? claim(path, fd, i, holder, st.st_size, out, error)
                                   : fail(error, path, "cannot be read: ", strerror(errno));
        if (code != 0)
            set_lock(fd, i, false);
    }
    if (code == RATION_EBUSY)
        fail(error, path, "all of its parts are in use", "");
    if (code != 0)
        close(fd);
    return code;
}

int rn_lease_file_open(const char *path, uint64_t holder, struct rn_lease_file *out,
                       struct ration_error *error)
{
    int code = path ? open_file(path, holder, out, error) : 0;

    if (path && code == 0)
        return 0;
    struct rn_lease_part *part = calloc(1, sizeof *part);

    *out = part ? file_of(part, holder, -1) : (struct rn_lease_file){.fd = -1};
    return code;
}

bool rn_lease_file_find(const char *path, struct rn_lease_file *out)
{
    char boot[BOOT_BYTES] = {0};
    struct stat st;
    int fd = read_boot(boot) ? open_path(path, false, &st) : -1;

    if (fd < 0)
        return false;
    for (unsigned i = 0; (off_t)((i + 1) * sizeof(struct rn_lease_part)) <= st.st_size; i++) {
        struct rn_lease_part *part = set_lock(fd, i, true) ? map_part(fd, i) : NULL;

        if (part && is_left(&part->header, boot)) {
            *out = file_of(part, part->header.holder, fd);
            return true;
        }
        if (part)
            munmap(part, sizeof *part);
        set_lock(fd, i, false);
    }
    close(fd);
    return false;
}

void rn_lease_file_close(struct rn_lease_file *file)
{
    if (!file->part)
        return;
    if (file->fd < 0) {
        free(file->part);
        return;
    }
    bool left = false;

    for (unsigned i = 0; i < RN_LEASE_FILE_RECORDS; i++)
        left |= file->records[i].state != RN_RECORD_EMPTY;
    file->part->header.open = left;
    munmap(file->part, sizeof *file->part);
    close(file->fd);
    *file = (struct rn_lease_file){.fd = -1};
}

/* --- records ---------------------------------------------------------------------------- */

/* A kill comes between two instructions: earlier stores are in the file, in this order. */
static void set_state(struct rn_lease_record *r, enum rn_lease_record_state state)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&r->state, state, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

static uint64_t check_of_record(const struct rn_lease_record *r, uint64_t holder)
{
    char text[3 + RN_CODEC_NAME + RN_CODEC_PARAMS];
    struct rn_hash_key key = {check_key.k0 ^ holder, check_key.k1};

    memcpy(text, (const char[]){(char)r->script, (char)r->name_len, (char)r->params_len}, 3);
    memcpy(text + 3, r->name, RN_CODEC_NAME);
    memcpy(text + 3 + RN_CODEC_NAME, r->params, RN_CODEC_PARAMS);
    return rn_siphash(&key, text, sizeof text);
}

void rn_lease_file_name(struct rn_lease_record *r, uint64_t holder,
                        const struct rn_lease_what *what)
{
    set_state(r, RN_RECORD_CHANGING);
    r->script = (uint8_t)what->script;
    r->name_len = (uint8_t)what->name.len;
    r->params_len = (uint8_t)what->params.len;
    memcpy(r->name, what->name.data, what->name.len);
    memcpy(r->params, what->params.data, what->params.len);
    r->check = check_of_record(r, holder);
    set_state(r, RN_RECORD_HELD);
}

/* Buckets and logs count units that were not returned as spent at the end of the lease, others at
 * its grant. A lost call may have moved that end: to later, so at worst fewer units come back. */
void rn_lease_file_note(struct rn_lease_record *r, const struct rn_lease *h, uint64_t call)
{
    bool by_end = r->script == RN_SCRIPT_LEASE_BUCKET || r->script == RN_SCRIPT_LEASE_LOG;

    set_state(r, RN_RECORD_CHANGING);
    rn_lease_file_spent(r, h->units + h->late);
    r->known = h->known;
    r->call = call;
    if (h->ends_us != 0)
        r->ends_us = h->ends_us;
    r->mark = by_end ? r->ends_us : h->mark;
    set_state(r, RN_RECORD_HELD);
}

void rn_lease_file_clear(struct rn_lease_record *r)
{
    set_state(r, RN_RECORD_EMPTY);
    rn_lease_file_spent(r, 0);
    r->known = r->call = 0;
    r->ends_us = r->mark = 0;
}

bool rn_lease_file_take(struct rn_lease_record *r, uint64_t holder, struct rn_lease_record *out)
{
    bool sound = r->state == RN_RECORD_HELD && rn_script_leases(r->script) &&
                 r->name_len <= RN_CODEC_NAME && r->params_len <= RN_CODEC_PARAMS &&
                 r->check == check_of_record(r, holder) && r->units <= r->known && r->call > 0;

    *out = *r;
    out->state = RN_RECORD_CHANGING; /* until all of it is put back */
    rn_lease_file_clear(r);
    return sound;
}

void rn_lease_file_put_back(struct rn_lease_record *r, const struct rn_lease_record *from)
{
    set_state(r, RN_RECORD_CHANGING);
    *r = *from;
    set_state(r, RN_RECORD_HELD);
}
