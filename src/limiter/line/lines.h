/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All lines of a process: which requests wait for which state, and whose turn it is. Knows no rules
 * and asks no store.
 *
 * A line belongs to the state key of one limit and client (rn_charge.key). A waiter stands in one
 * line at a time. Order: rank (0 first), then the arrival number that it got when it first waited
 * and keeps when it moves. What it claims of other limits meanwhile: claims.h.
 *
 * The head of a line has its turn when the line opens: when its last refusal said that it would
 * fit, or at a poke. Its own thread decides (ration_waiting_run, turn, the decision,
 * rn_lines_finish or rn_lines_join again). Then the next has its turn.
 *
 *   IDLE --join--> STANDS --turn--> TURN --finish--> IDLE
 *                  STANDS <--join-- TURN               (refused again, by this limit or another)
 *                  STANDS --called--> CALLED --turn--> TURN  (its thread must begin it)
 *                  STANDS --time over, displaced--> OVER --finish--> IDLE
 *                  any --leave--> IDLE
 *
 * join, finish and leave of a waiter belong to the thread of its ration_waiting; all else may be
 * called by any thread. A line's lock is never held while `turn` or `wake` is called, and never two
 * of them.
 */
#ifndef RN_LIMITER_LINE_LINES_H
#define RN_LIMITER_LINE_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include <ration/ration.h>
#include <ration/wait.h>

#include "core/limit.h"

/* Lines that stand share the counters of a filter, so that requests for other keys take no lock. */
#define RN_LINES_FILTER 32768

struct rn_lines;
struct rn_lines_gate { /* the first member of struct rn_lines */
    uint64_t lines;    /* that stand; atomically */
    uint16_t filter[RN_LINES_FILTER];
};

/* How a request asks a store that nodes share: by one trip, or by a look at all limits and then
 * another trip, or by others besides. LOCAL: the limit is decided in this process. */
enum rn_line_steps { RN_STEPS_LOCAL, RN_STEPS_TAKE, RN_STEPS_LOOK, RN_STEPS_MORE };

/* Which limit refused, and what is known of it. */
struct rn_line_refusal {
    uint64_t key;                  /* of its state */
    const struct rn_limit *limit;  /* in force; what the line needs of it is copied */
    uint64_t units;                /* cost of the request, */
    uint64_t keep;                 /* and what it must leave: the store had no room for both */
    struct ration_verdict verdict; /* of the store; kept in the waiter */
    uint32_t rank;
    uint32_t size; /* the most that may stand in this line */
    bool by_line;  /* no store was asked, for others stand there: retry_after is a guess */
    bool inexact;  /* something else than this limit by itself says retry_after: a pause, a guard,
                      a claim of others, */
    bool claimed;  /* which may end sooner (claims.h) */
    enum rn_line_steps steps; /* not LOCAL: those that fit have their turn together, and one more,
                                 so that one call of the store serves them */
    bool polls; /* places: others free them unseen, so that the head asks every 50 ms at first,
                   and every 500 ms after 4 s */
};

/* FULL, LATE: it does not wait (any more), and must be refused for good. */
enum rn_line_answer { RN_LINE_JOINED, RN_LINE_FULL, RN_LINE_LATE };

/* NULL: no memory. */
struct rn_lines *rn_lines_new(void);
/* Nobody may wait any more. */
void rn_lines_free(struct rn_lines *lines);

/* Whether any line stands anywhere. */
static inline bool rn_lines_any(const struct rn_lines *lines)
{
    return __atomic_load_n(&((const struct rn_lines_gate *)(const void *)lines)->lines,
                           __ATOMIC_RELAXED) != 0;
}

/* Whether one stands for this key. */
bool rn_lines_stands(struct rn_lines *lines, uint64_t key);

/* The same without a lock: false for most keys without a line. */
static inline bool rn_lines_may_stand(const struct rn_lines *lines, uint64_t key)
{
    const struct rn_lines_gate *gate = (const void *)lines;

    return __atomic_load_n(&gate->filter[key % RN_LINES_FILTER], __ATOMIC_RELAXED) != 0;
}

/* Whether a waiter stands there that goes before this request. `waiter` is that of the request:
 * NULL or idle, it comes after all of its rank. One that stands in this very line is not held up by
 * those before it that have their turn, too. The exception: no fiber was free, so that it begins
 * later than they did, and it would ask a shared store by another call. *wait_ns, if so: how long
 * until its turn may come. */
bool rn_lines_is_ahead(struct rn_lines *lines, uint64_t key, uint64_t units, uint32_t rank,
                       const struct ration_waiter *waiter, int64_t now_ns, int64_t *wait_ns);
/* Whether somebody stands before this waiter in its line, who has been refused since they had their
 * turn together. */
bool rn_lines_is_behind(struct rn_lines *lines, const struct ration_waiter *waiter);

/* Stands in line (again). until_ns: its time is over then. LATE: the least wait exceeds that.
 * FULL: the line or the process has no room; a higher rank displaces the last of a full line.
 * One that is not let in although it has waited before is over: call rn_lines_finish. */
enum rn_line_answer rn_lines_join(struct rn_lines *lines, struct ration_waiter *waiter,
                                  const struct rn_line_refusal *refusal, int64_t until_ns,
                                  int64_t now_ns);

/* The decision is made for good: admitted, refused or an error. `verdict` is that of the limit of
 * its line after an admission, and tells when the next fits; NULL: not known. Nothing if it does
 * not wait. Afterwards the waiter is idle and may be freed. */
void rn_lines_finish(struct rn_lines *lines, struct ration_waiter *waiter, bool admitted,
                     const struct ration_verdict *verdict, int64_t now_ns);

/* Units came back, or the limit changed: the head has its turn now. */
void rn_lines_poke(struct rn_lines *lines, uint64_t key, int64_t now_ns);
void rn_lines_poke_all(struct rn_lines *lines, int64_t now_ns);

/* The waiter, which waits, belongs to the thread of `to` from now on. In the thread that it has
 * belonged to, which must not touch it any more. */
void rn_lines_entrust(struct ration_waiter *waiter, struct ration_waiting *to);

/* What is known of a waiter, in its own thread. */
bool rn_lines_waits(const struct ration_waiter *waiter);
bool rn_lines_is_over(const struct ration_waiter *waiter);   /* refuse it for good */
bool rn_lines_is_shared(const struct ration_waiter *waiter); /* it will ask a store of nodes */
uint64_t rn_lines_key(const struct ration_waiter *waiter);
int64_t rn_lines_arrived_ns(const struct ration_waiter *waiter); /* when it first waited */

/* The line of a key, for a newcomer of that rank; all 0 if none stands. */
void rn_lines_look(struct rn_lines *lines, uint64_t key, uint64_t units, uint32_t rank,
                   int64_t now_ns, struct ration_line *out);

#endif
