/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to line/: the library's part of a waiter, and of the waiters of a thread.
 *
 * The lock of a line guards the places in it and the states of those that stand there. Due times
 * and the heap of them belong to the thread alone. When another thread changes what a waiter must
 * do next, it puts it into the mailbox of its thread, under the lock of the line, and wakes the
 * thread after that; the thread then looks again.
 */
#ifndef RN_LIMITER_LINE_LINE_INTERNAL_H
#define RN_LIMITER_LINE_LINE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/ration.h>
#include <ration/wait.h>

#include "limiter/line/estimate.h"
#include "limiter/line/lines.h"

enum rn_waiter_state {
    RN_WAITER_IDLE,
    RN_WAITER_STANDS,
    RN_WAITER_CALLED, /* may begin at once, its thread must */
    RN_WAITER_TURN,   /* is being decided */
    RN_WAITER_OVER,   /* in no line any more, its owner must refuse it */
};

/* Those that wait for one state. */
struct rn_line {
    struct rn_line *next; /* of the same bucket */
    uint64_t key;
    struct rn_waiter *root;      /* order.h; NULL: there are only claims */
    struct rn_claim *claims;     /* claims.h */
    struct rn_limit limit;       /* as it was when it last refused */
    struct rn_estimate estimate; /* when those that stand here can go */
    int64_t opens_ns;            /* when the first that stands has its turn, */
    uint32_t called, turns;      /* once there are none of these: states CALLED and TURN, */
    uint32_t epoch;              /* of those that are not passed: they are of this epoch; */
    int64_t busy_ns;             /* they are if it takes too long since the last of them */
    int64_t seen_ns;             /* time of the last operation */
    bool batches;                /* its limit is that of a shared store */
    bool poked;                  /* while one was decided, which may not have seen why */
};

/* A struct ration_waiter, all of it. */
struct rn_waiter {
    struct ration_waiting *waiting;
    void (*turn)(struct ration_waiter *waiter);
    int64_t most_ns;

    /* Place in line (order.h): links, and totals of the part of the tree below. */
    struct rn_waiter *left, *right;
    uint64_t sum;         /* units */
    int64_t soonest_ns;   /* the least until_ns */
    uint32_t count;       /* waiters */
    uint32_t standing;    /* those whose state is STANDS */
    struct rn_line *line; /* NULL: none */
    uint64_t arrival;     /* not 0 once it has waited */
    uint64_t units;
    int64_t until_ns;
    uint32_t rank;
    uint8_t state;  /* atomically */
    bool is_mailed; /* atomically */
    bool is_due;    /* in the heap */
    uint8_t moves;  /* how often it has changed lines, up to RN_CLAIMS_AFTER */
    uint8_t steps;  /* enum rn_line_steps */
    uint32_t epoch; /* of the line when it was called or began */

    /* Of its thread alone. */
    uint64_t key;
    int64_t arrived_ns; /* when it first waited */
    int64_t joined_ns;  /* when it was last refused */
    int64_t moved_ns;   /* the same, by a line */
    int64_t due_ns;
    int64_t watches_ns;                    /* until then it does not pass others */
    struct rn_waiter *child, *next, *prev; /* in the heap */
    struct ration_verdict verdict;
    struct rn_waiter *mail;  /* next in the mailbox */
    uint64_t keep;           /* units that it must leave to others */
    struct rn_claim *claims; /* of its own */
} __attribute__((may_alias));

/* What waiting costs in memory: 256 bytes for each that waits, and about 400 for each line. */
_Static_assert(sizeof(struct rn_waiter) <= sizeof(struct ration_waiter), "own[] is too small");
_Static_assert(sizeof(struct ration_waiter) == 256, "docs say how large a waiter is");

#define RN_LINE_STRIPES 64
#define RN_LINE_BUCKETS 64

struct rn_line_stripe {
    pthread_mutex_t lock;
    struct rn_line *buckets[RN_LINE_BUCKETS];
} __attribute__((aligned(64)));

struct rn_lines {
    struct rn_lines_gate gate;
    uint64_t waiting, most, arrivals; /* atomically */
    uint64_t threads;                 /* that have waiters; atomically */
    struct rn_line_stripe stripes[RN_LINE_STRIPES];
    struct ration_waiting_totals totals; /* atomically; but for waiting and lines */
};

/* Threads that must be woken once no lock is held. */
struct rn_wakes {
    struct ration_waiting *first;
};

static inline void rn_waiter_set_state(struct rn_waiter *w, enum rn_waiter_state state)
{
    __atomic_store_n(&w->state, (uint8_t)state, __ATOMIC_RELAXED);
}

/* --- waiting.c ------------------------------------------------------------------------------ */

/* Under the lock of its line: its thread must look at `w` again, by due_ns at the latest. */
void rn_line_post(struct rn_waiter *w, int64_t due_ns, struct rn_wakes *wakes);
/* With no lock held. */
void rn_line_wake(struct rn_wakes *wakes);
/* In its own thread: when to look at it again; and forgetting it. */
void rn_line_set_due(struct rn_waiter *w, int64_t due_ns);
void rn_line_forget(struct rn_waiter *w);
/* Whether turns are being called. */
bool rn_line_is_running(const struct ration_waiting *waiting);
/* None of its waiters may wait beyond this. */
int64_t rn_line_end_ns(const struct ration_waiting *waiting);

/* --- turns.c: under the lock of the line ----------------------------------------------------- */

/* When the thread of a waiter must look at it; `several`: others than its thread have waiters. */
int64_t rn_turns_due_ns(const struct rn_line *line, struct rn_waiter *w, bool several);
/* Whether the waiter may be decided now; its state is TURN or OVER then. */
bool rn_turns_begin(struct rn_line *line, struct rn_waiter *w, int64_t now_ns, bool several,
                    struct rn_wakes *wakes);
/* Takes a waiter out of its line. */
void rn_turns_take_out(struct rn_waiter *w);
/* It goes for good, refused: its owner must learn that. */
void rn_turns_end(struct rn_waiter *w, struct rn_wakes *wakes);
/* Ends all that cannot be in time, by the estimate. */
void rn_turns_end_late(struct rn_line *line, struct rn_wakes *wakes);
/* One that asked for so many units, and came before all that stand, goes without having been
 * charged: when the line opens for the next. */
void rn_turns_reopen(struct rn_line *line, uint64_t units);
/* Tells the thread of the first that stands when its turn comes. */
void rn_turns_hand_on(struct rn_line *line, struct rn_wakes *wakes);

/* --- line_table.c ---------------------------------------------------------------------------- */

struct rn_line_stripe *rn_line_table_lock(struct rn_lines *lines, uint64_t key);
/* Then wakes those; NULL: none. */
void rn_line_table_unlock(struct rn_line_stripe *stripe, struct rn_wakes *wakes);
/* NULL: nobody stands there. */
struct rn_line *rn_line_table_find(struct rn_line_stripe *stripe, uint64_t key);
/* Takes the memory of `line`. */
void rn_line_table_add(struct rn_lines *lines, struct rn_line_stripe *stripe, struct rn_line *line,
                       uint64_t key);
/* Passes the turn on, or frees the line if nobody stands there any more or has a claim. */
void rn_line_table_settle(struct rn_lines *lines, struct rn_line_stripe *stripe,
                          struct rn_line *line, struct rn_wakes *wakes);

/* The head may ask as soon as possible, whatever was known. */
void rn_line_table_open(struct rn_line *line, int64_t now_ns, struct rn_wakes *wakes);

/* In the thread of the waiter: looks at one that is due. True: `turn` must be called; false:
 * *due_ns says when to look again, RATION_NEVER if it does not wait. */
bool rn_line_table_begin(struct rn_lines *lines, struct rn_waiter *w, int64_t now_ns,
                         int64_t *due_ns);
/* When to look at it; RATION_NEVER if that is not needed. */
int64_t rn_line_table_due_ns(struct rn_lines *lines, struct rn_waiter *w);
/* The clock went back by so much: its times do, and its line asks again. */
void rn_line_table_shift(struct rn_lines *lines, struct rn_waiter *w, int64_t back_ns,
                         int64_t now_ns);

/* --- lines.c ---------------------------------------------------------------------------------- */

void rn_lines_leave(struct rn_lines *lines, struct rn_waiter *w);

#endif
