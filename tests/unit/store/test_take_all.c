/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that charge several limits at once, and lose races to each other: each limit admits no
 * more than it may, and what a limit has spent is what admitted requests have charged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "file_fixture.h"
#include "single_step.h"
#include "unit/sanitized.h"

#define YEAR (365 * DAY)
#define COUNTED PLACES /* the kinds before it; a place needs an id */
#define MOST 5         /* limits of a request */

static struct rn_table *table;
static struct rn_limit limits[COUNTED];
static int64_t begin;

/* A limit of each kind that does not move while the test runs. */
static void set_limits(uint64_t least, uint64_t more)
{
    for (unsigned kind = 0; kind < COUNTED; kind++) {
        struct ration_limit spec = every_form[kind].spec[0];

        spec.amount = least + more * kind;
        spec.queue = kind == QUEUE ? spec.amount - 1 : 0;
        if (kind == STEPS)
            spec.step_ns = spec.period_ns = YEAR;
        else if (kind == FINE)
            spec.period_ns = 700000003; /* no whole number of nanoseconds per unit */
        else if (kind != SHORT_WINDOW)
            spec.period_ns = kind == OWN ? 30 * DAY : YEAR;
        limits[kind] = compiled(&spec);
    }
}

/* Key n has a limit of kind n % COUNTED. */
static struct rn_charge ask_for(uint64_t key, enum rn_op op, uint64_t cost)
{
    return (struct rn_charge){.limit = &limits[key % COUNTED],
                              .key = key_of(key),
                              .ask = {.op = op, .now_ns = begin, .cost = cost}};
}

static uint64_t left_of(uint64_t key)
{
    struct rn_charge c = ask_for(key, RN_PEEK, 0);

    rn_store_apply(rn_table_store(table), &c, 1);
    assert_int_equal(c.error, 0);
    return c.answer.remaining;
}

/* Takes all but `left` units. */
static void spend_to(uint64_t key, uint64_t left)
{
    struct rn_charge c = ask_for(key, RN_TAKE, left_of(key) - left);

    rn_store_apply(rn_table_store(table), &c, 1);
    assert_true(c.error == 0 && c.answer.allowed);
}

/* ---- a request that is in its own way */

/* Both charges of `key` fit by themselves, but not together; `narrow` is charged before. */
static void lose_to_itself(uint64_t narrow, uint64_t key)
{
    struct rn_charge c[] = {ask_for(key, RN_TAKE, 2), ask_for(narrow, RN_TAKE, 1),
                            ask_for(key, RN_TAKE, 2)};

    spend_to(narrow, 1);
    spend_to(key, 3);
    assert_int_equal(rn_table_take_all(table, c, 3), RN_ALL_UNDONE);
    assert_int_equal(left_of(narrow), 1);
    assert_int_equal(left_of(key), 3);
}

static void a_request_that_names_a_key_twice_is_given_back_whole(void **state)
{
    (void)state;
    table = open_ok(8 * MIB, 50);
    begin = rn_table_now(table);
    set_limits(20, 1);
    for (unsigned i = 0; i < COUNTED; i++)
        for (unsigned k = 0; k < COUNTED; k++)
            lose_to_itself((i * COUNTED + k) * COUNTED + i,
                           (COUNTED * COUNTED + i * COUNTED + k) * COUNTED + k);
    rn_table_close(table);
}

/* ---- threads and processes */

#define WORKERS 4
#define SETS SCALED(3000, 300) /* of one key of each kind */
#define PER_SET 100            /* requests; half would be enough */

/* What all workers share; between processes, too. */
static struct tally {
    _Atomic uint64_t next, results[RN_ALL_UNDONE + 1];
    _Atomic uint64_t admitted[]; /* by key */
} * tally;

#define TALLY_BYTES (sizeof *tally + SETS * COUNTED * sizeof tally->admitted[0])

static uint64_t draw(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *random >> 33;
}

/* Two to five keys of a set, in any order. Consecutive tickets name the same set, so that all who
 * run meet there. */
static void request(uint64_t ticket)
{
    uint64_t random = ticket, keys[COUNTED], n = 2 + draw(&random) % (MOST - 1);
    struct rn_charge c[MOST];

    for (unsigned i = 0; i < COUNTED; i++)
        keys[i] = ticket / PER_SET * COUNTED + i;
    for (unsigned i = 0; i < n; i++) {
        uint64_t other = i + draw(&random) % (COUNTED - i), key = keys[other];

        keys[other] = keys[i];
        keys[i] = key;
        c[i] = ask_for(key, RN_TAKE, 1 + draw(&random) % 3);
    }
    enum rn_table_all all = rn_table_take_all(table, c, n);

    tally->results[all]++;
    for (unsigned i = 0; i < n && all == RN_ALL_TAKEN; i++)
        tally->admitted[keys[i]] += c[i].ask.cost;
}

static void *run(void *arg)
{
    uint64_t ticket;

    while ((ticket = atomic_fetch_add(&tally->next, 1)) < SETS * PER_SET)
        request(ticket);
    return arg;
}

static void prepare(void)
{
    tally = mmap(NULL, TALLY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tally != MAP_FAILED);
    table = open_ok(64 * MIB, 60);
    begin = rn_table_now(table);
    set_limits(20, 1);
}

static void expect_balance(void)
{
    for (uint64_t key = 0; key < SETS * COUNTED; key++) {
        uint64_t admitted = tally->admitted[key], amount = limits[key % COUNTED].cap;

        assert_true(admitted <= amount);
        /* a queue takes only its last place back, which another may be by then */
        if (key % COUNTED == QUEUE)
            assert_true(admitted + left_of(key) <= amount);
        else
            assert_int_equal(admitted + left_of(key), amount);
    }
    assert_int_equal(table->header->evictions, 0);
    assert_int_equal(tally->results[RN_ALL_TAKEN] + tally->results[RN_ALL_REFUSED] +
                         tally->results[RN_ALL_UNDONE],
                     SETS * PER_SET);
    assert_true(tally->results[RN_ALL_TAKEN] > 0 && tally->results[RN_ALL_REFUSED] > 0);
    rn_table_close(table);
    munmap(tally, TALLY_BYTES);
}

static void threads_charge_all_limits_of_a_request_or_none(void **state)
{
    pthread_t threads[WORKERS];

    (void)state;
    prepare();
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, NULL), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    expect_balance();
}

static void processes_charge_all_limits_of_a_request_or_none(void **state)
{
    pid_t children[WORKERS];
    int status;

    (void)state;
    prepare();
    for (unsigned i = 0; i < WORKERS; i++) {
        struct ration_error error;

        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0)
            continue;
        if (try_open(0, 0, &table, &error) != 0)
            _exit(1);
        run(NULL);
        rn_table_close(table);
        _exit(0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    expect_balance();
}

/* ---- a race that is lost at one moment */

/* The keys of the request that is stopped, the narrowest first, and what each has left. */
static uint64_t stopped_keys[3];
static const uint64_t stopped_left[] = {2, 3, 10};

static struct shared {
    _Atomic bool done;
    enum rn_table_all all;
} * shared;

static void take_three(unsigned arg)
{
    struct rn_charge c[] = {ask_for(stopped_keys[2], RN_TAKE, 1),
                            ask_for(stopped_keys[0], RN_TAKE, 1),
                            ask_for(stopped_keys[1], RN_TAKE, 1)};

    (void)arg;
    shared->all = rn_table_take_all(table, c, 3);
}

/* How many of the three have been charged, the narrowest first. */
static unsigned count_charged(void)
{
    unsigned charged = 0;

    for (unsigned i = 0; i < 3; i++) {
        uint64_t left = left_of(stopped_keys[i]);

        if (left == stopped_left[i])
            continue;
        assert_int_equal(left, stopped_left[i] - 1);
        assert_int_equal(charged, i);
        charged++;
    }
    return charged;
}

/* Stops a request when it has charged so many of its limits. Then another one takes what the next
 * limit has left, if there is one. */
static void race_after(unsigned charged, const unsigned kinds[3])
{
    static uint64_t set;
    pid_t child;

    set++;
    for (unsigned i = 0; i < 3; i++) {
        stopped_keys[i] = (3 * set + i) * COUNTED + kinds[i];
        spend_to(stopped_keys[i], stopped_left[i]);
    }
    child = start_stopped(take_three, 0);
    while (count_charged() < charged && !shared->done)
        step(child);
    assert_int_equal(count_charged(), charged);
    if (charged < 3)
        spend_to(stopped_keys[charged], 0);
    end(child, true);
    assert_int_equal(shared->all, charged == 3   ? RN_ALL_TAKEN
                                  : charged == 0 ? RN_ALL_REFUSED
                                                 : RN_ALL_UNDONE);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(left_of(stopped_keys[i]), charged == 3   ? stopped_left[i] - 1
                                                   : charged == i ? 0
                                                                  : stopped_left[i]);
}

static void a_race_lost_after_any_charge_costs_nothing(void **state)
{
    static const unsigned kinds[][3] = {{TOKENS, TOKENS, TOKENS},
                                        {TOKENS, QUEUE, STEPS},
                                        {FINE, WINDOW, FIRST_WINDOW},
                                        {SHORT_WINDOW, COUNTER, SUBS},
                                        {SMALL_LOG, LOG, OWN}};

    NEEDS_SINGLE_STEP;
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    act_done = &shared->done;
    table = open_ok(4 * MIB, 60);
    begin = rn_table_now(table);
    set_limits(20, 1);
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (unsigned charged = 0; charged <= 3; charged++)
            race_after(charged, kinds[i]);
    assert_int_equal(table->header->evictions, 0);
    rn_table_close(table);
    munmap(shared, sizeof *shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_request_that_names_a_key_twice_is_given_back_whole),
        FILE_TEST(threads_charge_all_limits_of_a_request_or_none),
        FILE_TEST(processes_charge_all_limits_of_a_request_or_none),
        FILE_TEST(a_race_lost_after_any_charge_costs_nothing),
    };
    /* Sanitizers add instructions that are not the table's. */
    size_t skipped = SANITIZED;

    return _cmocka_run_group_tests("tests", tests, sizeof tests / sizeof *tests - skipped, NULL,
                                   NULL);
}
