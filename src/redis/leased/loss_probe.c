/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether servers have lost data. The probe asks each server for the start of its history
 * (scripts/history.lua), in a cluster for each tag, so that the history starts before the first key
 * needs it. It asks again when a server may have lost data: otherwise the first client of a rarely
 * used tag would notice, much later, and be refused for it. A server that was flushed does not
 * report it, so the probe asks for one tag of each server all the time.
 */
#include <stdio.h>

#include "redis/leased/leased_internal.h"
#include "redis/timing.h"

#define MS INT64_C(1000000)
#define SOON_NS (20 * MS)  /* between ticks, until all histories are long enough */
#define LOOK_NS (250 * MS) /* between ticks afterwards; after an error */
#define ROUND_LOOKS 240    /* ticks, after which all tags are asked again in any case */
#define AT_ONCE 64         /* calls in flight */
#define LONGEST_US (RN_SHARD_DOUBT_NS / 1000)

static void begin_round(struct rn_loss_probe *probe)
{
    probe->next = 0;
    probe->looks = 0;
    probe->failed = false;
}

static void ask_some(struct rn_leased *leased);

/* If one tag has a new history, other tags of its server have probably lost data as well. */
static void note_since(struct rn_loss_probe *probe, struct rn_loss_probe_tag *tag, int64_t since_us)
{
    bool lost = tag->since_us != 0 && tag->since_us != since_us;

    tag->since_us = since_us;
    if (lost && !probe->has_lost) {
        begin_round(probe);
        probe->has_lost = true;
    }
}

static bool is_history(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
           reply->element[1]->type == REDIS_REPLY_INTEGER &&
           reply->element[2]->type == REDIS_REPLY_INTEGER;
}

static bool on_history(void *arg, const redisReply *reply)
{
    struct rn_loss_probe_tag *tag = arg;
    struct rn_leased *leased = tag->leased;
    struct rn_loss_probe *probe = &leased->loss_probe;

    tag->asked = false;
    if (!rn_leased_goes_on(leased))
        return true;
    probe->asked--;
    if (!is_history(reply)) {
        probe->failed = true;
        probe->next = probe->count; /* other calls would fail as well: try later */
        if (!leased->stopping)
            rn_timing_in(leased->loop, &leased->loss_probe.timer, LOOK_NS);
        return false;
    }
    int64_t age_us = reply->element[2]->integer;
    int64_t age_ns = age_us < LONGEST_US ? age_us * 1000 : RN_SHARD_DOUBT_NS;
    int64_t whole_ns = rn_timing_now(leased->loop) + RN_SHARD_DOUBT_NS - age_ns;

    probe->whole_ns = whole_ns > probe->whole_ns ? whole_ns : probe->whole_ns;
    note_since(probe, tag, reply->element[1]->integer - age_us);
    ask_some(leased);
    return true;
}

static size_t name_of(const struct rn_loss_probe *probe, unsigned number, char out[RN_CODEC_NAME])
{
    return rn_codec_history_name(probe->count > 1 ? number : RN_CODEC_TAGS, out);
}

static bool ask(struct rn_leased *leased, unsigned number)
{
    struct rn_loss_probe *probe = &leased->loss_probe;
    char name[RN_CODEC_NAME], text[24];
    const struct rn_slice key = {name, name_of(probe, number, name)};
    const struct rn_slice arg = {
        text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)++leased->calls)};
    const struct rn_script_request ask = {.script = RN_SCRIPT_HISTORY,
                                          .keys = &key,
                                          .key_count = 1,
                                          .args = &arg,
                                          .arg_count = 1,
                                          .reply = on_history,
                                          .arg = &probe->tags[number]};

    if (probe->tags[number].asked)
        return true;
    if (!rn_redis_call(leased->redis, &ask))
        return false;
    probe->tags[number] = (struct rn_loss_probe_tag){
        .leased = leased, .since_us = probe->tags[number].since_us, .asked = true};
    leased->in_flight++;
    probe->asked++;
    return true;
}

static void ask_some(struct rn_leased *leased)
{
    struct rn_loss_probe *probe = &leased->loss_probe;

    while (!leased->stopping && probe->next < probe->count && probe->asked < AT_ONCE &&
           ask(leased, probe->next))
        probe->next++;
}

/* Asks each server for its first tag. */
static void ask_each_server(struct rn_leased *leased)
{
    struct rn_loss_probe *probe = &leased->loss_probe;
    bool seen[RN_SHARDS + 1] = {[RN_SHARDS] = true};
    char name[RN_CODEC_NAME];

    for (unsigned i = 0; i < probe->count; i++) {
        unsigned server =
            rn_redis_server(leased->redis, (struct rn_slice){name, name_of(probe, i, name)});

        if (!seen[server])
            ask(leased, i);
        seen[server] = true;
    }
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_leased *leased =
        (struct rn_leased *)((char *)timer - offsetof(struct rn_leased, loss_probe.timer));
    struct rn_loss_probe *probe = &leased->loss_probe;
    bool over = probe->next == probe->count && probe->asked == 0;

    if (over && !probe->failed && rn_timing_now(leased->loop) >= probe->whole_ns)
        atomic_store_explicit(&probe->is_whole, true, memory_order_relaxed);
    if (over) {
        probe->has_lost = false;
        if (probe->failed || ++probe->looks >= ROUND_LOOKS || rn_redis_doubts(leased->redis))
            begin_round(probe);
        else
            ask_each_server(leased);
    }
    ask_some(leased);
    rn_timing_in(leased->loop, &leased->loss_probe.timer,
                 rn_leased_is_whole(leased) ? LOOK_NS : SOON_NS);
}

void rn_loss_probe_begin(struct rn_leased *leased)
{
    leased->loss_probe.count = rn_redis_tags(leased->redis);
    leased->loss_probe.timer.fire = on_timer;
    rn_timing_in(leased->loop, &leased->loss_probe.timer, 0);
}

void rn_loss_probe_end(struct rn_leased *leased)
{
    rn_timer_cancel(rn_loop_wheel(leased->loop), &leased->loss_probe.timer);
}
