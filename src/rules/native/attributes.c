/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the section `attributes:`, which says where an attribute comes from: a header, a segment
 * of the path, the client's address as trusted proxies forward it, or a database (geo.c).
 */
#include <string.h>

#include "rules/match/pattern.h"
#include "rules/native/native_internal.h"

/* The pattern with {name} replaced by {full}: rules of a team are printed as a file of the root. */
static struct rn_slice with_full_name(struct rn_builder *builder, struct rn_slice pattern,
                                      struct rn_slice name, struct rn_slice full)
{
    size_t more = full.len - name.len, at = 0;
    char *text = rn_builder_alloc(builder, pattern.len + more + 1, 1);

    if (text == NULL)
        return (struct rn_slice){NULL, 0};
    while (pattern.data[at] != '{' || pattern.data[at + name.len + 1] != '}' ||
           memcmp(pattern.data + at + 1, name.data, name.len) != 0)
        at++;
    memcpy(text, pattern.data, at + 1);
    memcpy(text + at + 1, full.data, full.len);
    memcpy(text + at + 1 + full.len, pattern.data + at + 1 + name.len,
           pattern.len - at - 1 - name.len);
    return (struct rn_slice){text, pattern.len + more};
}

static void derive_from_path(struct rn_builder *builder, const struct rn_node *node,
                             struct rn_attribute *attribute)
{
    size_t team = builder->team.len == 0 ? 0 : builder->team.len + 1;
    struct rn_slice name = {attribute->name.data + team, attribute->name.len - team};
    struct rn_slice text, segment;
    bool varies = false;
    unsigned i = 0;

    if (!rn_node_as_text(node, builder->report, &text))
        return;
    const char *fault = rn_pattern_fault(text);

    if (fault != NULL) {
        rn_report_error(builder->report, node->at, "%s", fault);
        return;
    }
    for (; (segment = rn_pattern_segment(text, i)).data != NULL; i++) {
        varies |= rn_slice_is(segment, "**") || i > UINT16_MAX;
        if (segment.len == name.len + 2 && segment.data[0] == '{' &&
            memcmp(segment.data + 1, name.data, name.len) == 0)
            break;
    }
    if (segment.data == NULL)
        rn_report_error(builder->report, node->at,
                        "a path without {%.*s}, the segment to take; write for example "
                        "/%.*s/{%.*s}/**",
                        (int)name.len, name.data, (int)name.len, name.data, (int)name.len,
                        name.data);
    else if (varies)
        rn_report_error(builder->report, node->at,
                        "{%.*s} after **, where its place is not known; put ** behind it",
                        (int)name.len, name.data);
    if (segment.data == NULL || varies)
        return;
    attribute->source = RN_SOURCE_PATH;
    attribute->pattern = with_full_name(builder, text, name, attribute->name);
    attribute->segment = (uint16_t)i;
}

static void derive_from_proxies(struct rn_builder *builder, const struct rn_node *map,
                                struct rn_attribute *attribute)
{
    static const char *const headers[] = {"x-forwarded-for", "forwarded"};
    const struct rn_node *proxies = rn_node_find(map, "trusted_proxies");
    const struct rn_node *forwarded = rn_node_find(map, "forwarded");
    int header = 0;

    if (proxies != NULL && builder->team.len != 0) {
        rn_report_error(builder->report, proxies->key->at,
                        "only files at the root may say which proxies are trusted; write "
                        "{forwarded: x-forwarded-for} to use those");
        return;
    }
    if (forwarded != NULL)
        header = rn_native_word(builder, forwarded, "header", headers, RN_COUNT(headers));
    if (header >= 0) {
        attribute->source = RN_SOURCE_FORWARDED;
        attribute->is_ip = true;
        attribute->forwarded_rfc7239 = header == 1;
        attribute->header = rn_slice_of(headers[header]);
    }
    if (proxies == NULL || rn_native_is_again(builder, proxies, &builder->native->trusted_at))
        return;
    builder->native->trusted_at = proxies->key->at;
    builder->ruleset->trusted_proxies = rn_native_networks(builder, proxies);
}

void rn_native_read_attribute(struct rn_builder *builder, const struct rn_node *node)
{
    static const char *const keys[] = {"header", "path", "trusted_proxies", "forwarded",
                                       "geo",    "of",   "database"};
    uint16_t number = rn_native_attribute_declared(builder, node->key);
    uint32_t errors = builder->report->count[RN_ERROR];

    if (number == RN_NO_ATTRIBUTE || !rn_native_map(builder, node, keys, RN_COUNT(keys)) ||
        rn_native_is_again(builder, node, &builder->native->attribute_at[number]) ||
        builder->report->count[RN_ERROR] != errors)
        return;
    builder->native->attribute_at[number] = node->key->at;

    struct rn_attribute *attribute = rn_builder_attribute_at(builder, number);
    const struct rn_node *header = rn_node_find(node, "header"), *path = rn_node_find(node, "path");
    bool proxies = rn_node_find(node, "trusted_proxies") || rn_node_find(node, "forwarded");
    bool geo = rn_node_find(node, "geo") != NULL;
    int ways = (header != NULL) + (path != NULL) + proxies + geo;

    if (rn_slice_starts_with(attribute->name, RN_SLICE("header."))) {
        rn_report_error(builder->report, node->key->at,
                        "a header needs no declaration; give the attribute another name");
    } else if (ways != 1) {
        rn_report_error(builder->report, node->at,
                        "%s comes from %s; write one of {header: x-api-key}, {path: "
                        "\"/users/{user}/**\"}, {trusted_proxies: [10.0.0.0/8]} and {geo: country, "
                        "of: ip, database: FILE.mmdb}",
                        rn_excerpt(node->key->text).text, ways == 0 ? "nowhere" : "several places");
    } else if (!geo && (rn_node_find(node, "of") || rn_node_find(node, "database"))) {
        const struct rn_node *extra = rn_node_find(node, "of");

        rn_report_error(builder->report, (extra ? extra : rn_node_find(node, "database"))->key->at,
                        "only attributes with geo: are looked up in a database; add for example "
                        "geo: country, or remove this");
    } else if (geo && rn_slice_is(attribute->name, "ip")) {
        rn_report_error(builder->report, node->key->at,
                        "ip is an address, not what is known of one; give the attribute another "
                        "name, such as country");
    } else if (geo) {
        rn_native_read_geo(builder, node, number);
    } else if (path != NULL) {
        derive_from_path(builder, path, attribute);
    } else if (proxies) {
        derive_from_proxies(builder, node, attribute);
    } else if ((attribute->header = rn_native_header(builder, header, "")).data != NULL) {
        attribute->source = RN_SOURCE_HEADER;
        if (attribute->is_ip)
            rn_report_warning(builder->report, header->at,
                              "a client can send a header with any address in it; write "
                              "{trusted_proxies: [...], forwarded: x-forwarded-for} to believe "
                              "your proxies only");
    }
}

/* --- after all files ---------------------------------------------------------------- */

void rn_native_finish_attributes(struct rn_builder *builder)
{
    const struct rn_native *native = builder->native;

    rn_native_finish_geo(builder);
    for (uint32_t i = 0; i < builder->attributes.count; i++) {
        struct rn_attribute *attribute = rn_builder_attribute_at(builder, (uint16_t)i);

        if (native->attribute_at[i].line == 0)
            continue;
        if (attribute->source == RN_SOURCE_PATH) {
            /* Only now, since `paths:` may be in a later file. */
            struct rn_slice path = rn_native_path(builder, attribute->pattern);
            const char *fault = builder->failed ? NULL : rn_native_path_fault(path);

            if (fault != NULL)
                rn_report_error(builder->report, native->attribute_at[i], "%s", fault);
            else if (path.data != NULL)
                attribute->pattern = path;
        }
        if (!native->attribute_used[i] && builder->report->count[RN_ERROR] == 0)
            rn_report_warning(builder->report, native->attribute_at[i],
                              "no limit and no list uses %s; use it or remove it",
                              rn_excerpt(attribute->name).text);
        if (attribute->source == RN_SOURCE_FORWARDED && native->trusted_at.line == 0)
            rn_report_warning(builder->report, native->attribute_at[i],
                              "no proxy is trusted, so the header is never believed; add "
                              "trusted_proxies: [10.0.0.0/8] with your proxies' networks");
    }
}
