/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets that several threads settle at once, while rules are replaced and listed. */
#include "ticket_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define TICKETS 300
#define RELOADS 100

/* The rule that is charged never changes; the other one does. */
static const char *const sets[] = {
    "limits:\n"
    "  - { name: m, key: none, limit: 100000 per day, algorithm: fixed-window }\n"
    "  - { name: c, key: none, limit: 1000 concurrent }\n"
    "  - { name: other, limit: 1000000 per day }\n",
    "limits:\n"
    "  - { name: other, key: user, limit: 1000000 per hour }\n"
    "  - { name: c, key: none, limit: 1000 concurrent }\n"
    "  - { name: m, key: none, limit: 100000 per day, algorithm: fixed-window }\n",
};

struct crew {
    struct ration *r;
    struct slip *slips; /* TICKETS reservations and as many leases */
    atomic_uint settled, already, released, gone, wrong;
};

/* Counts calls that did it, that found it `done`, and all others. */
static void note(struct crew *crew, int code, int done, atomic_uint *did, atomic_uint *found)
{
    atomic_fetch_add(code == 0 ? did : code == done ? found : &crew->wrong, 1);
}

static void *settle_all(void *arg)
{
    struct crew *crew = arg;

    for (unsigned i = 0; i < TICKETS; i++) {
        note(crew, refund(crew->r, &crew->slips[i], T0), RATION_EALREADY, &crew->settled,
             &crew->already);
        note(crew, release(crew->r, &crew->slips[TICKETS + i], T0), RATION_EGONE, &crew->released,
             &crew->gone);
    }
    return NULL;
}

static int count_rule(void *arg, const struct ration_rule_info *info)
{
    *(unsigned *)arg += info->listed == 1;
    return 0;
}

static void reload_and_tell(struct ration *r)
{
    struct words w;

    split_words(&w, "user=ann");
    for (unsigned i = 0; i < RELOADS; i++) {
        unsigned rules = 0;
        char *text;

        rules_at(r, sets[i % COUNT(sets)], T0);
        ration_rules_each(r, count_rule, &rules);
        assert_int_equal(rules, 3);
        assert_int_equal(ration_rules_text(r, &text, NULL), 0);
        ration_text_free(text);
        ration_shadow_set(r, i % 2 == 0);
        assert_int_equal(ration_state_adjust(r, &w.request, "other", 5, 1, T0), 0);
    }
    ration_shadow_set(r, false);
}

static void of_all_threads_one_settles_a_ticket(void **state)
{
    struct crew crew = {.r = open_rules(sets[0]),
                        .slips = calloc(2 * (size_t)TICKETS, sizeof *crew.slips)};
    pthread_t ids[THREADS];

    (void)state;
    assert_non_null(crew.slips);
    for (unsigned i = 0; i < TICKETS; i++) {
        reserve(crew.r, "user=ann", 1, T0, &crew.slips[i]);
        acquire(crew.r, "user=ann", 0, T0, &crew.slips[TICKETS + i]);
    }
    assert_int_equal(left_of(crew.r, "c", "user=ann", T0), 1000 - 2 * TICKETS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, settle_all, &crew), 0);
    reload_and_tell(crew.r);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(crew.wrong, 0);
    assert_int_equal(crew.settled, TICKETS);
    assert_int_equal(crew.already, (THREADS - 1) * TICKETS);
    assert_int_equal(crew.released, TICKETS);
    assert_int_equal(crew.gone, (THREADS - 1) * TICKETS);
    assert_int_equal(left_of(crew.r, "m", "user=ann", T0), 100000 - TICKETS);
    assert_int_equal(left_of(crew.r, "c", "user=ann", T0), 1000);
    ration_close(crew.r);
    free(crew.slips);
}

/* --- outcomes --------------------------------------------------------------------------------- */

static const char by_outcome[] = "limits: [{name: m, key: none, limit: 100000 per day, "
                                 "algorithm: fixed-window, charge_on: status 4xx}]";

static void *charge_all(void *arg)
{
    struct crew *crew = arg;

    for (unsigned i = 0; i < TICKETS; i++) {
        const char *text = crew->slips[i].text;

        note(crew, ration_ticket_charge(crew->r, text, strlen(text), 401, T0, NULL),
             RATION_EALREADY, &crew->settled, &crew->already);
    }
    return NULL;
}

static void of_all_threads_one_charges_an_outcome(void **state)
{
    struct crew crew = {.r = open_rules(by_outcome), .slips = calloc(TICKETS, sizeof *crew.slips)};
    pthread_t ids[THREADS];

    (void)state;
    assert_non_null(crew.slips);
    for (unsigned i = 0; i < TICKETS; i++) {
        struct ration_outcome out = decide(crew.r, "user=ann", T0);

        assert_int_equal(ration_outcome_ticket(crew.r, &out, MINUTE, crew.slips[i].text), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, charge_all, &crew), 0);
    for (unsigned i = 0; i < RELOADS; i++)
        rules_at(crew.r, by_outcome, T0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(crew.wrong, 0);
    assert_int_equal(crew.settled, TICKETS);
    assert_int_equal(crew.already, (THREADS - 1) * TICKETS);
    assert_int_equal(left_of(crew.r, "m", "user=ann", T0), 100000 - TICKETS);
    ration_close(crew.r);
    free(crew.slips);
}

/* --- outcomes with a place ---------------------------------------------------------------------
 */

/* Of one account five may fail, and two at a time may try. */
#define ACCOUNTS 30000
#define FAILURES_MAX 6

static const char guarded[] =
    "limits:\n"
    "  - {name: m, key: user, limit: 5 per day, algorithm: sliding-log, charge_on: status 401}\n"
    "  - {name: c, key: user, limit: 2 concurrent}\n";

struct guesses {
    struct ration *r;
    atomic_uint account, failed[ACCOUNTS];
};

/* Guesses at an account until that is refused for its failures, then at the next. */
static void *guess_all(void *arg)
{
    struct guesses *guesses = arg;
    unsigned account;

    while ((account = atomic_load(&guesses->account)) < ACCOUNTS) {
        char user[24];

        snprintf(user, sizeof user, "user=%u", account);
        struct ration_outcome out = decide(guesses->r, user, T0);

        if (out.decision.allowed) {
            atomic_fetch_add(&guesses->failed[account], 1);
            ration_outcome_charge(guesses->r, &out, 401, T0, NULL);
            ration_outcome_release(guesses->r, &out, T0);
        } else if (strcmp(out.rule, "m") == 0) {
            atomic_compare_exchange_strong(&guesses->account, &account, account + 1);
        }
    }
    return NULL;
}

static void places_bound_how_many_fail(void **state)
{
    struct guesses *guesses = calloc(1, sizeof *guesses);
    pthread_t ids[THREADS];

    (void)state;
    assert_non_null(guesses);
    guesses->r = open_rules(guarded);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, guess_all, guesses), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < ACCOUNTS; i++)
        assert_in_range(guesses->failed[i], 5, FAILURES_MAX);
    ration_close(guesses->r);
    free(guesses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_all_threads_one_settles_a_ticket),
        cmocka_unit_test(of_all_threads_one_charges_an_outcome),
        cmocka_unit_test(places_bound_how_many_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
