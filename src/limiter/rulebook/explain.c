/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/rulebook/explain.h"

#include <stdio.h>

#include "limiter/decide/workspace.h"
#include "limiter/factor.h"
#include "limiter/line/lines.h"
#include "limiter/reputation/reputation.h"
#include "rules/report/report.h"

/* Looks at what the rule alone would say. */
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
    seen->factor = rn_rule_follows(seen->rule) ? rn_factor_get(g->book, seen->rule) : 0;
    seen->reputation.earned_percent = 100;
    seen->hash = g->tx.n != 0 ? g->tx.items[0].key ^ g->tx.items[0].limit->salt : 0;
    if (g->tx.n != 0 && (seen->rule->escalate || seen->rule->earn))
        rn_reputation_look(g->r, seen->rule, seen->hash, rn_limiter_now(g->r, g->tx.now_ns),
                           &seen->reputation);
    seen->pause_ns = rn_pause_of_client(g->r, g->book, applied, rn_limiter_now(g->r, g->tx.now_ns));
    seen->outcome = outcome;
    seen->limits = g->limits;
    seen->items = g->tx.items;
    seen->limit_count = seen->error == 0 ? outcome->listed : 0;
    for (uint32_t i = 0; i < seen->limit_count; i++)
        rn_lines_look(g->r->lines, g->tx.items[i].key, seen->cost, g->tx.items[i].rank,
                      rn_limiter_now(g->r, g->tx.now_ns), &seen->lines[i]);
}

static void explain_rules(struct ration *r, const struct rn_book *book,
                          const struct rn_explain *explain, struct rn_workspace *w)
{
    const struct rn_ruleset *ruleset = book->ruleset;
    const struct rn_list_entry *entry = NULL;
    struct ration_outcome outcome;
    struct rn_match match;

    if (explain->begin) {
        rn_match_request(ruleset, explain->request, &w->matches);
        entry = w->matches.entry;
    }
    rn_values_resolve(ruleset, explain->request, &w->matches.values);
    rn_values_find_all(ruleset, &w->matches.values);
    if (explain->begin)
        explain->begin(explain->arg,
                       &(struct rn_explained_request){ruleset, &w->matches.values, entry});
    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        struct rn_explained_rule seen = {
            .ruleset = ruleset, .rule = &ruleset->rules[i], .values = &w->matches.values};

        if (seen.rule->envoy)
            continue;
        seen.reason = rn_match_explain(ruleset, seen.rule, &w->matches.values, &match);
        seen.applies = seen.reason.why == RN_WHY_APPLIES || seen.reason.why == RN_WHY_UNLIMITED;
        if (seen.applies) {
            seen.match = &match;
            rn_gather_init(&w->gathered, r, book, explain->now_ns);
            w->gathered.past_bans = true;
            look(&w->gathered, explain->request, &seen, &outcome);
        }
        if (explain->see(explain->arg, &seen) != 0)
            break;
    }
}

int rn_explain_run(struct ration *r, const struct rn_explain *explain)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);

    if (pin.book)
        explain_rules(r, pin.book, explain, w);
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return 0;
}

/* --- attributes ------------------------------------------------------------------------- */

void rn_explain_unused_attribute(struct ration *r, const struct ration_attribute *attributes,
                                 size_t count, char note[RATION_MESSAGE_SIZE])
{
    struct rn_pin pin = rn_pin_take(&r->shelf, rn_stats_stripe(&r->stats));
    const struct rn_ruleset *ruleset = pin.book ? pin.book->ruleset : NULL;
    struct rn_slice unused = {0};
    const char *meant = NULL;

    note[0] = '\0';
    for (size_t i = 0; ruleset && i < count && !meant; i++) {
        struct rn_slice name = {attributes[i].name, attributes[i].name_len};

        if (rn_slice_starts_with(name, RN_SLICE("header.")) ||
            rn_ruleset_uses_attribute(ruleset, name))
            continue;
        meant = rn_ruleset_suggest_attribute(ruleset, name);
        unused = meant || !unused.data ? name : unused;
    }
    if (meant)
        snprintf(note, RATION_MESSAGE_SIZE, "no rule looks at %s; did you mean %s?",
                 rn_excerpt(unused).text, meant);
    else if (unused.data)
        snprintf(note, RATION_MESSAGE_SIZE, "no rule looks at %s", rn_excerpt(unused).text);
    rn_pin_drop(&pin);
}
