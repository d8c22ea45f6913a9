/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches changes from Redis and offers this node's own, in small lots: a hundred thousand
 * overrides must not block the loop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/log.h"
#include "redis/fleet/fleet_internal.h"

#define FETCH_ITEMS "500"
#define FETCH_BYTES "262144"
#define OFFER_BYTES ((size_t)256 << 10)
#define ITEM_DIGITS 16
#define ITEM_HEAD (2 * ITEM_DIGITS + 1)

/* --- the format of a change ---------------------------------------------------------------- */

void rn_fleet_item_write(struct rn_buf *out, const struct rn_fleet_item *value)
{
    char head[2 * 24];
    int len = snprintf(head, sizeof head, "%0*" PRId64 "%u%0*" PRId64, ITEM_DIGITS, value->made_us,
                       value->kind % 10, ITEM_DIGITS, value->expires_us);

    rn_buf_put(out, head, (size_t)len);
    rn_buf_put_slice(out, value->text);
}

static bool read_digits(const char *at, int64_t *number)
{
    *number = 0;
    for (int i = 0; i < ITEM_DIGITS; i++) {
        if (at[i] < '0' || at[i] > '9')
            return false;
        *number = *number * 10 + (at[i] - '0');
    }
    return true;
}

bool rn_fleet_item_read(struct rn_slice bytes, struct rn_fleet_item *value)
{
    if (bytes.len < ITEM_HEAD || !read_digits(bytes.data, &value->made_us) ||
        !read_digits(bytes.data + ITEM_DIGITS + 1, &value->expires_us) ||
        bytes.data[ITEM_DIGITS] < '0' || bytes.data[ITEM_DIGITS] > '9')
        return false;
    value->kind = (uint32_t)(bytes.data[ITEM_DIGITS] - '0');
    value->text = (struct rn_slice){bytes.data + ITEM_HEAD, bytes.len - ITEM_HEAD};
    return true;
}

/* --- fetching --------------------------------------------------------------------------- */

/* The changes in a reply, by kind. */
struct fetched {
    struct rn_replication_item *items; /* overrides and bans */
    size_t count;
    struct rn_fleet_item rules; /* kind 0: none */
    size_t bad;
};

static struct rn_slice text_of(const redisReply *element)
{
    return element->type == REDIS_REPLY_STRING ? (struct rn_slice){element->str, element->len}
                                               : (struct rn_slice){0};
}

/* The rules first, as overrides refer to them. */
static bool take_over(struct rn_fleet *fleet, struct fetched *f)
{
    struct rn_replication_merged merged = {0};
    struct ration_error error = {0};

    if (f->rules.kind != 0)
        rn_fleet_rules_take(fleet, &f->rules);
    int code = f->count > 0
                   ? rn_replication_merge(fleet->limiter, f->items, f->count, &merged, &error)
                   : 0;

    rn_redis_count(&fleet->counts.taken, merged.taken);
    rn_redis_count(&fleet->counts.refused, merged.refused + f->bad);
    if (merged.refused + f->bad > 0)
        rn_log(RN_LOG_WARN, "fleet.refused", RN_LOG_NUMBER("changes", merged.refused + f->bad));
    if (code == RATION_EBUSY)
        rn_fleet_go_on_soon(fleet);
    else if (code != 0)
        rn_log(RN_LOG_ERROR, "fleet.merge", RN_LOG_TEXT("error", rn_slice_of(error.text)));
    return code == 0;
}

static bool take_reply(struct rn_fleet *fleet, const redisReply *reply)
{
    struct fetched f = {.items = calloc(reply->elements / 2, sizeof *f.items)};

    if (!f.items)
        return false;
    for (size_t i = 2; i + 1 < reply->elements; i += 2) {
        struct rn_slice name = text_of(reply->element[i]);
        struct rn_replication_item *item = &f.items[f.count];
        struct rn_fleet_item value;

        if (!rn_fleet_item_read(text_of(reply->element[i + 1]), &value)) {
            f.bad++;
        } else if (rn_slice_is(name, RN_FLEET_RULES)) {
            f.rules = value;
        } else if (name.len != sizeof item->name) {
            f.bad++;
        } else {
            *item = (struct rn_replication_item){
                .kind = value.kind, .made_us = value.made_us, .payload = value.text};
            memcpy(item->name, name.data, name.len);
            f.count++;
        }
    }
    bool taken = take_over(fleet, &f);

    free(f.items);
    return taken;
}

/* Changes that cannot be applied now are fetched again: soon, or after the next poll. */
static bool on_fetched(void *arg, const redisReply *reply)
{
    struct rn_fleet *fleet = arg;

    if (!rn_fleet_called(fleet, reply, "ii"))
        return false;
    if (fleet->options.is_busy(fleet->options.arg)) {
        rn_fleet_go_on_soon(fleet);
        return true;
    }
    if (!take_reply(fleet, reply))
        return true;
    fleet->version = (uint64_t)reply->element[0]->integer;
    if (reply->element[1]->integer == 0)
        fleet->latest = fleet->version;
    atomic_store_explicit(&fleet->counts.version, fleet->version, memory_order_relaxed);
    rn_fleet_go_on(fleet);
    return true;
}

void rn_fleet_fetch(struct rn_fleet *fleet)
{
    char since[24];
    int len = snprintf(since, sizeof since, "%" PRIu64, fleet->version);
    const struct rn_slice args[] = {
        {since, (size_t)len}, RN_SLICE(FETCH_ITEMS), RN_SLICE(FETCH_BYTES)};

    if (fleet->options.is_busy(fleet->options.arg)) {
        rn_fleet_go_on_soon(fleet);
        return;
    }
    rn_fleet_call(fleet, RN_SCRIPT_FLEET_FETCH, "hiv", args, 3, on_fetched);
}

/* --- offering --------------------------------------------------------------------------- */

bool rn_fleet_has_news(const struct rn_fleet *fleet)
{
    return (fleet->rules.made_us != 0 && !fleet->rules.shared) ||
           rn_replication_changes(fleet->limiter) != fleet->told;
}

bool rn_fleet_doubt(struct rn_fleet *fleet, int64_t since_us)
{
    if (rn_replication_doubt(fleet->limiter, since_us) != 0)
        return false;
    if (fleet->rules.made_us >= since_us)
        fleet->rules.shared = false;
    fleet->walk = (struct rn_replication_walk){0};
    fleet->found = 0;
    return true;
}

static bool on_rules_offered(void *arg, const redisReply *reply)
{
    struct rn_fleet *fleet = arg;

    if (!rn_fleet_called(fleet, reply, NULL))
        return false;
    /* This node may have set newer rules meanwhile; newer ones of others will be fetched. */
    fleet->rules.shared = fleet->rules.told_us == fleet->rules.made_us;
    rn_redis_count(&fleet->counts.published, (uint64_t)reply->integer);
    rn_fleet_go_on(fleet);
    return true;
}

static void offer_rules(struct rn_fleet *fleet)
{
    struct rn_fleet_item value = rn_fleet_rules_value(fleet);
    struct rn_buf bytes = {0};

    rn_fleet_item_write(&bytes, &value);
    fleet->rules.told_us = value.made_us;
    if (!bytes.failed)
        rn_fleet_call(fleet, RN_SCRIPT_FLEET_OFFER, "hive",
                      (struct rn_slice[]){RN_SLICE(RN_FLEET_RULES), rn_buf_slice(&bytes)}, 2,
                      on_rules_offered);
    rn_buf_done(&bytes);
}

static bool on_offered(void *arg, const redisReply *reply)
{
    struct rn_fleet *fleet = arg;
    bool read = rn_fleet_called(fleet, reply, NULL);

    if (!read || rn_replication_acknowledge(fleet->limiter, &fleet->batch) != 0) {
        fleet->walk = (struct rn_replication_walk){0}; /* start again after the next poll */
        return read;
    }
    rn_redis_count(&fleet->counts.published, (uint64_t)reply->integer);
    rn_fleet_go_on(fleet);
    return true;
}

static bool send_batch(struct rn_fleet *fleet)
{
    const struct rn_replication_batch *batch = &fleet->batch;
    struct rn_slice args[2 * RN_FLEET_LOT];
    struct rn_buf bytes = {0};
    bool sent = false;

    for (size_t i = 0; i < batch->count; i++) {
        const struct rn_replication_item *item = &batch->items[i];
        size_t before = bytes.len;

        rn_fleet_item_write(&bytes, &(struct rn_fleet_item){item->kind, item->made_us,
                                                            item->expires_us, item->payload});
        args[2 * i] = (struct rn_slice){item->name, sizeof item->name};
        args[2 * i + 1] = (struct rn_slice){NULL, bytes.len - before};
    }
    const char *at = bytes.data;

    for (size_t i = 0; i < batch->count && !bytes.failed; at += args[2 * i + 1].len, i++)
        args[2 * i + 1].data = at;
    if (!bytes.failed)
        sent =
            rn_fleet_call(fleet, RN_SCRIPT_FLEET_OFFER, "hive", args, 2 * batch->count, on_offered);
    rn_buf_done(&bytes);
    return sent;
}

static bool offer_clients(struct rn_fleet *fleet)
{
    if (fleet->walk.map == 0 && fleet->walk.at == 0)
        fleet->news = rn_replication_changes(fleet->limiter);
    if (rn_replication_collect(fleet->limiter, &fleet->walk, OFFER_BYTES, &fleet->batch) != 0) {
        rn_fleet_go_on_soon(fleet);
        return false;
    }
    fleet->found += fleet->batch.count;
    if (fleet->walk.ended) {
        if (fleet->found == 0)
            fleet->told = fleet->news; /* all is offered when a whole walk has found nothing */
        fleet->walk = (struct rn_replication_walk){0};
        fleet->found = 0;
    }
    return fleet->batch.count == 0 || send_batch(fleet);
}

void rn_fleet_offer(struct rn_fleet *fleet)
{
    if (fleet->rules.made_us != 0 && !fleet->rules.shared)
        offer_rules(fleet);
    else if (offer_clients(fleet))
        rn_fleet_go_on(fleet);
}
