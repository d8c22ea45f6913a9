/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: aligned, apart from each other, growing. And slices, which live in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void memory_is_aligned_and_nothing_overlaps(void **state)
{
    enum { COUNT = 3000 };
    static unsigned char *pieces[COUNT];
    struct rn_arena arena;

    (void)state;
    rn_arena_init(&arena);
    for (size_t i = 0; i < COUNT; i++) {
        pieces[i] = rn_arena_alloc(&arena, i % 97);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i & 0xff), i % 97);
        assert_non_null(rn_arena_dup(&arena, RN_SLICE("odd")).data);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < i % 97; j++)
            assert_int_equal(pieces[i][j], i & 0xff);
    rn_arena_done(&arena);
}

static void what_is_larger_than_a_chunk_gets_its_own(void **state)
{
    struct rn_arena arena = {0};
    char *small = rn_arena_alloc(&arena, 16);

    (void)state;
    memset(small, 'x', 16);
    for (size_t bytes = 1; bytes <= (size_t)8 << 20; bytes *= 2) {
        char *large = rn_arena_alloc(&arena, bytes);
        assert_non_null(large);
        memset(large, 'y', bytes);
    }
    assert_memory_equal(small, "xxxxxxxxxxxxxxxx", 16);
    rn_arena_done(&arena);
    rn_arena_done(&arena);
}

static void arrays_are_zero_and_impossible_ones_are_refused(void **state)
{
    struct rn_arena arena = {0};

    (void)state;
    memset(rn_arena_alloc(&arena, 1000), 0xff, 1000);
    rn_arena_done(&arena);
    const unsigned char *zeros = rn_arena_calloc(&arena, 100, 10);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(zeros[i], 0);
    assert_null(rn_arena_calloc(&arena, SIZE_MAX / 2, 3));
    assert_null(rn_arena_alloc(&arena, SIZE_MAX));
    assert_null(rn_arena_alloc(&arena, SIZE_MAX - 20));
    assert_null(rn_arena_dup(&arena, (struct rn_slice){"", SIZE_MAX}).data);
    assert_non_null(rn_arena_alloc(&arena, 10));
    rn_arena_done(&arena);
}

static void a_copy_is_terminated_also_when_empty(void **state)
{
    struct rn_arena arena = {0};
    struct rn_slice empty = rn_arena_dup(&arena, (struct rn_slice){NULL, 0});
    struct rn_slice copy = rn_arena_dup(&arena, (struct rn_slice){"a\0bcd", 3});

    (void)state;
    assert_string_equal(empty.data, "");
    assert_int_equal(empty.len, 0);
    assert_memory_equal(copy.data, "a\0b", 4);
    assert_int_equal(copy.len, 3);
    rn_arena_done(&arena);
}

static void slices_compare_by_bytes(void **state)
{
    static const struct rn_slice word = RN_SLICE_INIT("word");
    const struct rn_slice none = {NULL, 0};

    (void)state;
    assert_true(rn_slice_equal(word, rn_slice_of("word")));
    assert_true(rn_slice_equal(none, RN_SLICE("")));
    assert_false(rn_slice_is(word, "wor"));
    assert_false(rn_slice_is(word, "Word"));
    assert_true(rn_slice_starts_with(word, RN_SLICE("wo")));
    assert_true(rn_slice_starts_with(word, none));
    assert_false(rn_slice_starts_with(RN_SLICE("wo"), word));
    assert_true(rn_slice_compare(RN_SLICE("wo"), word) < 0);
    assert_true(rn_slice_compare(word, RN_SLICE("b")) > 0);
    assert_true(rn_slice_compare(RN_SLICE("\xff"), word) > 0);
    assert_int_equal(rn_slice_compare(none, RN_SLICE("")), 0);
}

int main(void)
{
    const struct CMUnitTest arena[] = {
        cmocka_unit_test(memory_is_aligned_and_nothing_overlaps),
        cmocka_unit_test(what_is_larger_than_a_chunk_gets_its_own),
        cmocka_unit_test(arrays_are_zero_and_impossible_ones_are_refused),
        cmocka_unit_test(a_copy_is_terminated_also_when_empty),
        cmocka_unit_test(slices_compare_by_bytes),
    };

    return cmocka_run_group_tests(arena, NULL, NULL);
}
