/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `key:`, which names attributes: `user`, `api_key or ip`, [tenant, user],
 * {ip: {ipv4: 24}}.
 */
#include "rules/native/native_internal.h"

#define IPV4_BITS 32
#define IPV6_BITS 128
#define IPV6_SITE 64 /* usually the network of one subscriber */

/* --- parts ------------------------------------------------------------------------- */

/* The next word of a text, after white space; empty at the end. */
static struct rn_slice next_word(struct rn_slice text, size_t *pos)
{
    size_t from = *pos, to;

    while (from < text.len &&
           (text.data[from] == ' ' || text.data[from] == '\t' || text.data[from] == '\n'))
        from++;
    for (to = from;
         to < text.len && text.data[to] != ' ' && text.data[to] != '\t' && text.data[to] != '\n';)
        to++;
    *pos = to;
    return (struct rn_slice){text.data + from, to - from};
}

/* People also write `ip, user`, `ip and user`, `ip + user`, `ip:user`. */
static bool report_other_joints(struct rn_builder *builder, const struct rn_node *node,
                                struct rn_slice word, size_t at)
{
    bool joint = rn_slice_is(word, "and");

    for (size_t i = 0; !joint && i < word.len; i++)
        joint = word.data[i] != '\0' && strchr(",+&|:", word.data[i]) != NULL;
    if (joint)
        rn_report_error(builder->report, rn_report_place_in(builder->report, node, at),
                        "unexpected %s; write [ip, user] to count each combination, or \"ip or "
                        "user\" for the first that is present",
                        rn_excerpt(word).text);
    return joint;
}

/* Adds an attribute to a part. False after reporting. */
static bool add_alternative(struct rn_builder *builder, const struct rn_node *node,
                            struct rn_slice word, size_t at, struct rn_key_part *part)
{
    uint16_t number = rn_native_attribute(builder, node, word, at);
    struct rn_place place = rn_report_place_in(builder->report, node, at);

    if (number == RN_NO_ATTRIBUTE)
        return false;
    builder->native->attribute_used[number] = true;
    for (unsigned i = 0; i < part->count; i++) {
        if (part->attributes[i] == number) {
            rn_report_error(builder->report, place, "%s stands twice in this key; once is enough",
                            rn_excerpt(word).text);
            return false;
        }
    }
    if (part->count == RN_KEY_PARTS_MAX) {
        rn_report_error(builder->report, place, "more than %d alternatives in a key; use fewer",
                        RN_KEY_PARTS_MAX);
        return false;
    }
    part->attributes[part->count++] = number;
    return true;
}

/* NAME ("or" NAME)*; the text is not empty. */
static bool read_alternatives(struct rn_builder *builder, const struct rn_node *node,
                              struct rn_slice text, struct rn_key_part *part)
{
    size_t pos = 0;

    for (;;) {
        struct rn_slice word = next_word(text, &pos);
        size_t at = (size_t)(word.data - text.data);
        struct rn_place place = rn_report_place_in(builder->report, node, at);

        if (word.len == 0 || rn_slice_is(word, "or")) {
            rn_report_error(builder->report, place,
                            "a key with an attribute missing beside \"or\"; write for example "
                            "api_key or ip");
            return false;
        }
        if (report_other_joints(builder, node, word, at) ||
            !add_alternative(builder, node, word, at, part))
            return false;

        word = next_word(text, &pos);
        if (word.len == 0)
            return true;
        at = (size_t)(word.data - text.data);
        if (rn_slice_is(word, "or"))
            continue;
        if (!report_other_joints(builder, node, word, at))
            rn_report_error(builder->report, rn_report_place_in(builder->report, node, at),
                            "expected \"or\" between attributes, found %s; write for example "
                            "api_key or ip",
                            rn_excerpt(word).text);
        return false;
    }
}

static void read_prefix(struct rn_builder *builder, const struct rn_node *node, unsigned bits,
                        uint8_t *prefix)
{
    uint64_t value;

    if (node == NULL || !rn_node_as_uint(node, builder->report, &value))
        return;
    if (value >= 1 && value <= bits)
        *prefix = (uint8_t)value;
    else
        rn_report_error(builder->report, node->at,
                        "a prefix of %llu bits; an %s address has 1 to %u",
                        (unsigned long long)value, bits == IPV4_BITS ? "IPv4" : "IPv6", bits);
}

/* {ip: {ipv4: 24, ipv6: 56}} */
static bool read_network(struct rn_builder *builder, const struct rn_node *map,
                         struct rn_key_part *part)
{
    static const char *const families[] = {"ipv4", "ipv6"};
    const struct rn_node *value = map->first;

    if (map->count != 1) {
        rn_report_error(builder->report, map->at,
                        "a key that is a map names one address, as in {ip: {ipv4: 24}}; put "
                        "several parts in a list");
        return false;
    }
    if (!add_alternative(builder, value->key, value->key->text, 0, part))
        return false;
    if (!rn_builder_attribute_at(builder, part->attributes[0])->is_ip) {
        rn_report_error(builder->report, value->key->at,
                        "%s is not an address, so it has no prefix; write the name alone",
                        rn_excerpt(value->key->text).text);
        return false;
    }
    if (!rn_native_map(builder, value, families, RN_COUNT(families)))
        return false;
    if (value->count == 0)
        rn_report_error(builder->report, value->at,
                        "no prefix; write {ipv4: 24}, {ipv6: 56} or both");
    read_prefix(builder, rn_node_find(value, "ipv4"), IPV4_BITS, &part->ipv4_prefix);
    read_prefix(builder, rn_node_find(value, "ipv6"), IPV6_BITS, &part->ipv6_prefix);
    return true;
}

/* --- keys -------------------------------------------------------------------------- */

static void add_part(struct rn_builder *builder, const struct rn_node *node,
                     struct rn_key_part *parts, uint32_t *count)
{
    struct rn_slice text;

    if (*count == RN_KEY_PARTS_MAX) {
        rn_report_error(builder->report, node->at, "more than %d parts in a key; use fewer",
                        RN_KEY_PARTS_MAX);
        return;
    }
    parts[*count] = (struct rn_key_part){.ipv4_prefix = IPV4_BITS, .ipv6_prefix = IPV6_SITE};
    if (node->kind == RN_NODE_MAP ? !read_network(builder, node, &parts[*count])
                                  : !rn_node_as_text(node, builder->report, &text) ||
                                        !read_alternatives(builder, node, text, &parts[*count]))
        return;
    for (uint32_t i = 0; i < *count; i++) {
        if (parts[i].count == parts[*count].count &&
            memcmp(parts[i].attributes, parts[*count].attributes,
                   parts[i].count * sizeof parts[i].attributes[0]) == 0) {
            rn_report_error(builder->report, node->at,
                            "this part is already in the key; remove one of the two");
            return;
        }
    }
    ++*count;
}

void rn_native_key(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    struct rn_key_part parts[RN_KEY_PARTS_MAX];
    uint32_t count = 0;

    if (node->kind == RN_NODE_SCALAR && rn_slice_is(node->text, "none"))
        return;
    if (rn_node_is_null(node) || (node->kind == RN_NODE_LIST && node->count == 0)) {
        rn_report_error(builder->report, node->at,
                        "an empty key; write none for one counter for all");
        return;
    }
    if (node->kind == RN_NODE_LIST) {
        RN_NODE_EACH(part, node)
            add_part(builder, part, parts, &count);
    } else {
        add_part(builder, node, parts, &count);
    }

    struct rn_key_part *kept = rn_builder_alloc(builder, count, sizeof *kept);
    if (kept == NULL)
        return;
    memcpy(kept, parts, count * sizeof *kept);
    rule->key = kept;
    rule->key_count = count;
}
