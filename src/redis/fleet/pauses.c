/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses hold on all nodes. The poll tells whether others have said something new; then, or if this
 * node has, it sends what is new in its log, and hears what is new of the others
 * (scripts/fleet_pauses.lua). Times travel as ages and rests, never as times of a node's clock.
 *
 * A node always sends before it hears. So what it hears is never older than what it knows itself,
 * and a lift made here is not undone by a pause that began before it.
 *
 * If Redis has lost all, nodes send all that their logs have, also what other nodes said first, so
 * that a node that joins gets it, too.
 *
 * Bounds: 64 events in a call, 64 calls in a round. What has left the log before it was sent stays
 * a pause of this node alone. Nothing that is malformed counts, and no pause is longer than 24
 * hours.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/log.h"
#include "redis/fleet/fleet_internal.h"

#define HEARD "512" /* in one call */
#define CALLS 64    /* in one round */
/* An event that was not sent at once is sent as a little older than it is: its age grows while the
 * call is under way, and a lift that came right after a pause must stay the later one. */
#define LATE_NS (INT64_C(10) * 1000000000)
#define OLDER_NS (INT64_C(1) * 1000000000)

/* --- the format -------------------------------------------------------------------------------
 * To Redis "NAME AGE REST", from it "NAME REST". The name is the key of the pause, a hash that is
 * the same on all nodes; Redis gets no text of a caller. */

void rn_fleet_pause_write(struct rn_buf *out, const struct rn_pause_event *event, int64_t now_ns)
{
    int64_t age_ns = now_ns > event->at_ns ? now_ns - event->at_ns : 0;
    int64_t rest_ns = event->ends_ns == 0 ? 0 : event->ends_ns - now_ns;

    if (age_ns > LATE_NS)
        age_ns += OLDER_NS;
    rn_buf_putf(out, "%016" PRIx64 " %" PRId64 " %" PRId64, event->key, age_ns / 1000,
                rest_ns / 1000);
}

bool rn_fleet_pause_read(struct rn_slice text, uint64_t *key, int64_t *rest_ns)
{
    char digits[17] = {0};
    int64_t us = 0;

    if (text.len < 18 || text.len > 28 || text.data[16] != ' ')
        return false;
    memcpy(digits, text.data, 16);
    if (strspn(digits, "0123456789abcdef") != 16)
        return false;
    for (size_t i = 17; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        us = us * 10 + (text.data[i] - '0');
    }
    *key = strtoull(digits, NULL, 16);
    *rest_ns = us * 1000;
    return us <= RATION_PAUSE_MAX_NS / 1000;
}

/* --- hearing ---------------------------------------------------------------------------------- */

/* Whether something was lifted here since the call was sent. Then what came is older than that: it
 * is heard again after the lift was sent. */
static bool lifted_meanwhile(struct rn_fleet *fleet)
{
    struct rn_pause_event *events = fleet->pauses.events;
    uint64_t after = fleet->pauses.told;
    size_t count;

    while ((count = rn_pause_recent(fleet->limiter, &after, events, RN_FLEET_LOT)) != 0)
        for (size_t i = 0; i < count; i++)
            if (events[i].ends_ns == 0 && !events[i].heard)
                return true;
    return false;
}

static void hear(struct rn_fleet *fleet, const redisReply *reply)
{
    struct rn_fleet_pauses *p = &fleet->pauses;
    size_t taken = 0, bad = 0;
    uint64_t key;
    int64_t rest_ns;

    for (size_t i = 4; i < reply->elements; i++) {
        const redisReply *said = reply->element[i];

        if (said->type != REDIS_REPLY_STRING ||
            !rn_fleet_pause_read((struct rn_slice){said->str, said->len}, &key, &rest_ns))
            bad++;
        else
            taken += rn_pause_apply(fleet->limiter, key, rest_ns);
    }
    rn_redis_count(&fleet->counts.pauses_taken, taken);
    rn_redis_count(&fleet->counts.pauses_refused, bad);
    if (bad != 0 && !p->refusing)
        rn_log(
            RN_LOG_WARN, "fleet.pauses_refused", RN_LOG_NUMBER("entries", bad),
            RN_LOG_TEXT("meaning", RN_SLICE("ration:{fleet}:pauses has what this version does not "
                                            "understand; it pauses nothing")));
    p->refusing |= bad != 0;
}

static void take_reply(struct rn_fleet *fleet, const redisReply *reply)
{
    struct rn_fleet_pauses *p = &fleet->pauses;
    uint64_t version = (uint64_t)reply->element[0]->integer;

    p->told = p->sent;
    rn_redis_count(&fleet->counts.pauses_published, (uint64_t)reply->element[2]->integer);
    rn_redis_count(&fleet->counts.pauses_dropped, (uint64_t)reply->element[3]->integer);
    if (version < p->version) { /* Redis has lost the last ones */
        rn_fleet_pauses_doubt(fleet, true);
        return;
    }
    if (lifted_meanwhile(fleet))
        return;
    hear(fleet, reply);
    p->version = version;
    if (reply->element[1]->integer == 0) { /* all is sent and heard */
        p->latest = version;
        p->all = false;
    }
}

/* A call that Redis refuses is logged once. It does not concern the other things that nodes share.
 */
static bool on_pauses(void *arg, const redisReply *reply)
{
    struct rn_fleet *fleet = arg;
    struct rn_fleet_pauses *p = &fleet->pauses;

    if (!reply)
        return rn_fleet_called(fleet, reply, "");
    bool good = rn_fleet_has_types(reply, "iiii");

    fleet->calling = false;
    if (good) {
        take_reply(fleet, reply);
    } else if (!p->failed) {
        const char *why = "the reply is not one of the script";

        rn_log(RN_LOG_WARN, "fleet.pauses_failed",
               RN_LOG_TEXT("reason",
                           rn_slice_of(reply->type == REDIS_REPLY_ERROR ? reply->str : why)));
    }
    p->failed = !good;
    if (!good)
        p->calls = 0; /* again in the next round */
    rn_fleet_go_on(fleet);
    return good || reply->type == REDIS_REPLY_ERROR;
}

/* --- sending ---------------------------------------------------------------------------------- */

void rn_fleet_pauses_begin_round(struct rn_fleet *fleet, uint64_t latest)
{
    fleet->pauses.calls = CALLS;
    fleet->pauses.latest = latest;
}

void rn_fleet_pauses_doubt(struct rn_fleet *fleet, bool lost)
{
    fleet->pauses.told = 0;
    if (lost) {
        fleet->pauses.version = 0;
        fleet->pauses.all = true;
    }
}

bool rn_fleet_pauses_exchange(struct rn_fleet *fleet)
{
    struct rn_fleet_pauses *p = &fleet->pauses;
    struct rn_slice args[2 + RN_FLEET_LOT];
    int64_t now_ns = ration_now(fleet->limiter);
    size_t ends[RN_FLEET_LOT], said = 0;
    struct rn_buf words = {0};
    bool sent = false;
    char since[24];

    if (p->calls == 0)
        return false;
    p->sent = p->told;
    size_t count = rn_pause_recent(fleet->limiter, &p->sent, p->events, RN_FLEET_LOT);

    for (size_t i = 0; i < count; i++) {
        const struct rn_pause_event *event = &p->events[i];

        if ((event->heard && !p->all) || (event->ends_ns != 0 && event->ends_ns - now_ns < 1000))
            continue; /* Redis has it, or it is over */
        rn_fleet_pause_write(&words, event, now_ns);
        ends[said++] = words.len;
    }
    if (said == 0 && count < RN_FLEET_LOT && p->latest == p->version) {
        p->told = p->sent;
        p->calls = 0;
        p->all = false;
        return false;
    }
    p->calls--;
    for (size_t i = 0; i < said && !words.failed; i++) {
        size_t start = i > 0 ? ends[i - 1] : 0;

        args[2 + i] = (struct rn_slice){words.data + start, ends[i] - start};
    }
    snprintf(since, sizeof since, "%" PRIu64, p->version);
    args[0] = rn_slice_of(since);
    args[1] = count == RN_FLEET_LOT ? RN_SLICE("0") : RN_SLICE(HEARD); /* all must be sent first */
    if (!words.failed)
        sent = rn_fleet_call(fleet, RN_SCRIPT_FLEET_PAUSES, "hpqr", args, 2 + said, on_pauses);
    rn_buf_done(&words);
    return sent;
}
