/* SPDX-License-Identifier: Apache-2.0 */
/* Local budgets: one alone, and several with a store whose replies are late, lost or repeated,
 * against the bound of redis/async/local_budget.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis/async/local_budget.h"
#include "store_model.h"

#define SECOND INT64_C(1000000000)
#define START_US 1800000000000000

static uint64_t seed;

static uint64_t below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % n;
}

/* --- one worker ------------------------------------------------------------------------- */

static struct rn_limit limit_of(enum ration_algorithm algorithm)
{
    struct rn_limit l;

    rn_limit_init(&l, &(struct ration_limit){
                          .algorithm = algorithm, .amount = 100, .period_ns = 60 * SECOND});
    return l;
}

static struct rn_charge ask_for(const struct rn_limit *l, enum rn_op op, uint64_t cost)
{
    return (struct rn_charge){
        .limit = l, .key = 1, .ask = {.op = op, .cost = cost, .now_ns = 1000}};
}

static struct rn_local_budget begin(const struct rn_limit *l, enum rn_local_budget_stage stage)
{
    struct rn_charge charge = ask_for(l, RN_TAKE, 1);
    struct rn_local_budget h;

    rn_local_budget_init(&h, &charge, stage, START_US, 0);
    return h;
}

/* 60 of 100 are spent. */
static struct rn_local_budget begin_known(const struct rn_limit *l)
{
    struct rn_local_budget h = begin(l, RN_LOCAL_BUDGET_UNKNOWN);
    struct store_model store = store_model_of(l);

    model_charge(&store, START_US, 60);
    rn_local_budget_send(&h);
    rn_local_budget_learn(&h, store.told, START_US, 0);
    return h;
}

static void an_unknown_state_is_not_decided_here(void **state)
{
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET);
    struct rn_local_budget h = begin(&l, RN_LOCAL_BUDGET_UNKNOWN);
    struct rn_charge take = ask_for(&l, RN_TAKE, 1), look = ask_for(&l, RN_PEEK, 1);

    (void)state;
    assert_false(rn_local_budget_decide(&h, &take, 0, 10));
    assert_false(rn_local_budget_decide(&h, &look, 0, 10));
}

static void a_known_state_is_decided_here_up_to_the_units_a_worker_may_hold(void **state)
{
    static const enum ration_algorithm all[] = {RATION_TOKEN_BUCKET, RATION_FIXED_WINDOW,
                                                RATION_SLIDING_WINDOW};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct rn_limit l = limit_of(all[i]);
        struct rn_local_budget h = begin_known(&l);
        struct rn_charge take = ask_for(&l, RN_TAKE, 4), small = ask_for(&l, RN_TAKE, 2);

        assert_true(rn_local_budget_decide(&h, &take, 0, 10));
        assert_true(take.answer.allowed);
        assert_int_equal(take.answer.remaining, 36);
        assert_int_equal(take.error, 0);
        assert_true(rn_local_budget_decide(&h, &take, 0, 10));
        assert_false(rn_local_budget_decide(&h, &take, 0, 10));
        assert_int_equal(rn_local_budget_units(&h), 8);
        assert_true(rn_local_budget_decide(&h, &small, 0, 10));
        assert_int_equal(rn_local_budget_send(&h), 10);
        assert_false(rn_local_budget_decide(&h, &small, 0, 10));
    }
}

static void a_refusal_needs_no_trip_and_says_when(void **state)
{
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET);
    struct rn_local_budget h = begin_known(&l);
    struct rn_charge take = ask_for(&l, RN_TAKE, 41), huge = ask_for(&l, RN_TAKE, 101),
                     one = ask_for(&l, RN_TAKE, 5);

    (void)state;
    assert_true(rn_local_budget_decide(&h, &one, 0, 10));
    assert_true(rn_local_budget_decide(&h, &take, 0, 10));
    assert_false(take.answer.allowed);
    assert_int_equal(take.answer.retry_after_ns, 6 * 600000000LL);
    assert_int_equal(take.answer.remaining, 35);
    assert_true(rn_local_budget_decide(&h, &huge, 0, 10));
    assert_true(huge.answer.retry_after_ns == RN_NEVER);
}

static void a_look_holds_nothing_and_a_forced_charge_what_fits(void **state)
{
    struct rn_limit l = limit_of(RATION_FIXED_WINDOW);
    struct rn_local_budget h = begin_known(&l);
    struct rn_charge look = ask_for(&l, RN_PEEK, 40), force = ask_for(&l, RN_FORCE, 50);

    (void)state;
    assert_true(rn_local_budget_decide(&h, &look, 0, 10));
    assert_true(look.answer.allowed);
    assert_int_equal(rn_local_budget_units(&h), 0);
    assert_false(rn_local_budget_decide(&h, &force, 0, 39));
    assert_true(rn_local_budget_decide(&h, &force, 0, 40));
    assert_true(force.answer.allowed);
    assert_int_equal(rn_local_budget_units(&h), 40);
    assert_int_equal(force.answer.remaining, 0);
}

static void a_drain_holds_what_fits_and_a_credit_is_for_the_store(void **state)
{
    struct rn_limit l = limit_of(RATION_FIXED_WINDOW);
    struct rn_local_budget h = begin_known(&l);
    struct rn_charge some = ask_for(&l, RN_DRAIN, 10), more = ask_for(&l, RN_DRAIN, 50),
                     credit = ask_for(&l, RN_CREDIT, 1);

    (void)state;
    assert_true(rn_local_budget_decide(&h, &some, 0, 40));
    assert_true(some.answer.allowed);
    assert_false(rn_local_budget_decide(&h, &more, 0, 39)); /* more than may be held: Redis's */
    assert_int_equal(rn_local_budget_units(&h), 10);
    assert_true(rn_local_budget_decide(&h, &more, 0, 40));
    assert_false(more.answer.allowed);
    assert_int_equal(more.answer.drained, 30);
    assert_int_equal(more.answer.remaining, 0);
    assert_int_equal(rn_local_budget_units(&h), 40);
    assert_false(rn_local_budget_decide(&h, &credit, 0, 40));
}

static void a_take_is_undone_here_unless_it_may_have_been_reported(void **state)
{
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET);
    struct rn_local_budget h = begin_known(&l);
    struct rn_charge take = ask_for(&l, RN_TAKE, 4), back = ask_for(&l, RN_GIVE_BACK, 4);

    (void)state;
    back.ask.at_ns = take.ask.now_ns;
    assert_true(rn_local_budget_decide(&h, &take, 0, 10));
    assert_true(rn_local_budget_decide(&h, &back, 0, 10));
    assert_int_equal(rn_local_budget_units(&h), 0);
    assert_int_equal(back.answer.remaining, 40);
    assert_false(rn_local_budget_decide(&h, &back, 0, 10));

    assert_true(rn_local_budget_decide(&h, &take, 0, 10));
    rn_local_budget_send(&h);
    take.ask.now_ns++; /* another take, whose units are not those of the first */
    assert_true(rn_local_budget_decide(&h, &take, 0, 10));
    assert_false(rn_local_budget_decide(&h, &back, 0, 10));
    back.ask.at_ns++;
    assert_true(rn_local_budget_decide(&h, &back, 0, 10));
}

static void a_take_from_before_a_key_was_forgotten_is_not_undone_here(void **state)
{
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET);
    struct rn_local_budget h = begin(&l, RN_LOCAL_BUDGET_FRESH);
    struct rn_charge take = ask_for(&l, RN_TAKE, 4), back = ask_for(&l, RN_GIVE_BACK, 4);

    (void)state;
    back.ask.at_ns = take.ask.now_ns - 1;
    assert_true(rn_local_budget_decide(&h, &take, 0, 10));
    assert_false(rn_local_budget_decide(&h, &back, 0, 10));
}

static void after_a_doubt_the_answer_under_way_is_not_believed(void **state)
{
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET);
    struct rn_local_budget h = begin_known(&l);
    const long long empty[3] = {60000000, START_US, 0};

    (void)state;
    rn_local_budget_send(&h);
    rn_local_budget_doubt(&h);
    rn_local_budget_learn(&h, empty, START_US, 0);
    assert_int_equal(h.stage, RN_LOCAL_BUDGET_UNKNOWN);
    rn_local_budget_send(&h);
    rn_local_budget_learn(&h, empty, START_US, 0);
    assert_int_equal(h.stage, RN_LOCAL_BUDGET_KNOWN);
}

static void a_worker_holds_its_share_and_one_at_least(void **state)
{
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET);

    (void)state;
    l.cap = 10000;
    assert_int_equal(rn_local_budget_most(&l, 50, 4), 125);
    assert_int_equal(rn_local_budget_most(&l, 50, 1), 500);
    l.cap = 3;
    assert_int_equal(rn_local_budget_most(&l, 50, 4), 1);
    l.cap = RATION_AMOUNT_MAX;
    assert_int_equal(rn_local_budget_most(&l, 1000, 1), RATION_AMOUNT_MAX);
}

/* --- several, and a store ------------------------------------------------------------------ */

enum fault {
    SOUND,
    FORGIVING, /* the store forgets what exceeds the limit */
    UNBOUNDED, /* as much is held as is seen */
    UNSETTLED, /* a restarted worker assumes that nothing is spent */
    FORGETFUL, /* a view is forgotten though it had little left */
    GIVES_UP,  /* a report without an answer is not sent again */
    EARLY,     /* views age from when the report was sent */
    FAULTS,
};

#define WORKERS 3
#define PERMILLE 300 /* 10 of 100 each */

struct worker {
    struct rn_local_budget h;
    bool begun; /* the key is known */
    int64_t started_ns;
    uint64_t number, run; /* reports: the last one, and the last that the store has run */
    bool answered;        /* and its answer is on the way */
    int64_t sent_ns;
    long long told[3], told_us;
};

struct world {
    const struct rn_limit *limit;
    enum fault fault;
    struct store_model store, truth; /* truth: charged when it was admitted */
    long long now_us, store_us;      /* true time, and what the store's clock says */
    bool set_back;                   /* now and then it is */
    uint64_t most;
    long long end_us;         /* of the window in the store, if it begins with a charge */
    long long killed, excess; /* beyond the bound, at worst */
    uint64_t admitted, refused;
    struct worker workers[WORKERS];
};

static int64_t now_ns(const struct world *w)
{
    return (w->now_us - START_US) * 1000 + 10 * SECOND;
}

/* Where windows begin with the first charge, they are those of the store. */
static void follow_windows(struct world *w)
{
    if (!w->limit->from_first)
        return;
    model_age(&w->store, w->store_us);
    if (w->end_us != 0 && w->end_us != w->store.told[0])
        w->truth.told[1] = 0;
    w->end_us = w->store.told[0];
    w->truth.told[0] = w->now_us + 1000000000;
}

static void note_admission(struct world *w, long long units)
{
    long long below_zero;

    model_charge(&w->truth, w->now_us, units);
    below_zero = -model_left(&w->truth, w->now_us) - (WORKERS + w->killed) * (long long)w->most;
    if (below_zero > w->excess)
        w->excess = below_zero;
    w->admitted += (uint64_t)units;
}

static void begin_worker(struct world *w, struct worker *k, const struct rn_charge *charge)
{
    bool settled =
        now_ns(w) - k->started_ns >= rn_local_budget_settle_ns(w->limit, w->most, WORKERS);

    rn_local_budget_init(&k->h, charge,
                         settled || w->fault == UNSETTLED ? RN_LOCAL_BUDGET_FRESH
                                                          : RN_LOCAL_BUDGET_UNKNOWN,
                         w->store_us, now_ns(w));
    k->begun = true;
}

static void take(struct world *w, struct worker *k)
{
    struct rn_charge charge = ask_for(w->limit, RN_TAKE, below(3) + 1);
    long long cost = (long long)charge.ask.cost;

    charge.ask.now_ns = now_ns(w);
    if (!k->begun)
        begin_worker(w, k, &charge);
    if (rn_local_budget_decide(&k->h, &charge, now_ns(w), w->fault == UNBOUNDED ? 1000 : w->most)) {
        w->refused += !charge.answer.allowed;
        if (charge.answer.allowed)
            note_admission(w, cost);
    } else if (model_left(&w->store, w->store_us) >= cost) { /* strictly */
        model_charge(&w->store, w->store_us, cost);
        note_admission(w, cost);
    }
}

static void report(struct world *w, struct worker *k)
{
    if (!k->begun || k->h.reporting)
        return;
    rn_local_budget_send(&k->h);
    k->number++;
    k->sent_ns = now_ns(w);
    k->answered = false;
}

/* The store runs the call under way, for the first time or once more. */
static void run_call(struct world *w, struct worker *k)
{
    if (!k->begun || !k->h.reporting)
        return;
    model_charge(&w->store, w->store_us, k->run < k->number ? (long long)k->h.sent : 0);
    k->run = k->number;
    k->answered = true;
    memcpy(k->told, w->store.told, sizeof k->told);
    k->told_us = w->store_us;
}

static void answer_call(struct world *w, struct worker *k)
{
    if (k->begun && k->h.reporting && k->answered)
        rn_local_budget_learn(&k->h, k->told, k->told_us,
                              w->fault == EARLY ? k->sent_ns : now_ns(w));
}

static void lose_call(struct world *w, struct worker *k)
{
    k->answered = false;
    if (w->fault == GIVES_UP && k->begun && k->h.reporting)
        rn_local_budget_learn(&k->h, k->told, k->told_us, now_ns(w));
}

static void forget(struct world *w, struct worker *k)
{
    bool idle =
        k->begun && (w->fault == FORGETFUL ? !k->h.reporting && rn_local_budget_units(&k->h) == 0
                                           : rn_local_budget_is_idle(&k->h, now_ns(w), w->most));

    if (idle)
        k->begun = false;
}

static void start_again(struct world *w, struct worker *k, bool cleanly)
{
    if (cleanly) {
        run_call(w, k);
        answer_call(w, k);
        report(w, k);
        run_call(w, k);
    }
    w->killed += !cleanly;
    *k = (struct worker){.started_ns = now_ns(w)};
}

static void pass(struct world *w, uint64_t most_us)
{
    long long us = (long long)below(most_us);

    w->now_us += us;
    w->store_us += us;
    if (w->set_back && below(100) == 0)
        w->store_us -= (long long)below(5000000);
}

static void step(struct world *w)
{
    struct worker *k = &w->workers[below(WORKERS)];
    uint64_t unit_us = (uint64_t)w->limit->period_ns / 1000 / w->limit->amount;

    switch (below(16)) {
    case 0:
    case 1:
        pass(w, unit_us * 3);
        break;
    case 2:
        if (below(20) == 0)
            pass(w, unit_us * 60);
        break;
    case 3:
    case 4:
        report(w, k);
        break;
    case 5:
    case 6:
        run_call(w, k);
        break;
    case 7:
    case 8:
        answer_call(w, k);
        break;
    case 9:
        lose_call(w, k);
        break;
    case 10:
        forget(w, k);
        break;
    case 11:
        if (below(50) == 0)
            start_again(w, k, below(4) != 0);
        break;
    default:
        take(w, k);
        break;
    }
}

static long long worst_excess(const struct rn_limit *l, enum fault fault, bool set_back,
                              unsigned runs)
{
    long long worst = -1000;
    uint64_t admitted = 0, refused = 0;

    seed = 20260101;
    for (unsigned i = 0; i < runs; i++) {
        struct world w = {.limit = l,
                          .fault = fault,
                          .store = store_model_of(l),
                          .truth = store_model_of(l),
                          .now_us = START_US + (long long)below(60000000),
                          .set_back = set_back,
                          .most = rn_local_budget_most(l, PERMILLE, WORKERS),
                          .excess = -1000};

        w.store_us = w.now_us;
        w.store.forgiving = fault == FORGIVING;
        for (int j = 0; j < WORKERS; j++)
            w.workers[j].started_ns = below(2) ? -1000 * SECOND : now_ns(&w);
        for (int j = 0; j < 4000; j++) {
            step(&w);
            follow_windows(&w);
        }
        admitted += w.admitted;
        refused += w.refused;
        worst = w.excess > worst ? w.excess : worst;
    }
    assert_true(admitted > 100 * runs && (refused > 100 * runs || fault != SOUND));
    return worst;
}

static const struct ration_limit limits[] = {
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 100, .period_ns = 10 * SECOND},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 100, .period_ns = 10 * SECOND, .step_ns = SECOND},
    {.algorithm = RATION_FIXED_WINDOW, .amount = 100, .period_ns = 10 * SECOND},
    {.algorithm = RATION_FIXED_WINDOW, .amount = 100, .period_ns = 10 * SECOND, .from_first = true},
    {.algorithm = RATION_SLIDING_WINDOW, .amount = 100, .period_ns = 10 * SECOND},
};
#define LIMITS (sizeof limits / sizeof limits[0])

static void together_they_never_exceed_what_each_may_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct rn_limit l;

        rn_limit_init(&l, &limits[i]);
        long long worst = worst_excess(&l, SOUND, false, 1000);

        print_message("# limit %zu: %lld from the bound\n", i, worst);
        assert_true(worst <= 0);
    }
}

static void not_even_if_the_stores_clock_is_set_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) { /* windows of a clock that is set are others */
        struct rn_limit l;

        rn_limit_init(&l, &limits[i]);
        assert_true(worst_excess(&l, SOUND, true, 300) <= 0);
    }
}

static void every_planted_fault_exceeds_it(void **state)
{
    struct rn_limit l;

    (void)state;
    rn_limit_init(&l, &limits[0]);
    for (enum fault fault = FORGIVING; fault < FAULTS; fault++) {
        long long worst = worst_excess(&l, fault, false, 200);

        print_message("# fault %d: %lld\n", (int)fault, worst);
        assert_true(worst > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_state_is_not_decided_here),
        cmocka_unit_test(a_known_state_is_decided_here_up_to_the_units_a_worker_may_hold),
        cmocka_unit_test(a_refusal_needs_no_trip_and_says_when),
        cmocka_unit_test(a_look_holds_nothing_and_a_forced_charge_what_fits),
        cmocka_unit_test(a_drain_holds_what_fits_and_a_credit_is_for_the_store),
        cmocka_unit_test(a_take_is_undone_here_unless_it_may_have_been_reported),
        cmocka_unit_test(a_take_from_before_a_key_was_forgotten_is_not_undone_here),
        cmocka_unit_test(after_a_doubt_the_answer_under_way_is_not_believed),
        cmocka_unit_test(a_worker_holds_its_share_and_one_at_least),
        cmocka_unit_test(together_they_never_exceed_what_each_may_hold),
        cmocka_unit_test(not_even_if_the_stores_clock_is_set_back),
        cmocka_unit_test(every_planted_fault_exceeds_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
