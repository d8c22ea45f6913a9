/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations: settled once, by any holder of the charges, or not at all. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOKENS, QUOTA, WATCHED };

static const char *const texts[] = {"1000 per minute", "5000 per hour", "30 per hour"};

static struct ration *open_some(void)
{
    const struct ration_named limits[] = {
        [TOKENS] = named("tokens", texts[TOKENS]),
        [QUOTA] = flagged(with(named("quota", texts[QUOTA]), RATION_FIXED_WINDOW), RATION_KEEP),
        [WATCHED] = flagged(named("watched", texts[WATCHED]), RATION_SHADOW),
    };

    return open_limits(limits, COUNT(limits));
}

struct reservation {
    struct ration_charge c[2];
    struct ration_decision d;
    uint64_t hold;
};

static void reserve(struct ration *r, struct reservation *v, uint64_t cost)
{
    *v = (struct reservation){.c = {charge(TOKENS, "me", cost), charge(QUOTA, "me", cost)}};
    assert_int_equal(ration_reserve(r, v->c, 2, MINUTE, T0, &v->hold, &v->d), 0);
}

static void what_was_not_used_comes_back(void **state)
{
    struct ration *r = open_some();
    struct reservation v;

    (void)state;
    reserve(r, &v, 400);
    assert_true(v.d.allowed && v.hold != 0);
    assert_int_equal(left(r, TOKENS, "me", T0), 600);
    assert_int_equal(ration_commit(r, v.hold, v.c, 2, (uint64_t[]){100, 250}, T0), 0);
    assert_int_equal(left(r, TOKENS, "me", T0), 900);
    assert_int_equal(left(r, QUOTA, "me", T0), 4750);
    ration_close(r);
}

static void a_refund_returns_everything(void **state)
{
    struct ration *r = open_some();
    struct reservation v;

    (void)state;
    reserve(r, &v, 400);
    assert_int_equal(ration_refund(r, v.hold, v.c, 2, T0), 0);
    assert_int_equal(left(r, TOKENS, "me", T0), 1000);
    assert_int_equal(left(r, QUOTA, "me", T0), 5000);
    ration_close(r);
}

static void what_was_reset_is_not_returned_as_well(void **state)
{
    struct ration *r = open_some();
    struct ration_charge forgiven = charge(TOKENS, "me", 0);
    struct reservation v;

    (void)state;
    reserve(r, &v, 400);
    assert_int_equal(ration_reset(r, &forgiven, T0 + 1), 0);
    struct ration_charge since = charge(TOKENS, "me", 500);

    assert_int_equal(ration_take(r, &since, T0 + 1), 0);
    assert_int_equal(ration_refund(r, v.hold, v.c, 2, T0 + 1), 0);
    assert_int_equal(left(r, TOKENS, "me", T0 + 1), 500);
    assert_int_equal(left(r, QUOTA, "me", T0 + 1), 5000); /* the other charge is not affected */
    ration_close(r);
}

static void a_reservation_is_settled_once(void **state)
{
    struct ration *r = open_some();
    struct reservation v;

    (void)state;
    reserve(r, &v, 400);
    struct reservation copy = v;

    assert_int_equal(ration_commit(r, v.hold, v.c, 2, (uint64_t[]){400, 400}, T0), 0);
    assert_int_equal(ration_refund(r, copy.hold, copy.c, 2, T0), RATION_EGONE);
    assert_int_equal(ration_commit(r, copy.hold, copy.c, 2, (uint64_t[]){0, 0}, T0), RATION_EGONE);
    assert_int_equal(left(r, TOKENS, "me", T0), 600);
    ration_close(r);
}

static void after_the_timeout_the_charge_stands(void **state)
{
    struct ration *r = open_some();
    struct reservation v;

    (void)state;
    reserve(r, &v, 400);
    struct reservation copy = v;

    assert_int_equal(ration_refund(r, v.hold, v.c, 2, T0 + MINUTE), RATION_EGONE);
    assert_int_equal(left(r, QUOTA, "me", T0), 4600);
    reserve(r, &copy, 400);
    assert_int_equal(ration_refund(r, copy.hold, copy.c, 2, T0 + MINUTE - 1), 0);
    assert_int_equal(left(r, QUOTA, "me", T0), 4600);
    ration_close(r);
}

static void more_than_was_reserved_is_charged_in_full(void **state)
{
    struct ration *r = open_some();
    struct ration_totals totals;
    struct reservation v;

    (void)state;
    reserve(r, &v, 400);
    assert_int_equal(ration_commit(r, v.hold, v.c, 2, (uint64_t[]){1, 450}, T0), 0);
    assert_int_equal(left(r, TOKENS, "me", T0), 999);
    assert_int_equal(left(r, QUOTA, "me", T0), 4550);
    assert_int_equal(ration_commit(r, v.hold, v.c, 2, (uint64_t[]){1, 450}, T0), RATION_EGONE);
    assert_int_equal(left(r, QUOTA, "me", T0), 4550);
    reserve(r, &v, 400); /* 4150 left: down to 5000 below empty */
    assert_int_equal(ration_commit(r, v.hold, v.c, 2, (uint64_t[]){1, 400 + 9150 + 7}, T0), 0);
    assert_int_equal(left(r, QUOTA, "me", T0), 0);
    ration_limit_totals(r, QUOTA, &totals);
    assert_int_equal(totals.uncollected, 7);
    ration_close(r);
}

static void a_refused_request_reserves_nothing(void **state)
{
    struct ration *r = open_some();
    struct reservation v;
    struct ration_memory m;

    (void)state;
    reserve(r, &v, 1001);
    assert_false(v.d.allowed);
    assert_int_equal(v.hold, 0);
    ration_memory(r, T0, &m);
    assert_int_equal(m.live, 0);
    assert_int_equal(ration_refund(r, v.hold, v.c, 2, T0), RATION_EGONE);
    ration_close(r);
}

static void a_shadow_limit_that_took_nothing_returns_nothing(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(TOKENS, "me", 40), charge(WATCHED, "me", 40)};
    struct ration_decision d;
    uint64_t hold;

    (void)state;
    assert_int_equal(ration_reserve(r, c, 2, MINUTE, T0, &hold, &d), 0);
    assert_true(d.allowed);
    assert_int_equal(ration_commit(r, hold, c, 2, (uint64_t[]){35, 35}, T0), 0);
    assert_int_equal(left(r, TOKENS, "me", T0), 965);
    assert_int_equal(left(r, WATCHED, "me", T0), 30);
    ration_close(r);
}

static void timeouts_have_bounds(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(TOKENS, "me", 1);
    struct ration_decision d;
    uint64_t hold = 7;
    const int64_t wrong[] = {-1, 0, 999999, 86400 * SECOND + 1};
    const int64_t right[] = {1000000, 86400 * SECOND};

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_int_equal(ration_reserve(r, &c, 1, wrong[i], T0, &hold, &d), RATION_EINVAL);
    assert_int_equal(hold, 7);
    assert_int_equal(left(r, TOKENS, "me", T0), 1000);
    for (size_t i = 0; i < COUNT(right); i++) {
        assert_int_equal(ration_reserve(r, &c, 1, right[i], T0, &hold, &d), 0);
        assert_int_equal(ration_refund(r, hold, &c, 1, T0 + right[i] - 1), 0);
    }
    ration_close(r);
}

static void a_guess_settles_nothing(void **state)
{
    struct ration *r = open_some();
    struct reservation v;

    (void)state;
    reserve(r, &v, 400);
    for (unsigned i = 0; i < 64; i++) {
        struct reservation copy = v;

        assert_int_equal(ration_refund(r, v.hold ^ UINT64_C(1) << i, copy.c, 2, T0), RATION_EGONE);
    }
    assert_int_equal(ration_refund(r, v.hold, v.c, 2, T0), 0);
    ration_close(r);
}

/* Kept keys fill the table, so that there is no room for the reservation. */
static void a_reservation_that_finds_no_room_charges_nothing(void **state)
{
    const struct ration_named limit = flagged(named("quota", "10 per hour"), RATION_KEEP);
    struct ration_options options = {
        .memory_bytes = UINT64_C(1) << 20, .limits = &limit, .limit_count = 1};
    struct ration *r;
    struct ration_charge c = charge(0, "me", 4);
    struct ration_decision d;
    uint64_t hold = 7;
    int code = 0;

    (void)state;
    assert_int_equal(ration_open(&options, &r, NULL), 0);
    take(r, 0, "me", 1, T0);
    for (unsigned i = 0, full = 0; full < 100000; i++) { /* until hardly any slot is left */
        char key[16];

        snprintf(key, sizeof key, "%u", i);
        struct ration_charge other = charge(0, key, 1);

        full += ration_take(r, &other, T0) != 0;
    }
    for (int i = 0; i < 10 && code == 0; i++) {
        code = ration_reserve(r, &c, 1, MINUTE, T0, &hold, &d);
        if (code == 0)
            assert_int_equal(ration_refund(r, hold, &c, 1, T0), 0);
    }
    assert_int_equal(code, RATION_EFULL);
    assert_int_equal(left(r, 0, "me", T0), 9);
    ration_close(r);
}

/* Ids made after a fork differ from the parent's, though all else is copied. */
static void a_child_process_makes_ids_of_its_own(void **state)
{
    struct ration *r = open_some();
    struct reservation v;
    uint64_t childs = 0;
    int pipes[2];

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();

    if (child == 0) {
        struct reservation in_child = {.c = {charge(TOKENS, "me", 1)}};
        int code = ration_reserve(r, in_child.c, 1, MINUTE, T0, &in_child.hold, &in_child.d);

        code |= write(pipes[1], &in_child.hold, sizeof in_child.hold) != sizeof in_child.hold;
        _exit(code != 0);
    }
    reserve(r, &v, 1);
    assert_int_equal(read(pipes[0], &childs, sizeof childs), sizeof childs);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(childs != 0 && childs != v.hold);
    close(pipes[0]);
    close(pipes[1]);
    ration_close(r);
}

static void another_process_may_settle(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    struct ration_named limit = named("tokens", "1000 per minute");
    struct ration_options options = {
        .state_path = path, .memory_bytes = UINT64_C(1) << 20, .limits = &limit, .limit_count = 1};
    struct ration *a, *b;
    struct ration_charge c = charge(0, "me", 400);
    struct ration_decision d;
    uint64_t hold;

    (void)state;
    close(mkstemp(path));
    unlink(path);
    assert_int_equal(ration_open(&options, &a, NULL), 0);
    assert_int_equal(ration_open(&options, &b, NULL), 0);
    assert_int_equal(ration_reserve(a, &c, 1, MINUTE, T0, &hold, &d), 0);
    struct ration_charge copy = c;

    assert_int_equal(ration_refund(b, hold, &c, 1, T0), 0);
    assert_int_equal(ration_refund(a, hold, &copy, 1, T0), RATION_EGONE);
    assert_int_equal(left(a, 0, "me", T0), 1000);
    ration_close(a);
    ration_close(b);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_used_comes_back),
        cmocka_unit_test(a_refund_returns_everything),
        cmocka_unit_test(what_was_reset_is_not_returned_as_well),
        cmocka_unit_test(a_reservation_is_settled_once),
        cmocka_unit_test(after_the_timeout_the_charge_stands),
        cmocka_unit_test(more_than_was_reserved_is_charged_in_full),
        cmocka_unit_test(a_refused_request_reserves_nothing),
        cmocka_unit_test(a_shadow_limit_that_took_nothing_returns_nothing),
        cmocka_unit_test(timeouts_have_bounds),
        cmocka_unit_test(a_guess_settles_nothing),
        cmocka_unit_test(a_reservation_that_finds_no_room_charges_nothing),
        cmocka_unit_test(a_child_process_makes_ids_of_its_own),
        cmocka_unit_test(another_process_may_settle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
