/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node without a front: takes from one limit of a Redis, as strictly as a daemon.
 *
 *   redis_node URL LIMIT[+LIMIT] ALGORITHM KEY COUNT DEPTH PACE_MS [DEADLINE_MS [leased|cold
 * [LOG]]]
 *
 * Makes COUNT takes, DEPTH at a time, each of them PACE_MS after the last of its
 * place was answered (0: at once), and prints what came of it as JSON. KEY 0: another
 * key each time; *N: N keys in turn, of any tags; +N: the same, of the last tag. Of two limits both
 * are charged or none; the second has the key after KEY. Prints "up" first, when the store is.
 * FINGERPRINT in the environment is that of the secret, as if there were one; LEASES the file of
 * what is held. ALGORITHM
 * may be followed by /N: sub-windows. SIGTERM ends it early, and cleanly.
 *
 * `leased`: a single limit is; `cold`: as one is whose keys are too rarely asked for to
 * be held. Each take is written to LOG at once: between which two times of the boot clock
 * it was made, in nanoseconds, in binary; the second is negative if it was not admitted.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ration/limit.h>

#include "base/fiber.h"
#include "limiter/limiter.h"
#include "net/log.h"
#include "net/server.h"
#include "redis/leased/leased.h"

#define DEPTH_MAX 512
#define MS INT64_C(1000000)
#define REPLIES_NS (1000 * MS) /* at the end, at least */

struct place {
    struct rn_timer timer; /* first */
    struct rn_charge charge;
    struct rn_fiber *fiber; /* of both limits: a check waits on it */
    int64_t begun_ns;
};

static struct {
    struct rn_server *server;
    struct rn_url url;
    struct rn_limit limit;
    struct ration *both; /* NULL: one limit */
    uint64_t key, keys;  /* keys: in turn, if `key` is 0 */
    uint64_t spread;     /* between two of them */
    int64_t deadline_ns;
    const char *fingerprint; /* NULL: none */
    long count, begun, ended, depth, pace_ms;
    struct rn_redis *redis;
    bool is_leased, is_cold;
    struct rn_leased *leased; /* NULL: decided by the store alone */
    int log;                  /* -1: none */
    struct rn_loop *loop;
    struct rn_timer start;
    struct place places[DEPTH_MAX];
    struct place *last; /* whose take was the last to end */
    long allowed, refused, failed;
    int64_t worst_ns;
} run;

static int64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void set(struct rn_timer *timer, int64_t in_ns)
{
    struct rn_wheel *wheel = rn_loop_wheel(run.loop);

    rn_timer_set(wheel, timer, rn_wheel_now(wheel) + in_ns);
}

static void note_take(const struct place *p, int64_t now_ns, bool admitted)
{
    const int64_t times[] = {p->begun_ns, admitted ? now_ns : -now_ns};

    if (run.log >= 0 && write(run.log, times, sizeof times) != sizeof times)
        abort();
}

/* By a timer, so that no answer leads to the next take on the same stack. */
static void ended(struct place *p, int error, bool allowed)
{
    int64_t now_ns = clock_ns(), took = now_ns - p->begun_ns;

    note_take(p, now_ns, error == 0 && allowed);
    run.worst_ns = took > run.worst_ns ? took : run.worst_ns;
    *(error != 0 ? &run.failed : allowed ? &run.allowed : &run.refused) += 1;
    if (++run.ended == run.count)
        run.last = p;
    set(&p->timer, run.last == p ? 0 : run.pace_ms * MS);
}

static void on_done(void *arg, struct rn_charge *batch, size_t n)
{
    (void)n;
    ended(arg, batch->error, batch->answer.allowed);
}

static void check_both(void *arg)
{
    struct ration_charge charges[2];
    struct ration_decision decision = {0};

    for (uint32_t i = 0; i < 2; i++)
        charges[i] = (struct ration_charge){.limit = i, .hash = run.key + i, .cost = 1};
    int error = ration_check(run.both, charges, 2, RATION_NOW, &decision);

    ended(arg, error, decision.allowed);
}

static void nothing_more(void *arg)
{
    (void)arg;
}

static uint64_t next_key(void)
{
    uint64_t number = (uint64_t)run.begun;

    if (run.key)
        return run.key;
    return ~((run.keys ? number % run.keys : number) * run.spread);
}

static void begin(struct rn_timer *timer)
{
    struct place *p = (struct place *)timer;

    if (run.last == p)
        rn_server_stop(run.server);
    if (run.begun == run.count)
        return;
    p->begun_ns = clock_ns();
    if (run.both) {
        run.begun++;
        rn_fiber_run(p->fiber, check_both, nothing_more, p);
        return;
    }
    p->charge = (struct rn_charge){.limit = &run.limit,
                                   .flags = run.leased || run.is_cold ? RN_CHARGE_LEASED : 0,
                                   .key = next_key(),
                                   .ask = {.op = RN_TAKE, .now_ns = clock_ns(), .cost = 1}};
    run.begun++;
    struct rn_backend *backend =
        run.leased ? rn_leased_backend(run.leased) : rn_redis_backend(run.redis);
    if (rn_backend_begin(backend, &p->charge, 1, on_done, p) == RN_DONE)
        on_done(p, &p->charge, 1);
}

static void start_when_up(struct rn_timer *timer)
{
    if (!rn_redis_is_up(run.redis) || (run.leased && !rn_leased_is_whole(run.leased))) {
        set(timer, MS);
        return;
    }
    puts("up");
    fflush(stdout);
    for (long i = 0; i < run.depth; i++) {
        if (run.both && !(run.places[i].fiber = rn_fiber_new((size_t)256 << 10)))
            abort();
        run.places[i].timer.fire = begin;
        set(&run.places[i].timer, 0);
    }
}

static void worker_begins(void *arg, struct rn_loop *loop)
{
    struct ration_error error;

    (void)arg;
    run.loop = loop;
    if (rn_redis_new(loop, &run.url, run.deadline_ns, &run.redis, &error) != 0 ||
        (run.is_leased && rn_leased_new(loop, run.redis,
                                        &(struct rn_leased_options){.deadline_ns = run.deadline_ns,
                                                                    .path = getenv("LEASES")},
                                        &run.leased, &error) != 0)) {
        fprintf(stderr, "redis_node: %s\n", error.text);
        exit(2);
    }
    if (run.fingerprint)
        rn_redis_agree(run.redis, run.fingerprint);
    if (run.both)
        run.both->store = &rn_redis_backend(run.redis)->store;
    run.start.fire = start_when_up;
    set(&run.start, 0);
}

struct row {
    const char *name;
    const _Atomic uint64_t *count;
};

static void print_rows(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("\"%s\":%" PRIu64 ",", rows[i].name, *rows[i].count);
}

static void print_leases(void)
{
    const struct rn_leased_counts *c = rn_leased_counts(run.leased);
    const struct row rows[] = {
        {"here", &c->here},         {"passed_on", &c->passed_on}, {"waited", &c->waited},
        {"lease_calls", &c->calls}, {"lost", &c->lost},           {"granted", &c->granted},
        {"returned", &c->returned}, {"burnt", &c->burnt},         {"promoted", &c->promoted},
        {"held", &c->held},         {"recovered", &c->recovered},
    };

    print_rows(rows, sizeof rows / sizeof *rows);
}

static void print_shards(void)
{
    struct rn_routes_shard shards[8];
    size_t n = rn_redis_shards(run.redis, shards, 8);

    printf("\"shards\":{");
    for (size_t i = 0; i < n && i < 8; i++)
        printf("%s\"%s\":{\"up\":%s,\"slots\":%u,\"trips\":%" PRIu64 ",\"turned_away\":%" PRIu64
               ",\"late\":%" PRIu64 "}",
               i > 0 ? "," : "", shards[i].address, shards[i].up ? "true" : "false",
               shards[i].slots, shards[i].trips, shards[i].turned_away, shards[i].late);
    printf("}}\n");
}

static bool is_busy(const void *leased)
{
    return rn_leased_is_busy(leased);
}

static void worker_ends(void *arg, struct rn_loop *loop)
{
    const struct rn_redis_counts *c = rn_redis_counts(run.redis);
    const struct row rows[] = {
        {"calls", &c->calls},         {"resent", &c->resent},
        {"late", &c->late},           {"remembered", &c->remembered},
        {"opened", &c->opened},       {"turned_away", &c->turned_away},
        {"connects", &c->connects},   {"mismatches", &c->mismatches},
        {"moved", &c->moved},         {"asked", &c->asked},
        {"refreshes", &c->refreshes}, {"clock_steps", &c->clock_steps},
    };

    (void)arg;
    printf("{\"allowed\":%ld,\"refused\":%ld,\"failed\":%ld,\"unanswered\":%ld,\"worst_ms\":%.3f,",
           run.allowed, run.refused, run.failed, run.begun - run.ended, (double)run.worst_ns / 1e6);
    if (run.leased)
        print_leases();
    print_rows(rows, sizeof rows / sizeof *rows);
    print_shards();
    fflush(stdout);
    run.begun = run.count; /* no more takes */
    if (run.leased) {
        rn_leased_stop(run.leased);
        rn_loop_run_while(loop, is_busy, run.leased,
                          run.deadline_ns > REPLIES_NS ? run.deadline_ns : REPLIES_NS);
    }
    rn_leased_free(run.leased);
    rn_redis_free(run.redis);
    for (long i = 0; i < run.depth; i++)
        rn_fiber_free(run.places[i].fiber);
}

static int parse_limit(const char *text, size_t len, const char *algorithm,
                       struct ration_limit *limit, struct ration_error *error)
{
    int failed = ration_limit_parse(text, len, limit, error);
    size_t name_len = strcspn(algorithm, "/");

    if (failed != 0)
        return failed;
    if (algorithm[name_len] == '/')
        limit->sub_windows = (uint32_t)atol(algorithm + name_len + 1);
    return ration_algorithm_parse(algorithm, name_len, &limit->algorithm);
}

static int parse_limits(const char *text, const char *algorithm, struct ration_error *error)
{
    struct ration_named limits[2] = {{.name = "first"}, {.name = "second"}};
    struct ration_options options = {
        .memory_bytes = UINT64_C(4) << 20, .limits = limits, .limit_count = 2};
    const char *plus = strchr(text, '+');
    size_t len = plus ? (size_t)(plus - text) : strlen(text);
    int failed = parse_limit(text, len, algorithm, &limits[0].limit, error);

    if (failed != 0)
        return failed;
    rn_limit_init(&run.limit, &limits[0].limit);
    if (!plus)
        return 0;
    failed = parse_limit(plus + 1, strlen(plus + 1), algorithm, &limits[1].limit, error);
    return failed != 0 ? failed : ration_open(&options, &run.both, error);
}

int main(int argc, char **argv)
{
    struct rn_server_calls calls = {.worker_begins = worker_begins, .worker_ends = worker_ends};
    struct rn_server_options options = {.workers = 1};
    struct ration_error error = {0};

    if (argc < 8 || argc > 11) {
        fprintf(stderr, "usage: redis_node URL LIMIT[+LIMIT] ALGORITHM KEY COUNT DEPTH PACE_MS "
                        "[DEADLINE_MS [leased|cold [LOG]]]\n");
        return 2;
    }
    run.is_cold = argc > 9 && strcmp(argv[9], "cold") == 0;
    run.is_leased = argc > 9 && !run.is_cold;
    run.log = argc > 10 ? open(argv[10], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (rn_url_parse(argv[1], &run.url, &error) != 0 ||
        parse_limits(argv[2], argv[3], &error) != 0 ||
        rn_server_new(&options, &run.server, &error) != 0) {
        fprintf(stderr, "redis_node: %s\n", error.text);
        return 2;
    }
    run.spread = argv[4][0] == '+' ? 1 : UINT64_C(0x9E3779B97F4A7C15);
    if (argv[4][0] == '*' || argv[4][0] == '+')
        run.keys = strtoull(argv[4] + 1, NULL, 0);
    else
        run.key = strtoull(argv[4], NULL, 0);
    run.deadline_ns = argc > 8 ? atol(argv[8]) * MS : 0;
    run.fingerprint = getenv("FINGERPRINT");
    run.count = atol(argv[5]);
    run.depth = atol(argv[6]) < DEPTH_MAX ? atol(argv[6]) : DEPTH_MAX;
    run.pace_ms = atol(argv[7]);
    int failed = rn_server_run(run.server, &calls, &error);
    rn_server_free(run.server);
    ration_close(run.both);
    return failed != 0;
}
