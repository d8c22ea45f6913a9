/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by lint.c (the whole ruleset), rule.c (one rule), reputation.c (its escalate, earn and
 * usage) and names.c (misspelled names). */
#ifndef RN_RULES_LINT_LINT_INTERNAL_H
#define RN_RULES_LINT_LINT_INTERNAL_H

#include "rules/lint/lint.h"

struct rn_linter {
    const struct rn_ruleset *ruleset;
    struct rn_report *report;
    const struct rn_rule **rules; /* the native ones */
    uint32_t rule_count;
};

struct rn_place rn_lint_place(const struct rn_linter *l, struct rn_slice file, uint32_t line,
                              uint32_t column);
struct rn_place rn_lint_rule_place(const struct rn_linter *l, const struct rn_rule *rule);

/* Whether a condition on some attribute holds for this value of it. */
bool rn_lint_holds(const struct rn_condition *condition, struct rn_slice value);

void rn_lint_rule(const struct rn_linter *l, const struct rn_rule *rule);
void rn_lint_reputation(const struct rn_linter *l, const struct rn_rule *rule);
void rn_lint_rule_names(const struct rn_linter *l);
void rn_lint_attributes(const struct rn_linter *l);
void rn_lint_methods(const struct rn_linter *l);

#endif
