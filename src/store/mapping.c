/* SPDX-License-Identifier: Apache-2.0 */
#include "store/mapping.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "store/blocks.h"

#define SLABS_MAX (RN_NIL / RN_SLAB_WORDS) /* offsets of blocks have 32 bits */
#define HUGE_PAGE (UINT64_C(2) << 20)      /* the size that matters; others do no harm */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; the C library may be older */
#endif
#define CONTEXTS_BYTES (RN_THREADS * sizeof(struct rn_context))

uint64_t rn_header_check(const struct rn_header *header)
{
    static const struct rn_hash_key fixed = {RN_MAGIC, RN_LAYOUT_VERSION};

    return rn_siphash(&fixed, header, RN_CHECKED_BYTES);
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* Where everything is in a table of `bytes` with so many slabs. */
static void lay_out(struct rn_header *h, uint64_t bytes, uint64_t slabs)
{
    h->bytes = bytes;
    h->slabs = slabs;
    h->slabs_at = round_up(sizeof *h, RN_PAGE);
    h->groups_at = h->slabs_at + round_up(h->slabs * sizeof(struct rn_slab), RN_PAGE);
    h->groups = (bytes - h->groups_at - h->slabs * RN_SLAB_BYTES) / sizeof(struct rn_group);
    h->arena_at = h->groups_at + h->groups * sizeof(struct rn_group);
}

bool rn_header_is_sound(const struct rn_header *h)
{
    struct rn_header right;

    if (h->check != rn_header_check(h) || h->bytes < RN_TABLE_BYTES_MIN ||
        h->bytes > RN_TABLE_BYTES_MAX || h->bytes % RN_PAGE != 0 ||
        h->slabs > h->bytes / RN_SLAB_BYTES || h->slabs > SLABS_MAX)
        return false;
    lay_out(&right, h->bytes, h->slabs);
    return h->groups != 0 && h->groups == right.groups && h->slabs_at == right.slabs_at &&
           h->groups_at == right.groups_at && h->arena_at == right.arena_at &&
           h->arena_at + h->slabs * RN_SLAB_BYTES <= h->bytes;
}

int rn_mapping_init(void *mapping, uint64_t bytes, unsigned block_share)
{
    struct rn_header *h = mapping;
    uint64_t slabs = bytes / 100 * block_share / RN_SLAB_BYTES;

    h->magic = RN_MAGIC;
    h->version = RN_LAYOUT_VERSION;
    h->header_bytes = sizeof *h;
    lay_out(h, bytes, block_share != 0 && slabs == 0 ? 1 : slabs < SLABS_MAX ? slabs : SLABS_MAX);
    if (getrandom(&h->secret, sizeof h->secret, 0) != sizeof h->secret)
        return RATION_EIO;
    h->check = rn_header_check(h);
    rn_anchor_init(&h->anchor);
    for (unsigned i = 0; i < RN_CLASSES; i++)
        h->classes[i] = (struct rn_class_lists){RN_NIL, RN_NIL};
    return 0;
}

/* Where a huge page can begin: `bytes` of room that nothing uses, or NULL. */
static char *reserve(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), used = round_up(bytes, page);
    char *room =
        mmap(NULL, used + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint64_t before = (HUGE_PAGE - (uintptr_t)room % HUGE_PAGE) % HUGE_PAGE;

    if (room == MAP_FAILED)
        return NULL;
    if (before != 0)
        munmap(room, before);
    munmap(room + before + used, HUGE_PAGE - before);
    return room + before;
}

/* Advice: one TLB miss in place of many, where it is heeded. A file in memory has huge
 * pages if told at once to have them, whatever its file system was mounted with; other
 * files have none. Whoever comes later finds them there. */
static void ask_for_huge_pages(void *mapping, uint64_t bytes, bool file)
{
    madvise(mapping, bytes, MADV_HUGEPAGE);
    if (file)
        madvise(mapping, bytes, MADV_COLLAPSE);
}

void *rn_mapping_new(uint64_t bytes, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    char *at = reserve(bytes);
    void *mapping = mmap(at, bytes, PROT_READ | PROT_WRITE, at ? flags | MAP_FIXED : flags, fd, 0);

    if (mapping == MAP_FAILED) {
        if (at)
            munmap(at, bytes);
        return NULL;
    }
    ask_for_huge_pages(mapping, bytes, fd >= 0);
    return mapping;
}

/* Of the contexts, only what is used takes memory. */
struct rn_table *rn_table_new(void *mapping, int fd)
{
    struct rn_table *table = calloc(1, sizeof *table);
    void *contexts = mmap(NULL, CONTEXTS_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!table || contexts == MAP_FAILED ||
        madvise(contexts, CONTEXTS_BYTES, MADV_WIPEONFORK) != 0) {
        if (contexts != MAP_FAILED)
            munmap(contexts, CONTEXTS_BYTES);
        free(table);
        return NULL;
    }
    table->contexts = contexts;
    rn_table_attach(table, mapping, fd);
    return table;
}

void rn_table_free(struct rn_table *table)
{
    munmap(table->header, table->bytes);
    munmap(table->contexts, CONTEXTS_BYTES);
    if (table->fd >= 0)
        close(table->fd);
    free(table->path);
    free(table);
}

void rn_table_close(struct rn_table *table)
{
    if (!table)
        return;
    rn_contexts_drain(table);
    rn_anchor_refresh(&table->header->anchor, rn_table_now(table));
    rn_table_free(table);
}
