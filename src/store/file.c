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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/blocks.h"
#include "store/mapping.h"
#include "store/mapping_file.h"
#include "store/slots.h"

#define DEFAULT_BYTES (UINT64_C(64) << 20)
#define fail(o, ...) rn_mapping_file_fail(&(o)->file, __VA_ARGS__)

/* What one call of open was asked for, and where it reports errors. */
struct opening {
    struct rn_mapping_file file;
    uint64_t bytes;
    double block_share;
    bool keep_share;
    struct rn_table **out;
};

/* Creates a complete, mapped file beside the path, under a temporary name that it
 * leaves in `name`. */
static struct rn_table *new_file(struct opening *o, char name[RN_MAPPING_PATH_BYTES])
{
    struct rn_table *table = NULL;
    int fd = rn_mapping_file_new(&o->file, o->bytes, name);
    void *mapping = fd < 0 ? NULL : rn_mapping_new(o->bytes, fd);

    if (fd < 0)
        return NULL;
    if (mapping && rn_mapping_init(mapping, o->bytes, o->block_share) == 0)
        table = rn_mapping_table_new(mapping, fd);
    if (!table) {
        fail(o, RATION_EIO, "cannot be mapped: %s", strerror(errno));
        if (mapping)
            munmap(mapping, o->bytes);
        close(fd);
        unlink(name);
    }
    return table;
}

static enum rn_attempt create_file(struct opening *o)
{
    char name[RN_MAPPING_PATH_BYTES];
    struct rn_table *table = new_file(o, name);
    enum rn_attempt attempt = table ? rn_mapping_file_place(&o->file, name) : RN_ATTEMPT_FAILED;

    if (table)
        rn_mapping_table_free(table);
    return attempt;
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
static enum rn_attempt rebuild(struct opening *o, const struct rn_table *old)
{
    char name[RN_MAPPING_PATH_BYTES];
    struct rn_table *table = new_file(o, name);
    const struct rn_slot *slots = old->groups[0].slots;
    int64_t now = rn_table_now(old);

    if (!table)
        return RN_ATTEMPT_FAILED;
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
    enum rn_attempt attempt = RN_ATTEMPT_AGAIN;

    if (rename(name, o->file.path) != 0) {
        attempt = fail(o, RATION_EIO, "cannot be replaced: %s", strerror(errno));
        unlink(name);
    }
    rn_mapping_table_free(table);
    return attempt;
}

static enum rn_attempt check_header(struct opening *o, int fd, struct rn_header *h)
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
    return RN_ATTEMPT_OPENED;
}

/* Sets the time line if this process is alone, else checks it. A file whose time line lies in the
 * future is set aside: every wait would be wrong, and live counters look like stale ones. */
static enum rn_attempt resume(struct opening *o, struct rn_anchor *anchor, bool alone)
{
    enum rn_resumed resumed = alone                        ? rn_anchor_resume(anchor)
                              : rn_anchor_is_sound(anchor) ? RN_RESUMED
                                                           : RN_RESUMED_DAMAGED;
    char name[RN_MAPPING_PATH_BYTES];

    switch (resumed) {
    case RN_RESUMED:
        break;
    case RN_RESUMED_MENDED:
        fail(o, 0,
             "part of its clock was damaged, by a crash or the disk, and was restored from a copy");
        break;
    case RN_RESUMED_AHEAD:
        if (snprintf(name, sizeof name, "%s.aside-%" PRId64, o->file.path,
                     rn_clock_wall_ns() / RN_SECOND_NS) >= (int)sizeof name ||
            rename(o->file.path, name) != 0)
            return fail(o, RATION_EIO,
                        "more than a day ahead of the wall clock, and cannot be set "
                        "aside: %s",
                        strerror(errno));
        fail(o, 0, "more than a day ahead of the wall clock; set aside as \"%s\"", name);
        return RN_ATTEMPT_AGAIN;
    case RN_RESUMED_DAMAGED:
        return fail(o, RATION_ETORN, "its clock is damaged; it was left alone: move it away");
    }
    return RN_ATTEMPT_OPENED;
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
static enum rn_attempt use_file(struct opening *o, int fd, const struct rn_header *h, bool alone)
{
    bool old = h->version != RN_LAYOUT_VERSION;
    bool resize =
        old || (o->bytes != 0 && o->bytes != h->bytes) || (o->block_share != 0 && h->slabs == 0);
    void *mapping;
    struct rn_table *table;
    enum rn_attempt attempt;

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
    table->path = realpath(o->file.path, NULL);
    attempt = resume(o, &table->header->anchor, alone);
    if (attempt == RN_ATTEMPT_OPENED && (!table->path || (alone && rn_blocks_collect(table) != 0)))
        attempt = fail(o, RATION_ENOMEM, "out of memory");
    if (attempt == RN_ATTEMPT_OPENED && (resize || (alone && divide_again(o, table)))) {
        o->bytes = o->bytes ? o->bytes : h->bytes;
        if (o->block_share == 0) /* a process that needs no blocks must not take them from others */
            o->block_share =
                (double)(h->slabs * h->slab_words * 8) * 100 / (double)(h->bytes - RN_BOARD_BYTES);
        attempt = rebuild(o, table);
    } else if (attempt == RN_ATTEMPT_OPENED && alone) {
        attempt = rn_mapping_file_share(&o->file, fd);
    }
    if (attempt == RN_ATTEMPT_OPENED)
        *o->out = table;
    else
        table->fd = -1, rn_mapping_table_free(table); /* the caller closes fd */
    return attempt;
}

static enum rn_attempt try_open(void *arg)
{
    struct opening *o = arg;
    struct rn_header header;
    bool alone;
    int fd;
    enum rn_attempt attempt = rn_mapping_file_lock(&o->file, &fd, &alone);

    if (attempt == RN_ATTEMPT_OPENED && fd < 0) {
        uint64_t asked = o->bytes;

        o->bytes = asked ? asked : DEFAULT_BYTES;
        attempt = create_file(o);
        o->bytes = asked;
        return attempt;
    }
    if (attempt == RN_ATTEMPT_OPENED)
        attempt = check_header(o, fd, &header);
    if (attempt == RN_ATTEMPT_OPENED)
        attempt = use_file(o, fd, &header, alone);
    if (attempt != RN_ATTEMPT_OPENED && fd >= 0)
        close(fd);
    return attempt;
}

int rn_table_check_file(const struct rn_table *table, struct ration_error *error)
{
    struct rn_mapping_file named = {"state file", table->path, error};

    return table->fd < 0 ? 0 : rn_mapping_file_check(&named, table->fd, table->bytes);
}

int rn_table_open(const struct rn_table_options *options, struct rn_table **out,
                  struct ration_error *error)
{
    struct ration_error unused;
    struct opening o = {.file = {"state file", options->path, error ? error : &unused},
                        .bytes = options->bytes / RN_PAGE * RN_PAGE,
                        .block_share = options->block_share,
                        .keep_share = options->keep_share,
                        .out = out};

    *o.file.error = (struct ration_error){0};
    if (options->bytes != 0 && options->bytes < RN_TABLE_BYTES_MIN)
        fail(&o, RATION_EINVAL, "%" PRIu64 " bytes of memory; at least %" PRIu64 " are needed",
             options->bytes, RN_TABLE_BYTES_MIN);
    else if (options->bytes > RN_TABLE_BYTES_MAX)
        fail(&o, RATION_EINVAL, "a size of %" PRIu64 " bytes is more than 16 TiB", options->bytes);
    else if (!(options->block_share >= 0 && options->block_share <= RN_TABLE_SHARE_MAX))
        fail(&o, RATION_EINVAL, "%g percent for blocks; at most %g leave room for keys",
             options->block_share, RN_TABLE_SHARE_MAX);
    if (o.file.error->code != 0)
        return o.file.error->code;
    if (options->path)
        return rn_mapping_file_try(&o.file, try_open, &o);
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
