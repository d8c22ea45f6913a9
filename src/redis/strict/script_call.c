/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/strict/script_call.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/cluster/redirect.h"
#include "redis/codec.h"
#include "redis/timing.h"

static bool is_over(const struct rn_script_call *call)
{
    return rn_timing_now(call->calls->routes->loop) >= call->until_ns;
}

static void end_unrun(struct rn_script_call *call)
{
    static char text[] = "ERR not run, and there was no time to send it again";
    redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = sizeof text - 1};

    call->ops->ended(call, &reply);
}

/* --- sending ------------------------------------------------------------------------ */

static void on_reply(void *arg, const redisReply *reply);

/* A command while it is put together. Besides the words of the caller: EVALSHA, the script, the
 * number of keys, the history, its id, and how long to reckon with lost states. */
struct command {
    const char *argv[6 + RN_SCRIPT_CALL_WORDS];
    size_t lens[6 + RN_SCRIPT_CALL_WORDS];
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

static void put_together(struct command *c, const struct rn_script_call *call, size_t keys,
                         const struct rn_slice *words, size_t count)
{
    const struct rn_script_text *script = &rn_scripts[call->script];
    bool cluster = call->calls->routes->url->kind == RN_URL_CLUSTER;
    bool leases = rn_script_leases(call->script);
    bool with_history = leases && !call->bare && !call->guest;

    c->argc = 0;
    add(c, call->in_full ? "EVAL" : "EVALSHA", call->in_full ? 4 : 7);
    add(c, call->in_full ? script->text.data : script->sha,
        call->in_full ? script->text.len : sizeof script->sha - 1);
    add(c, c->count, (size_t)snprintf(c->count, sizeof c->count, "%zu", keys + with_history));
    add_words(c, words, keys);
    if (with_history)
        add(c, c->history,
            cluster ? rn_codec_history_of(words[0], c->history)
                    : rn_codec_history_name(RN_CODEC_TAGS, c->history));
    add_words(c, words + keys, count - keys);
    if (with_history || call->script == RN_SCRIPT_HISTORY) {
        rn_history_short(&call->shard->link.history, c->id);
        add(c, c->id, RN_HISTORY_SHORT);
    } else if (leases) {
        add(c, "", 0);
    }
    if (leases)
        add(c, c->doubt,
            (size_t)snprintf(c->doubt, sizeof c->doubt, "%" PRId64,
                             rn_codec_us(rn_shard_doubt_ns(call->shard))));
}

bool rn_script_call_send(struct rn_script_call *call, size_t keys, const struct rn_slice *words,
                         size_t count)
{
    const char *asking[] = {"ASKING"};
    struct command command;

    assert(count <= RN_SCRIPT_CALL_WORDS);
    if (rn_link_room(&call->shard->link) < 2)
        return false;
    put_together(&command, call, keys, words, count);
    if (call->guest && !rn_shard_send(call->shard, 1, asking, NULL, NULL, NULL))
        return false;
    return rn_shard_send(call->shard, command.argc, command.argv, command.lens, on_reply, call);
}

bool rn_script_call_begin(struct rn_script_call *call)
{
    call->shard = call->guest ? call->guest : rn_routes_owner(call->calls->routes, call->slot);
    return call->shard && rn_shard_is_up(call->shard) && call->ops->send(call);
}

/* --- parked calls ---------------------------------------------------------------------- */

static void park(struct rn_script_call *call)
{
    struct rn_script_caller *calls = call->calls;

    call->next = calls->parked;
    calls->parked = call;
    if (!rn_timer_is_set(&calls->timer))
        rn_timing_in(calls->routes->loop, &calls->timer, RN_SCRIPT_CALL_AGAIN_NS);
}

void rn_script_call_retry(struct rn_script_caller *calls)
{
    struct rn_script_call *call = calls->parked, *next;

    calls->parked = NULL;
    for (; call; call = next) {
        next = call->next;
        if (is_over(call))
            end_unrun(call);
        else if (!rn_script_call_begin(call))
            park(call);
    }
}

static void on_timer(struct rn_timer *timer)
{
    rn_script_call_retry(
        (struct rn_script_caller *)((char *)timer - offsetof(struct rn_script_caller, timer)));
}

static void send_or_park(struct rn_script_call *call)
{
    if (!rn_script_call_begin(call))
        park(call);
}

/* --- replies --------------------------------------------------------------------------- */

static bool split(struct rn_script_call *call)
{
    return call->ops->split && call->ops->split(call);
}

static void fail(struct rn_script_call *call, const redisReply *reply, const char *why)
{
    rn_shard_refuses(call->shard, call->script, why);
    call->ops->ended(call, reply);
}

static void follow(struct rn_script_call *call, const redisReply *reply,
                   struct rn_redirect *redirect)
{
    struct rn_routes *routes = call->calls->routes;
    bool moved = redirect->kind == RN_REDIRECT_MOVED;

    if (routes->url->kind != RN_URL_CLUSTER) {
        fail(call, reply, "the server is a cluster node: write redis+cluster://");
        return;
    }
    rn_redis_count(moved ? &call->calls->counts->moved : &call->calls->counts->asked, 1);
    rn_redirect_complete(redirect->address, call->shard->link.address);
    if (moved)
        rn_routes_patch(routes, redirect->slot, redirect->address);
    else if (split(call))
        return;
    call->guest = moved ? NULL : rn_routes_find(routes, redirect->address);
    if (++call->hops > RN_SCRIPT_CALL_HOPS || (!moved && !call->guest) || is_over(call))
        call->ops->ended(call, reply);
    else
        send_or_park(call);
}

static void send_later(struct rn_script_call *call, const redisReply *reply)
{
    if (is_over(call)) {
        call->ops->ended(call, reply);
        return;
    }
    call->guest = NULL;
    rn_redis_count(&call->calls->counts->resent, 1);
    park(call);
}

static void send_in_full(struct rn_script_call *call, const redisReply *reply)
{
    if (call->in_full || is_over(call)) {
        call->ops->ended(call, reply);
        return;
    }
    call->in_full = true;
    rn_redis_count(&call->calls->counts->resent, 1);
    send_or_park(call);
}

/* A key and its history are on different servers: tries without the history. */
static bool send_bare(struct rn_script_call *call)
{
    if (!rn_script_leases(call->script) || call->bare || is_over(call))
        return false;
    call->bare = true;
    rn_redis_count(&call->calls->counts->resent, 1);
    send_or_park(call);
    return true;
}

static void take_error(struct rn_script_call *call, const redisReply *reply)
{
    struct rn_redirect redirect;

    rn_redirect_parse(reply->str, &redirect);
    switch (redirect.kind) {
    case RN_REDIRECT_FAILED:
        fail(call, reply, reply->str);
        return;
    case RN_REDIRECT_NO_SCRIPT:
        send_in_full(call, reply);
        return;
    case RN_REDIRECT_MOVED:
    case RN_REDIRECT_ASK:
        follow(call, reply, &redirect);
        return;
    case RN_REDIRECT_TRY_AGAIN:
        if (split(call) || send_bare(call))
            return;
        call->hops = 0; /* the next attempt starts at the owner of the slot again */
        if (call->ops->step_aside)
            call->ops->step_aside(call);
        send_later(call, reply);
        return;
    case RN_REDIRECT_NOT_HERE:
        rn_link_leave(&call->shard->link, reply->str);
        break;
    case RN_REDIRECT_NOT_NOW:
        break;
    case RN_REDIRECT_NO_OWNER:
        rn_routes_refresh(call->calls->routes);
        break;
    }
    if (call->again) {
        call->ops->ended(call, reply);
        return;
    }
    call->again = true;
    send_later(call, reply);
}

bool rn_script_call_read(const redisReply *reply, uint64_t nonce, size_t count,
                         struct rn_script_call_answers *out)
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

void rn_script_call_mismatch(struct rn_script_call *call)
{
    rn_redis_count(&call->calls->counts->mismatches, 1);
    rn_link_distrust(&call->shard->link, "a reply does not match its call");
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct rn_script_call *call = arg;

    if (!reply) {
        call->ops->ended(call, NULL);
        return;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        take_error(call, reply);
        return;
    }
    rn_shard_serves(call->shard, call->script);
    if (call->script < RN_SCRIPTS_STRICT && reply->type == REDIS_REPLY_ARRAY &&
        reply->elements == 2 && reply->element[1]->type == REDIS_REPLY_STRING) {
        rn_shard_refuses_key(call->shard, reply->element[1]->str); /* see batch.lua */
        reply = reply->element[0];
    }
    call->ops->ended(call, reply);
}

/* --- start and end --------------------------------------------------------------------- */

void rn_script_call_init(struct rn_script_caller *calls, struct rn_routes *routes,
                         struct rn_redis_counts *counts)
{
    *calls = (struct rn_script_caller){.routes = routes, .counts = counts};
    calls->timer.fire = on_timer;
}

void rn_script_call_done(struct rn_script_caller *calls)
{
    while (calls->parked) {
        struct rn_script_call *call = calls->parked;

        calls->parked = call->next;
        end_unrun(call);
    }
    rn_timer_cancel(rn_loop_wheel(calls->routes->loop), &calls->timer);
}

/* --- requests ---------------------------------------------------------------------------- */

static_assert(RN_SCRIPT_REQUEST_KEYS + RN_SCRIPT_REQUEST_ARGS <= RN_SCRIPT_CALL_WORDS,
              "words of a request");

struct request {
    struct rn_script_call call; /* first */
    rn_script_reply *reply;
    void *arg;
    size_t key_count, word_count;
    size_t lens[RN_SCRIPT_REQUEST_KEYS + RN_SCRIPT_REQUEST_ARGS];
    char words[]; /* keys, then arguments, one behind the other */
};

static bool send_call(struct rn_script_call *call)
{
    const struct request *request = (const struct request *)call;
    struct rn_slice words[RN_SCRIPT_REQUEST_KEYS + RN_SCRIPT_REQUEST_ARGS];
    const char *word = request->words;

    for (size_t i = 0; i < request->word_count; word += request->lens[i], i++)
        words[i] = (struct rn_slice){word, request->lens[i]};
    return rn_script_call_send(call, request->key_count, words, request->word_count);
}

static void on_ended(struct rn_script_call *call, const redisReply *reply)
{
    struct request *request = (struct request *)call;

    if (!request->reply(request->arg, reply) && reply && reply->type != REDIS_REPLY_ERROR)
        rn_script_call_mismatch(call);
    free(request);
}

static const struct rn_script_call_ops call_ops = {.send = send_call, .ended = on_ended};

static size_t measure(const struct rn_slice *words, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += words[i].len;
    return bytes;
}

static char *append(struct request *request, char *at, const struct rn_slice *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(at, words[i].data, words[i].len);
        at += words[i].len;
        request->lens[request->word_count++] = words[i].len;
    }
    return at;
}

bool rn_script_call_request(struct rn_script_caller *calls, const struct rn_script_request *ask)
{
    struct request *request;

    if (ask->key_count == 0 || ask->key_count > RN_SCRIPT_REQUEST_KEYS ||
        ask->arg_count > RN_SCRIPT_REQUEST_ARGS)
        return false;
    request = malloc(sizeof *request + measure(ask->keys, ask->key_count) +
                     measure(ask->args, ask->arg_count));
    if (!request)
        return false;
    *request = (struct request){.call = {.ops = &call_ops,
                                         .calls = calls,
                                         .script = ask->script,
                                         .slot = rn_hash_slot_of(ask->keys[0]),
                                         .until_ns = ask->until_ns},
                                .reply = ask->reply,
                                .arg = ask->arg,
                                .key_count = ask->key_count};
    append(request, append(request, request->words, ask->keys, ask->key_count), ask->args,
           ask->arg_count);
    if (rn_script_call_begin(&request->call)) {
        rn_redis_count(&calls->counts->others, 1);
        return true;
    }
    free(request);
    return false;
}
