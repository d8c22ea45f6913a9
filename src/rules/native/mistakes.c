/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports common mistakes, and says what to write: parts of a limit and conditions as keys of a
 * rule, lists written as one text with commas, paths written for web frameworks or as regular
 * expressions, conditions on the status, and words of other tools.
 */
#include <stdio.h>

#include "rules/match/pattern.h"
#include "rules/native/native_internal.h"
#include "rules/native/statuses.h"

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

/* Paths may have commas, but rarely a slash after one; headers often have commas. For methods and
 * hosts they are an error, which rn_mistakes_comma reports. */
void rn_mistakes_warn_comma(struct rn_builder *builder, const struct rn_node *node,
                            const struct rn_attribute *attribute)
{
    static const char *const others[] = {"user_agent", "method", "host"};
    struct rn_slice text = node->text, name = attribute->name;
    bool is_list = !rn_slice_is(name, "path");

    if (node->kind != RN_NODE_SCALAR || memchr(text.data, ',', text.len) == NULL ||
        attribute->source == RN_SOURCE_HEADER || rn_slice_starts_with(name, RN_SLICE("header.")) ||
        rn_slice_find(name, others, RN_COUNT(others)) < RN_COUNT(others))
        return;
    for (size_t i = 1; i < text.len; i++)
        is_list |= text.data[i] == '/' && (text.data[i - 1] == ',' || text.data[i - 1] == ' ');
    if (is_list)
        rn_report_warning(builder->report, node->at,
                          "%s is one value; if several are meant, write a list: %s; if not, "
                          "{equals: ...}",
                          rn_excerpt(text).text, as_list(text).text);
}

/* --- paths ---------------------------------------------------------------------------- */

/* "id" of :id (Express, Rails), <id> and <int:id> (Flask) and [id] (Next.js); empty: none of them.
 */
static struct rn_slice framework_name(struct rn_slice segment)
{
    char first = segment.len < 2 ? '\0' : segment.data[0], last = segment.data[segment.len - 1];
    struct rn_slice name = {segment.data + 1, segment.len - 1};

    if ((first == '<' && last == '>') || (first == '[' && last == ']'))
        name.len--;
    else if (first != ':')
        return RN_SLICE("");
    const char *colon = first == '<' ? memchr(name.data, ':', name.len) : NULL;
    if (colon != NULL)
        name = (struct rn_slice){colon + 1, (size_t)(name.data + name.len - colon - 1)};
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i], lower = (char)(c | 0x20);

        if ((lower < 'a' || lower > 'z') && c != '_' && (i == 0 || c < '0' || c > '9'))
            return RN_SLICE("");
    }
    return name;
}

/* Signs that mean something in regular expressions and rarely occur in paths. */
static bool is_like_regex(struct rn_slice text)
{
    static const char *const signs[] = {".*", ".+", "\\", "[^", "]+", "]*", ")+", ")*", "|"};

    if (text.len == 0 || text.data[0] == '^' || text.data[text.len - 1] == '$')
        return text.len != 0;
    for (size_t i = 0; i < RN_COUNT(signs); i++)
        for (size_t at = 0, len = strlen(signs[i]); at + len <= text.len; at++)
            if (memcmp(text.data + at, signs[i], len) == 0 &&
                (at == 0 || text.data[at - 1] != '*')) /* *.* is a pattern */
                return true;
    return false;
}

/* Says what to write for a prefix such as ^/api/, and gives an example for all others. */
static void report_regex(struct rn_builder *builder, const struct rn_node *node)
{
    struct rn_slice path = node->text;
    bool is_anchored = path.data[0] == '^';
    char meant[64] = "/users/* or /api/**";

    path.data += is_anchored;
    path.len -= is_anchored;
    path.len -= path.len != 0 && path.data[path.len - 1] == '$';
    bool is_open = path.len > 2 && memcmp(path.data + path.len - 2, ".*", 2) == 0;
    path.len -= is_open ? 2 : 0;
    if (path.len != 0 && path.len < sizeof meant - 2 && path.data[0] == '/' && !is_like_regex(path))
        snprintf(meant, sizeof meant, "%.*s%s", (int)path.len, path.data,
                 !is_open                         ? ""
                 : path.data[path.len - 1] == '/' ? "**"
                                                  : "*");
    (is_anchored ? rn_report_error : rn_report_warning)(
        builder->report, node->at,
        "%s looks like a regular expression; in a path * is a part of a segment and ** any number "
        "of segments: write for example %s%s",
        rn_excerpt(node->text).text, meant,
        is_anchored ? "" : ", or {pattern: ...} if you mean the text");
}

bool rn_mistakes_path(struct rn_builder *builder, const struct rn_node *node)
{
    struct rn_slice segment, name;

    if (node->kind != RN_NODE_SCALAR)
        return false;
    if (is_like_regex(node->text)) {
        report_regex(builder, node);
        return node->text.data[0] == '^';
    }
    for (unsigned i = 0; (segment = rn_pattern_segment(node->text, i)).data != NULL; i++) {
        name = framework_name(segment);
        if (name.len == 0)
            continue;
        rn_report_warning(builder->report, node->at,
                          "%s in a path matches only that text; to match any segment write {%.*s}, "
                          "or {pattern: ...} if you mean the text",
                          rn_excerpt(segment).text, (int)name.len, name.data);
        return false;
    }
    return false;
}

/* --- alternatives, tests and comparisons ------------------------------------------------ */

/* What other tools call alternatives, conditions that must all hold, and tests. */
static const struct {
    const char *word, *meaning;
} words[] = {
    {"any", "for alternatives write a list: when: [{path: /a}, {path: /b}]"},
    {"any_of", "for alternatives write a list: when: [{path: /a}, {path: /b}]"},
    {"or", "for alternatives write a list: when: [{path: /a}, {path: /b}]"},
    {"all", "conditions that must all hold stand in one map: when: {path: /a, method: POST}"},
    {"all_of", "conditions that must all hold stand in one map: when: {path: /a, method: POST}"},
    {"and", "conditions that must all hold stand in one map: when: {path: /a, method: POST}"},
};

static const char *const tests[] = {"above", "below", "cidr", "equals", "not", "one_of", "present"};

/* {above: 10} for "> 10", {not: {below: 10}} for ">= 10"; NULL: no comparison. */
static const char *comparison(struct rn_slice text)
{
    bool is_equal = text.len > 1 && text.data[1] == '=';
    size_t at = is_equal ? 2 : 1;

    if (text.len == 0 || (text.data[0] != '<' && text.data[0] != '>'))
        return NULL;
    while (at < text.len && is_space(text.data[at]))
        at++;
    if (at == text.len || text.data[at] < '0' || text.data[at] > '9')
        return NULL;
    if (text.data[0] == '>')
        return is_equal ? "{not: {below: ...}}" : "{above: ...}";
    return is_equal ? "{not: {above: ...}}" : "{below: ...}";
}

bool rn_mistakes_condition(struct rn_builder *builder, const struct rn_node *node)
{
    struct rn_slice name = node->key->text;
    const char *meant = node->kind == RN_NODE_SCALAR ? comparison(node->text) : NULL;
    bool has_maps =
        node->kind == RN_NODE_LIST && node->first != NULL && node->first->kind == RN_NODE_MAP;

    for (size_t i = 0; has_maps && i < RN_COUNT(words); i++) {
        if (!rn_slice_is(name, words[i].word))
            continue;
        rn_report_error(builder->report, node->key->at, "%s is not an attribute; %s",
                        rn_excerpt(name).text, words[i].meaning);
        return true;
    }
    size_t test = rn_slice_find(name, tests, RN_COUNT(tests));

    if (node->kind != RN_NODE_MAP && test < RN_COUNT(tests))
        rn_report_warning(builder->report, node->key->at,
                          "%s is read as the name of an attribute; a test stands behind one, "
                          "as in {size: {%s: ...}}",
                          rn_excerpt(name).text, tests[test]);
    if (meant != NULL)
        rn_report_warning(builder->report, node->at,
                          "%s is compared as text; to compare numbers write %s",
                          rn_excerpt(node->text).text, meant);
    return false;
}

/* --- conditions on the status --------------------------------------------------------- */

static void collect_codes(const struct rn_node *node, struct rn_statuses *codes)
{
    if (node->kind == RN_NODE_SCALAR)
        (void)rn_statuses_add(codes, node->text);
    RN_NODE_EACH(child, node)
        collect_codes(child, codes);
}

void rn_mistakes_warn_status(struct rn_builder *builder, const struct rn_node *node,
                             const struct rn_attribute *attribute)
{
    static const char *const names[] = {"status", "status_code", "response_status"};
    struct rn_statuses codes = {{0}};
    char text[RN_STATUSES_TEXT];

    if (attribute->source != RN_SOURCE_REQUEST ||
        rn_slice_find(attribute->name, names, RN_COUNT(names)) == RN_COUNT(names))
        return;
    collect_codes(node, &codes);
    rn_statuses_write(&codes, text);
    if (text[0] != '\0')
        rn_report_warning(builder->report, node->key->at,
                          "%s is not known before the request is answered; to charge by the answer "
                          "write for example charge_on: status %s beside when",
                          rn_excerpt(attribute->name).text, strlen(text) < 40 ? text : "401, 403");
}

/* --- keys of a rule ------------------------------------------------------------------- */

/* Parts of a limit that some write as keys, the first one beside the limit. (A queue beside the
 * limit is a line of its own.) */
static const char *const parts[] = {"burst",        "queue", "amount", "interval",
                                    "max_requests", "per",   "period", "rate",
                                    "requests",     "unit",  "units",  "window"};

/* Keys that some write beside `limit`, and the attribute each means. */
static const struct {
    const char *key, *attribute;
} conditions[] = {{"host", "host"}, {"hosts", "host"},    {"ip", "ip"},
                  {"ips", "ip"},    {"method", "method"}, {"methods", "method"},
                  {"path", "path"}, {"paths", "path"},    {"url", "path"}};

bool rn_mistakes_key(struct rn_builder *builder, const struct rn_node *map,
                     const struct rn_node *value)
{
    struct rn_slice key = value->key->text;
    size_t part = rn_slice_find(key, parts, RN_COUNT(parts));

    if (part == 0) { /* burst: 20 beside limit: 100 per minute */
        const struct rn_node *limit = rn_node_find(map, "limit");
        bool given = limit && limit->kind == RN_NODE_SCALAR && value->kind == RN_NODE_SCALAR;
        char text[64];

        snprintf(text, sizeof text, "%s %s %s", given ? limit->text.data : "100 per minute",
                 key.data, given ? value->text.data : "20");
        rn_report_error(builder->report, value->key->at, "%s belongs in the limit; write limit: %s",
                        rn_excerpt(key).text, rn_excerpt(rn_slice_of(text)).text);
        return true;
    }
    if (part < RN_COUNT(parts)) {
        rn_report_error(builder->report, value->key->at,
                        "%s belongs in the limit; write for example limit: 100 per minute",
                        rn_excerpt(key).text);
        return true;
    }
    if (rn_slice_is(key, "ban")) {
        rn_report_error(builder->report, value->key->at,
                        "\"ban\" belongs in escalate; write for example escalate: {after: 10 "
                        "refusals within 1m, ban: 1m}");
        return true;
    }
    for (size_t i = 0; i < RN_COUNT(conditions); i++) {
        if (!rn_slice_is(key, conditions[i].key))
            continue;
        bool is_text = value->kind == RN_NODE_SCALAR;
        bool is_list = is_text && memchr(value->text.data, ',', value->text.len) != NULL;

        rn_report_error(builder->report, value->key->at, "%s is a condition; write when: {%s: %s}",
                        rn_excerpt(key).text, conditions[i].attribute,
                        is_list   ? as_list(value->text).text
                        : is_text ? rn_excerpt(value->text).text
                                  : "...");
        return true;
    }
    return false;
}

bool rn_mistakes_limit_map(struct rn_builder *builder, const struct rn_node *map)
{
    RN_NODE_EACH(value, map) {
        struct rn_slice key = value->key->text;

        if (rn_slice_find(key, parts, RN_COUNT(parts)) == RN_COUNT(parts))
            continue;
        rn_report_error(builder->report, map->at,
                        "a limit is one text, found a map with %s; write for example 100 per "
                        "minute burst 20",
                        rn_excerpt(key).text);
        return true;
    }
    return false;
}
