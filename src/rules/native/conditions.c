/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions: a map of attribute to what its value must be. A value alone is
 * equality, a pattern if it has a `*`, a network if the attribute is an
 * address; a list is one of them; a map names its tests. A rule may have a list of
 * such maps, of which one must hold.
 *
 * Paths given without naming a test are always patterns, so that /login is also
 * //login/ and /login?next=/, as for every other pattern of paths.
 */
#include <stdlib.h>

#include "base/decimal.h"
#include "rules/match/pattern.h"
#include "rules/native/native_internal.h"

#define DUPLICATES_AMONG 1000 /* values at the beginning of a list: looking takes n^2 */

/* In the order of the enum. */
static const char *const tests[] = {"equals",  "one_of", "pattern", "prefix", "cidr",
                                    "present", "above",  "below",   "not"};
enum { EQUALS, ONE_OF, PATTERN, PREFIX, CIDR, PRESENT, ABOVE, BELOW, NOT };

/* The conditions read so far, and the attribute whose tests are being read. */
struct reader {
    struct rn_builder *builder;
    struct rn_report *report;
    struct rn_builder_list list; /* struct rn_condition */
    size_t start;                /* index of the attribute's first condition */
    uint16_t attribute;
    struct rn_slice name;
    bool is_ip, is_path, is_text; /* is_text: never a number */
};

/* --- texts ------------------------------------------------------------------------- */

/* Checks a value and appends it to a list of values. */
static bool add_value(struct reader *r, const struct rn_node *node, enum rn_test test,
                      struct rn_slice *values, uint32_t *count)
{
    const char *fault = NULL;
    struct rn_slice text;

    if (!rn_node_as_text(node, r->report, &text))
        return false;
    if ((rn_slice_is(r->name, "method") && rn_mistakes_comma(r->builder, node, "method")) ||
        (rn_slice_is(r->name, "host") && rn_mistakes_comma(r->builder, node, "host")))
        return false;
    if (text.len == 0)
        fault = "an empty value, which is as good as absent; write {present: false}";
    else if (r->is_path && test == RN_TEST_PATTERN)
        fault = rn_pattern_fault(text);
    else if (r->is_path && text.data[0] != '/')
        fault = "a path begins with a slash; write /login rather than login";
    else if (r->is_path && (memchr(text.data, '?', text.len) || memchr(text.data, '#', text.len)))
        fault = "a path ends before ? or #, so this can never match; leave the query away";
    if (fault != NULL) {
        rn_report_error(r->report, node->at, "%s", fault);
        return false;
    }

    struct rn_slice value = rn_native_value(r->builder, r->attribute, text);
    if (r->is_path && !r->builder->failed)
        fault = rn_native_path_fault(value);
    else if (test == RN_TEST_EQUALS && value.data != NULL &&
             !rn_native_geo_value(r->builder, node->at, r->attribute, value))
        return false;
    if (fault != NULL) {
        rn_report_error(r->report, node->at, "%s", fault);
        return false;
    }
    if (r->is_path && test == RN_TEST_PREFIX && text.data[text.len - 1] == '/' && value.len > 1)
        ((char *)value.data)[value.len++] = '/'; /* there is room; /api/ must not fit /apis */
    for (uint32_t i = 0; i < *count && i < DUPLICATES_AMONG; i++) {
        if (rn_slice_equal(values[i], value)) {
            rn_report_warning(r->report, node->at, "%s stands twice in this list; remove one",
                              rn_excerpt(value).text);
            return true;
        }
    }
    if (value.data != NULL)
        values[(*count)++] = value;
    return value.data != NULL;
}

/* --- conditions -------------------------------------------------------------------- */

static void add_condition(struct reader *r, const struct rn_node *node,
                          struct rn_condition condition)
{
    const struct rn_condition *earlier = r->list.items;

    condition.attribute = r->attribute;
    condition.looked_up =
        rn_builder_attribute_at(r->builder, r->attribute)->source == RN_SOURCE_GEO;
    condition.line = node->at.line;
    condition.column = node->at.column;
    for (size_t i = r->start; i < r->list.count; i++) {
        uint32_t same = 0;

        if (earlier[i].test != condition.test || earlier[i].negated != condition.negated ||
            earlier[i].value_count != condition.value_count || condition.test == RN_TEST_CIDR)
            continue;
        while (same < condition.value_count &&
               rn_slice_equal(earlier[i].values[same], condition.values[same]))
            same++;
        if (same == condition.value_count) {
            rn_report_warning(r->report, node->at, "the same condition on %s as before; remove one",
                              rn_excerpt(r->name).text);
            return;
        }
    }

    struct rn_condition *place = rn_builder_push(r->builder, &r->list, sizeof *place);
    if (place != NULL)
        *place = condition;
}

static void read_values(struct reader *r, const struct rn_node *node, enum rn_test test,
                        bool negated)
{
    struct rn_condition condition = {.test = test, .negated = negated};
    const struct rn_node *item = NULL;

    if (r->is_ip) {
        condition.test = RN_TEST_CIDR;
        condition.networks = rn_native_networks(r->builder, node);
        if (condition.networks != NULL)
            add_condition(r, node, condition);
        return;
    }
    int64_t room = rn_native_open_values(r->report, node, &item);
    struct rn_slice *values =
        room < 0 ? NULL : rn_builder_alloc(r->builder, (size_t)room, sizeof *values);
    bool ok = values != NULL;

    for (; values != NULL && item != NULL; item = rn_native_next_value(node, item))
        ok &= add_value(r, item, test, values, &condition.value_count);
    if (!ok)
        return;
    rn_native_warn_of_empty(r->report, node);
    condition.is_path = r->is_path && test != RN_TEST_EQUALS;
    condition.values = values;
    add_condition(r, node, condition);
}

/* Reads a value or a list without a named test. */
static void read_plain(struct reader *r, const struct rn_node *node, bool negated)
{
    enum rn_test test = RN_TEST_EQUALS;
    const struct rn_node *item = NULL;

    if (!r->is_ip && rn_native_open_values(r->report, node, &item) < 0)
        return;
    for (; item != NULL; item = rn_native_next_value(node, item)) {
        if (item->kind == RN_NODE_SCALAR &&
            (r->is_path || memchr(item->text.data, '*', item->text.len) != NULL))
            test = RN_TEST_PATTERN;
        if (r->is_path && rn_mistakes_path(r->builder, item))
            return;
        rn_mistakes_warn_comma(r->builder, item, rn_builder_attribute_at(r->builder, r->attribute));
    }
    read_values(r, node, test, negated);
}

static void read_bound(struct reader *r, const struct rn_node *node, enum rn_test test,
                       bool negated)
{
    struct rn_slice *number = rn_builder_alloc(r->builder, 1, sizeof *number);
    struct rn_condition bound = {
        .test = test, .negated = negated, .values = number, .value_count = 1};
    enum rn_test opposite = test == RN_TEST_ABOVE ? RN_TEST_BELOW : RN_TEST_ABOVE;
    const struct rn_condition *earlier = r->list.items;

    if (number == NULL || !rn_native_number(r->builder, node, number))
        return;
    for (size_t i = r->start; i < r->list.count && !negated; i++) {
        struct rn_slice low, high;
        struct rn_decimal above, below;

        if (earlier[i].negated || earlier[i].test != opposite)
            continue;
        low = test == RN_TEST_ABOVE ? *number : earlier[i].values[0];
        high = test == RN_TEST_ABOVE ? earlier[i].values[0] : *number;
        if (!rn_decimal_parse(low, &above) || !rn_decimal_parse(high, &below) ||
            rn_decimal_compare(&above, &below) < 0)
            continue;
        rn_report_error(r->report, node->at,
                        "no number is above %s and below %s; for numbers outside a range write "
                        "two alternatives, as in when: [{size: {below: 10}}, {size: {above: 20}}]",
                        rn_excerpt(low).text, rn_excerpt(high).text);
        return;
    }
    add_condition(r, node, bound);
}

/* Whether a test suits the attribute; if not, reports it. */
static bool check_test(struct reader *r, const struct rn_node *node, int test)
{
    struct rn_excerpt name = rn_excerpt(r->name);

    if (r->is_text && (test == ABOVE || test == BELOW)) {
        rn_report_error(r->report, node->key->at,
                        "%s is never a number; above and below are for attributes such as size",
                        name.text);
        return false;
    }
    if (r->is_ip && (test == PATTERN || test == PREFIX || test == ABOVE || test == BELOW)) {
        rn_report_error(r->report, node->key->at,
                        "%s is an address and has no %s; write a network, as in {cidr: 10.0.0.0/8}",
                        name.text, tests[test]);
        return false;
    }
    if (!r->is_ip && test == CIDR) {
        rn_report_error(r->report, node->key->at,
                        "%s is not an address; cidr is for ip and attributes with forwarded",
                        name.text);
        return false;
    }
    if (test == EQUALS && node->kind == RN_NODE_LIST) {
        rn_report_error(r->report, node->at, "equals takes one value; for a list write one_of");
        return false;
    }
    if (test == ONE_OF && node->kind == RN_NODE_SCALAR) {
        rn_report_error(r->report, node->at, "one_of takes a list; for one value write equals");
        return false;
    }
    return true;
}

static void read_test(struct reader *r, const struct rn_node *node, int test, bool negated)
{
    static const enum rn_test of[] = {[EQUALS] = RN_TEST_EQUALS,
                                      [ONE_OF] = RN_TEST_EQUALS,
                                      [PATTERN] = RN_TEST_PATTERN,
                                      [PREFIX] = RN_TEST_PREFIX,
                                      [CIDR] = RN_TEST_CIDR};
    bool present;

    if (!check_test(r, node, test))
        return;
    if (test == ABOVE || test == BELOW)
        rn_builder_attribute_at(r->builder, r->attribute)->is_number = true;
    if (test == PRESENT) {
        if (rn_node_as_bool(node, r->report, &present))
            add_condition(
                r, node,
                (struct rn_condition){.test = RN_TEST_PRESENT, .negated = present == negated});
    } else if (test == ABOVE || test == BELOW) {
        read_bound(r, node, test == ABOVE ? RN_TEST_ABOVE : RN_TEST_BELOW, negated);
    } else {
        read_values(r, node, of[test], negated);
    }
}

/* Reads a map of tests; `negated`: the one inside `not`. */
static void read_tests(struct reader *r, const struct rn_node *map, bool negated)
{
    const struct rn_node *choice = NULL; /* a test after which another cannot hold as well */

    if (!rn_native_map(r->builder, map, tests, RN_COUNT(tests)))
        return;
    if (!negated && map->count == 0)
        rn_report_error(r->report, map->at,
                        "a condition without a test; write for example {present: true}");
    if (negated && map->count != 1) {
        rn_report_error(r->report, map->at,
                        "not takes one test, found %u; write an alternative for each, as in when: "
                        "[{size: {not: {above: 20}}}, {size: {not: {below: 10}}}]",
                        map->count);
        return;
    }
    RN_NODE_EACH(node, map) {
        size_t test = rn_slice_find(node->key->text, tests, RN_COUNT(tests));
        bool chooses = test == EQUALS || test == ONE_OF || test == CIDR;

        if (chooses && choice != NULL) {
            rn_report_error(r->report, node->key->at, "%s beside %s; one of them is enough",
                            node->key->text.data, choice->key->text.data);
            continue;
        }
        choice = chooses ? node : choice;
        if (test == NOT && negated)
            rn_report_error(r->report, node->key->at, "not inside not; leave out both");
        else if (test == NOT && node->kind == RN_NODE_MAP)
            read_tests(r, node, true);
        else if (test == NOT)
            read_plain(r, node, true);
        else if (test < RN_COUNT(tests))
            read_test(r, node, (int)test, negated);
    }
}

static void read_attribute(struct reader *r, const struct rn_node *node)
{
    if (rn_mistakes_condition(r->builder, node))
        return;
    r->attribute = rn_native_attribute_used(r->builder, node->key);
    if (r->attribute == RN_NO_ATTRIBUTE)
        return;

    const struct rn_attribute *attribute = rn_builder_attribute_at(r->builder, r->attribute);
    const struct rn_condition *earlier = r->list.items;

    r->name = attribute->name;
    r->is_ip = attribute->is_ip;
    r->is_path = rn_slice_is(attribute->name, "path");
    r->is_text = r->is_path || rn_slice_is(attribute->name, "method") ||
                 rn_slice_is(attribute->name, "host");
    r->start = r->list.count;
    for (uint32_t i = 0; i < r->list.count; i++) {
        if (earlier[i].attribute == r->attribute) { /* header.X and header.x */
            rn_report_error(r->report, node->key->at,
                            "%s has a condition already; put both in one map",
                            rn_excerpt(r->name).text);
            return;
        }
    }
    rn_mistakes_warn_status(r->builder, node, attribute);
    if (node->kind == RN_NODE_MAP)
        read_tests(r, node, false);
    else
        read_plain(r, node, false);
}

void rn_native_conditions(struct rn_builder *builder, const struct rn_node *node,
                          const struct rn_condition **conditions, uint32_t *count)
{
    struct reader r = {.builder = builder, .report = builder->report};

    if (node->kind != RN_NODE_MAP) {
        rn_report_error(builder->report, node->at,
                        "expected conditions such as {path: /login}, found %s",
                        rn_node_describe(node).text);
        return;
    }
    RN_NODE_EACH(value, node)
        read_attribute(&r, value);

    struct rn_condition *kept = rn_builder_alloc(builder, r.list.count, sizeof *kept);
    if (kept != NULL && r.list.count != 0)
        memcpy(kept, r.list.items, r.list.count * sizeof *kept);
    if (kept != NULL) {
        *conditions = kept;
        *count = r.list.count;
    }
    free(r.list.items);
}
