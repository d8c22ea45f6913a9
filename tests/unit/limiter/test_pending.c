/* SPDX-License-Identifier: Apache-2.0 */
/* A check over a store that answers later, loses races and fails: between any
 * two of its batches the test may do what others would. */
#include "fixture.h"

#include "deferring.h"
#include "limiter/check.h"
#include "limiter/limiter.h"

enum { WIDE, NARROW, WATCHED, FREE_TIER, PRO_TIER, GUARDED, GUARD, OTHER_GUARD };

struct scene {
    struct ration *r;
    struct deferring deferring;
    struct rn_check check;
    int done;
};

static void note_done(void *arg, struct rn_check *check)
{
    struct scene *s = arg;

    assert_ptr_equal(check, &s->check);
    s->done++;
}

static void open_scene(struct scene *s)
{
    const struct ration_named limits[] = {
        [WIDE] = named("wide", "100 per second"),
        [NARROW] = named("narrow", "3 per minute"),
        [WATCHED] = flagged(named("watched", "10 per minute"), RATION_SHADOW),
        [FREE_TIER] = named("tier", "10 per minute"),
        [PRO_TIER] = named("tier", "100 per second"),
        [GUARDED] = with(named("guarded", "10 per 10s"), RATION_FIXED_WINDOW),
        [GUARD] = with(named("guarded", "90 per minute"), RATION_SLIDING_LOG),
        [OTHER_GUARD] = with(named("guarded", "4000 per hour"), RATION_SLIDING_WINDOW),
    };

    *s = (struct scene){.r = open_limits(limits, COUNT(limits))};
    s->deferring.store.ops = &deferring_ops;
    s->deferring.real = s->r->store;
}

static void start(struct scene *s, struct ration_charge *c, size_t n)
{
    rn_check_init(&s->check, s->r, c, n, T0);
    s->check.store = &s->deferring.store;
    s->check.done = note_done;
    s->check.arg = s;
    assert_int_equal(rn_check_start(&s->check), RN_PENDING);
    assert_int_equal(s->done, 0);
}

static int pump_until_done(struct scene *s)
{
    int batches = 0;

    for (; !s->done; batches++)
        pump(&s->deferring);
    assert_int_equal(s->done, 1);
    assert_null(s->deferring.batch);
    return batches;
}

static void a_pending_check_ends_when_its_store_answers(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(NARROW, "n", 1),
                                charge(WATCHED, "s", 1)};

    (void)state;
    open_scene(&s);
    start(&s, c, 3);
    assert_int_equal(pump_until_done(&s), 4); /* look, two takes, shadow */
    assert_int_equal(s.check.error, 0);
    assert_true(s.check.decision.allowed);
    assert_int_equal(left(s.r, WIDE, "w", T0), 99);
    assert_int_equal(left(s.r, NARROW, "n", T0), 2);
    assert_int_equal(left(s.r, WATCHED, "s", T0), 9);
    ration_close(s.r);
}

static void a_refusal_ends_after_the_look(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(NARROW, "n", 4)};

    (void)state;
    open_scene(&s);
    start(&s, c, 2);
    assert_int_equal(pump_until_done(&s), 1);
    assert_false(s.check.decision.allowed);
    assert_int_equal(left(s.r, WIDE, "w", T0), 100);
    ration_close(s.r);
}

static void the_narrowest_limit_is_taken_first(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(NARROW, "n", 1)};

    (void)state;
    open_scene(&s);
    start(&s, c, 2);
    pump(&s.deferring);
    assert_int_equal(s.deferring.batch->ask.op, RN_TAKE);
    assert_ptr_equal(s.deferring.batch->limit, &s.r->limits[NARROW].limit);
    pump_until_done(&s);
    ration_close(s.r);
}

static void a_race_lost_gives_back_what_was_taken(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(NARROW, "n", 2)};
    struct ration_totals t;

    (void)state;
    open_scene(&s);
    start(&s, c, 2);
    pump(&s.deferring);            /* both would admit */
    pump(&s.deferring);            /* narrow is taken */
    take(s.r, WIDE, "w", 100, T0); /* and somebody else is faster here */
    assert_int_equal(pump_until_done(&s), 2);
    assert_int_equal(s.check.error, 0);
    assert_false(s.check.decision.allowed);
    assert_int_equal(s.check.decision.decided_by, 0);
    assert_int_equal(left(s.r, NARROW, "n", T0), 3);
    assert_int_equal(c[1].taken, 0);
    assert_int_equal(c[1].verdict.remaining, 3);
    assert_true(c[1].verdict.allowed);
    ration_totals(s.r, &t);
    assert_int_equal(t.refused, 1);
    ration_close(s.r);
}

static void a_store_that_fails_gives_back_what_was_taken(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 5), charge(NARROW, "n", 2)};
    struct ration_charge was = c[1];

    (void)state;
    open_scene(&s);
    s.deferring.fail_op = RN_TAKE;
    s.deferring.fail_cost = 5;
    s.deferring.fail_with = RATION_EIO;
    start(&s, c, 2);
    pump_until_done(&s);
    assert_int_equal(s.check.error, RATION_EIO);
    assert_int_equal(c[0].error, RATION_EIO);
    assert_memory_equal(&c[1], &was, sizeof was);
    assert_int_equal(left(s.r, NARROW, "n", T0), 3);
    ration_close(s.r);
}

static void a_store_that_fails_at_the_look_charges_nothing(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 5), charge(NARROW, "n", 2)};

    (void)state;
    open_scene(&s);
    s.deferring.fail_op = RN_PEEK;
    s.deferring.fail_cost = 2;
    s.deferring.fail_with = RATION_EIO;
    start(&s, c, 2);
    assert_int_equal(pump_until_done(&s), 1);
    assert_int_equal(s.check.error, RATION_EIO);
    assert_int_equal(c[1].error, RATION_EIO);
    assert_int_equal(left(s.r, WIDE, "w", T0), 100);
    ration_close(s.r);
}

static void a_shadow_limit_that_fails_stops_nobody(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(WATCHED, "s", 2)};
    struct ration_totals t;

    (void)state;
    open_scene(&s);
    s.deferring.fail_op = RN_TAKE;
    s.deferring.fail_cost = 2;
    s.deferring.fail_with = RATION_EIO;
    start(&s, c, 2);
    pump_until_done(&s);
    assert_int_equal(s.check.error, 0);
    assert_true(s.check.decision.allowed);
    assert_int_equal(c[0].taken, 1);
    assert_int_equal(c[1].error, RATION_EIO);
    assert_int_equal(c[1].taken, 0);
    ration_totals(s.r, &t);
    assert_int_equal(t.allowed, 1);
    assert_int_equal(t.errors, 1);
    ration_close(s.r);
}

static void variants_are_charged_later_too(void **state)
{
    struct scene s;
    struct ration_charge c = charge(FREE_TIER, "me", 4);

    (void)state;
    open_scene(&s);
    start(&s, &c, 1);
    assert_int_equal(pump_until_done(&s), 3); /* take; look at the variant, and count there */
    assert_true(s.check.decision.allowed);
    assert_int_equal(left(s.r, FREE_TIER, "me", T0), 6);
    assert_int_equal(left(s.r, PRO_TIER, "me", T0), 60);
    ration_close(s.r);
}

static void a_variant_that_cannot_be_counted_undoes_the_charge(void **state)
{
    struct scene s;
    struct ration_charge c = charge(FREE_TIER, "me", 4);

    (void)state;
    open_scene(&s);
    s.deferring.fail_op = RN_PEEK;
    s.deferring.fail_cost = 0;
    s.deferring.fail_with = RATION_EFULL;
    start(&s, &c, 1);
    pump_until_done(&s);
    assert_int_equal(s.check.error, RATION_EFULL);
    assert_int_equal(left(s.r, FREE_TIER, "me", T0), 10);
    ration_close(s.r);
}

/* --- guards: limits that are asked besides ---------------------------------------- */

/* One operation on the state of one limit alone, as the store has it. */
static struct rn_answer apply_alone(struct scene *s, uint32_t limit, enum rn_op op, uint64_t cost)
{
    struct rn_charge charge = {.ask = {.op = op, .now_ns = T0, .cost = cost}};

    assert_int_equal(
        rn_limiter_apply(s->r, &s->r->limits[limit], ration_hash(s->r, limit, "me", 2), &charge),
        0);
    return charge.answer;
}

static uint64_t left_alone(struct scene *s, uint32_t limit)
{
    return apply_alone(s, limit, RN_PEEK, 0).remaining;
}

/* A client that has moved, and is about to charge 2 more. */
static void start_guarded(struct scene *s, struct ration_charge *c)
{
    open_scene(s);
    assert_int_equal(s->r->limits[GUARDED].guard_count, 2);
    take(s->r, GUARD, "me", 1, T0);
    *c = charge(GUARDED, "me", 2);
    start(s, c, 1);
}

static void guards_are_asked_looked_at_and_taken(void **state)
{
    struct scene s;
    struct ration_charge c;

    (void)state;
    start_guarded(&s, &c);
    /* mark, look, look at guards, take, take of guards; no other variants */
    assert_int_equal(pump_until_done(&s), 5);
    assert_true(s.check.decision.allowed);
    assert_int_equal(left_alone(&s, GUARD), 90 - 3);
    ration_close(s.r);
}

/* Whichever of the guards refuses after all: the other one has taken in vain. */
static void a_guard_that_refuses_late_undoes_all(void **state)
{
    (void)state;
    for (uint32_t refuses = GUARD; refuses <= OTHER_GUARD; refuses++) {
        uint32_t other = GUARD + OTHER_GUARD - refuses;
        struct scene s;
        struct ration_charge c;

        start_guarded(&s, &c);
        uint64_t own = left_alone(&s, GUARDED), others = left_alone(&s, other);

        for (int i = 0; i < 4; i++)
            pump(&s.deferring);
        assert_int_equal(s.deferring.n, 2);
        assert_int_equal(s.deferring.batch[0].ask.op, RN_TAKE);
        apply_alone(&s, refuses, RN_FORCE, 10000);
        assert_int_equal(pump_until_done(&s), 3); /* guards, and back: theirs, ours */
        assert_int_equal(s.check.error, 0);
        assert_false(s.check.decision.allowed);
        assert_true(c.verdict.retry_after_ns > 0);
        assert_int_equal(c.verdict.remaining, 0);
        assert_int_equal(c.taken, 0);
        assert_int_equal(left_alone(&s, GUARDED), own);
        assert_int_equal(left_alone(&s, other), others);
        ration_close(s.r);
    }
}

static void a_guard_that_fails_undoes_all(void **state)
{
    struct scene s;
    struct ration_charge c;

    (void)state;
    start_guarded(&s, &c);
    uint64_t own = left_alone(&s, GUARDED);

    for (int i = 0; i < 4; i++)
        pump(&s.deferring);
    s.deferring.fail_op = RN_TAKE;
    s.deferring.fail_cost = 2;
    s.deferring.fail_with = RATION_EFULL;
    pump_until_done(&s);
    assert_int_equal(s.check.error, RATION_EFULL);
    assert_int_equal(c.error, RATION_EFULL);
    assert_int_equal(left_alone(&s, GUARDED), own);
    ration_close(s.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pending_check_ends_when_its_store_answers),
        cmocka_unit_test(a_refusal_ends_after_the_look),
        cmocka_unit_test(the_narrowest_limit_is_taken_first),
        cmocka_unit_test(a_race_lost_gives_back_what_was_taken),
        cmocka_unit_test(a_store_that_fails_gives_back_what_was_taken),
        cmocka_unit_test(a_store_that_fails_at_the_look_charges_nothing),
        cmocka_unit_test(a_shadow_limit_that_fails_stops_nobody),
        cmocka_unit_test(variants_are_charged_later_too),
        cmocka_unit_test(a_variant_that_cannot_be_counted_undoes_the_charge),
        cmocka_unit_test(guards_are_asked_looked_at_and_taken),
        cmocka_unit_test(a_guard_that_refuses_late_undoes_all),
        cmocka_unit_test(a_guard_that_fails_undoes_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
