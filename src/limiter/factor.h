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
 *
 * A client may have earned more of the limit (reputation/earned.h): its step is the product of what
 * it has earned and the factor of the rule.
 */
#ifndef RN_LIMITER_FACTOR_H
#define RN_LIMITER_FACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "limiter/compiled.h"
#include "rules/ruleset.h"

struct ration;
struct rn_book;
struct rn_table;

#define RN_FACTOR_WRITTEN 100 /* percent */

/* The factor of one rule in a book. */
struct rn_factor {
    uint64_t *word; /* of the board: percent (16 bits; 0: never set) | changes (48 bits) */
    const uint16_t *percents; /* the rule's */
    uint32_t count;
    uint16_t at[RN_FACTOR_MAX + 1]; /* by percent: the step that is used */
};

#define RN_FACTOR_PERCENT UINT64_C(0xFFFF)

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

/* --- ladders ---------------------------------------------------------------------------- */

/* The factor of a rule, 100 until it is attached; the arena owns it. NULL: out of memory. The rule
 * has factors and outlives it. */
struct rn_factor *rn_factor_new(const struct rn_rule *rule, struct rn_arena *arena);

/* Finds the words of all rules that follow signals. False: the board is full. */
bool rn_factor_attach(struct rn_book *book, struct rn_table *table);

/* Compiles the steps of a limit, which is linked to its variants; the arena owns them. False: out
 * of memory. */
bool rn_factor_compile(struct rn_compiled *l, const struct rn_factor *factor,
                       struct rn_arena *arena);

/* The step of a limit that needs the most memory; the limit itself if its rule has no factors. */
struct rn_limit rn_factor_widest(const struct rn_rule_limit *limit);

/* Puts the step in force in the place of a limit that came with the call. */
void rn_factor_apply(struct rn_compiled *l, const struct rn_factor *factor);

/* Which of the steps is in force. */
static inline unsigned rn_factor_at(const struct rn_factor *factor)
{
    uint64_t percent = __atomic_load_n(factor->word, __ATOMIC_RELAXED) & RN_FACTOR_PERCENT;

    return factor->at[percent < RN_FACTOR_MAX ? percent : RN_FACTOR_MAX];
}

/* The limit that is in force: the limit itself if it has no steps. */
static inline const struct rn_compiled *rn_factor_step(const struct rn_compiled *l)
{
    return __builtin_expect(l->stepped, 0) ? &l->steps[rn_factor_at(l->factor)] : l;
}

/* The same for a client that has earned so many percent of what is in force, 100 or more. The rule
 * lists all products; 400 percent is the most. */
static inline const struct rn_compiled *rn_factor_step_earned(const struct rn_compiled *l,
                                                              unsigned earned)
{
    if (__builtin_expect(!l->stepped, 1))
        return l;
    unsigned percent = l->factor->percents[rn_factor_at(l->factor)] * earned / 100;

    return &l->steps[l->factor->at[percent < RN_FACTOR_MAX ? percent : RN_FACTOR_MAX]];
}

/* The step at 100 percent: what is charged then is worth what is written. */
static inline const struct rn_compiled *rn_factor_written(const struct rn_compiled *l)
{
    return l->stepped ? &l->steps[l->factor->at[100]] : l;
}

/* The step of `l` at the factor at which another limit of its rule was charged. */
const struct rn_compiled *rn_factor_same(const struct rn_compiled *l,
                                         const struct rn_compiled *charged);

/* The step of `l` with this capacity: of several that with the cheapest unit, so that a refund
 * never exceeds what was paid. NULL: there is none. */
const struct rn_compiled *rn_factor_find(const struct rn_compiled *l, uint64_t cap);

#endif
