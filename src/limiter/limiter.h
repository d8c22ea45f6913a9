/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limiter itself: the table, the compiled limits and the statistics; and the steps that all
 * operations on a charge share.
 */
#ifndef RN_LIMITER_LIMITER_H
#define RN_LIMITER_LIMITER_H

#include <ration/rules.h>

#include "base/hints.h"
#include "limiter/calendars.h"
#include "limiter/clients/clients.h"
#include "limiter/compiled.h"
#include "limiter/decide/fallback.h"
#include "limiter/line/lines.h"
#include "limiter/line/wait.h"
#include "limiter/pause/pause.h"
#include "limiter/reputation/reputation.h"
#include "limiter/rulebook/pin.h"
#include "limiter/signals/signals.h"
#include "limiter/stats.h"
#include "limiter/tickets/ticket_keys.h"
#include "limiter/top.h"
#include "limiter/usage/usage.h"
#include "store/table.h"

struct rn_uncovered; /* effect/uncovered.h */

struct ration {
    struct rn_table *table;
    struct rn_store *store;       /* the table's, or `fallback` */
    struct rn_fallback *fallback; /* NULL: limits are this process's own, or of its table */
    struct rn_compiled *limits;
    size_t limit_count;
    struct rn_stats stats;
    struct rn_shelf shelf;       /* the rules */
    struct rn_ruleset_host host; /* what rules may name and must fit */
    const struct ration_own_algorithm *own_algorithms[RATION_OWN_ALGORITHMS_MAX];
    struct rn_teams *teams;         /* their files when they were last good; under shelf.lock */
    pthread_mutex_t load_lock;      /* files are loaded one at a time */
    struct rn_clients clients;      /* overrides and bans */
    struct rn_calendars *calendars; /* for limits that are not from rules files */
    struct rn_top *top;
    struct rn_lines *lines;          /* requests that wait */
    struct rn_wait_seats seats;      /* of threads that wait */
    struct rn_signals signals;       /* what evaluates them here */
    struct rn_reputation reputation; /* records of clients */
    struct rn_usage usage;
    struct rn_pauses pauses;
    struct rn_hash_key secret;           /* the table's, or that of all nodes */
    struct rn_hash_key reservation_seed; /* hashes the ids of reservations */
    struct rn_hash_key ticket_key;       /* this table's own, the first of these: */
    struct rn_ticket_keys ticket_keys;
    struct rn_hash_key id_seed;     /* makes ids: random, of this process */
    struct rn_arena variants;       /* how the limits are linked */
    uint64_t capacity;              /* live keys that fit, whatever their limits; atomically */
    bool shadow;                    /* ration_shadow_set: the whole service; atomically */
    bool lines_in_rules;            /* a rule in force has a line; atomically */
    bool watches_effects;           /* rn_effect_watch; then, or if memory ran out NULL: */
    struct rn_uncovered *uncovered; /* requests that no rule covers */
};

/* From now on nodes share the limits, through the store that each thread gives to rn_fallback_use,
 * and keys are hashed under a secret that all nodes have. The secret may be public: nothing that
 * must not be guessed derives from it alone. `store_fault` says which limits
 * such a store cannot hold.
 * Call it after opening, before any rules. 0 or RATION_ENOMEM. */
int rn_limiter_share(struct ration *r, const struct rn_hash_key *secret,
                     rn_limit_fault_fn *store_fault);

/* Accepts tickets that other nodes have signed with this key; with `signs`, signs with it, too.
 * Call it after rn_limiter_share, always in the same thread. */
void rn_limiter_add_ticket_key(struct ration *r, const struct rn_hash_key *key, bool signs);

/* Compiles a limit that came with a call; false: it is faulty, or its time zone is not known. */
static inline bool rn_limiter_compile(const struct ration *r, const struct ration_limit *spec,
                                      struct rn_compiled *own)
{
    return rn_compiled_init_ad_hoc(own, &r->secret, spec) &&
           (rn_likely(own->limit.calendar_id == 0) ||
            rn_calendars_attach(r->calendars, spec, &own->limit, NULL) == 0);
}

/* Why a limit cannot be given with a call: 0, or RATION_EINVAL, RATION_EFULL or RATION_ENOMEM
 * and a text. */
int rn_limiter_judge(const struct ration *r, const struct ration_limit *spec,
                     struct ration_error *error);

/* The limit that a charge names; `own` is filled if it came with the call.
 * NULL: there is no such limit, or it is faulty. */
static inline const struct rn_compiled *
rn_limiter_find(const struct ration *r, const struct ration_charge *c, struct rn_compiled *own)
{
    if (rn_unlikely(c->ad_hoc != NULL))
        return rn_limiter_compile(r, c->ad_hoc, own) ? own : NULL;
    return rn_likely(c->limit < r->limit_count) ? &r->limits[c->limit] : NULL;
}

/* Whether a request may have to wait in line under the rules in force. */
static inline bool rn_limiter_rules_have_lines(const struct ration *r)
{
    return __atomic_load_n(&r->lines_in_rules, __ATOMIC_RELAXED);
}

static inline int64_t rn_limiter_now(const struct ration *r, int64_t now_ns)
{
    return now_ns == RATION_NOW ? rn_table_now(r->table) : now_ns;
}

/* rn_reputation_rule of the rule of a limit. */
static inline uint64_t rn_reputation_rule_of(const struct ration *r, const struct rn_compiled *l)
{
    return l->seed.k0 ^ r->secret.k0;
}

/* Whether the table alone decides. */
static inline bool rn_limiter_is_local(const struct ration *r)
{
    return r->store == rn_table_store(r->table);
}

/* Whether nodes share a store that has a clock, and a log of resets, of its own. */
static inline bool rn_limiter_is_remote(const struct ration *r)
{
    return r->fallback && !r->fallback->own.store.ops;
}

/* One operation on one key. The caller has set charge->ask but for the wall offset, and flags
 * besides the limit's. Returns charge->error. */
int rn_limiter_apply(struct ration *r, const struct rn_compiled *l, uint64_t key,
                     struct rn_charge *charge);
/* The same where windows end `shift_ns` later. */
int rn_limiter_apply_shifted(struct ration *r, const struct rn_compiled *l, uint64_t key,
                             int64_t shift_ns, struct rn_charge *charge);

/* A charge that is undone, in whole or in part. */
struct rn_refund {
    uint64_t key;
    uint64_t cost;  /* units of the limit, */
    uint64_t units; /* and those that were charged for them */
    uint64_t id;    /* of a lease; 0: none */
    int64_t at_ns, mark, shift_ns;
};

/* Gives back to a limit and its guards, as far as is safe. The error is the limit's. */
int rn_limiter_give_back(struct ration *r, const struct rn_compiled *l,
                         const struct rn_refund *refund, int64_t now_ns);

/* An id that cannot be guessed and that no other thread or process makes. Not 0. */
uint64_t rn_limiter_new_id(struct ration *r);

/* RN_RENEW for lease_ns, or RN_RELEASE, of places that are held. The limit itself is not needed: it
 * may have changed or be gone. RATION_EGONE: the places are not held. */
int rn_limiter_lease_change(struct ration *r, enum rn_op op, uint64_t lease,
                            const struct ration_place *place, int64_t lease_ns, int64_t now_ns);

/* Counts a decision by one limit. */
static inline void rn_limiter_count(struct rn_stripe *s, const struct rn_compiled *l,
                                    unsigned result)
{
    rn_stats_count(s, rn_stats_row(s, l->index), result, 0);
    rn_stats_count_total(s, result);
}

/* The same for a charge that was refused; remembers its key. */
void rn_limiter_count_refusal(struct ration *r, struct rn_stripe *s, const struct rn_compiled *l,
                              const struct ration_charge *c);

static inline void rn_verdict_set(struct ration_verdict *verdict, const struct rn_compiled *l,
                                  const struct rn_answer *answer)
{
    verdict->allowed = answer->allowed;
    verdict->limit = l->limit.cap;
    verdict->remaining = answer->remaining;
    verdict->retry_after_ns = answer->retry_after_ns;
    verdict->reset_after_ns = answer->reset_after_ns;
    verdict->delay_ns = answer->delay_ns;
}

/* For limits of places, after rn_verdict_set: the number in force, if it is learnt. */
static inline void rn_verdict_set_places(struct ration_verdict *verdict,
                                         const struct rn_compiled *l,
                                         const struct rn_answer *answer)
{
    if (l->limit.form == RN_FORM_ADAPTIVE)
        verdict->limit = answer->places;
}

/* 0 for a limit whose number of places is not learnt. */
static inline uint32_t rn_limiter_adaptive_min(const struct rn_limit *limit)
{
    return limit->form == RN_FORM_ADAPTIVE ? (uint32_t)limit->least : 0;
}

/* Fills the charge from the answer to an RN_TAKE, which has no error. */
static inline void rn_limiter_fill(struct ration_charge *c, const struct rn_compiled *l,
                                   const struct rn_charge *done)
{
    c->hash = done->key;
    c->at_ns = done->ask.now_ns;
    c->paused = false;
    c->mark = done->answer.mark;
    c->taken = done->answer.allowed ? done->ask.cost : 0;
    rn_verdict_set(&c->verdict, l, &done->answer);
}

/* The same, of RN_DRAIN, too; and counts it as one decision. Returns its error. */
static inline __attribute__((always_inline)) int
rn_limiter_settle(struct ration *r, struct rn_stripe *s, const struct rn_compiled *l,
                  struct ration_charge *c, const struct rn_charge *done)
{
    c->error = done->error;
    if (rn_unlikely(done->error != 0)) {
        rn_limiter_count(s, l, RN_RESULT_FAILED);
        return done->error;
    }
    rn_limiter_fill(c, l, done);
    if (rn_likely(done->answer.allowed)) {
        rn_stats_admit(s, rn_stats_row(s, l->index), 0);
        return 0;
    }
    if (done->ask.op == RN_DRAIN)
        c->taken = done->answer.drained;
    rn_limiter_count_refusal(r, s, l, c);
    return 0;
}

#endif
