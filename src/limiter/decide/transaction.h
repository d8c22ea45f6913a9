/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging several limits: all or none. The steps, in the order in which they happen:
 *
 *   INHERIT for rules that have just changed: see inherit.c.
 *   WATCH   peek at the marks of limits that have guards: see variants.c.
 *   LOOK    peek at all limits in one batch, and at guards that must be asked;
 *           one refuses: done, nothing was written. (Left out for a single limit
 *           that need not keep anything.)
 *   TAKE    charge the enforcing ones one by one, the narrowest first, or all at once
 *           in a shared store; one refuses after all, as another request was
 *           faster: UNDO gives back what was taken, refuse.
 *   AGAIN   with a place of a concurrency limit: LOOK again at limits that are charged
 *           by outcome. See below.
 *   GUARD   charge the guards that were asked; the same.
 *   SHADOW  charge the shadow limits, which never refuse.
 *   FOLLOW  count the charges in the states of the variants of each limit.
 *
 * Limits that are charged by outcome take part in LOOK only. When the outcome is known, DEBIT
 * charges each of them by itself, instead of the steps from LOOK to SHADOW. A concurrency limit of
 * N beside one of M failures promises at most M + N - 1 of them. Between LOOK and TAKE others may
 * fail and leave their places, so only a LOOK with the place taken counts: then M - 1 at most
 * have failed, and all others that were let in hold a place.
 *
 * While others stand in line for one of the limits, and for a request that may wait, line/gate.h
 * comes between: nothing is asked before the request's turn, and a refusal may become a place in
 * line.
 *
 * If the store fails in TAKE, GUARD or FOLLOW, UNDO follows, too, and the transaction ends with
 * that error.
 */
#ifndef RN_LIMITER_DECIDE_TRANSACTION_H
#define RN_LIMITER_DECIDE_TRANSACTION_H

#include <ration/ration.h>

#include "limiter/compiled.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"

/* What limits need besides being asked and charged. */
enum rn_transaction_needs {
    RN_NEEDS_INHERIT = 1,  /* INHERIT */
    RN_NEEDS_VARIANTS = 2, /* WATCH, GUARD, FOLLOW */
    RN_NEEDS_LOOK = 4,     /* LOOK may refuse what TAKE would admit */
    RN_NEEDS_SHADOW = 8,   /* SHADOW */
    RN_NEEDS_SOFT = 16,    /* verdicts leave out a part of the capacity */
    RN_NEEDS_OUTCOME = 32, /* AGAIN, if both */
    RN_NEEDS_PLACE = 64,
    RN_NEEDS_LOOK_AGAIN = RN_NEEDS_OUTCOME | RN_NEEDS_PLACE,
};

struct rn_transaction_item {
    const struct rn_compiled *limit;
    uint64_t key;
    uint64_t taken;       /* what UNDO would have to give back */
    uint64_t uncollected; /* DEBIT: units that even the debt cannot hold */
    struct rn_answer answer;
    bool shadow;
    bool ask_guards;     /* another variant was charged lately */
    uint64_t guard_left; /* units left of the guard that has the fewest */
    unsigned earned;     /* percent: at which its variants are asked; 100 without `earn` */

    /* What rules add; 0 for other limits. */
    bool by_outcome;       /* only looked at: charge_later.c charges it */
    bool refused_by_look;  /* a shadow limit that LOOK would have refused: not charged */
    bool refused_by_delay; /* it has room, but max_wait_ns is too short */
    uint64_t keep;         /* units that this request must leave to others */
    uint64_t soft;         /* units of the capacity that lie above the limit as written */
    uint64_t floor;        /* units that count as spent at least: see inherit.c */
    int64_t shift_ns;      /* windows end this much later */
    int64_t max_wait_ns;   /* a longer delay is a refusal; 0: none is too long */
    uint32_t line_size;    /* the most that stand in line for it; 0: the rule has no line */
    uint32_t rank;         /* in a line; 0 is first */
    int64_t line_wait_ns;  /* with a line: the longest that one stands there */
    int64_t held_ns;       /* not 0: refused for so long, without being asked */
    int64_t claim_ns;  /* not 0: others claim more than `keep` was, for so long (line/claims.h) */
    uint64_t own_keep; /* then: what it was */
    bool past_lines;   /* a look or a report, which stands in no line */
    uint64_t lease;    /* PLACES: the id of the lease to take */
    const struct rn_family *family; /* INHERIT: of the first limit of a rule */

    struct rn_compiled own; /* the limit, if it was given with the call */
};

/* Large (about 36 KB): part of a workspace. */
struct rn_transaction {
    struct ration *r;
    struct ration_charge *charges; /* borrowed until the end, with keys and limits */
    size_t n;
    int64_t now_ns;
    bool look_only; /* end after LOOK, whatever it finds */
    bool uncounted; /* leave the statistics to the caller */
    bool of_caller; /* charges of a caller, not of rules: a pause may stop them */
    bool late;      /* DEBIT: no limit is asked, all are charged in full */

    /* Waiting in line: see line/gate.h. */
    struct ration_waiter *waiter; /* NULL: a refusal is a refusal */
    int64_t max_wait_ns;          /* of the caller; 0: as the rules say */
    bool wait_is_bound;           /* max_wait_ns only shortens what the rules allow */
    bool past_lines;              /* nothing will be refused: lines do not matter */
    bool held;                    /* items have held_ns */

    /* The result. An error leaves the charges alone, but for c[i].error. RATION_EWAITS: nothing is
     * charged, and the waiter stands in line. */
    int error;
    struct ration_decision decision;
    bool in_line; /* refused because of a line, */
    bool unasked; /* without asking the limits: those that allow are as if nothing were spent */
    int64_t waited_ns; /* the time in line; 0: none, */
    int waited_at;     /* and the item of that line; -1: it does not apply any more */

    /* Private. */
    unsigned needs; /* RN_NEEDS_* of all limits */
    int64_t wall_offset_ns;
    size_t enforced;                   /* how many limits enforce, */
    uint8_t order[RATION_CHARGES_MAX]; /* and in which order they are taken */
    size_t guards_taken;               /* GUARD: how many have been charged */
    size_t batch_n;
    uint8_t item_of[RATION_CHARGES_MAX]; /* the item that a charge of the batch belongs to */
    struct rn_charge batch[RATION_CHARGES_MAX];
    struct rn_transaction_item items[RATION_CHARGES_MAX];
};

/* n <= RATION_CHARGES_MAX. What stands before the result in the struct may be set afterwards. */
void rn_transaction_init(struct rn_transaction *tx, struct ration *r, struct ration_charge *charges,
                         size_t n, int64_t now_ns);

/* What a caller says that it would wait. Below 0, as the rest of a deadline that has passed: as
 * good as nothing. */
static inline int64_t rn_transaction_patience_ns(int64_t max_wait_ns)
{
    return max_wait_ns < 0 ? 1 : max_wait_ns;
}

/* Appends a limit with its state key; the caller completes the item. The array of charges must have
 * room for it. */
struct rn_transaction_item *rn_transaction_add(struct rn_transaction *tx,
                                               const struct rn_compiled *limit, uint64_t key,
                                               uint64_t cost);

/* Returns `error`; if it is 0, `decision` is filled in. */
int rn_transaction_run(struct rn_transaction *tx);

/* For line/gate.c: all steps. False: refused and undone, or `error` is set. */
bool rn_transaction_charge(struct rn_transaction *tx);

/* For inherit.c and variants.c: adds a charge of `item` to the batch, */
void rn_transaction_ask(struct rn_transaction *tx, size_t item, const struct rn_compiled *l,
                        enum rn_op op, uint64_t cost);
/* and has the store answer the batch, which may be empty. */
static inline void rn_transaction_apply(struct rn_transaction *tx)
{
    if (tx->batch_n != 0)
        rn_store_apply(tx->r->store, tx->batch, tx->batch_n);
}
/* Sets the error of an item. Returns false, for a step to return. */
bool rn_transaction_fail(struct rn_transaction *tx, size_t item, int error);

/* The steps. False: the request is refused, or `error` is set. */
bool rn_transaction_inherit(struct rn_transaction *tx);
bool rn_transaction_watch(struct rn_transaction *tx);
/* The second half of LOOK: marks the items that a guard would refuse. False: only on an error. */
bool rn_transaction_look_at_guards(struct rn_transaction *tx);
bool rn_transaction_guard(struct rn_transaction *tx);
bool rn_transaction_follow(struct rn_transaction *tx);

/* --- verdict.c: from answers to a decision --------------------------------------------- */

/* Turns an admission at `cost` into a refusal if the rule demands it: the wait would be too long,
 * or the client will be charged for what it spent before a reload. */
bool rn_verdict_restrict(struct rn_transaction_item *item, uint64_t cost);

/* Whether `a` decides rather than `b`: among refusals the longer wait, among admissions the limit
 * with the smaller share left. */
static inline bool rn_verdict_outranks(const struct ration_verdict *a,
                                       const struct ration_verdict *b, bool allowed)
{
    return allowed ? (u128)a->remaining * b->limit < (u128)b->remaining * a->limit
                   : a->retry_after_ns > b->retry_after_ns;
}

/* The verdict that decides, among those of all limits that enforce. */
struct rn_verdict_choice {
    const struct ration_verdict *best; /* NULL: none */
    int at;                            /* its number, or -1 */
    int64_t delay_ns;                  /* the longest of all */
};
#define RN_VERDICT_NO_CHOICE ((struct rn_verdict_choice){NULL, -1, 0})

/* Limits that would admit do not decide a refusal. */
static inline void rn_verdict_consider(struct rn_verdict_choice *choice, int at,
                                       const struct ration_verdict *verdict, bool allowed)
{
    if (allowed && verdict->delay_ns > choice->delay_ns)
        choice->delay_ns = verdict->delay_ns;
    if (verdict->allowed != allowed ||
        (choice->best && !rn_verdict_outranks(verdict, choice->best, allowed)))
        return;
    choice->best = verdict;
    choice->at = at;
}

static inline void rn_verdict_choose(struct ration_decision *d,
                                     const struct rn_verdict_choice *choice, bool allowed)
{
    d->allowed = allowed;
    d->decided_by = choice->at;
    d->verdict = *choice->best;
    d->verdict.delay_ns = choice->delay_ns;
}

/* Makes the answer of a guard part of the answer of its limit. */
void rn_verdict_add_guard(struct rn_transaction_item *item, const struct rn_answer *guard);

/* Fills charges and decision. */
void rn_verdict_decide(struct rn_transaction *tx, bool allowed);
/* The same, and counts. With tx->error set, counts only the failure. */
void rn_verdict_finish(struct rn_transaction *tx, bool allowed);

#endif
