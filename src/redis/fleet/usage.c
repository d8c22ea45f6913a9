/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes the usage that this node has counted (limiter/usage/usage.h): the totals of rows that
 * have changed, a few in a call, as long as the round lasts. Redis keeps the totals of each state
 * file apart, so that nothing counts twice, whatever is lost or repeated: a row is marked as
 * changed until Redis has it, and a call that comes late is known by its stamp
 * (scripts/fleet_usage.lua).
 *
 * All rows are published again after a start, since a kill may have lost a mark, and after Redis
 * was away, since it may have lost data.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "net/log.h"
#include "redis/fleet/fleet_internal.h"

#define CALLS 256                           /* in one round, */
#define ROUND_NS (INT64_C(150) * 1000000)   /* that lasts no longer than this */
#define FINISH_NS (INT64_C(2) * 1000000000) /* for the rest, when a node stops */
#define SAY_NS (INT64_C(1) * 1000000000)    /* how often a node says that it is there */
#define KEYS (2 + 2 * RN_FLEET_USAGE_LOT)   /* of a call, at most: each row its own */
#define ARGS (4 + 2 * RN_FLEET_USAGE_LOT + RN_FLEET_USAGE_LOT)

static_assert(KEYS <= RN_SCRIPT_REQUEST_KEYS && ARGS <= RN_SCRIPT_REQUEST_ARGS,
              "a lot fits a call");

/* --- a lot ------------------------------------------------------------------------------------ */

/* Words of a call, one behind the other in `bytes`. */
struct word {
    size_t start, len;
};

struct lot {
    struct rn_fleet_usage *usage;
    struct rn_buf bytes;
    uint64_t stamp;
    size_t groups, buckets, rows;
    uint64_t group_ids[RN_FLEET_USAGE_LOT];
    struct word group_texts[RN_FLEET_USAGE_LOT], row_texts[RN_FLEET_USAGE_LOT];
    struct {
        uint64_t group;
        unsigned number;
    } in[RN_FLEET_USAGE_LOT]; /* buckets */
};

static struct rn_slice slice_of(const struct lot *lot, struct word word)
{
    return (struct rn_slice){lot->bytes.data + word.start, word.len};
}

/* The number of the row's group in this call, from 1. */
static size_t enter_group(struct lot *lot, const struct rn_usage_row *row)
{
    uint64_t id = rn_fleet_usage_group_id(&row->usage);
    size_t start = lot->bytes.len, at = 0;

    while (at < lot->groups && lot->group_ids[at] != id)
        at++;
    if (at == lot->groups) {
        rn_fleet_usage_group_write(&lot->bytes, &row->usage, row->keep);
        lot->group_ids[at] = id;
        lot->group_texts[at] = (struct word){start, lot->bytes.len - start};
        lot->groups++;
    }
    return at + 1;
}

/* The number of the bucket in this call, from 1. */
static size_t enter_bucket(struct lot *lot, uint64_t group, unsigned number)
{
    size_t at = 0;

    while (at < lot->buckets && (lot->in[at].group != group || lot->in[at].number != number))
        at++;
    if (at == lot->buckets) {
        lot->in[at].group = group;
        lot->in[at].number = number;
        lot->buckets++;
    }
    return at + 1;
}

static int see_row(void *arg, const struct rn_usage_row *row)
{
    struct lot *lot = arg;
    const struct ration_usage *usage = &row->usage;
    struct rn_slice client = {usage->client, usage->client_len};
    unsigned bucket = RN_FLEET_USAGE_BUCKET(rn_fleet_usage_hash(client, usage->other));
    size_t group = enter_group(lot, row);
    size_t key = enter_bucket(lot, lot->group_ids[group - 1], bucket), start = lot->bytes.len;

    rn_buf_putf(&lot->bytes,
                "%zu %zu %u %" PRIu64 " %" PRId64 " %" PRIu64 " %" PRId64 " %016" PRIx64 "%c",
                group, key, bucket, lot->stamp, usage->admitted, usage->refused, usage->corrected,
                row->tag, usage->other ? RN_FLEET_USAGE_OTHER : RN_FLEET_USAGE_CLIENT);
    rn_buf_put(&lot->bytes, client.data, client.len);
    lot->usage->rows[lot->rows] = row->entry;
    lot->row_texts[lot->rows++] = (struct word){start, lot->bytes.len - start};
    lot->usage->row_count = lot->rows;
    return 0;
}

/* --- the call --------------------------------------------------------------------------------- */

/* What was sent must be sent again. */
static void mark_again(struct rn_fleet *fleet)
{
    struct rn_fleet_usage *u = &fleet->usage;

    for (size_t i = 0; i < u->row_count; i++)
        rn_usage_mark(fleet->limiter, u->rows[i]);
    u->row_count = 0;
    u->again |= u->all;
    u->walking = false;
    u->calls = 0;
}

static bool on_published(void *arg, const redisReply *reply)
{
    struct rn_fleet *fleet = arg;
    struct rn_fleet_usage *u = &fleet->usage;
    bool good = reply && rn_fleet_has_types(reply, NULL);

    if (!good)
        mark_again(fleet);
    if (!reply)
        return rn_fleet_called(fleet, reply, NULL);
    fleet->calling = false;
    if (good) {
        rn_redis_count(&fleet->counts.usage_published, u->row_count);
        u->row_count = 0;
        u->left = u->last && !u->walking;
    } else if (!u->failed) {
        const char *why = "the reply is not one of the script";

        rn_log(RN_LOG_WARN, "fleet.usage_failed",
               RN_LOG_TEXT("reason",
                           rn_slice_of(reply->type == REDIS_REPLY_ERROR ? reply->str : why)));
    }
    u->failed = !good;
    rn_fleet_go_on(fleet);
    return good || reply->type == REDIS_REPLY_ERROR;
}

static bool send_lot(struct rn_fleet *fleet, const struct lot *lot)
{
    const struct rn_fleet_usage *u = &fleet->usage;
    char file[17], groups[24], names[RN_FLEET_USAGE_LOT][17];
    struct rn_slice keys[KEYS] = {RN_SLICE(RN_FLEET_USAGE_INDEX), RN_SLICE(RN_FLEET_USAGE_FILES)};
    struct rn_slice args[ARGS];
    struct ration_usage_totals totals;
    struct rn_buf text = {0};
    size_t ends[KEYS] = {0}, key_count = 2, arg_count = 4;

    ration_usage_totals(fleet->limiter, &totals);
    snprintf(file, sizeof file, "%016" PRIx64, totals.incarnation);
    snprintf(groups, sizeof groups, "%zu", lot->groups);
    args[0] = rn_slice_of(file);
    args[1] = rn_slice_of(fleet->factors.host);
    args[2] = u->walking ? RN_SLICE("1") : u->last ? RN_SLICE("left") : RN_SLICE("0");
    args[3] = rn_slice_of(groups);
    for (size_t i = 0; i < lot->groups; i++) {
        snprintf(names[i], sizeof names[i], "%016" PRIx64, lot->group_ids[i]);
        args[arg_count++] = rn_slice_of(names[i]);
        args[arg_count++] = slice_of(lot, lot->group_texts[i]);
        rn_fleet_usage_key_write(&text, lot->group_ids[i], RN_FLEET_USAGE_BUCKETS);
        ends[key_count++] = text.len;
    }
    for (size_t i = 0; i < lot->buckets; i++) {
        rn_fleet_usage_key_write(&text, lot->in[i].group, lot->in[i].number);
        ends[key_count++] = text.len;
    }
    for (size_t i = 0; i < lot->rows; i++)
        args[arg_count++] = slice_of(lot, lot->row_texts[i]);
    for (size_t i = 2; i < key_count && !text.failed; i++)
        keys[i] = (struct rn_slice){text.data + ends[i - 1], ends[i] - ends[i - 1]};
    bool sent = !text.failed && !lot->bytes.failed &&
                rn_fleet_call_keys(fleet, RN_SCRIPT_FLEET_USAGE, keys, key_count, args, arg_count,
                                   on_published);

    rn_buf_done(&text);
    return sent;
}

/* --- the round -------------------------------------------------------------------------------- */

void rn_fleet_usage_begin_round(struct rn_fleet *fleet)
{
    fleet->usage.calls = CALLS;
    fleet->usage.until_ns = rn_wheel_now(rn_loop_wheel(fleet->loop)) + ROUND_NS;
}

void rn_fleet_usage_doubt(struct rn_fleet *fleet)
{
    fleet->usage.again = true;
}

bool rn_fleet_usage_finish(struct rn_fleet *fleet)
{
    struct rn_fleet_usage *u = &fleet->usage;
    int64_t now_ns = rn_wheel_now(rn_loop_wheel(fleet->loop));
    struct ration_usage_totals totals;

    ration_usage_totals(fleet->limiter, &totals);
    if (u->finish_ns == 0)
        u->finish_ns = now_ns + FINISH_NS;
    if (!totals.open || u->left || !fleet->in_touch || now_ns >= u->finish_ns)
        return true;
    rn_fleet_usage_begin_round(fleet);
    rn_fleet_go_on(fleet);
    return false;
}

/* A lot of the walk, which begins and ends here as needed. False: nothing to say. */
static bool collect(struct rn_fleet *fleet, struct lot *lot)
{
    struct rn_fleet_usage *u = &fleet->usage;

    if (!u->walking) {
        u->walking = true;
        u->last = u->finish_ns != 0;
        u->cursor = 0;
        u->all = u->again;
        u->again = false;
    }
    lot->stamp = rn_usage_stamp(fleet->limiter);
    if (rn_usage_dirty(fleet->limiter, u->all, &u->cursor, RN_FLEET_USAGE_LOT, see_row, lot) != 0) {
        mark_again(fleet);
        return false;
    }
    u->walking = u->cursor != 0;
    if (!u->walking)
        u->calls = 0; /* what has changed since then: in the next round */
    return lot->rows != 0 || !u->walking;
}

bool rn_fleet_usage_publish(struct rn_fleet *fleet)
{
    struct rn_fleet_usage *u = &fleet->usage;
    int64_t now_ns = rn_wheel_now(rn_loop_wheel(fleet->loop));
    struct ration_usage_totals totals;
    struct lot lot = {.usage = u};
    bool sent = false;

    ration_usage_totals(fleet->limiter, &totals);
    if (u->calls == 0 || now_ns >= u->until_ns || !totals.open)
        return false;
    u->calls--;
    u->row_count = 0;
    if (collect(fleet, &lot) && (lot.rows != 0 || u->last || now_ns - u->said_ns >= SAY_NS)) {
        sent = send_lot(fleet, &lot);
        if (sent)
            u->said_ns = now_ns;
        else
            mark_again(fleet);
    }
    rn_buf_done(&lot.bytes);
    return sent;
}
