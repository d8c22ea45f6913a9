/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/survey.h"

#include "limiter/book.h"
#include "limiter/limiter.h"
#include "limiter/ruling.h"

static void find_entry(const struct rn_ruleset *ruleset, const struct ration_request *request,
                       struct rn_survey_entry *entry)
{
    struct rn_matches matches;

    rn_ruleset_match(ruleset, request, &matches);
    entry->found = matches.entry != NULL;
    if (!entry->found)
        return;
    entry->deny = matches.entry->deny;
    entry->line = matches.entry->line;
    rn_slice_copy(entry->file, sizeof entry->file, matches.entry->file);
}

/* What the rule alone would say. */
static void look(struct rn_ruling *g, const struct ration_request *request,
                 struct rn_surveyed *seen, struct ration_outcome *outcome)
{
    struct rn_applied *applied = rn_ruling_next(g);

    *applied = rn_applied_of(seen->match);
    if (applied->cost == 0)
        applied->cost = request->cost ? request->cost : 1;
    rn_ruling_add(g);
    seen->error = rn_ruling_run(g, true, outcome);
    seen->overridden = g->rule_count != 0 && g->rules[0].instead != NULL;
    seen->outcome = outcome;
    seen->limits = g->limits;
    seen->limit_count = seen->error == 0 ? outcome->listed : 0;
}

static int see_rule(struct ration *r, const struct rn_book *book,
                    const struct ration_request *request, struct rn_values *values,
                    struct rn_surveyed *seen, int (*see)(void *arg, const struct rn_surveyed *rule),
                    void *arg)
{
    struct ration_outcome outcome;
    struct rn_match match;
    struct rn_ruling g;

    seen->reason = rn_rule_explain(seen->ruleset, seen->rule, values, &match);
    seen->values = values;
    seen->applies = seen->reason.why == RN_WHY_APPLIES || seen->reason.why == RN_WHY_UNLIMITED;
    if (seen->applies) {
        seen->match = &match;
        rn_ruling_init(&g, r, book, RATION_NOW);
        look(&g, request, seen, &outcome);
    }
    return see(arg, seen);
}

static void see_rules(struct ration *r, const struct rn_book *book,
                      const struct ration_request *request,
                      int (*see)(void *arg, const struct rn_surveyed *rule), void *arg)
{
    const struct rn_ruleset *ruleset = book->ruleset;
    struct rn_values values;

    rn_ruleset_values(ruleset, request, &values);
    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        struct rn_surveyed seen = {.ruleset = ruleset, .rule = &ruleset->rules[i]};

        if (!seen.rule->envoy && see_rule(r, book, request, &values, &seen, see, arg) != 0)
            break;
    }
}

void rn_survey_request(struct ration *r, const struct ration_request *request,
                       int (*see)(void *arg, const struct rn_surveyed *rule), void *arg,
                       struct rn_survey_entry *entry)
{
    struct rn_pin pin = rn_pin_hold(&r->shelf);

    if (entry)
        entry->found = false;
    if (pin.book) {
        if (entry)
            find_entry(pin.book->ruleset, request, entry);
        see_rules(r, pin.book, request, see, arg);
    }
    rn_pin_drop(&pin);
}
