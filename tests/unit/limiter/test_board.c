/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the board: found again, kept apart, bounded. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>

#include "limiter/board.h"

static void an_entry_is_zero_at_first_and_found_again(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    uint64_t *entry = rn_board_entry(r->table, RN_BOARD_SIGNAL, RN_SLICE("cpu"), 3);

    (void)state;
    assert_non_null(entry);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(entry[i], 0);
    entry[2] = 42;
    assert_ptr_equal(rn_board_entry(r->table, RN_BOARD_SIGNAL, RN_SLICE("cpu"), 3), entry);
    assert_ptr_equal(rn_board_find(r->table, RN_BOARD_SIGNAL, RN_SLICE("cpu"), 3), entry);
    assert_null(rn_board_find(r->table, RN_BOARD_SIGNAL, RN_SLICE("CPU"), 3));
    ration_close(r);
}

static void kinds_names_and_sizes_are_kept_apart(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    uint64_t *entries[] = {
        rn_board_entry(r->table, RN_BOARD_FACTOR, RN_SLICE("a"), 1),
        rn_board_entry(r->table, RN_BOARD_SIGNAL, RN_SLICE("a"), 1),
        rn_board_entry(r->table, RN_BOARD_FACTOR, RN_SLICE("b"), 1),
        rn_board_entry(r->table, RN_BOARD_FACTOR, RN_SLICE("a"), 2),
        rn_board_entry(r->table, RN_BOARD_FACTOR, RN_SLICE(""), RN_BOARD_ENTRY_WORDS_MAX),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(entries); i++) {
        assert_non_null(entries[i]);
        entries[i][0] = i + 1;
    }
    for (size_t i = 0; i < COUNT(entries); i++)
        assert_int_equal(entries[i][0], i + 1);
    ration_close(r);
}

static uint64_t *numbered(struct ration *r, unsigned i, uint32_t words)
{
    char name[24];
    int len = snprintf(name, sizeof name, "rule %u", i);

    return rn_board_entry(r->table, RN_BOARD_FACTOR, (struct rn_slice){name, (size_t)len}, words);
}

static void a_full_board_says_so_and_keeps_what_it_has(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    unsigned n = 0;

    (void)state;
    for (uint64_t *entry; (entry = numbered(r, n, 1)) != NULL;)
        entry[0] = ++n;
    assert_int_equal(n, (RN_BOARD_BYTES / 8 - PAUSE_WORDS) / 2);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(numbered(r, i, 1)[0], i + 1);
    assert_null(numbered(r, 0, 2));
    ration_close(r);
}

static void a_damaged_board_is_full_and_nothing_worse(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    uint64_t *board = rn_table_board(r->table);

    (void)state;
    for (unsigned fill = 1; fill < 256; fill += 2) {
        memset(board, (int)fill, RN_BOARD_BYTES);
        for (uint32_t words = 1; words <= RN_BOARD_ENTRY_WORDS_MAX; words += 101)
            assert_null(numbered(r, fill, words));
    }
    ration_close(r);
}

#define THREADS 4
#define NAMES 400

static void *claim_all(void *arg)
{
    for (unsigned i = 0; i < NAMES; i++)
        __atomic_fetch_add(numbered(arg, i, 1 + i % 3), 1, __ATOMIC_RELAXED);
    return NULL;
}

static void threads_that_make_the_same_entry_share_it(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    pthread_t threads[THREADS];

    (void)state;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_all, r), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < NAMES; i++)
        assert_int_equal(numbered(r, i, 1 + i % 3)[0], THREADS);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_zero_at_first_and_found_again),
        cmocka_unit_test(kinds_names_and_sizes_are_kept_apart),
        cmocka_unit_test(a_full_board_says_so_and_keeps_what_it_has),
        cmocka_unit_test(a_damaged_board_is_full_and_nothing_worse),
        cmocka_unit_test(threads_that_make_the_same_entry_share_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
