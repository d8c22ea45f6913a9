/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node without a front that decides on its own and reports to Redis afterwards.
 *
 *   async_node URL LIMIT ALGORITHM KEYS PER_MS NODES TALLY INDEX [DEADLINE_MS]
 *
 * Makes PER_MS takes each millisecond, of KEYS keys in turn, until SIGTERM; then prints
 * what the store counted, as JSON. What came of the takes stands in the file TALLY, in
 * row INDEX, so that it is known even if the node is killed.
 *
 * PER_MS 0: reads commands, a line at a time: "take 3", "peek 3", "force 3",
 * "back 3" (of the last take), "reset 0", and "strict 3", a take that is decided in
 * Redis; and prints error, allowed, remaining, and how many charges were passed on so far.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/limit.h>

#include "base/clock.h"
#include "net/server.h"
#include "redis/async/async.h"
#include "shared_tally.h"

#define PLACES 4096
#define ROWS 16
#define MS INT64_C(1000000)
#define REPLIES_NS (1000 * MS) /* at the end */

/* What the file of the tally is used for here; test_async.py reads it by position. */
struct row {
    _Atomic uint64_t up, admitted, refused, failed;
    _Atomic int64_t first_ns, last_ns; /* an admission, on the monotonic clock */
    _Atomic uint64_t worst_ns;         /* that a take waited for its answer */
    _Atomic uint64_t starved;          /* takes that were not made: too many wait */
};

struct place {
    struct place *next;
    int64_t begun_ns;
    struct rn_charge charge;
};

static struct {
    struct rn_server *server;
    struct rn_url url;
    struct rn_limit limit;
    uint64_t keys, made;
    long per_ms;
    unsigned nodes;
    int64_t deadline_ns; /* 0: the usual one */
    struct row *row;
    struct rn_redis *redis;
    struct rn_async *async;
    struct rn_loop *loop;
    struct rn_timer beat;
    struct place *spare, places[PLACES];
    struct rn_charge told; /* the charge that a line asked for */
    struct rn_ask last_take;
    bool busy;
} run;

static void on_done(void *arg, struct rn_charge *charge, size_t n)
{
    struct place *p = arg;
    struct row *row = run.row;
    int64_t now = rn_clock_read_ns(CLOCK_MONOTONIC);
    uint64_t took = (uint64_t)(now - p->begun_ns);

    (void)n;
    if (charge->error == 0 && charge->answer.allowed) {
        atomic_fetch_add(&row->admitted, 1);
        if (row->first_ns == 0)
            row->first_ns = now;
        row->last_ns = now;
    } else {
        atomic_fetch_add(charge->error == 0 ? &row->refused : &row->failed, 1);
    }
    row->worst_ns = took > row->worst_ns ? took : row->worst_ns;
    p->next = run.spare;
    run.spare = p;
}

static void take(void)
{
    struct place *p = run.spare;

    if (!p) {
        atomic_fetch_add(&run.row->starved, 1);
        return;
    }
    run.spare = p->next;
    p->begun_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    p->charge = (struct rn_charge){.limit = &run.limit,
                                   .key = key_of(run.made++ % run.keys),
                                   .flags = RN_CHARGE_ASYNC,
                                   .ask = {.op = RN_TAKE, .now_ns = p->begun_ns, .cost = 1}};
    if (rn_backend_begin(rn_async_backend(run.async), &p->charge, 1, on_done, p) == RN_DONE)
        on_done(p, &p->charge, 1);
}

/* --- told what to do -------------------------------------------------------------------- */

static void print_told(void *arg, struct rn_charge *charge, size_t n)
{
    (void)arg, (void)n;
    run.busy = false;
    if (charge->ask.op == RN_TAKE) {
        run.last_take = charge->ask;
        run.last_take.mark = charge->answer.mark;
    }
    printf("%d %d %" PRIu64 " %" PRIu64 "\n", charge->error, charge->answer.allowed,
           charge->answer.remaining, rn_async_counts(run.async)->passed);
    fflush(stdout);
}

static enum rn_op op_named(const char *word)
{
    static const struct {
        const char *word;
        enum rn_op op;
    } ops[] = {{"take", RN_TAKE},   {"strict", RN_TAKE},    {"peek", RN_PEEK},
               {"force", RN_FORCE}, {"back", RN_GIVE_BACK}, {"reset", RN_RESET}};

    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(word, ops[i].word) == 0)
            return ops[i].op;
    die("no such operation");
    return RN_PEEK;
}

static void do_as_told(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char line[64], word[16];
    uint64_t cost;

    if (run.busy || poll(&input, 1, 0) <= 0)
        return;
    ssize_t len = read(STDIN_FILENO, line, sizeof line - 1);
    if (len <= 0 || (line[len] = '\0', sscanf(line, "%15s %" SCNu64, word, &cost)) != 2)
        return;
    run.busy = true;
    run.told = (struct rn_charge){.limit = &run.limit,
                                  .key = key_of(0),
                                  .flags = strcmp(word, "strict") != 0 ? RN_CHARGE_ASYNC : 0,
                                  .ask = {.op = op_named(word),
                                          .now_ns = rn_clock_read_ns(CLOCK_MONOTONIC),
                                          .at_ns = run.last_take.now_ns,
                                          .mark = run.last_take.mark,
                                          .cost = cost}};
    if (rn_backend_begin(rn_async_backend(run.async), &run.told, 1, print_told, NULL) == RN_DONE)
        print_told(NULL, &run.told, 1);
}

/* --- life ------------------------------------------------------------------------------- */

static void beat(struct rn_timer *timer)
{
    struct rn_wheel *wheel = rn_loop_wheel(run.loop);

    rn_timer_set(wheel, timer, rn_wheel_now(wheel) + MS);
    if (!run.row->up && !rn_redis_is_up(run.redis))
        return;
    run.row->up = 1;
    if (run.per_ms == 0)
        do_as_told();
    for (long i = 0; i < run.per_ms; i++)
        take();
}

static void worker_begins(void *arg, struct rn_loop *loop)
{
    struct rn_async_options options = {.nodes = run.nodes,
                                       .by_tag = run.url.kind == RN_URL_CLUSTER};
    struct ration_error error;

    (void)arg;
    run.loop = loop;
    if (rn_redis_new(loop, &run.url, run.deadline_ns, &run.redis, &error) != 0 ||
        rn_async_new(loop, run.redis, rn_redis_backend(run.redis), &options, &run.async, &error) !=
            0)
        die(error.text);
    for (size_t i = 0; i < PLACES; i++) {
        run.places[i].next = run.spare;
        run.spare = &run.places[i];
    }
    run.beat.fire = beat;
    beat(&run.beat);
}

static bool is_busy(const void *async)
{
    return rn_async_is_busy(async);
}

static void worker_ends(void *arg, struct rn_loop *loop)
{
    const struct rn_async_counts *c = rn_async_counts(run.async);

    (void)arg;
    uint64_t strict_trips = rn_redis_counts(run.redis)->calls;

    rn_timer_cancel(rn_loop_wheel(loop), &run.beat);
    rn_async_stop(run.async);
    rn_loop_run_while(loop, is_busy, run.async, REPLIES_NS);
    rn_redis_free(run.redis);
    printf("{\"decided\":%" PRIu64 ",\"passed\":%" PRIu64 ",\"reports\":%" PRIu64
           ",\"units\":%" PRIu64 ",\"trips\":%" PRIu64 ",\"resent\":%" PRIu64
           ",\"unreported\":%" PRIu64 ",\"strict_trips\":%" PRIu64 "}\n",
           c->decided, c->passed, c->reports, c->units, c->trips, c->resent, c->unreported,
           strict_trips);
    rn_async_free(run.async);
}

static int parse_limit(const char *text, const char *algorithm, struct ration_error *error)
{
    struct ration_limit limit;
    int failed = ration_limit_parse(text, strlen(text), &limit, error);

    if (failed == 0)
        failed = ration_algorithm_parse(algorithm, strlen(algorithm), &limit.algorithm);
    if (failed == 0)
        rn_limit_init(&run.limit, &limit);
    return failed;
}

int main(int argc, char **argv)
{
    struct rn_server_calls calls = {.worker_begins = worker_begins, .worker_ends = worker_ends};
    struct rn_server_options options = {.workers = 1};
    struct ration_error error = {0};

    if (argc != 9 && argc != 10)
        die("usage: async_node URL LIMIT ALGORITHM KEYS PER_MS NODES TALLY INDEX [DEADLINE_MS]");
    if (rn_url_parse(argv[1], &run.url, &error) != 0 ||
        parse_limit(argv[2], argv[3], &error) != 0 ||
        rn_server_new(&options, &run.server, &error) != 0)
        die(error.text);
    run.keys = strtoull(argv[4], NULL, 0);
    run.per_ms = atol(argv[5]);
    run.nodes = (unsigned)atol(argv[6]);
    run.deadline_ns = argc == 10 ? atol(argv[9]) * MS : 0;
    run.row = (struct row *)(void *)map_tally(argv[7], ROWS * sizeof *run.row / 4) + atol(argv[8]);
    int failed = rn_server_run(run.server, &calls, &error);
    rn_server_free(run.server);
    return failed != 0;
}
