/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bans that rules with `escalate` begin, and lifts of them, hold on all nodes. In each round a node
 * sends what is new in its ring of bans and lifts, and then hears what is new of the others
 * (scripts/fleet_bans.lua). Times travel as ages and rests, never as times of a node's clock.
 *
 * A node always sends before it hears. So what it hears is never older than what it knows itself,
 * and a lift made here is not undone by a ban that began before it.
 *
 * If Redis has lost all, nodes send all bans in force that they know, so that a node that joins
 * gets them, too.
 *
 * Bounds: 64 events in a call, 64 calls in a round; what has left the ring before it was sent stays
 * a ban of this node alone. Nothing that is malformed counts, and no ban is longer here than the
 * rule's own plan has it (rn_reputation_apply).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "limiter/rulebook/book.h"
#include "net/log.h"
#include "redis/fleet/fleet_internal.h"

#define HEARD "512" /* in one call */
#define CALLS 64    /* in one round */
#define LONGEST_US (INT64_C(366) * 86400 * 1000000)
/* An event that was not sent at once is sent as a little older than it is: its age grows while the
 * call is under way, and a lift that came right after a ban must stay the later one. */
#define LATE_NS (INT64_C(10) * 1000000000)
#define OLDER_NS (INT64_C(1) * 1000000000)
/* A ban of which only the record is left may have begun at any time: every lift that is still known
 * holds against it. */
#define OLDEST_NS (INT64_C(366) * 86400 * 1000000000)

/* --- the format -------------------------------------------------------------------------------
 * To Redis "NAME LEVEL AGE REST", from it "NAME LEVEL REST". The name is two hashes, of the rule
 * and of the client, which are the same on all nodes; Redis gets no text of a caller. Records keep
 * all but the lowest bits of a client's hash (store/records.h), so the name has no others. */

void rn_fleet_ban_write(struct rn_buf *out, const struct rn_reputation_event *event)
{
    int64_t age_ns = event->age_ns > 0 ? event->age_ns : 0;
    int64_t rest_ns = event->level == 0 ? 0 : event->ends_in_ns;

    if (age_ns > LATE_NS)
        age_ns += OLDER_NS;
    rn_buf_putf(out, "%016" PRIx64 "%016" PRIx64 " %" PRIu32 " %" PRId64 " %" PRId64, event->rule,
                rn_records_key(event->hash, RN_RECORD_NONE), event->level, age_ns / 1000,
                rest_ns / 1000);
}

static bool read_hash(const char *at, uint64_t *hash)
{
    char digits[17] = {0};

    memcpy(digits, at, 16);
    if (strspn(digits, "0123456789abcdef") != 16)
        return false;
    *hash = strtoull(digits, NULL, 16);
    return true;
}

/* A blank and digits, at most `most`. */
static bool read_number(struct rn_slice *rest, int64_t most, int64_t *number)
{
    size_t at = 1;

    *number = 0;
    if (rest->len < 2 || rest->data[0] != ' ')
        return false;
    for (; at < rest->len && rest->data[at] >= '0' && rest->data[at] <= '9'; at++) {
        *number = *number * 10 + (rest->data[at] - '0');
        if (*number > most)
            return false;
    }
    *rest = (struct rn_slice){rest->data + at, rest->len - at};
    return at > 1;
}

bool rn_fleet_ban_read(struct rn_slice text, struct rn_fleet_ban *ban)
{
    int64_t level, rest_us;

    if (text.len < 32 || !read_hash(text.data, &ban->rule) ||
        !read_hash(text.data + 16, &ban->hash))
        return false;
    text = (struct rn_slice){text.data + 32, text.len - 32};
    if (!read_number(&text, RN_LEVELS - 1, &level) || !read_number(&text, LONGEST_US, &rest_us) ||
        text.len != 0 || (level == 0) != (rest_us == 0))
        return false;
    ban->level = (uint32_t)level;
    ban->rest_ns = rest_us * 1000;
    return true;
}

/* --- the rules -------------------------------------------------------------------------------- */

/* The hashes of the rules with `escalate`. False: there are none, or no memory. */
static bool list_rules(struct rn_fleet *fleet)
{
    struct rn_fleet_bans *b = &fleet->bans;
    struct rn_pin pin = rn_pin_take_counted(&fleet->limiter->shelf);
    const struct rn_ruleset *set = pin.book ? pin.book->ruleset : NULL;

    if (set && b->rules_of != pin.book->version + 1) {
        uint64_t *rules = calloc(set->rule_count + 1, sizeof *rules);

        if (rules) {
            free(b->rules);
            b->rules = rules;
            b->count = 0;
            b->rules_of = pin.book->version + 1;
            for (uint32_t i = 0; i < set->rule_count; i++)
                if (set->rules[i].escalate)
                    rules[b->count++] = rn_reputation_rule(fleet->limiter, set->rules[i].name);
        }
    }
    rn_pin_drop(&pin);
    return b->count != 0;
}

static bool has_rule(const struct rn_fleet_bans *b, uint64_t rule)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->rules[i] == rule)
            return true;
    return false;
}

/* --- hearing ---------------------------------------------------------------------------------- */

/* Whether a client was lifted here since the call was sent. Then what came is older than that: it
 * is heard again after the lift was sent. */
static bool lifted_meanwhile(struct rn_fleet *fleet)
{
    struct rn_reputation_event *events = fleet->bans.events;
    uint64_t after = fleet->bans.told;
    size_t count;

    do {
        count = rn_reputation_recent(fleet->limiter, &after, events, RN_FLEET_LOT);
        for (size_t i = 0; i < count; i++)
            if (events[i].level == 0)
                return true;
    } while (count == RN_FLEET_LOT);
    return false;
}

/* Rules that this node does not have are no mistake. */
static void hear(struct rn_fleet *fleet, const redisReply *reply)
{
    struct rn_fleet_bans *b = &fleet->bans;
    struct rn_fleet_ban ban;
    size_t taken = 0, bad = 0;

    for (size_t i = 4; i < reply->elements; i++) {
        const redisReply *said = reply->element[i];

        if (said->type != REDIS_REPLY_STRING ||
            !rn_fleet_ban_read((struct rn_slice){said->str, said->len}, &ban))
            bad++;
        else if (has_rule(b, ban.rule))
            taken +=
                rn_reputation_apply(fleet->limiter, ban.rule, ban.hash, ban.level, ban.rest_ns);
    }
    rn_redis_count(&fleet->counts.bans_taken, taken);
    rn_redis_count(&fleet->counts.bans_refused, bad);
    if (bad != 0 && !b->refusing)
        rn_log(RN_LOG_WARN, "fleet.bans_refused", RN_LOG_NUMBER("entries", bad),
               RN_LOG_TEXT("meaning", RN_SLICE("ration:{fleet}:bans has what this version does not "
                                               "understand; it bans nobody")));
    b->refusing |= bad != 0;
}

static void take_reply(struct rn_fleet *fleet, const redisReply *reply)
{
    struct rn_fleet_bans *b = &fleet->bans;
    uint64_t version = (uint64_t)reply->element[0]->integer;

    b->told = b->sent;
    rn_redis_count(&fleet->counts.bans_published, (uint64_t)reply->element[2]->integer);
    rn_redis_count(&fleet->counts.bans_dropped, (uint64_t)reply->element[3]->integer);
    if (version < b->version) { /* Redis has lost the last ones */
        rn_fleet_bans_doubt(fleet, true);
        return;
    }
    if (lifted_meanwhile(fleet))
        return;
    hear(fleet, reply);
    b->version = version;
    if (reply->element[1]->integer == 0 && !b->walking)
        b->calls = 0; /* all is sent and heard */
}

/* A call that Redis refuses is logged once. It does not concern the other things that nodes share.
 */
static bool on_bans(void *arg, const redisReply *reply)
{
    struct rn_fleet *fleet = arg;
    struct rn_fleet_bans *b = &fleet->bans;

    bool good = reply && rn_fleet_has_types(reply, "iiii");

    if (!good && b->walked) { /* from the beginning */
        b->walking = true;
        b->cursor = 0;
    }
    if (!reply)
        return rn_fleet_called(fleet, reply, "");
    fleet->calling = false;

    if (good) {
        take_reply(fleet, reply);
    } else if (!b->failed) {
        const char *why = "the reply is not one of the script";

        rn_log(RN_LOG_WARN, "fleet.bans_failed",
               RN_LOG_TEXT("reason",
                           rn_slice_of(reply->type == REDIS_REPLY_ERROR ? reply->str : why)));
    }
    b->failed = !good;
    if (!good)
        b->calls = 0; /* again in the next round */
    rn_fleet_go_on(fleet);
    return good || reply->type == REDIS_REPLY_ERROR;
}

/* --- sending ---------------------------------------------------------------------------------- */

void rn_fleet_bans_begin_round(struct rn_fleet *fleet)
{
    fleet->bans.calls = CALLS;
}

void rn_fleet_bans_doubt(struct rn_fleet *fleet, bool lost)
{
    fleet->bans.told = 0;
    if (lost) {
        fleet->bans.version = 0;
        fleet->bans.walking = true;
        fleet->bans.cursor = 0;
    }
}

/* What a call says, event by event. */
struct speech {
    struct rn_fleet *fleet;
    struct rn_buf words;
    size_t ends[RN_FLEET_LOT], count;
};

static void say(struct speech *speech, const struct rn_reputation_event *event)
{
    if (event->level != 0 && event->ends_in_ns < 1000)
        return; /* over */
    rn_fleet_ban_write(&speech->words, event);
    speech->ends[speech->count++] = speech->words.len;
}

static int say_record(void *arg, const struct ration_reputation *one)
{
    struct speech *speech = arg;
    struct rn_reputation_event event = {
        .rule =
            rn_reputation_rule(speech->fleet->limiter, (struct rn_slice){one->rule, one->rule_len}),
        .hash = one->hash,
        .level = one->level,
        .age_ns = OLDEST_NS,
        .ends_in_ns = one->ends_after_ns};

    if (has_rule(&speech->fleet->bans, event.rule))
        say(speech, &event);
    return 0;
}

/* Bans in force, as many as fit the call. */
static void say_records(struct speech *speech)
{
    struct rn_fleet_bans *b = &speech->fleet->bans;
    struct ration_reputation_query query = {
        .banned_only = true, .cursor = b->cursor, .limit = RN_FLEET_LOT - speech->count};

    if (ration_reputation_each(speech->fleet->limiter, &query, say_record, speech, &b->cursor) == 0)
        b->walking = b->cursor != 0;
}

bool rn_fleet_bans_exchange(struct rn_fleet *fleet)
{
    struct rn_fleet_bans *b = &fleet->bans;
    struct speech speech = {.fleet = fleet};
    struct rn_slice args[2 + RN_FLEET_LOT];
    char since[24];
    bool sent = false;

    if (b->calls == 0 || !list_rules(fleet))
        return false;
    b->calls--;
    b->sent = b->told;
    size_t count = rn_reputation_recent(fleet->limiter, &b->sent, b->events, RN_FLEET_LOT);

    for (size_t i = 0; i < count; i++)
        say(&speech, &b->events[i]);
    b->walked = b->walking && count < RN_FLEET_LOT;
    if (b->walked)
        say_records(&speech);
    for (size_t i = 0; i < speech.count && !speech.words.failed; i++) {
        size_t start = i > 0 ? speech.ends[i - 1] : 0;

        args[2 + i] = (struct rn_slice){speech.words.data + start, speech.ends[i] - start};
    }
    snprintf(since, sizeof since, "%" PRIu64, b->version);
    args[0] = rn_slice_of(since);
    args[1] = count == RN_FLEET_LOT ? RN_SLICE("0") : RN_SLICE(HEARD); /* all must be sent first */
    if (!speech.words.failed)
        sent = rn_fleet_call(fleet, RN_SCRIPT_FLEET_BANS, "hbou", args, 2 + speech.count, on_bans);
    rn_buf_done(&speech.words);
    return sent;
}
