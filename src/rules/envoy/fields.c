/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of Envoy's format: which belong where, and errors for the others. Also
 * `metadata`, which may have any keys.
 */
#include <stdio.h>
#include <strings.h>

#include "rules/envoy/parse_internal.h"

/* In the order of the enums of parse_internal.h. */
static const char *const file_keys[] = {"domain", "descriptors"};
static const char *const descriptor_keys[] = {
    "key",        "value",           "rate_limit",      "descriptors",     "shadow_mode",
    "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
};
static const char *const limit_keys[] = {
    "unit",  "requests_per_unit", "unlimited", "name",        "replaces",
    "limit", "algorithm",         "burst",     "sub_windows", "queue",
};
static const char *const replaces_keys[] = {"name"};

static const struct {
    const char *home;
    const char *const *keys;
    size_t count;
} maps[] = {
    [RN_ENVOY_FILE] = {"at the top of the file", file_keys, RN_COUNT(file_keys)},
    [RN_ENVOY_DESCRIPTOR] = {"into a descriptor", descriptor_keys, RN_COUNT(descriptor_keys)},
    [RN_ENVOY_RATE_LIMIT] = {"into rate_limit", limit_keys, RN_COUNT(limit_keys)},
    [RN_ENVOY_REPLACES] = {"into replaces", replaces_keys, RN_COUNT(replaces_keys)},
};

static size_t find_key(enum rn_envoy_map kind, struct rn_slice key)
{
    size_t i = 0;

    while (i < maps[kind].count && (strlen(maps[kind].keys[i]) != key.len ||
                                    strncasecmp(maps[kind].keys[i], key.data, key.len) != 0))
        i++;
    return i;
}

/* Reports a key that the map does not have. envoyproxy/ratelimit ignores keys in the wrong place,
 * so files with its own keys there must load: they get a warning. */
static void report_key(struct rn_envoy_reader *r, const struct rn_node *value,
                       enum rn_envoy_map kind)
{
    struct rn_slice key = value->key->text;

    for (enum rn_envoy_map other = RN_ENVOY_FILE; other < RN_ENVOY_REPLACES; other++) {
        size_t i = find_key(other, key);
        bool ours = other == RN_ENVOY_RATE_LIMIT && i >= RN_LIMIT_TEXT;

        if (i == maps[other].count)
            continue;
        (ours ? rn_report_error : rn_report_warning)(r->report, value->key->at,
                                                     "%s has no effect here; it belongs %s",
                                                     rn_excerpt(key).text, maps[other].home);
        return;
    }
    rn_report_unknown_key(r->report, value, maps[kind].keys, maps[kind].count);
}

bool rn_envoy_expect(struct rn_envoy_reader *r, const struct rn_node *node, enum rn_node_kind kind,
                     const char *advice)
{
    if (node->kind == kind)
        return true;
    rn_report_error(r->report, node->at, "%s%sexpected %s, found %s; %s",
                    node->key ? rn_excerpt(node->key->text).text : "", node->key ? ": " : "",
                    kind == RN_NODE_LIST ? "a list" : "a map", rn_node_describe(node).text, advice);
    return false;
}

void rn_envoy_read_fields(struct rn_envoy_reader *r, const struct rn_node *map,
                          enum rn_envoy_map kind, const struct rn_node *fields[RN_ENVOY_FIELDS_MAX])
{
    const struct rn_node *seen[RN_ENVOY_FIELDS_MAX] = {NULL};

    memset(fields, 0, sizeof *fields * RN_ENVOY_FIELDS_MAX);
    RN_NODE_EACH(value, map) {
        struct rn_slice key = value->key->text;
        size_t i = find_key(kind, key);

        if (i == maps[kind].count) {
            report_key(r, value, kind);
            continue;
        }
        if (seen[i] && !rn_slice_equal(seen[i]->key->text, key)) /* in two spellings */
            rn_report_error(
                r->report, value->key->at, "%s is the same key as %s on line %u; keep one of them",
                rn_excerpt(key).text, rn_excerpt(seen[i]->key->text).text, seen[i]->key->at.line);
        else if (!rn_slice_is(key, maps[kind].keys[i]))
            rn_report_warning(r->report, value->key->at,
                              "%s is read as \"%s\"; write it in lower case", rn_excerpt(key).text,
                              maps[kind].keys[i]);
        seen[i] = value;
        if (!rn_node_is_null(value))
            fields[i] = value;
    }
}

bool rn_envoy_read_flag(struct rn_envoy_reader *r, const struct rn_node *node)
{
    /* True and false in YAML 1.1, which envoyproxy/ratelimit reads. */
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "n", "y"};
    bool value = false;

    if (!node)
        return false;
    for (size_t i = 0; i < RN_COUNT(words); i++) {
        if (node->kind == RN_NODE_SCALAR && !node->quoted && strlen(words[i]) == node->text.len &&
            strcasecmp(words[i], node->text.data) == 0)
            return i % 2 == 1;
    }
    (void)rn_node_as_bool(node, r->report, &value);
    return value;
}

/* --- metadata ----------------------------------------------------------------------- */

static uint32_t count_leaves(const struct rn_node *node)
{
    uint32_t count = 0;

    if (node->kind == RN_NODE_SCALAR)
        return 1;
    RN_NODE_EACH(child, node)
        count += count_leaves(child);
    return count;
}

static void add_leaves(struct rn_envoy_reader *r, const struct rn_node *node,
                       struct rn_slice prefix, struct rn_envoy_metadata **next)
{
    uint32_t position = 0;

    if (node->kind == RN_NODE_SCALAR) {
        struct rn_slice value = rn_node_is_null(node) ? RN_SLICE("") : node->text;

        *(*next)++ = (struct rn_envoy_metadata){
            .key = prefix, .value = rn_builder_dup(r->builder, value), .text = node->quoted};
        return;
    }
    RN_NODE_EACH(child, node) {
        size_t name_len = node->kind == RN_NODE_MAP ? child->key->text.len : 10;
        size_t room = prefix.len + 1 + name_len + 1;
        char *name = rn_builder_alloc(r->builder, room, 1);
        int len;

        if (!name)
            return;
        len = snprintf(name, room, "%.*s%s", (int)prefix.len, prefix.data, prefix.len ? "." : "");
        if (node->kind == RN_NODE_MAP)
            memcpy(name + len, child->key->text.data, name_len);
        else
            name_len = (size_t)snprintf(name + len, room - (size_t)len, "%u", position++);
        add_leaves(r, child, (struct rn_slice){name, (size_t)len + name_len}, next);
    }
}

void rn_envoy_read_metadata(struct rn_envoy_reader *r, const struct rn_node *map,
                            struct rn_envoy_limit *limit)
{
    if (!rn_envoy_expect(r, map, RN_NODE_MAP, "write names and values, as in team: payments"))
        return;
    uint32_t count = count_leaves(map);
    struct rn_envoy_metadata *all = rn_builder_alloc(r->builder, count, sizeof *all);
    struct rn_envoy_metadata *next = all;

    if (!all)
        return;
    add_leaves(r, map, RN_SLICE(""), &next);
    limit->metadata = all;
    limit->metadata_count = count;
}
