/* SPDX-License-Identifier: Apache-2.0 */
#include "store/side_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/layout.h"
#include "store/mapping.h"
#include "store/mapping_file.h"

#define fail(o, ...) rn_mapping_file_fail(&(o)->file, __VA_ARGS__)

struct side_header {
    /* fixed at creation, covered by the check sum */
    uint64_t magic;
    uint32_t version, header_bytes;
    uint64_t bytes, id;
    uint64_t check;
    /* changes when another table adopts the file */
    uint64_t owner;
};

/* One call of open. */
struct opening {
    struct rn_mapping_file file;
    const struct rn_side_file_plan *plan;
    uint64_t bytes;
    bool does_not_fit; /* what is in the file */
    struct rn_side_file *out;
};

uint64_t rn_side_file_owner(const struct rn_table *table)
{
    return rn_siphash(rn_table_secret(table), "side file", 9);
}

static uint64_t check_of(const struct side_header *h)
{
    const struct rn_hash_key fixed = {h->magic, h->version};

    return rn_siphash(&fixed, h, offsetof(struct side_header, check));
}

static void point_at(struct rn_side_file *file, void *mapping, const struct side_header *h)
{
    file->mapping = mapping;
    file->data = (char *)mapping + RN_SIDE_FILE_HEAD;
    file->bytes = h->bytes - RN_SIDE_FILE_HEAD;
    file->id = h->id;
}

/* Fills zeroed memory. False: there are no random numbers. */
static bool init_header(struct side_header *h, const struct opening *o, uint64_t id)
{
    *h = (struct side_header){.magic = o->plan->magic,
                              .version = o->plan->version,
                              .header_bytes = sizeof *h,
                              .bytes = o->bytes,
                              .id = id,
                              .owner = o->plan->owner};
    while (h->id == 0)
        if (getrandom(&h->id, sizeof h->id, 0) != sizeof h->id)
            return false;
    h->check = check_of(h);
    return true;
}

/* Makes a complete file under another name, with what was in `old` (NULL: nothing). */
static bool make_file(struct opening *o, const struct rn_side_file *old,
                      char name[RN_MAPPING_PATH_BYTES])
{
    int fd = rn_mapping_file_new(&o->file, o->bytes, name);
    char *mapping = fd < 0 ? NULL : rn_mapping_new(o->bytes, fd);
    bool made = mapping && init_header((void *)mapping, o, old ? old->id : 0);

    if (fd < 0)
        return false;
    if (!made)
        fail(o, RATION_EIO, "cannot be mapped: %s", strerror(errno));
    else if (old && !o->plan->move(mapping + RN_SIDE_FILE_HEAD, o->bytes - RN_SIDE_FILE_HEAD,
                                   old->data, old->bytes))
        o->does_not_fit = true, made = false;
    if (mapping)
        munmap(mapping, o->bytes);
    close(fd);
    if (!made)
        unlink(name);
    return made;
}

/* Puts a new file in the place of one that this process alone has open. */
static enum rn_attempt replace(struct opening *o, const struct rn_side_file *old)
{
    char name[RN_MAPPING_PATH_BYTES];

    if (!make_file(o, old, name))
        return RN_ATTEMPT_FAILED;
    if (rename(name, o->file.path) == 0)
        return RN_ATTEMPT_AGAIN;
    fail(o, RATION_EIO, "cannot be replaced: %s", strerror(errno));
    unlink(name);
    return RN_ATTEMPT_FAILED;
}

static enum rn_attempt check_header(const struct opening *o, int fd, struct side_header *h)
{
    struct stat st;
    ssize_t got = pread(fd, h, sizeof *h, 0);

    if (got < 0 || fstat(fd, &st) != 0)
        return fail(o, RATION_EIO, "cannot be read: %s", strerror(errno));
    if ((size_t)got < sizeof h->magic || h->magic != o->plan->magic)
        return fail(o, RATION_EFOREIGN, "not a %s of ration; it was left alone: move it away",
                    o->plan->what);
    if ((size_t)got < sizeof *h)
        return fail(o, RATION_ETORN, "cut off within its header; it was left alone: move it away");
    if (h->version != o->plan->version || h->header_bytes != sizeof *h)
        return fail(o, RATION_EVERSION,
                    "layout version %u where this library reads %u; it was left alone: use the "
                    "version that wrote it or move it away",
                    h->version, o->plan->version);
    if (h->check != check_of(h) || h->bytes < RN_SIDE_FILE_BYTES_MIN || h->bytes % RN_PAGE != 0)
        return fail(o, RATION_ETORN, "its header is damaged; it was left alone: move it away");
    if ((uint64_t)st.st_size != h->bytes)
        return fail(o, RATION_ETORN,
                    "%" PRIu64 " bytes long where its header says %" PRIu64
                    "; it was left alone: move it away",
                    (uint64_t)st.st_size, h->bytes);
    return RN_ATTEMPT_OPENED;
}

/* The file is sound and locked: exclusively if `alone`. */
static enum rn_attempt use_file(struct opening *o, int fd, const struct side_header *h, bool alone)
{
    bool mine = h->owner == o->plan->owner, other_size = o->plan->move && h->bytes != o->bytes;
    struct rn_side_file file = {.alone = alone, .what = o->plan->what, .fd = fd};
    void *mapping;
    enum rn_attempt attempt = RN_ATTEMPT_OPENED;

    if (!mine && !alone)
        return fail(o, RATION_EBUSY,
                    "in use beside another state file than this one; give each state file a name "
                    "of its own");
    if (!mine && !o->plan->adopt)
        return replace(o, NULL);
    mapping = rn_mapping_new(h->bytes, fd);
    file.path = realpath(o->file.path, NULL);
    if (!mapping || !file.path) {
        attempt = fail(o, RATION_ENOMEM, "cannot be mapped: %s", strerror(errno));
    } else {
        point_at(&file, mapping, h);
        if (!mine)
            ((struct side_header *)mapping)->owner = o->plan->owner;
        if (other_size && alone && !o->does_not_fit)
            attempt = replace(o, &file);
        if (alone && (!other_size || o->does_not_fit))
            attempt = rn_mapping_file_share(&o->file, fd);
    }
    if (attempt == RN_ATTEMPT_OPENED) {
        *o->out = file;
        if (o->does_not_fit)
            fail(o, 0,
                 "keeps its size of %" PRIu64 " bytes, as what is in it does not fit %" PRIu64,
                 h->bytes, o->bytes);
        else if (other_size)
            fail(o, 0,
                 "in use with %" PRIu64
                 " bytes, and keeps that size; stop all its users to give it "
                 "%" PRIu64,
                 h->bytes, o->bytes);
        return attempt;
    }
    if (mapping)
        munmap(mapping, h->bytes);
    free(file.path);
    return attempt;
}

static enum rn_attempt try_open(void *arg)
{
    struct opening *o = arg;
    struct side_header header;
    char name[RN_MAPPING_PATH_BYTES];
    bool alone;
    int fd;
    enum rn_attempt attempt = rn_mapping_file_lock(&o->file, &fd, &alone);

    if (attempt == RN_ATTEMPT_OPENED && fd < 0)
        return make_file(o, NULL, name) ? rn_mapping_file_place(&o->file, name) : RN_ATTEMPT_FAILED;
    if (attempt == RN_ATTEMPT_OPENED)
        attempt = check_header(o, fd, &header);
    if (attempt == RN_ATTEMPT_OPENED)
        attempt = use_file(o, fd, &header, alone);
    if (attempt != RN_ATTEMPT_OPENED && fd >= 0)
        close(fd);
    return attempt;
}

int rn_side_file_open(const struct rn_side_file_plan *plan, struct rn_side_file *file,
                      struct ration_error *error)
{
    struct ration_error unused;
    struct side_header header;
    struct opening o = {.file = {plan->what, plan->path, error ? error : &unused},
                        .plan = plan,
                        .bytes = plan->bytes / RN_PAGE * RN_PAGE,
                        .out = file};

    *o.file.error = (struct ration_error){0};
    if (o.bytes < RN_SIDE_FILE_BYTES_MIN || o.bytes > RN_SIDE_FILE_BYTES_MAX) {
        fail(&o, RATION_EINVAL, "%" PRIu64 " bytes; give it %" PRIu64 " to %" PRIu64, plan->bytes,
             RN_SIDE_FILE_BYTES_MIN, RN_SIDE_FILE_BYTES_MAX);
        return RATION_EINVAL;
    }
    if (plan->path)
        return rn_mapping_file_try(&o.file, try_open, &o);
    void *mapping = rn_mapping_new(o.bytes, -1);

    if (!mapping || !init_header(&header, &o, 0)) {
        fail(&o, RATION_ENOMEM, "%s: cannot reserve %" PRIu64 " bytes of memory: %s", plan->what,
             o.bytes, strerror(errno));
        return RATION_ENOMEM;
    }
    *(struct side_header *)mapping = header;
    *file = (struct rn_side_file){.alone = true, .what = plan->what, .fd = -1};
    point_at(file, mapping, &header);
    return 0;
}

int rn_side_file_read(const struct rn_side_file_plan *plan, struct rn_side_file *file,
                      struct ration_error *error)
{
    struct ration_error unused;
    struct opening o = {.file = {plan->what, plan->path, error ? error : &unused}, .plan = plan};
    struct side_header header;
    int fd = open(plan->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    void *mapping = MAP_FAILED;

    *o.file.error = (struct ration_error){0};
    if (fd < 0)
        fail(&o, RATION_EIO, "cannot be opened: %s", strerror(errno));
    else if (check_header(&o, fd, &header) == RN_ATTEMPT_OPENED &&
             (mapping = mmap(NULL, header.bytes, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED)
        fail(&o, RATION_ENOMEM, "cannot be mapped: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    if (mapping == MAP_FAILED)
        return o.file.error->code;
    *file = (struct rn_side_file){.what = plan->what, .fd = -1};
    point_at(file, mapping, &header);
    return 0;
}

void rn_side_file_close(struct rn_side_file *file)
{
    if (file->mapping) {
        munmap(file->mapping, file->bytes + RN_SIDE_FILE_HEAD);
        if (file->fd >= 0)
            close(file->fd);
    }
    free(file->path);
    *file = (struct rn_side_file){.fd = -1};
}

int rn_side_file_check(const struct rn_side_file *file, struct ration_error *error)
{
    struct rn_mapping_file named = {file->what, file->path, error};

    return file->path ? rn_mapping_file_check(&named, file->fd, file->bytes + RN_SIDE_FILE_HEAD)
                      : 0;
}
