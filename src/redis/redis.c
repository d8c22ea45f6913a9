/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/redis.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/fiber.h"
#include "redis/cluster/secret_check.h"
#include "redis/codec.h"
#include "redis/strict/refusal_cache.h"
#include "redis/timing.h"

struct rn_redis {
    struct rn_backend backend; /* first */
    struct rn_loop *loop;
    int64_t deadline_ns;
    struct rn_routes routes;
    struct rn_routes_events routes_events;
    struct rn_script_caller calls;
    struct rn_secret_check secret;
    struct rn_batch_queues queues;
    struct rn_batch_queue_events queues_events;
    struct rn_timer timer;
    struct rn_backend_jobs jobs;
    struct rn_redis_counts counts;
    struct rn_refusal_cache refusals;
};

static void set_timer(struct rn_redis *redis)
{
    const struct rn_backend_job *job = redis->jobs.first;

    if (job)
        rn_timing_by(redis->loop, &redis->timer, job->deadline_ns);
}

/* --- jobs --------------------------------------------------------------------------- */

/* A take that was refused while the late charge counted may be admitted now. */
static void on_returned(void *arg, struct rn_charge *charge)
{
    struct rn_redis *redis = arg;

    (void)rn_refusal_cache_find(&redis->refusals, charge, charge->ask.now_ns);
    rn_refusal_cache_returned(&redis->refusals, charge->key);
}

/* One that was asked for before the refusal of another came is refused as of that time. So what is
 * asked in order is answered in order, by however many calls. */
static bool is_known(void *arg, struct rn_charge *charge)
{
    return rn_refusal_cache_find(&((struct rn_redis *)arg)->refusals, charge, charge->ask.now_ns);
}

static void on_answered(void *arg, struct rn_backend_job *job, const struct rn_charge *charge)
{
    struct rn_redis *redis = arg;
    enum rn_op op = charge->ask.op;

    rn_redis_count(charge->error == 0 ? &redis->counts.answered : &redis->counts.failed, 1);
    if (op == RN_GIVE_BACK || op == RN_CREDIT || op == RN_RESET)
        rn_refusal_cache_returned(&redis->refusals, charge->key);
    rn_refusal_cache_note(&redis->refusals, charge, charge->ask.now_ns, job->asked);
    rn_backend_answered(job, 1);
}

/* Marks the servers that did not answer the job in time. */
static void blame_shards(struct rn_redis *redis, const struct rn_backend_job *job,
                         bool late[RN_SHARDS])
{
    for (size_t i = 0; i < job->n; i++) {
        const struct rn_charge *charge = &job->batch[i];
        struct rn_shard *shard =
            charge->error == RATION_ESTORE
                ? rn_routes_owner(&redis->routes, rn_batch_queue_slot(&redis->queues, charge))
                : NULL;

        if (!shard)
            continue;
        late[shard->index] = true;
        rn_redis_count(&shard->counts.late, 1);
    }
}

/* Charges without an answer keep RATION_ESTORE, which they got at the beginning. One stall of a
 * server counts as one failure, however many charges wait for it. */
static void expire_jobs(struct rn_redis *redis, int64_t now_ns)
{
    bool late[RN_SHARDS] = {false};
    struct rn_backend_job *job;

    if (redis->jobs.first && redis->jobs.first->deadline_ns <= now_ns)
        rn_batch_queue_expire(&redis->queues, now_ns);
    while ((job = redis->jobs.first) && job->deadline_ns <= now_ns) {
        blame_shards(redis, job, late);
        rn_redis_count(&redis->counts.late, job->left);
        rn_backend_answered(job, job->left);
    }
    for (unsigned i = 0; i < RN_SHARDS; i++)
        if (late[i] && redis->routes.shards[i])
            rn_shard_was_late(redis->routes.shards[i]);
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_redis *redis = (struct rn_redis *)((char *)timer - offsetof(struct rn_redis, timer));

    /* After a long round of the loop, the answers to jobs that are due may have arrived. */
    for (unsigned i = 0; i < RN_SHARDS; i++)
        if (redis->routes.shards[i] && redis->jobs.first &&
            redis->jobs.first->deadline_ns <= rn_timing_now(redis->loop))
            rn_link_hear(&redis->routes.shards[i]->link);
    expire_jobs(redis, rn_timing_now(redis->loop));
    set_timer(redis);
}

/* --- events of the routes --------------------------------------------------------------- */

static void note_up(void *arg)
{
    struct rn_redis *redis = arg;
    bool refused = redis->secret.state == RN_SECRET_CHECK_REFUSED;

    atomic_store_explicit(&redis->counts.up, rn_redis_is_up(redis), memory_order_relaxed);
    atomic_store_explicit(&redis->counts.refused, refused, memory_order_relaxed);
}

static void on_up(void *arg, struct rn_shard *shard)
{
    struct rn_redis *redis = arg;

    note_up(redis);
    rn_secret_check_again(&redis->secret);
    rn_script_call_retry(&redis->calls);
    rn_link_call_later(&shard->link);
}

static void on_down(void *arg, struct rn_shard *shard)
{
    struct rn_redis *redis = arg;

    note_up(redis);
    rn_batch_queue_fail(&redis->queues, shard);
}

/* All charges of this round of the loop go out in one write. */
static void on_later(void *arg, struct rn_shard *shard)
{
    struct rn_redis *redis = arg;

    rn_batch_queue_send(&redis->queues, shard);
}

static void on_moved(void *arg)
{
    struct rn_redis *redis = arg;

    note_up(redis);
    rn_secret_check_again(&redis->secret);
    rn_batch_queue_reroute(&redis->queues);
    rn_script_call_retry(&redis->calls);
}

/* --- the backend ------------------------------------------------------------------------- */

/* Answers charges that need no call to Redis, and those that Redis cannot count. */
static bool is_settled(struct rn_redis *redis, struct rn_charge *charge)
{
    uint64_t none = 0;

    if (charge->limit->form == RN_FORM_NONE) {
        rn_limit_apply(charge->limit, &none, 1, &charge->ask, &charge->answer);
        charge->error = 0;
        return true;
    }
    if (rn_refusal_cache_find(&redis->refusals, charge, charge->ask.now_ns)) {
        rn_redis_count(&redis->counts.remembered, 1);
        return true;
    }
    charge->error = rn_codec_fault(charge->limit) ? RATION_EINVAL : RATION_ESTORE;
    return charge->error == RATION_EINVAL;
}

static void add_to_queues(struct rn_redis *redis, struct rn_backend_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        struct rn_charge *charge = &job->batch[i];

        if (charge->error != RATION_ESTORE)
            continue;
        struct rn_shard *shard =
            rn_routes_owner(&redis->routes, rn_batch_queue_slot(&redis->queues, charge));
        bool hopeless = !shard || shard->breaker.open;

        if (!hopeless && rn_batch_queue_add(&redis->queues, job, i)) {
            job->left++;
            continue;
        }
        rn_redis_count(&redis->counts.turned_away, 1);
        if (shard)
            rn_redis_count(&shard->counts.turned_away, 1);
    }
}

int64_t rn_redis_deadline(const struct rn_redis *redis)
{
    int64_t ours = rn_timing_now(redis->loop) + redis->deadline_ns, theirs = rn_fiber_deadline();

    return theirs < ours ? theirs : ours;
}

static enum rn_progress begin(struct rn_backend *backend, struct rn_charge *batch, size_t n,
                              rn_backend_done *done, void *arg)
{
    struct rn_redis *redis = (struct rn_redis *)(void *)backend;
    size_t open = 0;

    for (size_t i = 0; i < n; i++)
        open += !is_settled(redis, &batch[i]);
    rn_redis_count(&redis->counts.charges, n);
    if (open == 0)
        return RN_DONE;
    bool allowed = done && rn_secret_check_allows(&redis->secret);
    struct rn_backend_job *job =
        allowed ? rn_backend_begin_job(&redis->jobs, batch, n, done, arg, rn_redis_deadline(redis))
                : NULL;
    if (!job) {
        rn_redis_count(&redis->counts.turned_away, open);
        return RN_DONE;
    }
    job->asked = rn_refusal_cache_asked(&redis->refusals);
    add_to_queues(redis, job);
    if (job->left == 0) {
        rn_backend_end_job(job);
        return RN_DONE;
    }
    set_timer(redis);
    return RN_PENDING;
}

static void disown(struct rn_backend *backend, const struct rn_charge *charge, uint64_t late)
{
    rn_batch_queue_disown(&((struct rn_redis *)(void *)backend)->queues, charge, late);
}

static const struct rn_backend_ops redis_ops = {.begin = begin, .disown = disown};

bool rn_redis_call(struct rn_redis *redis, const struct rn_script_request *ask)
{
    struct rn_script_request whole = *ask;

    if (whole.until_ns == 0)
        whole.until_ns = rn_timing_now(redis->loop) + redis->deadline_ns;
    return rn_secret_check_allows(&redis->secret) && rn_script_call_request(&redis->calls, &whole);
}

/* --- start and end ------------------------------------------------------------------------ */

int rn_redis_new(struct rn_loop *loop, const struct rn_url *url, int64_t deadline_ns,
                 struct rn_redis **out, struct ration_error *error)
{
    struct rn_redis *redis = calloc(1, sizeof *redis);

    if (!redis)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    rn_backend_init(&redis->backend, &redis_ops);
    redis->loop = loop;
    redis->deadline_ns = deadline_ns > 0 ? deadline_ns : RN_REDIS_DEADLINE_NS;
    redis->routes_events = (struct rn_routes_events){
        .arg = redis, .up = on_up, .down = on_down, .later = on_later, .moved = on_moved};
    redis->queues_events = (struct rn_batch_queue_events){
        .arg = redis, .is_known = is_known, .answered = on_answered, .returned = on_returned};
    redis->timer.fire = on_timer;
    rn_backend_init_jobs(&redis->jobs, redis);
    /* A server is not given up while a decision may wait for it. */
    int64_t silence_ns = 2 * redis->deadline_ns;
    int failed = rn_routes_init(&redis->routes, loop, url,
                                silence_ns > RN_LINK_SILENCE_NS ? silence_ns : RN_LINK_SILENCE_NS,
                                &redis->routes_events, &redis->counts, error);
    if (failed != 0) {
        free(redis);
        return failed;
    }
    rn_script_call_init(&redis->calls, &redis->routes, &redis->counts);
    if (!rn_batch_queue_init(&redis->queues, &redis->calls, &redis->counts,
                             &redis->queues_events)) {
        rn_redis_free(redis);
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    }
    *out = redis;
    return 0;
}

void rn_redis_agree(struct rn_redis *redis, const char *fingerprint)
{
    rn_secret_check_init(&redis->secret, &redis->routes, fingerprint, note_up, redis);
}

void rn_redis_share_returns(struct rn_redis *redis, struct rn_returns *returns)
{
    redis->refusals.returns = returns;
}

void rn_redis_free(struct rn_redis *redis)
{
    if (!redis)
        return;
    rn_script_call_done(&redis->calls);
    rn_secret_check_done(&redis->secret);
    rn_routes_done(&redis->routes);
    while (redis->jobs.first)
        rn_backend_answered(redis->jobs.first, redis->jobs.first->left);
    rn_timer_cancel(rn_loop_wheel(redis->loop), &redis->timer);
    rn_batch_queue_done(&redis->queues);
    free(redis);
}

struct rn_backend *rn_redis_backend(struct rn_redis *redis)
{
    return &redis->backend;
}

const struct rn_redis_counts *rn_redis_counts(const struct rn_redis *redis)
{
    return &redis->counts;
}

size_t rn_redis_shards(struct rn_redis *redis, struct rn_routes_shard *out, size_t max)
{
    return rn_routes_list(&redis->routes, out, max);
}

bool rn_redis_is_busy(const struct rn_redis *redis)
{
    return redis->jobs.first != NULL;
}

bool rn_redis_doubts(const struct rn_redis *redis)
{
    for (unsigned i = 0; i < RN_SHARDS; i++)
        if (redis->routes.shards[i] && rn_shard_doubt_ns(redis->routes.shards[i]) > 0)
            return true;
    return false;
}

unsigned rn_redis_server(const struct rn_redis *redis, struct rn_slice key)
{
    const struct rn_shard *shard = rn_routes_owner(&redis->routes, rn_hash_slot_of(key));

    return shard ? shard->index : RN_SHARDS;
}

unsigned rn_redis_tags(const struct rn_redis *redis)
{
    return redis->queues.tags;
}

bool rn_redis_is_up(const struct rn_redis *redis)
{
    return rn_routes_are_up(&redis->routes) && rn_secret_check_allows(&redis->secret);
}
