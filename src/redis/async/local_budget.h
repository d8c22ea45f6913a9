/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's budget of one key: what it knows of the state in Redis, and the units it has admitted
 * and not reported yet. It decides from both, without a call. Pure: time is an argument.
 *
 * The bound. Let n workers hold at most c unreported units each. In any time t they admit at most
 * b + r t + n c, where b + r t is what the limit admits (for windows: its amount in each), and c
 * more for each worker that is killed.
 *
 * Proof. Let L be what is left in Redis, v_i what worker i sees as left, u_i what it has
 * not reported; it admits only while u_i <= c and u_i <= v_i. Let L(x) and v_i(x) be the
 * same when x more time has passed and nothing was charged; both grow. Then
 *
 *   P(x) = L(x) + sum_i (c - min(c, max(v_i(x), 0))) >= 0   for every x >= 0
 *
 * stays true. Time only shifts x. If i reports a units, L(x) falls by a at most, and i
 * sees what is left then: if that is below 0, its term becomes c and was at most c - a,
 * as a <= c and a <= v_i <= v_i(x); if it is not, no term of the sum is. Strict takes
 * leave L >= 0. What i admits while its report is under way counts as unreported with it.
 * So L - sum u_i >= P(0) - n c >= -n c, and all that was ever admitted is charged in L or
 * in some u_i, or was lost with a worker, c at most.
 *
 * Nothing known. A view in which nothing is spent has the term 0, so a worker may start with it
 * whenever its own term is 0 already: after its start, once any view it may have had before the
 * restart would have c units left (rn_local_budget_settle_ns); and after an eviction, which needs c
 * units left. So first requests need not wait for Redis, and no restart and no eviction admits
 * more. Until then, and whenever the state is in doubt, decisions are strict.
 *
 * Clocks. Views age by this node's monotonic clock from the arrival of a reply. If Redis's clock is
 * set back, states age less than in the proof, never more; if it is set forward, every state gains
 * what strict limits gain as well, and no more.
 */
#ifndef RN_REDIS_LOCAL_BUDGET_H
#define RN_REDIS_LOCAL_BUDGET_H

#include "redis/async/view.h"
#include "store/store.h"

enum rn_local_budget_stage {
    RN_LOCAL_BUDGET_FRESH,   /* no reply yet: as if nothing were spent */
    RN_LOCAL_BUDGET_UNKNOWN, /* strict, until a report is answered */
    RN_LOCAL_BUDGET_KNOWN,
};

struct rn_local_budget {
    enum rn_local_budget_stage stage;
    bool reporting;     /* a report is in flight, */
    bool outdated;      /* and its reply must be ignored */
    uint64_t unsent;    /* admitted, in no report yet */
    uint64_t sent;      /* in the report in flight */
    int64_t taken_ns;   /* the latest take so far, by the charges' clock */
    int64_t sent_up_to; /* takes up to then may be in a report */
    struct rn_view view;
};

/* c: the units a worker may hold, `permille` of the limit divided among all holders; 1 at least. */
uint64_t rn_local_budget_most(const struct rn_limit *limit, unsigned permille, unsigned holders);

/* How long after its start any view a worker may have had before would have c units left. */
int64_t rn_local_budget_settle_ns(const struct rn_limit *limit, uint64_t most, unsigned holders);

/* Starts the budget for the key and limit of this charge, FRESH or UNKNOWN. The server's time is
 * about `store_us`. */
void rn_local_budget_init(struct rn_local_budget *h, const struct rn_charge *charge,
                          enum rn_local_budget_stage stage, int64_t store_us, int64_t now_ns);

static inline uint64_t rn_local_budget_units(const struct rn_local_budget *h)
{
    return h->unsent + h->sent;
}

/* Decides a take, a look, a forced charge or a refund. True: it is answered. False: Redis must
 * decide; nothing has changed. `now_ns` is our monotonic clock. */
bool rn_local_budget_decide(struct rn_local_budget *h, struct rn_charge *charge, int64_t now_ns,
                            uint64_t most);

/* Whether nothing is lost by evicting the key. */
bool rn_local_budget_is_idle(const struct rn_local_budget *h, int64_t now_ns, uint64_t most);

/* Begins a report; returns its units. */
uint64_t rn_local_budget_send(struct rn_local_budget *h);
/* The report was answered. NULL: the key could not be charged. */
void rn_local_budget_learn(struct rn_local_budget *h, const long long numbers[RN_VIEW_NUMBERS],
                           long long store_us, int64_t now_ns);
/* The state has changed in a way that reports do not show in time: a reset, a refund, a new
 * limit. */
void rn_local_budget_doubt(struct rn_local_budget *h);

#endif
