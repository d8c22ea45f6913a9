/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of attributes, and keys made of them: `user`, `api_key or ip`,
 * [tenant, user], {ip: {ipv4: 24}}.
 */
#include "rules/native.h"

#define IPV4_BITS 32
#define IPV6_BITS 128
#define IPV6_SITE 64 /* one subscriber's network, as a rule */

/* --- names ------------------------------------------------------------------------- */

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static char to_lower(char c)
{
    return is_upper(c) ? (char)(c | 0x20) : c;
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

/* Whether each character may stand in a name; capitals are judged apart. */
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

static bool has_upper(struct rn_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (is_upper(text.data[i]))
            return true;
    return false;
}

/* What is wrong with a name, reported; else its lower-case form is in `lower`. */
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
        rn_report_error(builder->report, at,
                        "%s is no name of an attribute; write one such as ip, user, api_key or "
                        "header.x-device",
                        rn_excerpt(name).text);
        return false;
    }
    lower_into(lower, name);
    struct rn_slice small = {lower, name.len};
    if (!header && has_upper(name)) {
        rn_report_error(builder->report, at, "%s has capitals, attributes have none; write %s",
                        rn_excerpt(name).text, rn_excerpt(small).text);
        return false;
    }
    if (rn_slice_is(small, "or") || rn_slice_is(small, "none")) {
        rn_report_error(builder->report, at,
                        "%s has a meaning of its own in keys and cannot name an attribute",
                        rn_excerpt(name).text);
        return false;
    }
    return true;
}

uint16_t rn_native_attribute(struct rn_builder *builder, const struct rn_node *node,
                             struct rn_slice name, size_t pos)
{
    struct rn_place at = rn_report_place_in(builder->report, node, pos);
    char lower[RN_ATTRIBUTE_NAME_MAX];

    if (!check_name(builder, at, name, lower))
        return RN_NO_ATTRIBUTE;

    uint16_t number = rn_builder_attribute(builder, (struct rn_slice){lower, name.len});
    if (number == RN_NO_ATTRIBUTE && !builder->failed)
        rn_report_error(builder->report, at,
                        "more than %d different attributes; use fewer in one ruleset",
                        RN_ATTRIBUTES_MAX);
    return number;
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
                        "%s is no name of a header; write one such as x-api-key",
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

/* --- parts ------------------------------------------------------------------------- */

/* The next word of a text, behind white space; empty at the end. */
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

/* One attribute more of a part. False after reporting. */
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
                        "%s is no address, so it has no prefix; write the name alone",
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

static bool read_part(struct rn_builder *builder, const struct rn_node *node,
                      struct rn_key_part *part)
{
    struct rn_slice text;

    *part = (struct rn_key_part){.ipv4_prefix = IPV4_BITS, .ipv6_prefix = IPV6_SITE};
    if (node->kind == RN_NODE_MAP)
        return read_network(builder, node, part);
    if (!rn_node_as_text(node, builder->report, &text))
        return false;
    return read_alternatives(builder, node, text, part);
}

/* --- keys -------------------------------------------------------------------------- */

static bool same_part(const struct rn_key_part *a, const struct rn_key_part *b)
{
    return a->count == b->count &&
           memcmp(a->attributes, b->attributes, a->count * sizeof a->attributes[0]) == 0;
}

static void add_part(struct rn_builder *builder, const struct rn_node *node,
                     struct rn_key_part *parts, uint32_t *count)
{
    if (*count == RN_KEY_PARTS_MAX) {
        rn_report_error(builder->report, node->at, "more than %d parts in a key; use fewer",
                        RN_KEY_PARTS_MAX);
        return;
    }
    if (!read_part(builder, node, &parts[*count]))
        return;
    for (uint32_t i = 0; i < *count; i++) {
        if (same_part(&parts[i], &parts[*count])) {
            rn_report_error(builder->report, node->at,
                            "a part that stands in this key already; once is enough");
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
