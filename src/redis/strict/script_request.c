/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/strict/script_request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(RN_SCRIPT_REQUEST_KEYS + RN_SCRIPT_REQUEST_ARGS <= RN_SCRIPT_CALL_WORDS,
              "words of a call");

struct request {
    struct rn_script_call call; /* first */
    rn_link_reply *reply;
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

    request->reply(request->arg, reply);
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

bool rn_script_request_send(struct rn_script_caller *calls, const struct rn_script_request *ask)
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
