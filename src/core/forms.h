/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to core/: one apply function per form, and the few lines of
 * arithmetic they share.
 */
#ifndef RN_CORE_FORMS_H
#define RN_CORE_FORMS_H

#include "core/limit.h"

__extension__ typedef __int128 rn_i128;
__extension__ typedef unsigned __int128 rn_u128;

/* A window's packed end is rounded up to this; 44 bits of it reach the year 2148. */
#define RN_WINDOW_QUANTUM_NS INT64_C(320000)
#define RN_WINDOW_COUNT_BITS 20

typedef enum rn_outcome rn_apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                                 const struct rn_ask *ask, struct rn_answer *answer);
rn_apply rn_gcra_apply, rn_fine_apply, rn_step_apply, rn_window_apply, rn_wide_apply,
    rn_counter_apply, rn_subs_apply, rn_log_apply, rn_places_apply;

/* A fixed window apart from its packing. */
struct rn_window {
    int64_t end_ns;
    uint64_t count;
    uint64_t owed; /* charged to the next window */
};
struct rn_window rn_window_unpack(uint64_t word);
uint64_t rn_window_pack(struct rn_window window);

/* FINE: arrival time in 2^-32 ns. */
rn_i128 rn_fine_unpack(const uint64_t *state);
void rn_fine_pack(uint64_t *state, rn_i128 tat);

int64_t rn_window_oldest(const struct rn_limit *limit, int64_t end_ns, const struct rn_ask *ask);
int64_t rn_counter_oldest(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                          int64_t now_ns);
/* The counts in so many words of a block. */
uint64_t rn_subs_spent(const uint64_t *state, uint32_t words);
int64_t rn_subs_oldest(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                       int64_t now_ns);
int64_t rn_log_oldest(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                      int64_t now_ns);

static inline uint64_t rn_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline int64_t rn_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rounds towards minus infinity, as time stamps before the epoch need. */
static inline int64_t rn_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline int64_t rn_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* FORCE and DEBIT charge what does not fit, too: up to what is left, or beyond. */
static inline bool rn_op_charges(enum rn_op op, bool fits)
{
    return op == RN_FORCE || op == RN_DEBIT || (op == RN_TAKE && fits);
}

/* How much of what a late debit finds no room for is owed: `room` at most. */
static inline uint64_t rn_owe(const struct rn_ask *ask, uint64_t left, uint64_t room,
                              struct rn_answer *answer)
{
    uint64_t over = ask->op == RN_DEBIT && ask->cost > left ? ask->cost - left : 0;

    answer->uncollected = over > room ? over - room : 0;
    return over - answer->uncollected;
}

#endif
