/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node's round: poll, fetch new changes, offer its own, wait for the next round. One call at a
 * time, so that changes stay in order.
 */
#include "redis/fleet/fleet.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/log.h"
#include "redis/fleet/fleet_internal.h"

#define TICKET_DIGITS 32 /* of a key */
#define BUSY_NS (INT64_C(5) * 1000000)
#define RESEND_NS (INT64_C(500) * 1000000)
/* A failover or a restart of Redis may lose changes of this much time. */
#define DOUBT_US (INT64_C(3600) * 1000000)

/* --- calls ------------------------------------------------------------------------------ */

static void note_failure(struct rn_fleet *fleet, const char *why)
{
    rn_redis_count(&fleet->counts.failed, 1);
    atomic_store(&fleet->counts.synced, false);
    fleet->in_touch = false;
    fleet->doubt = true;
    if (!fleet->apart)
        rn_log(RN_LOG_WARN, "fleet.disconnected", RN_LOG_TEXT("reason", rn_slice_of(why)));
    fleet->apart = true;
}

bool rn_fleet_call_keys(struct rn_fleet *fleet, enum rn_script script, const struct rn_slice *keys,
                        size_t key_count, const struct rn_slice *args, size_t arg_count,
                        rn_script_reply *reply)
{
    fleet->calling = rn_redis_call(
        fleet->redis, &(struct rn_script_request){
                          .script = script,
                          .until_ns = rn_wheel_now(rn_loop_wheel(fleet->loop)) + RESEND_NS,
                          .keys = keys,
                          .key_count = key_count,
                          .args = args,
                          .arg_count = arg_count,
                          .reply = reply,
                          .arg = fleet});
    if (!fleet->calling && atomic_load(&fleet->counts.nodes) > 0) /* otherwise still connecting */
        note_failure(fleet, "Redis cannot be reached");
    return fleet->calling;
}

bool rn_fleet_call(struct rn_fleet *fleet, enum rn_script script, const char *keys,
                   const struct rn_slice *args, size_t arg_count, rn_script_reply *reply)
{
    static const char *const all[] = {
        ['h'] = "ration:{fleet}:head",         ['n'] = "ration:{fleet}:nodes",
        ['i'] = "ration:{fleet}:items",        ['v'] = "ration:{fleet}:values",
        ['e'] = "ration:{fleet}:ends",         ['f'] = "ration:{fleet}:factors",
        ['b'] = "ration:{fleet}:bans",         ['o'] = "ration:{fleet}:bans:order",
        ['u'] = "ration:{fleet}:bans:over",    ['p'] = "ration:{fleet}:pauses",
        ['q'] = "ration:{fleet}:pauses:order", ['r'] = "ration:{fleet}:pauses:over",
    };
    struct rn_slice names[5];
    size_t count = 0;

    for (; keys[count] != '\0'; count++)
        names[count] = rn_slice_of(all[(unsigned char)keys[count]]);
    return rn_fleet_call_keys(fleet, script, names, count, args, arg_count, reply);
}

static bool is_number(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0;
}

bool rn_fleet_has_types(const redisReply *reply, const char *types)
{
    if (!types)
        return is_number(reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < strlen(types))
        return false;
    for (size_t i = 0; types[i] != '\0'; i++)
        if (types[i] == 's' ? reply->element[i]->type != REDIS_REPLY_STRING
                            : !is_number(reply->element[i]))
            return false;
    return true;
}

bool rn_fleet_called(struct rn_fleet *fleet, const redisReply *reply, const char *types)
{
    fleet->calling = false;
    if (!reply)
        note_failure(fleet, "no answer");
    else if (reply->type == REDIS_REPLY_ERROR)
        note_failure(fleet, reply->str);
    else if (!rn_fleet_has_types(reply, types))
        note_failure(fleet, "the reply is not one of the script");
    else
        return true;
    return false;
}

/* --- the keys that sign tickets ----------------------------------------------------------
 * All nodes share them: the poll brings them (scripts/fleet_poll.lua). A node that has not reached
 * Redis yet signs with its own key, and always accepts that one. */

static_assert(RN_FLEET_TICKET_KEYS < RN_TICKET_KEYS, "one place is for this node's own key");

static void print_key(const struct rn_hash_key *key, char out[TICKET_DIGITS + 1])
{
    snprintf(out, TICKET_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, key->k0, key->k1);
}

/* Parses half a key. False: not hexadecimal. */
static bool parse_half(const char *text, uint64_t *out)
{
    char digits[TICKET_DIGITS / 2 + 1] = {0};

    memcpy(digits, text, TICKET_DIGITS / 2);
    if (strspn(digits, "0123456789abcdef") != TICKET_DIGITS / 2)
        return false;
    *out = strtoull(digits, NULL, 16);
    return true;
}

/* Accepts these keys, the oldest first, so that the newest stays longest. Signs with the newest,
 * or with the one before if the newest is `fresh`. False: malformed; the known keys stay. */
static bool take_ticket_keys(struct rn_fleet *fleet, const char *text, bool fresh)
{
    struct rn_hash_key keys[RN_FLEET_TICKET_KEYS];
    size_t len = strlen(text), count = (len + 1) / (TICKET_DIGITS + 1);

    if (count == 0 || count > RN_FLEET_TICKET_KEYS || len != count * (TICKET_DIGITS + 1) - 1)
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *at = text + i * (TICKET_DIGITS + 1);

        if (!parse_half(at, &keys[i].k0) || !parse_half(at + TICKET_DIGITS / 2, &keys[i].k1) ||
            (at[TICKET_DIGITS] != ' ' && at[TICKET_DIGITS] != '\0'))
            return false;
    }
    size_t signer = fresh && count > 1;

    for (size_t i = count; i-- > 0;)
        rn_limiter_add_ticket_key(fleet->limiter, &keys[i], i == signer);
    snprintf(fleet->tickets, sizeof fleet->tickets, "%s", text);
    return true;
}

/* --- the round -------------------------------------------------------------------------- */

void rn_fleet_go_on(struct rn_fleet *fleet)
{
    if (fleet->calling || !fleet->in_touch || rn_fleet_pauses_exchange(fleet) ||
        rn_fleet_bans_exchange(fleet) || rn_fleet_usage_publish(fleet) || !fleet->options.changes)
        return;
    if (fleet->version != fleet->latest)
        rn_fleet_fetch(fleet);
    else if (rn_fleet_has_news(fleet))
        rn_fleet_offer(fleet);
    else {
        atomic_store(&fleet->counts.synced, true);
        atomic_store(&fleet->counts.joined, true);
    }
}

static void on_again(struct rn_timer *timer)
{
    rn_fleet_go_on((struct rn_fleet *)((char *)timer - offsetof(struct rn_fleet, again)));
}

void rn_fleet_go_on_soon(struct rn_fleet *fleet)
{
    struct rn_wheel *wheel = rn_loop_wheel(fleet->loop);

    rn_timer_set(wheel, &fleet->again, rn_wheel_now(wheel) + BUSY_NS);
}

/* If Redis has another set of changes than before, or an older version, this node must fetch and
 * offer everything again. False: not possible now. */
static bool compare_version(struct rn_fleet *fleet, const char *id, uint64_t version)
{
    bool lost = strncmp(id, fleet->id, sizeof fleet->id - 1) != 0 || version < fleet->version;
    int64_t now_us = rn_clock_read_ns(CLOCK_REALTIME) / 1000;

    if ((lost || fleet->doubt) && !rn_fleet_doubt(fleet, lost ? 0 : now_us - DOUBT_US))
        return false;
    if (lost || fleet->doubt) {
        rn_fleet_bans_doubt(fleet, lost);
        rn_fleet_pauses_doubt(fleet, lost);
        rn_fleet_usage_doubt(fleet);
    }
    fleet->doubt = false;
    if (lost) {
        snprintf(fleet->id, sizeof fleet->id, "%s", id);
        fleet->version = 0;
        atomic_store(&fleet->counts.synced, false);
    }
    fleet->latest = version;
    return true;
}

static bool on_polled(void *arg, const redisReply *reply)
{
    struct rn_fleet *fleet = arg;

    if (!rn_fleet_called(fleet, reply, "siisii"))
        return false;
    if (!take_ticket_keys(fleet, reply->element[3]->str, reply->element[4]->integer == 1)) {
        note_failure(fleet, "the field tickets of ration:{fleet}:head does not hold ticket keys");
        return true;
    }
    uint64_t nodes = (uint64_t)reply->element[2]->integer;

    if (fleet->apart || atomic_load(&fleet->counts.nodes) == 0)
        rn_log(RN_LOG_INFO, "fleet.joined", RN_LOG_NUMBER("nodes", nodes));
    fleet->apart = false;
    atomic_store(&fleet->counts.nodes, nodes > 0 ? nodes : 1);
    fleet->in_touch =
        compare_version(fleet, reply->element[0]->str, (uint64_t)reply->element[1]->integer);
    rn_fleet_pauses_begin_round(fleet, (uint64_t)reply->element[5]->integer);
    rn_fleet_bans_begin_round(fleet);
    rn_fleet_usage_begin_round(fleet);
    if (!rn_fleet_factors_exchange(fleet))
        rn_fleet_go_on(fleet);
    return true;
}

static void poll(struct rn_fleet *fleet)
{
    char ttl[24], id[17], ticket_key[TICKET_DIGITS + 1];
    struct {
        uint64_t id;
        struct rn_hash_key ticket_key;
    } random;

    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        return; /* try again in the next round */
    snprintf(id, sizeof id, "%016" PRIx64, random.id);
    print_key(&random.ticket_key, ticket_key);
    snprintf(ttl, sizeof ttl, "%" PRId64, fleet->leaving ? 0 : RN_FLEET_THERE_NS / 1000);
    const struct rn_slice args[] = {rn_slice_of(fleet->node), rn_slice_of(ttl), rn_slice_of(id),
                                    rn_slice_of(fleet->tickets), rn_slice_of(ticket_key)};

    rn_fleet_call(fleet, RN_SCRIPT_FLEET_POLL, "hnive", args, 5, on_polled);
}

static void on_timer(struct rn_timer *timer)
{
    struct rn_fleet *fleet = (struct rn_fleet *)((char *)timer - offsetof(struct rn_fleet, timer));
    struct rn_wheel *wheel = rn_loop_wheel(fleet->loop);
    bool met = atomic_load(&fleet->counts.nodes) > 0;

    if (!fleet->calling)
        poll(fleet);
    rn_timer_set(wheel, timer, rn_wheel_now(wheel) + (met ? RN_FLEET_EVERY_NS : RN_FLEET_FIRST_NS));
}

/* --- changes on this node ---------------------------------------------------------------- */

void rn_fleet_changed(struct rn_fleet *fleet)
{
    atomic_store(&fleet->counts.synced, false);
    rn_fleet_go_on(fleet);
}

void rn_fleet_leave(struct rn_fleet *fleet)
{
    fleet->leaving = true;
    if (!fleet->calling)
        poll(fleet);
}

bool rn_fleet_finish(struct rn_fleet *fleet)
{
    return rn_fleet_usage_finish(fleet);
}

/* --- start and end ------------------------------------------------------------------------- */

int rn_fleet_new(struct rn_loop *loop, struct rn_redis *redis, struct ration *limiter,
                 const struct rn_fleet_options *options, struct rn_fleet **out,
                 struct ration_error *error)
{
    struct rn_fleet *fleet = calloc(1, sizeof *fleet);
    uint64_t random;

    if (!fleet || rn_replication_batch_init(&fleet->batch, RN_FLEET_LOT) != 0) {
        free(fleet);
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    }
    if (getrandom(&random, sizeof random, 0) != sizeof random) {
        rn_replication_batch_done(&fleet->batch);
        free(fleet);
        return rn_error_set(error, RATION_EIO, 0, "the kernel gives no random numbers");
    }
    snprintf(fleet->node, sizeof fleet->node, "%016" PRIx64, random);
    fleet->loop = loop;
    fleet->redis = redis;
    fleet->limiter = limiter;
    fleet->options = *options;
    fleet->timer.fire = on_timer;
    fleet->again.fire = on_again;
    print_key(&limiter->ticket_key, fleet->tickets);
    rn_fleet_factors_init(fleet);
    rn_fleet_usage_doubt(fleet); /* a kill may have lost what was to be published */
    if (options->changes) {
        rn_replication_begin(limiter);
        rn_fleet_rules_load(fleet);
    }
    rn_timer_set(rn_loop_wheel(loop), &fleet->timer, 0);
    *out = fleet;
    return 0;
}

void rn_fleet_free(struct rn_fleet *fleet)
{
    if (!fleet)
        return;
    rn_timer_cancel(rn_loop_wheel(fleet->loop), &fleet->timer);
    rn_timer_cancel(rn_loop_wheel(fleet->loop), &fleet->again);
    rn_replication_batch_done(&fleet->batch);
    rn_buf_done(&fleet->rules.text);
    free(fleet->factors.rules);
    free(fleet->bans.rules);
    free(fleet->usage.missing);
    free(fleet);
}

const struct rn_fleet_counts *rn_fleet_counts(const struct rn_fleet *fleet)
{
    return &fleet->counts;
}

unsigned rn_fleet_nodes(const struct rn_fleet *fleet)
{
    uint64_t nodes = atomic_load_explicit(&fleet->counts.nodes, memory_order_relaxed);

    return nodes > 0 ? (unsigned)nodes : 1;
}
