/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that need several limits, among others that need one of them: what they claim. */
#include "hall_fixture.h"

#include <inttypes.h>
#include <pthread.h>

#include "limiter/line/claims.h"

#define SINGLES 30 /* requests that wait for each of two limits */

#define QUEUE ", queue: {size: 100, max_wait: 100s}}\n"
#define RULE(name, limit) "  - {name: " name ", when: {" name ": y}, limit: " limit QUEUE

/* Opened with both limits empty; `b` is emptied so much later than `a`. Then the calls of both
 * stand in line, and behind each of them SINGLES that need one limit. */
struct scene {
    struct hall h;
    struct call both, others[2][SINGLES];
};

static int arrive_for(struct call *call, struct hall *h, const char *words, uint64_t cost)
{
    call_init(call, h, 0, words);
    call->words.request.cost = cost;
    return ask_call(call);
}

static void open_scene(struct scene *s, const char *rules, uint64_t units_a, uint64_t units_b,
                       int64_t later_ns)
{
    struct call first;

    hall_open_rules(&s->h, rules);
    assert_int_equal(arrive_for(&first, &s->h, "a=y", units_a), 0);
    pass(&s->h, later_ns);
    assert_int_equal(arrive_for(&first, &s->h, "b=y", units_b), 0);
}

static void arrive_others(struct scene *s)
{
    for (unsigned i = 0; i < SINGLES; i++)
        for (unsigned side = 0; side < 2; side++)
            assert_int_equal(arrive(&s->others[side][i], &s->h, 100 + i, side == 0 ? "a=y" : "b=y"),
                             RATION_EWAITS);
}

static unsigned count_admitted(const struct call *calls)
{
    unsigned count = 0;

    for (unsigned i = 0; i < SINGLES; i++)
        count += calls[i].code == 0 && calls[i].allowed;
    return count;
}

/* All that still wait leave. */
static void close_scene(struct scene *s)
{
    ration_waiter_leave(&s->both.waiter);
    for (unsigned i = 0; i < SINGLES; i++) {
        ration_waiter_leave(&s->others[0][i].waiter);
        ration_waiter_leave(&s->others[1][i].waiter);
    }
    assert_int_equal(totals_of(&s->h).lines, 0);
    hall_close(&s->h);
}

/* Each of two limits has something when the other has nothing. */
static const struct pair {
    const char *rules;
    uint64_t units_a, units_b;
    int64_t later_ns;
} pairs[] = {
    {"limits:\n" RULE("a", "1 per second") RULE("b", "1 per second"), 1, 1, 500 * MS},
    {"limits:\n" RULE("a", "10 per second burst 1") RULE("b", "1 per second"), 1, 1, 50 * MS},
    {"limits:\n" RULE("a", "1 per second") RULE("b", "10 per second burst 1"), 1, 1, 50 * MS},
    {"limits:\n" RULE("a", "2 per second, algorithm: fixed-window, align: first")
         RULE("b", "2 per second, algorithm: fixed-window, align: first"),
     2, 2, 300 * MS},
    {"limits:\n" RULE("a", "3 per second, algorithm: sliding-log")
         RULE("b", "1 per 300ms, algorithm: sliding-log"),
     3, 1, 150 * MS},
    {"limits:\n" RULE("a", "2 per second, algorithm: sliding-window")
         RULE("b", "2 per second, algorithm: fixed-window, align: first"),
     2, 2, 700 * MS},
};

static void a_request_for_two_limits_is_not_kept_out_by_those_for_one(void **unused)
{
    static struct scene s;

    (void)unused;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        open_scene(&s, pairs[i].rules, pairs[i].units_a, pairs[i].units_b, pairs[i].later_ns);
        assert_int_equal(arrive(&s.both, &s.h, 1, "a=y b=y"), RATION_EWAITS);
        arrive_others(&s);
        pass(&s.h, 8 * SECOND);
        if (s.both.code != 0)
            fail_msg("pair %zu: %u and %u went ahead, and it has asked %u times", i,
                     count_admitted(s.others[0]), count_admitted(s.others[1]), s.both.asked);
        assert_in_range(s.both.asked, 3, 5); /* arrival, two moves, two limits */
        assert_true(s.both.allowed);
        close_scene(&s);
    }
}

/* --- one claim, set by hand ------------------------------------------------------------------- */

#define FIVE                                                                                       \
    "limits:\n" RULE("a", "1 per second") "  - {name: b, when: {b: y}, limit: 5 per 10 seconds, "  \
                                          "algorithm: fixed-window, align: first, priority: {by: " \
                                          "level, levels: {high: 0%, low: 40%}, default: high}, "  \
                                          "queue: {size: 9, max_wait: 60s, by: arrival}}\n"

/* `claimant` waits for `a` until T0 + 1 s, and claims two of the five units of `b`; one is spent.
 */
struct claim {
    struct hall h;
    struct call claimant;
    uint64_t key;
};

static void open_claim(struct claim *c, uint32_t rank, int64_t ends_ns)
{
    struct call first;

    hall_open_rules(&c->h, FIVE);
    assert_int_equal(arrive(&first, &c->h, 0, "a=y"), 0);
    assert_int_equal(arrive(&c->claimant, &c->h, 1, "a=y"), RATION_EWAITS);
    assert_int_equal(arrive(&first, &c->h, 0, "b=y"), 0);
    c->key = first.out.receipts[0].hash;
    rn_claims_set(c->h.r->lines, &c->claimant.waiter, c->key, 2, rank, ends_ns);
}

/* Those that find what is claimed wait. */
static void fill_up_to_claim(struct claim *c, struct call *waits)
{
    struct call first;

    assert_int_equal(arrive_for(&first, &c->h, "b=y", 2), 0);
    assert_int_equal(left_of(c->h.r, "b", "b=y", c->h.now_ns), 0); /* for anybody else */
    assert_int_equal(arrive(waits, &c->h, 2, "b=y"), RATION_EWAITS);
    assert_false(look(c->h.r, "b=y", c->h.now_ns).decision.allowed);
}

static void close_claim(struct claim *c)
{
    ration_waiter_leave(&c->claimant.waiter);
    assert_int_equal(totals_of(&c->h).waiting, 0);
    assert_int_equal(totals_of(&c->h).lines, 0);
    hall_close(&c->h);
}

static void others_leave_what_is_claimed_and_get_it_afterwards(void **unused)
{
    struct claim c;
    struct call other;

    (void)unused;
    open_claim(&c, 0, T0 + 5 * SECOND);
    fill_up_to_claim(&c, &other);
    pass(&c.h, 2 * SECOND);
    assert_int_equal(c.claimant.done_ns, T0 + SECOND);
    assert_int_equal(other.done_ns, T0 + SECOND);
    assert_true(other.allowed);
    close_claim(&c);
}

static void a_claim_ends_when_its_request_leaves(void **unused)
{
    struct claim c;
    struct call other;

    (void)unused;
    open_claim(&c, 0, T0 + 5 * SECOND);
    fill_up_to_claim(&c, &other);
    pass(&c.h, 500 * MS);
    assert_int_equal(other.code, RATION_EWAITS);
    ration_waiter_leave(&c.claimant.waiter);
    pass(&c.h, 0);
    assert_true(other.allowed);
    close_claim(&c);
}

static void a_claim_ends_by_itself(void **unused)
{
    struct claim c;
    struct call other;

    (void)unused;
    open_claim(&c, 0, T0 + 300 * MS);
    fill_up_to_claim(&c, &other);
    pass(&c.h, 900 * MS);
    assert_int_equal(c.claimant.code, RATION_EWAITS);
    assert_int_equal(other.done_ns, T0 + 300 * MS);
    close_claim(&c);
}

static void a_claim_that_is_changed_to_end_sooner_does(void **unused)
{
    struct claim c;
    struct call other;

    (void)unused;
    open_claim(&c, 0, T0 + 900 * MS);
    fill_up_to_claim(&c, &other);
    rn_claims_set(c.h.r->lines, &c.claimant.waiter, c.key, 2, 0, T0 + 300 * MS);
    pass(&c.h, 800 * MS);
    assert_int_equal(other.done_ns, T0 + 300 * MS);
    close_claim(&c);
}

static void a_claim_does_not_hold_up_those_of_higher_priority(void **unused)
{
    struct claim c;
    struct call other;

    (void)unused;
    open_claim(&c, 1, T0 + 900 * MS);
    assert_int_equal(arrive_for(&other, &c.h, "b=y", 4), 0);
    assert_true(other.allowed);
    close_claim(&c);
}

/* No units could be enough for both: it waits as in a line. */
static void one_that_needs_all_units_waits_for_the_claim_to_end(void **unused)
{
    struct claim c;
    struct call other;

    (void)unused;
    open_claim(&c, 0, T0 + 10500 * MS);
    assert_int_equal(arrive_for(&other, &c.h, "b=y", 5), RATION_EWAITS);
    ration_waiter_leave(&c.claimant.waiter);
    pass(&c.h, 11 * SECOND);
    assert_true(other.allowed);
    assert_int_equal(other.done_ns, T0 + 10 * SECOND);
    close_claim(&c);
}

/* The first needs three units besides the two that are claimed; the next, of low priority, two,
 * and must leave two to others anyway. */
static void the_next_is_not_held_up_by_a_claim_that_the_first_could_not_meet(void **unused)
{
    struct claim c;
    struct call first, next;

    (void)unused;
    open_claim(&c, 0, T0 + 900 * MS);
    assert_int_equal(arrive_for(&first, &c.h, "b=y level=high", 3), RATION_EWAITS);
    assert_int_equal(arrive_for(&next, &c.h, "b=y level=low", 2), RATION_EWAITS);
    ration_waiter_leave(&first.waiter);
    pass(&c.h, 0);
    assert_true(next.code == 0 && next.allowed);
    close_claim(&c);
}

static void slower_limits_are_those_that_come_back_later(void **unused)
{
    static const struct {
        const char *text;
        enum ration_algorithm algorithm;
    } limits[] = {
        {"1 concurrent", RATION_CONCURRENCY},
        {"5 concurrent", RATION_CONCURRENCY},
        {"10000 per hour", RATION_FIXED_WINDOW},
        {"1 per 10 minutes", RATION_TOKEN_BUCKET},
        {"100 per minute", RATION_SLIDING_LOG},
        {"60 per minute in steps of 10s", RATION_TOKEN_BUCKET},
        {"100 per 2s", RATION_SLIDING_WINDOW},
        {"1 per second queue 5", RATION_LEAKY_BUCKET},
        {"3 per second", RATION_TOKEN_BUCKET},
    };

    (void)unused;
    for (size_t i = 0; i < COUNT(limits); i++)
        for (size_t j = 0; j < COUNT(limits); j++) {
            struct ration_named a = with(named("a", limits[i].text), limits[i].algorithm);
            struct ration_named b = with(named("b", limits[j].text), limits[j].algorithm);
            struct rn_limit compiled[2];

            rn_limit_init(&compiled[0], &a.limit);
            rn_limit_init(&compiled[1], &b.limit);
            if (i != j)
                assert_int_equal(rn_claims_is_slower(&compiled[0], i, &compiled[1], 100), i < j);
            else
                assert_true(rn_claims_is_slower(&compiled[0], 2, &compiled[1], 1) &&
                            !rn_claims_is_slower(&compiled[0], 1, &compiled[1], 2));
        }
}

/* --- threads ---------------------------------------------------------------------------------- */

#define THREADS 6
#define REQUESTS 40

static unsigned thread_admitted; /* atomically */

static void *ask_in_turn(void *arg)
{
    static const char *const needs[] = {"a=y b=y", "b=y", "a=y"};
    struct ration *r = arg;

    for (unsigned i = 0; i < REQUESTS; i++) {
        struct ration_outcome out;
        struct words words;

        split_words(&words, needs[i % COUNT(needs)]);
        if (ration_wait(r, &words.request, &out) == 0 && out.decision.allowed)
            __atomic_fetch_add(&thread_admitted, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Each request waits for two limits, or one of them, which others empty meanwhile. */
static void threads_that_claim_all_have_their_turn(void **unused)
{
    struct ration *r = open_rules("limits:\n" RULE("a", "300 per second burst 1")
                                      RULE("b", "400 per second burst 1"));
    struct ration_waiting_totals totals;
    pthread_t threads[THREADS];

    (void)unused;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_in_turn, r), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(thread_admitted, THREADS * REQUESTS);
    ration_waiting_totals(r, &totals);
    assert_int_equal(totals.waiting, 0);
    assert_int_equal(totals.lines, 0);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_for_two_limits_is_not_kept_out_by_those_for_one),
        cmocka_unit_test(others_leave_what_is_claimed_and_get_it_afterwards),
        cmocka_unit_test(a_claim_ends_when_its_request_leaves),
        cmocka_unit_test(a_claim_ends_by_itself),
        cmocka_unit_test(a_claim_that_is_changed_to_end_sooner_does),
        cmocka_unit_test(a_claim_does_not_hold_up_those_of_higher_priority),
        cmocka_unit_test(one_that_needs_all_units_waits_for_the_claim_to_end),
        cmocka_unit_test(the_next_is_not_held_up_by_a_claim_that_the_first_could_not_meet),
        cmocka_unit_test(slower_limits_are_those_that_come_back_later),
        cmocka_unit_test(threads_that_claim_all_have_their_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
