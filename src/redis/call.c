/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(RN_CALL_KEYS + RN_CALL_ARGS <= RN_TRIP_WORDS, "words of a call");

struct call {
    struct rn_trip trip; /* first */
    rn_link_reply *reply;
    void *arg;
    size_t key_count, word_count;
    size_t lens[RN_CALL_KEYS + RN_CALL_ARGS];
    char words[]; /* keys, then arguments, one behind the other */
};

static bool send_call(struct rn_trip *trip)
{
    const struct call *call = (const struct call *)trip;
    struct rn_slice words[RN_CALL_KEYS + RN_CALL_ARGS];
    const char *word = call->words;

    for (size_t i = 0; i < call->word_count; word += call->lens[i], i++)
        words[i] = (struct rn_slice){word, call->lens[i]};
    return rn_trip_send(trip, call->key_count, words, call->word_count);
}

static void on_ended(struct rn_trip *trip, const redisReply *reply)
{
    struct call *call = (struct call *)trip;

    call->reply(call->arg, reply);
    free(call);
}

static const struct rn_trip_ops call_ops = {.send = send_call, .ended = on_ended};

static size_t measure(const struct rn_slice *words, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += words[i].len;
    return bytes;
}

static char *append(struct call *call, char *at, const struct rn_slice *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(at, words[i].data, words[i].len);
        at += words[i].len;
        call->lens[call->word_count++] = words[i].len;
    }
    return at;
}

bool rn_call_begin(struct rn_trips *trips, const struct rn_call_ask *ask)
{
    struct call *call;

    if (ask->key_count == 0 || ask->key_count > RN_CALL_KEYS || ask->arg_count > RN_CALL_ARGS)
        return false;
    call = malloc(sizeof *call + measure(ask->keys, ask->key_count) +
                  measure(ask->args, ask->arg_count));
    if (!call)
        return false;
    *call = (struct call){.trip = {.ops = &call_ops,
                                   .trips = trips,
                                   .script = ask->script,
                                   .slot = rn_hash_slot_of(ask->keys[0]),
                                   .until_ns = ask->until_ns},
                          .reply = ask->reply,
                          .arg = ask->arg,
                          .key_count = ask->key_count};
    append(call, append(call, call->words, ask->keys, ask->key_count), ask->args, ask->arg_count);
    if (rn_trip_begin(&call->trip)) {
        rn_redis_count(&trips->counts->others, 1);
        return true;
    }
    free(call);
    return false;
}
