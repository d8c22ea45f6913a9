/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait in line: they sleep, and go ahead in order. */
#include "rules_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <ration/wait.h>

#define THREADS 50

/* While the clock crawls, no thread is late for its turn, however busy the machine is. It must not
 * stand: a thread that is refused just before a place comes back asks again a millisecond later. */
#define CRAWL_NS 10000 /* from one look at the clock to the next */

static atomic_bool clock_crawls;
static atomic_llong crawled_ns;

int clock_gettime(clockid_t id, struct timespec *t)
{
    if (id == CLOCK_BOOTTIME && atomic_load(&clock_crawls)) {
        long long ns = atomic_fetch_add(&crawled_ns, CRAWL_NS);

        *t = (struct timespec){ns / 1000000000, ns % 1000000000};
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, id, t);
}

static int slow_clock(void **state)
{
    struct timespec t;

    (void)state;
    clock_gettime(CLOCK_BOOTTIME, &t);
    atomic_store(&crawled_ns, t.tv_sec * 1000000000LL + t.tv_nsec);
    atomic_store(&clock_crawls, true);
    return 0;
}

static int restore_clock(void **state)
{
    (void)state;
    atomic_store(&clock_crawls, false);
    return 0;
}

struct crowd {
    struct ration *r;
    atomic_uint admitted;
    unsigned order[THREADS]; /* by admission: the number of the thread */
};

struct member {
    struct crowd *crowd;
    unsigned number;
    int code;
    struct words words;
    struct ration_outcome out;
};

static void wait_until_there_are(const struct crowd *crowd, uint64_t waiting)
{
    struct ration_waiting_totals totals;

    do {
        sched_yield();
        ration_waiting_totals(crowd->r, &totals);
    } while (totals.waiting != waiting);
}

/* The place that it gets it gives to the next. No other thread has one meanwhile. */
static void *wait_for_a_place(void *arg)
{
    struct member *m = arg;

    m->code = ration_wait(m->crowd->r, &m->words.request, &m->out);
    if (m->code == 0 && m->out.decision.allowed) {
        m->crowd->order[atomic_fetch_add(&m->crowd->admitted, 1)] = m->number;
        ration_outcome_release(m->crowd->r, &m->out, RATION_NOW);
    }
    return NULL;
}

static void start(struct crowd *crowd, struct member *m, unsigned number, pthread_t *thread)
{
    *m = (struct member){.crowd = crowd, .number = number};
    split_words(&m->words, "user=ann");
    m->words.request.max_wait_ns = 60 * MINUTE;
    assert_int_equal(pthread_create(thread, NULL, wait_for_a_place, m), 0);
}

static void fifty_threads_go_ahead_in_the_order_in_which_they_came(void **state)
{
    static struct member members[THREADS];
    pthread_t threads[THREADS];
    struct crowd crowd = {.r = open_rules("limits: [{name: a, key: user, limit: 1 concurrent}]")};
    struct ration_outcome first;
    struct words words;

    (void)state;
    split_words(&words, "user=ann");
    assert_int_equal(ration_decide(crowd.r, &words.request, RATION_NOW, &first), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        start(&crowd, &members[i], i, &threads[i]);
        wait_until_there_are(&crowd, i + 1);
    }
    assert_int_equal(ration_outcome_release(crowd.r, &first, RATION_NOW), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&crowd.admitted), THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(members[i].code, 0);
        assert_int_equal(crowd.order[i], i);
        assert_true(members[i].out.waited_ns > 0);
    }
    ration_close(crowd.r);
}

static void what_fits_does_not_wait(void **state)
{
    struct ration *r = open_rules("limits: [{name: a, key: user, limit: 2 per hour, queue: 5}]");
    struct words words;
    struct ration_outcome out;

    (void)state;
    split_words(&words, "user=ann");
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(ration_wait(r, &words.request, &out), 0);
        assert_true(out.decision.allowed);
        assert_int_equal(out.waited_ns, 0);
    }
    assert_int_equal(ration_wait(r, &words.request, &out), 0); /* half an hour is too long */
    assert_false(out.decision.allowed);
    assert_true(out.in_line);
    ration_close(r);
}

static void a_thread_is_refused_when_its_time_is_over(void **state)
{
    struct ration *r = open_rules("limits: [{name: a, key: user, limit: 1 concurrent}]");
    struct words words;
    struct ration_outcome out;

    (void)state;
    split_words(&words, "user=ann");
    words.request.max_wait_ns = 20 * 1000 * 1000;
    assert_int_equal(ration_wait(r, &words.request, &out), 0);
    assert_true(out.decision.allowed);
    assert_int_equal(ration_wait(r, &words.request, &out), 0);
    assert_false(out.decision.allowed);
    assert_true(out.waited_ns >= words.request.max_wait_ns);
    ration_close(r);
}

struct charging {
    struct ration *r;
    struct ration_charge charge;
    int code;
};

static void *wait_for_a_unit(void *arg)
{
    struct charging *c = arg;

    c->code = ration_wait_charge(c->r, &c->charge);
    return NULL;
}

static void a_charge_waits_until_a_unit_comes_back(void **state)
{
    const struct ration_named limits[] = {named("a", "1 per day")};
    struct crowd crowd = {.r = open_limits(limits, 1)};
    struct charging waits = {.r = crowd.r, .charge = charge(0, "ann", 1)};
    struct ration_charge first = charge(0, "ann", 1);
    pthread_t thread;

    (void)state;
    waits.charge.max_wait_ns = 48 * 60 * MINUTE;
    assert_int_equal(ration_wait_charge(crowd.r, &first), 0); /* does not wait: 0 */
    assert_true(first.verdict.allowed);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_a_unit, &waits), 0);
    wait_until_there_are(&crowd, 1);
    assert_int_equal(ration_give_back(crowd.r, &first, RATION_NOW), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waits.code, 0);
    assert_true(waits.charge.verdict.allowed);
    assert_null(waits.charge.waiter);
    ration_close(crowd.r);
}

/* Threads that find room and threads that wait, all at once: each unit goes to one of them. */
static void *wait_often(void *arg)
{
    struct member *m = arg;

    for (unsigned i = 0; i < 40; i++) {
        struct ration_outcome out;

        if (ration_wait(m->crowd->r, &m->words.request, &out) != 0 || !out.decision.allowed)
            continue;
        m->number += atomic_fetch_add(&m->crowd->admitted, 1) == 0; /* nobody else is in */
        atomic_fetch_sub(&m->crowd->admitted, 1);
        ration_outcome_release(m->crowd->r, &out, RATION_NOW);
        m->code++;
    }
    return NULL;
}

static void a_place_has_one_thread_at_a_time(void **state)
{
    struct crowd crowd = {.r = open_rules("limits: [{name: a, key: user, limit: 1 concurrent}]")};
    struct member members[4];
    pthread_t threads[COUNT(members)];
    struct ration_waiting_totals totals;

    (void)state;
    for (unsigned i = 0; i < COUNT(members); i++) {
        members[i] = (struct member){.crowd = &crowd};
        split_words(&members[i].words, "user=ann");
        members[i].words.request.max_wait_ns = 60 * MINUTE;
        assert_int_equal(pthread_create(&threads[i], NULL, wait_often, &members[i]), 0);
    }
    for (unsigned i = 0; i < COUNT(members); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(members[i].code, 40);
        assert_int_equal(members[i].number, 40);
    }
    ration_waiting_totals(crowd.r, &totals);
    assert_int_equal(totals.waiting + totals.lines, 0);
    ration_close(crowd.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fifty_threads_go_ahead_in_the_order_in_which_they_came,
                                        slow_clock, restore_clock),
        cmocka_unit_test(what_fits_does_not_wait),
        cmocka_unit_test(a_thread_is_refused_when_its_time_is_over),
        cmocka_unit_test(a_charge_waits_until_a_unit_comes_back),
        cmocka_unit_test(a_place_has_one_thread_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
