/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/remote.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/fiber.h"
#include "net/server.h"
#include "redis/cluster/secret_check.h"
#include "redis/codec.h"
#include "redis/strict/refusal_cache.h"

struct rn_remote {
    struct rn_store store; /* first */
    struct rn_loop *loop;
    int64_t deadline_ns;
    struct rn_routes routes;
    struct rn_routes_events routes_events;
    struct rn_script_calls calls;
    struct rn_secret_check secret;
    struct rn_batch_queues queues;
    struct rn_batch_queues_events queues_events;
    struct rn_timer timer;
    struct rn_job *jobs, *last, *spare; /* under way, the last of them; unused */
    struct rn_job pool[RN_REMOTE_JOBS];
    struct rn_redis_counts counts;
    struct rn_refusal_cache refusals;
};

static int64_t now_of(const struct rn_remote *remote)
{
    return rn_wheel_now(rn_loop_wheel(remote->loop));
}

static void set_timer(struct rn_remote *remote)
{
    if (remote->jobs &&
        (!rn_timer_is_set(&remote->timer) || remote->jobs->deadline_ns < remote->timer.at_ns))
        rn_timer_set(rn_loop_wheel(remote->loop), &remote->timer, remote->jobs->deadline_ns);
}

/* --- jobs --------------------------------------------------------------------------- */

/* The job that the link leads to; NULL: it is the first one's. */
static struct rn_job *job_before(struct rn_remote *remote, struct rn_job **link)
{
    return link == &remote->jobs ? NULL
                                 : (struct rn_job *)((char *)link - offsetof(struct rn_job, next));
}

/* Among the others by its deadline, which is the last one as a rule. NULL: too many. */
static struct rn_job *begin_job(struct rn_remote *remote, int64_t deadline_ns)
{
    struct rn_job *job = remote->spare, *before = remote->last;

    if (!job)
        return NULL;
    remote->spare = job->next;
    while (before && before->deadline_ns > deadline_ns)
        before = job_before(remote, before->link);
    job->link = before ? &before->next : &remote->jobs;
    job->next = *job->link;
    *job->link = job;
    if (job->next)
        job->next->link = &job->next;
    else
        remote->last = job;
    job->left = 0;
    job->deadline_ns = deadline_ns;
    return job;
}

/* From here on nobody touches its batch. */
static void end_job(struct rn_remote *remote, struct rn_job *job)
{
    struct rn_job *before = job_before(remote, job->link);

    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
    else
        remote->last = before;
    job->life++;
    job->next = remote->spare;
    remote->spare = job;
}

static void finish_job(struct rn_remote *remote, struct rn_job *job)
{
    struct rn_charge *batch = job->batch;
    size_t n = job->n;
    rn_store_done *done = job->done;
    void *arg = job->arg;

    end_job(remote, job);
    done(arg, batch, n);
}

/* What was refused while a late charge counted may be admitted now. */
static void on_returned(void *arg, struct rn_charge *charge)
{
    struct rn_remote *remote = arg;

    (void)rn_refusal_cache_find(&remote->refusals, charge, charge->ask.now_ns);
}

static void on_answered(void *arg, struct rn_job *job, const struct rn_charge *charge)
{
    struct rn_remote *remote = arg;

    rn_redis_count(charge->error == 0 ? &remote->counts.answered : &remote->counts.failed, 1);
    rn_refusal_cache_note(&remote->refusals, charge, charge->ask.now_ns);
    if (--job->left == 0)
        finish_job(remote, job);
}

/* Of a job that was not answered in time: which servers were not. */
static void blame_shards(struct rn_remote *remote, const struct rn_job *job, bool late[RN_SHARDS])
{
    for (size_t i = 0; i < job->n; i++) {
        const struct rn_charge *charge = &job->batch[i];
        struct rn_shard *shard =
            charge->error == RATION_ESTORE
                ? rn_routes_owner(&remote->routes, rn_batch_queues_slot(&remote->queues, charge))
                : NULL;

        if (!shard)
            continue;
        late[shard->index] = true;
        rn_redis_count(&shard->counts.late, 1);
    }
}

/* Charges without an answer have the error that they were given at the beginning. One
 * stall of a server is one failure, however many wait for it. */
static void expire_jobs(struct rn_remote *remote, int64_t now_ns)
{
    bool late[RN_SHARDS] = {false};
    struct rn_job *job;

    if (remote->jobs && remote->jobs->deadline_ns <= now_ns)
        rn_batch_queues_expire(&remote->queues, now_ns);
    while ((job = remote->jobs) && job->deadline_ns <= now_ns) {
        blame_shards(remote, job, late);
        rn_redis_count(&remote->counts.late, job->left);
        finish_job(remote, job);
    }
    for (unsigned i = 0; i < RN_SHARDS; i++)
        if (late[i] && remote->routes.shards[i])
            rn_shard_was_late(remote->routes.shards[i]);
}

static bool is_due(const struct rn_remote *remote)
{
    return remote->jobs && remote->jobs->deadline_ns <= now_of(remote);
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_remote *remote =
        (struct rn_remote *)((char *)timer - offsetof(struct rn_remote, timer));

    /* After a long round of the loop, what is due may have been answered meanwhile. */
    for (unsigned i = 0; i < RN_SHARDS; i++)
        if (remote->routes.shards[i] && is_due(remote))
            rn_link_hear(&remote->routes.shards[i]->link);
    expire_jobs(remote, now_of(remote));
    set_timer(remote);
}

/* --- what the routes tell ------------------------------------------------------------ */

static void note_up(void *arg)
{
    struct rn_remote *remote = arg;
    bool refused = remote->secret.state == RN_SECRET_CHECK_REFUSED;

    atomic_store_explicit(&remote->counts.up, rn_remote_is_up(remote), memory_order_relaxed);
    atomic_store_explicit(&remote->counts.refused, refused, memory_order_relaxed);
}

static void on_up(void *arg, struct rn_shard *shard)
{
    struct rn_remote *remote = arg;

    note_up(remote);
    rn_secret_check_again(&remote->secret);
    rn_script_calls_retry(&remote->calls);
    rn_link_call_later(&shard->link);
}

static void on_down(void *arg, struct rn_shard *shard)
{
    struct rn_remote *remote = arg;

    note_up(remote);
    rn_batch_queues_fail(&remote->queues, shard);
}

/* What came up in this round goes out in one write. */
static void on_later(void *arg, struct rn_shard *shard)
{
    struct rn_remote *remote = arg;

    rn_batch_queues_send(&remote->queues, shard);
}

static void on_moved(void *arg)
{
    struct rn_remote *remote = arg;

    note_up(remote);
    rn_secret_check_again(&remote->secret);
    rn_batch_queues_reroute(&remote->queues);
    rn_script_calls_retry(&remote->calls);
}

/* --- the contract ------------------------------------------------------------------------------
 */

/* Charges that need no store, or that no store like this can hold. */
static bool is_settled(struct rn_remote *remote, struct rn_charge *charge)
{
    uint64_t none = 0;

    if (charge->limit->form == RN_FORM_NONE) {
        rn_limit_apply(charge->limit, &none, 1, &charge->ask, &charge->answer);
        charge->error = 0;
        return true;
    }
    if (rn_refusal_cache_find(&remote->refusals, charge, charge->ask.now_ns)) {
        rn_redis_count(&remote->counts.remembered, 1);
        return true;
    }
    charge->error = rn_codec_fault(charge->limit) ? RATION_EINVAL : RATION_ESTORE;
    return charge->error == RATION_EINVAL;
}

static void add_to_queues(struct rn_remote *remote, struct rn_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        struct rn_charge *charge = &job->batch[i];

        if (charge->error != RATION_ESTORE)
            continue;
        struct rn_shard *shard =
            rn_routes_owner(&remote->routes, rn_batch_queues_slot(&remote->queues, charge));
        bool hopeless = !shard || shard->breaker.open;

        if (!hopeless && rn_batch_queues_add(&remote->queues, job, i)) {
            job->left++;
            continue;
        }
        rn_redis_count(&remote->counts.turned_away, 1);
        if (shard)
            rn_redis_count(&shard->counts.turned_away, 1);
    }
}

/* Ours, or that of who asks if it comes first. */
static int64_t deadline_of(const struct rn_remote *remote)
{
    int64_t ours = now_of(remote) + remote->deadline_ns, theirs = rn_fiber_until();

    return theirs < ours ? theirs : ours;
}

static enum rn_progress apply(struct rn_store *store, struct rn_charge *batch, size_t n,
                              rn_store_done *done, void *arg)
{
    struct rn_remote *remote = (struct rn_remote *)(void *)store;
    size_t open = 0;

    for (size_t i = 0; i < n; i++)
        open += !is_settled(remote, &batch[i]);
    rn_redis_count(&remote->counts.charges, n);
    if (open == 0)
        return RN_DONE;
    bool allowed = done && rn_secret_check_allows(&remote->secret);
    struct rn_job *job = allowed ? begin_job(remote, deadline_of(remote)) : NULL;
    if (!job) {
        rn_redis_count(&remote->counts.turned_away, open);
        return RN_DONE;
    }
    job->batch = batch;
    job->n = n;
    job->done = done;
    job->arg = arg;
    add_to_queues(remote, job);
    if (job->left == 0) {
        end_job(remote, job);
        return RN_DONE;
    }
    set_timer(remote);
    return RN_PENDING;
}

static void disown(struct rn_store *store, const struct rn_charge *charge, uint64_t late)
{
    rn_batch_queues_disown(&((struct rn_remote *)(void *)store)->queues, charge, late);
}

static const struct rn_store_ops remote_ops = {.apply = apply, .disown = disown};

bool rn_remote_call(struct rn_remote *remote, const struct rn_script_request *ask)
{
    struct rn_script_request whole = *ask;

    if (whole.until_ns == 0)
        whole.until_ns = now_of(remote) + remote->deadline_ns;
    return rn_secret_check_allows(&remote->secret) &&
           rn_script_request_send(&remote->calls, &whole);
}

/* --- life --------------------------------------------------------------------------- */

static void init_events(struct rn_remote *remote)
{
    remote->routes_events = (struct rn_routes_events){
        .arg = remote, .up = on_up, .down = on_down, .later = on_later, .moved = on_moved};
    remote->queues_events = (struct rn_batch_queues_events){
        .arg = remote, .answered = on_answered, .returned = on_returned};
    remote->timer.fire = on_timer;
    for (size_t i = 0; i < RN_REMOTE_JOBS; i++) {
        remote->pool[i].next = remote->spare;
        remote->spare = &remote->pool[i];
    }
}

int rn_remote_new(struct rn_loop *loop, const struct rn_url *url, int64_t deadline_ns,
                  struct rn_remote **out, struct ration_error *error)
{
    struct rn_remote *remote = calloc(1, sizeof *remote);

    if (!remote)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    remote->store.ops = &remote_ops;
    remote->loop = loop;
    remote->deadline_ns = deadline_ns > 0 ? deadline_ns : RN_REMOTE_DEADLINE_NS;
    init_events(remote);
    int failed =
        rn_routes_init(&remote->routes, loop, url, &remote->routes_events, &remote->counts, error);
    if (failed != 0) {
        free(remote);
        return failed;
    }
    rn_script_calls_init(&remote->calls, &remote->routes, &remote->counts);
    if (!rn_batch_queues_init(&remote->queues, &remote->calls, &remote->counts,
                              &remote->queues_events)) {
        rn_remote_free(remote);
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    }
    *out = remote;
    return 0;
}

void rn_remote_agree(struct rn_remote *remote, const char *fingerprint)
{
    rn_secret_check_init(&remote->secret, &remote->routes, fingerprint, note_up, remote);
}

void rn_remote_free(struct rn_remote *remote)
{
    if (!remote)
        return;
    rn_script_calls_done(&remote->calls);
    rn_secret_check_done(&remote->secret);
    rn_routes_done(&remote->routes);
    while (remote->jobs)
        finish_job(remote, remote->jobs);
    rn_timer_cancel(rn_loop_wheel(remote->loop), &remote->timer);
    rn_batch_queues_done(&remote->queues);
    free(remote);
}

struct rn_store *rn_remote_store(struct rn_remote *remote)
{
    return &remote->store;
}

const struct rn_redis_counts *rn_remote_counts(const struct rn_remote *remote)
{
    return &remote->counts;
}

size_t rn_remote_shards(struct rn_remote *remote, struct rn_routes_shard *out, size_t max)
{
    return rn_routes_list(&remote->routes, out, max);
}

bool rn_remote_doubts(const struct rn_remote *remote)
{
    for (unsigned i = 0; i < RN_SHARDS; i++)
        if (remote->routes.shards[i] && rn_shard_doubt_ns(remote->routes.shards[i]) > 0)
            return true;
    return false;
}

unsigned rn_remote_server(const struct rn_remote *remote, struct rn_slice key)
{
    const struct rn_shard *shard = rn_routes_owner(&remote->routes, rn_hash_slot_of(key));

    return shard ? shard->index : RN_SHARDS;
}

unsigned rn_remote_tags(const struct rn_remote *remote)
{
    return remote->queues.tags;
}

bool rn_remote_is_up(const struct rn_remote *remote)
{
    return rn_routes_are_up(&remote->routes) && rn_secret_check_allows(&remote->secret);
}
