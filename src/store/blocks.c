/* SPDX-License-Identifier: Apache-2.0 */
#include "store/blocks.h"

#include <sched.h>
#include <stdlib.h>

#define SMALL_CLASSES 31 /* 2 to 32 words */

uint32_t rn_class_words(unsigned class)
{
    if (class < SMALL_CLASSES)
        return class + 2;
    unsigned step = class - SMALL_CLASSES;

    return (9 + step % 8) << (step / 8 + 2);
}

unsigned rn_class_of(uint32_t words)
{
    if (words <= 32)
        return words < 2 ? 0 : words - 2;
    unsigned doubling = 31 - (unsigned)__builtin_clz(words - 1) - 5; /* 33..64: 0 */
    uint32_t size = UINT32_C(4) << doubling;

    return SMALL_CLASSES + doubling * 8 + (words - (UINT32_C(32) << doubling) + size - 1) / size -
           1;
}

static uint32_t blocks_per_slab(unsigned class)
{
    return RN_SLAB_WORDS / rn_class_words(class);
}

bool rn_block_sound(const struct rn_table *table, uint64_t state)
{
    unsigned class = rn_block_class(state);
    uint32_t offset = rn_block_offset(state);

    if (class >= RN_CLASSES || offset >= table->slab_count * RN_SLAB_WORDS)
        return false;
    const struct rn_slab *slab = &table->slabs[offset / RN_SLAB_WORDS];
    uint32_t within = offset % RN_SLAB_WORDS, words = rn_class_words(class);

    return __atomic_load_n(&slab->class_plus_1, __ATOMIC_ACQUIRE) == class + 1 &&
           within % words == 0 && within / words < blocks_per_slab(class);
}

/* The version in a list's head keeps a slow pop from installing a stale next. */
static uint32_t pop(struct rn_table *table, struct rn_class_lists *lists)
{
    uint64_t head = __atomic_load_n(&lists->free, __ATOMIC_ACQUIRE);

    for (;;) {
        uint32_t first = (uint32_t)head;

        if (first == RN_NIL)
            return RN_NIL;
        uint64_t next = __atomic_load_n(&table->arena[first], __ATOMIC_RELAXED);
        uint64_t new = ((head >> 32) + 1) << 32 | (uint32_t)next;

        if (__atomic_compare_exchange_n(&lists->free, &head, new, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return first;
    }
}

void rn_block_free(struct rn_table *table, unsigned class, uint32_t offset)
{
    struct rn_class_lists *lists = &table->header->classes[class];
    uint64_t head = __atomic_load_n(&lists->free, __ATOMIC_RELAXED), new;

    do {
        __atomic_store_n(&table->arena[offset], (uint32_t)head, __ATOMIC_RELAXED);
        new = ((head >> 32) + 1) << 32 | offset;
    } while (!__atomic_compare_exchange_n(&lists->free, &head, new, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
}

/* The next block of a slab, or RN_NIL when it is used up. */
static uint32_t cut(struct rn_table *table, unsigned class, uint64_t slab)
{
    uint32_t per_slab = blocks_per_slab(class);

    if (__atomic_load_n(&table->slabs[slab].cut, __ATOMIC_RELAXED) >= per_slab)
        return RN_NIL;
    uint32_t at = __atomic_fetch_add(&table->slabs[slab].cut, 1, __ATOMIC_RELAXED);

    return at < per_slab ? (uint32_t)slab * RN_SLAB_WORDS + at * rn_class_words(class) : RN_NIL;
}

static uint64_t claim_slab(struct rn_table *table, unsigned class)
{
    for (uint64_t i = 0; i < table->slab_count; i++) {
        uint32_t none = 0;

        if (__atomic_load_n(&table->slabs[i].class_plus_1, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&table->slabs[i].class_plus_1, &none, class + 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return i;
    }
    return RN_NIL;
}

uint32_t rn_block_alloc(struct rn_table *table, unsigned class)
{
    struct rn_class_lists *lists = &table->header->classes[class];

    for (;;) {
        uint32_t offset = pop(table, lists);
        uint64_t current = __atomic_load_n(&lists->current, __ATOMIC_ACQUIRE);

        if (offset == RN_NIL && current != RN_NIL)
            offset = cut(table, class, current);
        if (offset != RN_NIL)
            return offset;
        uint64_t slab = claim_slab(table, class);

        if (slab == RN_NIL)
            return RN_NIL;
        if (!__atomic_compare_exchange_n(&lists->current, &current, slab, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED)) {
            /* Someone else installed a slab first: ours goes to the free list whole. */
            while ((offset = cut(table, class, slab)) != RN_NIL)
                rn_block_free(table, class, offset);
        }
    }
}

void rn_block_read(const struct rn_table *table, uint32_t offset, uint64_t *words, uint32_t count)
{
    const uint64_t *block = table->arena + offset;

    for (uint32_t i = 0; i < count; i++)
        words[i] = __atomic_load_n(&block[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

void rn_block_write(struct rn_table *table, uint32_t offset, const uint64_t *words, uint32_t count)
{
    uint64_t *block = table->arena + offset;

    for (uint32_t i = 0; i < count; i++)
        __atomic_store_n(&block[i], words[i], __ATOMIC_RELAXED);
}

/* A context is held for a microsecond or so; with more threads than contexts
 * one may have to look twice. */
struct rn_context *rn_context_enter(struct rn_table *table)
{
    for (unsigned i = rn_thread_index(), tries = 0;; i = (i + 1) % RN_THREADS) {
        struct rn_context *context = &table->contexts[i];

        if (__atomic_load_n(&context->busy, __ATOMIC_RELAXED) == 0 &&
            __atomic_exchange_n(&context->busy, 1, __ATOMIC_ACQUIRE) == 0)
            return context;
        if (++tries % RN_THREADS == 0)
            sched_yield();
    }
}

void rn_context_leave(struct rn_context *context)
{
    __atomic_store_n(&context->busy, 0, __ATOMIC_RELEASE);
}

void rn_contexts_drain(struct rn_table *table)
{
    for (unsigned i = 0; i < RN_THREADS; i++) {
        for (unsigned class = 0; class < RN_CLASSES; class ++) {
            uint32_t *spare = &table->contexts[i].spare_plus_1[class];

            if (*spare != 0)
                rn_block_free(table, class, *spare - 1);
            *spare = 0;
        }
    }
}

/* Marks the blocks that slots refer to, one byte per word of the arena's
 * smallest block. */
static void mark_blocks(struct rn_table *table, unsigned char *marks)
{
    struct rn_slot *slots = table->groups[0].slots;

    for (uint64_t i = 0; i < table->group_count * RN_GROUP_SLOTS; i++) {
        struct rn_slot_value v = rn_slot_load(&slots[i]);

        if (!rn_tag_has_block(v.tag))
            continue;
        if (!rn_block_sound(table, v.state) || marks[rn_block_offset(v.state) / 2]) {
            rn_slot_swap(&slots[i], v, (struct rn_slot_value){0, 0});
            continue;
        }
        marks[rn_block_offset(v.state) / 2] = 1;
    }
}

int rn_blocks_collect(struct rn_table *table)
{
    unsigned char *marks = calloc(table->slab_count * RN_SLAB_WORDS / 2 + 1, 1);

    if (!marks)
        return RATION_ENOMEM;
    mark_blocks(table, marks);
    for (unsigned class = 0; class < RN_CLASSES; class ++)
        table->header->classes[class] = (struct rn_class_lists){RN_NIL, RN_NIL};
    for (uint64_t i = 0; i < table->slab_count; i++) {
        struct rn_slab *slab = &table->slabs[i];
        unsigned class = slab->class_plus_1 - 1;

        if (slab->class_plus_1 == 0 || class >= RN_CLASSES) {
            *slab = (struct rn_slab){0};
            continue;
        }
        uint32_t words = rn_class_words(class), used = 0;

        for (uint32_t b = 0; b < blocks_per_slab(class); b++)
            used += marks[((uint32_t)i * RN_SLAB_WORDS + b * words) / 2];
        if (used == 0) {
            *slab = (struct rn_slab){0};
            continue;
        }
        slab->cut = blocks_per_slab(class);
        for (uint32_t b = 0; b < blocks_per_slab(class); b++) {
            uint32_t offset = (uint32_t)i * RN_SLAB_WORDS + b * words;

            if (!marks[offset / 2])
                rn_block_free(table, class, offset);
        }
    }
    free(marks);
    return 0;
}

uint64_t rn_blocks_bytes_used(const struct rn_table *table)
{
    uint64_t used = 0;

    for (uint64_t i = 0; i < table->slab_count; i++) {
        unsigned class = __atomic_load_n(&table->slabs[i].class_plus_1, __ATOMIC_RELAXED) - 1;
        uint32_t taken = __atomic_load_n(&table->slabs[i].cut, __ATOMIC_RELAXED);

        if (class < RN_CLASSES)
            used += 8 * (uint64_t)rn_class_words(class) *
                    (taken < blocks_per_slab(class) ? taken : blocks_per_slab(class));
    }
    return used;
}
