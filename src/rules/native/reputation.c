/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `escalate:` and `earn:` of a rule, which follow how a client behaves:
 *
 *   escalate: { after: 10 refusals within 1m, ban: 1m, grow: 4x, up_to: 24h, forget: 7d }
 *   earn: { every: 24h, add: 10%, up_to: 200%, lost_by: 3 refusals within 1h, forget: 30d }
 */
#include <string.h>

#include "base/number.h"
#include "rules/native/native_internal.h"

#define SECOND_NS INT64_C(1000000000)
#define MINUTE_NS (60 * SECOND_NS)
#define HOUR_NS (60 * MINUTE_NS)
#define DAY_NS (24 * HOUR_NS)
#define YEAR_NS (365 * DAY_NS)

#define REFUSALS_MAX 1000
#define GROW_MAX 100 /* times */

/* --- values ------------------------------------------------------------------------------- */

/* A length of time between two others, which `range` names. */
struct span {
    int64_t least_ns, most_ns;
    const char *range;
};

/* The length of time under a key of the map, if it is there and within the span. */
static void read_span(struct rn_builder *builder, const struct rn_node *map, const char *key,
                      const struct span *span, int64_t *ns)
{
    const struct rn_node *node = rn_node_find(map, key);
    int64_t value;

    if (node == NULL || !rn_node_as_duration(node, builder->report, &value))
        return;
    if (value >= span->least_ns && value <= span->most_ns)
        *ns = value;
    else
        rn_report_error(builder->report, node->at, "%s: found %s; write a length of time %s", key,
                        rn_node_describe(node).text, span->range);
}

static void skip_spaces(const struct rn_slice *text, size_t *pos)
{
    while (*pos < text->len && text->data[*pos] == ' ')
        ++*pos;
}

/* Moves behind one of two words; false: the text goes on with something else. */
static bool skip_word(const struct rn_slice *text, size_t *pos, const char *one, const char *many)
{
    size_t end = *pos;

    while (end < text->len && text->data[end] != ' ')
        end++;
    struct rn_slice word = {text->data + *pos, end - *pos};

    if (!rn_slice_is(word, one) && !rn_slice_is(word, many))
        return false;
    *pos = end;
    skip_spaces(text, pos);
    return true;
}

/* `10 refusals within 1m` under a key of the map, if it is there. */
static void read_refusals(struct rn_builder *builder, const struct rn_node *map, const char *key,
                          uint32_t *refusals, int64_t *within_ns)
{
    const struct rn_node *node = rn_node_find(map, key);
    struct ration_error error = {.text = ""};
    struct rn_slice text;
    uint64_t number = 0;
    int64_t ns = 0;
    size_t pos = 0;

    if (node == NULL || !rn_node_as_text(node, builder->report, &text))
        return;
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.len--;
    bool good = rn_number_parse(text.data, text.len, &pos, &number, NULL) == 0;

    skip_spaces(&text, &pos);
    good = good && skip_word(&text, &pos, "refusal", "refusals") &&
           skip_word(&text, &pos, "within", "within") && pos < text.len;
    if (!good || rn_number_parse_duration(text.data, text.len, &pos, &ns, &error) != 0 ||
        pos != text.len)
        rn_report_error(builder->report, node->at,
                        "%s: found %s; write a number of refusals and a length of time, as in 10 "
                        "refusals within 1m",
                        key, rn_node_describe(node).text);
    else if (number < 1 || number > REFUSALS_MAX)
        rn_report_error(builder->report, node->at,
                        "%s: found %llu refusals; write a number from 1 to 1000", key,
                        (unsigned long long)number);
    else if (ns < SECOND_NS || ns > DAY_NS)
        rn_report_error(builder->report, node->at,
                        "%s: found %s; write a time from 1s to 24h, as in %llu refusals within 1m",
                        key, rn_node_describe(node).text, (unsigned long long)number);
    else {
        *refusals = (uint32_t)number;
        *within_ns = ns;
    }
}

/* --- escalate ------------------------------------------------------------------------------- */

/* `4x` or `1.5x`, with at most two decimals. */
static void read_grow(struct rn_builder *builder, const struct rn_node *map, uint32_t *percent)
{
    const struct rn_node *node = rn_node_find(map, "grow");
    int64_t millionths = 0;
    struct rn_slice text;

    if (node == NULL || !rn_node_as_text(node, builder->report, &text))
        return;
    bool has_x = text.len > 1 && (text.data[text.len - 1] | 0x20) == 'x';
    struct rn_slice digits = {text.data, text.len - has_x};
    bool is_number = rn_signal_parse_decimal(digits, RN_SIGNAL_UNIT, &millionths);

    if (is_number && millionths < RN_SIGNAL_UNIT)
        rn_report_error(builder->report, node->at,
                        "grow: found %s, so that each ban would be shorter than the one before; "
                        "write 1x to 100x, as in 4x",
                        rn_node_describe(node).text);
    else if (is_number && !has_x)
        rn_report_error(builder->report, node->at,
                        "grow: found %s; each ban is so many times as long as the one before: "
                        "write %.*sx",
                        rn_node_describe(node).text, (int)digits.len, digits.data);
    else if (!is_number || millionths > GROW_MAX * RN_SIGNAL_UNIT ||
             millionths % (RN_SIGNAL_UNIT / 100) != 0)
        rn_report_error(builder->report, node->at,
                        "grow: found %s; each ban is so many times as long as the one before: "
                        "write 1x to 100x, with at most two decimals, as in 1.5x",
                        rn_node_describe(node).text);
    else
        *percent = (uint32_t)(millionths / (RN_SIGNAL_UNIT / 100));
}

static void compute_bans(struct rn_escalate_plan *plan, const struct rn_rule *rule, int64_t ban_ns)
{
    unsigned percent = rule->ban_grow_percent;

    for (size_t level = 1; level < RN_LEVELS; level++) {
        plan->ban_ns[level] = ban_ns;
        /* At most a year times 10,000, which fits. */
        ban_ns = ban_ns / 100 * percent + ban_ns % 100 * percent / 100;
        if (ban_ns > rule->ban_up_to_ns)
            ban_ns = rule->ban_up_to_ns;
    }
}

void rn_native_escalate(struct rn_builder *builder, const struct rn_node *node,
                        struct rn_rule *rule)
{
    static const char *const keys[] = {"after", "ban", "grow", "up_to", "forget"};
    static const struct span bans = {SECOND_NS, YEAR_NS, "from 1s to 365d"};
    static const struct span memories = {HOUR_NS, YEAR_NS, "from 1h to 365d"};
    const struct rn_node *up_to = rn_node_find(node, "up_to");
    struct rn_escalate_plan *plan = rn_builder_alloc(builder, 1, sizeof *plan);
    uint32_t errors = builder->report->count[RN_ERROR];
    int64_t ban_ns = 0;

    if (plan == NULL ||
        !rn_native_expect_map(builder, node, "{after: 10 refusals within 1m, ban: 1m}"))
        return;
    rn_native_map(builder, node, keys, RN_COUNT(keys));
    if (builder->report->count[RN_ERROR] != errors)
        return;
    plan->forget_ns = 7 * DAY_NS;
    rule->ban_grow_percent = 200;
    rule->ban_up_to_ns = DAY_NS;
    rn_native_require(builder, node, "after", "10 refusals within 1m");
    rn_native_require(builder, node, "ban", "1m");
    read_refusals(builder, node, "after", &plan->after, &plan->within_ns);
    read_span(builder, node, "ban", &bans, &ban_ns);
    read_grow(builder, node, &rule->ban_grow_percent);
    read_span(builder, node, "up_to", &bans, &rule->ban_up_to_ns);
    read_span(builder, node, "forget", &memories, &plan->forget_ns);
    if (builder->report->count[RN_ERROR] != errors)
        return;
    if (rule->ban_up_to_ns < ban_ns && up_to != NULL)
        rn_report_error(builder->report, up_to->at,
                        "up_to: found %s, but the first ban already lasts %s; write at least that, "
                        "or a shorter ban",
                        rn_node_describe(up_to).text,
                        rn_node_describe(rn_node_find(node, "ban")).text);
    if (rule->ban_up_to_ns < ban_ns)
        rule->ban_up_to_ns = ban_ns;
    compute_bans(plan, rule, ban_ns);
    rule->escalate = plan;
}

/* --- earn ----------------------------------------------------------------------------------- */

void rn_native_earn(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    static const char *const keys[] = {"every", "add", "up_to", "lost_by", "forget"};
    static const struct span periods = {MINUTE_NS, 30 * DAY_NS, "from 1m to 30d"};
    static const struct span memories = {2 * MINUTE_NS, YEAR_NS, "from 2m to 365d"};
    const struct rn_node *forget = rn_node_find(node, "forget"), *add, *up_to;
    struct rn_earn_plan *plan = rn_builder_alloc(builder, 1, sizeof *plan);
    uint32_t errors = builder->report->count[RN_ERROR];

    if (plan == NULL || !rn_native_expect_map(builder, node, "{every: 24h, add: 10%}"))
        return;
    rn_native_map(builder, node, keys, RN_COUNT(keys));
    if (builder->report->count[RN_ERROR] != errors)
        return;
    *plan = (struct rn_earn_plan){.up_to = 200, .lost_after = 3, .lost_within_ns = HOUR_NS};
    rn_native_require(builder, node, "every", "24h");
    read_span(builder, node, "every", &periods, &plan->every_ns);
    if ((add = rn_native_require(builder, node, "add", "10%")) != NULL)
        rn_native_percent(builder, add, 1, 100,
                          "each step adds a percentage of the limit as written, from 1% to 100%",
                          &plan->add);
    if ((up_to = rn_node_find(node, "up_to")) != NULL)
        rn_native_percent(builder, up_to, 101, RN_FACTOR_MAX,
                          "earn raises a limit, so write 101% to 400%", &plan->up_to);
    read_refusals(builder, node, "lost_by", &plan->lost_after, &plan->lost_within_ns);
    plan->forget_ns =
        plan->every_ns > YEAR_NS / 30 ? YEAR_NS : 30 * plan->every_ns; /* by default */
    read_span(builder, node, "forget", &memories, &plan->forget_ns);
    if (builder->report->count[RN_ERROR] != errors)
        return;
    if (plan->forget_ns < 2 * plan->every_ns)
        rn_report_error(builder->report, forget->at,
                        "forget: found %s, so that steps could be forgotten as soon as they are "
                        "earned; write at least twice every",
                        rn_node_describe(forget).text);
    rule->earn = plan;
}

/* --- against the rest of the rule ------------------------------------------------------------- */

void rn_native_reputation_check(struct rn_builder *builder, const struct rn_node *map,
                                const struct rn_rule *rule)
{
    const struct rn_node *escalate = rn_node_find(map, "escalate");
    const struct rn_node *earn = rn_node_find(map, "earn");

    if (rule->key_count != 0)
        return;
    if (escalate != NULL)
        rn_report_error(builder->report, escalate->key->at,
                        "escalate needs a key: without one all clients share one counter, and all "
                        "would be banned together; add for example key: ip");
    if (earn != NULL)
        rn_report_error(builder->report, earn->key->at,
                        "earn needs a key: without one all clients share one counter, and none "
                        "earns anything for itself; add for example key: user");
}
