/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block memory shared by threads, and by processes that are killed: keys of
 * changing sizes come and go while blocks are moved out of sparse slabs. Every state
 * is what its key has spent, and within capacity none is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "file_fixture.h"
#include "unit/sanitized.h"

#define WORKERS 4
#define PERIOD (10 * SECOND)
#define KEYS SCALED(400000, 40000)
#define LASTING 300

/* Logs: the state tells exactly what was spent. */
static const uint64_t amounts[] = {5, 20, 500, 9, 64, 1500, 33, 200};
#define SIZES (sizeof amounts / sizeof *amounts)

/* What all workers share; between processes, too. */
static struct shared {
    _Atomic uint64_t next, wrong, errors;
    _Atomic uint64_t at[WORKERS]; /* the key each is at; UINT64_MAX: none */
    int64_t begin, step;
    uint64_t last, ahead;
} * work;

/* Time goes by with the keys, so no worker may get far ahead of one that the
 * system has put aside: for that one, all keys would be of the future. */
static void wait_for_others(unsigned me, uint64_t ticket)
{
    work->at[me] = ticket;
    for (unsigned i = 0; i < WORKERS; i++)
        while (work->at[i] < ticket && ticket - work->at[i] > work->ahead)
            sched_yield();
}

static struct rn_limit log_of(uint64_t amount, int64_t period)
{
    return compiled(&(struct ration_limit){
        .algorithm = RATION_SLIDING_LOG, .amount = amount, .period_ns = period});
}

static struct rn_charge charge(struct rn_table *table, const struct rn_limit *limit, uint64_t key,
                               int64_t now, uint64_t cost)
{
    struct rn_charge c = {
        .limit = limit, .key = key, .ask = {.op = RN_TAKE, .now_ns = now, .cost = cost}};

    rn_store_apply(rn_table_store(table), &c, 1);
    return c;
}

/* One key after the other: most of its limit, the rest, and one too many. Sizes
 * take turns, thousands of keys each. */
static void run(struct rn_table *table, unsigned me)
{
    struct rn_limit limits[SIZES];
    uint64_t ticket;

    for (unsigned i = 0; i < SIZES; i++)
        limits[i] = log_of(amounts[i], PERIOD);
    for (;;) {
        work->at[me] = work->next; /* others must not run ahead before the ticket is published */
        ticket = atomic_fetch_add(&work->next, 1);
        if (ticket >= work->last)
            break;
        unsigned size = (unsigned)(ticket * 24 / work->last + ticket % 2) % SIZES;
        const struct rn_limit *limit = &limits[size];

        wait_for_others(me, ticket);
        int64_t now = work->begin + (int64_t)ticket * work->step;
        uint64_t key = key_of(1000000 + ticket), most = amounts[size] - 1;
        struct rn_charge a = charge(table, limit, key, now, most),
                         b = charge(table, limit, key, now, 1),
                         c = charge(table, limit, key, now, 1);

        work->errors += (a.error != 0) + (b.error != 0) + (c.error != 0);
        work->wrong += !a.answer.allowed || a.answer.remaining != 1 || !b.answer.allowed ||
                       b.answer.remaining != 0 || c.answer.allowed;
    }
    work->at[me] = UINT64_MAX;
}

/* Keys that live all the time, of every size, and are full. */
static void begin(struct rn_table *table, uint64_t keys)
{
    uint64_t least = UINT64_MAX;

    work = mmap(NULL, sizeof *work, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(work != MAP_FAILED);
    work->begin = rn_table_now(table);
    work->last = keys;
    for (uint64_t i = 0; i < LASTING; i++) {
        struct rn_limit limit = log_of(amounts[i % SIZES], 100 * DAY);

        assert_true(
            charge(table, &limit, key_of(i), work->begin, amounts[i % SIZES]).answer.allowed);
    }
    for (unsigned i = 0; i < SIZES; i++) {
        struct rn_limit limit = log_of(amounts[i], PERIOD);
        uint64_t capacity = rn_table_capacity(table, &limit, 2 * SIZES);

        least = capacity < least ? capacity : least;
    }
    work->step = PERIOD / (int64_t)(least * 3 / 4) + 1;
    work->ahead = least / 16;
    for (unsigned i = 0; i < WORKERS; i++)
        work->at[i] = UINT64_MAX;
}

static void expect_lasting(struct rn_table *table)
{
    int64_t now = work->begin + (int64_t)work->last * work->step;

    for (uint64_t i = 0; i < LASTING; i++) {
        struct rn_limit limit = log_of(amounts[i % SIZES], 100 * DAY);

        assert_false(charge(table, &limit, key_of(i), now, 1).answer.allowed);
    }
    assert_int_equal(table->header->evictions, 0);
    assert_int_equal(work->errors, 0);
    assert_int_equal(work->wrong, 0);
}

/* Alone again: what is used is what slots refer to, and the rest can be had. */
static void expect_nothing_leaked(struct rn_table *table)
{
    unsigned class = rn_blocks_class_of(3);
    uint64_t got = 0;

    assert_int_equal(rn_blocks_bytes_used(table), bytes_of_slots(table));
    rn_table_clean(table, work->begin + 1000 * DAY);
    rn_blocks_contexts_drain(table);
    assert_int_equal(rn_blocks_bytes_used(table), 0);
    assert_int_equal(rn_blocks_collect(table), 0); /* threads that race leave the hints inexact */
    while (rn_block_alloc(table, class) != RN_NIL)
        got++;
    assert_int_equal(got, table->slab_count * rn_slab_blocks(table, class));
}

static struct rn_table *table_of_threads;

static void *run_thread(void *me)
{
    run(table_of_threads, (unsigned)(uintptr_t)me);
    return NULL;
}

static void threads_share_out_shifting_sizes_and_lose_nothing(void **state)
{
    struct rn_table *table = open_ok(4 * MIB, 90);
    pthread_t threads[WORKERS];

    (void)state;
    begin(table, KEYS);
    table_of_threads = table;
    for (uintptr_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, (void *)i), 0);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    expect_lasting(table);
    rn_blocks_contexts_drain(table);
    expect_nothing_leaked(table);
    rn_table_close(table);
    munmap(work, sizeof *work);
}

static pid_t start_process(unsigned me)
{
    pid_t child = fork();

    if (child == 0) {
        struct rn_table *table;
        struct ration_error error;

        if (try_open(0, 0, &table, &error) != 0)
            _exit(1);
        run(table, me);
        rn_table_close(table);
        _exit(0);
    }
    assert_true(child > 0);
    return child;
}

static void killed_processes_take_no_state_of_others_with_them(void **state)
{
    struct rn_table *table = open_ok(4 * MIB, 90);
    pid_t children[WORKERS];
    uint64_t kills = SCALED(200, 40);
    int status;

    (void)state;
    begin(table, KEYS);
    for (unsigned i = 0; i < WORKERS; i++)
        children[i] = start_process(i);
    for (uint64_t kill_at = 1; kill_at < kills; kill_at++) {
        unsigned i = (unsigned)kill_at % WORKERS;

        while (work->next < work->last * kill_at / kills)
            sched_yield();
        kill(children[i], SIGKILL);
        waitpid(children[i], &status, 0);
        work->at[i] = UINT64_MAX;
        children[i] = start_process(i);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        waitpid(children[i], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    expect_lasting(table);
    rn_table_close(table);
    table = open_ok(0, 0);
    expect_lasting(table);
    rn_blocks_contexts_drain(table);
    expect_nothing_leaked(table);
    rn_table_close(table);
    munmap(work, sizeof *work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(killed_processes_take_no_state_of_others_with_them),
        FILE_TEST(threads_share_out_shifting_sizes_and_lose_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
