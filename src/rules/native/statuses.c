/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of status codes; and `charge_on:` of a rule, which is one:
 *
 *   charge_on: status 401, 403, 5xx
 *   charge_on: {status: [401, 403, 5xx]}
 */
#include "rules/native/statuses.h"

#include <stdio.h>

#include "rules/native/native_internal.h"

#define CLASS 100u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void add_code(struct rn_statuses *set, unsigned status)
{
    unsigned i = status - RN_STATUS_FIRST;

    set->bits[i / 64] |= UINT64_C(1) << i % 64;
}

bool rn_statuses_add(struct rn_statuses *set, struct rn_slice word)
{
    bool is_class = word.len == 3 && (word.data[1] | 0x20) == 'x' && (word.data[2] | 0x20) == 'x';

    if (word.len != 3 || word.data[0] < '1' || word.data[0] > '5')
        return false;
    unsigned first = (unsigned)(word.data[0] - '0') * CLASS;

    for (unsigned i = 0; is_class && i < CLASS; i++)
        add_code(set, first + i);
    if (is_class)
        return true;
    if (!is_digit(word.data[1]) || !is_digit(word.data[2]))
        return false;
    add_code(set, first + (unsigned)(word.data[1] - '0') * 10 + (unsigned)(word.data[2] - '0'));
    return true;
}

void rn_statuses_write(const struct rn_statuses *set, char out[RN_STATUSES_TEXT])
{
    const char *before = "";
    char *at = out;

    *at = '\0';
    for (unsigned status = RN_STATUS_FIRST; status < RN_STATUS_FIRST + RN_STATUS_COUNT; status++) {
        unsigned run = 0;

        if (!rn_statuses_has(set, status))
            continue;
        while (status % CLASS == 0 && run < CLASS && rn_statuses_has(set, status + run))
            run++;
        if (run == CLASS)
            at += sprintf(at, "%s%uxx", before, status / CLASS);
        else
            at += sprintf(at, "%s%u", before, status);
        before = ", ";
        if (run == CLASS)
            status += CLASS - 1;
    }
}

/* --- charge_on: ------------------------------------------------------------------------- */

#define EXAMPLE "write for example status 401, 403 or status 5xx"

static void read_word(struct rn_builder *builder, struct rn_place at, struct rn_slice word,
                      struct rn_statuses *set)
{
    if (word.len == 0)
        rn_report_error(builder->report, at, "a status is missing; " EXAMPLE);
    else if (!rn_statuses_add(set, word))
        rn_report_error(
            builder->report, at,
            "%s is not a status; write a code from 100 to 599, such as 401, or a class, "
            "such as 5xx",
            rn_excerpt(word).text);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Codes and classes between commas, from byte `pos` of a scalar on. */
static void read_text(struct rn_builder *builder, const struct rn_node *node, size_t pos,
                      struct rn_statuses *set)
{
    struct rn_slice text = node->text;

    for (;; pos++) {
        while (pos < text.len && is_space(text.data[pos]))
            pos++;
        size_t end = pos, next;

        while (end < text.len && text.data[end] != ',')
            end++;
        next = end;
        while (end > pos && is_space(text.data[end - 1]))
            end--;
        read_word(builder, rn_report_place_in(builder->report, node, pos),
                  (struct rn_slice){text.data + pos, end - pos}, set);
        pos = next;
        if (pos == text.len)
            return;
    }
}

void rn_native_statuses(struct rn_builder *builder, const struct rn_node *value,
                        struct rn_statuses *set)
{
    struct rn_slice word;

    if (value->kind != RN_NODE_LIST) {
        if (rn_node_as_text(value, builder->report, &word))
            read_text(builder, value, 0, set);
        return;
    }
    if (value->count == 0)
        rn_report_error(builder->report, value->at, "no status; write for example [401]");
    RN_NODE_EACH(item, value)
        if (rn_node_as_text(item, builder->report, &word))
            read_word(builder, item->at, word, set);
}

void rn_native_charge_on(struct rn_builder *builder, const struct rn_node *node,
                         struct rn_rule *rule)
{
    static const struct rn_slice status = RN_SLICE_INIT("status");
    static const char *const keys[] = {"status"};
    const struct rn_node *value = rn_node_find(node, "status");

    rule->by_outcome = true;
    if (node->kind == RN_NODE_MAP) {
        rn_native_map(builder, node, keys, RN_COUNT(keys));
        if (node->count == 0)
            rn_report_error(builder->report, node->at, "an empty charge_on; " EXAMPLE);
        if (value != NULL)
            rn_native_statuses(builder, value, &rule->charge_on);
    } else if (node->kind == RN_NODE_LIST || rn_node_is_null(node) ||
               !rn_slice_starts_with(node->text, status) ||
               (node->text.len > status.len && !is_space(node->text.data[status.len]))) {
        rn_report_error(builder->report, node->at, "%s does not say on what to charge; " EXAMPLE,
                        rn_node_describe(node).text);
    } else {
        read_text(builder, node, status.len, &rule->charge_on);
    }
}
