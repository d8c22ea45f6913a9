/* SPDX-License-Identifier: Apache-2.0 */
/* Rules replaced a thousand times while threads decide: no decision is lost or
 * made by half a ruleset, and no counter starts afresh. */
#include "rules_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define RELOADS 1000
#define THREADS 4
#define CROWD 80 /* more than have a stripe of their own */
#define STEADY 100000000

/* Two of the three rules of each set bear its letter; the third never changes. */
static const char *const sets[] = {
    "limits:\n"
    "  - { name: a1, key: user, limit: 1000000000 per hour }\n"
    "  - { name: steady, key: none, limit: 100000000 per day, algorithm: fixed-window }\n"
    "  - { name: a2, key: [user, ip], limit: [1000000000 per minute, 1000000000 per day] }\n",
    "limits:\n"
    "  - { name: b1, key: ip, limit: 1000000000 per hour }\n"
    "  - name: steady\n"
    "    key: none\n"
    "    limit: 100000000 per day\n"
    "    algorithm: fixed-window\n"
    "  - { name: b2, key: user, limit: 1000000000 per 2 hours, algorithm: sliding-window }\n",
    "limits:\n"
    "  - { name: c1, when: { user: { present: true } }, limit: 1000000000 per hour }\n"
    "  - { name: c2, key: ip, limit: 1000000000 per calendar month Europe/Rome }\n"
    "  - { name: steady, key: none, limit: 100000000 per day, algorithm: fixed-window }\n",
};

struct crew {
    struct ration *r;
    atomic_bool stop;
    atomic_ulong decided, allowed, mixed, failed;
};

/* All rules of an outcome, bar the steady one, bear one letter. */
static bool is_whole(const struct ration_outcome *out)
{
    char letter = '\0';
    unsigned steady = 0;

    for (uint32_t i = 0; i < out->listed; i++) {
        char c = out->limits[i].rule[0];

        if (c == 's') {
            steady++;
            continue;
        }
        if (letter != '\0' && letter != c)
            return false;
        letter = c;
    }
    return steady == 1 && letter != '\0' && out->limit_count >= 3;
}

/* A swap waits for every thread that was taken off its processor in the middle
 * of a decision. More threads than processors make that the rule, unless they
 * give theirs up between two. */
static void breathe(unsigned i)
{
    if (i % 32 == 0)
        sched_yield();
}

static void *decide_on(void *arg)
{
    struct crew *crew = arg;
    struct words w;
    struct ration_outcome out;

    split_words(&w, "user=ann ip=192.0.2.1");
    for (unsigned i = 1; !atomic_load(&crew->stop); i++) {
        if (ration_decide(crew->r, &w.request, T0, &out) != 0)
            atomic_fetch_add(&crew->failed, 1);
        else if (!is_whole(&out))
            atomic_fetch_add(&crew->mixed, 1);
        else
            atomic_fetch_add(&crew->allowed, out.decision.allowed);
        atomic_fetch_add(&crew->decided, 1);
        breathe(i);
    }
    return NULL;
}

static void reload_under(struct crew *crew, unsigned threads, unsigned reloads)
{
    pthread_t ids[CROWD];

    for (unsigned i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, decide_on, crew), 0);
    for (unsigned i = 1; i <= reloads; i++) {
        const char *set = sets[i % COUNT(sets)];
        unsigned long seen = atomic_load(&crew->decided);

        assert_int_equal(ration_rules_parse(crew->r, "set.yaml", set, strlen(set), NULL), 0);
        /* Each set decides something, however busy the machine. */
        while (atomic_load(&crew->decided) < seen + 4 * THREADS)
            sched_yield();
    }
    atomic_store(&crew->stop, true);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
}

static void check_crew(struct crew *crew)
{
    struct ration_totals totals;

    assert_int_equal(crew->failed, 0);
    assert_int_equal(crew->mixed, 0);
    assert_int_equal(crew->allowed, crew->decided);
    assert_int_equal(left_of(crew->r, "steady", "user=ann ip=192.0.2.1", T0),
                     STEADY - crew->decided);
    assert_int_equal(ration_rule_totals(crew->r, "steady", 6, &totals), 0);
    assert_int_equal(totals.allowed, crew->decided);
    ration_totals(crew->r, &totals);
    assert_int_equal(totals.allowed, crew->decided);
}

static void a_thousand_reloads_lose_no_decision(void **state)
{
    struct crew crew = {.r = open_rules(sets[0])};

    (void)state;
    reload_under(&crew, THREADS, RELOADS);
    check_crew(&crew);
    assert_int_equal(ration_rules_version(crew.r), RELOADS + 1);
    ration_close(crew.r);
}

/* The same where the kernel has no membarrier. */
static void reloads_without_membarrier_lose_no_decision(void **state)
{
    struct crew crew = {.r = open_limits(NULL, 0)};

    (void)state;
    crew.r->shelf.fenced = true;
    rules_at(crew.r, sets[0], T0);
    reload_under(&crew, THREADS, RELOADS / 5);
    check_crew(&crew);
    ration_close(crew.r);
}

static void a_crowd_of_threads_loses_no_decision(void **state)
{
    struct crew crew = {.r = open_rules(sets[0])};

    (void)state;
    reload_under(&crew, CROWD, RELOADS / 20);
    check_crew(&crew);
    ration_close(crew.r);
}

/* --- a limit that changes its shape ---------------------------------------------------------- */

static const char *const shapes[] = {
    "limits:\n  - { name: s, key: user, limit: 50000 per hour }\n",
    "limits:\n  - { name: s, key: user, limit: 50000 per day, algorithm: fixed-window }\n",
    "limits:\n  - { name: s, key: user, limit: 50000 per 2 hours, algorithm: sliding-window }\n",
};

static void *spend(void *arg)
{
    struct crew *crew = arg;
    struct words w;
    struct ration_outcome out;

    split_words(&w, "user=ann");
    for (unsigned i = 1; !atomic_load(&crew->stop); i++) {
        assert_int_equal(ration_decide(crew->r, &w.request, T0, &out), 0);
        atomic_fetch_add(&crew->allowed, out.decision.allowed);
        atomic_fetch_add(&crew->decided, 1);
        breathe(i);
    }
    return NULL;
}

/* At one instant a client gets no more than the limit, whatever its shape at the
 * time, but for decisions that were under way during a reload. */
static void a_limit_in_flux_is_spent_once(void **state)
{
    const unsigned reloads = 200;
    struct crew crew = {.r = open_rules(shapes[0])};
    pthread_t ids[THREADS];

    (void)state;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, spend, &crew), 0);
    for (unsigned i = 1; i <= reloads; i++) {
        unsigned long seen = atomic_load(&crew.decided);

        rules_at(crew.r, shapes[i % COUNT(shapes)], T0);
        while (atomic_load(&crew.decided) < seen + 2 * THREADS)
            sched_yield();
    }
    while (atomic_load(&crew.decided) < 60000)
        sched_yield();
    atomic_store(&crew.stop, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    assert_true(crew.allowed <= 50000 + reloads * THREADS);
    assert_true(crew.allowed > 25000);
    ration_close(crew.r);
}

/* --- books that are kept for longer ------------------------------------------------------------
 */

static void *swap_rules(void *arg)
{
    struct crew *crew = arg;

    rules_at(crew->r, sets[1], T0);
    atomic_store(&crew->stop, true);
    return NULL;
}

static void a_held_book_is_waited_for(void **state)
{
    struct crew crew = {.r = open_rules(sets[0])};
    struct rn_pin first = rn_pin_take_counted(&crew.r->shelf),
                  second = rn_pin_take_counted(&crew.r->shelf);
    struct rn_pin now;
    pthread_t id;

    (void)state;
    assert_int_equal(pthread_create(&id, NULL, swap_rules, &crew), 0);
    while (ration_rules_version(crew.r) < 2)
        sched_yield();
    /* Decisions go on, by the new rules, while the old ones are still held. */
    assert_string_equal(decide(crew.r, "user=ann ip=192.0.2.1", T0).limits[0].rule, "b1");
    now = rn_pin_take_counted(&crew.r->shelf);
    assert_ptr_not_equal(now.book, first.book);
    rn_pin_drop(&first);
    for (unsigned i = 0; i < 1000; i++)
        sched_yield();
    assert_false(atomic_load(&crew.stop));
    assert_int_equal(second.book->ruleset->rule_count, 3);
    rn_pin_drop(&second);
    pthread_join(id, NULL);
    assert_true(atomic_load(&crew.stop));
    rn_pin_drop(&now);
    ration_close(crew.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_reloads_lose_no_decision),
        cmocka_unit_test(reloads_without_membarrier_lose_no_decision),
        cmocka_unit_test(a_crowd_of_threads_loses_no_decision),
        cmocka_unit_test(a_limit_in_flux_is_spent_once),
        cmocka_unit_test(a_held_book_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
