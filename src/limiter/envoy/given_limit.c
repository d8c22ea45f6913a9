/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that come with a descriptor and take the place of the file's.
 *
 * Under a rule they are variants of its limit: a window of the same unit is the
 * same window, whatever it admits; one of another unit has a separate state,
 * and what it admits is counted in the rule's, too. Where no rule matches there
 * is a state for each unit under the name of the domain.
 */
#include "limiter/envoy/descriptors.h"

#include "limiter/factor.h"
#include "limiter/limiter.h"

#define DAY_NS (INT64_C(86400) * 1000000000)
/* Keeps those without a rule apart from a native rule named like the domain. */
#define COPY (UINT32_MAX - 1)

static const int64_t periods[] = {[RATION_UNIT_SECOND] = INT64_C(1000000000),
                                  [RATION_UNIT_MINUTE] = INT64_C(60000000000),
                                  [RATION_UNIT_HOUR] = INT64_C(3600000000000),
                                  [RATION_UNIT_DAY] = DAY_NS,
                                  [RATION_UNIT_MONTH] = 30 * DAY_NS,
                                  [RATION_UNIT_YEAR] = 365 * DAY_NS,
                                  [RATION_UNIT_WEEK] = 7 * DAY_NS};
#define UNITS (sizeof periods / sizeof *periods)

int64_t rn_descriptors_given_period(enum ration_unit unit)
{
    return (size_t)unit < UNITS ? periods[unit] : 0;
}

enum ration_unit rn_descriptors_given_unit(int64_t period_ns)
{
    for (size_t i = 1; i < UNITS; i++)
        if (periods[i] == period_ns)
            return (enum ration_unit)i;
    return RATION_UNIT_UNKNOWN;
}

void rn_descriptors_given_init(struct rn_given_limit *g, const struct rn_book *book,
                               const struct rn_descriptor *d, struct rn_slice domain)
{
    const struct rn_rule *rule = d->match ? d->match->rule : NULL;
    struct rn_compiled_rule from = {.name = domain, .copy = COPY, .limit = &g->limit.limit};
    int64_t period_ns = rn_descriptors_given_period(d->ask->unit);
    uint64_t amount = d->ask->requests_per_unit;

    /* No limit may admit more than one unit in a nanosecond. */
    amount = amount < (uint64_t)period_ns ? amount : (uint64_t)period_ns;
    g->limit = (struct rn_rule_limit){
        .spec = {.algorithm = RATION_FIXED_WINDOW, .amount = amount, .period_ns = period_ns}};
    rn_limit_init(&g->limit.limit, &g->limit.spec);
    g->list = &g->limit;
    if (rule) {
        from = (struct rn_compiled_rule){.name = rule->name,
                                         .limit = &g->limit.limit,
                                         .charge_flags = rn_book_charge_flags(rule)};
    } else {
        g->rule = (struct rn_rule){
            .name = domain, .index = RN_AD_HOC, .envoy = true, .response = {.status = 429}};
        rn_rule_entitle(&g->rule);
    }
    g->limit.rule = rule ? rule : &g->rule;
    rn_compiled_init_rule(&g->compiled, book->secret, g->limit.rule->index, &from);
    if (rule && book->factors[rule->index])
        rn_factor_apply(&g->compiled, book->factors[rule->index]);
    if (!rule || !d->match->limit)
        return;
    g->own = &book->limits[d->match->limit->id];
    g->compiled.shapes = &g->own;
    g->compiled.shape_count = 1;
}
