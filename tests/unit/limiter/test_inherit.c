/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying over what was spent before a reload, step by step: others interfere,
 * or the store fails. */
#include "rules_fixture.h"

#include "limiter/limiter.h"

static const char before[] = "limits:\n  - { name: a, key: user, limit: 10 per day }\n";
static const char after[] =
    "limits:\n  - { name: a, key: user, limit: 100 per hour, algorithm: fixed-window }\n";

/* A store that does something else before it applies a certain operation, or
 * answers it with an error, once. */
struct meddler {
    struct rn_store store;
    struct rn_store *real;
    struct ration *r;
    enum rn_op op;
    uint64_t cost;
    void (*meddle)(struct ration *r);
    int fail_with;
    bool met;
    unsigned batches;
};

static void meddle(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct meddler *m = (struct meddler *)(void *)store;
    m->batches++;
    bool now = !m->met && batch[0].ask.op == m->op && batch[0].ask.cost == m->cost;

    if (now) {
        m->met = true;
        if (m->meddle) {
            m->r->store = m->real;
            m->meddle(m->r);
            m->r->store = &m->store;
        }
        if (m->fail_with != 0) {
            batch[0].error = m->fail_with;
            return;
        }
    }
    rn_store_apply(m->real, batch, n);
}

static const struct rn_store_ops meddling = {.apply = meddle};

/* Ann has spent `spent` of ten, and then the rules change. */
static struct ration *changed_rules(struct meddler *m, unsigned spent)
{
    struct ration *r = open_rules(before);

    assert_int_equal(admitted(r, "user=ann", spent, T0), spent);
    rules_at(r, after, T0);
    m->store.ops = &meddling;
    m->real = r->store;
    m->r = r;
    r->store = &m->store;
    return r;
}

static void close_meddled(struct meddler *m)
{
    assert_true(m->met);
    m->r->store = m->real;
    ration_close(m->r);
}

static void carrying_over_takes_five_batches(void **state)
{
    struct meddler m = {.op = RN_FORCE, .cost = 50};
    struct ration *r = changed_rules(&m, 5);
    struct ration_outcome out = decide(r, "user=ann", T0);

    (void)state;
    /* Look at the retired, claim, look again, force, forget; take. */
    assert_int_equal(m.batches, 5 + 1);
    assert_true(out.decision.allowed);
    assert_int_equal(out.decision.verdict.remaining, 49);
    close_meddled(&m);
}

/* --- others interfere --------------------------------------------------------------------- */

static void decide_beside(struct ration *r)
{
    struct ration_outcome out = decide(r, "user=ann", T0);

    assert_true(out.decision.allowed);
    assert_true(out.decision.verdict.remaining <= 50);
}

static void a_second_request_counts_the_share_as_spent(void **state)
{
    struct meddler m = {.op = RN_FORCE, .cost = 50, .meddle = decide_beside};
    struct ration *r = changed_rules(&m, 5);

    (void)state;
    assert_true(decide(r, "user=ann", T0).decision.allowed);
    /* Half, and both requests: once each. */
    assert_int_equal(left_of(r, "a", "user=ann", T0), 48);
    close_meddled(&m);
}

static void refuse_beside(struct ration *r)
{
    struct ration_outcome out = decide(r, "user=ann", T0);

    assert_false(out.decision.allowed);
    assert_int_equal(out.decision.verdict.remaining, 0);
    assert_int_equal(out.decision.verdict.retry_after_ns, SECOND / 1000);
}

static void a_second_request_without_room_must_ask_again(void **state)
{
    struct meddler m = {.op = RN_FORCE, .cost = 100, .meddle = refuse_beside};
    struct ration *r = changed_rules(&m, 10);
    struct ration_outcome out = decide(r, "user=ann", T0);

    (void)state;
    assert_false(out.decision.allowed);
    assert_true(out.decision.verdict.retry_after_ns > SECOND);
    close_meddled(&m);
}

static void finish_beside(struct ration *r)
{
    assert_true(decide(r, "user=ann", T0).decision.allowed);
}

/* Between the look at what is retired and the claim, another request has done it
 * all. */
static void a_claim_that_comes_late_finds_nothing_to_do(void **state)
{
    struct meddler m = {.op = RN_TAKE, .cost = 1, .meddle = finish_beside};
    struct ration *r = changed_rules(&m, 2);

    (void)state;
    assert_true(decide(r, "user=ann", T0).decision.allowed);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 100 - 20 - 2);
    close_meddled(&m);
}

/* --- the store fails ----------------------------------------------------------------------- */

static void an_error_in_any_step_charges_nothing_and_loses_nothing(void **state)
{
    static const struct {
        enum rn_op op;
        uint64_t cost;
        uint64_t left; /* after the request that follows a second later */
    } steps[] = {
        {RN_PEEK, 0, 49},
        {RN_TAKE, 1, 49},
        {RN_FORCE, 50, 49},
        /* The share is in, but not forgotten: forced again. */
        {RN_RESET, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct meddler m = {.op = steps[i].op, .cost = steps[i].cost, .fail_with = RATION_EIO};
        struct ration *r = changed_rules(&m, 5);
        struct words w;
        struct ration_outcome out;
        struct ration_totals totals;

        split_words(&w, "user=ann");
        assert_int_equal(ration_decide(r, &w.request, T0, &out), RATION_EIO);
        assert_int_equal(ration_rule_totals(r, "a", 1, &totals), 0);
        assert_int_equal(totals.errors, 1);
        decide(r, "user=ann", T0 + SECOND);
        assert_int_equal(left_of(r, "a", "user=ann", T0 + SECOND), steps[i].left);
        close_meddled(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_request_counts_the_share_as_spent),
        cmocka_unit_test(a_second_request_without_room_must_ask_again),
        cmocka_unit_test(a_claim_that_comes_late_finds_nothing_to_do),
        cmocka_unit_test(an_error_in_any_step_charges_nothing_and_loses_nothing),
        cmocka_unit_test(carrying_over_takes_five_batches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
