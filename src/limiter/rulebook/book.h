/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ruleset made ready to be charged: the limits of its rules compiled, linked
 * to their variants, and to what they were before the last reload.
 *
 * The limits of one rule are a family. Those of one tier apply together, and
 * each has a place among them; those of different tiers are variants of each
 * other: what is admitted under one tier is counted in the states of the
 * others, once in each. Two limits of one tier with the same shape differ by
 * their order.
 *
 *   tiers       place 0           place 1
 *   free        10 per second     500 per minute     500 per minute is counted
 *   pro         100 per second    9000 per hour      in 9000 per hour and back
 *
 * After a reload, a shape that the rule did not have before is fresh, and one
 * that it has no longer is retired: inherit.c carries the share that a client
 * had spent from the retired to the fresh.
 */
#ifndef RN_LIMITER_RULEBOOK_BOOK_H
#define RN_LIMITER_RULEBOOK_BOOK_H

#include "limiter/compiled.h"
#include "limiter/stats.h"
#include "rules/ruleset.h"

#define RN_RETIRED_MAX 8 /* shapes that a rule remembers */

/* One state that a key of the rule may have: a shape, the largest limit of it. */
struct rn_member {
    const struct rn_compiled *limit; /* or the mark of a limit in that place */
    uint32_t place;
    bool fresh;
};

struct rn_retired {
    struct rn_compiled limit; /* a copy */
    uint32_t place;
    int64_t until_ns; /* no key can have anything spent after that */
};

struct rn_family {
    const struct rn_member *members; /* one for each state: limits that count, and marks */
    uint32_t member_count;
    uint32_t places; /* the most limits that apply at once, */
    uint32_t paired; /* and how many of them have a predecessor in their place */
    uint32_t retired_count;
    const struct rn_retired *retired;
    const struct rn_compiled *claim; /* inherit.c: the thread that takes it carries over; or NULL */
    int64_t until_ns;                /* the latest of theirs; INT64_MIN: nothing to inherit */
};

struct rn_client_index; /* client_index.h */
struct rn_value_stats;  /* value_stats.h */
struct rn_effects;      /* effect/effect.h */
struct rn_usage_rule;   /* usage.h */

/* Immutable once published, but for the counters and the client index. */
struct rn_book {
    struct rn_ruleset *ruleset; /* owned */
    const struct rn_hash_key *secret;
    struct rn_arena arena;
    struct rn_compiled *limits; /* by rn_rule_limit.id */
    uint32_t *places; /* by rn_rule_limit.id: of adaptive limits, at the last decision; atomic */
    struct rn_factor **factors;     /* by rn_rule.index; NULL: the rule has no factors */
    struct rn_family *families;     /* by rn_rule.index, as are */
    struct rn_stats stats;          /* its rows, */
    struct rn_counts *carried;      /* and the counts of earlier books; under the shelf's lock */
    struct rn_effects *effects;     /* what the rules have done; NULL: nobody watches */
    struct rn_value_stats **values; /* by rn_rule.index; NULL: the rule counts no values */
    uint32_t value_count;           /* the length of that list */
    struct rn_usage_rule **usage;   /* by rn_rule.index; NULL: none is counted */
    struct rn_usage_rule **usage_by_salt; /* sorted */
    uint32_t usage_count;
    const struct rn_rule **by_name; /* sorted, as are */
    const struct rn_compiled **by_salt;
    struct rn_book *next;                 /* pin.c: a book that could not be freed */
    struct rn_client_index *client_index; /* overrides and bans; owned; NULL: there are none */
    uint64_t version;                     /* counts the loads of rules */
    bool handed_over; /* another book owns all but the client index: rn_book_renew */
};

static inline struct rn_client_index *rn_book_client_index(const struct rn_book *book)
{
    return __atomic_load_n(&book->client_index, __ATOMIC_ACQUIRE);
}

/* Takes the ruleset, unless it returns NULL: out of memory. The secret outlives the book. `old` is
 * the book that it will replace at `now_ns`, or NULL; it is only read, and not needed later. */
struct rn_book *rn_book_new(struct rn_ruleset *ruleset, const struct rn_hash_key *secret,
                            const struct rn_book *old, int64_t now_ns);
void rn_book_free(struct rn_book *book);

/* The same book with another client index. The caller swaps it in, which waits until no thread
 * reads the old index, sets `handed_over` of the old book and frees it. NULL: out of memory. */
struct rn_book *rn_book_renew(const struct rn_book *book, struct rn_client_index *index);

/* RN_CHARGE_* of the limits of a rule. */
unsigned rn_book_charge_flags(const struct rn_rule *rule);

/* Any limit of the rule: all have the same seed. NULL: every tier is unlimited. */
static inline const struct rn_compiled *rn_book_any_limit(const struct rn_book *book,
                                                          const struct rn_rule *rule)
{
    for (uint32_t i = 0; i < rule->tier_count; i++)
        if (rule->tiers[i].limit_count != 0)
            return &book->limits[rule->tiers[i].limits[0]->id];
    return NULL;
}

/* NULL: there is no such rule. */
const struct rn_rule *rn_book_find(const struct rn_book *book, struct rn_slice name);

/* The limit with this salt and capacity, perhaps at another factor than the one in force; else the
 * smallest with this salt at 100 percent. NULL: there is none. */
const struct rn_compiled *rn_book_find_limit(const struct rn_book *book, uint64_t salt,
                                             uint64_t cap);

/* Adds the counts of the rules of `old` to the rules of the same name. No thread may count in `old`
 * any more. */
void rn_book_carry(struct rn_book *book, const struct rn_book *old);

/* The counts of a rule in this book and its predecessors. */
void rn_book_totals(const struct rn_book *book, const struct rn_rule *rule,
                    struct rn_counts *counts);

/* family.c: finds members and variants of the rule, whose limits are compiled.
 * False: out of memory. */
bool rn_family_link(struct rn_book *book, const struct rn_rule *rule);
/* Finds the predecessors of its members. */
bool rn_family_succeed(struct rn_book *book, const struct rn_rule *rule,
                       const struct rn_family *old, int64_t now_ns);

/* Whether `retired` is the predecessor of `member`. */
static inline bool rn_family_pairs(const struct rn_family *family, const struct rn_member *member,
                                   const struct rn_retired *retired)
{
    uint32_t last = family->paired - 1;
    uint32_t a = member->place < last ? member->place : last;
    uint32_t b = retired->place < last ? retired->place : last;

    return a == b;
}

#endif
