/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The factor of a rule, in whole percent: how much of its limits as written is in force. It is the
 * price of a unit: at 50 % a unit costs twice as much of the state, whatever the algorithm.
 *
 * A rule that can have another factor than 100 lists all of them (rn_rule.factors) and has a
 * ladder: each of its limits is compiled once for each of these factors, all of one form, so that
 * one state serves all steps. Nothing is compiled when the factor changes. Which step is in force
 * is one word of the board (board.h), which every decision reads: a change binds the next decision
 * of every thread and process that uses the table.
 */
#ifndef RN_LIMITER_FACTOR_H
#define RN_LIMITER_FACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/ruleset.h"

struct ration;
struct rn_book;

/* Sets the factor of a rule of this book, which the caller has pinned. One that the rule does not
 * list counts as the next lower one that it lists, or as the lowest. For a rule without factors
 * nothing happens. Returns the factor that was in force before, 100 for such a rule. */
unsigned rn_factor_set(struct ration *r, const struct rn_book *book, const struct rn_rule *rule,
                       unsigned percent);

/* The factor in force: one that the rule lists. 100 for a rule without factors. */
unsigned rn_factor_get(const struct rn_book *book, const struct rn_rule *rule);

/* Whether a factor was ever set for a rule of this name, perhaps by a process that is gone:
 * rn_factor_get is 100 if not. */
bool rn_factor_is_set(const struct rn_book *book, const struct rn_rule *rule);

#endif
