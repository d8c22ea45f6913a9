/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What usage there is in Redis: rules and periods, and the state files that it comes from.
 */
#include <stdlib.h>
#include <string.h>

#include "redis/fleet/fleet_internal.h"

struct rn_slice rn_fleet_usage_text(const redisReply *element)
{
    return element->type == REDIS_REPLY_STRING ? (struct rn_slice){element->str, element->len}
                                               : (struct rn_slice){0};
}

size_t rn_fleet_usage_fields(const redisReply *reply, size_t index)
{
    const redisReply *element = index < reply->elements ? reply->element[index] : NULL;

    return element && element->type == REDIS_REPLY_ARRAY ? element->elements / 2 : 0;
}

/* --- groups ----------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const struct rn_fleet_usage_group *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

size_t rn_fleet_usage_groups_read(struct rn_fleet_usage_groups *groups, const redisReply *reply)
{
    size_t count = rn_fleet_usage_fields(reply, 1), bad = 0;
    struct rn_fleet_usage_group *list = calloc(count + 1, sizeof *list);

    for (size_t i = 0; list && i < count; i++) {
        const redisReply *const *pair =
            (const redisReply *const *)&reply->element[1]->element[2 * i];
        struct rn_slice field = rn_fleet_usage_text(pair[0]);
        struct rn_fleet_usage_group *group = &list[groups->count];

        if (rn_slice_is(field, "next"))
            continue;
        if (!rn_fleet_usage_group_read(field, rn_fleet_usage_text(pair[1]), group)) {
            bad++;
            continue;
        }
        rn_buf_put(&groups->rules, group->usage.rule, group->usage.rule_len);
        groups->count++;
    }
    if (!list || groups->rules.failed) {
        free(list);
        groups->count = 0;
        return bad;
    }
    const char *rule = groups->rules.data;

    for (size_t i = 0; i < groups->count; i++) {
        list[i].usage.rule = rule;
        rule += list[i].usage.rule_len;
    }
    qsort(list, groups->count, sizeof *list, by_number);
    groups->list = list;
    return bad;
}

void rn_fleet_usage_groups_done(struct rn_fleet_usage_groups *groups)
{
    free(groups->list);
    rn_buf_done(&groups->rules);
    *groups = (struct rn_fleet_usage_groups){0};
}

/* --- files ------------------------------------------------------------------------------------ */

size_t rn_fleet_usage_missing_read(struct rn_fleet_usage *usage, const redisReply *reply)
{
    size_t count = rn_fleet_usage_fields(reply, 2), bad = 0;
    int64_t now_s = reply->element[0]->integer;
    struct rn_fleet_usage_file file;

    free(usage->missing);
    usage->missing_count = 0;
    usage->missing = calloc(count + 1, sizeof *usage->missing);
    for (size_t i = 0; usage->missing && i < count; i++) {
        const redisReply *const *pair =
            (const redisReply *const *)&reply->element[2]->element[2 * i];

        if (!rn_fleet_usage_file_read(rn_fleet_usage_text(pair[0]), rn_fleet_usage_text(pair[1]),
                                      &file)) {
            bad++;
            continue;
        }
        int64_t silent_s = file.seen_s < now_s ? now_s - file.seen_s : 0;

        if (silent_s < RN_FLEET_USAGE_SILENT_S && file.unpublished == 0)
            continue;
        struct rn_fleet_missing *missing = &usage->missing[usage->missing_count++];

        memcpy(missing->name, file.name, sizeof missing->name);
        missing->silent_s = silent_s;
        missing->unpublished = file.unpublished;
    }
    return bad;
}

size_t rn_fleet_usage_missing(const struct rn_fleet *fleet, const struct rn_fleet_missing **missing)
{
    *missing = fleet->usage.missing;
    return fleet->usage.missing_count;
}
