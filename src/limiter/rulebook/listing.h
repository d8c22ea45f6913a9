/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules in force one by one, for callers that need few of them or none of their totals, which
 * take most of the time of ration_rules_each.
 */
#ifndef RN_LIMITER_RULEBOOK_LISTING_H
#define RN_LIMITER_RULEBOOK_LISTING_H

#include <ration/rules.h>

/* How many rules are in force. */
uint32_t rn_listing_count(struct ration *r);
/* Like ration_rules_each, without totals, from rule `first` on: `see` must not load rules. */
void rn_listing_each(struct ration *r, uint32_t first,
                     int (*see)(void *arg, const struct ration_rule_info *info), void *arg);

#endif
