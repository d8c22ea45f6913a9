/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/rulebook/explain.h"

#include "limiter/decide/gather.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"

/* What the rule alone would say. */
static void look(struct rn_gathered *g, const struct ration_request *request,
                 struct rn_explained_rule *seen, struct ration_outcome *outcome)
{
    struct rn_applied *applied = rn_gather_next(g);

    *applied = rn_applied_of(seen->match);
    if (applied->cost == 0)
        applied->cost = request->cost ? request->cost : 1;
    seen->cost = applied->cost;
    rn_gather_add(g);
    seen->error = rn_gather_run(g, true, outcome);
    seen->overridden = g->rule_count != 0 && g->rules[0].instead != NULL;
    seen->outcome = outcome;
    seen->limits = g->limits;
    seen->limit_count = seen->error == 0 ? outcome->listed : 0;
}

static int see_rule(struct ration *r, const struct rn_book *book, const struct rn_explain *explain,
                    struct rn_values *values, struct rn_explained_rule *seen)
{
    struct ration_outcome outcome;
    struct rn_match match;
    struct rn_gathered g;

    seen->reason = rn_match_explain(seen->ruleset, seen->rule, values, &match);
    seen->values = values;
    seen->applies = seen->reason.why == RN_WHY_APPLIES || seen->reason.why == RN_WHY_UNLIMITED;
    if (seen->applies) {
        seen->match = &match;
        rn_gather_init(&g, r, book, explain->now_ns);
        look(&g, explain->request, seen, &outcome);
    }
    return explain->see(explain->arg, seen);
}

static void begin(const struct rn_ruleset *ruleset, const struct rn_explain *explain,
                  const struct rn_values *values)
{
    struct rn_matches matches;

    rn_match_request(ruleset, explain->request, &matches);
    explain->begin(explain->arg, &(struct rn_explained_request){ruleset, values, matches.entry});
}

void rn_explain_run(struct ration *r, const struct rn_explain *explain)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_ruleset *ruleset = pin.book ? pin.book->ruleset : NULL;
    struct rn_values values;

    if (ruleset)
        rn_values_resolve(ruleset, explain->request, &values);
    if (ruleset && explain->begin)
        begin(ruleset, explain, &values);
    for (uint32_t i = 0; ruleset && i < ruleset->rule_count; i++) {
        struct rn_explained_rule seen = {.ruleset = ruleset, .rule = &ruleset->rules[i]};

        if (!seen.rule->envoy && see_rule(r, pin.book, explain, &values, &seen) != 0)
            break;
    }
    rn_pin_drop(&pin);
}
