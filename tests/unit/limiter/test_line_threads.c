/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and threads: the order is exact whichever thread a waiter belongs to, no wake is lost, and
 * everything at once leaves nothing behind. Time is a number that the test steps.
 */
#include "fixture.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

#include "limiter/line/lines.h"

#define THREADS 4
#define MS INT64_C(1000000)

static struct ration *limiter;
static int64_t clock_ns; /* atomically */

static int64_t now(void)
{
    return __atomic_load_n(&clock_ns, __ATOMIC_SEQ_CST);
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    return z ^ z >> 31;
}

/* A limit with one state, shared by all threads. */
struct desk {
    pthread_mutex_t lock;
    struct rn_limit limit;
    uint64_t key, state;
    bool batches;
};

static void desk_init(struct desk *d, const char *text, uint64_t number)
{
    struct ration_named n = named("desk", text);

    *d = (struct desk){.key = number * UINT64_C(0x9E3779B97F4A7C15)};
    pthread_mutex_init(&d->lock, NULL);
    rn_limit_init(&d->limit, &n.limit);
}

static struct ration_verdict desk_take(struct desk *d, int64_t now_ns)
{
    struct rn_ask ask = {.op = RN_TAKE, .now_ns = now_ns, .cost = 1};
    struct rn_answer a = {0};

    pthread_mutex_lock(&d->lock);
    rn_limit_apply(&d->limit, &d->state, 1, &ask, &a);
    pthread_mutex_unlock(&d->lock);
    return (struct ration_verdict){.allowed = a.allowed,
                                   .remaining = a.remaining,
                                   .retry_after_ns = a.retry_after_ns,
                                   .reset_after_ns = a.reset_after_ns};
}

struct client {
    struct ration_waiter waiter; /* the first member */
    struct desk *desk;
    uint32_t rank;
    int64_t wait_ns;
    bool is_decided;
    unsigned number; /* of its admission, from 1; 0: refused */
    uint64_t *moves; /* random: to which other line it moves; NULL: never */
};

static struct desk desks[16];
static unsigned admitted;

static void finish(struct client *c, bool goes, const struct ration_verdict *verdict,
                   int64_t now_ns)
{
    c->number = goes ? __atomic_add_fetch(&admitted, 1, __ATOMIC_SEQ_CST) : 0;
    rn_lines_finish(limiter->lines, &c->waiter, goes, verdict, now_ns);
    __atomic_store_n(&c->is_decided, true, __ATOMIC_SEQ_CST);
}

static void ask(struct client *c, int64_t now_ns)
{
    struct desk *d = c->desk;
    struct rn_line_refusal refusal = {.units = 1, .rank = c->rank, .size = 1000};
    int64_t from_ns = rn_lines_waits(&c->waiter) ? rn_lines_arrived_ns(&c->waiter) : now_ns;

    if (rn_lines_is_over(&c->waiter)) {
        finish(c, false, NULL, now_ns);
        return;
    }
    if (c->moves && next_random(c->moves) % 4 == 0) /* another limit refuses it now */
        d = c->desk = &desks[next_random(c->moves) % COUNT(desks)];
    refusal.by_line = rn_lines_is_ahead(limiter->lines, d->key, 1, c->rank, &c->waiter, now_ns,
                                        &refusal.verdict.retry_after_ns);
    if (!refusal.by_line)
        refusal.verdict = desk_take(d, now_ns);
    if (refusal.verdict.allowed) {
        finish(c, true, rn_lines_key(&c->waiter) == d->key ? &refusal.verdict : NULL, now_ns);
        return;
    }
    refusal.key = d->key;
    refusal.limit = &d->limit;
    refusal.steps = d->batches ? RN_STEPS_TAKE : RN_STEPS_LOCAL;
    if (rn_lines_join(limiter->lines, &c->waiter, &refusal, from_ns + c->wait_ns, now_ns) !=
        RN_LINE_JOINED)
        finish(c, false, NULL, now_ns);
}

static void turn(struct ration_waiter *waiter)
{
    ask((struct client *)(void *)waiter, now());
}

static void begin(struct client *c, struct ration_waiting *waiting, struct desk *d, int64_t wait_ns)
{
    c->waiter = (struct ration_waiter){.waiting = waiting, .turn = turn};
    c->desk = d;
    c->wait_ns = wait_ns;
    c->is_decided = false;
    ask(c, now());
}

/* --- order ------------------------------------------------------------------------------------ */

#define EACH 100

struct worker {
    struct ration_waiting *waiting;
    sem_t woken;
    bool stops;
    struct client clients[EACH];
};

static void wake(void *arg)
{
    sem_post(&((struct worker *)arg)->woken);
}

/* Sleeps until it is woken: by another thread, or since time went on. */
static void *run_worker(void *arg)
{
    struct worker *w = arg;

    while (!__atomic_load_n(&w->stops, __ATOMIC_SEQ_CST)) {
        ration_waiting_run(w->waiting, now());
        if (ration_waiting_next(w->waiting, now()) != 0)
            sem_wait(&w->woken);
    }
    return NULL;
}

static void go_in_order(bool batches)
{
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct client first = {0};

    limiter = open_limits(NULL, 0);
    clock_ns = T0;
    admitted = 0;
    desk_init(&desks[0], "1 per second", 1);
    desks[0].batches = batches;
    for (unsigned i = 0; i < THREADS; i++) {
        memset(&workers[i], 0, sizeof workers[i]);
        sem_init(&workers[i].woken, 0, 0);
        assert_int_equal(ration_waiting_new(limiter, wake, &workers[i], &workers[i].waiting), 0);
    }
    begin(&first, workers[0].waiting, &desks[0], SECOND);
    for (unsigned i = 0; i < THREADS * EACH; i++)
        begin(&workers[i % THREADS].clients[i / THREADS], workers[i % THREADS].waiting, &desks[0],
              10000 * SECOND);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_worker, &workers[i]), 0);
    for (unsigned i = 0; i < THREADS * EACH; i++) {
        const struct client *c = &workers[i % THREADS].clients[i / THREADS];

        __atomic_store_n(&clock_ns, T0 + (i + 1) * SECOND, __ATOMIC_SEQ_CST);
        for (unsigned j = 0; j < THREADS; j++)
            sem_post(&workers[j].woken);
        while (!__atomic_load_n(&c->is_decided, __ATOMIC_SEQ_CST))
            sched_yield();
        assert_int_equal(c->number, i + 2);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        __atomic_store_n(&workers[i].stops, true, __ATOMIC_SEQ_CST);
        sem_post(&workers[i].woken);
        pthread_join(threads[i], NULL);
        ration_waiting_free(workers[i].waiting);
        sem_destroy(&workers[i].woken);
    }
    ration_close(limiter);
}

static void threads_go_in_order_and_wake_each_other(void **state)
{
    (void)state;
    go_in_order(false);
}

static void threads_go_in_order_in_batches(void **state)
{
    (void)state;
    go_in_order(true);
}

/* --- entrusted to one thread --------------------------------------------------------------------
 */

#define HANDS 3
#define OF_HAND 300

static struct decider {
    struct worker worker; /* first: `wake` has it; without clients of its own */
    pthread_mutex_t order;
    unsigned begun;
    unsigned entrusting; /* hands that have begun a request and may be about to entrust it */
    unsigned hands_left;
} decider;

struct hand {
    struct ration_waiting *waiting;
    struct client clients[OF_HAND];
    unsigned places[OF_HAND]; /* in the order of arrival, from 1 */
};

/* Requests of other connections, and what they give back: all is posted while waiters are handed
 * over. */
static void *run_hand(void *arg)
{
    struct hand *h = arg;

    for (unsigned i = 0; i < OF_HAND; i++) {
        pthread_mutex_lock(&decider.order);
        begin(&h->clients[i], h->waiting, &desks[0], 100000 * SECOND);
        h->places[i] = ++decider.begun;
        __atomic_fetch_add(&decider.entrusting, 1, __ATOMIC_SEQ_CST);
        pthread_mutex_unlock(&decider.order);
        rn_lines_poke(limiter->lines, desks[0].key, now());
        if (!h->clients[i].is_decided)
            rn_lines_entrust(&h->clients[i].waiter, decider.worker.waiting);
        __atomic_fetch_sub(&decider.entrusting, 1, __ATOMIC_SEQ_CST);
    }
    __atomic_fetch_sub(&decider.hands_left, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Time goes on while it has something to do, and stands still while a hand may be about to entrust:
 * others may go ahead of a thread that sleeps for longer than 100 ms. */
static void *run_decider(void *arg)
{
    struct ration_waiting_totals totals;

    (void)arg;
    do {
        ration_waiting_run(decider.worker.waiting, now());
        (void)ration_waiting_next(decider.worker.waiting, now());
        if (pthread_mutex_trylock(&decider.order) == 0) {
            if (__atomic_load_n(&decider.entrusting, __ATOMIC_SEQ_CST) == 0)
                __atomic_fetch_add(&clock_ns, 20 * MS, __ATOMIC_SEQ_CST);
            pthread_mutex_unlock(&decider.order);
        }
        ration_waiting_totals(limiter, &totals);
    } while (__atomic_load_n(&decider.hands_left, __ATOMIC_SEQ_CST) != 0 || totals.waiting != 0);
    return NULL;
}

static void those_entrusted_to_one_thread_go_in_order(void **state)
{
    static struct hand hands[HANDS];
    static unsigned number_of[HANDS * OF_HAND + 1];
    pthread_t threads[HANDS + 1];

    (void)state;
    limiter = open_limits(NULL, 0);
    clock_ns = T0;
    admitted = 0;
    desk_init(&desks[0], "100 per second burst 3", 1);
    desks[0].batches = true;
    decider = (struct decider){.hands_left = HANDS};
    pthread_mutex_init(&decider.order, NULL);
    sem_init(&decider.worker.woken, 0, 0);
    assert_int_equal(ration_waiting_new(limiter, wake, &decider, &decider.worker.waiting), 0);
    for (unsigned i = 0; i < HANDS; i++) {
        assert_int_equal(ration_waiting_new(limiter, NULL, NULL, &hands[i].waiting), 0);
        assert_int_equal(pthread_create(&threads[i], NULL, run_hand, &hands[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[HANDS], NULL, run_decider, NULL), 0);
    for (unsigned i = 0; i <= HANDS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < HANDS * OF_HAND; i++)
        number_of[hands[i % HANDS].places[i / HANDS]] = hands[i % HANDS].clients[i / HANDS].number;
    for (unsigned place = 1; place <= HANDS * OF_HAND; place++)
        assert_int_equal(number_of[place], place);
    for (unsigned i = 0; i < HANDS; i++)
        ration_waiting_free(hands[i].waiting);
    ration_waiting_free(decider.worker.waiting);
    ration_close(limiter);
}

/* --- everything at once ------------------------------------------------------------------------
 */

#define OPERATIONS 50000 /* of each thread */
#define AT_ONCE 64

struct hammer {
    unsigned number;
    uint64_t random;
    unsigned wakes;
};

static void count_wake(void *arg)
{
    __atomic_fetch_add(&((struct hammer *)arg)->wakes, 1, __ATOMIC_RELAXED);
}

static void do_something(struct hammer *h, struct ration_waiting *waiting, struct client *clients)
{
    struct client *c = &clients[next_random(&h->random) % AT_ONCE];
    struct desk *d = &desks[next_random(&h->random) % COUNT(desks)];

    switch (next_random(&h->random) % 16) {
    case 0:
        ration_waiter_leave(&c->waiter);
        c->is_decided = true;
        break;
    case 1:
        rn_lines_poke(limiter->lines, d->key, now());
        break;
    case 2:
        if (next_random(&h->random) % 64 == 0)
            rn_lines_poke_all(limiter->lines, now());
        break;
    case 3:
    case 4:
    case 5:
        ration_waiting_run(waiting, now());
        (void)ration_waiting_next(waiting, now());
        break;
    default:
        if (!c->is_decided)
            break;
        c->moves = &h->random;
        c->rank = (uint32_t)(next_random(&h->random) % 3);
        begin(c, waiting, d, (int64_t)(next_random(&h->random) % 2000) * MS);
        break;
    }
    __atomic_fetch_add(&clock_ns, MS / 8, __ATOMIC_SEQ_CST);
}

static void *run_hammer(void *arg)
{
    struct hammer *h = arg;
    struct ration_waiting *waiting = NULL;
    struct client *clients = calloc(AT_ONCE, sizeof *clients);

    assert_non_null(clients);
    assert_int_equal(ration_waiting_new(limiter, count_wake, h, &waiting), 0);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        clients[i].waiter.waiting = waiting;
        clients[i].is_decided = true;
    }
    for (unsigned i = 0; i < OPERATIONS; i++)
        do_something(h, waiting, clients);
    /* Half of them leave; the others end by a time. */
    for (unsigned i = 0; i < AT_ONCE / 2; i++)
        ration_waiter_leave(&clients[i].waiter);
    ration_waiting_end_by(waiting, now());
    ration_waiting_run(waiting, now());
    for (unsigned i = AT_ONCE / 2; i < AT_ONCE; i++)
        assert_true(clients[i].is_decided);
    ration_waiting_free(waiting);
    free(clients);
    return NULL;
}

static void everything_at_once_leaves_nothing_behind(void **state)
{
    struct hammer hammers[THREADS] = {{0}};
    struct ration_waiting_totals totals;
    pthread_t threads[THREADS];
    uint64_t times = 0;

    (void)state;
    limiter = open_limits(NULL, 0);
    clock_ns = T0;
    for (unsigned i = 0; i < COUNT(desks); i++) {
        desk_init(&desks[i], i % 2 ? "50 per second burst 5" : "20 per second burst 2", i + 1);
        desks[i].batches = i % 3 == 0;
    }
    for (unsigned i = 0; i < THREADS; i++) {
        hammers[i] = (struct hammer){i, i + 1, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, run_hammer, &hammers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ration_waiting_totals(limiter, &totals);
    assert_int_equal(totals.waiting, 0);
    assert_int_equal(totals.lines, 0);
    assert_int_equal(totals.joined, totals.admitted + totals.left + totals.timed_out);
    for (unsigned i = 0; i < RATION_WAIT_BUCKETS; i++)
        times += totals.times[i];
    assert_int_equal(times, totals.admitted + totals.timed_out);
    /* Each has happened; how often depends on how the threads take turns. */
    assert_true(totals.admitted > 0 && totals.left > 0 && totals.timed_out > 0);
    ration_close(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_go_in_order_and_wake_each_other),
        cmocka_unit_test(threads_go_in_order_in_batches),
        cmocka_unit_test(those_entrusted_to_one_thread_go_in_order),
        cmocka_unit_test(everything_at_once_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
