/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rules in force have done, for `ration report`: for each rule about how many clients it
 * has counted, refused and brought near their limit, the most that any client has used, and
 * requests of the rule that another rule refused. Kept over a reload for rules that keep their
 * name.
 *
 * Only a process that watches (rn_effect_watch) pays: on the fast path one byte that is read, and a
 * compare, for each limit. Everything is bounded by the rules file, except that texts of clients
 * are: a few of each rule.
 */
#ifndef RN_LIMITER_EFFECT_EFFECT_H
#define RN_LIMITER_EFFECT_EFFECT_H

#include <stddef.h>

#include "limiter/effect/sketch.h"
#include "limiter/rulebook/book.h"

#define RN_EFFECT_NAMES 4 /* clients near their limit that a rule remembers */
#define RN_EFFECT_NAME 47 /* bytes; longer names are cut */

struct rn_gathered;
struct rn_match;

struct rn_effect_name {
    uint8_t len; /* 0: none */
    char text[RN_EFFECT_NAME];
};

/* 2 KB of each rule. A rule that no request has met touches none of it. */
struct rn_effect {
    struct rn_sketch clients; /* of requests that it decided about */
    struct rn_sketch refused; /* by it, or but for shadow mode */
    struct rn_sketch near;    /* with less than a fifth of a limit left */
    uint64_t spared;          /* its requests that it admitted and another rule refused, */
    uint32_t refuser;         /* and the last of those rules: its index + 1 */
    uint32_t name_count;      /* names that were ever written; the last few are kept */
    struct rn_effect_name names[RN_EFFECT_NAMES];
};

/* Of a book. NULL in a book: nobody watches. */
struct rn_effects {
    struct rn_effect *rules; /* by rn_rule.index */
    uint64_t *most_used;     /* by rn_rule_limit.id: units that a client has used at once; atomic */
};

/* From now on the books of this limiter have effects. Call it before any rules are loaded. */
void rn_effect_watch(struct ration *r);

/* Of a new book. NULL: out of memory. */
struct rn_effects *rn_effect_new(const struct rn_ruleset *ruleset);
void rn_effect_free(struct rn_effects *effects);
/* Adds the effects of the rules of `old` to the rules of the same name, and of limits if there are
 * as many as before. No thread may count in `old` any more. */
void rn_effect_carry(struct rn_book *book, const struct rn_book *old);

/* A limit of a rule stands at `remaining` of `limit` for a client. */
static inline void rn_effect_use(struct rn_effects *e, uint32_t limit_id, uint64_t limit,
                                 uint64_t remaining)
{
    uint64_t *most = &e->most_used[limit_id], used = limit - remaining;

    if (rn_unlikely(used > __atomic_load_n(most, __ATOMIC_RELAXED)))
        __atomic_store_n(most, used <= limit ? used : limit, __ATOMIC_RELAXED);
}

/* A rule admitted a request of the client with this hash. */
static inline void rn_effect_admit(struct rn_effects *e, const struct rn_rule *rule, uint64_t hash)
{
    rn_sketch_add(&e->rules[rule->index].clients, hash);
}

/* It did, and little is left of one of its limits. `parts` are those of the key. */
void rn_effect_near(struct rn_effects *e, const struct rn_rule *rule, uint64_t hash,
                    const struct rn_slice *parts);
/* It refused, or would have but for shadow mode. */
void rn_effect_refuse(struct rn_effects *e, const struct rn_rule *rule, uint64_t hash);
/* It had room, and `refuser` refused. */
void rn_effect_spare(struct rn_effects *e, const struct rn_rule *rule,
                     const struct rn_rule *refuser);

/* What is known of a rule. The texts are valid during the call. */
struct rn_effect_info {
    const struct rn_rule *rule;
    const struct rn_book *book;
    struct rn_counts counts;
    uint64_t clients, refused, near; /* clients, about */
    uint64_t spared;
    const struct rn_rule *refuser; /* the last that refused requests of the rule, or NULL */
    bool always_beside;            /* and it applies wherever the rule does */
    const uint64_t *most_used;     /* by rn_rule_limit.id */
    struct rn_effect_name names[RN_EFFECT_NAMES];
};

/* Calls `see` for each rule in force; a reload waits meanwhile. */
void rn_effect_each(struct ration *r, void (*see)(void *arg, const struct rn_effect_info *info),
                    void *arg);

#endif
