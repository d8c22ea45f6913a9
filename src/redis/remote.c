/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/remote.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/log.h"
#include "net/server.h"
#include "redis/code.h"
#include "redis/refusals.h"

struct rn_remote {
    struct rn_store store; /* first */
    struct rn_loop *loop;
    int64_t deadline_ns;
    struct rn_link link;
    struct rn_link_events link_events;
    struct rn_lane_events lane_events;
    struct rn_lane lanes[RN_SCRIPTS];
    struct rn_breaker breaker;
    struct rn_timer timer;
    struct rn_job *jobs, *last, *spare; /* under way, the last of them; unused */
    struct rn_job pool[RN_REMOTE_JOBS];
    struct rn_remote_counts counts;
    struct rn_refusals refusals;
};

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static int64_t now_of(const struct rn_remote *remote)
{
    return rn_wheel_now(rn_loop_wheel(remote->loop));
}

static uint64_t random_number(void)
{
    uint64_t random = 0;

    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    return random;
}

/* --- time --------------------------------------------------------------------------- */

static void wake_at(struct rn_remote *remote, int64_t at_ns)
{
    if (!rn_timer_is_set(&remote->timer) || at_ns < remote->timer.at_ns)
        rn_timer_set(rn_loop_wheel(remote->loop), &remote->timer, at_ns);
}

static void set_timer(struct rn_remote *remote)
{
    if (remote->jobs)
        wake_at(remote, remote->jobs->deadline_ns);
    if (rn_link_owed_since(&remote->link) != INT64_MAX)
        wake_at(remote, rn_link_owed_since(&remote->link) + RN_REMOTE_OWED_NS);
    if (remote->breaker.open && remote->link.up && !remote->breaker.probing)
        wake_at(remote, remote->breaker.probe_at_ns);
}

/* --- jobs --------------------------------------------------------------------------- */

static struct rn_job *begin_job(struct rn_remote *remote)
{
    struct rn_job *job = remote->spare;

    if (!job)
        return NULL;
    remote->spare = job->next;
    job->next = NULL;
    job->link = remote->last ? &remote->last->next : &remote->jobs;
    *job->link = job;
    remote->last = job;
    return job;
}

/* From here on nobody touches its batch. */
static void end_job(struct rn_remote *remote, struct rn_job *job)
{
    struct rn_job *before =
        job->link == &remote->jobs
            ? NULL
            : (struct rn_job *)((char *)job->link - offsetof(struct rn_job, next));

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

static void on_answered(void *arg, struct rn_job *job, const struct rn_charge *charge)
{
    struct rn_remote *remote = arg;

    count(charge->error == 0 ? &remote->counts.answered : &remote->counts.failed, 1);
    rn_refusals_note(&remote->refusals, charge, charge->ask.now_ns);
    if (--job->left == 0)
        finish_job(remote, job);
}

/* Charges without an answer have the error that they were given at the beginning. One
 * stall of the store is one failure, however many wait for it. */
static void expire_jobs(struct rn_remote *remote, int64_t now_ns)
{
    bool late = remote->jobs && remote->jobs->deadline_ns <= now_ns;

    if (late && rn_breaker_fail(&remote->breaker, now_ns, random_number()))
        rn_log(RN_LOG_WARN, "redis.open", RN_LOG_TEXT("reason", RN_SLICE("no answer in time")));
    while (remote->jobs && remote->jobs->deadline_ns <= now_ns) {
        count(&remote->counts.late, remote->jobs->left);
        finish_job(remote, remote->jobs);
    }
}

/* --- the breaker ------------------------------------------------------------------------ */

static void note_state(struct rn_remote *remote)
{
    atomic_store_explicit(&remote->counts.open, remote->breaker.open, memory_order_relaxed);
    atomic_store_explicit(&remote->counts.up, rn_remote_is_up(remote), memory_order_relaxed);
    atomic_store_explicit(&remote->counts.opened, remote->breaker.opened, memory_order_relaxed);
    atomic_store_explicit(&remote->counts.connects, remote->link.attempts, memory_order_relaxed);
}

static void close_breaker(struct rn_remote *remote)
{
    if (rn_breaker_succeed(&remote->breaker))
        rn_log(RN_LOG_INFO, "redis.closed",
               RN_LOG_NUMBER("late", atomic_load(&remote->counts.late)),
               RN_LOG_NUMBER("turned_away", atomic_load(&remote->counts.turned_away)));
    note_state(remote);
}

static void on_probed(void *arg, const redisReply *reply)
{
    struct rn_remote *remote = arg;

    if (reply && reply->type != REDIS_REPLY_ERROR)
        close_breaker(remote);
    else
        rn_breaker_probe_failed(&remote->breaker, now_of(remote), random_number());
    set_timer(remote);
}

static void send_probe(struct rn_remote *remote, int64_t now_ns)
{
    const char *argv[] = {"PING"};

    if (!remote->link.up || !rn_breaker_probe(&remote->breaker, now_ns))
        return;
    if (!rn_link_send(&remote->link, 1, argv, NULL, on_probed, remote))
        rn_breaker_probe_failed(&remote->breaker, now_ns, random_number());
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_remote *remote =
        (struct rn_remote *)((char *)timer - offsetof(struct rn_remote, timer));
    int64_t now_ns = now_of(remote);

    expire_jobs(remote, now_ns);
    if (rn_link_owed_since(&remote->link) <= now_ns - RN_REMOTE_OWED_NS)
        rn_link_drop(&remote->link, "no reply for a second");
    send_probe(remote, now_ns);
    note_state(remote);
    set_timer(remote);
}

/* --- what the link and the lanes tell ------------------------------------------------------ */

static void on_up(void *arg)
{
    close_breaker(arg);
}

static void on_down(void *arg, const char *why)
{
    struct rn_remote *remote = arg;

    if (rn_breaker_trip(&remote->breaker, now_of(remote), random_number()))
        rn_log(RN_LOG_WARN, "redis.open", RN_LOG_TEXT("reason", rn_slice_of(why)));
    note_state(remote);
}

/* What came up in this round goes out in one write. */
static void on_later(void *arg)
{
    struct rn_remote *remote = arg;
    uint64_t calls = 0, resent = 0, mismatches = 0;

    for (size_t i = 0; i < RN_SCRIPTS; i++) {
        struct rn_lane *lane = &remote->lanes[i];

        rn_lane_send(lane);
        calls += lane->calls;
        resent += lane->resent;
        mismatches += lane->mismatches;
    }
    atomic_store_explicit(&remote->counts.calls, calls, memory_order_relaxed);
    atomic_store_explicit(&remote->counts.resent, resent, memory_order_relaxed);
    atomic_store_explicit(&remote->counts.mismatches, mismatches, memory_order_relaxed);
    set_timer(remote);
}

static void on_replied(void *arg, long long now_us)
{
    struct rn_remote *remote = arg;
    int64_t skew_us = now_us - rn_clock_read_ns(CLOCK_REALTIME) / 1000;

    atomic_store_explicit(&remote->counts.skew_us, skew_us, memory_order_relaxed);
    close_breaker(remote);
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
    if (rn_refusals_find(&remote->refusals, charge, charge->ask.now_ns)) {
        count(&remote->counts.remembered, 1);
        return true;
    }
    charge->error = rn_code_fault(charge->limit) ? RATION_EINVAL : RATION_ESTORE;
    return charge->error == RATION_EINVAL;
}

static enum rn_progress turn_away(struct rn_remote *remote, size_t n)
{
    count(&remote->counts.turned_away, n);
    return RN_DONE;
}

static void add_to_lanes(struct rn_remote *remote, struct rn_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        struct rn_charge *charge = &job->batch[i];

        if (charge->error != RATION_ESTORE)
            continue;
        if (rn_lane_add(&remote->lanes[rn_code_script(charge->limit)], job, i))
            job->left++;
        else
            count(&remote->counts.turned_away, 1);
    }
}

static enum rn_progress apply(struct rn_store *store, struct rn_charge *batch, size_t n,
                              rn_store_done *done, void *arg)
{
    struct rn_remote *remote = (struct rn_remote *)(void *)store;
    size_t open = 0;

    for (size_t i = 0; i < n; i++)
        open += !is_settled(remote, &batch[i]);
    count(&remote->counts.charges, n);
    if (open == 0)
        return RN_DONE;
    if (remote->breaker.open || !remote->link.up || !done)
        return turn_away(remote, open);
    struct rn_job *job = begin_job(remote);
    if (!job)
        return turn_away(remote, open);
    job->batch = batch;
    job->n = n;
    job->left = 0;
    job->done = done;
    job->arg = arg;
    job->deadline_ns = now_of(remote) + remote->deadline_ns;
    add_to_lanes(remote, job);
    if (job->left == 0) {
        end_job(remote, job);
        return RN_DONE;
    }
    rn_link_call_later(&remote->link);
    set_timer(remote);
    return RN_PENDING;
}

static const struct rn_store_ops remote_ops = {.apply = apply};

bool rn_remote_call(struct rn_remote *remote, const struct rn_call_ask *ask)
{
    if (remote->breaker.open || !rn_call_begin(&remote->link, ask))
        return false;
    set_timer(remote);
    return true;
}

/* --- life --------------------------------------------------------------------------------------
 */

static void init_events(struct rn_remote *remote)
{
    remote->link_events =
        (struct rn_link_events){.arg = remote, .up = on_up, .down = on_down, .later = on_later};
    remote->lane_events =
        (struct rn_lane_events){.arg = remote, .answered = on_answered, .replied = on_replied};
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
    bool made = remote != NULL;

    for (size_t i = 0; i < RN_SCRIPTS && made; i++)
        made =
            rn_lane_init(&remote->lanes[i], (enum rn_script)i, &remote->link, &remote->lane_events);
    if (!made) {
        rn_remote_free(remote);
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    }
    remote->store.ops = &remote_ops;
    remote->loop = loop;
    remote->deadline_ns = deadline_ns > 0 ? deadline_ns : RN_REMOTE_DEADLINE_NS;
    init_events(remote);
    int failed = rn_link_init(&remote->link, loop, url, &remote->link_events, error);
    if (failed != 0) {
        rn_remote_free(remote);
        return failed;
    }
    *out = remote;
    return 0;
}

void rn_remote_free(struct rn_remote *remote)
{
    if (!remote)
        return;
    if (remote->link.dialler)
        rn_link_done(&remote->link);
    while (remote->jobs)
        finish_job(remote, remote->jobs);
    if (remote->loop)
        rn_timer_cancel(rn_loop_wheel(remote->loop), &remote->timer);
    for (size_t i = 0; i < RN_SCRIPTS; i++)
        rn_lane_done(&remote->lanes[i]);
    free(remote);
}

struct rn_store *rn_remote_store(struct rn_remote *remote)
{
    return &remote->store;
}

const struct rn_remote_counts *rn_remote_counts(const struct rn_remote *remote)
{
    return &remote->counts;
}

bool rn_remote_is_up(const struct rn_remote *remote)
{
    return remote->link.up && !remote->breaker.open;
}
