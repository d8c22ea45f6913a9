/* SPDX-License-Identifier: Apache-2.0 */
/* All or nothing: what is charged, and which limit decided. */
#include "fixture.h"

#include <stdio.h>

enum { IP, USER, ENDPOINT, WATCHED, QUEUE, SLOW_QUEUE, PLACES, CLOSED };

static struct ration *open_some(void)
{
    const struct ration_named limits[] = {
        [IP] = named("ip", "100 per second"),
        [USER] = with(named("user", "10 per hour"), RATION_FIXED_WINDOW),
        [ENDPOINT] = with(named("endpoint", "1000 per minute"), RATION_SLIDING_WINDOW),
        [WATCHED] = flagged(named("watched", "2 per minute"), RATION_SHADOW),
        [QUEUE] = named("queue", "10 per second queue 50"),
        [SLOW_QUEUE] = named("slow queue", "1 per second queue 50"),
        [PLACES] = named("places", "2 concurrent"),
        [CLOSED] = named("closed", "0 per second"),
    };

    return open_limits(limits, COUNT(limits));
}

static struct ration_decision check(struct ration *r, struct ration_charge *c, size_t n)
{
    struct ration_decision d;

    assert_int_equal(ration_check(r, c, n, T0, &d), 0);
    return d;
}

static void nothing_is_charged_when_one_refuses(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(IP, "ip", 1), charge(USER, "user", 1),
                                charge(ENDPOINT, "end", 1)};

    (void)state;
    take(r, USER, "user", 10, T0);
    assert_false(check(r, c, 3).allowed);
    assert_int_equal(left(r, IP, "ip", T0), 100);
    assert_int_equal(left(r, ENDPOINT, "end", T0), 1000);
    for (int i = 0; i < 3; i++)
        assert_int_equal(c[i].taken, 0);
    assert_true(c[0].verdict.allowed);
    assert_false(c[1].verdict.allowed);
    ration_close(r);
}

static void all_are_charged_when_all_admit(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(IP, "ip", 1), charge(USER, "user", 2),
                                charge(ENDPOINT, "end", 3)};

    (void)state;
    assert_true(check(r, c, 3).allowed);
    assert_int_equal(left(r, IP, "ip", T0), 99);
    assert_int_equal(left(r, USER, "user", T0), 8);
    assert_int_equal(left(r, ENDPOINT, "end", T0), 997);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c[i].taken, c[i].cost);
        assert_int_equal(ration_give_back(r, &c[i], T0), 0);
    }
    assert_int_equal(left(r, USER, "user", T0), 10);
    ration_close(r);
}

static void the_longest_wait_decides_a_refusal(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(IP, "ip", 1), charge(USER, "user", 1),
                                charge(ENDPOINT, "end", 1)};

    (void)state;
    take(r, IP, "ip", 100, T0);
    take(r, USER, "user", 10, T0);
    struct ration_decision d = check(r, c, 3);

    assert_int_equal(d.decided_by, 1);
    assert_false(d.verdict.allowed);
    assert_int_equal(d.verdict.limit, 10);
    assert_int_equal(d.verdict.retry_after_ns, 3600 * SECOND);
    ration_close(r);
}

static void the_limit_nearest_its_end_decides_an_admission(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(IP, "ip", 1), charge(USER, "user", 1),
                                charge(ENDPOINT, "end", 1)};

    (void)state;
    assert_int_equal(check(r, c, 3).decided_by, 1); /* 9 of 10 */
    take(r, ENDPOINT, "end", 900, T0);
    struct ration_decision d = check(r, c, 3);

    assert_int_equal(d.decided_by, 2); /* 98 of 1000 */
    assert_int_equal(d.verdict.remaining, 98);
    ration_close(r);
}

static void shadow_limits_never_refuse_nor_decide(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(WATCHED, "me", 1), charge(IP, "ip", 1)};
    struct ration_totals t;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct ration_decision d = check(r, c, 2);

        assert_true(d.allowed);
        assert_int_equal(d.decided_by, 1);
        assert_int_equal(c[0].verdict.allowed, i < 2);
        assert_int_equal(c[0].taken, i < 2);
    }
    assert_int_equal(left(r, IP, "ip", T0), 97);
    ration_totals(r, &t);
    assert_int_equal(t.allowed, 3);
    assert_int_equal(t.shadowed, 1);
    assert_int_equal(ration_limit_totals(r, WATCHED, &t), 0);
    assert_int_equal(t.shadowed, 1);

    assert_int_equal(check(r, c, 1).decided_by, -1);
    assert_true(check(r, c, 1).allowed);
    ration_close(r);
}

static void shadow_limits_are_charged_only_when_the_request_goes_ahead(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(WATCHED, "me", 1), charge(IP, "ip", 1)};

    (void)state;
    take(r, IP, "ip", 100, T0);
    assert_false(check(r, c, 2).allowed);
    assert_int_equal(left(r, WATCHED, "me", T0), 2);
    assert_true(c[0].verdict.allowed);
    assert_int_equal(c[0].verdict.limit, 2);
    assert_int_equal(c[0].verdict.remaining, 2);
    ration_close(r);
}

static void nothing_to_check_is_allowed(void **state)
{
    struct ration *r = open_some();
    struct ration_decision d = check(r, NULL, 0);

    (void)state;
    assert_true(d.allowed);
    assert_true(d.verdict.allowed);
    assert_int_equal(d.decided_by, -1);
    ration_close(r);
}

static void what_cannot_be_checked_is_an_error_that_charges_nothing(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[RATION_CHARGES_MAX + 1];
    struct ration_decision d = {.decided_by = 77};

    (void)state;
    for (size_t i = 0; i < COUNT(c); i++)
        c[i] = charge(IP, "ip", 1);
    assert_int_equal(ration_check(r, c, COUNT(c), T0, &d), RATION_EINVAL);
    c[1] = charge(PLACES, "p", 1);
    assert_int_equal(ration_check(r, c, 2, T0, &d), RATION_EINVAL);
    assert_int_equal(c[1].error, RATION_EINVAL);
    c[1] = charge(99, "p", 1);
    assert_int_equal(ration_check(r, c, 2, T0, &d), RATION_EINVAL);
    assert_int_equal(d.decided_by, 77);
    assert_int_equal(left(r, IP, "ip", T0), 100);
    ration_close(r);
}

static void as_many_as_allowed_are_checked_together(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[RATION_CHARGES_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(c); i++)
        c[i] = charge(IP, "ip", 1);
    assert_true(check(r, c, COUNT(c)).allowed);
    assert_int_equal(left(r, IP, "ip", T0), 100 - RATION_CHARGES_MAX);
    assert_false(check(r, c, COUNT(c)).allowed); /* 36 would fit */
    assert_int_equal(left(r, IP, "ip", T0), 100 - RATION_CHARGES_MAX);
    ration_close(r);
}

static void the_longest_delay_is_that_of_the_decision(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(SLOW_QUEUE, "s", 1), charge(QUEUE, "q", 1),
                                charge(USER, "user", 1)};

    (void)state;
    take(r, QUEUE, "q", 2, T0);
    take(r, SLOW_QUEUE, "s", 3, T0);
    struct ration_decision d = check(r, c, 3);

    assert_true(d.allowed);
    assert_int_equal(d.decided_by, 2);
    assert_int_equal(d.verdict.delay_ns, 3 * SECOND);
    assert_int_equal(c[1].verdict.delay_ns, SECOND / 5);
    assert_int_equal(c[2].verdict.delay_ns, 0);
    ration_close(r);
}

static void a_limit_of_nothing_refuses_for_ever(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(USER, "u", 1), charge(CLOSED, "c", 1)};
    struct ration_decision d = check(r, c, 2);

    (void)state;
    assert_false(d.allowed);
    assert_int_equal(d.verdict.retry_after_ns, RATION_NEVER);
    ration_close(r);
}

static void limits_given_per_call_take_part(void **state)
{
    struct ration *r = open_some();
    struct ration_limit one = named("", "1 per minute").limit,
                        two = named("", "2 per minute").limit;
    struct ration_charge c[] = {{.ad_hoc = &one, .key = "a", .key_len = 1, .cost = 1},
                                {.ad_hoc = &two, .key = "b", .key_len = 1, .cost = 1},
                                charge(IP, "ip", 1)};

    (void)state;
    assert_true(check(r, c, 3).allowed);
    assert_false(check(r, c, 3).allowed);
    assert_int_equal(ration_peek(r, &c[1], T0), 0);
    assert_int_equal(c[1].verdict.remaining, 1);
    assert_int_equal(left(r, IP, "ip", T0), 99);
    ration_close(r);
}

/* A table so full of kept keys that new ones are refused. */
static void a_full_table_is_an_error_and_what_was_taken_is_given_back(void **state)
{
    const struct ration_named limits[] = {
        named("api", "10 per second"),
        flagged(named("quota", "10 per hour"), RATION_KEEP),
    };
    struct ration_options options = {
        .memory_bytes = UINT64_C(1) << 20, .limits = limits, .limit_count = 2};
    struct ration *r;
    struct ration_charge c[] = {charge(0, "me", 1), charge(1, "", 1)};
    struct ration_decision d = {.decided_by = 77};
    struct ration_totals t;
    char key[16];

    (void)state;
    assert_int_equal(ration_open(&options, &r, NULL), 0);
    take(r, 0, "me", 1, T0);
    for (unsigned i = 0; i < 200000; i++) {
        snprintf(key, sizeof key, "%u", i);
        c[1] = charge(1, key, 1);
        if (ration_take(r, &c[1], T0) != 0)
            break;
    }
    assert_int_equal(c[1].error, RATION_EFULL);
    assert_int_equal(ration_check(r, c, 2, T0, &d), RATION_EFULL);
    assert_int_equal(c[0].error, 0);
    assert_int_equal(c[1].error, RATION_EFULL);
    assert_int_equal(d.decided_by, 77);
    assert_int_equal(left(r, 0, "me", T0), 9);
    ration_totals(r, &t);
    assert_int_equal(t.errors, 2);
    assert_int_equal(ration_limit_totals(r, 1, &t), 0);
    assert_int_equal(t.errors, 2);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_charged_when_one_refuses),
        cmocka_unit_test(all_are_charged_when_all_admit),
        cmocka_unit_test(the_longest_wait_decides_a_refusal),
        cmocka_unit_test(the_limit_nearest_its_end_decides_an_admission),
        cmocka_unit_test(shadow_limits_never_refuse_nor_decide),
        cmocka_unit_test(shadow_limits_are_charged_only_when_the_request_goes_ahead),
        cmocka_unit_test(nothing_to_check_is_allowed),
        cmocka_unit_test(what_cannot_be_checked_is_an_error_that_charges_nothing),
        cmocka_unit_test(as_many_as_allowed_are_checked_together),
        cmocka_unit_test(the_longest_delay_is_that_of_the_decision),
        cmocka_unit_test(a_limit_of_nothing_refuses_for_ever),
        cmocka_unit_test(limits_given_per_call_take_part),
        cmocka_unit_test(a_full_table_is_an_error_and_what_was_taken_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
