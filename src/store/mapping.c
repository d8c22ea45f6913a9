/* SPDX-License-Identifier: Apache-2.0 */
#include "store/mapping.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "store/blocks.h"
#include "store/sweep.h"

#define SLABS_WANTED 1024
#define ARENA_MIN (UINT64_C(64) << 10)
#define GROUPS_MIN 32
#define HUGE_PAGE (UINT64_C(2) << 20) /* the size that matters; others do no harm */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; the C library may be older */
#endif
#define CONTEXTS_BYTES (RN_THREADS * sizeof(struct rn_context))

uint64_t rn_mapping_header_check(const struct rn_header *header)
{
    const struct rn_hash_key fixed = {RN_MAGIC, header->version};

    return rn_siphash(&fixed, header, RN_CHECKED_BYTES);
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static uint64_t board_end(uint32_t version)
{
    return round_up(sizeof(struct rn_header), RN_PAGE) +
           (version == RN_LAYOUT_OLDEST ? 0 : RN_BOARD_BYTES);
}

/* The layout of a table of `bytes` with this number of slabs; h->version is set. */
static void lay_out(struct rn_header *h, uint64_t bytes, uint64_t slabs, uint64_t slab_words)
{
    h->bytes = bytes;
    h->slabs = slabs;
    h->slab_words = slab_words;
    h->slabs_at = board_end(h->version);
    h->groups_at = h->slabs_at + round_up(h->slabs * sizeof(uint64_t), RN_PAGE);
    h->groups = (bytes - h->groups_at - h->slabs * h->slab_words * 8) / sizeof(struct rn_group);
    h->arena_at = h->groups_at + h->groups * sizeof(struct rn_group);
}

void rn_mapping_plan(struct rn_header *h, uint64_t bytes, double block_share)
{
    uint64_t arena = (uint64_t)((double)(bytes - RN_BOARD_BYTES) * block_share / 100), slabs;
    uint64_t least = board_end(RN_LAYOUT_VERSION) + RN_PAGE + GROUPS_MIN * sizeof(struct rn_group);
    uint32_t slab_words = RN_SLAB_WORDS_MIN;

    h->version = RN_LAYOUT_VERSION;

    if (arena != 0 && arena < ARENA_MIN)
        arena = ARENA_MIN;
    if (arena > bytes - bytes / 256 - least) /* and a word for each slab */
        arena = bytes - bytes / 256 - least;
    /* Small against the arena, so that one that is partly used in each class takes little. */
    while (slab_words < RN_SLAB_WORDS_MAX && arena / (UINT64_C(16) * slab_words) >= SLABS_WANTED)
        slab_words *= 2;
    slabs = arena / (8 * slab_words);
    lay_out(h, bytes, slabs < RN_NIL / slab_words ? slabs : RN_NIL / slab_words, slab_words);
}

bool rn_mapping_header_is_sound(const struct rn_header *h)
{
    struct rn_header right = {.version = h->version};

    if (h->check != rn_mapping_header_check(h) || h->bytes < RN_TABLE_BYTES_MIN ||
        h->bytes > RN_TABLE_BYTES_MAX || h->bytes % RN_PAGE != 0 ||
        h->slab_words < RN_SLAB_WORDS_MIN || h->slab_words > RN_SLAB_WORDS_MAX ||
        (h->slab_words & (h->slab_words - 1)) != 0 || h->slabs > RN_NIL / h->slab_words ||
        h->slabs > h->bytes / (8 * h->slab_words))
        return false;
    lay_out(&right, h->bytes, h->slabs, h->slab_words);
    return h->groups != 0 && h->groups == right.groups && h->slabs_at == right.slabs_at &&
           h->groups_at == right.groups_at && h->arena_at == right.arena_at &&
           h->arena_at + h->slabs * h->slab_words * 8 <= h->bytes;
}

int rn_mapping_init(void *mapping, uint64_t bytes, double block_share)
{
    struct rn_header *h = mapping;

    h->magic = RN_MAGIC;
    h->header_bytes = sizeof *h;
    rn_mapping_plan(h, bytes, block_share);
    if (getrandom(&h->secret, sizeof h->secret, 0) != sizeof h->secret)
        return RATION_EIO;
    h->check = rn_mapping_header_check(h);
    rn_anchor_init(&h->anchor);
    h->slabs_free = h->slabs;
    return 0;
}

/* Begins where a huge page can begin, in room that is reserved first. */
void *rn_mapping_new(uint64_t bytes, int fd)
{
    const int unbacked = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    int flags = fd < 0 ? unbacked : MAP_SHARED;
    uint64_t used = round_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
    char *room = mmap(NULL, used + HUGE_PAGE, PROT_NONE, unbacked, -1, 0), *at = NULL;

    if (room != MAP_FAILED) {
        uint64_t before = (HUGE_PAGE - (uintptr_t)room % HUGE_PAGE) % HUGE_PAGE;

        at = room + before;
        if (before != 0)
            munmap(room, before);
        munmap(at + used, HUGE_PAGE - before);
    }
    void *mapping = mmap(at, bytes, PROT_READ | PROT_WRITE, at ? flags | MAP_FIXED : flags, fd, 0);

    if (mapping == MAP_FAILED) {
        if (at)
            munmap(at, bytes);
        return NULL;
    }
    /* Huge pages cost one TLB miss instead of many. A file on tmpfs gets them only if asked at
     * once, however it is mounted; other files have none. Processes that map the file later find
     * them there. */
    madvise(mapping, bytes, MADV_HUGEPAGE);
    if (fd >= 0)
        madvise(mapping, bytes, MADV_COLLAPSE);
    return mapping;
}

/* A child must not use the spare blocks of its parent. The kernel empties the contexts in a child,
 * also after a plain clone(2); where it does not, handlers of fork(3) do: Linux before 4.14 and
 * gVisor do not know MADV_WIPEONFORK, and qemu-user ignores it. */
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rn_table *tables; /* of this process */
static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;
static int handlers_error;

static void lock_tables(void)
{
    pthread_mutex_lock(&tables_lock);
}

static void unlock_tables(void)
{
    pthread_mutex_unlock(&tables_lock);
}

/* Writes only what is not 0: pages that were never used take no memory. */
static void forget_spares(void)
{
    for (struct rn_table *table = tables; table; table = table->next)
        for (unsigned i = 0; i < RN_THREADS; i++) {
            struct rn_context *context = &table->contexts[i];

            if (context->busy != 0)
                context->busy = 0;
            for (unsigned class = 0; class < RN_CLASSES; class ++)
                if (context->spare_plus_1[class] != 0)
                    context->spare_plus_1[class] = 0;
        }
    unlock_tables();
}

static void set_handlers(void)
{
    handlers_error = pthread_atfork(lock_tables, unlock_tables, forget_spares);
}

/* Of the contexts, only what is used takes memory. */
struct rn_table *rn_mapping_table_new(void *mapping, int fd)
{
    struct rn_table *table = aligned_alloc(_Alignof(struct rn_table), sizeof *table);
    void *contexts = mmap(NULL, CONTEXTS_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    pthread_once(&handlers_once, set_handlers);
    if (!table || contexts == MAP_FAILED || handlers_error != 0) {
        if (contexts != MAP_FAILED)
            munmap(contexts, CONTEXTS_BYTES);
        free(table);
        return NULL;
    }
    madvise(contexts, CONTEXTS_BYTES, MADV_WIPEONFORK);
    *table = (struct rn_table){.contexts = contexts, .sweep.credit = RN_SWEEP_CREDIT_MAX};
    rn_table_attach(table, mapping, fd);
    lock_tables();
    table->next = tables;
    tables = table;
    unlock_tables();
    return table;
}

void rn_mapping_table_free(struct rn_table *table)
{
    struct rn_table **at = &tables;

    lock_tables();
    while (*at != table)
        at = &(*at)->next;
    *at = table->next;
    unlock_tables();
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
    rn_blocks_contexts_drain(table);
    rn_anchor_refresh(&table->header->anchor, rn_table_now(table));
    rn_mapping_table_free(table);
}
