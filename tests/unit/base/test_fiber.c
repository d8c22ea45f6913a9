/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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
        rn_fiber_set_until(s->until_ns);
    tell(s, "<");
    for (unsigned i = 0; i < s->waits; i++) {
        tell(s, "w");
        wait_deeply(s);
    }
    if (s->until_ns != 0)
        assert_int_equal(rn_fiber_until(), s->until_ns);
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

static void test_one_that_waits_goes_on_when_it_is_woken(void **state)
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

static void test_nothing_is_due_where_no_time_was_set(void **state)
{
    (void)state;
    assert_int_equal(rn_fiber_until(), INT64_MAX);
    rn_fiber_set_until(7);
    assert_int_equal(rn_fiber_until(), INT64_MAX);
    assert_null(rn_fiber_current());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_function_that_does_not_wait_has_returned),
        cmocka_unit_test(test_one_that_waits_goes_on_when_it_is_woken),
        cmocka_unit_test(test_many_wait_at_once_and_end_in_any_order),
        cmocka_unit_test(test_a_fiber_is_used_again),
        cmocka_unit_test(test_nothing_is_due_where_no_time_was_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
