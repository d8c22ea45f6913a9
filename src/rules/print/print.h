/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ruleset written back as a file in the native format: canonical, so equal
 * rulesets print alike, and complete, so what is printed loads as the same
 * ruleset. Rules of Envoy files have no native form and are left out, and so are
 * secrets of the daemon.
 */
#ifndef RN_RULES_PRINT_PRINT_H
#define RN_RULES_PRINT_PRINT_H

#include "rules/ruleset.h"

typedef void rn_print_sink(void *context, const char *text, size_t len);
void rn_print_ruleset(const struct rn_ruleset *ruleset, rn_print_sink *sink, void *context);
/* Whether rn_print_ruleset leaves out a secret. */
bool rn_print_omits_secrets(const struct rn_ruleset *ruleset);

#endif
