/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `adapt:` and `elastic:` of a rule, which let its limits follow signals:
 *
 *   adapt: { when: cpu above 80%, to: 50%, restore: { below: 70%, for: 30s, by: 10%, every: 10s },
 *            scope: fleet }
 *   elastic: { up_to: 200%, while: cpu below 50%, for: 30s, by: 10%, every: 10s }
 */
#include <string.h>

#include "base/number.h"
#include "rules/native/native_internal.h"

#define SECOND_NS INT64_C(1000000000)
#define SPAN_MAX_NS (24 * 3600 * SECOND_NS)

/* --- values ------------------------------------------------------------------------------- */

static const char *const unit_examples[] = {
    [RN_SIGNAL_SHARE] = "80%", [RN_SIGNAL_DURATION] = "250ms", [RN_SIGNAL_NUMBER] = "1000"};
static const char *const unit_names[] = {[RN_SIGNAL_SHARE] = "a share",
                                         [RN_SIGNAL_DURATION] = "a duration",
                                         [RN_SIGNAL_NUMBER] = "a number"};

/* A value in the unit of a signal; false after reporting. */
static bool read_value(struct rn_builder *builder, const struct rn_node *node, struct rn_slice text,
                       const struct rn_signal *signal, int64_t *value)
{
    enum rn_signal_unit unit = rn_signal_unit(signal);
    bool is_percent = text.len > 1 && text.data[text.len - 1] == '%';
    struct rn_slice digits = {text.data, text.len - is_percent};
    int64_t ns = 0;
    size_t pos = 0;
    bool ok;

    if (unit == RN_SIGNAL_DURATION) {
        ok = rn_number_parse_duration(text.data, text.len, &pos, &ns, NULL) == 0 &&
             pos == text.len && text.len > 0 && text.data[0] >= '0' && text.data[0] <= '9';
        *value = ns / 1000;
    } else {
        ok = (unit == RN_SIGNAL_NUMBER || is_percent) &&
             rn_signal_parse_decimal(digits, RN_SIGNAL_UNIT / (is_percent ? 100 : 1), value);
    }
    if (!ok)
        rn_report_error(builder->report, node->at,
                        "the signal %s is %s; compare it with one, as in %s, not %s",
                        rn_excerpt(signal->name).text, unit_names[unit], unit_examples[unit],
                        rn_excerpt(text).text);
    else if (unit == RN_SIGNAL_SHARE && (*value < 0 || *value > RN_SIGNAL_UNIT)) {
        rn_report_error(builder->report, node->at,
                        "%s is never reached by the signal %s, which is from 0%% to 100%%",
                        rn_excerpt(text).text, rn_excerpt(signal->name).text);
        ok = false;
    }
    return ok;
}

static struct rn_slice next_word(struct rn_slice *rest)
{
    struct rn_slice word;

    while (rest->len > 0 && rest->data[0] == ' ')
        *rest = (struct rn_slice){rest->data + 1, rest->len - 1};
    word = (struct rn_slice){rest->data, 0};
    while (word.len < rest->len && rest->data[word.len] != ' ')
        word.len++;
    *rest = (struct rn_slice){rest->data + word.len, rest->len - word.len};
    return word;
}

/* `cpu above 80%`; false after reporting. */
static bool read_condition(struct rn_builder *builder, const struct rn_node *node,
                           struct rn_rule_adapt *adapt)
{
    struct rn_slice text, name, side;

    if (!rn_node_as_text(node, builder->report, &text))
        return false;
    name = next_word(&text);
    side = next_word(&text);
    while (text.len > 0 && text.data[0] == ' ')
        text = (struct rn_slice){text.data + 1, text.len - 1};
    while (text.len > 0 && text.data[text.len - 1] == ' ')
        text.len--;
    adapt->plan.when.above = rn_slice_is(side, "above");
    if (text.len == 0 || (!adapt->plan.when.above && !rn_slice_is(side, "below"))) {
        rn_report_error(builder->report, node->at,
                        "found %s where a condition should be; write a signal, above or below, and "
                        "a value, as in cpu above 80%%",
                        rn_excerpt(node->text).text);
        return false;
    }
    int signal = rn_native_find_signal(builder, node, name);

    if (signal < 0)
        return false;
    adapt->signal = (uint32_t)signal;
    return read_value(builder, node, text, &builder->ruleset->signals[signal],
                      &adapt->plan.when.threshold);
}

/* for, by and every, where they are given. */
static void read_steps(struct rn_builder *builder, const struct rn_node *map,
                       struct rn_ramp_plan *plan)
{
    static const char *const keys[] = {"for", "every"};
    int64_t *const spans[] = {&plan->for_ns, &plan->every_ns};
    const struct rn_node *by = rn_node_find(map, "by"), *node;

    for (size_t i = 0; i < RN_COUNT(keys); i++) {
        int64_t ns;

        if ((node = rn_node_find(map, keys[i])) == NULL || !rn_native_duration(builder, node, &ns))
            continue;
        if (ns < SECOND_NS || ns > SPAN_MAX_NS)
            rn_report_error(builder->report, node->at,
                            "%s must be from 1 second to 24 hours, found %s; signals are looked "
                            "at once a second",
                            keys[i], rn_excerpt(node->text).text);
        else
            *spans[i] = ns;
    }
    if (by != NULL)
        rn_native_percent(
            builder, by, RN_RAMP_MIN_STEP, 100,
            "each step upwards is a percentage of the limit as written, from 5% to 100%",
            &plan->by);
}

/* --- adapt ---------------------------------------------------------------------------------- */

/* How far from the threshold a signal is calm by default: 10 points of a share, but at most half
 * of the threshold; of durations and numbers a fifth. */
static int64_t default_calm(const struct rn_ramp_condition *when, enum rn_signal_unit unit)
{
    int64_t size = when->threshold < 0 ? -when->threshold : when->threshold;
    int64_t margin = size / 5;

    if (unit == RN_SIGNAL_SHARE)
        margin = size / 2 < RN_SIGNAL_UNIT / 10 ? size / 2 : RN_SIGNAL_UNIT / 10;
    return when->threshold + (when->above ? -margin : margin);
}

static void read_restore(struct rn_builder *builder, const struct rn_node *map,
                         struct rn_rule_adapt *adapt)
{
    static const char *const keys[] = {"below", "above", "for", "by", "every"};
    struct rn_ramp_plan *plan = &adapt->plan;
    const char *right = plan->when.above ? "below" : "above";
    const struct rn_node *wrong = rn_node_find(map, plan->when.above ? "above" : "below");
    const struct rn_node *calm = rn_node_find(map, right);
    struct rn_slice text;

    if (!rn_native_expect_map(builder, map, "{below: 70%, for: 30s, by: 10%, every: 10s}") ||
        !rn_native_map(builder, map, keys, RN_COUNT(keys)))
        return;
    if (wrong != NULL)
        rn_report_error(builder->report, wrong->key->at,
                        "restored on the same side as lowered; write %s, as the limit is lowered "
                        "when the signal is %s its threshold",
                        right, plan->when.above ? "above" : "below");
    if (calm != NULL && rn_node_as_text(calm, builder->report, &text) &&
        read_value(builder, calm, text, &builder->ruleset->signals[adapt->signal],
                   &plan->calm_threshold) &&
        (plan->when.above ? plan->calm_threshold > plan->when.threshold
                          : plan->calm_threshold < plan->when.threshold))
        rn_report_error(builder->report, calm->at,
                        "restored %s %s while the limit is still lowered; write a value on the "
                        "other side of the threshold in when",
                        right, rn_excerpt(text).text);
    read_steps(builder, map, plan);
}

static void read_scope(struct rn_builder *builder, const struct rn_node *node,
                       struct rn_rule_adapt *adapt)
{
    bool plain = node->kind == RN_NODE_SCALAR;

    adapt->fleet = plain && rn_slice_is(node->text, "fleet");
    if (!adapt->fleet && !(plain && rn_slice_is(node->text, "node")))
        rn_report_error(builder->report, node->at,
                        "scope: found %s; write node (each node follows its own signals) or fleet "
                        "(all nodes follow the one that asks for the least)",
                        rn_node_describe(node).text);
}

static void read_adapt(struct rn_builder *builder, const struct rn_node *map,
                       struct rn_rule_adapt *adapt)
{
    static const char *const keys[] = {"when", "to", "restore", "scope"};
    const struct rn_node *when, *to, *restore = rn_node_find(map, "restore");
    const struct rn_node *scope = rn_node_find(map, "scope");
    uint32_t errors = builder->report->count[RN_ERROR];

    adapt->plan = (struct rn_ramp_plan){
        .percent = 50, .by = 10, .for_ns = 30 * SECOND_NS, .every_ns = 10 * SECOND_NS};
    if (map->kind != RN_NODE_MAP) {
        rn_report_error(
            builder->report, map->at,
            "adapt must be a map, found %s; write for example {when: cpu above 80%%, to: "
            "50%%}",
            rn_node_describe(map).text);
        return;
    }
    rn_native_map(builder, map, keys, RN_COUNT(keys));
    if (builder->report->count[RN_ERROR] != errors)
        return;
    when = rn_native_require(builder, map, "when", "cpu above 80%");
    to = rn_native_require(builder, map, "to", "50%");
    if (to != NULL)
        rn_native_percent(builder, to, 1, 99,
                          "adapt lowers a limit, so write 1% to 99% (elastic raises one)",
                          &adapt->plan.percent);
    if (scope != NULL)
        read_scope(builder, scope, adapt);
    if (when == NULL || !read_condition(builder, when, adapt))
        return;
    adapt->plan.calm_threshold =
        default_calm(&adapt->plan.when, rn_signal_unit(&builder->ruleset->signals[adapt->signal]));
    if (restore != NULL)
        read_restore(builder, restore, adapt);
}

/* The slowest of the adapts with `scope: fleet` says how fast a factor is restored when a node has
 * fallen silent. */
static void join_fleet(struct rn_rule_factor *factor, const struct rn_rule_adapt *adapt)
{
    struct rn_ramp_plan *plan = &factor->fleet.plan;

    if (!factor->has_fleet) {
        factor->has_fleet = true;
        factor->fleet = *adapt;
        return;
    }
    plan->percent = adapt->plan.percent < plan->percent ? adapt->plan.percent : plan->percent;
    plan->by = adapt->plan.by < plan->by ? adapt->plan.by : plan->by;
    plan->for_ns = adapt->plan.for_ns > plan->for_ns ? adapt->plan.for_ns : plan->for_ns;
    plan->every_ns = adapt->plan.every_ns > plan->every_ns ? adapt->plan.every_ns : plan->every_ns;
}

void rn_native_adapt(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    bool is_list = node->kind == RN_NODE_LIST;
    uint32_t count = is_list ? node->count : 1, read = 0;
    struct rn_rule_adapt *adapts = rn_builder_alloc(builder, count, sizeof *adapts);

    if (count == 0 || count > RN_ADAPTS_MAX) {
        rn_report_error(builder->report, node->at,
                        count == 0 ? "an empty list; write for example [{when: cpu above 80%%, to: "
                                     "50%%}], or leave out adapt"
                                   : "more than 8 adapts; use fewer");
        return;
    }
    if (adapts == NULL)
        return;
    for (const struct rn_node *item = is_list ? node->first : node; item != NULL;
         item = is_list ? item->next : NULL)
        read_adapt(builder, item, &adapts[read++]);
    rule->adapt.adapts = adapts;
    rule->adapt.adapt_count = count;
    for (uint32_t i = 0; i < count; i++)
        if (adapts[i].fleet)
            join_fleet(&rule->adapt, &adapts[i]);
}

/* --- elastic --------------------------------------------------------------------------------- */

void rn_native_elastic(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    static const char *const keys[] = {"up_to", "while", "for", "by", "every"};
    struct rn_rule_adapt *elastic = &rule->adapt.elastic;
    const struct rn_node *up_to, *condition;
    uint32_t errors = builder->report->count[RN_ERROR];

    elastic->plan = (struct rn_ramp_plan){
        .percent = 200, .by = 10, .for_ns = 30 * SECOND_NS, .every_ns = 10 * SECOND_NS};
    if (!rn_native_expect_map(builder, node, "{up_to: 200%, while: cpu below 50%}"))
        return;
    rn_native_map(builder, node, keys, RN_COUNT(keys));
    if (builder->report->count[RN_ERROR] != errors)
        return;
    up_to = rn_native_require(builder, node, "up_to", "200%");
    condition = rn_native_require(builder, node, "while", "cpu below 50%");
    if (up_to != NULL)
        rn_native_percent(builder, up_to, 101, RN_FACTOR_MAX,
                          "elastic raises a limit, so write 101% to 400%", &elastic->plan.percent);
    read_steps(builder, node, &elastic->plan);
    if (condition != NULL && read_condition(builder, condition, elastic))
        rule->adapt.has_elastic = true;
}
