/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a change that other nodes have shared: no crash; a change that is
 * accepted is written as the same bytes again, and can be listed. Also as the factors that another
 * node asks for, as its bans and as its usage: nothing is out of bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ration/rules.h>

#include "redis/fleet/fleet_internal.h"

#define RULES "limits: [{name: a, key: user, limit: 10 per hour}]"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

static struct ration *open_node(void)
{
    struct ration *r = NULL;

    demand(ration_open(&(struct ration_options){.memory_bytes = 1 << 20}, &r, NULL) == 0);
    demand(ration_rules_parse(r, "rules", RULES, sizeof RULES - 1, NULL) == 0);
    rn_replication_begin(r);
    return r;
}

static void write_again(struct rn_slice bytes, const struct rn_fleet_item *value)
{
    struct rn_buf again = {0};

    rn_fleet_item_write(&again, value);
    demand(!again.failed && rn_slice_equal(rn_buf_slice(&again), bytes));
    rn_buf_done(&again);
}

/* An accepted item is written as it was read. */
static void tell(struct ration *r, const struct rn_replication_item *item)
{
    struct rn_replication_walk walk = {.ended = false};
    struct rn_replication_batch batch;

    demand(rn_replication_doubt(r, 0) == 0 && rn_replication_batch_init(&batch, 8) == 0);
    demand(rn_replication_collect(r, &walk, SIZE_MAX, &batch) == 0);
    for (size_t i = 0; i < batch.count; i++)
        demand(batch.items[i].kind == item->kind &&
               rn_slice_equal(batch.items[i].payload, item->payload) &&
               memcmp(batch.items[i].name, item->name, sizeof item->name) == 0);
    rn_replication_batch_done(&batch);
}

static void read_factors(struct rn_slice said)
{
    char host[RN_FLEET_HOST];
    struct rn_slice rule;
    unsigned percent;

    if (!rn_fleet_factors_read_host(&said, host))
        return;
    demand(host[0] != '\0' && strlen(host) < sizeof host);
    for (size_t left = said.len; left > 0; left = said.len) {
        bool good = rn_fleet_factors_read(&said, &percent, &rule);

        demand(said.len < left);
        demand(!good || (percent >= 1 && percent <= 100 && rule.len > 0 &&
                         memchr(rule.data, '\n', rule.len) == NULL));
    }
}

/* As a ban, and cut in two as fields of usage. */
static void read_reputation(struct rn_slice bytes)
{
    const char *cut = bytes.len > 0 ? memchr(bytes.data, '\n', bytes.len) : NULL;
    struct rn_fleet_ban ban;
    struct rn_fleet_usage_group group;
    struct rn_fleet_usage_file file;
    struct rn_fleet_usage_row row;

    if (rn_fleet_ban_read(bytes, &ban))
        demand(ban.level < RN_LEVELS && (ban.level == 0) == (ban.rest_ns == 0));
    if (!cut)
        return;
    struct rn_slice field = {bytes.data, (size_t)(cut - bytes.data)};
    struct rn_slice value = {cut + 1, bytes.len - field.len - 1};

    if (rn_fleet_usage_group_read(field, value, &group))
        demand(group.number != 0 && group.usage.start_s < group.usage.end_s &&
               group.usage.rule_len > 0);
    if (rn_fleet_usage_file_read(field, value, &file))
        demand(strlen(file.name) < sizeof file.name && file.seen_s >= 0);
    if (rn_fleet_usage_row_read(field, value, &row))
        demand(row.client.len <= RATION_USAGE_CLIENT_MAX && (!row.other || row.client.len == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rn_slice bytes = {(const char *)data, size};
    struct rn_fleet_item value;
    struct rn_client client;

    read_factors(bytes);
    read_reputation(bytes);
    if (!rn_fleet_item_read(bytes, &value))
        return 0;
    write_again(bytes, &value);
    struct rn_replication_item item = {.kind = value.kind, .payload = value.text};
    struct rn_replication_merged merged;
    struct ration *r = open_node();

    if (rn_client_read(value.text, &client))
        rn_client_name(&client, item.name);
    demand(rn_replication_merge(r, &item, 1, &merged, NULL) == 0);
    demand(merged.taken + merged.refused <= 1); /* neither: it has expired */
    if (merged.taken == 1)
        tell(r, &item);
    ration_close(r);
    return 0;
}
