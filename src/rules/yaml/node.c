/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values that occur everywhere in rules from nodes; declared in rules/yaml/document.h. Every
 * error begins with its key. */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/number.h"
#include "rules/yaml/document.h"

/* `"key": ` and the text, at byte `pos` of the node's text. */
__attribute__((format(printf, 4, 5))) static bool
fail(struct rn_report *report, const struct rn_node *node, size_t pos, const char *format, ...)
{
    struct rn_place at = rn_report_place_in(report, node, pos);
    char text[sizeof((struct ration_error *)0)->text + 80];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (node->key == NULL)
        rn_report_error(report, at, "%s", text);
    else
        rn_report_error(report, at, "%s: %s", rn_excerpt(node->key->text).text, text);
    return false;
}

const struct rn_node *rn_node_find(const struct rn_node *map, const char *key)
{
    if (map->kind == RN_NODE_MAP)
        RN_NODE_EACH(value, map)
            if (rn_slice_is(value->key->text, key))
                return value;
    return NULL;
}

bool rn_node_is_null(const struct rn_node *node)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};

    return node->kind == RN_NODE_SCALAR && !node->quoted &&
           rn_slice_find(node->text, words, RN_COUNT(words)) < RN_COUNT(words);
}

struct rn_excerpt rn_node_describe(const struct rn_node *node)
{
    if (node->kind == RN_NODE_LIST)
        return (struct rn_excerpt){"a list"};
    if (node->kind == RN_NODE_MAP)
        return (struct rn_excerpt){"a map"};
    if (rn_node_is_null(node))
        return (struct rn_excerpt){"nothing"};
    if (node->text.len == 0)
        return (struct rn_excerpt){"\"\""};
    return rn_excerpt(node->text);
}

static bool is_text(const struct rn_node *node)
{
    return node->kind == RN_NODE_SCALAR && !rn_node_is_null(node);
}

bool rn_node_expect(const struct rn_node *node, enum rn_node_kind kind, struct rn_report *report)
{
    static const char *const names[] = {"text", "a list", "a map"};

    if (kind == RN_NODE_SCALAR ? is_text(node) : node->kind == kind)
        return true;
    return fail(report, node, 0, "expected %s, found %s", names[kind], rn_node_describe(node).text);
}

bool rn_node_as_text(const struct rn_node *node, struct rn_report *report, struct rn_slice *text)
{
    if (!rn_node_expect(node, RN_NODE_SCALAR, report))
        return false;
    *text = node->text;
    return true;
}

bool rn_node_as_uint(const struct rn_node *node, struct rn_report *report, uint64_t *value)
{
    struct ration_error error;
    uint64_t number;
    size_t pos = 0;

    if (!is_text(node))
        return fail(report, node, 0, "expected a whole number, found %s",
                    rn_node_describe(node).text);
    if (node->quoted)
        return fail(report, node, 0, "expected a whole number, without quotes, found %s",
                    rn_node_describe(node).text);
    if (rn_number_parse(node->text.data, node->text.len, &pos, &number, &error) != 0)
        return fail(report, node, error.pos, "%s", error.text);
    if (pos < node->text.len)
        return fail(report, node, 0,
                    "expected a whole number, found %s; write digits only, as in 1500 or 1_500",
                    rn_node_describe(node).text);
    *value = number;
    return true;
}

bool rn_node_as_bool(const struct rn_node *node, struct rn_report *report, bool *value)
{
    /* The booleans of YAML 1.1, which some people still write. */
    static const char *const yes[] = {"yes", "Yes", "YES", "on", "On", "ON", "True", "TRUE"};
    static const char *const no[] = {"no", "No", "NO", "off", "Off", "OFF", "False", "FALSE"};
    bool plain = is_text(node) && !node->quoted;
    const char *advice = "";

    if (plain && (rn_slice_is(node->text, "true") || rn_slice_is(node->text, "false"))) {
        *value = node->text.len == 4;
        return true;
    }
    if (plain && rn_slice_find(node->text, yes, RN_COUNT(yes)) < RN_COUNT(yes))
        advice = "; write true";
    if (plain && rn_slice_find(node->text, no, RN_COUNT(no)) < RN_COUNT(no))
        advice = "; write false";
    return fail(report, node, 0, "expected true or false%s, found %s%s",
                node->quoted ? ", without quotes" : "", rn_node_describe(node).text, advice);
}

bool rn_node_as_percent(const struct rn_node *node, struct rn_report *report, uint8_t *percent)
{
    uint64_t number;
    size_t pos = 0;

    if (is_text(node) &&
        rn_number_parse(node->text.data, node->text.len, &pos, &number, NULL) == 0 &&
        number <= 100) {
        if (pos + 1 == node->text.len && node->text.data[pos] == '%') {
            *percent = (uint8_t)number;
            return true;
        }
        if (pos == node->text.len)
            return fail(report, node, 0, "expected a percentage, found %s; did you mean %u%%?",
                        rn_node_describe(node).text, (unsigned)number);
    }
    return fail(report, node, 0,
                "expected a percentage from 0%% to 100%%, in whole numbers, found %s",
                rn_node_describe(node).text);
}

bool rn_node_as_duration(const struct rn_node *node, struct rn_report *report, int64_t *ns)
{
    struct ration_error error;
    struct rn_slice text = node->text;
    int64_t duration;
    size_t pos = 0;

    if (!is_text(node))
        return fail(report, node, 0, "expected a length of time such as 30s or 5 minutes, found %s",
                    rn_node_describe(node).text);
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.len--;
    while (pos < text.len && text.data[pos] == ' ')
        pos++;
    if (rn_number_parse_duration(text.data, text.len, &pos, &duration, &error) != 0)
        return fail(report, node, error.pos, "%s", error.text);
    if (pos < text.len)
        return fail(report, node, pos,
                    "unexpected %s behind a length of time; use one unit, as in 90 minutes",
                    rn_excerpt((struct rn_slice){text.data + pos, text.len - pos}).text);
    *ns = duration;
    return true;
}

/* Without the key in front: what limits are wrong about stands in the text. */
bool rn_node_as_limit(const struct rn_node *node, struct rn_report *report,
                      struct ration_limit *limit)
{
    struct ration_error error;
    struct rn_slice text;

    if (!rn_node_as_text(node, report, &text))
        return false;
    if (ration_limit_parse(text.data, text.len, limit, &error) == 0)
        return true;
    rn_report_error(report, rn_report_place_in(report, node, error.pos), "%s", error.text);
    return false;
}
