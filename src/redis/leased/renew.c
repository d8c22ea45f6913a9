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

bool rn_renew_await(struct rn_hot_key *hot, struct rn_backend_job *job, struct rn_charge *charge)
{
    int64_t deadline_ns = rn_redis_deadline(hot->leased->redis);

    if (!rn_waiting_add(&hot->leased->waiting, job, charge, &hot->queue, deadline_ns))
        return false;
    rn_timing_by(hot->leased->loop, &hot->leased->patience, deadline_ns);
    return true;
}

/* The charge has had RATION_ESTORE since it began to wait. */
static void give_up(struct rn_leased *leased, struct rn_waiting_charge *waiter)
{
    rn_redis_count(&leased->counts.late, 1);
    rn_backend_answered(rn_waiting_end(&leased->waiting, waiter), 1);
}

void rn_renew_give_up(struct rn_leased *leased, int64_t now_ns)
{
    struct rn_waiting_charge *next;

    while ((next = rn_waiting_next(&leased->waiting)) && next->deadline_ns <= now_ns)
        give_up(leased, next);
    if (next)
        rn_timing_by(leased->loop, &leased->patience, next->deadline_ns);
}

/* Serves the waiting charges in order, as far as the units go. Each answer may lead to more
 * charges, which queue at the end. `strict`: charges that do not fit are passed on. */
static void serve(struct rn_hot_key *hot, bool strict)
{
    struct rn_leased *leased = hot->leased;

    hot->answering = true;
    while (hot->queue.first && !hot->lease.in_flight) {
        int64_t now_ns = rn_clock_boot_ns();
        struct rn_waiting_charge *waiter = hot->queue.first;
        struct rn_charge *charge = waiter->charge;

        rn_leased_expire(hot, now_ns);
        if (rn_leased_decide(hot, charge, now_ns)) {
            rn_redis_count(&leased->counts.waited, 1);
            rn_backend_answered(rn_waiting_end(&leased->waiting, waiter), 1);
        } else if (strict || !rn_renew_begin(hot, charge->ask.cost, now_ns)) {
            rn_leased_pass_on(leased, rn_waiting_end(&leased->waiting, waiter), charge);
        }
    }
    hot->answering = false;
}

/* --- replies ------------------------------------------------------------------------------ */

static int64_t to_ns(int64_t us)
{
    return us < INT64_MAX / US_NS ? us * US_NS : INT64_MAX / US_NS * US_NS;
}

/* The receipt of spends from this lease, as the scripts without leases give it. For buckets and
 * logs it is the time of the grant: spends come later, so no refund gives back more than it is
 * worth by the server's clock. */
static int64_t mark_of(const struct rn_hot_key *hot, int64_t now_us, int64_t reset_us)
{
    if (hot->script == RN_SCRIPT_LEASE_WINDOW)
        return now_us + reset_us;
    if (hot->script == RN_SCRIPT_LEASE_COUNTER)
        return now_us / rn_codec_us(hot->period_ns);
    if (hot->script == RN_SCRIPT_LEASE_SUBS)
        return now_us / rn_codec_us(hot->sub_ns);
    return now_us; /* buckets and logs */
}

/* scripts/leases.lua has the numbers of a reply. */
static bool read_grant(const struct rn_hot_key *hot, const redisReply *reply, struct rn_grant *out)
{
    struct rn_script_call_answers answers;
    int64_t n[RN_CODEC_NUMBERS];

    if (!reply || !rn_script_call_read(reply, hot->call, 1, &answers))
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
                             .mark = mark_of(hot, answers.store_us, n[3])};
    return true;
}

static void drop(struct rn_hot_key *hot)
{
    struct rn_leased *leased = hot->leased;

    rn_timer_cancel(rn_loop_wheel(leased->loop), &hot->timer);
    rn_hot_keys_drop(&leased->table, hot);
    rn_redis_count(&leased->counts.demoted, 1);
    atomic_store_explicit(&leased->counts.held, leased->table.keys.count, memory_order_relaxed);
}

static void give_back(struct rn_hot_key *hot, int64_t now_ns);

static void take_in(struct rn_hot_key *hot, const struct rn_grant *grant)
{
    struct rn_leased_counts *counts = &hot->leased->counts;
    bool crowded = grant->granted < hot->lease.least && grant->retry_after_ns == 0;

    rn_redis_count(&counts->grants, grant->granted > 0);
    rn_redis_count(&counts->granted, grant->granted);
    rn_redis_count(&counts->burnt, rn_lease_take_in(&hot->lease, grant, rn_clock_boot_ns()));
    rn_lease_file_note(hot->record, &hot->lease, hot->call);
    if (hot->leased->stopping) {
        rn_renew_stop(hot);
        return;
    }
    serve(hot, crowded);
    if (!hot->lease.in_flight && (crowded || hot->leaving) && hot->lease.units == 0) {
        drop(hot);
        return;
    }
    rn_renew_watch(hot, rn_clock_boot_ns());
    if (rn_lease_ends_soon(&hot->lease))
        give_back(hot, rn_clock_boot_ns());
}

static bool on_reply(void *arg, const redisReply *reply)
{
    struct rn_hot_key *hot = arg;
    struct rn_leased *leased = hot->leased;
    struct rn_grant grant;

    if (!rn_leased_goes_on(leased))
        return true;
    if (read_grant(hot, reply, &grant)) {
        take_in(hot, &grant);
        return true;
    }
    rn_redis_count(&leased->counts.burnt, rn_lease_lose(&hot->lease));
    rn_lease_file_note(hot->record, &hot->lease, hot->call);
    rn_redis_count(&leased->counts.lost, 1);
    hot->answering = true;
    while (hot->queue.first && !hot->lease.in_flight)
        give_up(leased, hot->queue.first);
    hot->answering = false;
    if (!leased->stopping)
        rn_renew_watch(hot, rn_clock_boot_ns());
    return false;
}

/* --- calls ---------------------------------------------------------------------------------- */

static bool send_call(struct rn_hot_key *hot, struct rn_codec_lease_request *request)
{
    struct rn_leased *leased = hot->leased;
    char nonce[24], argument[RN_CODEC_BYTES];

    request->holder = leased->id;
    request->call = hot->call = ++leased->calls;
    rn_lease_file_note(hot->record, &hot->lease, hot->call);
    const struct rn_slice name = {hot->name, hot->name_len};
    const struct rn_slice args[] = {
        {nonce, (size_t)snprintf(nonce, sizeof nonce, "%llu", (unsigned long long)request->call)},
        {"\0", 1}, /* the first argument is the charge's */
        {argument, rn_codec_write_lease(request, hot->params, hot->params_len, argument)},
    };
    const struct rn_script_request ask = {.script = hot->script,
                                          .keys = &name,
                                          .key_count = 1,
                                          .args = args,
                                          .arg_count = 3,
                                          .until_ns = rn_redis_deadline(leased->redis),
                                          .reply = on_reply,
                                          .arg = hot};

    if (!rn_redis_call(leased->redis, &ask)) {
        rn_lease_unask(&hot->lease, request);
        rn_lease_file_note(hot->record, &hot->lease, hot->call);
        return false;
    }
    leased->in_flight++;
    rn_redis_count(&leased->counts.calls, 1);
    rn_redis_count(&leased->counts.returned, request->back);
    return true;
}

bool rn_renew_begin(struct rn_hot_key *hot, uint64_t least, int64_t now_ns)
{
    uint64_t waiting = hot->queue.units > least ? hot->queue.units : least;
    struct rn_codec_lease_request request;

    hot->leaving = false;
    rn_lease_ask(&hot->lease, least, waiting, now_ns, &request);
    return send_call(hot, &request);
}

/* Gives back all units, unless a charge waits for them. */
static void give_back(struct rn_hot_key *hot, int64_t now_ns)
{
    struct rn_codec_lease_request request;

    if (hot->lease.in_flight || hot->queue.first)
        return;
    rn_leased_expire(hot, now_ns);
    if (hot->lease.units == 0)
        return;
    rn_lease_ask_out(&hot->lease, now_ns, &request);
    send_call(hot, &request);
}

void rn_renew_retire(struct rn_hot_key *hot, int64_t now_ns)
{
    hot->leaving = true;
    give_back(hot, now_ns);
    if (!hot->answering && !hot->lease.in_flight && !hot->queue.first && hot->lease.units == 0)
        drop(hot);
}

/* A return is sent once, so its units leave the file with it. */
void rn_renew_stop(struct rn_hot_key *hot)
{
    rn_timer_cancel(rn_loop_wheel(hot->leased->loop), &hot->timer);
    hot->leaving = true;
    if (hot->lease.in_flight)
        return;
    give_back(hot, rn_clock_boot_ns());
    if (hot->lease.in_flight)
        rn_lease_file_clear(hot->record);
    else if (hot->lease.units == 0)
        drop(hot);
}

/* --- the end of a lease ---------------------------------------------------------------------- */

/* When the timer must look at a key that is not used until then. */
static int64_t due_of(const struct rn_hot_key *hot)
{
    const struct rn_lease *h = &hot->lease;
    int64_t idle_ns = hot->used_ns + RN_LEASED_IDLE_NS;

    return h->units > 0 && h->renew_ns < idle_ns ? h->renew_ns : idle_ns;
}

static void on_due(struct rn_timer *timer)
{
    struct rn_hot_key *hot =
        (struct rn_hot_key *)((char *)timer - offsetof(struct rn_hot_key, timer));
    int64_t now_ns = rn_clock_boot_ns();

    if (hot->lease.in_flight)
        return; /* its reply sets the timer again */
    rn_leased_expire(hot, now_ns);
    if (now_ns < due_of(hot)) {
        rn_renew_watch(hot, now_ns);
        return;
    }
    rn_timing_in(hot->leased->loop, &hot->timer, AGAIN_NS);
    /* Not used for half a lease, or for RN_LEASED_IDLE_NS if that is less. */
    if (hot->used_ns <= hot->lease.sent_ns || hot->used_ns <= now_ns - RN_LEASED_IDLE_NS ||
        rn_sizing_is_cold(&hot->lease.demand, now_ns))
        rn_renew_retire(hot, now_ns);
    else
        rn_renew_begin(hot, 0, now_ns);
}

void rn_renew_watch(struct rn_hot_key *hot, int64_t now_ns)
{
    hot->timer.fire = on_due;
    rn_timing_in(hot->leased->loop, &hot->timer, due_of(hot) - now_ns);
}
