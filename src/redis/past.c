/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks each store since when it has what was written to it (scripts/history.lua), so that a
 * history begins before the first key needs it: in a cluster those of all tags. And asks
 * again when one may have been broken, lest it be found out by the first who comes to a tag
 * that is rarely used, long after.
 */
#include <stdio.h>
#include <string.h>

#include "net/server.h"
#include "redis/leased_inner.h"

#define MS INT64_C(1000000)
#define SOON_NS (20 * MS)  /* between looks until it is whole */
#define LOOK_NS (500 * MS) /* and whether something may have been lost; after an error */
#define ROUND_LOOKS 120    /* after which all are asked again, whatever it looks like */
#define AT_ONCE 64         /* calls */
#define LONGEST_US (RN_SHARD_DOUBT_NS / 1000)

static int64_t now_of(const struct rn_leased *leased)
{
    return rn_wheel_now(rn_loop_wheel(leased->loop));
}

static void wake_in(struct rn_leased *leased, int64_t ns)
{
    rn_timer_set(rn_loop_wheel(leased->loop), &leased->past.timer, now_of(leased) + ns);
}

static void begin_round(struct rn_past *past)
{
    past->next = 0;
    past->looks = 0;
    past->failed = false;
}

static void ask_some(struct rn_leased *leased);

static void on_told(void *arg, const redisReply *reply)
{
    struct rn_leased *leased = arg;
    struct rn_past *past = &leased->past;

    if (!rn_leased_goes_on(leased))
        return;
    past->asked--;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[2]->type != REDIS_REPLY_INTEGER) {
        past->failed = true;
        past->next = past->count; /* others would fail as well: again later */
        wake_in(leased, LOOK_NS);
        return;
    }
    int64_t age_ns = reply->element[2]->integer < LONGEST_US ? reply->element[2]->integer * 1000
                                                             : RN_SHARD_DOUBT_NS;
    int64_t whole_ns = now_of(leased) + RN_SHARD_DOUBT_NS - age_ns;

    past->whole_ns = whole_ns > past->whole_ns ? whole_ns : past->whole_ns;
    ask_some(leased);
}

static bool ask_next(struct rn_leased *leased)
{
    char name[RN_CODE_NAME], number[24];
    unsigned tag = leased->past.count > 1 ? leased->past.next : RN_CODE_TAGS;
    const struct rn_slice key = {name, rn_code_history(tag, name)};
    const struct rn_slice arg = {number, (size_t)snprintf(number, sizeof number, "%llu",
                                                          (unsigned long long)++leased->calls)};
    const struct rn_call_ask ask = {.script = RN_SCRIPT_HISTORY,
                                    .keys = &key,
                                    .key_count = 1,
                                    .args = &arg,
                                    .arg_count = 1,
                                    .reply = on_told,
                                    .arg = leased};

    if (!rn_remote_call(leased->remote, &ask))
        return false;
    leased->in_flight++;
    leased->past.asked++;
    leased->past.next++;
    return true;
}

static void ask_some(struct rn_leased *leased)
{
    struct rn_past *past = &leased->past;

    while (past->next < past->count && past->asked < AT_ONCE && ask_next(leased))
        ;
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_leased *leased =
        (struct rn_leased *)((char *)timer - offsetof(struct rn_leased, past.timer));
    struct rn_past *past = &leased->past;
    bool over = past->next == past->count && past->asked == 0;

    if (over && !past->failed && now_of(leased) >= past->whole_ns)
        atomic_store_explicit(&past->is_whole, true, memory_order_relaxed);
    if (over && (past->failed || ++past->looks >= ROUND_LOOKS || rn_remote_doubts(leased->remote)))
        begin_round(past);
    ask_some(leased);
    wake_in(leased, rn_leased_is_whole(leased) ? LOOK_NS : SOON_NS);
}

void rn_past_begin(struct rn_leased *leased)
{
    leased->past.count = rn_remote_tags(leased->remote);
    leased->past.timer.fire = on_timer;
    wake_in(leased, 0);
}

void rn_past_end(struct rn_leased *leased)
{
    rn_timer_cancel(rn_loop_wheel(leased->loop), &leased->past.timer);
}
