/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks each store since when it has what was written to it (scripts/history.lua), so that a
 * history begins before the first key needs it: in a cluster those of all tags. They are asked
 * again when one may have been broken: otherwise the first client of a tag that is rarely used
 * would find that out, long after, and be refused for it. A server that was emptied says nothing of
 * it, so one tag of each server is asked all the time.
 */
#include <stdio.h>
#include <string.h>

#include "net/server.h"
#include "redis/leased/leased_internal.h"

#define MS INT64_C(1000000)
#define SOON_NS (20 * MS)  /* between looks until it is whole */
#define LOOK_NS (250 * MS) /* and whether something may have been lost; after an error */
#define ROUND_LOOKS 240    /* after which all are asked again, whatever it looks like */
#define AT_ONCE 64         /* calls */
#define LONGEST_US (RN_SHARD_DOUBT_NS / 1000)

static int64_t now_of(const struct rn_leased *leased)
{
    return rn_wheel_now(rn_loop_wheel(leased->loop));
}

static void wake_in(struct rn_leased *leased, int64_t ns)
{
    rn_timer_set(rn_loop_wheel(leased->loop), &leased->loss_probe.timer, now_of(leased) + ns);
}

static void begin_round(struct rn_loss_probe *past)
{
    past->next = 0;
    past->looks = 0;
    past->failed = false;
}

static void ask_some(struct rn_leased *leased);

/* One history that has begun anew is a sign that others of its server have been lost as well. */
static void note_since(struct rn_loss_probe *past, struct rn_loss_probe_tag *tag, int64_t since_us)
{
    bool lost = tag->since_us != 0 && tag->since_us != since_us;

    tag->since_us = since_us;
    if (lost && !past->has_lost) {
        begin_round(past);
        past->has_lost = true;
    }
}

static bool is_told(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
           reply->element[1]->type == REDIS_REPLY_INTEGER &&
           reply->element[2]->type == REDIS_REPLY_INTEGER;
}

static void on_told(void *arg, const redisReply *reply)
{
    struct rn_loss_probe_tag *tag = arg;
    struct rn_leased *leased = tag->leased;
    struct rn_loss_probe *past = &leased->loss_probe;

    tag->asked = false;
    if (!rn_leased_goes_on(leased))
        return;
    past->asked--;
    if (!is_told(reply)) {
        past->failed = true;
        past->next = past->count; /* others would fail as well: again later */
        wake_in(leased, LOOK_NS);
        return;
    }
    int64_t age_us = reply->element[2]->integer;
    int64_t age_ns = age_us < LONGEST_US ? age_us * 1000 : RN_SHARD_DOUBT_NS;
    int64_t whole_ns = now_of(leased) + RN_SHARD_DOUBT_NS - age_ns;

    past->whole_ns = whole_ns > past->whole_ns ? whole_ns : past->whole_ns;
    note_since(past, tag, reply->element[1]->integer - age_us);
    ask_some(leased);
}

static size_t name_of(const struct rn_loss_probe *past, unsigned number, char out[RN_CODEC_NAME])
{
    return rn_codec_history_name(past->count > 1 ? number : RN_CODEC_TAGS, out);
}

static bool ask(struct rn_leased *leased, unsigned number)
{
    struct rn_loss_probe *past = &leased->loss_probe;
    char name[RN_CODEC_NAME], text[24];
    const struct rn_slice key = {name, name_of(past, number, name)};
    const struct rn_slice arg = {
        text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)++leased->calls)};
    const struct rn_script_request ask = {.script = RN_SCRIPT_HISTORY,
                                          .keys = &key,
                                          .key_count = 1,
                                          .args = &arg,
                                          .arg_count = 1,
                                          .reply = on_told,
                                          .arg = &past->tags[number]};

    if (past->tags[number].asked)
        return true;
    if (!rn_redis_call(leased->redis, &ask))
        return false;
    past->tags[number] = (struct rn_loss_probe_tag){
        .leased = leased, .since_us = past->tags[number].since_us, .asked = true};
    leased->in_flight++;
    past->asked++;
    return true;
}

static void ask_some(struct rn_leased *leased)
{
    struct rn_loss_probe *past = &leased->loss_probe;

    while (past->next < past->count && past->asked < AT_ONCE && ask(leased, past->next))
        past->next++;
}

/* The first tag that each server has. */
static void ask_each_server(struct rn_leased *leased)
{
    struct rn_loss_probe *past = &leased->loss_probe;
    bool seen[RN_SHARDS + 1] = {[RN_SHARDS] = true};
    char name[RN_CODEC_NAME];

    for (unsigned i = 0; i < past->count; i++) {
        unsigned server =
            rn_redis_server(leased->redis, (struct rn_slice){name, name_of(past, i, name)});

        if (!seen[server])
            ask(leased, i);
        seen[server] = true;
    }
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_leased *leased =
        (struct rn_leased *)((char *)timer - offsetof(struct rn_leased, loss_probe.timer));
    struct rn_loss_probe *past = &leased->loss_probe;
    bool over = past->next == past->count && past->asked == 0;

    if (over && !past->failed && now_of(leased) >= past->whole_ns)
        atomic_store_explicit(&past->is_whole, true, memory_order_relaxed);
    if (over) {
        past->has_lost = false;
        if (past->failed || ++past->looks >= ROUND_LOOKS || rn_redis_doubts(leased->redis))
            begin_round(past);
        else
            ask_each_server(leased);
    }
    ask_some(leased);
    wake_in(leased, rn_leased_is_whole(leased) ? LOOK_NS : SOON_NS);
}

void rn_loss_probe_begin(struct rn_leased *leased)
{
    leased->loss_probe.count = rn_redis_tags(leased->redis);
    leased->loss_probe.timer.fire = on_timer;
    wake_in(leased, 0);
}

void rn_loss_probe_end(struct rn_leased *leased)
{
    rn_timer_cancel(rn_loop_wheel(leased->loop), &leased->loss_probe.timer);
}
