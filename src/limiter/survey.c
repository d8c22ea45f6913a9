/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/survey.h"

#include "limiter/book.h"
#include "limiter/limiter.h"

static void find_entry(const struct rn_ruleset *ruleset, const struct ration_request *request,
                       struct rn_survey_entry *entry)
{
    struct rn_matches matches;

    rn_ruleset_match(ruleset, request, &matches);
    entry->found = matches.outcome == RN_MATCH_ALLOWED || matches.outcome == RN_MATCH_DENIED;
    if (!entry->found)
        return;
    entry->deny = matches.entry->deny;
    entry->line = matches.entry->line;
    rn_slice_copy(entry->file, sizeof entry->file, matches.entry->file);
}

static void see_rules(const struct rn_ruleset *ruleset, const struct ration_request *request,
                      int (*see)(void *arg, const struct rn_surveyed *rule), void *arg)
{
    struct rn_values values;

    rn_ruleset_values(ruleset, request, &values);
    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        const struct rn_rule *rule = &ruleset->rules[i];
        struct rn_surveyed seen = {.ruleset = ruleset, .rule = rule, .values = &values};
        struct rn_match match;

        if (rule->envoy)
            continue;
        seen.reason = rn_rule_explain(ruleset, rule, &values, &match);
        seen.applies = seen.reason.why == RN_WHY_APPLIES || seen.reason.why == RN_WHY_UNLIMITED;
        seen.match = seen.applies ? &match : NULL;
        if (see(arg, &seen) != 0)
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
        see_rules(pin.book->ruleset, request, see, arg);
    }
    rn_pin_drop(&pin);
}
