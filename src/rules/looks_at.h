/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which attributes of a request the rules look at, for people who misspell one.
 */
#ifndef RN_RULES_LOOKS_AT_H
#define RN_RULES_LOOKS_AT_H

#include "rules/ruleset.h"

/* Whether any rule or list looks at an attribute that a request gives under this name. */
bool rn_ruleset_uses_attribute(const struct rn_ruleset *ruleset, struct rn_slice name);

/* For a name that none looks at: the name that was probably meant, or NULL. It lives as
 * long as the ruleset. */
const char *rn_ruleset_suggest_attribute(const struct rn_ruleset *ruleset, struct rn_slice name);

#endif
