/* SPDX-License-Identifier: Apache-2.0 */
/* Taking what is left of a limit that refuses, and giving units back without a receipt. */
#include "rules_fixture.h"

enum { API, LOG, SMALL, LARGE, PLACES };

static struct ration *open_some(void)
{
    const struct ration_named limits[] = {
        [API] = named("api", "10 per minute"),
        [LOG] = with(named("log", "5 per 10s"), RATION_SLIDING_LOG),
        [SMALL] = named("tier", "10 per minute"),
        [LARGE] = with(named("tier", "20 per hour"), RATION_FIXED_WINDOW),
        [PLACES] = named("places", "3 concurrent"),
    };

    return open_limits(limits, COUNT(limits));
}

static struct ration_charge draining(uint32_t limit, uint64_t cost)
{
    struct ration_charge c = charge(limit, "me", cost);

    c.drain = true;
    return c;
}

static void assert_drained(const struct ration_charge *c, uint64_t taken)
{
    assert_false(c->verdict.allowed);
    assert_int_equal(c->verdict.remaining, 0);
    assert_int_equal(c->taken, taken);
}

/* --- draining ---------------------------------------------------------------- */

static void what_does_not_fit_takes_what_is_left_and_is_refused(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = draining(API, 5);
    struct ration_totals totals;

    (void)state;
    take(r, API, "me", 7, T0);
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_drained(&c, 3);
    assert_int_equal(c.verdict.retry_after_ns, 30 * SECOND);
    assert_int_equal(left(r, API, "me", T0), 0);
    ration_totals(r, &totals);
    assert_int_equal(totals.allowed, 1);
    assert_int_equal(totals.refused, 1);
    ration_close(r);
}

static void what_was_drained_can_be_given_back_once(void **state)
{
    struct ration *r = open_some();

    (void)state;
    for (uint32_t limit = API; limit <= LARGE; limit++) {
        struct ration_charge c = draining(limit, 21);

        take(r, limit, "me", 2, T0);
        uint64_t before = left(r, limit, "me", T0);

        assert_int_equal(ration_take(r, &c, T0), 0);
        assert_drained(&c, before);
        assert_int_equal(ration_give_back(r, &c, T0), 0);
        assert_int_equal(ration_give_back(r, &c, T0), 0);
        assert_int_equal(left(r, limit, "me", T0), before);
    }
    ration_close(r);
}

static void a_batch_drains_those_that_ask_for_it(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(API, "me", 6), charge(API, "me", 5), draining(API, 5),
                                draining(LOG, 6), charge(API, "me", 1)};

    (void)state;
    ration_take_batch(r, c, COUNT(c), T0);
    assert_true(c[0].verdict.allowed);
    assert_false(c[1].verdict.allowed);
    assert_int_equal(c[1].verdict.remaining, 4);
    assert_drained(&c[2], 4);
    assert_drained(&c[3], 5);
    assert_false(c[4].verdict.allowed);
    ration_close(r);
}

/* Or a client could drain one tier and go on in the other. */
static void draining_one_variant_counts_in_the_others(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = draining(SMALL, 12);

    (void)state;
    take(r, SMALL, "me", 4, T0);
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_drained(&c, 6);
    assert_int_equal(left(r, LARGE, "me", T0), 6); /* 4 of 10 are 8 of 20, and 6 more */
    ration_close(r);
}

static void one_of_several_limits_cannot_be_drained(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(API, "me", 1), draining(LOG, 1)};
    struct ration_decision d;
    uint64_t hold;

    (void)state;
    assert_int_equal(ration_check(r, c, 2, T0, &d), RATION_ESEVERAL);
    assert_int_equal(left(r, API, "me", T0), 10);
    c[1].cost = 7;
    assert_int_equal(ration_check(r, &c[1], 1, T0, &d), 0);
    assert_false(d.allowed);
    assert_int_equal(d.verdict.remaining, 0);
    assert_drained(&c[1], 5);
    assert_int_equal(ration_reserve(r, &c[1], 1, SECOND, T0, &hold, &d), RATION_EINVAL);
    ration_close(r);
}

static struct ration_outcome drain(struct ration *r, const char *words, uint64_t cost)
{
    struct words w;
    struct ration_outcome out;

    split_words(&w, words);
    w.request.cost = cost;
    w.request.drain = true;
    assert_int_equal(ration_decide(r, &w.request, T0, &out), 0);
    return out;
}

static void a_request_under_one_rule_drains_it(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - {name: api, key: ip, limit: 10 per minute}\n");

    (void)state;
    assert_true(drain(r, "ip=192.0.2.1", 7).decision.allowed);
    struct ration_outcome out = drain(r, "ip=192.0.2.1", 5);

    assert_false(out.decision.allowed);
    assert_int_equal(out.decision.verdict.remaining, 0);
    assert_int_equal(out.decision.verdict.retry_after_ns, 30 * SECOND);
    assert_int_equal(out.limits[0].verdict.remaining, 0);
    assert_int_equal(look(r, "ip=192.0.2.1", T0).decision.verdict.remaining, 0);
    ration_close(r);
}

/* Lower priorities leave a part to others, drained or not. */
static void draining_leaves_what_is_kept_for_others(void **state)
{
    struct ration *r =
        open_rules("limits:\n"
                   "  - name: api\n"
                   "    limit: 10 per minute\n"
                   "    priority: {by: class, levels: {high: 0%, low: 50%}, default: low}\n");
    struct ration_outcome out = drain(r, "class=low", 7);

    (void)state;
    assert_false(out.decision.allowed);
    assert_int_equal(out.decision.verdict.remaining, 0);
    assert_int_equal(look(r, "class=high", T0).decision.verdict.remaining, 5);
    ration_close(r);
}

static void a_request_under_several_rules_or_places_drains_nothing(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - {name: api, key: ip, limit: 10 per minute}\n"
                                  "  - {name: user, key: user, limit: 5 per minute}\n"
                                  "  - {name: places, key: job, limit: 3 concurrent}\n");
    struct words w;
    struct ration_outcome out;
    char ticket[RATION_TICKET_SIZE];

    (void)state;
    split_words(&w, "ip=192.0.2.1 user=ann");
    w.request.drain = true;
    assert_int_equal(ration_decide(r, &w.request, T0, &out), RATION_ESEVERAL);
    assert_int_equal(look(r, "ip=192.0.2.1", T0).decision.verdict.remaining, 10);
    split_words(&w, "job=x");
    w.request.drain = true;
    assert_int_equal(ration_decide(r, &w.request, T0, &out), RATION_EPLACES);
    assert_int_equal(ration_acquire_request(r, &w.request, 0, T0, &out, ticket), RATION_EINVAL);
    assert_int_equal(ration_decide_reserve(r, &w.request, SECOND, T0, &out, ticket), RATION_EINVAL);
    ration_close(r);
}

/* --- giving back -------------------------------------------------------------- */

static void units_are_given_back_up_to_full_and_counted_as_nothing(void **state)
{
    struct ration *r = open_some();
    struct ration_totals before, after;

    (void)state;
    for (uint32_t limit = API; limit <= LARGE; limit++) {
        struct ration_charge c = charge(limit, "me", 3), all = charge(limit, "me", UINT64_MAX);
        uint64_t cap = left(r, limit, "me", T0);

        take(r, limit, "me", 4, T0);
        ration_totals(r, &before);
        assert_int_equal(ration_credit(r, &c, T0), 0);
        assert_true(c.verdict.allowed);
        assert_int_equal(c.verdict.remaining, cap - 1);
        assert_int_equal(c.taken, 0);
        assert_int_equal(ration_credit(r, &all, T0), 0);
        assert_int_equal(all.verdict.remaining, cap);
        assert_int_equal(ration_credit(r, &all, T0), 0);
        assert_int_equal(left(r, limit, "me", T0), cap);
        ration_totals(r, &after);
        assert_memory_equal(&before, &after, sizeof after);
        ration_reset(r, &c, T0);
    }
    ration_close(r);
}

static void places_are_released_not_given_back(void **state)
{
    struct ration *r = open_some();
    struct ration_charge places = charge(PLACES, "me", 1), none = charge(99, "me", 1);

    (void)state;
    assert_int_equal(ration_credit(r, &places, T0), RATION_EPLACES);
    assert_int_equal(ration_credit(r, &none, T0), RATION_EINVAL);
    places.drain = true;
    assert_int_equal(ration_take(r, &places, T0), RATION_EINVAL);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_takes_what_is_left_and_is_refused),
        cmocka_unit_test(what_was_drained_can_be_given_back_once),
        cmocka_unit_test(a_batch_drains_those_that_ask_for_it),
        cmocka_unit_test(draining_one_variant_counts_in_the_others),
        cmocka_unit_test(one_of_several_limits_cannot_be_drained),
        cmocka_unit_test(a_request_under_one_rule_drains_it),
        cmocka_unit_test(draining_leaves_what_is_kept_for_others),
        cmocka_unit_test(a_request_under_several_rules_or_places_drains_nothing),
        cmocka_unit_test(units_are_given_back_up_to_full_and_counted_as_nothing),
        cmocka_unit_test(places_are_released_not_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
