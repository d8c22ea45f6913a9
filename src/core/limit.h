/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of limits. A limit is compiled once (rn_limit_init) and then
 * applied to a state: one 64-bit word, or a block of words whose first word is
 * the time at which the state is idle, that is, equal to no state at all.
 *
 * Pure: no allocation, no clock, no I/O; time is an argument in nanoseconds.
 * All-zero state is the fresh one. Contents of a block are never trusted.
 */
#ifndef RN_CORE_LIMIT_H
#define RN_CORE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/limit.h>

#define RN_NEVER INT64_MAX

/* How a state is laid out. Numbers are part of the state file: append only. */
enum rn_form {
    RN_FORM_NONE = 0,      /* unlimited: no state */
    RN_FORM_GCRA = 1,      /* word: theoretical arrival time, ns */
    RN_FORM_STEP = 2,      /* word: stepped bucket, see step.c */
    RN_FORM_WINDOW = 3,    /* word: end (44 bits) and count (20 bits) of a fixed window */
    RN_FORM_FINE = 4,      /* GCRA with a fraction of a nanosecond per unit */
    RN_FORM_WIDE = 5,      /* fixed window with a 64-bit count and an exact end */
    RN_FORM_COUNTER = 6,   /* two windows, weighted */
    RN_FORM_SUBS = 7,      /* N sub-windows */
    RN_FORM_LOG = 8,       /* one 16-bit time per unit */
    RN_FORM_PLACES = 9,    /* concurrency: one {expiry, id} per place taken */
    RN_FORM_ADAPTIVE = 10, /* places whose number is learnt, see adaptive.c */
    RN_FORM_OWN = 11,      /* bytes of an algorithm of the embedder's, see opaque.c */
};

/* Whether a state of this form is one word. All others are blocks of words. */
static inline bool rn_form_is_word(unsigned form)
{
    const unsigned words =
        1u << RN_FORM_NONE | 1u << RN_FORM_GCRA | 1u << RN_FORM_STEP | 1u << RN_FORM_WINDOW;

    return form < 32 && (words >> form & 1) != 0;
}

/* Whether places are held, not units spent. */
static inline bool rn_form_is_places(enum rn_form form)
{
    return form == RN_FORM_PLACES || form == RN_FORM_ADAPTIVE;
}

/* Where the windows of a calendar limit end: wall time in nanoseconds, strictly
 * ascending; ends[0] is where the first window begins. Immutable, and outlives
 * the limits that point to it. */
struct rn_calendar {
    const int64_t *ends;
    uint32_t count;
};

struct rn_limit {
    enum rn_form form;
    enum ration_algorithm algorithm;
    bool from_first;
    uint16_t percent; /* the factor of a step (core/scale.h); 0: as written */
    uint64_t amount;  /* units a period admits */
    uint64_t cap;     /* units admitted at once after any idle time */
    int64_t period_ns;
    uint64_t shape; /* equal for limits that may share state: algorithm + window */

    /* buckets */
    int64_t unit_ns;    /* ns one unit takes to refill, rounded up */
    uint32_t unit_frac; /* FINE: unit_ns is rounded down and this, in 2^-32 ns, is added */
    uint32_t full_over; /* FINE: what was added to full_ns by rounding, in 2^-32 ns */
    int64_t full_ns;    /* ns from empty to full: cap units */
    union {
        uint64_t unit_inverse; /* for dividing by unit_ns */
        uint64_t least;        /* ADAPTIVE: no fewer places than this */
    };
    int64_t step_ns;     /* STEP: length of a step */
    uint64_t step_units; /* and what it refills */

    /* windows and logs */
    uint32_t subs;                      /* SUBS: how many */
    int64_t sub_ns;                     /* SUBS: length of one, LOG: quantum of a time stamp */
    int64_t lease_ns;                   /* PLACES: default lease */
    int64_t longest_ns;                 /* no fixed window ends later than this from now; OWN: no
                                           state lasts longer after a charge */
    uint64_t calendar_id;               /* equal for equal unit and zone; 0 without a calendar */
    const struct rn_calendar *calendar; /* borrowed; see rn_limit_set_calendar */

    const struct ration_own_algorithm *own; /* OWN: borrowed */

    uint32_t words_small, words_full; /* block sizes; both 0 for one-word forms */

    uint64_t written_amount, written_cap; /* of a step: at 100 percent; else 0 */
};

enum rn_op {
    RN_PEEK,      /* look */
    RN_OLDEST,    /* look, and find the oldest charge still counted */
    RN_TAKE,      /* charge if it fits; PLACES: acquire */
    RN_DRAIN,     /* the same; if it does not fit, refuse and charge what is left. Not of PLACES */
    RN_FORCE,     /* charge what fits, never refuse: keeps a variant's state abreast */
    RN_DEBIT,     /* charge what was used, never refuse: up to one capacity below empty */
    RN_GIVE_BACK, /* undo a take: mark and at_ns are its receipt */
    RN_CREDIT,    /* give units back without a receipt: the youngest that count. Not of PLACES */
    RN_RENEW,     /* PLACES: prolong lease `id` */
    RN_RELEASE,   /* PLACES: end lease `id` */
    RN_RESET,     /* forget the state; the store's own, never applied to words */
};

/* The mark of a take whose receipt was not kept. Only for a store that many nodes share: by
 * its own clock it finds where the take was counted. */
#define RN_MARK_BY_AGE 0

struct rn_ask {
    enum rn_op op;
    int64_t now_ns;
    int64_t wall_offset_ns; /* wall time = now + this; for windows aligned to the epoch */
    uint64_t cost;
    uint64_t id;      /* PLACES: lease id, not 0 */
    int64_t lease_ns; /* PLACES: how long */
    int64_t at_ns;    /* GIVE_BACK: time of the take */
    int64_t mark;     /* GIVE_BACK: its mark; RN_MARK_BY_AGE: what at_ns tells */
};

/* How long places are held, in microseconds, at most RN_LATENCY_MAX; 0: not known. */
#define RN_LATENCY_MAX 0x3FFFFFF /* 67 s */
struct rn_place_latency {
    uint32_t best_us, recent_us;
};

struct rn_answer {
    bool allowed; /* TAKE, PEEK: fits; RESET: something was spent; other ops: found and done */
    uint64_t remaining;
    int64_t retry_after_ns, reset_after_ns, delay_ns;
    int64_t mark; /* TAKE, DRAIN: receipt */
    union {
        int64_t oldest_ns; /* OLDEST: its age, RN_NEVER if none or not kept; else unset */
        struct rn_place_latency latency; /* ADAPTIVE, of other operations than OLDEST */
    };
    union {                   /* of other operations unset: */
        uint64_t uncollected; /* DEBIT: units that not even the debt holds */
        uint64_t drained;     /* DRAIN, refused: units charged all the same */
        uint64_t places;      /* ADAPTIVE, of any operation: the number in force */
    };
};

enum rn_outcome {
    RN_KEEP,  /* the state is as it was */
    RN_WRITE, /* the state changed: publish it */
    RN_GROW,  /* the state is too small: copy a block into words_full words, or make a word
                 the block form that it grows into, and ask again */
    RN_FAULT, /* OWN: the algorithm has broken its contract. Nothing is decided; the state is as
                 it was. To the caller this is RATION_EALGORITHM */
};

/* The wait for a cost above the capacity. If it fits the limit as written, a lower factor stands in
 * the way, which may rise again: ask when the limit has had the time to become whole. */
static inline int64_t rn_limit_beyond_ns(const struct rn_limit *limit, uint64_t cost)
{
    if (limit->percent == 0 || cost > limit->written_cap)
        return RN_NEVER;
    return limit->full_ns ? limit->full_ns : limit->period_ns ? limit->period_ns : limit->lease_ns;
}

/* A fixed window that owes something. */
#define RN_WIDE_WORDS 4

/* Compiles a limit. rn_limit_fault() must find no fault in it. */
void rn_limit_init(struct rn_limit *limit, const struct ration_limit *spec);

/* NULL if the limit can be enforced, else a constant text that says what is
 * wrong and what would be right. Does not check that the time zone exists. */
const char *rn_limit_fault(const struct ration_limit *spec);

/* period_ns, or the longest a unit of its calendar lasts where clocks do not
 * change. */
int64_t rn_limit_period(const struct ration_limit *spec);

/* Attaches the calendar to a limit whose calendar_id is not 0. The caller makes it, for core
 * knows no time zones. Without a calendar, and at wall times that it does not cover, windows
 * have the length period_ns and start at multiples of it since the epoch (for days, midnight
 * UTC). */
void rn_limit_set_calendar(struct rn_limit *limit, const struct rn_calendar *calendar);

/* Applies one operation to `words` words of state (1 for word forms), which the caller owns.
 * A refusal changes nothing (but for RN_DRAIN), except that a state too far in the future is
 * brought back: a clock that jumped must not lock a client out for longer than a bucket takes to
 * fill twice or a window lasts (two windows if it is aligned or weighted, one more if units are
 * owed).
 *
 * A late debit (RN_DEBIT) is charged where it first fits: the debt of a bucket goes
 * on growing, up to twice its capacity; windows and logs carry what does not fit,
 * one capacity at most, into the time in which it does.
 *
 * A credit (RN_CREDIT) ends where nothing is spent, so that no more is admitted than the
 * limit says. What is owed goes first; then the charges that count now, the youngest first:
 * of a fixed window those of the present one alone. */
enum rn_outcome rn_limit_apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                               const struct rn_ask *ask, struct rn_answer *answer);

/* Until the window that holds a wall time ends; for a fixed window that does not
 * start at the first request. */
int64_t rn_limit_window_left(const struct rn_limit *limit, int64_t wall_ns);

/* From when on a state is as good as none, by form and state alone. `state` is the word, or
 * the first word of the block. */
int64_t rn_limit_idle_at(enum rn_form form, uint64_t state);
/* The algorithm that writes states of a form. A form does not tell a leaky bucket from a
 * token bucket. */
enum ration_algorithm rn_form_algorithm(enum rn_form form);
/* The block form of the same shape that holds more than the word, or RN_FORM_NONE. */
enum rn_form rn_form_grows_into(enum rn_form form);
/* Units spent, as far as form and state alone tell. 0 for buckets: their time to idle tells
 * it. `words`: how many words of the state are given, of a block at most RN_SPENT_WORDS. */
#define RN_SPENT_WORDS 24
uint64_t rn_limit_spent(enum rn_form form, const uint64_t *state, uint32_t words);

/* The same for a state found in another form of the same shape, because it was
 * written when the amount was larger: it is kept as it is. */
enum rn_outcome rn_form_apply(enum rn_form form, const struct rn_limit *limit, uint64_t *state,
                              uint32_t words, const struct rn_ask *ask, struct rn_answer *answer);

/* The mark of a take at `at_ns`, where it follows from the time alone: false for
 * buckets and fixed windows. */
bool rn_limit_mark_at(const struct rn_limit *limit, int64_t at_ns, int64_t *mark);

/* Rewrites a word of form `from` into the block form of this limit, whose amount has
 * outgrown the word, or which owes more than a word holds. False if `from` is not its
 * small form. */
bool rn_limit_convert(const struct rn_limit *limit, enum rn_form from, uint64_t word,
                      uint64_t *state);

#endif
