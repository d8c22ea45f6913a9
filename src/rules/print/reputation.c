/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints `escalate:`, `earn:` and `usage:` of a rule in their long form.
 */
#include <inttypes.h>

#include "rules/print/print_internal.h"

static void print_escalate(struct rn_printer *p, const struct rn_rule *rule)
{
    const struct rn_escalate_plan *plan = rule->escalate;

    rn_print(p, "    escalate: {after: %" PRIu32 " refusals", plan->after);
    rn_print_span(p, " within ", plan->within_ns);
    rn_print_span(p, ", ban: ", plan->ban_ns[1]);
    rn_print(p, ", grow: %" PRIu32, rule->ban_grow_percent / 100);
    if (rule->ban_grow_percent % 100 != 0)
        rn_print(p, ".%02" PRIu32, rule->ban_grow_percent % 100);
    rn_print_span(p, "x, up_to: ", rule->ban_up_to_ns);
    rn_print_span(p, ", forget: ", plan->forget_ns);
    rn_print(p, "}\n");
}

static void print_earn(struct rn_printer *p, const struct rn_earn_plan *plan)
{
    rn_print_span(p, "    earn: {every: ", plan->every_ns);
    rn_print(p, ", add: %u%%, up_to: %u%%, lost_by: %" PRIu32 " refusals", plan->add, plan->up_to,
             plan->lost_after);
    rn_print_span(p, " within ", plan->lost_within_ns);
    rn_print_span(p, ", forget: ", plan->forget_ns);
    rn_print(p, "}\n");
}

void rn_print_reputation(struct rn_printer *p, const struct rn_rule *rule)
{
    static const char *const units[] = {
        [RATION_CALENDAR_NONE] = "",     [RATION_CALENDAR_DAY] = "day",
        [RATION_CALENDAR_WEEK] = "week", [RATION_CALENDAR_MONTH] = "month",
        [RATION_CALENDAR_YEAR] = "year",
    };
    const struct rn_rule_usage *usage = rule->usage;

    if (rule->escalate != NULL)
        print_escalate(p, rule);
    if (rule->earn != NULL)
        print_earn(p, rule->earn);
    if (usage == NULL)
        return;
    rn_print(p, "    usage: {per: %s, zone: ", units[usage->unit]);
    rn_print_quoted(p, usage->zone.len == 0 ? RN_SLICE("UTC") : usage->zone);
    rn_print(p, ", keep: %" PRIu32 "}\n", usage->keep);
}
