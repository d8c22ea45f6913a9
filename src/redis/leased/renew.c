/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls for leases, one in flight for each key: sends them, reads their replies, and serves the
 * charges that wait for them.
 */
#include <stdio.h>

#include <ration/error.h>

#include "redis/leased/leased_internal.h"
#include "redis/timing.h"

#define US_NS 1000
#define AGAIN_NS (INT64_C(100) * 1000000) /* before the next try to give back a key */

/* --- waiting charges --------------------------------------------------------------------- */

bool rn_renew_await(struct rn_hot_key *held, struct rn_backend_job *job, struct rn_charge *charge)
{
    int64_t deadline_ns = rn_redis_deadline(held->leased->redis);

    if (!rn_waiting_add(&held->leased->waiting, job, charge, &held->queue, deadline_ns))
        return false;
    rn_timing_by(held->leased->loop, &held->leased->patience, deadline_ns);
    return true;
}

/* The charge has had RATION_ESTORE since it began to wait. */
static void give_up(struct rn_leased *leased, struct rn_waiter *waiter)
{
    rn_redis_count(&leased->counts.late, 1);
    rn_backend_answered(rn_waiting_end(&leased->waiting, waiter), 1);
}

void rn_renew_give_up(struct rn_leased *leased, int64_t now_ns)
{
    struct rn_waiter *next;

    while ((next = rn_waiting_next(&leased->waiting)) && next->deadline_ns <= now_ns)
        give_up(leased, next);
    if (next)
        rn_timing_by(leased->loop, &leased->patience, next->deadline_ns);
}

/* Serves the waiting charges in order, as far as the units go. Each answer may lead to more
 * charges, which queue at the end. `strict`: charges that do not fit are passed on. */
static void serve(struct rn_hot_key *held, bool strict)
{
    struct rn_leased *leased = held->leased;

    while (held->queue.first && !held->lease.in_flight) {
        int64_t now_ns = rn_clock_boot_ns();
        struct rn_waiter *waiter = held->queue.first;
        struct rn_charge *charge = waiter->charge;

        rn_leased_expire(held, now_ns);
        if (rn_leased_decide(held, charge, now_ns)) {
            rn_redis_count(&leased->counts.waited, 1);
            rn_backend_answered(rn_waiting_end(&leased->waiting, waiter), 1);
        } else if (strict || !rn_renew_begin(held, charge->ask.cost, now_ns)) {
            rn_leased_pass_on(leased, rn_waiting_end(&leased->waiting, waiter), charge);
        }
    }
}

/* --- replies ------------------------------------------------------------------------------ */

static int64_t to_ns(int64_t us)
{
    return us < INT64_MAX / US_NS ? us * US_NS : INT64_MAX / US_NS * US_NS;
}

/* The receipt of spends from this lease, as the scripts without leases give it. For buckets and
 * logs it is the time of the grant: spends come later, so no refund gives back more than it is
 * worth by the server's clock. */
static int64_t mark_of(const struct rn_hot_key *held, int64_t now_us, int64_t reset_us)
{
    switch (held->script) {
    case RN_SCRIPT_LEASE_WINDOW:
        return now_us + reset_us;
    case RN_SCRIPT_LEASE_COUNTER:
        return now_us / rn_codec_us(held->period_ns);
    case RN_SCRIPT_LEASE_SUBS:
        return now_us / rn_codec_us(held->sub_ns);
    default: /* buckets and logs */
        return now_us;
    }
}

/* scripts/leases.lua has the numbers of a reply. */
static bool read_grant(const struct rn_hot_key *held, const redisReply *reply, struct rn_grant *out)
{
    struct rn_script_call_answers answers;
    int64_t n[RN_CODEC_NUMBERS];

    if (!reply || !rn_script_call_read(reply, held->call, 1, &answers))
        return false;
    rn_codec_numbers(answers.bytes, RN_CODEC_NUMBERS, n);
    for (size_t i = 0; i < RN_CODEC_NUMBERS; i++)
        if (n[i] < 0)
            return false;
    *out = (struct rn_grant){.granted = (uint64_t)n[0],
                             .left = (uint64_t)n[1],
                             .retry_after_ns = to_ns(n[2]),
                             .reset_after_ns = to_ns(n[3]),
                             .lease_ns = to_ns(n[4]),
                             .kept = n[5] == 1,
                             .ends_us = answers.store_us + n[4],
                             .mark = mark_of(held, answers.store_us, n[3])};
    return true;
}

static void drop(struct rn_hot_key *held)
{
    struct rn_leased *leased = held->leased;

    rn_timer_cancel(rn_loop_wheel(leased->loop), &held->timer);
    rn_hot_keys_drop(&leased->table, held);
    rn_redis_count(&leased->counts.demoted, 1);
    atomic_store_explicit(&leased->counts.held, leased->table.keys.count, memory_order_relaxed);
}

static void give_back(struct rn_hot_key *held, int64_t now_ns);

static void take_in(struct rn_hot_key *held, const struct rn_grant *grant)
{
    struct rn_leased_counts *counts = &held->leased->counts;
    bool crowded = grant->granted < held->lease.least && grant->retry_after_ns == 0;

    rn_redis_count(&counts->grants, grant->granted > 0);
    rn_redis_count(&counts->granted, grant->granted);
    rn_redis_count(&counts->burnt, rn_lease_take_in(&held->lease, grant, rn_clock_boot_ns()));
    rn_lease_file_note(held->record, &held->lease, held->call);
    serve(held, crowded);
    if (!held->lease.in_flight && (crowded || held->leaving) && held->lease.units == 0) {
        drop(held);
        return;
    }
    rn_renew_watch(held, rn_clock_boot_ns());
    if (rn_lease_ends_soon(&held->lease))
        give_back(held, rn_clock_boot_ns());
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct rn_hot_key *held = arg;
    struct rn_leased *leased = held->leased;
    struct rn_grant grant;

    if (!rn_leased_goes_on(leased))
        return;
    if (read_grant(held, reply, &grant)) {
        take_in(held, &grant);
        return;
    }
    rn_redis_count(&leased->counts.burnt, rn_lease_lose(&held->lease));
    rn_lease_file_note(held->record, &held->lease, held->call);
    rn_redis_count(&leased->counts.lost, 1);
    while (held->queue.first && !held->lease.in_flight)
        give_up(leased, held->queue.first);
    rn_renew_watch(held, rn_clock_boot_ns());
}

/* --- calls ---------------------------------------------------------------------------------- */

static bool send_call(struct rn_hot_key *held, struct rn_codec_lease_request *request)
{
    struct rn_leased *leased = held->leased;
    char nonce[24], argument[RN_CODEC_BYTES];

    request->holder = leased->id;
    request->call = held->call = ++leased->calls;
    rn_lease_file_note(held->record, &held->lease, held->call);
    const struct rn_slice name = {held->name, held->name_len};
    const struct rn_slice args[] = {
        {nonce, (size_t)snprintf(nonce, sizeof nonce, "%llu", (unsigned long long)request->call)},
        {"\0", 1}, /* the first argument is the charge's */
        {argument, rn_codec_write_lease(request, held->params, held->params_len, argument)},
    };
    const struct rn_script_request ask = {.script = held->script,
                                          .keys = &name,
                                          .key_count = 1,
                                          .args = args,
                                          .arg_count = 3,
                                          .until_ns = rn_redis_deadline(leased->redis),
                                          .reply = on_reply,
                                          .arg = held};

    if (!rn_redis_call(leased->redis, &ask)) {
        rn_lease_unask(&held->lease, request);
        rn_lease_file_note(held->record, &held->lease, held->call);
        return false;
    }
    leased->in_flight++;
    rn_redis_count(&leased->counts.calls, 1);
    rn_redis_count(&leased->counts.returned, request->back);
    return true;
}

bool rn_renew_begin(struct rn_hot_key *held, uint64_t least, int64_t now_ns)
{
    uint64_t waiting = held->queue.units > least ? held->queue.units : least;
    struct rn_codec_lease_request request;

    held->leaving = false;
    rn_lease_ask(&held->lease, least, waiting, now_ns, &request);
    return send_call(held, &request);
}

/* Gives back all units, unless a charge waits for them. */
static void give_back(struct rn_hot_key *held, int64_t now_ns)
{
    struct rn_codec_lease_request request;

    if (held->lease.in_flight || held->queue.first)
        return;
    rn_leased_expire(held, now_ns);
    if (held->lease.units == 0)
        return;
    rn_lease_ask_out(&held->lease, now_ns, &request);
    send_call(held, &request);
}

void rn_renew_retire(struct rn_hot_key *held, int64_t now_ns)
{
    held->leaving = true;
    give_back(held, now_ns);
    if (!held->lease.in_flight && !held->queue.first && held->lease.units == 0)
        drop(held);
}

/* --- the end of a lease ---------------------------------------------------------------------- */

/* When the timer must look at a key that is not used until then. */
static int64_t due_of(const struct rn_hot_key *held)
{
    const struct rn_lease *h = &held->lease;
    int64_t idle_ns = held->used_ns + RN_LEASED_IDLE_NS;

    return h->units > 0 && h->renew_ns < idle_ns ? h->renew_ns : idle_ns;
}

static void on_due(struct rn_timer *timer)
{
    struct rn_hot_key *held =
        (struct rn_hot_key *)((char *)timer - offsetof(struct rn_hot_key, timer));
    int64_t now_ns = rn_clock_boot_ns();

    if (held->lease.in_flight)
        return; /* its reply sets the timer again */
    rn_leased_expire(held, now_ns);
    if (now_ns < due_of(held)) {
        rn_renew_watch(held, now_ns);
        return;
    }
    rn_timing_in(held->leased->loop, &held->timer, AGAIN_NS);
    /* Not used for half a lease, or for RN_LEASED_IDLE_NS if that is less. */
    if (held->used_ns <= held->lease.sent_ns || held->used_ns <= now_ns - RN_LEASED_IDLE_NS ||
        rn_sizing_is_cold(&held->lease.demand, now_ns))
        rn_renew_retire(held, now_ns);
    else
        rn_renew_begin(held, 0, now_ns);
}

void rn_renew_watch(struct rn_hot_key *held, int64_t now_ns)
{
    held->timer.fire = on_due;
    rn_timing_in(held->leased->loop, &held->timer, due_of(held) - now_ns);
}
