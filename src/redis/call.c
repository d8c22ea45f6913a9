/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call {
    struct rn_link *link;
    enum rn_script script;
    rn_link_reply *reply;
    void *arg;
    size_t key_count, word_count;
    size_t lens[RN_CALL_KEYS + RN_CALL_ARGS];
    char words[]; /* keys, then arguments, one behind the other */
};

static void on_reply(void *arg, const redisReply *reply);

static bool send_call(struct call *call, bool in_full)
{
    static const size_t fixed = 3;
    const struct rn_script_text *script = &rn_scripts[call->script];
    const char *argv[3 + RN_CALL_KEYS + RN_CALL_ARGS], *word = call->words;
    size_t lens[3 + RN_CALL_KEYS + RN_CALL_ARGS];
    char count[24];

    argv[0] = in_full ? "EVAL" : "EVALSHA";
    lens[0] = strlen(argv[0]);
    argv[1] = in_full ? script->text.data : script->sha;
    lens[1] = in_full ? script->text.len : sizeof script->sha - 1;
    argv[2] = count;
    lens[2] = (size_t)snprintf(count, sizeof count, "%zu", call->key_count);
    for (size_t i = 0; i < call->word_count; word += call->lens[i], i++) {
        argv[fixed + i] = word;
        lens[fixed + i] = call->lens[i];
    }
    return rn_link_send(call->link, (int)(fixed + call->word_count), argv, lens, on_reply, call);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct call *call = arg;

    if (reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0 &&
        send_call(call, true))
        return;
    call->reply(call->arg, reply);
    free(call);
}

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

bool rn_call_begin(struct rn_link *link, const struct rn_call_ask *ask)
{
    struct call *call;

    if (!link->up || ask->key_count > RN_CALL_KEYS || ask->arg_count > RN_CALL_ARGS)
        return false;
    call = malloc(sizeof *call + measure(ask->keys, ask->key_count) +
                  measure(ask->args, ask->arg_count));
    if (!call)
        return false;
    *call = (struct call){.link = link,
                          .script = ask->script,
                          .reply = ask->reply,
                          .arg = ask->arg,
                          .key_count = ask->key_count};
    append(call, append(call, call->words, ask->keys, ask->key_count), ask->args, ask->arg_count);
    if (send_call(call, false))
        return true;
    free(call);
    return false;
}
