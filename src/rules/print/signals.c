/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the section `signals:`, and `adapt:` and `elastic:` of a rule in their long form.
 */
#include <inttypes.h>

#include "rules/print/print_internal.h"

static void print_span(struct rn_printer *p, const char *key, int64_t ns)
{
    rn_print(p, ", %s", key);
    rn_print_span(p, ": ", ns);
}

void rn_print_signal_line(struct rn_printer *p, const struct rn_signal *signal)
{
    char text[RN_STATUSES_TEXT], quantile[RN_SIGNAL_TEXT];

    rn_print(p, "  ");
    rn_print_quoted(p, signal->name);
    rn_print(p, ": {source: %s", rn_signal_source_name(signal->source));
    if (signal->of != NULL) {
        rn_print(p, ", of: ");
        rn_print_quoted(p, signal->of->name);
    }
    if (signal->source == RN_SIGNAL_LATENCY) {
        rn_signal_write_value(RN_SIGNAL_SHARE, signal->quantile, quantile);
        rn_print(p, ", quantile: %s", quantile);
    }
    if (signal->source == RN_SIGNAL_STATUS) {
        rn_statuses_write(&signal->statuses, text);
        rn_print(p, ", status: ");
        rn_print_quoted(p, rn_slice_of(text));
    }
    if (signal->source == RN_SIGNAL_LATENCY || signal->source == RN_SIGNAL_STATUS)
        print_span(p, "over", signal->over_ns);
    if (signal->source == RN_SIGNAL_PROMETHEUS) {
        rn_print(p, ", url: ");
        rn_print_quoted(p, signal->url);
        rn_print(p, ", query: ");
        rn_print_quoted(p, signal->query);
        print_span(p, "every", signal->every_ns);
    }
    if (signal->source == RN_SIGNAL_PUSH || signal->source == RN_SIGNAL_PROMETHEUS)
        print_span(p, "expires", signal->expires_ns);
    rn_print(p, "}\n");
}

void rn_print_signals(struct rn_printer *p)
{
    for (uint32_t i = 0; i < p->ruleset->signal_count; i++) {
        rn_print(p, i == 0 ? "signals:\n" : "");
        rn_print_signal_line(p, &p->ruleset->signals[i]);
    }
}

static void print_condition(struct rn_printer *p, const struct rn_rule_adapt *adapt)
{
    const struct rn_signal *signal = &p->ruleset->signals[adapt->signal];
    char value[RN_SIGNAL_TEXT];

    rn_signal_write_value(rn_signal_unit(signal), adapt->plan.when.threshold, value);
    rn_print(p, "%.*s %s %s", (int)signal->name.len, signal->name.data,
             adapt->plan.when.above ? "above" : "below", value);
}

static void print_steps(struct rn_printer *p, const struct rn_ramp_plan *plan)
{
    print_span(p, "for", plan->for_ns);
    rn_print(p, ", by: %u%%", plan->by);
    print_span(p, "every", plan->every_ns);
    rn_print(p, "}");
}

void rn_print_adapt(struct rn_printer *p, const struct rn_rule *rule)
{
    const struct rn_rule_factor *factor = &rule->adapt;
    char value[RN_SIGNAL_TEXT];

    for (uint32_t i = 0; i < factor->adapt_count; i++) {
        const struct rn_rule_adapt *adapt = &factor->adapts[i];

        rn_print(p, i == 0 ? "    adapt:\n      - {when: " : "      - {when: ");
        print_condition(p, adapt);
        rn_signal_write_value(rn_signal_unit(&p->ruleset->signals[adapt->signal]),
                              adapt->plan.calm_threshold, value);
        rn_print(p, ", to: %u%%, restore: {%s: %s", adapt->plan.percent,
                 adapt->plan.when.above ? "below" : "above", value);
        print_steps(p, &adapt->plan);
        rn_print(p, adapt->fleet ? ", scope: fleet}\n" : "}\n");
    }
    if (!factor->has_elastic)
        return;
    rn_print(p, "    elastic: {up_to: %u%%, while: ", factor->elastic.plan.percent);
    print_condition(p, &factor->elastic);
    print_steps(p, &factor->elastic.plan);
    rn_print(p, "\n");
}
