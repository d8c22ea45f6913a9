/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the usage of all nodes from Redis, on the fiber of a conversation: the list of groups, then
 * for each group its buckets, some in a call. A client has a row for each state file, all in one
 * bucket; they are added up here, where 64 bits are exact.
 *
 * Rows come in the order of groups and of the hashes of clients. A cursor is the number of a group
 * and the upper half of a hash: so neither rows nor groups that join meanwhile make a reader miss
 * one that was there before.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fiber.h"
#include "limiter/usage/periods.h"
#include "net/log.h"
#include "redis/fleet/fleet_internal.h"

#define PATIENCE_NS (INT64_C(1) * 1000000000) /* for one answer */
#define REPLY_BYTES "1048576"                 /* after which an answer has no further bucket */
#define LOT 60                                /* buckets asked for at once */
#define ENTRIES 65536                         /* groups or files: more are nothing of ours */

/* --- a call ----------------------------------------------------------------------------------- */

/* It outlives its reader if no answer comes in time. */
struct ask {
    struct rn_timer timer;
    struct rn_fiber *fiber; /* NULL: the reader has given up */
    const redisReply *reply;
};

static void give_up(struct rn_timer *timer)
{
    struct ask *ask = (struct ask *)((char *)timer - offsetof(struct ask, timer));
    struct rn_fiber *fiber = ask->fiber;

    ask->fiber = NULL;
    rn_fiber_wake(fiber);
}

static bool on_read(void *arg, const redisReply *reply)
{
    struct ask *ask = arg;
    bool good = reply && rn_fleet_has_types(reply, "i");

    if (ask->fiber) {
        ask->reply = good ? reply : NULL;
        rn_fiber_wake(ask->fiber); /* the reader takes what it needs before it waits again */
    }
    free(ask);
    return good;
}

struct reader {
    struct rn_fleet *fleet;
    const struct ration_usage_query *query;
    int (*see)(void *, const struct ration_usage *);
    void *arg;
    int64_t at_s;           /* when "current" is */
    struct rn_slice client; /* as rows have it; data NULL: all */
    struct rn_fleet_usage_groups groups;
    struct rn_fleet_usage_rows rows; /* of the last answer */
    size_t seen, bad;
    bool full; /* stop: `next` is set */
    uint64_t next;
};

static int take_bitmap(struct reader *reader, const redisReply *reply, void *arg)
{
    struct rn_slice bits =
        reply->elements > 1 ? rn_fleet_usage_text(reply->element[1]) : (struct rn_slice){0};

    (void)reader;
    memcpy(arg, bits.data ? bits.data : "",
           bits.len < RN_FLEET_USAGE_BUCKETS / 8 ? bits.len : RN_FLEET_USAGE_BUCKETS / 8);
    return 0;
}

/* `take` gets the reply. 0, RATION_ESTORE: no answer, or what take returns. */
static int ask_for(struct reader *reader, const struct rn_slice *keys, size_t count,
                   int (*take)(struct reader *, const redisReply *, void *), void *arg)
{
    struct rn_wheel *wheel = rn_loop_wheel(reader->fleet->loop);
    struct ask *ask = calloc(1, sizeof *ask);
    const struct rn_slice args[] = {RN_SLICE(REPLY_BYTES),
                                    take == take_bitmap ? RN_SLICE("1") : RN_SLICE("0")};
    int code = RATION_ESTORE;

    if (!ask)
        return RATION_ENOMEM;
    ask->timer.fire = give_up;
    ask->fiber = rn_fiber_current();
    if (!rn_redis_call(reader->fleet->redis,
                       &(struct rn_script_request){.script = RN_SCRIPT_FLEET_USAGE_READ,
                                                   .until_ns = rn_wheel_now(wheel) + PATIENCE_NS,
                                                   .keys = keys,
                                                   .key_count = count,
                                                   .args = args,
                                                   .arg_count = 2,
                                                   .reply = on_read,
                                                   .arg = ask})) {
        free(ask);
        return RATION_ESTORE;
    }
    rn_timer_set(wheel, &ask->timer, rn_wheel_now(wheel) + PATIENCE_NS);
    rn_fiber_wait();
    if (ask->fiber) { /* in time */
        rn_timer_cancel(wheel, &ask->timer);
        if (ask->reply)
            code = take(reader, ask->reply, arg);
    }
    return code;
}

/* --- groups and files ------------------------------------------------------------------------- */

static int take_index(struct reader *reader, const redisReply *reply, void *arg)
{
    struct rn_fleet_usage *u = &reader->fleet->usage;

    (void)arg;
    if (reply->elements < 3 || rn_fleet_usage_fields(reply, 1) > ENTRIES ||
        rn_fleet_usage_fields(reply, 2) > ENTRIES)
        return RATION_ESTORE;
    reader->bad += rn_fleet_usage_groups_read(&reader->groups, reply);
    reader->bad += rn_fleet_usage_missing_read(u, reply);
    return reader->groups.list && u->missing ? 0 : RATION_ENOMEM;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* The buckets that were asked for, in order. */
struct buckets {
    unsigned numbers[LOT];
    size_t count, answered;
};

static int take_buckets(struct reader *reader, const redisReply *reply, void *arg)
{
    struct buckets *buckets = arg;
    struct rn_fleet_usage_row row;
    int code = 0;

    for (size_t k = 0; k < buckets->count && k + 1 < reply->elements && code == 0; k++) {
        const redisReply *list = reply->element[k + 1];

        for (size_t i = 0; i < rn_fleet_usage_fields(reply, k + 1) && code == 0; i++)
            if (!rn_fleet_usage_row_read(rn_fleet_usage_text(list->element[2 * i]),
                                         rn_fleet_usage_text(list->element[2 * i + 1]), &row) ||
                RN_FLEET_USAGE_BUCKET(row.hash) != buckets->numbers[k])
                reader->bad++;
            else if (!reader->client.data ||
                     (!row.other && rn_slice_equal(row.client, reader->client)))
                code = rn_fleet_usage_rows_add(&reader->rows, &row);
        buckets->answered++;
    }
    return buckets->answered == 0 ? RATION_ESTORE : code;
}

/* Two clients with the same cursor are never on two pages. */
static void show(struct reader *reader, const struct rn_fleet_usage_group *group, uint32_t from)
{
    size_t limit = reader->query->limit;

    for (size_t i = 0; i < reader->rows.count && !reader->full; i++) {
        struct rn_fleet_usage_row row = rn_fleet_usage_rows_at(&reader->rows, i);
        uint32_t place = (uint32_t)(row.hash >> 32);
        bool apart = i == 0 || (uint32_t)(reader->rows.list[i - 1].hash >> 32) != place;
        struct ration_usage usage = group->usage;

        if (place < from)
            continue;
        if (limit != 0 && reader->seen >= limit && apart) {
            reader->full = true;
            reader->next = (uint64_t)group->number << 32 | place;
            break;
        }
        usage.client = row.client.data;
        usage.client_len = row.client.len;
        usage.other = row.other;
        usage.admitted = row.admitted;
        usage.refused = row.refused;
        usage.corrected = row.corrected;
        reader->seen++;
        if (reader->see(reader->arg, &usage) != 0) {
            reader->full = true;
            reader->next = ((uint64_t)group->number << 32 | place) + 1;
        }
    }
}

/* --- a group ---------------------------------------------------------------------------------- */

static int read_buckets(struct reader *reader, const struct rn_fleet_usage_group *group,
                        struct buckets *buckets, uint32_t from)
{
    struct rn_slice keys[LOT];
    struct rn_buf text = {0};
    size_t ends[LOT], first = 0;
    int code = 0;

    for (size_t i = 0; i < buckets->count; i++) {
        rn_fleet_usage_key_write(&text, group->id, buckets->numbers[i]);
        ends[i] = text.len;
    }
    for (size_t i = 0; i < buckets->count && !text.failed; i++)
        keys[i] =
            (struct rn_slice){text.data + (i ? ends[i - 1] : 0), ends[i] - (i ? ends[i - 1] : 0)};
    if (text.failed)
        code = RATION_ENOMEM;
    while (code == 0 && first < buckets->count && !reader->full) {
        struct buckets left = {.count = buckets->count - first};

        memcpy(left.numbers, buckets->numbers + first, left.count * sizeof *left.numbers);
        rn_fleet_usage_rows_clear(&reader->rows);
        code = ask_for(reader, keys + first, left.count, take_buckets, &left);
        if (code == 0) {
            rn_fleet_usage_rows_add_up(&reader->rows);
            show(reader, group, from);
        }
        first += left.answered;
    }
    rn_buf_done(&text);
    return code;
}

static int read_group(struct reader *reader, const struct rn_fleet_usage_group *group,
                      uint32_t from)
{
    unsigned char bits[RN_FLEET_USAGE_BUCKETS / 8] = {0};
    struct buckets buckets = {.count = 0};
    struct rn_buf key = {0};
    int code = 0;

    if (reader->client.data) {
        buckets.numbers[buckets.count++] =
            RN_FLEET_USAGE_BUCKET(rn_fleet_usage_hash(reader->client, false));
        return read_buckets(reader, group, &buckets, from);
    }
    rn_fleet_usage_key_write(&key, group->id, RN_FLEET_USAGE_BUCKETS);
    code = key.failed
               ? RATION_ENOMEM
               : ask_for(reader, &(struct rn_slice){key.data, key.len}, 1, take_bitmap, bits);
    rn_buf_done(&key);
    for (unsigned i = from >> 20; i < RN_FLEET_USAGE_BUCKETS && code == 0 && !reader->full; i++) {
        if (bits[i / 8] & 0x80u >> i % 8)
            buckets.numbers[buckets.count++] = i;
        if (buckets.count == LOT || (i + 1 == RN_FLEET_USAGE_BUCKETS && buckets.count > 0)) {
            code = read_buckets(reader, group, &buckets, from);
            buckets.count = 0;
        }
    }
    return code;
}

/* --- the reader ------------------------------------------------------------------------------- */

/* A zone that this node does not know has no current period. */
static bool is_group_wanted(const struct reader *reader, const struct ration_usage *usage)
{
    const struct ration_usage_query *q = reader->query;
    char name[RATION_PERIOD_TEXT];

    if (q->rule && !rn_slice_equal((struct rn_slice){usage->rule, usage->rule_len},
                                   (struct rn_slice){q->rule, q->rule_len}))
        return false;
    return !q->period ||
           (rn_usage_period_resolve((struct rn_slice){q->period, q->period_len},
                                    rn_calendar_unit_named(usage->period, strlen(usage->period)),
                                    usage->zone, reader->at_s, name, NULL) == 0 &&
            strcmp(name, usage->period) == 0);
}

static int read_all(struct reader *reader)
{
    const struct rn_slice index[] = {RN_SLICE(RN_FLEET_USAGE_INDEX),
                                     RN_SLICE(RN_FLEET_USAGE_FILES)};
    uint32_t first = (uint32_t)(reader->query->cursor >> 32);
    int code = ask_for(reader, index, 2, take_index, NULL);

    for (size_t i = 0; i < reader->groups.count && code == 0 && !reader->full; i++) {
        const struct rn_fleet_usage_group *group = &reader->groups.list[i];

        if (group->number >= first && is_group_wanted(reader, &group->usage))
            code = read_group(reader, group,
                              group->number == first ? (uint32_t)reader->query->cursor : 0);
    }
    return code;
}

int rn_fleet_usage_each(struct rn_fleet *fleet, const struct ration_usage_query *query,
                        int (*see)(void *, const struct ration_usage *), void *arg, uint64_t *next,
                        struct ration_error *error)
{
    struct reader reader = {.fleet = fleet, .query = query, .see = see, .arg = arg};
    char client[RATION_USAGE_CLIENT_MAX], period[RATION_PERIOD_TEXT];
    int code;

    reader.at_s =
        query->at_s ? query->at_s : rn_clock_read_ns(CLOCK_REALTIME) / INT64_C(1000000000);
    if (query->period) { /* in any calendar */
        code = rn_usage_period_resolve((struct rn_slice){query->period, query->period_len},
                                       RATION_CALENDAR_YEAR, "", reader.at_s, period, error);
        if (code != 0)
            return code;
    }
    if (query->client) {
        size_t len =
            rn_usage_client_asked((struct rn_slice){query->client, query->client_len}, client);

        reader.client = (struct rn_slice){client, len};
    }
    code = rn_fiber_current() ? read_all(&reader) : RATION_ESTORE;
    rn_fleet_usage_groups_done(&reader.groups);
    rn_fleet_usage_rows_done(&reader.rows);
    rn_redis_count(&fleet->counts.usage_refused, reader.bad);
    if (reader.bad != 0 && !fleet->usage.refusing)
        rn_log(
            RN_LOG_WARN, "fleet.usage_refused", RN_LOG_NUMBER("entries", reader.bad),
            RN_LOG_TEXT("meaning", RN_SLICE("ration:{fleet}:usage has what this version does not "
                                            "understand; it is not counted")));
    fleet->usage.refusing |= reader.bad != 0;
    if (code == 0 && next)
        *next = reader.next;
    if (code == RATION_ESTORE)
        return rn_error_set(
            error, code, 0,
            "Redis does not answer, so the usage of all nodes is not known; that of "
            "this node is: scope=node");
    return code ? rn_error_set(error, code, 0, "out of memory") : 0;
}
