/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An algorithm of the embedder's in rules and limits, beside ours; and algorithms that break their
 * contract: each is caught by the test that the library ships, or by the guard around it. What the
 * example computes is in tests/unit/core/test_model.c, what stores make of it in the store
 * contract.
 */
#include "clients_fixture.h"
#include "factor_fixture.h"
#include "hall_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ration/algorithm.h>

#include "../../../examples/own-algorithm/decay.h"

#define THREADS 4
#define ROUNDS 4000
#define LIMIT 500

static struct ration_named own(const char *name, const char *text,
                               const struct ration_own_algorithm *algorithm)
{
    struct ration_named n = with(named(name, text), RATION_OWN_ALGORITHM);

    n.limit.own = algorithm;
    return n;
}

static struct ration *open_own(const struct ration_named *limits, size_t n)
{
    static const struct ration_own_algorithm *const known[] = {&decay};
    struct ration_options options = {.memory_bytes = UINT64_C(4) << 20,
                                     .limits = limits,
                                     .limit_count = n,
                                     .own_algorithms = known,
                                     .own_algorithm_count = 1};
    struct ration *r = NULL;

    assert_int_equal(ration_open(&options, &r, NULL), 0);
    return r;
}

static void own_rules(struct ration *r, const char *text)
{
    struct rn_report report;

    rn_report_init(&report);
    struct rn_ruleset *set =
        rn_ruleset_parse_for(&r->host, RN_SLICE("test.yaml"), rn_slice_of(text), &report);

    for (uint32_t i = 0; i < report.kept_count && !set; i++)
        print_message("%s\n", report.kept[i].message);
    rn_report_done(&report);
    assert_non_null(set);
    assert_int_equal(rn_reload_install(r, set, T0, &(struct ration_error){0}), 0);
}

/* ---- in rules */

static const char by_tier[] = "limits:\n"
                              "  - name: api\n"
                              "    key: user\n"
                              "    algorithm: decay\n"
                              "    limit: {by: tier, free: 10 per minute, pro: [100 per minute, 8 "
                              "per second], default: free}\n";

static void rules_name_it_and_tiers_overrides_and_prints_know_it(void **state)
{
    struct ration *r = open_own(NULL, 0);

    (void)state;
    own_rules(r, by_tier);
    assert_int_equal(admitted(r, "user=ada", 30, T0), 10);
    assert_int_equal(admitted(r, "user=bob tier=pro", 30, T0), 8);
    assert_int_equal(admitted(r, "user=ada", 30, T0 + MINUTE), 5); /* half of it has faded */
    set_limit(r, "api", "user=eve", "20 per minute burst 40");
    assert_int_equal(admitted(r, "user=eve", 60, T0), 40);
    assert_int_equal(admitted(r, "user=eve", 60, T0 + MINUTE), 20);
    ration_close(r);
}

static void a_process_without_it_says_which_it_knows(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_report *report = NULL;

    (void)state;
    assert_int_equal(ration_rules_parse(r, "test.yaml", by_tier, sizeof by_tier - 1, &report),
                     RATION_EPARSE);
    assert_non_null(report);
    print_message("# %s\n", ration_report_text(report));
    assert_non_null(strstr(ration_report_text(report), "decay"));
    ration_report_free(report);
    ration_close(r);
}

static void it_counts_all_or_none_beside_others_and_in_their_shadow(void **state)
{
    const struct ration_named limits[] = {own("a", "10 per minute", &decay),
                                          named("b", "4 per minute"),
                                          flagged(own("c", "2 per minute", &decay), RATION_SHADOW)};
    struct ration *r = open_own(limits, 3);
    struct ration_decision d;
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < 9; i++) {
        struct ration_charge c[] = {charge(0, "ada", 1), charge(1, "ada", 1), charge(2, "ada", 1)};

        assert_int_equal(ration_check(r, c, 3, T0, &d), 0);
        n += d.allowed;
    }
    assert_int_equal(n, 4);
    assert_int_equal(left(r, 0, "ada", T0), 6);
    assert_int_equal(left(r, 1, "ada", T0), 0);
    assert_int_equal(left(r, 2, "ada", T0), 0);
    ration_close(r);
}

static void receipts_reservations_credits_and_drains_work(void **state)
{
    const struct ration_named limit = own("a", "10 per minute", &decay);
    struct ration *r = open_own(&limit, 1);
    struct ration_charge c = charge(0, "ada", 6), other = charge(0, "ada", 4);
    struct ration_decision d;
    uint64_t hold;

    (void)state;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(ration_take(r, &other, T0), 0);
    assert_int_equal(ration_give_back(r, &c, T0 + MINUTE), 0); /* 3 of the 6 count still */
    assert_int_equal(left(r, 0, "ada", T0 + MINUTE), 8);
    assert_int_equal(ration_give_back(r, &c, T0 + MINUTE), 0); /* once */
    assert_int_equal(left(r, 0, "ada", T0 + MINUTE), 8);

    c = charge(0, "bob", 4);
    assert_int_equal(ration_reserve(r, &c, 1, MINUTE, T0, &hold, &d), 0);
    assert_int_equal(ration_commit(r, hold, &c, 1, &(uint64_t){1}, T0), 0);
    assert_int_equal(left(r, 0, "bob", T0), 9);
    c = charge(0, "bob", 4);
    assert_int_equal(ration_reserve(r, &c, 1, MINUTE, T0, &hold, &d), 0);
    assert_int_equal(ration_commit(r, hold, &c, 1, &(uint64_t){14}, T0),
                     0); /* a late debit of 10 */
    assert_int_equal(left(r, 0, "bob", T0), 0);
    assert_false(take(r, 0, "bob", 1, T0 + MINUTE)); /* 7.5 count, and 5 are owed */
    c = charge(0, "bob", 1);
    assert_int_equal(ration_peek(r, &c, T0 + MINUTE), 0);
    assert_false(take(r, 0, "bob", 1, T0 + MINUTE + c.verdict.retry_after_ns - 1));
    assert_true(take(r, 0, "bob", 1, T0 + MINUTE + c.verdict.retry_after_ns));

    c = charge(0, "eve", 30);
    c.drain = true;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(c.taken, 10);
    c = charge(0, "eve", 3);
    assert_int_equal(ration_credit(r, &c, T0), 0);
    assert_int_equal(left(r, 0, "eve", T0), 3);
    c = (struct ration_charge){.ad_hoc = &limit.limit, .key = "x", .key_len = 1, .cost = 1};
    char ticket[RATION_TICKET_SIZE];
    assert_int_equal(ration_reserve_ticket(r, &c, MINUTE, T0, ticket), RATION_EINVAL);
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(c.verdict.remaining, 9);
    ration_close(r);
}

/* At no factor does a client get more than at the largest; what it has spent stays spent. */
static void factors_that_change_mint_nothing(void **state)
{
    static const char text[] =
        "limits:\n  - {name: api, key: user, limit: 100 per minute, algorithm: decay}\n";
    struct ration *r = open_own(NULL, 0);
    struct rn_report report;
    unsigned n = 0;

    (void)state;
    rn_report_init(&report);
    struct rn_ruleset *set =
        rn_ruleset_parse_for(&r->host, RN_SLICE("test.yaml"), rn_slice_of(text), &report);

    rn_report_done(&report);
    assert_non_null(set);
    struct rn_rule *rule = (struct rn_rule *)&set->rules[0]; /* not in use yet */

    rule->factors = ten_by_ten;
    rule->factor_count = COUNT(ten_by_ten);
    assert_int_equal(rn_reload_install(r, set, T0, &(struct ration_error){0}), 0);
    set_factor(r, "api", 50);
    assert_int_equal(admitted(r, "user=ada", 300, T0), 50);
    set_factor(r, "api", 100);
    assert_int_equal(admitted(r, "user=ada", 300, T0), 50);
    set_factor(r, "api", 10);
    assert_int_equal(admitted(r, "user=ada", 300, T0 + MINUTE), 0); /* 50 count */
    set_factor(r, "api", 60);
    assert_int_equal(admitted(r, "user=ada", 300, T0 + MINUTE), 10);
    for (unsigned i = 0; i < 200; i++) {
        set_factor(r, "api", i % 2 ? 10 : 100);
        n += admitted(r, "user=bob", 7, T0);
    }
    assert_int_equal(n, 100);
    ration_close(r);
}

static void requests_stand_in_line_for_it_in_order(void **state)
{
    static const char text[] = "limits:\n"
                               "  - name: api\n"
                               "    key: user\n"
                               "    limit: 4 per second\n"
                               "    algorithm: decay\n"
                               "    queue: {size: 10, max_wait: 10s}\n";
    struct ration *r = open_own(NULL, 0);
    struct call calls[9];
    struct hall h;

    (void)state;
    own_rules(r, text);
    hall_open(&h, r);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(arrive(&calls[i], &h, i, "user=ada"), i < 4 ? 0 : RATION_EWAITS);
    pass(&h, 10 * SECOND);
    assert_int_equal(h.admitted, 9);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(h.order[i], i);
    /* The first goes when one of four has faded: 2^-t = 3/4. */
    assert_in_range(calls[4].done_ns - T0, 400 * MS, 430 * MS);
    hall_close(&h);
}

/* ---- many at once */

struct crew {
    struct ration *r;
    pthread_barrier_t start;
    atomic_ulong admitted;
};

static void *hammer(void *arg)
{
    struct crew *crew = arg;

    pthread_barrier_wait(&crew->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct ration_charge c = charge(0, "one", 1 + i % 3);

        if (ration_take(crew->r, &c, T0) != 0 || !c.verdict.allowed)
            continue;
        if (i % 5 == 0 && ration_give_back(crew->r, &c, T0) == 0)
            continue;
        atomic_fetch_add(&crew->admitted, c.cost);
    }
    return NULL;
}

static void threads_on_one_key_admit_exactly_the_limit(void **state)
{
    const struct ration_named limit = own("v", "5000 per hour", &decay);
    struct crew crew = {.r = open_own(&limit, 1)};
    pthread_t threads[THREADS];

    (void)state;
    pthread_barrier_init(&crew.start, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &crew), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crew.start);
    assert_int_equal(crew.admitted, 5000);
    ration_close(crew.r);
}

static struct ration *open_file(const char *path, const struct ration_named *limit)
{
    struct ration_options options = {
        .state_path = path, .memory_bytes = UINT64_C(4) << 20, .limits = limit, .limit_count = 1};
    struct ration *r = NULL;

    return ration_open(&options, &r, NULL) == 0 ? r : NULL;
}

static unsigned take_until_refused(struct ration *r)
{
    unsigned n = 0;

    for (unsigned i = 0; i < LIMIT; i++) {
        struct ration_charge c = charge(0, "ada", 1);

        n += ration_take(r, &c, RATION_NOW) == 0 && c.verdict.allowed;
    }
    return n;
}

static void a_file_is_shared_by_processes_survives_a_kill_and_keeps_versions_apart(void **state)
{
    static struct ration_own_algorithm next;
    struct ration_named limit = own("v", "500 per 30 days", &decay);
    char path[] = "/tmp/own-algorithm-XXXXXX", name[64];
    unsigned sum = 0, one;
    pid_t children[3];
    int ends[2];

    (void)state;
    assert_non_null(mkdtemp(path));
    snprintf(name, sizeof name, "%s/state", path);
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct ration *r = open_file(name, &limit);

            one = r ? take_until_refused(r) : LIMIT + 1;
            _exit(write(ends[1], &one, sizeof one) != sizeof one || pause() != 0);
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read(ends[0], &one, sizeof one), sizeof one);
        sum += one;
    }
    assert_int_equal(sum, LIMIT);
    for (int i = 0; i < 3; i++) {
        kill(children[i], SIGKILL);
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
    }
    close(ends[0]), close(ends[1]);

    struct ration *r = open_file(name, &limit);

    assert_non_null(r);
    assert_int_equal(take_until_refused(r), 0);
    ration_close(r);
    /* States of another version, or of another algorithm, are not this one's. */
    next = decay;
    next.version = 1;
    limit.limit.own = &next;
    r = open_file(name, &limit);
    assert_int_equal(take_until_refused(r), LIMIT);
    ration_close(r);
    limit = named("v", "500 per 30 days");
    r = open_file(name, &limit);
    assert_int_equal(take_until_refused(r), LIMIT);
    ration_close(r);
    unlink(name);
    snprintf(name, sizeof name, "%s/state.overrides", path);
    unlink(name);
    rmdir(path);
}

/* ---- algorithms that break the contract */

static enum fault {
    MINTS,
    OVERADMITS,
    FORGETS_THE_CHARGE,
    REFUSES_WHAT_REMAINS,
    WAITS_TOO_SHORT,
    WAITS_BELOW_NOTHING,
    WAITS_WITHOUT_END,
    IS_NEITHER_TRUE_NOR_FALSE,
    RESETS_TOO_SOON,
    WRITES_BEHIND,
    IS_IMPURE,
    COUNTS_LESS_OF_A_SMALLER_AMOUNT,
    FAULTS
} fault;

static void take_badly(const void *arg, const struct ration_terms *terms, void *words,
                       struct ration_attempt *a)
{
    static unsigned calls;
    unsigned char *bytes = words;
    uint64_t before;

    memcpy(&before, words, sizeof before);
    decay.take(arg, terms, words, a);
    if (fault == OVERADMITS && !a->admitted && a->cost == a->remaining + 1) {
        a->admitted = true;
        a->retry_after_ns = 0;
        a->remaining = 0;
    }
    if (fault == FORGETS_THE_CHARGE && a->cost > 3)
        memcpy(words, &before, sizeof before);
    if (fault == REFUSES_WHAT_REMAINS && a->admitted && a->cost == terms->capacity)
        a->admitted = false, a->remaining = a->cost, a->retry_after_ns = 1000000;
    if (fault == WAITS_TOO_SHORT)
        a->retry_after_ns = a->retry_after_ns / 2 + 1;
    if (fault == WAITS_BELOW_NOTHING && !a->admitted)
        a->retry_after_ns = -1;
    if (fault == WAITS_WITHOUT_END)
        a->retry_after_ns = a->reset_after_ns = INT64_MAX;
    if (fault == IS_NEITHER_TRUE_NOR_FALSE)
        memset(&a->admitted, 2, sizeof a->admitted);
    if (fault == RESETS_TOO_SOON)
        a->reset_after_ns = a->reset_after_ns != 0 ? a->reset_after_ns / 8 + 1 : 0;
    if (fault == WRITES_BEHIND)
        bytes[8] = 1;
    if (fault == IS_IMPURE && ++calls % 1000 == 0 && a->remaining != 0)
        a->remaining--;
}

static bool give_back_badly(const void *arg, const struct ration_terms *terms, void *words,
                            int64_t elapsed_ns, uint64_t units, int64_t age_ns)
{
    return decay.give_back(arg, terms, words, elapsed_ns, units, fault == MINTS ? 0 : age_ns);
}

/* A window that counts fewer units if the amount is below 100. */
static void take_unevenly(const void *arg, const struct ration_terms *terms, void *words,
                          struct ration_attempt *a)
{
    uint64_t gone; /* of 100 */

    (void)arg;
    memcpy(&gone, words, sizeof gone);
    gone = a->elapsed_ns >= terms->period_ns ? 0 : gone;
    a->remaining = gone < terms->capacity ? terms->capacity - gone : 0;
    a->admitted = a->cost <= a->remaining;
    if (a->admitted && a->cost != 0) {
        gone += terms->capacity < 100 ? a->cost / 4 + 1 : a->cost;
        a->remaining -= a->cost;
        memcpy(words, &gone, sizeof gone);
    }
    a->retry_after_ns = a->admitted ? 0 : terms->period_ns - a->elapsed_ns;
    a->reset_after_ns = gone != 0 ? terms->period_ns - (a->cost != 0 ? 0 : a->elapsed_ns) : 0;
}

static const struct ration_terms terms = {100, MINUTE, 100};

static void faults_are_caught_by_the_test_that_ships(void **state)
{
    struct ration_own_algorithm bad = decay;
    struct ration_error error;

    (void)state;
    assert_int_equal(ration_algorithm_test(&decay, &terms, 20000, 1, &error), 0);
    bad.take = take_badly;
    bad.give_back = give_back_badly;
    for (fault = MINTS; fault < FAULTS; fault++) {
        bad.take = fault == COUNTS_LESS_OF_A_SMALLER_AMOUNT ? take_unevenly : take_badly;
        if (ration_algorithm_test(&bad, &terms, 20000, 1, &error) != RATION_EALGORITHM)
            fail_msg("fault %d was not found", (int)fault);
        print_message("# %d: %s\n", (int)fault, error.text);
    }
}

/* Says something sound when asked first, and nonsense from then on: functions must be pure. */
static const char *check_once(const void *arg, const struct ration_terms *t, int64_t *longest_ns)
{
    static unsigned calls;

    (void)arg;
    (void)t;
    if (calls++ != 0)
        *longest_ns = INT64_MAX;
    return NULL;
}

static void the_test_refuses_terms_and_survives_checks_that_make_no_sense(void **state)
{
    struct ration_own_algorithm fickle = decay;
    const struct ration_terms none[] = {{0, MINUTE, 0},    {0, MINUTE, 5},
                                        {5, 0, 5},         {5, -1, 5},
                                        {5, INT64_MAX, 5}, {UINT64_MAX, MINUTE, UINT64_MAX}};
    struct ration_error error;

    (void)state;
    for (size_t i = 0; i < COUNT(none); i++)
        assert_int_equal(ration_algorithm_test(&decay, &none[i], 10, 1, &error), RATION_EINVAL);
    assert_int_equal(ration_algorithm_test(&decay, NULL, 10, 1, &error), RATION_EINVAL);
    assert_int_equal(ration_algorithm_test(NULL, &terms, 10, 1, &error), RATION_EINVAL);
    fickle.check = check_once;
    assert_int_equal(ration_algorithm_test(&fickle, &terms, 2000, 1, &error), RATION_EALGORITHM);
}

static void an_answer_out_of_bounds_is_an_error_and_charges_nothing(void **state)
{
    static const enum fault unbounded[] = {REFUSES_WHAT_REMAINS, WAITS_BELOW_NOTHING,
                                           WAITS_WITHOUT_END, IS_NEITHER_TRUE_NOR_FALSE,
                                           WRITES_BEHIND};
    static struct ration_own_algorithm bad;
    struct ration_totals totals;

    (void)state;
    bad = decay;
    bad.take = take_badly;
    for (size_t i = 0; i < COUNT(unbounded); i++) {
        const struct ration_named limits[] = {own("v", "10 per minute", &bad),
                                              named("b", "10 per minute")};
        struct ration *r = open_own(limits, 2);
        struct ration_charge c[] = {charge(0, "ada", 6), charge(1, "ada", 1)};
        struct ration_decision d;

        fault = FAULTS;
        assert_true(take(r, 0, "ada", 5, T0 + 1)); /* a clock that steps back adds to waits */
        fault = unbounded[i];
        if (fault == REFUSES_WHAT_REMAINS)
            c[0].cost = 10, c[0].key = "bob";
        assert_int_equal(ration_take(r, &c[0], T0), RATION_EALGORITHM);
        assert_int_equal(ration_check(r, c, 2, T0, &d), RATION_EALGORITHM);
        ration_totals(r, &totals);
        assert_int_equal(totals.errors, 2);
        fault = FAULTS;
        assert_int_equal(left(r, 0, "ada", T0), 5);
        assert_int_equal(left(r, 1, "ada", T0), 10);
        ration_close(r);
    }
}

static void a_faulty_algorithm_is_refused_when_it_is_given(void **state)
{
    struct ration_own_algorithm bad[] = {decay, decay, decay, decay, decay};
    const char *const why[] = {"another version", "small letters", "one of the library's",
                               "take and give_back", "1 to 256 bytes"};
    struct ration_error error;
    struct ration *r;

    (void)state;
    bad[0].size = 8;
    bad[1].name = "De cay";
    bad[2].name = "sliding-log";
    bad[3].give_back = NULL;
    bad[4].state_bytes = 257;
    for (size_t i = 0; i < COUNT(bad); i++) {
        const struct ration_own_algorithm *list[] = {&decay, &bad[i]};
        struct ration_options options = {.own_algorithms = list, .own_algorithm_count = 2};

        assert_int_equal(ration_open(&options, &r, &error), RATION_EINVAL);
        if (!strstr(error.text, why[i]))
            fail_msg("%s", error.text);
    }
    const struct ration_own_algorithm *twice[] = {&decay, &decay};

    assert_int_equal(
        ration_open(&(struct ration_options){.own_algorithms = twice, .own_algorithm_count = 2}, &r,
                    &error),
        RATION_EINVAL);
    assert_string_equal(error.text,
                        "algorithm 1 of your own has the name of another; choose another");
    struct ration_limit none = {
        .algorithm = RATION_OWN_ALGORITHM, .amount = 1, .period_ns = MINUTE};

    assert_int_equal(ration_limit_check(&none, &error), RATION_EINVAL);
    assert_string_equal(error.text, "no algorithm of your own; set `own`");
    none.own = &decay;
    assert_int_equal(ration_limit_check(&none, &error), 0);
    none.period_ns = 60 * 24 * 60 * MINUTE;
    assert_int_equal(ration_limit_check(&none, &error), RATION_EINVAL);
    assert_string_equal(error.text, "a counter that takes more than 30 days to decay by half; "
                                    "write a shorter period");
    none = (struct ration_limit){.own = &decay, .amount = 1, .period_ns = MINUTE};
    assert_int_equal(ration_limit_check(&none, &error), RATION_EINVAL);
    assert_string_equal(ration_algorithm_name(RATION_OWN_ALGORITHM), "own");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_name_it_and_tiers_overrides_and_prints_know_it),
        cmocka_unit_test(a_process_without_it_says_which_it_knows),
        cmocka_unit_test(it_counts_all_or_none_beside_others_and_in_their_shadow),
        cmocka_unit_test(receipts_reservations_credits_and_drains_work),
        cmocka_unit_test(factors_that_change_mint_nothing),
        cmocka_unit_test(requests_stand_in_line_for_it_in_order),
        cmocka_unit_test(threads_on_one_key_admit_exactly_the_limit),
        cmocka_unit_test(a_file_is_shared_by_processes_survives_a_kill_and_keeps_versions_apart),
        cmocka_unit_test(faults_are_caught_by_the_test_that_ships),
        cmocka_unit_test(the_test_refuses_terms_and_survives_checks_that_make_no_sense),
        cmocka_unit_test(an_answer_out_of_bounds_is_an_error_and_charges_nothing),
        cmocka_unit_test(a_faulty_algorithm_is_refused_when_it_is_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
