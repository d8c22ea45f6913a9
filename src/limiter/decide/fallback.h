/* SPDX-License-Identifier: Apache-2.0 */
/*
 * on_store_failure: how to decide if another process counts the limits of a rule and does not
 * answer. There are two such cases.
 *
 * A shared store: struct rn_fallback is the store of a limiter whose limits many nodes share. It
 * asks the shared store, and decides itself if that does not answer:
 *
 *   local   (no flag)     this node's share of the limit, counted in its own table
 *   allow   (ELSE_ALLOW)  admitted, uncounted
 *   refuse  (ELSE_REFUSE) refused, to be tried again in a second
 *
 * Such a decision cannot be given back: the shared store never had it. The charge may
 * arrive there late, though: if the request is refused, the shared store must give it back.
 * Other changes of a state (give back, renew, release, reset) fail with RATION_ESTORE.
 *
 * A server that decides for many nodes (nginx asks one): rn_fallback_decide is ration_decide in its
 * place. `local` counts the rule here, in full; `allow` skips the rule; `refuse` refuses every
 * request that the rule applies to, to be tried again in a second, and charges nothing. Lists and
 * bans apply as usual; a rule in shadow mode refuses nothing.
 */
#ifndef RN_LIMITER_DECIDE_FALLBACK_H
#define RN_LIMITER_DECIDE_FALLBACK_H

#include <ration/rules.h>

#include <stdatomic.h>

#include "base/siphash.h"
#include "limiter/decide/own_store.h"
#include "limiter/rulebook/reload.h"
#include "rules/match/match.h"
#include "store/table.h"

/* Decided without the shared store, which did not answer. */
struct rn_fallback_counts {
    _Atomic uint64_t local, allowed, refused;
    _Atomic uint64_t lost; /* changes that could not be made */
};

struct rn_fallback {
    struct rn_store store; /* first */
    struct rn_table *table;
    struct rn_hash_key secret;      /* the table's, for the keys that every node knows */
    struct rn_own_store own;        /* the embedder's; no ops: the shared store of each thread */
    rn_limit_fault_fn *store_fault; /* why the shared store cannot hold a limit */
    _Atomic unsigned nodes;         /* that share a limit; 0 means 1 */
    struct rn_fallback_counts counts;
};

void rn_fallback_init(struct rn_fallback *fallback, struct rn_table *table,
                      rn_limit_fault_fn *store_fault);

/* Marks of what was decided here: no store answers with them. From RN_FALLBACK_MARK on it is
 * rn_charge.late of the charge. */
#define RN_FALLBACK_MARK INT64_MIN
static inline bool rn_fallback_has_decided(int64_t mark)
{
    return mark <= RN_FALLBACK_MARK + (int64_t)RN_CHARGE_LATE_MAX;
}

/* The shared store for this thread, from now on; NULL: there is none. */
void rn_fallback_use(struct rn_store *shared);

/* RN_CHARGE_ELSE_* of the limits of a rule. */
unsigned rn_fallback_flags(const struct rn_rule *rule);

/* ration_decide, without the server. */
int rn_fallback_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                       struct ration_outcome *out);
/* For request.c: whether the rule takes part in that, */
bool rn_fallback_is_local(const struct rn_rule *rule);
/* and the first rule that refuses; NULL: none. */
const struct rn_rule *rn_fallback_refuser(const struct rn_matches *matches);

#endif
