/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that conditions compare with: normalized text, networks, numbers.
 */
#include "base/decimal.h"
#include "rules/match/pattern.h"
#include "rules/native/native_internal.h"

struct rn_slice rn_native_path(struct rn_builder *builder, struct rn_slice text)
{
    size_t room = 3 * text.len + 2;
    char *out = rn_builder_alloc(builder, room, 1);

    if (out == NULL)
        return (struct rn_slice){NULL, 0};
    return rn_path_spell(text, &builder->ruleset->paths, out, room);
}

const char *rn_native_path_fault(struct rn_slice path)
{
    struct rn_slice segment;

    if (path.data == NULL)
        return "an escape behind ;, where paths: {parameters: ignore} drops it or not, depending "
               "on "
               "the server; leave out the parameters";
    for (unsigned i = 0; (segment = rn_pattern_segment(path, i)).data != NULL; i++)
        if (rn_slice_is(segment, ".") || rn_slice_is(segment, ".."))
            return ". and .. are resolved before paths are compared; write the path that they lead "
                   "to";
    return NULL;
}

struct rn_slice rn_native_value(struct rn_builder *builder, uint16_t attribute,
                                struct rn_slice text)
{
    const struct rn_attribute *a = rn_builder_attribute_at(builder, attribute);
    struct rn_slice name = a->name;
    bool is_geo = a->source == RN_SOURCE_GEO, is_code = is_geo && a->field != RN_GEO_ORG;
    bool upper = rn_slice_is(name, "method") || is_code, lower = rn_slice_is(name, "host");

    if (rn_slice_is(name, "path"))
        return rn_native_path(builder, text);
    struct rn_slice copy = rn_builder_dup(builder, text);

    if (copy.data == NULL || (!upper && !lower))
        return copy;
    for (char *c = (char *)copy.data; c < copy.data + copy.len; c++) {
        if (upper ? *c >= 'a' && *c <= 'z' : *c >= 'A' && *c <= 'Z')
            *c = (char)(*c ^ 0x20);
    }
    if (is_geo && a->field == RN_GEO_ASN && rn_slice_starts_with(copy, RN_SLICE("AS")) &&
        copy.len > 2 && copy.data[2] >= '0' && copy.data[2] <= '9')
        return (struct rn_slice){copy.data + 2, copy.len - 2};
    return copy;
}

int64_t rn_native_open_values(struct rn_report *report, const struct rn_node *node,
                              const struct rn_node **first)
{
    if (node->kind == RN_NODE_MAP) {
        rn_report_error(report, node->at, "expected a value or a list of values, found a map");
        return -1;
    }
    *first = node->kind == RN_NODE_LIST ? node->first : node;
    return node->kind == RN_NODE_LIST ? node->count : 1;
}

const struct rn_node *rn_native_next_value(const struct rn_node *node, const struct rn_node *item)
{
    return node->kind == RN_NODE_LIST ? item->next : NULL;
}

void rn_native_warn_of_empty(struct rn_report *report, const struct rn_node *node)
{
    if (node->kind == RN_NODE_LIST && node->count == 0)
        rn_report_warning(report, node->at,
                          "an empty list, which no value is in; add values or remove it");
}

const struct rn_cidr_set *rn_native_networks(struct rn_builder *builder, const struct rn_node *node)
{
    const struct rn_node *item = NULL;
    int64_t count = rn_native_open_values(builder->report, node, &item);
    struct rn_cidr_set *set = rn_builder_alloc(builder, 1, sizeof *set);
    struct rn_cidr *networks =
        count < 0 ? NULL : rn_builder_alloc(builder, (size_t)count, sizeof *networks);
    size_t read = 0;
    bool ok = set != NULL && networks != NULL;

    for (; networks != NULL && item != NULL; item = rn_native_next_value(node, item)) {
        struct ration_error error;
        struct rn_slice text;

        if (!rn_node_as_text(item, builder->report, &text) ||
            rn_mistakes_comma(builder, item, "network")) {
            ok = false;
        } else if (memchr(text.data, '*', text.len) != NULL) {
            rn_report_error(builder->report, item->at,
                            "addresses have no patterns; write a network, as in 10.0.0.0/8");
            ok = false;
        } else if (rn_cidr_parse(text.data, text.len, &networks[read++], &error) != 0) {
            rn_report_error(builder->report, rn_report_place_in(builder->report, item, error.pos),
                            "%s", error.text);
            ok = false;
        }
    }
    if (!ok)
        return NULL;
    rn_native_warn_of_empty(builder->report, node);
    *set = rn_cidr_set_build(networks, read);
    if (set->count < read)
        rn_report_warning(builder->report, node->at,
                          "networks that lie inside others of this list: %zu; remove them",
                          read - set->count);
    return set;
}

bool rn_native_number(struct rn_builder *builder, const struct rn_node *node,
                      struct rn_slice *number)
{
    bool is_plain = node->kind == RN_NODE_SCALAR && !node->quoted;
    struct rn_slice text = is_plain ? node->text : RN_SLICE("");
    char *copy = rn_builder_alloc(builder, text.len + 1, 1);
    struct rn_decimal parsed;
    size_t len = 0;

    if (copy == NULL)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        bool is_between = i > 0 && text.data[i - 1] >= '0' && text.data[i - 1] <= '9' &&
                          i + 1 < text.len && text.data[i + 1] >= '0' && text.data[i + 1] <= '9';

        if (text.data[i] != '_' || !is_between) /* 1_500 is 1500 */
            copy[len++] = text.data[i];
    }
    *number = (struct rn_slice){copy, len};
    if (is_plain && rn_decimal_parse(*number, &parsed))
        return true;
    rn_report_error(builder->report, node->at,
                    "expected a number%s, found %s; write digits, as in 1500, 1_500 or 0.5",
                    node->kind == RN_NODE_SCALAR && node->quoted ? ", without quotes" : "",
                    rn_node_describe(node).text);
    return false;
}
