/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/shard.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "net/log.h"
#include "redis/scripts/script.h"
#include "redis/timing.h"

static uint64_t random_number(void)
{
    uint64_t random = 0;

    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    return random;
}

bool rn_shard_is_up(const struct rn_shard *shard)
{
    return shard->link.up && !shard->breaker.open;
}

/* --- lost states --------------------------------------------------------------------- */

void rn_shard_doubt(struct rn_shard *shard)
{
    shard->doubt_until_ns = rn_timing_now(shard->link.loop) + RN_SHARD_DOUBT_NS;
}

int64_t rn_shard_doubt_ns(const struct rn_shard *shard)
{
    int64_t now_ns = rn_timing_now(shard->link.loop);

    return shard->doubt_until_ns > now_ns ? shard->doubt_until_ns - now_ns : 0;
}

/* --- the timer ------------------------------------------------------------------------ */

static void set_timer(struct rn_shard *shard)
{
    if (shard->breaker.open && shard->link.up && !shard->breaker.probing)
        rn_timing_by(shard->link.loop, &shard->timer, shard->breaker.probe_at_ns);
}

/* --- refusals ------------------------------------------------------------------------- */

static_assert(RN_SCRIPTS < 32, "a bit for each script, and one for the secret");

static void log_error(const struct rn_shard *shard, const char *why)
{
    rn_log(RN_LOG_WARN, "redis.error", RN_LOG_TEXT("reason", rn_slice_of(why)),
           RN_LOG_TEXT("server", rn_slice_of(shard->link.address)));
}

static void note_refusal(struct rn_shard *shard, int64_t at_ns)
{
    atomic_store_explicit(&shard->counts.refused_ns, at_ns, memory_order_relaxed);
    atomic_store_explicit(&shard->totals->refused_ns, at_ns, memory_order_relaxed);
}

void rn_shard_refuses(struct rn_shard *shard, unsigned script, const char *why)
{
    if (shard->refused == 0)
        log_error(shard, why);
    shard->refused |= UINT32_C(1) << script;
    note_refusal(shard, rn_clock_boot_ns());
}

void rn_shard_serves(struct rn_shard *shard, unsigned script)
{
    if (!(shard->refused & UINT32_C(1) << script))
        return;
    shard->refused &= ~(UINT32_C(1) << script);
    if (shard->refused != 0)
        return;
    note_refusal(shard, 0);
    rn_log(RN_LOG_INFO, "redis.serves", RN_LOG_TEXT("server", rn_slice_of(shard->link.address)));
}

void rn_shard_refuses_key(struct rn_shard *shard, const char *why)
{
    int64_t now_ns = rn_clock_boot_ns();

    if (shard->told_ns != 0 && now_ns - shard->told_ns < RN_SECOND_NS)
        return;
    shard->told_ns = now_ns;
    log_error(shard, why);
}

/* --- the clock ------------------------------------------------------------------------ */

int64_t rn_shard_note_skew(struct rn_shard_skew *skew, int64_t store_us, int64_t sent_ns,
                           int64_t got_ns)
{
    struct rn_shard_skew before = *skew;
    int64_t store_ns = store_us * 1000;
    int64_t low = store_ns - got_ns, high = store_ns - sent_ns;
    int64_t slack =
        RN_SHARD_SKEW_STEP_NS + (got_ns - before.at_ns) / 1000 * RN_SHARD_SKEW_DRIFT_PER_MILLE;

    *skew = (struct rn_shard_skew){.known = true, .low_ns = low, .high_ns = high, .at_ns = got_ns};
    if (!before.known)
        return 0;
    if (low > before.high_ns + slack)
        return low - before.high_ns;
    if (high < before.low_ns - slack)
        return high - before.low_ns;
    /* A slow reply brackets badly: keep a much narrower bracket. */
    if (high - low > before.high_ns - before.low_ns + slack)
        *skew = before;
    return 0;
}

/* --- the breaker -------------------------------------------------------------------- */

static void note_state(struct rn_shard *shard)
{
    struct rn_shard_counts *c = &shard->counts;

    rn_redis_count(&shard->totals->connects, shard->link.attempts - atomic_load(&c->connects));
    rn_redis_count(&shard->totals->opened, shard->breaker.opened - atomic_load(&c->opened));
    atomic_store_explicit(&c->connects, shard->link.attempts, memory_order_relaxed);
    atomic_store_explicit(&c->opened, shard->breaker.opened, memory_order_relaxed);
    atomic_store_explicit(&c->open, shard->breaker.open, memory_order_relaxed);
    atomic_store_explicit(&c->up, shard->link.up, memory_order_relaxed);
}

static void close_breaker(struct rn_shard *shard)
{
    bool was_open = rn_breaker_succeed(&shard->breaker);

    if (was_open && !shard->left)
        rn_log(RN_LOG_INFO, "redis.up", RN_LOG_TEXT("server", rn_slice_of(shard->link.address)),
               RN_LOG_NUMBER("late", atomic_load(&shard->counts.late)),
               RN_LOG_NUMBER("turned_away", atomic_load(&shard->counts.turned_away)));
    note_state(shard);
    if (was_open && shard->link.up)
        shard->events->up(shard->events->arg, shard);
}

static void note_down(struct rn_shard *shard, bool opened, const char *why)
{
    if (opened && !shard->left)
        rn_log(RN_LOG_WARN, "redis.down", RN_LOG_TEXT("reason", rn_slice_of(why)),
               RN_LOG_TEXT("server", rn_slice_of(shard->link.address)));
    note_state(shard);
    set_timer(shard);
    if (shard->breaker.open)
        shard->events->down(shard->events->arg, shard);
}

/* A server that was logged as down and then lost its slots must not be logged as up when it comes
 * back, long after others took its slots. */
void rn_shard_note_slots(struct rn_shard *shard)
{
    bool leaves = shard->slots == 0 && shard->told_slots > 0;

    shard->left = shard->slots == 0 && (shard->left || leaves);
    shard->told_slots = shard->slots;
    if (leaves)
        rn_log(RN_LOG_INFO, "redis.left", RN_LOG_TEXT("server", rn_slice_of(shard->link.address)),
               RN_LOG_TEXT("state", rn_slice_of(shard->breaker.open ? "down" : "up")),
               RN_LOG_NUMBER("late", atomic_load(&shard->counts.late)),
               RN_LOG_NUMBER("turned_away", atomic_load(&shard->counts.turned_away)));
}

void rn_shard_was_late(struct rn_shard *shard)
{
    bool opened =
        rn_breaker_fail(&shard->breaker, rn_timing_now(shard->link.loop), random_number());

    if (opened)
        note_down(shard, opened, "no answer in time");
}

void rn_shard_has_answered(struct rn_shard *shard, int64_t store_us, int64_t sent_ns,
                           int64_t got_ns)
{
    int64_t skew_us = store_us - rn_clock_wall_ns() / 1000;
    int64_t step_ns = rn_shard_note_skew(&shard->skew, store_us, sent_ns, got_ns);

    if (step_ns != 0) {
        rn_redis_count(&shard->counts.clock_steps, 1);
        rn_redis_count(&shard->totals->clock_steps, 1);
        rn_log(RN_LOG_WARN, "redis.clock", RN_LOG_NUMBER("stepped_ms", step_ns / 1000000),
               RN_LOG_TEXT("server", rn_slice_of(shard->link.address)));
    }
    atomic_store_explicit(&shard->counts.skew_us, skew_us, memory_order_relaxed);
    atomic_store_explicit(&shard->totals->skew_us, skew_us, memory_order_relaxed);
    if (shard->breaker.open || shard->breaker.failures > 0)
        close_breaker(shard);
}

static void on_probed(void *arg, const redisReply *reply)
{
    struct rn_shard *shard = arg;

    if (reply && reply->type != REDIS_REPLY_ERROR)
        close_breaker(shard);
    else
        rn_breaker_probe_failed(&shard->breaker, rn_timing_now(shard->link.loop), random_number());
    set_timer(shard);
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_shard *shard = (struct rn_shard *)((char *)timer - offsetof(struct rn_shard, timer));
    const char *ping[] = {"PING"};
    int64_t now_ns = rn_timing_now(shard->link.loop);

    if (shard->link.up && rn_breaker_probe(&shard->breaker, now_ns) &&
        !rn_link_send(&shard->link, 1, ping, NULL, on_probed, shard))
        rn_breaker_probe_failed(&shard->breaker, now_ns, random_number());
    set_timer(shard);
}

bool rn_shard_send(struct rn_shard *shard, int argc, const char **argv, const size_t *lens,
                   rn_link_reply *reply, void *arg)
{
    if (!rn_link_send(&shard->link, argc, argv, lens, reply, arg))
        return false;
    shard->used_ns = rn_timing_now(shard->link.loop);
    rn_redis_count(&shard->counts.trips, 1);
    return true;
}

/* --- events of the link ---------------------------------------------------------------- */

static void on_seek(void *arg)
{
    struct rn_shard *shard = arg;

    shard->events->seek(shard->events->arg, shard);
}

static void on_up(void *arg)
{
    struct rn_shard *shard = arg;
    bool was_open = shard->breaker.open;

    close_breaker(shard);
    if (!was_open)
        shard->events->up(shard->events->arg, shard);
}

static void on_down(void *arg, const char *why)
{
    struct rn_shard *shard = arg;
    bool opened =
        rn_breaker_trip(&shard->breaker, rn_timing_now(shard->link.loop), random_number());

    note_down(shard, opened, why);
}

static void on_later(void *arg)
{
    struct rn_shard *shard = arg;

    shard->events->later(shard->events->arg, shard);
}

static void on_changed(void *arg)
{
    struct rn_shard *shard = arg;

    rn_log(RN_LOG_WARN, "redis.changed", RN_LOG_TEXT("server", rn_slice_of(shard->link.address)),
           RN_LOG_NUMBER("lost_bytes", shard->link.history.lost));
    rn_shard_doubt(shard);
}

/* --- start and end --------------------------------------------------------------------- */

struct rn_shard *rn_shard_new(struct rn_loop *loop, const struct rn_link_options *options,
                              const char *address, const struct rn_shard_events *events,
                              struct rn_redis_counts *totals)
{
    struct rn_shard *shard = calloc(1, sizeof *shard);

    if (!shard)
        return NULL;
    shard->events = events;
    shard->totals = totals;
    shard->timer.fire = on_timer;
    shard->link_events = (struct rn_link_events){
        .arg = shard, .up = on_up, .down = on_down, .later = on_later, .changed = on_changed};
    if (address[0] == '\0')
        shard->link_events.seek = on_seek;
    if (!rn_link_init(&shard->link, loop, options, address, &shard->link_events)) {
        free(shard);
        return NULL;
    }
    shard->used_ns = rn_timing_now(shard->link.loop);
    return shard;
}

void rn_shard_free(struct rn_shard *shard)
{
    if (!shard)
        return;
    rn_link_done(&shard->link);
    rn_timer_cancel(rn_loop_wheel(shard->link.loop), &shard->timer);
    free(shard);
}
