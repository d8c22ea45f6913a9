/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns of rules that their author may not have meant: rules that never apply, tiers that are never
 * reached, costs that never fit, names that look misspelled, and other weaknesses.
 */
#ifndef RN_RULES_LINT_LINT_H
#define RN_RULES_LINT_LINT_H

#include "rules/ruleset.h"

/* `report` is the one the ruleset was loaded with. */
void rn_lint_ruleset(const struct rn_ruleset *ruleset, struct rn_report *report);

#endif
