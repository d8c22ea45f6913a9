/* SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#ifdef __GLIBC__ /* other C libraries have no backtrace() */
#include <execinfo.h>
#endif

#include "base/fiber.h"

#define STACK ((size_t)256 << 10)

struct story {
    struct rn_fiber *fiber;
    char text[64];
    unsigned waits;
    unsigned ended;
    int64_t until_ns;
};

static void tell(struct story *s, const char *word)
{
    strcat(s->text, word);
}

/* Uses a good part of the stack, as callers of the library do. */
static void wait_deeply(struct story *s)
{
    volatile char room[STACK / 2];

    room[0] = room[sizeof room - 1] = (char)s->waits;
    rn_fiber_wait();
    assert_int_equal(room[0], room[sizeof room - 1]);
}

static void play(void *arg)
{
    struct story *s = arg;

    assert_ptr_equal(rn_fiber_current(), s->fiber);
    if (s->until_ns != 0)
        rn_fiber_set_deadline(s->until_ns);
    tell(s, "<");
    for (unsigned i = 0; i < s->waits; i++) {
        tell(s, "w");
        wait_deeply(s);
    }
    if (s->until_ns != 0)
        assert_int_equal(rn_fiber_deadline(), s->until_ns);
    tell(s, ">");
}

static void note_end(void *arg)
{
    struct story *s = arg;

    assert_null(rn_fiber_current());
    s->ended++;
}

static void begin(struct story *s, unsigned waits)
{
    memset(s, 0, sizeof *s);
    s->fiber = rn_fiber_new(STACK);
    s->waits = waits;
    assert_non_null(s->fiber);
}

static void test_a_function_that_does_not_wait_has_returned(void **state)
{
    struct story s;

    (void)state;
    begin(&s, 0);
    assert_true(rn_fiber_run(s.fiber, play, note_end, &s));
    assert_string_equal(s.text, "<>");
    assert_int_equal(s.ended, 0);
    rn_fiber_free(s.fiber);
}

static void test_a_fiber_that_waits_goes_on_when_it_is_woken(void **state)
{
    struct story s;

    (void)state;
    begin(&s, 2);
    assert_false(rn_fiber_run(s.fiber, play, note_end, &s));
    assert_string_equal(s.text, "<w");
    assert_null(rn_fiber_current());
    rn_fiber_wake(s.fiber);
    assert_string_equal(s.text, "<ww");
    assert_int_equal(s.ended, 0);
    rn_fiber_wake(s.fiber);
    assert_string_equal(s.text, "<ww>");
    assert_int_equal(s.ended, 1);
    rn_fiber_free(s.fiber);
}

static void test_many_wait_at_once_and_end_in_any_order(void **state)
{
    struct story s[8];

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        begin(&s[i], 1 + i % 2);
        s[i].until_ns = 100 + i;
        assert_false(rn_fiber_run(s[i].fiber, play, note_end, &s[i]));
    }
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 8; i-- > 0;)
            if (s[i].ended == 0)
                rn_fiber_wake(s[i].fiber);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(s[i].ended, 1);
        assert_string_equal(s[i].text, i % 2 ? "<ww>" : "<w>");
        rn_fiber_free(s[i].fiber);
    }
}

static void test_a_fiber_is_used_again(void **state)
{
    struct story s;

    (void)state;
    begin(&s, 1);
    for (unsigned i = 0; i < 1000; i++) {
        s.text[0] = '\0';
        assert_false(rn_fiber_run(s.fiber, play, note_end, &s));
        rn_fiber_wake(s.fiber);
        assert_string_equal(s.text, "<w>");
    }
    assert_int_equal(s.ended, 1000);
    rn_fiber_free(s.fiber);
}

/* More values than a function can keep in registers, which must outlive a switch. */
static void keep_values(void *arg)
{
    volatile uint64_t seed = 3;
    uint64_t a = seed * 5, b = seed * 7, c = seed * 11, d = seed * 13, e = seed * 17, f = seed * 19;
    double p = (double)a / 7, q = (double)b / 7, r = (double)c / 7, s = (double)d / 7;
    unsigned *ok = arg;

    for (unsigned i = 0; i < 3; i++) {
        rn_fiber_wait();
        a++, b++, c++, d++, e++, f++;
        p += 1, q += 1, r += 1, s += 1;
    }
    *ok = a == 18 && b == 24 && c == 36 && d == 42 && e == 54 && f == 60 && p == 15 / 7.0 + 3 &&
          q == 21 / 7.0 + 3 && r == 33 / 7.0 + 3 && s == 39 / 7.0 + 3;
}

static void ignore_end(void *arg)
{
    (void)arg;
}

static void test_values_survive_a_switch_on_both_stacks(void **state)
{
    unsigned ok[4] = {0};
    struct rn_fiber *fibers[4];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        fibers[i] = rn_fiber_new(STACK);
        assert_false(rn_fiber_run(fibers[i], keep_values, ignore_end, &ok[i]));
    }
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < 4; i++)
            rn_fiber_wake(fibers[i]);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(ok[i], 1);
        rn_fiber_free(fibers[i]);
    }
}

static void round_upwards(void *arg)
{
    int *seen = arg;

    seen[0] = fegetround();
    fesetround(FE_UPWARD);
    rn_fiber_wait();
    seen[1] = fegetround();
    fesetround(FE_TONEAREST);
}

static void test_each_stack_has_its_own_rounding_mode(void **state)
{
    struct rn_fiber *fiber = rn_fiber_new(STACK);
    int seen[2] = {-1, -1};

    (void)state;
    assert_false(rn_fiber_run(fiber, round_upwards, ignore_end, seen));
    assert_int_equal(seen[0], FE_TONEAREST);
    assert_int_equal(fegetround(), FE_TONEAREST);
    fesetround(FE_DOWNWARD);
    rn_fiber_wake(fiber);
    assert_int_equal(seen[1], FE_UPWARD);
    assert_int_equal(fegetround(), FE_DOWNWARD);
    fesetround(FE_TONEAREST);
    rn_fiber_free(fiber);
}

#ifdef __GLIBC__
static void count_frames(void *arg)
{
    void *frames[64];

    *(int *)arg = backtrace(frames, 64);
}

static void test_a_backtrace_ends_at_the_start_of_the_fiber(void **state)
{
    struct rn_fiber *fiber = rn_fiber_new(STACK);
    int frames = 0;

    (void)state;
    assert_true(rn_fiber_run(fiber, count_frames, ignore_end, &frames));
    assert_in_range(frames, 2, 8);
    rn_fiber_free(fiber);
}
#endif

static void test_nothing_is_due_where_no_time_was_set(void **state)
{
    (void)state;
    assert_int_equal(rn_fiber_deadline(), INT64_MAX);
    rn_fiber_set_deadline(7);
    assert_int_equal(rn_fiber_deadline(), INT64_MAX);
    assert_null(rn_fiber_current());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_function_that_does_not_wait_has_returned),
        cmocka_unit_test(test_a_fiber_that_waits_goes_on_when_it_is_woken),
        cmocka_unit_test(test_many_wait_at_once_and_end_in_any_order),
        cmocka_unit_test(test_a_fiber_is_used_again),
        cmocka_unit_test(test_values_survive_a_switch_on_both_stacks),
        cmocka_unit_test(test_each_stack_has_its_own_rounding_mode),
#ifdef __GLIBC__
        cmocka_unit_test(test_a_backtrace_ends_at_the_start_of_the_fiber),
#endif
        cmocka_unit_test(test_nothing_is_due_where_no_time_was_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
