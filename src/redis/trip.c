/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/trip.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "net/server.h"
#include "redis/cluster/redirect.h"
#include "redis/codec.h"

static int64_t now_of(const struct rn_trips *trips)
{
    return rn_wheel_now(rn_loop_wheel(trips->routes->loop));
}

static bool is_over(const struct rn_trip *trip)
{
    return now_of(trip->trips) >= trip->until_ns;
}

static void end_unrun(struct rn_trip *trip)
{
    static char text[] = "ERR not run, and there was no time to send it again";
    redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = sizeof text - 1};

    trip->ops->ended(trip, &reply);
}

/* --- sending ------------------------------------------------------------------------ */

static void on_reply(void *arg, const redisReply *reply);

/* A command that is being put together. Besides words: script and its name, the number of keys,
 * the history, its id and the doubt. */
struct command {
    const char *argv[6 + RN_TRIP_WORDS];
    size_t lens[6 + RN_TRIP_WORDS];
    int argc;
    char count[24], history[RN_CODEC_NAME], id[RN_HISTORY_SHORT + 1], doubt[24];
};

static void add(struct command *c, const char *word, size_t len)
{
    c->argv[c->argc] = word;
    c->lens[c->argc++] = len;
}

static void add_words(struct command *c, const struct rn_slice *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(c, words[i].data, words[i].len);
}

static void add_script(struct command *c, const struct rn_trip *trip)
{
    const struct rn_script_text *script = &rn_scripts[trip->script];

    if (trip->in_full) {
        add(c, "EVAL", 4);
        add(c, script->text.data, script->text.len);
    } else {
        add(c, "EVALSHA", 7);
        add(c, script->sha, sizeof script->sha - 1);
    }
}

static void add_history(struct command *c, const struct rn_trip *trip, struct rn_slice key)
{
    bool cluster = trip->trips->routes->url->kind == RN_URL_CLUSTER;

    add(c, c->history,
        cluster ? rn_codec_history_of(key, c->history)
                : rn_codec_history_name(RN_CODEC_TAGS, c->history));
}

static void add_id(struct command *c, const struct rn_trip *trip)
{
    rn_history_short(&trip->shard->link.history, c->id);
    add(c, c->id, RN_HISTORY_SHORT);
}

static void add_doubt(struct command *c, const struct rn_trip *trip)
{
    int64_t us = rn_codec_us(rn_shard_doubt_ns(trip->shard));

    add(c, c->doubt, (size_t)snprintf(c->doubt, sizeof c->doubt, "%" PRId64, us));
}

static void put_together(struct command *c, const struct rn_trip *trip, size_t keys,
                         const struct rn_slice *words, size_t count)
{
    bool leases = rn_script_leases(trip->script);
    bool with_history = leases && !trip->bare && !trip->guest;

    c->argc = 0;
    add_script(c, trip);
    add(c, c->count, (size_t)snprintf(c->count, sizeof c->count, "%zu", keys + with_history));
    add_words(c, words, keys);
    if (with_history)
        add_history(c, trip, words[0]);
    add_words(c, words + keys, count - keys);
    if (with_history || trip->script == RN_SCRIPT_HISTORY)
        add_id(c, trip);
    else if (leases)
        add(c, "", 0);
    if (leases)
        add_doubt(c, trip);
}

bool rn_trip_send(struct rn_trip *trip, size_t keys, const struct rn_slice *words, size_t count)
{
    const char *asking[] = {"ASKING"};
    struct command command;

    assert(count <= RN_TRIP_WORDS);
    if (rn_link_room(&trip->shard->link) < 2)
        return false;
    put_together(&command, trip, keys, words, count);
    if (trip->guest && !rn_shard_send(trip->shard, 1, asking, NULL, NULL, NULL))
        return false;
    return rn_shard_send(trip->shard, command.argc, command.argv, command.lens, on_reply, trip);
}

/* False: nobody can be sent it now. */
static bool try_send(struct rn_trip *trip)
{
    trip->shard = trip->guest ? trip->guest : rn_routes_owner(trip->trips->routes, trip->slot);
    return trip->shard && rn_shard_is_up(trip->shard) && trip->ops->send(trip);
}

bool rn_trip_begin(struct rn_trip *trip)
{
    return try_send(trip);
}

/* --- waiting ------------------------------------------------------------------------ */

static void park(struct rn_trip *trip)
{
    struct rn_trips *trips = trip->trips;

    trip->next = trips->parked;
    trips->parked = trip;
    if (!rn_timer_is_set(&trips->timer))
        rn_timer_set(rn_loop_wheel(trips->routes->loop), &trips->timer,
                     now_of(trips) + RN_TRIP_AGAIN_NS);
}

void rn_trips_retry(struct rn_trips *trips)
{
    struct rn_trip *trip = trips->parked, *next;

    trips->parked = NULL;
    for (; trip; trip = next) {
        next = trip->next;
        if (is_over(trip))
            end_unrun(trip);
        else if (!try_send(trip))
            park(trip);
    }
}

static void on_timer(struct rn_timer *timer)
{
    rn_trips_retry((struct rn_trips *)((char *)timer - offsetof(struct rn_trips, timer)));
}

static void send_or_park(struct rn_trip *trip)
{
    if (!try_send(trip))
        park(trip);
}

/* --- answers ------------------------------------------------------------------------ */

static bool split(struct rn_trip *trip)
{
    return trip->ops->split && trip->ops->split(trip);
}

static void follow(struct rn_trip *trip, const redisReply *reply, struct rn_redirect *redirect)
{
    struct rn_routes *routes = trip->trips->routes;
    bool moved = redirect->kind == RN_REDIRECT_MOVED;

    rn_redis_count(moved ? &trip->trips->counts->moved : &trip->trips->counts->asked, 1);
    rn_redirect_complete(redirect->address, trip->shard->link.address);
    if (moved)
        rn_routes_patch(routes, redirect->slot, redirect->address);
    else if (split(trip))
        return;
    trip->guest = moved ? NULL : rn_routes_find(routes, redirect->address);
    if (++trip->hops > RN_TRIP_HOPS || (!moved && !trip->guest) || is_over(trip))
        trip->ops->ended(trip, reply);
    else
        send_or_park(trip);
}

static void send_later(struct rn_trip *trip, const redisReply *reply)
{
    if (is_over(trip)) {
        trip->ops->ended(trip, reply);
        return;
    }
    trip->guest = NULL;
    rn_redis_count(&trip->trips->counts->resent, 1);
    park(trip);
}

static void send_once_more(struct rn_trip *trip, const redisReply *reply)
{
    if (trip->again) {
        trip->ops->ended(trip, reply);
        return;
    }
    trip->again = true;
    send_later(trip, reply);
}

/* The owner of the slot is asked anew each time: redirections count from there. */
static void send_until_together(struct rn_trip *trip, const redisReply *reply)
{
    trip->hops = 0;
    if (trip->ops->step_aside)
        trip->ops->step_aside(trip);
    send_later(trip, reply);
}

static void send_in_full(struct rn_trip *trip, const redisReply *reply)
{
    if (trip->in_full || is_over(trip)) {
        trip->ops->ended(trip, reply);
        return;
    }
    trip->in_full = true;
    rn_redis_count(&trip->trips->counts->resent, 1);
    send_or_park(trip);
}

/* A key and its history do not go together now. */
static bool send_bare(struct rn_trip *trip)
{
    if (!rn_script_leases(trip->script) || trip->bare || is_over(trip))
        return false;
    trip->bare = true;
    rn_redis_count(&trip->trips->counts->resent, 1);
    send_or_park(trip);
    return true;
}

static void fail(struct rn_trip *trip, const redisReply *reply, const char *why)
{
    rn_shard_refuses(trip->shard, trip->script, why);
    trip->ops->ended(trip, reply);
}

static void take_error(struct rn_trip *trip, const redisReply *reply)
{
    bool cluster = trip->trips->routes->url->kind == RN_URL_CLUSTER;
    struct rn_redirect redirect;

    rn_redirect_parse(reply->str, &redirect);
    switch (redirect.kind) {
    case RN_REDIRECT_FAILED:
        fail(trip, reply, reply->str);
        return;
    case RN_REDIRECT_NO_SCRIPT:
        send_in_full(trip, reply);
        return;
    case RN_REDIRECT_MOVED:
    case RN_REDIRECT_ASK:
        if (cluster)
            follow(trip, reply, &redirect);
        else
            fail(trip, reply, "it is a node of a cluster: write redis+cluster://");
        return;
    case RN_REDIRECT_TRY_AGAIN:
        if (!split(trip) && !send_bare(trip))
            send_until_together(trip, reply);
        return;
    case RN_REDIRECT_NOT_HERE:
        rn_link_leave(&trip->shard->link, reply->str);
        break;
    case RN_REDIRECT_NOT_NOW:
        break;
    case RN_REDIRECT_NO_OWNER:
        rn_routes_refresh(trip->trips->routes);
        break;
    }
    send_once_more(trip, reply);
}

bool rn_trip_read(const redisReply *reply, uint64_t nonce, size_t count,
                  struct rn_trip_answers *out)
{
    char expected[24];
    size_t len = (size_t)snprintf(expected, sizeof expected, "%" PRIu64, nonce);

    if (reply->type != REDIS_REPLY_STRING ||
        reply->len != len + RN_CODEC_NUMBER + RN_CODEC_ANSWER * count ||
        memcmp(reply->str, expected, len) != 0)
        return false;
    rn_codec_numbers(reply->str + len, 1, &out->store_us);
    out->bytes = reply->str + len + RN_CODEC_NUMBER;
    return true;
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct rn_trip *trip = arg;

    if (!reply) {
        trip->ops->ended(trip, NULL);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        take_error(trip, reply);
        return;
    }
    rn_shard_serves(trip->shard, trip->script);
    if (trip->script < RN_SCRIPTS_STRICT && reply->type == REDIS_REPLY_ARRAY &&
        reply->elements == 2 && reply->element[1]->type == REDIS_REPLY_STRING) {
        rn_shard_refuses_key(trip->shard, reply->element[1]->str); /* see batch.lua */
        reply = reply->element[0];
    }
    trip->ops->ended(trip, reply);
}

/* --- life --------------------------------------------------------------------------- */

void rn_trips_init(struct rn_trips *trips, struct rn_routes *routes, struct rn_redis_counts *counts)
{
    *trips = (struct rn_trips){.routes = routes, .counts = counts};
    trips->timer.fire = on_timer;
}

void rn_trips_done(struct rn_trips *trips)
{
    while (trips->parked) {
        struct rn_trip *trip = trips->parked;

        trips->parked = trip->next;
        end_unrun(trip);
    }
    rn_timer_cancel(rn_loop_wheel(trips->routes->loop), &trips->timer);
}
