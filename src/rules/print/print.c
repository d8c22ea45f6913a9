/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the sections of a ruleset; rule.c prints the rules. Every text is in double
 * quotes, with all but plain ASCII escaped, so that no value is read as anything else.
 */
#include "rules/print/print.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"
#include "base/utf8.h"
#include "rules/print/print_internal.h"

void rn_print(struct rn_printer *p, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (len > 0)
        p->sink(p->context, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
}

void rn_print_quoted(struct rn_printer *p, struct rn_slice text)
{
    rn_print(p, "\"");
    for (size_t i = 0; i < text.len;) {
        uint32_t point = (unsigned char)text.data[i];
        size_t taken = rn_utf8_decode(text.data + i, text.len - i, &point);

        if (point == '"' || point == '\\')
            rn_print(p, "\\%c", (char)point);
        else if (point >= ' ' && point <= '~')
            rn_print(p, "%c", (char)point);
        else if (point == '\n')
            rn_print(p, "\\n");
        else if (taken <= 1)
            rn_print(p, "\\x%02" PRIx32, point);
        else
            rn_print(p, point <= 0xffff ? "\\u%04" PRIx32 : "\\U%08" PRIx32, point);
        i += taken == 0 ? 1 : taken; /* 0: not UTF-8, which a file cannot have */
    }
    rn_print(p, "\"");
}

void rn_print_span(struct rn_printer *p, const char *before, int64_t ns)
{
    char text[RN_DURATION_TEXT];

    rn_number_write_duration(ns, text, sizeof text);
    rn_print(p, "%s%s", before, text);
}

void rn_print_attribute(struct rn_printer *p, uint16_t number)
{
    rn_print_quoted(p, p->ruleset->attributes[number].name);
}

/* --- conditions -------------------------------------------------------------------- */

static void print_networks(struct rn_printer *p, const struct rn_cidr_set *set)
{
    char text[RN_CIDR_TEXT];

    rn_print(p, "[");
    for (size_t i = 0; i < set->count; i++) {
        rn_cidr_write(&set->items[i], text);
        rn_print(p, "%s\"%s\"", i == 0 ? "" : ", ", text);
    }
    rn_print(p, "]");
}

/* `"path": {one_of: ["a", "b"], not: {prefix: ["c"]}}` for each attribute. */
void rn_print_conditions(struct rn_printer *p, const struct rn_condition *conditions,
                         uint32_t count)
{
    static const char *const names[] = {
        [RN_TEST_EQUALS] = "one_of", [RN_TEST_PATTERN] = "pattern", [RN_TEST_PREFIX] = "prefix",
        [RN_TEST_CIDR] = "cidr",     [RN_TEST_ABOVE] = "above",     [RN_TEST_BELOW] = "below"};

    rn_print(p, "{");
    for (uint32_t i = 0; i < count; i++) {
        const struct rn_condition *c = &conditions[i];
        bool goes_on = i > 0 && c->attribute == conditions[i - 1].attribute;

        rn_print(p, i == 0 ? "" : goes_on ? ", " : "}, ");
        if (!goes_on) {
            rn_print_attribute(p, c->attribute);
            rn_print(p, ": {");
        }
        if (c->test == RN_TEST_PRESENT) {
            rn_print(p, "present: %s", c->negated ? "false" : "true");
            continue;
        }
        rn_print(p, "%s%s: ", c->negated ? "not: {" : "", names[c->test]);
        if (c->test == RN_TEST_ABOVE || c->test == RN_TEST_BELOW) {
            p->sink(p->context, c->values[0].data, c->values[0].len);
        } else if (c->test == RN_TEST_CIDR) {
            print_networks(p, c->networks);
        } else {
            for (uint32_t v = 0; v < c->value_count; v++) {
                rn_print(p, v == 0 ? "[" : ", ");
                rn_print_quoted(p, c->values[v]);
            }
            rn_print(p, c->value_count == 0 ? "[]" : "]");
        }
        rn_print(p, c->negated ? "}" : "");
    }
    rn_print(p, count == 0 ? "}" : "}}");
}

/* --- sections ---------------------------------------------------------------------- */

/* The first one has the proxies. */
static void print_forwarded(struct rn_printer *p, const struct rn_attribute *attribute)
{
    const struct rn_attribute *first = p->ruleset->attributes;

    while (first->source != RN_SOURCE_FORWARDED)
        first++;
    rn_print(p, ": {");
    if (first == attribute && p->ruleset->trusted_proxies) {
        rn_print(p, "trusted_proxies: ");
        print_networks(p, p->ruleset->trusted_proxies);
        rn_print(p, ", ");
    }
    rn_print(p, "forwarded: %s}\n", attribute->forwarded_rfc7239 ? "forwarded" : "x-forwarded-for");
}

void rn_print_attribute_line(struct rn_printer *p, uint16_t number)
{
    const struct rn_attribute *attribute = &p->ruleset->attributes[number];

    if (attribute->source == RN_SOURCE_REQUEST)
        return;
    rn_print(p, "  ");
    rn_print_attribute(p, number);
    if (attribute->source == RN_SOURCE_FORWARDED) {
        print_forwarded(p, attribute);
    } else if (attribute->source == RN_SOURCE_GEO) {
        rn_print(p, ": {geo: %s, of: ", rn_geo_table_fields[attribute->field]);
        rn_print_attribute(p, attribute->of);
        rn_print(p, ", database: ");
        rn_print_quoted(p, attribute->geo->path);
        rn_print(p, "}\n");
    } else {
        bool is_header = attribute->source == RN_SOURCE_HEADER;

        rn_print(p, is_header ? ": {header: " : ": {path: ");
        rn_print_quoted(p, is_header ? attribute->header : attribute->pattern);
        rn_print(p, "}\n");
    }
}

static void print_attributes(struct rn_printer *p)
{
    const char *section = "attributes:\n";

    for (uint32_t i = 0; i < p->ruleset->attribute_count; i++) {
        if (p->ruleset->attributes[i].source != RN_SOURCE_REQUEST) {
            rn_print(p, "%s", section);
            section = "";
        }
        rn_print_attribute_line(p, (uint16_t)i);
    }
}

void rn_print_lists(struct rn_printer *p, bool deny)
{
    bool open = false;

    for (uint32_t i = 0; i < p->ruleset->list_count; i++) {
        const struct rn_list_entry *entry = &p->ruleset->lists[i];

        if (entry->deny != deny)
            continue;
        if (!open)
            rn_print(p, deny ? "deny:\n" : "allow:\n");
        open = true;
        rn_print(p, "  - ");
        rn_print_conditions(p, entry->conditions, entry->condition_count);
        rn_print(p, "\n");
    }
}

/* Readers of the rules must not see these; a URL of Redis may have a password. `tokens:` are
 * left out too. */
static bool is_secret(const struct rn_setting *setting)
{
    return rn_slice_is(setting->name, "admin_token") ||
           rn_slice_is(setting->name, "redis_key_secret") || rn_slice_is(setting->name, "redis");
}

bool rn_print_omits_secrets(const struct rn_ruleset *ruleset)
{
    for (uint32_t i = 0; i < ruleset->setting_count; i++)
        if (is_secret(&ruleset->settings[i]))
            return true;
    return ruleset->token_count > 0;
}

void rn_print_mode(struct rn_printer *p)
{
    rn_print(p, "mode: %s\n%s", p->ruleset->shadow ? "shadow" : "enforce",
             p->ruleset->apply_to_envoy ? "apply_to_envoy: true\n" : "");
}

void rn_print_server(struct rn_printer *p)
{
    const struct rn_ruleset *ruleset = p->ruleset;
    const char *section = "server:\n";

    for (uint32_t i = 0; i < ruleset->setting_count; i++) {
        if (is_secret(&ruleset->settings[i]))
            continue;
        rn_print(p, "%s  ", section);
        section = "";
        rn_print_quoted(p, ruleset->settings[i].name);
        rn_print(p, ": ");
        rn_print_quoted(p, ruleset->settings[i].value);
        rn_print(p, "\n");
    }
}

void rn_print_paths(struct rn_printer *p)
{
    static const char *const parameters[] = {[RN_PARAMETERS_EITHER] = "either",
                                             [RN_PARAMETERS_KEEP] = "keep",
                                             [RN_PARAMETERS_IGNORE] = "ignore"};
    const struct rn_ruleset *ruleset = p->ruleset;
    const struct rn_path_settings *paths = &ruleset->paths;

    if (ruleset->case_given || paths->ignore_extension || paths->parameters != RN_PARAMETERS_EITHER)
        rn_print(p, "paths: {%sparameters: %s, extension: %s}\n",
                 !ruleset->case_given ? ""
                 : paths->ignore_case ? "case: ignore, "
                                      : "case: match, ",
                 parameters[paths->parameters], paths->ignore_extension ? "ignore" : "keep");
}

void rn_print_ruleset(const struct rn_ruleset *ruleset, rn_print_sink *sink, void *context)
{
    struct rn_printer p = {.ruleset = ruleset, .sink = sink, .context = context};
    const char *section = "limits:\n";

    rn_print_mode(&p);
    rn_print_server(&p);
    rn_print_paths(&p);
    print_attributes(&p);
    rn_print_signals(&p);
    rn_print_lists(&p, false);
    rn_print_lists(&p, true);
    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        if (ruleset->rules[i].envoy)
            continue;
        rn_print(&p, "%s", section);
        section = "";
        rn_print_rule(&p, &ruleset->rules[i]);
    }
}
