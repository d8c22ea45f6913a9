/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of attributes, and the team's prefix before them.
 */
#include <stdio.h>

#include "rules/native/native_internal.h"

struct rn_slice rn_native_full_name(struct rn_builder *builder, struct rn_slice name)
{
    struct rn_slice team = builder->team;
    bool has_prefix =
        name.len > team.len && name.data[team.len] == '.' && rn_slice_starts_with(name, team);

    if (team.len == 0 || has_prefix)
        return rn_builder_dup(builder, name);
    size_t len = team.len + 1 + name.len;
    char *full = rn_builder_alloc(builder, len + 1, 1);

    if (full != NULL)
        snprintf(full, len + 1, "%.*s.%.*s", (int)team.len, team.data, (int)name.len, name.data);
    return (struct rn_slice){full, full != NULL ? len : 0};
}

/* --- attributes -------------------------------------------------------------------- */

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool is_alphanumeric(char c)
{
    char lower = to_lower(c);

    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

/* A character of a header's name: RFC 9110, 5.6.2. */
static bool is_token(char c)
{
    return is_alphanumeric(c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool starts_with_header(struct rn_slice name)
{
    static const char prefix[] = "header.";

    if (name.len < sizeof prefix - 1)
        return false;
    for (size_t i = 0; i < sizeof prefix - 1; i++)
        if (to_lower(name.data[i]) != prefix[i])
            return false;
    return true;
}

/* Whether a name has only characters that it may have; capitals are checked elsewhere. */
static bool is_well_formed(struct rn_slice name, bool header)
{
    size_t from = header ? sizeof "header." - 1 : 0;

    if (name.len == from || (!header && !is_alphanumeric(name.data[0])) ||
        (!header && name.data[0] >= '0' && name.data[0] <= '9'))
        return false;
    for (size_t i = from; i < name.len; i++) {
        char c = name.data[i];

        if (header ? !is_token(c) : !is_alphanumeric(c) && c != '_' && c != '-' && c != '.')
            return false;
    }
    return true;
}

static void lower_into(char *out, struct rn_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        out[i] = to_lower(text.data[i]);
}

/* Writes the lower-case name to `lower`; false after reporting an error in it. */
static bool check_name(struct rn_builder *builder, struct rn_place at, struct rn_slice name,
                       char lower[RN_ATTRIBUTE_NAME_MAX])
{
    bool header = starts_with_header(name);

    if (name.len > RN_ATTRIBUTE_NAME_MAX) {
        rn_report_error(builder->report, at,
                        "%s is too long for an attribute; use at most %d "
                        "characters",
                        rn_excerpt(name).text, RN_ATTRIBUTE_NAME_MAX);
        return false;
    }
    if (!is_well_formed(name, header)) {
        rn_report_error(
            builder->report, at,
            "%s is not the name of an attribute; write one such as ip, user, api_key or "
            "header.x-device",
            rn_excerpt(name).text);
        return false;
    }
    lower_into(lower, name);
    struct rn_slice small = {lower, name.len};
    if (!header && !rn_slice_equal(small, name)) {
        rn_report_error(builder->report, at, "%s has capitals, attributes have none; write %s",
                        rn_excerpt(name).text, rn_excerpt(small).text);
        return false;
    }
    if (rn_slice_is(small, "or") || rn_slice_is(small, "none")) {
        rn_report_error(builder->report, at,
                        "%s has a special meaning in keys and cannot name an attribute",
                        rn_excerpt(name).text);
        return false;
    }
    return true;
}

static uint16_t add_attribute(struct rn_builder *builder, struct rn_place at, struct rn_slice name)
{
    uint16_t number = rn_builder_attribute(builder, name);

    if (number == RN_NO_ATTRIBUTE && !builder->failed)
        rn_report_error(builder->report, at,
                        "more than %d different attributes; use fewer in one ruleset",
                        RN_ATTRIBUTES_MAX);
    return number;
}

uint16_t rn_native_attribute(struct rn_builder *builder, const struct rn_node *node,
                             struct rn_slice name, size_t pos)
{
    struct rn_place at = rn_report_place_in(builder->report, node, pos);
    char lower[RN_ATTRIBUTE_NAME_MAX];

    if (!check_name(builder, at, name, lower))
        return RN_NO_ATTRIBUTE;
    name.data = lower;
    if (builder->team.len != 0) {
        struct rn_slice full = rn_native_full_name(builder, name);
        uint16_t own =
            full.data == NULL ? RN_NO_ATTRIBUTE : rn_builder_find_attribute(builder, full);
        const char *dot = memchr(name.data, '.', name.len);
        struct rn_slice team = {name.data, dot == NULL ? 0 : (size_t)(dot - name.data)};

        if (own != RN_NO_ATTRIBUTE && builder->native->attribute_at[own].line != 0)
            return own;
        if (team.len != 0 && !rn_slice_equal(team, builder->team) &&
            rn_teams_find(builder->teams, team) != NULL) {
            rn_report_error(builder->report, at,
                            "%s belongs to team %.*s; a team uses its own attributes and the "
                            "root's",
                            rn_excerpt(name).text, (int)team.len, team.data);
            return RN_NO_ATTRIBUTE;
        }
    }
    return add_attribute(builder, at, name);
}

uint16_t rn_native_attribute_declared(struct rn_builder *builder, const struct rn_node *node)
{
    static const char *const built_in[] = {"ip", "path", "host", "method"};
    struct rn_slice name = node->text;
    char lower[RN_ATTRIBUTE_NAME_MAX];
    uint16_t number;

    if (builder->team.len == 0 || starts_with_header(name))
        return rn_native_attribute_node(builder, node);
    if (!check_name(builder, node->at, name, lower))
        return RN_NO_ATTRIBUTE;
    name = rn_native_full_name(builder, name);
    if (name.data == NULL || !check_name(builder, node->at, name, lower))
        return RN_NO_ATTRIBUTE;
    size_t prefix = builder->team.len + 1;

    if (rn_slice_find(rn_slice_of(name.data + prefix), built_in, RN_COUNT(built_in)) <
        RN_COUNT(built_in)) {
        rn_report_error(builder->report, node->at,
                        "only files at the root may say where \"%s\" comes from; give the "
                        "attribute another name",
                        name.data + prefix);
        return RN_NO_ATTRIBUTE;
    }
    number = add_attribute(builder, node->at, name);
    if (number == RN_NO_ATTRIBUTE || !builder->native->attribute_used[number] ||
        builder->native->attribute_at[number].line != 0)
        return number;
    rn_report_error(builder->report, node->at,
                    "files at the root use %s, as one that requests have; choose another name",
                    rn_excerpt(name).text);
    return RN_NO_ATTRIBUTE;
}

uint16_t rn_native_attribute_node(struct rn_builder *builder, const struct rn_node *node)
{
    struct rn_slice name;

    if (!rn_node_as_text(node, builder->report, &name))
        return RN_NO_ATTRIBUTE;
    return rn_native_attribute(builder, node, name, 0);
}

uint16_t rn_native_attribute_used(struct rn_builder *builder, const struct rn_node *node)
{
    uint16_t number = rn_native_attribute_node(builder, node);

    if (number != RN_NO_ATTRIBUTE)
        builder->native->attribute_used[number] = true;
    return number;
}

struct rn_slice rn_native_header(struct rn_builder *builder, const struct rn_node *node,
                                 const char *prefix)
{
    const struct rn_slice none = {NULL, 0};
    size_t before = strlen(prefix);
    struct rn_slice name;

    if (!rn_node_as_text(node, builder->report, &name))
        return none;
    bool ok = name.len != 0 && before + name.len <= RN_ATTRIBUTE_NAME_MAX;
    for (size_t i = 0; ok && i < name.len; i++)
        ok = is_token(name.data[i]);
    if (!ok) {
        rn_report_error(builder->report, node->at,
                        "%s is not the name of a header; write one such as x-api-key",
                        rn_excerpt(name).text);
        return none;
    }
    char *lower = rn_builder_alloc(builder, before + name.len + 1, 1);
    if (lower == NULL)
        return none;
    memcpy(lower, prefix, before);
    lower_into(lower + before, name);
    return (struct rn_slice){lower, before + name.len};
}

uint16_t rn_native_header_attribute(struct rn_builder *builder, const struct rn_node *node)
{
    struct rn_slice name = rn_native_header(builder, node, "header.");
    uint16_t number = name.data == NULL ? RN_NO_ATTRIBUTE : add_attribute(builder, node->at, name);

    if (number != RN_NO_ATTRIBUTE)
        builder->native->attribute_used[number] = true;
    return number;
}
