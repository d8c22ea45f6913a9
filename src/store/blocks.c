/* SPDX-License-Identifier: Apache-2.0 */
#include "store/blocks.h"

#include <sched.h>

#define SMALL_CLASSES 31 /* 2 to 32 words */
/* A thread keeps a spare of blocks up to this part of a slab. */
#define SPARE_PART 8

uint32_t rn_blocks_class_words(unsigned class)
{
    if (class < SMALL_CLASSES)
        return class + 2;
    unsigned step = class - SMALL_CLASSES;

    return (9 + step % 8) << (step / 8 + 2);
}

unsigned rn_blocks_class_of(uint32_t words)
{
    if (words <= 32)
        return words < 2 ? 0 : words - 2;
    unsigned doubling = 31 - (unsigned)__builtin_clz(words - 1) - 5; /* 33..64: 0 */
    uint32_t size = UINT32_C(4) << doubling;

    return SMALL_CLASSES + doubling * 8 + (words - (UINT32_C(32) << doubling) + size - 1) / size -
           1;
}

/* The numbers of the slabs lie two to a word. The root has at least the first
 * word of the state, which tells when it is idle. */
struct rn_block_shape rn_block_shape(uint32_t slab_words, unsigned class)
{
    uint32_t words = rn_blocks_class_words(class);

    if (words <= slab_words)
        return (struct rn_block_shape){.root = class, .own = words};
    struct rn_block_shape shape = {.slabs = (words - 1) / slab_words};

    shape.own = words - shape.slabs * slab_words;
    if (shape.own + (shape.slabs + 1) / 2 > slab_words)
        shape.slabs++, shape.own = 1;
    shape.root = rn_blocks_class_of(shape.own + (shape.slabs + 1) / 2);
    return shape;
}

double rn_block_cost(uint32_t slab_words, unsigned class)
{
    struct rn_block_shape shape = rn_block_shape(slab_words, class);
    uint32_t per_slab = slab_words / rn_blocks_class_words(shape.root);

    return ((double)shape.slabs + 1.0 / per_slab) * slab_words;
}

static uint64_t slab_word(uint64_t before, unsigned class, uint64_t first, uint64_t used)
{
    return ((before >> 32) + 1) << 32 | (before & RN_SLAB_DRAIN) | (uint64_t)(class + 1) << 24 |
           first << 12 | used;
}

static bool root_sound(const struct rn_table *table, unsigned class, uint32_t offset)
{
    uint32_t slab = offset >> table->slab_shift, within = offset & (table->slab_words - 1);
    uint32_t words = rn_blocks_class_words(class);

    return slab < table->slab_count &&
           rn_slab_class(__atomic_load_n(&table->slabs[slab], __ATOMIC_ACQUIRE)) == class &&
           within % words == 0 && within + words <= table->slab_words;
}

uint32_t rn_block_piece(const struct rn_table *table, const struct rn_block_shape *shape,
                        uint32_t root, uint32_t i)
{
    uint64_t pair = __atomic_load_n(&table->arena[root + shape->own + i / 2], __ATOMIC_RELAXED);

    return (uint32_t)(pair >> (i % 2 * 32));
}

bool rn_block_sound(const struct rn_table *table, uint64_t state)
{
    unsigned class = rn_block_class(state);
    uint32_t offset = rn_block_offset(state);

    if (class >= RN_CLASSES)
        return false;
    if (class <= table->class_whole)
        return root_sound(table, class, offset);
    struct rn_block_shape shape = rn_block_shape(table->slab_words, class);

    if (!root_sound(table, shape.root, offset))
        return false;
    for (uint32_t i = 0; i < shape.slabs; i++) {
        uint32_t slab = rn_block_piece(table, &shape, offset, i);

        if (slab >= table->slab_count ||
            rn_slab_class(__atomic_load_n(&table->slabs[slab], __ATOMIC_ACQUIRE)) !=
                table->class_whole)
            return false;
    }
    return true;
}

static void add_loose(struct rn_table *table, unsigned class, uint32_t blocks)
{
    __atomic_fetch_add(&table->header->loose[class].blocks, blocks, __ATOMIC_RELAXED);
}

static void hint(struct rn_table *table, unsigned class, uint32_t slab)
{
    __atomic_store_n(&table->header->loose[class].slab, slab, __ATOMIC_RELAXED);
}

/* The version in a slab's word keeps a slow pop from installing a stale next. */
static uint32_t pop(struct rn_table *table, unsigned class, uint32_t slab)
{
    uint64_t word = __atomic_load_n(&table->slabs[slab], __ATOMIC_ACQUIRE), new;
    uint32_t words = rn_blocks_class_words(class), offset;

    do {
        if (rn_slab_class(word) != class || rn_slab_first(word) == RN_SLAB_END ||
            word & RN_SLAB_DRAIN)
            return RN_NIL;
        offset = slab * table->slab_words + (uint32_t)rn_slab_first(word) * words;
        if (rn_slab_first(word) >= rn_slab_blocks(table, class))
            return RN_NIL; /* damaged */
        uint64_t next = __atomic_load_n(&table->arena[offset], __ATOMIC_RELAXED);

        new =
            slab_word(word, class, next < RN_SLAB_END ? next : RN_SLAB_END, rn_slab_used(word) + 1);
    } while (!__atomic_compare_exchange_n(&table->slabs[slab], &word, new, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    add_loose(table, class, UINT32_MAX);
    return offset;
}

static void push(struct rn_table *table, unsigned class, uint32_t offset)
{
    struct rn_header *h = table->header;
    uint32_t slab = offset >> table->slab_shift, words = rn_blocks_class_words(class);
    uint64_t word = __atomic_load_n(&table->slabs[slab], __ATOMIC_RELAXED), new;

    do {
        if (rn_slab_class(word) != class)
            return; /* damaged */
        __atomic_store_n(&table->arena[offset], rn_slab_first(word), __ATOMIC_RELAXED);
        new = rn_slab_used(word) > 1
                  ? slab_word(word, class, (offset & (table->slab_words - 1)) / words,
                              rn_slab_used(word) - 1)
                  : ((word >> 32) + 1) << 32;
    } while (!__atomic_compare_exchange_n(&table->slabs[slab], &word, new, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    if (rn_slab_used(word) > 1 && !(word & RN_SLAB_DRAIN)) {
        add_loose(table, class, 1);
        hint(table, class, slab);
    }
    if (rn_slab_used(word) > 1)
        return;
    if (!(word & RN_SLAB_DRAIN))
        add_loose(table, class, 1 - rn_slab_blocks(table, class));
    __atomic_fetch_add(&h->slabs_free, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&h->slab_last_freed, slab, __ATOMIC_RELAXED);
}

uint32_t rn_block_alloc_loose(struct rn_table *table, unsigned class)
{
    const struct rn_loose *loose = &table->header->loose[class];
    uint32_t slab = __atomic_load_n(&loose->slab, __ATOMIC_RELAXED);

    if ((int32_t)__atomic_load_n(&loose->blocks, __ATOMIC_RELAXED) <= 0)
        return RN_NIL;
    for (uint64_t n = 0; n < table->slab_count; n++, slab++) {
        if (slab >= table->slab_count)
            slab = 0;
        uint64_t word = __atomic_load_n(&table->slabs[slab], __ATOMIC_RELAXED);

        if (rn_slab_class(word) != class || rn_slab_first(word) == RN_SLAB_END)
            continue;
        uint32_t offset = pop(table, class, slab);

        if (offset == RN_NIL)
            continue;
        if (n != 0)
            hint(table, class, slab);
        return offset;
    }
    return RN_NIL;
}

/* Cuts a slab of the pool into blocks and takes the first. Until that is done the slab looks
 * full, so that no other thread touches it. */
static uint32_t alloc_new(struct rn_table *table, unsigned class)
{
    struct rn_header *h = table->header;
    uint32_t blocks = rn_slab_blocks(table, class), words = rn_blocks_class_words(class);
    uint64_t slab = __atomic_load_n(&h->slab_last_freed, __ATOMIC_RELAXED);

    if ((int64_t)__atomic_load_n(&h->slabs_free, __ATOMIC_RELAXED) <= 0)
        return RN_NIL;
    for (uint64_t n = 0; n < table->slab_count; n++, slab++) {
        if (slab >= table->slab_count)
            slab = 0;
        uint64_t word = __atomic_load_n(&table->slabs[slab], __ATOMIC_RELAXED);
        uint64_t claimed = slab_word(word, class, RN_SLAB_END, blocks);

        if ((uint32_t)word != 0 ||
            !__atomic_compare_exchange_n(&table->slabs[slab], &word, claimed, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        for (uint32_t i = 1; i < blocks; i++)
            __atomic_store_n(&table->arena[slab * table->slab_words + i * words],
                             i + 1 < blocks ? i + 1 : RN_SLAB_END, __ATOMIC_RELAXED);
        __atomic_store_n(&table->slabs[slab],
                         slab_word(claimed, class, blocks > 1 ? 1 : RN_SLAB_END, 1),
                         __ATOMIC_RELEASE);
        __atomic_fetch_sub(&h->slabs_free, 1, __ATOMIC_RELAXED);
        add_loose(table, class, blocks - 1);
        hint(table, class, (uint32_t)slab);
        __atomic_store_n(&h->slab_last_freed, slab + 1, __ATOMIC_RELAXED);
        return (uint32_t)slab * table->slab_words;
    }
    return RN_NIL;
}

uint32_t rn_block_alloc(struct rn_table *table, unsigned class)
{
    struct rn_block_shape shape = rn_block_shape(table->slab_words, class);
    uint32_t root = RN_NIL, i;

    if ((int64_t)__atomic_load_n(&table->header->slabs_free, __ATOMIC_RELAXED) <
        (int64_t)shape.slabs)
        return RN_NIL;
    if (2 * rn_blocks_class_words(shape.root) <= table->slab_words)
        root = rn_block_alloc_loose(table, shape.root);
    if (root == RN_NIL)
        root = alloc_new(table, shape.root);
    if (root == RN_NIL || shape.slabs == 0)
        return root;
    for (i = 0; i < shape.slabs; i++) {
        uint32_t piece = alloc_new(table, table->class_whole);
        uint64_t *pair = &table->arena[root + shape.own + i / 2];
        uint64_t before = i % 2 == 0 ? 0 : __atomic_load_n(pair, __ATOMIC_RELAXED);

        if (piece == RN_NIL)
            break;
        __atomic_store_n(pair, before | (uint64_t)(piece >> table->slab_shift) << (i % 2 * 32),
                         __ATOMIC_RELAXED);
    }
    if (i == shape.slabs)
        return root;
    while (i-- > 0)
        push(table, table->class_whole, rn_block_piece(table, &shape, root, i) * table->slab_words);
    push(table, shape.root, root);
    return RN_NIL;
}

void rn_block_free(struct rn_table *table, unsigned class, uint32_t offset)
{
    struct rn_block_shape shape = rn_block_shape(table->slab_words, class);

    for (uint32_t i = 0; i < shape.slabs; i++)
        push(table, table->class_whole,
             rn_block_piece(table, &shape, offset, i) * table->slab_words);
    push(table, shape.root, offset);
}

void rn_block_free_root(struct rn_table *table, unsigned class, uint32_t offset)
{
    push(table, rn_block_shape(table->slab_words, class).root, offset);
}

static void copy_out(const uint64_t *block, uint64_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        words[i] = __atomic_load_n(&block[i], __ATOMIC_RELAXED);
}

static void copy_in(uint64_t *block, const uint64_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        __atomic_store_n(&block[i], words[i], __ATOMIC_RELAXED);
}

/* Where the words of a large block from `from` on lie, and how many. */
static uint64_t *extent(const struct rn_table *table, const struct rn_block_shape *shape,
                        uint32_t root, uint32_t from, uint32_t *count)
{
    if (from < shape->own) {
        *count = shape->own - from;
        return table->arena + root + from;
    }
    uint32_t slab = rn_block_piece(table, shape, root, (from - shape->own) >> table->slab_shift);

    *count = table->slab_words;
    return slab < table->slab_count
               ? table->arena + (uint64_t)slab * table->slab_words
               : table->arena; /* the root was reused: the copy will be discarded */
}

void rn_block_read(const struct rn_table *table, unsigned class, uint32_t offset, uint64_t *words,
                   uint32_t count)
{
    if (class <= table->class_whole) {
        copy_out(table->arena + offset, words, count);
    } else {
        struct rn_block_shape shape = rn_block_shape(table->slab_words, class);
        uint32_t n;

        for (uint32_t at = 0; at < count; at += n) {
            const uint64_t *from = extent(table, &shape, offset, at, &n);

            n = n < count - at ? n : count - at;
            copy_out(from, words + at, n);
        }
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

void rn_block_write(struct rn_table *table, unsigned class, uint32_t offset, const uint64_t *words,
                    uint32_t count)
{
    if (class <= table->class_whole) {
        copy_in(table->arena + offset, words, count);
        return;
    }
    struct rn_block_shape shape = rn_block_shape(table->slab_words, class);
    uint32_t n;

    for (uint32_t at = 0; at < count; at += n) {
        uint64_t *to = extent(table, &shape, offset, at, &n);

        n = n < count - at ? n : count - at;
        copy_in(to, words + at, n);
    }
}

/* A thread keeps a context for about a microsecond. With more threads than contexts it may
 * have to search twice. */
struct rn_context *rn_blocks_context_enter(struct rn_table *table)
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

void rn_blocks_context_leave(struct rn_context *context)
{
    __atomic_store_n(&context->busy, 0, __ATOMIC_RELEASE);
}

void rn_blocks_context_keep(struct rn_table *table, struct rn_context *context, unsigned class,
                            uint32_t offset)
{
    if (context->spare_plus_1[class] == 0 &&
        rn_blocks_class_words(class) <= table->slab_words / SPARE_PART)
        context->spare_plus_1[class] = offset + 1;
    else
        rn_block_free(table, class, offset);
}

void rn_blocks_contexts_drain(struct rn_table *table)
{
    for (unsigned i = 0; i < RN_THREADS; i++) {
        struct rn_context *context = &table->contexts[i];

        if (__atomic_load_n(&context->busy, __ATOMIC_RELAXED) != 0 ||
            __atomic_exchange_n(&context->busy, 1, __ATOMIC_ACQUIRE) != 0)
            continue;
        for (unsigned class = 0; class < RN_CLASSES; class ++) {
            if (context->spare_plus_1[class] != 0)
                rn_block_free(table, class, context->spare_plus_1[class] - 1);
            context->spare_plus_1[class] = 0;
        }
        rn_blocks_context_leave(context);
    }
}

uint64_t rn_blocks_bytes_used(const struct rn_table *table)
{
    uint64_t used = 0;

    for (uint64_t i = 0; i < table->slab_count; i++) {
        uint64_t word = __atomic_load_n(&table->slabs[i], __ATOMIC_RELAXED);

        if (rn_slab_class(word) < RN_CLASSES)
            used += 8 * rn_slab_used(word) * rn_blocks_class_words(rn_slab_class(word));
    }
    return used;
}
