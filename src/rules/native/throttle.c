/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `throttle:` of a rule, which says when requests begin to wait, and how long.
 */
#include "base/number.h"
#include "core/algorithm.h"
#include "rules/native/native_internal.h"

/* 80% or 3 requests. */
static void read_from(struct rn_builder *builder, const struct rn_node *node,
                      struct rn_throttle *throttle)
{
    bool plain = node->kind == RN_NODE_SCALAR && !rn_node_is_null(node);
    uint64_t number = 0;
    size_t pos = 0;

    plain = plain && rn_number_parse(node->text.data, node->text.len, &pos, &number, NULL) == 0;
    struct rn_slice rest = {node->text.data + pos, node->text.len - pos};
    while (plain && rest.len > 0 && rest.data[0] == ' ')
        rest = (struct rn_slice){rest.data + 1, rest.len - 1};
    if (plain && pos == node->text.len) {
        rn_report_error(builder->report, node->at,
                        "found %llu, which may be a share or a number of requests; write %llu%% "
                        "or %llu requests",
                        (unsigned long long)number, number > 99 ? 80 : (unsigned long long)number,
                        (unsigned long long)number);
    } else if (plain && (rn_slice_is(rest, "request") || rn_slice_is(rest, "requests"))) {
        throttle->from_units = number;
        throttle->from_percent = 0;
    } else if (plain && node->text.data[pos] == '%' && pos + 1 == node->text.len) {
        if (rn_node_as_percent(node, builder->report, &throttle->from_percent) &&
            throttle->from_percent == 100)
            rn_report_error(builder->report, node->at,
                            "throttling from 100%% on never begins; write less, for example 80%%");
    } else {
        rn_report_error(builder->report, node->at,
                        "found %s where throttling should begin; write a share of the limit, as in "
                        "80%%, or a number, as in 3 requests",
                        rn_node_describe(node).text);
    }
}

void rn_native_throttle(struct rn_builder *builder, const struct rn_node *map, struct rn_rule *rule)
{
    struct rn_throttle *throttle = &rule->throttle;
    static const char *const keys[] = {"from", "max_delay"};
    uint32_t errors = builder->report->count[RN_ERROR];
    const struct rn_node *from, *delay;

    if (!rn_native_expect_map(builder, map, "{from: 80%, max_delay: 2s}"))
        return;
    rn_native_map(builder, map, keys, RN_COUNT(keys));
    if (builder->report->count[RN_ERROR] != errors)
        return;
    from = rn_native_require(builder, map, "from", "80%");
    delay = rn_node_find(map, "max_delay");
    if (from != NULL)
        read_from(builder, from, throttle);
    if (delay != NULL)
        rn_native_duration(builder, delay, &throttle->max_ns);
    throttle->on = builder->report->count[RN_ERROR] == errors;
}

void rn_native_throttle_check(struct rn_builder *builder, const struct rn_node *map,
                              const struct rn_rule *rule)
{
    const struct rn_node *node = rn_node_find(map, "throttle");
    const struct rn_throttle *throttle = &rule->throttle;
    const struct rn_rule_limit *limit;
    char text[128];

    if (!throttle->on)
        return;
    RN_RULE_EACH_LIMIT(limit, rule)
    {
        uint64_t written = limit->limit.cap - limit->soft_units;

        ration_limit_write(&limit->spec, text, sizeof text);
        if (throttle->from_units >= written && throttle->from_units != 0) {
            rn_report_error(builder->report, rn_node_find(node, "from")->at,
                            "throttling from %llu requests on never begins: %s holds %llu; write "
                            "fewer than that",
                            (unsigned long long)throttle->from_units, text,
                            (unsigned long long)written);
            return;
        }
        if (throttle->max_ns == 0 && !rn_throttle_can_pace(&limit->limit)) {
            rn_report_error(builder->report, node->at,
                            "max_delay is missing: only a bucket that refills evenly tells how "
                            "long to wait, not %s %s; add for example max_delay: 2s",
                            limit->spec.step_ns != 0 ? "a stepped" : "a",
                            rn_algorithm_name_of(&limit->spec));
            return;
        }
    }
}
