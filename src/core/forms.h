/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to core/: one descriptor for each form, and the few lines of arithmetic
 * that forms share.
 */
#ifndef RN_CORE_FORMS_H
#define RN_CORE_FORMS_H

#include "core/limit.h"

__extension__ typedef __int128 rn_i128;
__extension__ typedef unsigned __int128 rn_u128;

/* A window's packed end is rounded up to this; 44 bits of it reach the year 2148. */
#define RN_WINDOW_QUANTUM_NS INT64_C(320000)
#define RN_WINDOW_COUNT_BITS 20

/* Everything that core knows of a form. Each form has one, in its own file, and
 * descriptor_of() in limit.c lists them all. A function that is NULL is not needed:
 * its comment says what holds then. */
struct rn_form_descriptor {
    enum ration_algorithm algorithm; /* of a limit whose state has this form */

    /* See rn_limit_apply() and rn_form_apply(). Never NULL. */
    enum rn_outcome (*apply)(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer);

    /* Age of the oldest charge that still counts. NULL: the state does not tell. */
    int64_t (*oldest)(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                      const struct rn_ask *ask);

    /* See rn_limit_idle_at(). NULL: the word is that time. */
    int64_t (*idle_at)(uint64_t word);

    /* See rn_limit_spent(). NULL: 0. */
    uint64_t (*spent)(const uint64_t *state, uint32_t words);

    /* See rn_limit_mark_at(). NULL: the mark does not follow from the time. */
    int64_t (*mark_at)(const struct rn_limit *limit, int64_t at_ns);

    /* A word form: the block form that takes over when the amount outgrows the word,
     * and its state. RN_FORM_NONE: there is none. */
    enum rn_form grows_into;
    void (*grow)(uint64_t word, uint64_t *state);

    /* The envelope of a limit, and whether one covers another: see envelope.h. Concurrency
     * and unlimited have neither. */
    struct rn_envelope (*envelope)(const struct rn_limit *limit);
    int64_t (*settles)(const struct rn_limit *outer, const struct rn_limit *inner);
};

extern const struct rn_form_descriptor rn_gcra_form, rn_step_form, rn_window_form, rn_fine_form,
    rn_wide_form, rn_counter_form, rn_sub_windows_form, rn_sliding_log_form, rn_places_form,
    rn_adaptive_form, rn_own_form;

/* Words of an own state before the bytes. */
#define RN_OWN_HEADER 3

/* Sets the fields of a limit of RN_FORM_OWN that follow from its amount. NULL, or the fault. */
const char *rn_opaque_bound(struct rn_limit *limit);

/* Words of an adaptive state before the places, and of each place. */
#define RN_ADAPTIVE_HEADER 11
#define RN_ADAPTIVE_PLACE 3

/* Most units in a time t: burst + amount * t / period. */
struct rn_envelope {
    uint64_t burst;
    uint64_t amount;
    int64_t period_ns;
};
struct rn_envelope rn_limit_envelope(const struct rn_limit *limit);
struct rn_envelope rn_envelope_smooth(const struct rn_limit *limit);
struct rn_envelope rn_envelope_stepped(const struct rn_limit *limit);
struct rn_envelope rn_envelope_windowed(const struct rn_limit *limit);
struct rn_envelope rn_envelope_doubled(const struct rn_limit *limit);
int64_t rn_envelope_settles_bucket(const struct rn_limit *outer, const struct rn_limit *inner);
int64_t rn_envelope_settles_window(const struct rn_limit *outer, const struct rn_limit *inner);
/* `outer` counts all charges of the last span_ns or more, and forgets them after memory_ns. */
int64_t rn_envelope_settles_span(const struct rn_limit *outer, const struct rn_limit *inner,
                                 int64_t span_ns, int64_t memory_ns);

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

static inline uint64_t rn_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline int64_t rn_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* No state of this limit, at whatever factor, owes more. */
static inline uint64_t rn_largest_amount(const struct rn_limit *limit)
{
    return limit->percent != 0 ? 4 * limit->written_amount : limit->amount;
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
