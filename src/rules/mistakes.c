/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistakes that many make, and what would be right: parts of a limit and
 * conditions as keys of a rule, and lists written as one text with commas.
 */
#include <stdio.h>

#include "rules/native.h"

/* --- lists with commas --------------------------------------------------------------- */

struct list_text {
    char text[64];
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* "GET,POST" as [GET, POST]; [...] if that is long or has signs that mean something in YAML. */
static struct list_text as_list(struct rn_slice text)
{
    struct list_text list = {"["};
    size_t at = 1;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (at + sizeof ", ]" > sizeof list.text || c < ' ' || c > '~' ||
            strchr("\"'\\[]{}:#&*!|>%@`", c) != NULL)
            return (struct list_text){"[...]"};
        if (is_space(c) && (at == 1 || is_space(list.text[at - 1])))
            continue;
        list.text[at++] = c;
        if (c == ',')
            list.text[at++] = ' ';
    }
    list.text[at] = ']';
    return list;
}

bool rn_mistakes_comma(struct rn_builder *builder, const struct rn_node *node, const char *what)
{
    if (memchr(node->text.data, ',', node->text.len) == NULL)
        return false;
    rn_report_error(builder->report, node->at, "%s is no %s; for several write a list: %s",
                    rn_excerpt(node->text).text, what, as_list(node->text).text);
    return true;
}

/* Paths may have commas, but hardly one with a slash behind it; headers often do. Methods and hosts
 * have none, which is an error of its own. */
static bool may_be_list(struct rn_slice text, const struct rn_attribute *attribute)
{
    struct rn_slice name = attribute->name;

    if (memchr(text.data, ',', text.len) == NULL || attribute->source == RN_SOURCE_HEADER ||
        rn_slice_starts_with(name, RN_SLICE("header.")) || rn_slice_is(name, "user_agent") ||
        rn_slice_is(name, "method") || rn_slice_is(name, "host"))
        return false;
    for (size_t i = 1; i < text.len; i++)
        if (text.data[i] == '/' && (text.data[i - 1] == ',' || text.data[i - 1] == ' '))
            return true;
    return !rn_slice_is(name, "path");
}

void rn_mistakes_warn_comma(struct rn_builder *builder, const struct rn_node *node,
                            const struct rn_attribute *attribute)
{
    if (node->kind == RN_NODE_SCALAR && may_be_list(node->text, attribute))
        rn_report_warning(builder->report, node->at,
                          "%s is one value; if several are meant, write a list: %s; if not, "
                          "{equals: ...}",
                          rn_excerpt(node->text).text, as_list(node->text).text);
}

/* --- keys of a rule ------------------------------------------------------------------- */

/* Amounts of a limit that some write by themselves. */
static const char *const amounts[] = {"amount", "interval", "max_requests", "per",   "period",
                                      "rate",   "requests", "unit",         "units", "window"};

/* What some write beside `limit`, and the attribute that is meant. */
static const struct {
    const char *key, *attribute;
} conditions[] = {{"host", "host"}, {"hosts", "host"},    {"ip", "ip"},
                  {"ips", "ip"},    {"method", "method"}, {"methods", "method"},
                  {"path", "path"}, {"paths", "path"},    {"url", "path"}};

static bool is_amount(struct rn_slice key)
{
    for (size_t i = 0; i < RN_COUNT(amounts); i++)
        if (rn_slice_is(key, amounts[i]))
            return true;
    return false;
}

/* burst: 20 beside limit: 100 per minute. */
static void report_option(struct rn_builder *builder, const struct rn_node *map,
                          const struct rn_node *value)
{
    const struct rn_node *limit = rn_node_find(map, "limit");
    bool given = limit != NULL && limit->kind == RN_NODE_SCALAR && value->kind == RN_NODE_SCALAR;
    struct rn_slice said = given ? limit->text : RN_SLICE("100 per minute");
    struct rn_slice number = given ? value->text : RN_SLICE("20");
    char text[64];

    snprintf(text, sizeof text, "%.*s %s %.*s", (int)said.len, said.data, value->key->text.data,
             (int)number.len, number.data);
    rn_report_error(builder->report, value->key->at, "%s is said in the limit; write limit: %s",
                    rn_excerpt(value->key->text).text, rn_excerpt(rn_slice_of(text)).text);
}

static void report_condition(struct rn_builder *builder, const struct rn_node *value,
                             const char *attribute)
{
    struct rn_excerpt text = rn_excerpt(value->text);
    const char *shown = "...";
    struct list_text list;

    if (value->kind == RN_NODE_SCALAR && memchr(value->text.data, ',', value->text.len) != NULL) {
        list = as_list(value->text);
        shown = list.text;
    } else if (value->kind == RN_NODE_SCALAR) {
        shown = text.text;
    }
    rn_report_error(builder->report, value->key->at, "%s is a condition; write when: {%s: %s}",
                    rn_excerpt(value->key->text).text, attribute, shown);
}

bool rn_mistakes_key(struct rn_builder *builder, const struct rn_node *map,
                     const struct rn_node *value)
{
    struct rn_slice key = value->key->text;

    if (rn_slice_is(key, "burst") || rn_slice_is(key, "queue")) {
        report_option(builder, map, value);
        return true;
    }
    if (is_amount(key)) {
        rn_report_error(builder->report, value->key->at,
                        "%s is said in the limit; write for example limit: 100 per minute",
                        rn_excerpt(key).text);
        return true;
    }
    for (size_t i = 0; i < RN_COUNT(conditions); i++) {
        if (!rn_slice_is(key, conditions[i].key))
            continue;
        report_condition(builder, value, conditions[i].attribute);
        return true;
    }
    return false;
}

bool rn_mistakes_limit_map(struct rn_builder *builder, const struct rn_node *map)
{
    RN_NODE_EACH(value, map) {
        struct rn_slice key = value->key->text;

        if (!is_amount(key) && !rn_slice_is(key, "burst") && !rn_slice_is(key, "queue"))
            continue;
        rn_report_error(builder->report, map->at,
                        "a limit is one text, found a map with %s; write for example 100 per "
                        "minute burst 20",
                        rn_excerpt(key).text);
        return true;
    }
    return false;
}
