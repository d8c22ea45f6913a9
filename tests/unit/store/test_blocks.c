/* SPDX-License-Identifier: Apache-2.0 */
/* Size classes, and blocks handed out, taken back and collected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "every_form.h"
#include "store/blocks.h"
#include "store/slots.h"
#include "unit/sanitized.h"

#define MIB (UINT64_C(1) << 20)
#define WORDS_MAX 32768u

static struct rn_table *open_table(uint64_t bytes, unsigned block_share)
{
    struct rn_table *table = NULL;

    assert_int_equal(
        rn_table_open(&(struct rn_table_options){.bytes = bytes, .block_share = block_share},
                      &table, NULL),
        0);
    return table;
}

/* ---- classes */

static void every_size_has_the_smallest_class_that_holds_it(void **state)
{
    (void)state;
    for (uint32_t words = 1; words <= WORDS_MAX; words++) {
        unsigned class = rn_blocks_class_of(words);

        assert_true(class < RN_CLASSES);
        assert_true(rn_blocks_class_words(class) >= words);
        assert_true(class == 0 || rn_blocks_class_words(class - 1) < words);
    }
    assert_true(rn_blocks_class_words(rn_blocks_class_of(WORDS_MAX)) <= RN_BLOCK_WORDS_MAX);
}

static void classes_and_sizes_are_inverse_and_grow_together(void **state)
{
    (void)state;
    for (unsigned class = 0; class <= rn_blocks_class_of(WORDS_MAX); class ++) {
        assert_int_equal(rn_blocks_class_of(rn_blocks_class_words(class)), class);
        assert_true(class == 0 || rn_blocks_class_words(class) > rn_blocks_class_words(class - 1));
        /* beyond 32 words at most an eighth is wasted */
        assert_true(class < 31 ||
                    rn_blocks_class_words(class) * 8 <= rn_blocks_class_words(class - 1) * 9);
    }
}

static void a_block_state_keeps_class_version_and_offset(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        unsigned class = (unsigned)random_below(RN_CLASSES);
        uint64_t version = random_next();
        uint32_t offset = (uint32_t)random_next();
        uint64_t packed = rn_block_state(class, version, offset);

        assert_int_equal(rn_block_class(packed), class);
        assert_int_equal(rn_block_version(packed), version & 0xFFFFFF);
        assert_int_equal(rn_block_offset(packed), offset);
    }
}

/* ---- handing out */

/* One byte per word of the arena: whether it is part of a block in use. */
static unsigned char *claimed;

static void claim_words(uint32_t offset, uint32_t words, unsigned char value)
{
    for (uint32_t i = 0; i < words; i++) {
        assert_int_equal(claimed[offset + i], !value);
        claimed[offset + i] = value;
    }
}

static void blocks_in_use_never_overlap(void **state)
{
    enum { HELD = 3000 };
    struct rn_table *table = open_table(8 * MIB, 90);
    uint32_t offsets[HELD];
    unsigned classes[HELD];
    uint64_t given = 0;

    (void)state;
    claimed = calloc(table->slab_count * table->slab_words, 1);
    memset(offsets, 0xFF, sizeof offsets);
    for (unsigned step = 0; step < 200000; step++) {
        unsigned i = (unsigned)random_below(HELD);

        if (offsets[i] != RN_NIL) {
            claim_words(offsets[i], rn_blocks_class_words(classes[i]), 0);
            rn_block_free(table, classes[i], offsets[i]);
            offsets[i] = RN_NIL;
            continue;
        }
        classes[i] = rn_blocks_class_of(1 + (uint32_t)random_below(random_below(20) ? 40 : 300));
        offsets[i] = rn_block_alloc(table, classes[i]);
        if (offsets[i] == RN_NIL)
            continue;
        assert_true(rn_block_sound(table, rn_block_state(classes[i], 0, offsets[i])));
        claim_words(offsets[i], rn_blocks_class_words(classes[i]), 1);
        given++;
    }
    assert_true(given > 50000);
    free(claimed);
    rn_table_close(table);
}

static void an_exhausted_arena_gives_nothing_until_something_is_freed(void **state)
{
    static const uint32_t sizes[] = {2, 3, 17, 32, 33, 300, 4000, 20000, WORDS_MAX};

    (void)state;
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct rn_table *table = open_table(2 * MIB, 40);
        unsigned class = rn_blocks_class_of(sizes[s]);
        struct rn_block_shape shape = rn_block_shape(table->slab_words, class);
        uint64_t per_slab = rn_slab_blocks(table, shape.root), fit = 0;
        uint32_t last = RN_NIL;

        while ((fit + 1) * shape.slabs + fit / per_slab + 1 <= table->slab_count)
            fit++;

        for (uint64_t i = 0; i < fit; i++) {
            last = rn_block_alloc(table, class);
            assert_int_not_equal(last, RN_NIL);
        }
        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(rn_block_alloc(table, class), RN_NIL);
        if (shape.slabs == 0)
            assert_int_equal(rn_block_alloc(table, class == 0 ? 1 : class - 1), RN_NIL);
        assert_int_equal(rn_blocks_bytes_used(table),
                         fit * 8 *
                             (shape.slabs * table->slab_words + rn_blocks_class_words(shape.root)));
        rn_block_free(table, class, last);
        assert_int_not_equal(rn_block_alloc(table, class), RN_NIL);
        assert_int_equal(rn_block_alloc(table, class), RN_NIL);
        rn_table_close(table);
    }
}

static void a_table_without_blocks_gives_none(void **state)
{
    struct rn_table *table = open_table(MIB, 0);

    (void)state;
    for (unsigned class = 0; class < RN_CLASSES; class ++) {
        assert_int_equal(rn_block_alloc(table, class), RN_NIL);
        assert_false(rn_block_sound(table, rn_block_state(class, 0, 0)));
    }
    assert_int_equal(rn_blocks_collect(table), 0);
    rn_table_close(table);
}

static void only_states_that_point_at_a_block_are_sound(void **state)
{
    struct rn_table *table = open_table(2 * MIB, 40);
    unsigned class = rn_blocks_class_of(3);
    uint32_t block = rn_block_alloc(table, class);

    (void)state;
    assert_true(rn_block_sound(table, rn_block_state(class, 7, block)));
    assert_false(rn_block_sound(table, rn_block_state(class, 7, block + 1)));
    assert_false(rn_block_sound(table, rn_block_state(class + 1, 7, block)));
    assert_false(rn_block_sound(table, rn_block_state(RN_CLASSES, 7, block)));
    assert_false(rn_block_sound(table, rn_block_state(255, 7, block)));
    assert_false(rn_block_sound(table, rn_block_state(class, 7, RN_NIL)));
    assert_false(rn_block_sound(table, rn_block_state(class, 7, table->slab_words - 1)));
    assert_false(rn_block_sound(
        table, rn_block_state(class, 7, (uint32_t)table->slab_count * table->slab_words)));
    rn_table_close(table);
}

/* An offset has 32 bits: 32 GiB of words. */
static void an_arena_beyond_the_reach_of_an_offset_is_not_made(void **state)
{
    struct rn_table *table = NULL;
    int error = rn_table_open(
        &(struct rn_table_options){.bytes = UINT64_C(40) << 30, .block_share = 99}, &table, NULL);

    (void)state;
    if (error == RATION_ENOMEM)
        return; /* a machine that does not overcommit */
    assert_int_equal(error, 0);
    assert_true(table->slab_count * table->slab_words <= RN_NIL);
    assert_true(table->header->arena_at + table->slab_count * table->slab_words * 8 <=
                table->header->bytes);
    rn_table_close(table);
}

/* ---- collecting */

static struct rn_limit counter_limit(void)
{
    return compiled(&(struct ration_limit){
        .algorithm = RATION_SLIDING_WINDOW, .amount = 100, .period_ns = HOUR});
}

static uint64_t take_left(struct rn_table *table, const struct rn_limit *limit, uint64_t key)
{
    struct rn_charge c = {
        .limit = limit, .key = key, .ask = {.op = RN_TAKE, .now_ns = BASE, .cost = 1}};

    rn_store_apply(rn_table_store(table), &c, 1);
    assert_int_equal(c.error, 0);
    return c.answer.remaining;
}

static void leaked_blocks_come_back_and_used_ones_stay(void **state)
{
    struct rn_table *table = open_table(2 * MIB, 40);
    struct rn_limit limit = counter_limit();
    unsigned class = rn_blocks_class_of(limit.words_small);
    uint64_t fit = table->slab_count * (table->slab_words / rn_blocks_class_words(class)),
             free_blocks = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(take_left(table, &limit, key_of(i)), 99);
    while (rn_block_alloc(table, class) != RN_NIL)
        ; /* as if their owners had been killed */
    rn_blocks_contexts_drain(table);
    assert_int_equal(rn_blocks_collect(table), 0);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(take_left(table, &limit, key_of(i)), 98);
    rn_blocks_contexts_drain(table);
    while (rn_block_alloc(table, class) != RN_NIL)
        free_blocks++;
    assert_int_equal(free_blocks, fit - 1000);
    rn_table_close(table);
}

static void an_unused_slab_can_serve_another_size_after_collecting(void **state)
{
    struct rn_table *table = open_table(2 * MIB, 40);
    uint64_t big = 0;

    (void)state;
    while (rn_block_alloc(table, rn_blocks_class_of(3)) != RN_NIL)
        ;
    assert_int_equal(rn_block_alloc(table, rn_blocks_class_of(100)), RN_NIL);
    assert_int_equal(rn_blocks_collect(table), 0);
    assert_int_equal(rn_blocks_bytes_used(table), 0);
    while (rn_block_alloc(table, rn_blocks_class_of(100)) != RN_NIL)
        big++;
    assert_int_equal(big, table->slab_count * rn_slab_blocks(table, rn_blocks_class_of(100)));
    rn_table_close(table);
}

/* What a damaged file may hold: a state that points nowhere, two slots that
 * share a block, a slab of no class. */
static void collecting_drops_slots_whose_block_is_not_theirs(void **state)
{
    struct rn_table *table = open_table(2 * MIB, 40);
    struct rn_limit limit = counter_limit();
    struct rn_found a, b, c;

    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        take_left(table, &limit, key_of(i));
    a = rn_slot_find(table, rn_key_tag(key_of(0)));
    b = rn_slot_find(table, rn_key_tag(key_of(1)));
    c = rn_slot_find(table, rn_key_tag(key_of(2)));
    b.slot->state = a.value.state;
    c.slot->state = rn_block_state(200, 0, 5);
    table->slabs[table->slab_count - 1] = UINT64_C(77777) << 20;
    rn_blocks_contexts_drain(table);
    assert_int_equal(rn_blocks_collect(table), 0);
    assert_int_equal(!rn_slot_find(table, rn_key_tag(key_of(0))).slot +
                         !rn_slot_find(table, rn_key_tag(key_of(1))).slot,
                     1);
    assert_null(rn_slot_find(table, rn_key_tag(key_of(2))).slot);
    assert_int_equal(take_left(table, &limit, key_of(3)), 98);
    rn_table_close(table);
}

/* An unsound slot is no state, and no harm comes of using its key. */
static void a_slot_that_points_nowhere_reads_as_none(void **state)
{
    struct rn_table *table = open_table(8 * MIB, 50);
    static const unsigned kinds[] = {FINE, WINDOW, COUNTER, SUBS, LOG, PLACES, OWN, ADAPTIVE};

    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        for (unsigned variant = 0; variant < 2; variant++) {
            struct rn_limit large = compiled(&every_form[kinds[i]].spec[kinds[i] == WINDOW]);
            struct rn_limit limit = compiled(&every_form[kinds[i]].spec[variant]);
            struct rn_charge c = {
                .limit = &large,
                .key = key_of(i),
                .ask = {.op = RN_TAKE, .now_ns = BASE, .cost = 2, .id = 1, .lease_ns = MINUTE}};

            rn_store_apply(rn_table_store(table), &c, 1);
            assert_int_equal(c.error, 0);
            rn_slot_find(table, rn_key_tag(c.key)).slot->state = rn_block_state(3, 9, 1);
            c.limit = &limit;
            rn_store_apply(rn_table_store(table), &c, 1);
            assert_int_equal(c.error, 0);
            assert_int_equal(c.answer.remaining, limit.cap - 2);
            c.ask.op = RN_PEEK;
            rn_store_apply(rn_table_store(table), &c, 1);
            assert_int_equal(c.answer.remaining, limit.cap - 2);
            c.ask.op = RN_RESET;
            rn_store_apply(rn_table_store(table), &c, 1);
        }
    }
    rn_table_close(table);
}

/* ---- threads */

#define THREADS 8

static struct rn_table *shared;
static _Atomic unsigned char *owned; /* per word of the arena */
static atomic_uint doubly, given_out;
static unsigned rounds;

static void *churn(void *arg)
{
    enum { HELD = 64 };
    uint32_t offsets[HELD];
    unsigned classes[HELD];
    uint64_t seed = (uint64_t)(uintptr_t)arg;

    memset(offsets, 0xFF, sizeof offsets);
    for (unsigned step = 0; step < rounds; step++) {
        uint64_t random = key_of(seed + 1000003 * (uint64_t)step);
        unsigned i = (unsigned)(random % HELD);

        if (offsets[i] != RN_NIL) {
            atomic_store_explicit(&owned[offsets[i]], 0, memory_order_relaxed);
            rn_block_free(shared, classes[i], offsets[i]);
            offsets[i] = RN_NIL;
            continue;
        }
        classes[i] = (unsigned)(random >> 32) % 4;
        offsets[i] = rn_block_alloc(shared, classes[i]);
        if (offsets[i] == RN_NIL)
            continue;
        atomic_fetch_add(&given_out, 1);
        if (atomic_exchange_explicit(&owned[offsets[i]], 1, memory_order_relaxed) != 0)
            atomic_fetch_add(&doubly, 1);
        if (!rn_block_sound(shared, rn_block_state(classes[i], 0, offsets[i])))
            atomic_fetch_add(&doubly, 1);
    }
    for (unsigned i = 0; i < HELD; i++) {
        if (offsets[i] == RN_NIL)
            continue;
        atomic_store_explicit(&owned[offsets[i]], 0, memory_order_relaxed);
        rn_block_free(shared, classes[i], offsets[i]);
    }
    return NULL;
}

static void no_block_is_handed_out_twice_by_threads(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    rounds = 200000;
    shared = open_table(2 * MIB, 60);
    owned = calloc(shared->slab_count * shared->slab_words, 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i * 7919 + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(doubly, 0);
    assert_true(given_out > THREADS * rounds / 4);
    free((void *)owned);
    rn_table_close(shared);
}

/* Few blocks, all of them going round: a thread that was held up between
 * reading the head of the list and replacing it finds the same block there. */
static pthread_barrier_t start_line;

static void *pass_around(void *arg)
{
    unsigned class = rn_blocks_class_of(shared->slab_words / 4), *turns = arg;

    pthread_barrier_wait(&start_line);
    for (unsigned i = 0; i < *turns; i++) {
        uint32_t a = rn_block_alloc(shared, class), b = rn_block_alloc(shared, class);

        for (unsigned n = 0; n < 2; n++) {
            uint32_t offset = n ? b : a;

            if (offset != RN_NIL && atomic_exchange(&owned[offset], 1) != 0)
                atomic_fetch_add(&doubly, 1);
        }
        for (unsigned n = 0; n < 2; n++) {
            uint32_t offset = n ? b : a;

            if (offset == RN_NIL)
                continue;
            atomic_store(&owned[offset], 0);
            rn_block_free(shared, class, offset);
        }
    }
    return NULL;
}

static void a_slow_pop_does_not_break_the_free_list(void **state)
{
    pthread_t threads[THREADS];
    unsigned turns = SANITIZED ? 60000 : 2500000, left = 0;

    (void)state;
    doubly = 0;
    shared = open_table(MIB, 6); /* four blocks in each of 16 slabs */
    owned = calloc(shared->slab_count * shared->slab_words, 1);
    pthread_barrier_init(&start_line, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pass_around, &turns), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start_line);
    assert_int_equal(doubly, 0);
    assert_int_equal(rn_blocks_bytes_used(shared), 0);
    while (left <= 4 * shared->slab_count &&
           rn_block_alloc(shared, rn_blocks_class_of(shared->slab_words / 4)) != RN_NIL)
        left++;
    assert_int_equal(left, 4 * shared->slab_count);
    free((void *)owned);
    rn_table_close(shared);
}

static void *cut_all(void *arg)
{
    uint64_t mine = 0;
    uint32_t offset;

    while ((offset = rn_block_alloc(shared, 1)) != RN_NIL) {
        if (atomic_exchange(&owned[offset], 1) != 0)
            atomic_fetch_add(&doubly, 1);
        mine++;
    }
    *(uint64_t *)arg = mine;
    return NULL;
}

/* Slabs are claimed while others cut them; none is lost but those another
 * thread was about to install when this one gave up. */
static void threads_share_out_the_arena_without_overlap(void **state)
{
    pthread_t threads[THREADS];
    uint64_t got[THREADS], sum = 0;

    (void)state;
    doubly = 0;
    shared = open_table(8 * MIB, 80);
    owned = calloc(shared->slab_count * shared->slab_words, 1);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, cut_all, &got[i]), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += got[i];
    }
    assert_int_equal(doubly, 0);
    assert_int_equal(sum, shared->slab_count * (shared->slab_words / rn_blocks_class_words(1)));
    free((void *)owned);
    rn_table_close(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_the_smallest_class_that_holds_it),
        cmocka_unit_test(classes_and_sizes_are_inverse_and_grow_together),
        cmocka_unit_test(a_block_state_keeps_class_version_and_offset),
        cmocka_unit_test(blocks_in_use_never_overlap),
        cmocka_unit_test(an_exhausted_arena_gives_nothing_until_something_is_freed),
        cmocka_unit_test(a_table_without_blocks_gives_none),
        cmocka_unit_test(only_states_that_point_at_a_block_are_sound),
        cmocka_unit_test(an_arena_beyond_the_reach_of_an_offset_is_not_made),
        cmocka_unit_test(leaked_blocks_come_back_and_used_ones_stay),
        cmocka_unit_test(an_unused_slab_can_serve_another_size_after_collecting),
        cmocka_unit_test(collecting_drops_slots_whose_block_is_not_theirs),
        cmocka_unit_test(a_slot_that_points_nowhere_reads_as_none),
        cmocka_unit_test(no_block_is_handed_out_twice_by_threads),
        cmocka_unit_test(a_slow_pop_does_not_break_the_free_list),
        cmocka_unit_test(threads_share_out_the_arena_without_overlap),
    };

    random_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
