/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request under rules: the limits that apply are gathered and charged together
 * (transaction.h); then the outcome is filled and counted.
 */
#ifndef RN_LIMITER_DECIDE_GATHER_H
#define RN_LIMITER_DECIDE_GATHER_H

#include <ration/rules.h>

#include "limiter/decide/transaction.h"
#include "limiter/limiter.h"
#include "rules/envoy/envoy.h"
#include "rules/match/match.h"

/* A rule that applies, and how. The slices are borrowed until the end. */
struct rn_applied {
    const struct rn_rule *rule;
    struct rn_rule_limit *const *limits; /* of its tier; none: unlimited */
    uint32_t limit_count;
    const struct rn_compiled *instead; /* its one limit, compiled, if it is not the rule's own:
                                         of an override, or given with the call; NULL: none */
    const struct rn_slice *key;
    const struct rn_slice *key_names; /* NULL, or data NULL: the name is not part of the key */
    uint32_t key_count;
    struct rn_slice usage_name; /* the key as rows of usage have it; data NULL: not made yet */
    uint64_t cost;
    uint64_t hash; /* of the key, once it has been gathered; 0 if nothing needs it */
    uint8_t keep_percent;
    bool shadow;
    bool refund; /* only gives back: does not count as a decision */
    bool late;   /* reports what was used: no ban stops it, and a refusal is no offence */
};

static inline struct rn_applied rn_applied_of(const struct rn_match *match)
{
    return (struct rn_applied){.rule = match->rule,
                               .limits = match->tier->limits,
                               .limit_count = match->tier->limit_count,
                               .key = match->key,
                               .key_names = match->key_names,
                               .key_count = match->rule->key_count,
                               .cost = match->cost,
                               .keep_percent = match->keep_percent,
                               .shadow = match->rule->shadow};
}

/* The same for a limit in Envoy's tree. The limit has a rule. */
static inline struct rn_applied rn_applied_of_envoy(const struct rn_envoy_limit *limit,
                                                    const struct rn_slice *parts,
                                                    uint32_t part_count, uint64_t cost)
{
    return (struct rn_applied){.rule = limit->rule,
                               .limits = limit->limit ? limit->rule->tiers[0].limits : NULL,
                               .limit_count = limit->limit != NULL,
                               .key = parts,
                               .key_count = part_count,
                               .cost = cost,
                               .shadow = limit->shadow_mode || limit->rule->shadow};
}

/* Large (about 50 KB): part of a workspace (workspace.h). */
struct rn_gathered {
    struct ration *r;
    const struct rn_book *book;
    bool all_shadow;     /* the whole service is in shadow mode, or this request */
    bool drain;          /* charge what is left if the cost does not fit */
    bool no_server;      /* the server does not answer: rn_fallback_decide */
    bool past_bans;      /* bans by rules and lines do not count, so that limits are looked at:
                            explain */
    int64_t lease_ns;    /* of places; 0: the limits' own */
    int64_t max_wait_ns; /* of the caller; 0: as the rules say */
    uint32_t rule_count;
    uint32_t usage_count; /* rules whose usage is counted: each has a receipt of its own */
    uint32_t room;        /* charges and receipts that may be added without a second look */
    struct rn_applied rules[RN_MATCHES_MAX + 1]; /* room for one too many */
    uint8_t results[RN_MATCHES_MAX];             /* RN_RESULT_*, after the transaction */

    struct rn_reputation_ban ban; /* by one of the rules; the longest */
    uint32_t banned_by;           /* this rule, */
    uint64_t banned_hash;         /* for this client */

    int64_t pause_ns; /* of the client of one of the rules; the longest; 0: none */
    uint32_t paused_by;
    uint64_t paused_hash;

    /* By charge. */
    uint8_t rule_of[RATION_CHARGES_MAX];
    const struct rn_rule_limit *limits[RATION_CHARGES_MAX];
    struct ration_charge charges[RATION_CHARGES_MAX];

    int error;      /* too many limits */
    uint64_t lease; /* 0: no concurrency limit applies */
    uint32_t lease_count;
    struct rn_transaction tx;
};

/* Whether the whole service is in shadow mode. */
static inline bool rn_gather_is_shadow(const struct ration *r, const struct rn_book *book)
{
    return book->ruleset->shadow | __atomic_load_n(&r->shadow, __ATOMIC_RELAXED);
}

/* `now_ns` may be RATION_NOW. The terms (lease_ns, max_wait_ns) are set
 * afterwards, before anything is added. */
void rn_gather_init(struct rn_gathered *g, struct ration *r, const struct rn_book *book,
                    int64_t now_ns);
/* The caller fills in the next rule, then adds it. rn_gather_run reports too many limits. */
static inline struct rn_applied *rn_gather_next(struct rn_gathered *g)
{
    return &g->rules[g->rule_count];
}
void rn_gather_add(struct rn_gathered *g);
/* Charges (or only looks), fills `out`, counts. An error leaves `out` alone. */
int rn_gather_run(struct rn_gathered *g, bool look_only, struct ration_outcome *out);

/* RN_MATCH_ALLOWED or RN_MATCH_DENIED: a list admits or refuses; counted unless `look_only`. */
void rn_gather_by_list(struct rn_gathered *g, enum rn_match_outcome list, bool look_only,
                       struct ration_outcome *out);

/* The same for a client that is banned for `left_ns` more. */
void rn_gather_by_ban(struct rn_gathered *g, struct rn_slice reason, int64_t left_ns,
                      bool look_only, struct ration_outcome *out);

/* The same for a rule that admits no request for the moment. */
void rn_gather_by_rule(struct rn_gathered *g, const struct rn_rule *rule, bool look_only,
                       struct ration_outcome *out);

/* An admission because there are no rules. */
void rn_gather_without_rules(struct rn_stripe *s, bool look_only, struct ration_outcome *out);

/* outcome.c: as if there were no limit. Leaves list items beyond their counts unset. */
void rn_outcome_init(struct ration_outcome *out, enum ration_outcome_kind kind);
/* Sets name, message, status and headers of the rule. */
void rn_outcome_name(struct ration_outcome *out, const struct rn_rule *rule);
/* A refusal by a ban of the rule. */
void rn_outcome_banned(struct ration_outcome *out, const struct rn_rule *rule,
                       const struct rn_reputation_ban *ban);
/* A refusal by a pause of a client of the rule, for rest_ns more. */
void rn_outcome_paused(struct ration_outcome *out, const struct rn_rule *rule, int64_t rest_ns);
/* Fills the outcome from a transaction that ended without an error. */
void rn_outcome_fill(struct ration_outcome *out, struct rn_gathered *g);
/* Fills it from limits that were charged on the fast path, or refused there. */
struct rn_fast_path;
void rn_outcome_charged(struct ration_outcome *out, const struct rn_fast_path *f);

/* Less than a fifth of the limit is left. */
static inline bool rn_gather_is_near(const struct ration_verdict *verdict)
{
    return verdict->remaining < (verdict->limit + 4) / 5;
}

/* The part of the state keys of a client that all limits of the rule have in
 * common: `l` is any of them. */
uint64_t rn_gather_hash(const struct rn_applied *applied, const struct rn_compiled *l);

/* Writes the parts of a key as one text, for the keys refused most. Returns its length. */
size_t rn_gather_join_key(const struct rn_applied *applied, char *out, size_t size);

/* Remembers a refusal of the key with this hash, for the keys refused most. */
void rn_gather_note_refusal(struct ration *r, struct rn_stripe *s, const struct rn_applied *applied,
                            uint64_t hash, int64_t now_ns);

/* request.c: counts a request of the client with this hash that the rule refused without asking its
 * limits: by a ban or a pause. */
void rn_gather_count_unasked(struct ration *r, const struct rn_book *book,
                             const struct rn_applied *applied, uint64_t hash, int64_t now_ns);

/* How much later the windows of that client end: the clients of a rule are spread
 * evenly over its `spread`. */
static inline int64_t rn_gather_shift_ns(const struct rn_rule *rule, uint64_t hash)
{
    return (int64_t)((u128)hash * (uint64_t)rule->spread_ns >> 64);
}

/* request.c: what a decision depends on besides the request. */
struct rn_terms {
    bool look_only;
    bool no_server;        /* rn_fallback_decide */
    int64_t lease_ns;      /* 0: the limits' own */
    bool reserving;        /* the next two must be filled in */
    unsigned charge_flags; /* out: RN_CHARGE_* of all limits that apply, */
    uint64_t reserved;     /* and the largest cost; */
    bool decided;          /* and whether `out` is filled */
};
int rn_gather_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                     struct rn_terms *terms, struct ration_outcome *out);

#endif
