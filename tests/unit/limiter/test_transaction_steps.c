/* SPDX-License-Identifier: Apache-2.0 */
/* A check step by step: between any two of its batches the test does what other clients
 * would, or the store fails. */
#include "fixture.h"

#include "limiter/limiter.h"

enum { WIDE, NARROW, WATCHED, FREE_TIER, PRO_TIER, GUARDED, GUARD, OTHER_GUARD };

struct scene {
    struct rn_store store; /* first: in front of the limiter's own */
    struct rn_store *real;
    struct ration *r;
    int batches; /* of the check so far */
    int before;  /* number of the batch before which `meddle` is called; 0: none */
    void (*meddle)(struct scene *s, const struct rn_charge *batch, size_t n);
    enum rn_op fail_op; /* the store fails with this operation, */
    uint64_t fail_cost; /* when it has this cost; */
    int fail_with;      /* 0: never */
    int fail_from;      /* not before this batch */

    int error;
    struct ration_decision decision;
};

static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct scene *s = (struct scene *)(void *)store;

    if (++s->batches == s->before) {
        s->r->store = s->real;
        s->meddle(s, batch, n);
        s->r->store = &s->store;
    }
    rn_store_apply(s->real, batch, n);
    for (size_t i = 0; i < n && s->batches >= s->fail_from; i++)
        if (s->fail_with != 0 && batch[i].ask.op == s->fail_op && batch[i].ask.cost == s->fail_cost)
            batch[i].error = s->fail_with;
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

    static const struct rn_store_ops ops = {.apply = apply};

    *s = (struct scene){.store = {&ops}, .r = open_limits(limits, COUNT(limits))};
    s->real = s->r->store;
}

static void check(struct scene *s, struct ration_charge *c, size_t n)
{
    s->r->store = &s->store;
    s->error = ration_check(s->r, c, n, T0, &s->decision);
    s->r->store = s->real;
}

static void a_check_looks_takes_and_charges_shadows(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(NARROW, "n", 1),
                                charge(WATCHED, "s", 1)};

    (void)state;
    open_scene(&s);
    check(&s, c, 3);
    assert_int_equal(s.batches, 4); /* look, two takes, shadow */
    assert_int_equal(s.error, 0);
    assert_true(s.decision.allowed);
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
    check(&s, c, 2);
    assert_int_equal(s.batches, 1);
    assert_false(s.decision.allowed);
    assert_int_equal(left(s.r, WIDE, "w", T0), 100);
    ration_close(s.r);
}

static void expect_narrow(struct scene *s, const struct rn_charge *batch, size_t n)
{
    assert_int_equal(n, 1);
    assert_int_equal(batch->ask.op, RN_TAKE);
    assert_ptr_equal(batch->limit, &s->r->limits[NARROW].limit);
}

static void the_narrowest_limit_is_taken_first(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(NARROW, "n", 1)};

    (void)state;
    open_scene(&s);
    s.before = 2; /* after the look */
    s.meddle = expect_narrow;
    check(&s, c, 2);
    assert_int_equal(s.batches, 3);
    ration_close(s.r);
}

static void spend_wide(struct scene *s, const struct rn_charge *batch, size_t n)
{
    (void)batch, (void)n;
    take(s->r, WIDE, "w", 100, T0);
}

static void a_race_lost_gives_back_what_was_taken(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(NARROW, "n", 2)};
    struct ration_totals t;

    (void)state;
    open_scene(&s);
    s.before = 3; /* both would admit, and narrow is taken */
    s.meddle = spend_wide;
    check(&s, c, 2);
    assert_int_equal(s.batches, 4);
    assert_int_equal(s.error, 0);
    assert_false(s.decision.allowed);
    assert_int_equal(s.decision.decided_by, 0);
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
    s.fail_op = RN_TAKE;
    s.fail_cost = 5;
    s.fail_with = RATION_EIO;
    check(&s, c, 2);
    assert_int_equal(s.error, RATION_EIO);
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
    s.fail_op = RN_PEEK;
    s.fail_cost = 2;
    s.fail_with = RATION_EIO;
    check(&s, c, 2);
    assert_int_equal(s.batches, 1);
    assert_int_equal(s.error, RATION_EIO);
    assert_int_equal(c[1].error, RATION_EIO);
    assert_int_equal(left(s.r, WIDE, "w", T0), 100);
    ration_close(s.r);
}

static void a_shadow_limit_that_fails_stops_no_request(void **state)
{
    struct scene s;
    struct ration_charge c[] = {charge(WIDE, "w", 1), charge(WATCHED, "s", 2)};
    struct ration_totals t;

    (void)state;
    open_scene(&s);
    s.fail_op = RN_TAKE;
    s.fail_cost = 2;
    s.fail_with = RATION_EIO;
    check(&s, c, 2);
    assert_int_equal(s.error, 0);
    assert_true(s.decision.allowed);
    assert_int_equal(c[0].taken, 1);
    assert_int_equal(c[1].error, RATION_EIO);
    assert_int_equal(c[1].taken, 0);
    ration_totals(s.r, &t);
    assert_int_equal(t.allowed, 1);
    assert_int_equal(t.errors, 1);
    ration_close(s.r);
}

static void variants_are_charged_after_their_limit(void **state)
{
    struct scene s;
    struct ration_charge c = charge(FREE_TIER, "me", 4);

    (void)state;
    open_scene(&s);
    check(&s, &c, 1);
    assert_int_equal(s.batches, 3); /* take; look at the variant, and count there */
    assert_true(s.decision.allowed);
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
    s.fail_op = RN_PEEK;
    s.fail_cost = 0;
    s.fail_with = RATION_EFULL;
    check(&s, &c, 1);
    assert_int_equal(s.error, RATION_EFULL);
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
static struct ration_charge move_client(struct scene *s)
{
    open_scene(s);
    assert_int_equal(s->r->limits[GUARDED].guard_count, 2);
    take(s->r, GUARD, "me", 1, T0);
    return charge(GUARDED, "me", 2);
}

static void guards_are_asked_looked_at_and_taken(void **state)
{
    struct scene s;
    struct ration_charge c = move_client(&s);

    (void)state;
    check(&s, &c, 1);
    /* mark, look, look at guards, take, take of guards; no other variants */
    assert_int_equal(s.batches, 5);
    assert_true(s.decision.allowed);
    assert_int_equal(left_alone(&s, GUARD), 90 - 3);
    ration_close(s.r);
}

static void spend_guard(struct scene *s, const struct rn_charge *batch, size_t n)
{
    assert_int_equal(n, 2);
    assert_int_equal(batch->ask.op, RN_TAKE);
    apply_alone(s, GUARD, RN_FORCE, 10000);
}

static void spend_other_guard(struct scene *s, const struct rn_charge *batch, size_t n)
{
    assert_int_equal(n, 2);
    assert_int_equal(batch->ask.op, RN_TAKE);
    apply_alone(s, OTHER_GUARD, RN_FORCE, 10000);
}

/* Whichever of the guards refuses after all: the other one has taken in vain. */
static void a_guard_that_refuses_late_undoes_all(void **state)
{
    (void)state;
    for (uint32_t refuses = GUARD; refuses <= OTHER_GUARD; refuses++) {
        uint32_t other = GUARD + OTHER_GUARD - refuses;
        struct scene s;
        struct ration_charge c = move_client(&s);
        uint64_t own = left_alone(&s, GUARDED), others = left_alone(&s, other);

        s.before = 5;
        s.meddle = refuses == GUARD ? spend_guard : spend_other_guard;
        check(&s, &c, 1);
        assert_int_equal(s.batches, 4 + 3); /* guards, and back: theirs, ours */
        assert_int_equal(s.error, 0);
        assert_false(s.decision.allowed);
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
    struct ration_charge c = move_client(&s);
    uint64_t own = left_alone(&s, GUARDED);

    (void)state;
    s.fail_from = 5; /* the take of the limit is like those of its guards */
    s.fail_op = RN_TAKE;
    s.fail_cost = 2;
    s.fail_with = RATION_EFULL;
    check(&s, &c, 1);
    assert_int_equal(s.error, RATION_EFULL);
    assert_int_equal(c.error, RATION_EFULL);
    assert_int_equal(left_alone(&s, GUARDED), own);
    ration_close(s.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_looks_takes_and_charges_shadows),
        cmocka_unit_test(a_refusal_ends_after_the_look),
        cmocka_unit_test(the_narrowest_limit_is_taken_first),
        cmocka_unit_test(a_race_lost_gives_back_what_was_taken),
        cmocka_unit_test(a_store_that_fails_gives_back_what_was_taken),
        cmocka_unit_test(a_store_that_fails_at_the_look_charges_nothing),
        cmocka_unit_test(a_shadow_limit_that_fails_stops_no_request),
        cmocka_unit_test(variants_are_charged_after_their_limit),
        cmocka_unit_test(a_variant_that_cannot_be_counted_undoes_the_charge),
        cmocka_unit_test(guards_are_asked_looked_at_and_taken),
        cmocka_unit_test(a_guard_that_refuses_late_undoes_all),
        cmocka_unit_test(a_guard_that_fails_undoes_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
