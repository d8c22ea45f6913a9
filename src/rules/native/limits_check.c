/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the keys beside `limit:` against the limits: options that apply to none of
 * them, consistency, a cost that never fits.
 */
#include "rules/native/limits_internal.h"

#include <ration/algorithm.h>

#include "core/algorithm.h"

static void report_idle(struct rn_limits_reader *r, const char *key, const char *why)
{
    const struct rn_node *node = rn_node_find(r->map, key);

    if (node != NULL)
        rn_report_error(r->report, node->key->at, "%s", why);
}

/* Reports a fixed cost that fits no tier. A limit of 0 refuses on purpose. */
static void check_cost(struct rn_limits_reader *r)
{
    const struct rn_rule *rule = r->rule;
    const struct rn_rule_limit *small = NULL;
    char text[128];

    if (rule->cost.attribute != RN_NO_ATTRIBUTE || rule->tier_count == 0)
        return;
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        const struct rn_tier *tier = &rule->tiers[t];
        uint32_t i = 0;

        while (i < tier->limit_count &&
               (tier->limits[i]->limit.algorithm == RATION_CONCURRENCY ||
                tier->limits[i]->limit.cap == 0 || tier->limits[i]->limit.cap >= rule->cost.fixed))
            i++;
        if (i == tier->limit_count)
            return;
        small = tier->limits[i];
    }
    ration_limit_write(&small->spec, text, sizeof text);
    rn_report_error(r->report, rn_node_find(r->map, "cost")->at,
                    "a cost of %llu never fits \"%s\", which admits %llu at once; write a smaller "
                    "cost or a larger limit",
                    (unsigned long long)rule->cost.fixed, text,
                    (unsigned long long)small->limit.cap);
}

void rn_limits_check(struct rn_limits_reader *r)
{
    const struct rn_node *algorithm = rn_node_find(r->map, "algorithm");

    if (r->algorithm >= 0 && !(r->used >> r->algorithm & 1))
        rn_report_error(r->report, algorithm->at,
                        "%s is for none of these limits: queue, concurrent, calendar and unlimited "
                        "imply their algorithm; leave it out",
                        r->own ? r->own->name
                               : ration_algorithm_name((enum ration_algorithm)r->algorithm));
    if (!(r->used >> RATION_SLIDING_WINDOW & 1))
        report_idle(r, "sub_windows",
                    "sub_windows refine a sliding window; add algorithm: sliding-window");
    if (r->on_calendar && !r->off_calendar)
        report_idle(r, "align", "the calendar says where its windows begin; leave align out");
    else if (!r->off_calendar)
        report_idle(r, "align", "align is for fixed windows; add algorithm: fixed-window");
    if (!(r->used >> RATION_CONCURRENCY & 1))
        report_idle(r, "lease", "lease is for limits such as 20 concurrent; leave it out");
    if (!r->on_calendar)
        report_idle(r, "spread",
                    "spread is for quotas such as 10000 per calendar month; leave it out");
    if (r->adaptive) {
        report_idle(r, "soft",
                    "soft is a share of a known number, and an adaptive limit learns "
                    "its own; leave soft out");
        report_idle(r, "priority",
                    "priority keeps shares of a known number, and an adaptive limit "
                    "learns its own; leave priority out");
    }
    const struct rn_node *node = rn_node_find(r->map, "consistency");

    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++)
        if (r->rule->consistency == RN_ASYNC && a->needs_each && (r->used >> a->algorithm & 1))
            rn_report_error(
                r->report, node->at,
                "async is not for %s, on which all nodes must agree; write strict or leased",
                a->name);
    check_cost(r);
}
