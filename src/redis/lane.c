/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/error.h>

#include "redis/code.h"

bool rn_lane_init(struct rn_lane *lane, enum rn_script script, struct rn_link *link,
                  const struct rn_lane_events *events)
{
    *lane = (struct rn_lane){.script = script, .link = link, .events = events};
    lane->queue = calloc(RN_LANE_QUEUE, sizeof *lane->queue);
    return lane->queue != NULL;
}

void rn_lane_done(struct rn_lane *lane)
{
    free(lane->queue);
    lane->queue = NULL;
}

bool rn_lane_add(struct rn_lane *lane, struct rn_job *job, size_t index)
{
    if (lane->count == RN_LANE_QUEUE)
        return false;
    lane->queue[(lane->first + lane->count) % RN_LANE_QUEUE] =
        (struct rn_seat){.job = job, .life = job->life, .index = index};
    lane->count++;
    return true;
}

static bool is_awaited(const struct rn_seat *seat)
{
    return seat->job->life == seat->life;
}

static void answer(struct rn_lane *lane, const struct rn_seat *seat, int error)
{
    if (!is_awaited(seat))
        return;
    struct rn_charge *charge = &seat->job->batch[seat->index];

    if (error != 0)
        charge->error = error;
    lane->events->answered(lane->events->arg, seat->job, charge);
}

/* The call has ended. Those who hear of it may add to the lane, not send. */
static void fail_sent(struct rn_lane *lane, int error)
{
    size_t count = lane->sent_count;

    lane->in_flight = false;
    lane->sent_count = 0;
    for (size_t i = 0; i < count; i++)
        answer(lane, &lane->sent[i], error);
}

static void on_reply(void *arg, const redisReply *reply);

/* Of the charges in `sent`: the script by its hash, or in full. */
static bool send_call(struct rn_lane *lane, bool in_full)
{
    static const size_t fixed = 3;
    const struct rn_script_text *script = &rn_scripts[lane->script];
    char names[RN_LANE_BATCH][RN_CODE_NAME], arguments[RN_LANE_BATCH][RN_CODE_BYTES];
    char count[24], nonce[24];
    const char *argv[3 + RN_LANE_BATCH + 1 + RN_LANE_BATCH];
    size_t lens[3 + RN_LANE_BATCH + 1 + RN_LANE_BATCH], n = lane->sent_count;

    argv[0] = in_full ? "EVAL" : "EVALSHA";
    lens[0] = strlen(argv[0]);
    argv[1] = in_full ? script->text.data : script->sha;
    lens[1] = in_full ? script->text.len : sizeof script->sha - 1;
    argv[2] = count;
    lens[2] = (size_t)snprintf(count, sizeof count, "%zu", n);
    argv[fixed + n] = nonce;
    lens[fixed + n] =
        (size_t)snprintf(nonce, sizeof nonce, "%llu", (unsigned long long)++lane->nonce);
    for (size_t i = 0; i < n; i++) {
        const struct rn_charge *charge = &lane->sent[i].job->batch[lane->sent[i].index];

        argv[fixed + i] = names[i];
        lens[fixed + i] = rn_code_name(charge, names[i]);
        argv[fixed + n + 1 + i] = arguments[i];
        lens[fixed + n + 1 + i] = rn_code_write(charge, arguments[i]);
    }
    lane->in_full = in_full;
    lane->in_flight =
        rn_link_send(lane->link, (int)(fixed + 2 * n + 1), argv, lens, on_reply, lane);
    lane->calls += lane->in_flight;
    return lane->in_flight;
}

/* NOSCRIPT: nothing was run, so the same may be sent once more, in full, for those
 * that are still awaited. */
static void send_again(struct rn_lane *lane)
{
    size_t kept = 0;

    for (size_t i = 0; i < lane->sent_count; i++)
        if (is_awaited(&lane->sent[i]))
            lane->sent[kept++] = lane->sent[i];
    lane->sent_count = kept;
    lane->in_flight = false;
    lane->resent += kept > 0;
    if (kept > 0 && !send_call(lane, true))
        fail_sent(lane, RATION_ESTORE);
}

static bool reads_whole(const redisReply *reply, const char *nonce, size_t charges)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 + RN_CODE_NUMBERS * charges ||
        reply->element[0]->type != REDIS_REPLY_STRING || strcmp(reply->element[0]->str, nonce) != 0)
        return false;
    for (size_t i = 1; i < reply->elements; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
    return true;
}

static void read_answers(struct rn_lane *lane, const redisReply *reply)
{
    size_t count = lane->sent_count;

    lane->in_flight = false;
    lane->sent_count = 0;
    lane->events->replied(lane->events->arg, reply->element[1]->integer);
    for (size_t i = 0; i < count; i++) {
        const struct rn_seat *seat = &lane->sent[i];
        long long numbers[RN_CODE_NUMBERS];

        for (size_t j = 0; j < RN_CODE_NUMBERS; j++)
            numbers[j] = reply->element[2 + RN_CODE_NUMBERS * i + j]->integer;
        if (!is_awaited(seat))
            continue;
        rn_code_read(&seat->job->batch[seat->index], numbers);
        answer(lane, seat, 0);
    }
}

/* Answers that mean that the server cannot serve us, and another connection might:
 * it became a replica, or reads its data. Nothing was run. */
static bool is_elsewhere(const char *error)
{
    return strncmp(error, "READONLY", 8) == 0 || strncmp(error, "MASTERDOWN", 10) == 0 ||
           strncmp(error, "LOADING", 7) == 0 || strncmp(error, "NOAUTH", 6) == 0;
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct rn_lane *lane = arg;
    char nonce[24];

    snprintf(nonce, sizeof nonce, "%llu", (unsigned long long)lane->nonce);
    if (!reply) {
        fail_sent(lane, RATION_ESTORE); /* lost: it may have been run, and is not sent again */
    } else if (reply->type == REDIS_REPLY_ERROR) {
        if (strncmp(reply->str, "NOSCRIPT", 8) == 0 && !lane->in_full) {
            send_again(lane);
            return;
        }
        if (is_elsewhere(reply->str))
            rn_link_distrust(lane->link, reply->str);
        fail_sent(lane, RATION_ESTORE);
    } else if (reads_whole(reply, nonce, lane->sent_count)) {
        read_answers(lane, reply);
    } else {
        lane->mismatches++;
        rn_link_distrust(lane->link, "the reply to another call");
        fail_sent(lane, RATION_ESTORE);
    }
    if (lane->count > 0)
        rn_link_call_later(lane->link);
}

void rn_lane_send(struct rn_lane *lane)
{
    if (lane->in_flight)
        return;
    while (lane->count > 0 && lane->sent_count < RN_LANE_BATCH) {
        const struct rn_seat *seat = &lane->queue[lane->first];

        if (is_awaited(seat))
            lane->sent[lane->sent_count++] = *seat;
        lane->first = (lane->first + 1) % RN_LANE_QUEUE;
        lane->count--;
    }
    if (lane->sent_count > 0 && !send_call(lane, false))
        fail_sent(lane, RATION_ESTORE);
}
