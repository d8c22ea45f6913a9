/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting decisions without sharing cache lines: each thread has its own stripe of
 * counters (base/thread.h). Only that thread writes it, and sums are made on request.
 * Threads beyond RN_THREADS share the last stripe.
 */
#ifndef RN_LIMITER_STATS_H
#define RN_LIMITER_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/ration.h>

#include "base/hints.h"
#include "base/thread.h"

#define RN_STATS_LINE 64

struct rn_book;
struct rn_workspace;

/* The first cache line has what nearly every decision counts. */
struct rn_counts {
    uint64_t allowed, refused, shadowed, errors;
    uint64_t delayed, soft, near; /* of those allowed; under rules only */
    uint64_t hits_allowed;        /* units, of a rule */
    uint64_t hits_refused;
    uint64_t charged;        /* charges by outcome, once it is known; under rules only */
    uint64_t uncollected;    /* units of late debits that no limit could hold */
    uint64_t shadow_delayed; /* of those allowed; under rules only */
    uint64_t bans;           /* by `escalate`: begun, */
    uint64_t ban_refusals;   /* requests refused by one, which are among `refused`, */
    uint64_t lifted;         /* and lifted */
    uint64_t waited;         /* of those allowed: had stood in line */
    uint64_t wait_timeouts;  /* of those refused: the same */
    uint64_t unused[7];      /* fills three lines */
};

/* What is counted of whole decisions only: no limit or rule has it. */
struct rn_rowless_counts {
    uint64_t unmatched; /* admissions that no rule, list or ban decided */
};

/* All fields but `shared` and `workspaces` are accessed atomically: any thread may read them. */
struct rn_stripe {
    bool shared;
    struct rn_book *book;            /* pin.h: what its thread is reading */
    uint64_t ids;                    /* lease and reservation ids made */
    int64_t second;                  /* top.c: the time slice, */
    uint64_t refused;                /* and refusals seen in it */
    struct rn_workspace *workspaces; /* workspace.h: unused ones; atomically if `shared` */
    struct rn_rowless_counts rowless;
    /* Decisions, however many limits each names. */
    _Alignas(RN_STATS_LINE) struct rn_counts total;
    struct rn_counts rows[]; /* [0]: limits given with the call; [i + 1]: limit i */
};

struct rn_stats {
    void *memory;
    char *stripes; /* aligned to cache lines */
    size_t stride;
};

int rn_stats_init(struct rn_stats *stats, size_t limits);
void rn_stats_done(struct rn_stats *stats);

/* Other threads may count in `counts` meanwhile. */
void rn_stats_add_counts(struct rn_counts *sum, const struct rn_counts *counts);
/* The sum of row `index`, as of rn_stats_row. */
void rn_stats_sum(const struct rn_stats *stats, uint32_t index, struct rn_counts *sum);
void rn_stats_set_totals(struct ration_totals *totals, const struct rn_counts *sum);

static inline struct rn_stripe *rn_stats_at(const struct rn_stats *stats, unsigned thread)
{
    return (struct rn_stripe *)(void *)(stats->stripes + thread * stats->stride);
}

static inline struct rn_stripe *rn_stats_stripe(const struct rn_stats *stats)
{
    return rn_stats_at(stats, rn_thread_index());
}

/* RN_AD_HOC + 1 wraps to row 0. */
static inline struct rn_counts *rn_stats_row(struct rn_stripe *s, uint32_t index)
{
    return &s->rows[(uint32_t)(index + 1)];
}

static inline void rn_stats_add_units(const struct rn_stripe *s, uint64_t *counter, uint64_t units)
{
    if (rn_unlikely(s->shared))
        __atomic_fetch_add(counter, units, __ATOMIC_RELAXED);
    else
        __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + units,
                         __ATOMIC_RELAXED);
}

static inline void rn_stats_add(const struct rn_stripe *s, uint64_t *counter)
{
    rn_stats_add_units(s, counter, 1);
}

/* How a decision ended, for a limit or rule or as a whole: bits. */
enum rn_result {
    RN_RESULT_ALLOWED = 1,
    RN_RESULT_REFUSED = 2,
    RN_RESULT_FAILED = 4,
    /* Of an admission: */
    RN_RESULT_SHADOWED = 8, /* would have been refused, but for shadow mode */
    RN_RESULT_DELAYED = 16,
    RN_RESULT_SHADOW_DELAYED = 32, /* would have been delayed, but for shadow mode */
    RN_RESULT_SOFT = 64,           /* above the limit as written */
    RN_RESULT_NEAR = 128,          /* less than a fifth of the limit is left */
    RN_RESULT_UNMATCHED = 256,     /* no rule, list or ban decided */
};
#define RN_RESULT_REMARKS                                                                          \
    (RN_RESULT_SHADOWED | RN_RESULT_DELAYED | RN_RESULT_SHADOW_DELAYED | RN_RESULT_SOFT |          \
     RN_RESULT_NEAR)

void rn_stats_count_remarks(const struct rn_stripe *s, struct rn_counts *counts, unsigned result);

/* Counts one decision in one row, or in the total. Whatever the way in, this counts it. */
static inline void rn_stats_count(const struct rn_stripe *s, struct rn_counts *counts,
                                  unsigned result, uint64_t units)
{
    if (result & RN_RESULT_ALLOWED) {
        rn_stats_add(s, &counts->allowed);
        if (units != 0)
            rn_stats_add_units(s, &counts->hits_allowed, units);
    } else if (result & RN_RESULT_REFUSED) {
        rn_stats_add(s, &counts->refused);
        if (units != 0)
            rn_stats_add_units(s, &counts->hits_refused, units);
    } else {
        rn_stats_add(s, &counts->errors);
    }
    if (rn_unlikely(result & RN_RESULT_REMARKS))
        rn_stats_count_remarks(s, counts, result);
}

/* Counts a whole decision. */
static inline void rn_stats_count_total(struct rn_stripe *s, unsigned result)
{
    rn_stats_count(s, &s->total, result, 0);
    if (rn_unlikely(result & RN_RESULT_UNMATCHED))
        rn_stats_add(s, &s->rowless.unmatched);
}

/* Adds to a counter of a stripe that is not shared. */
static inline void rn_stats_add_own(uint64_t *counter, uint64_t units)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + units, __ATOMIC_RELAXED);
}

/* rn_stats_count of an admission in a row and in the total, which asks once whether the stripe is
 * shared. */
static inline void rn_stats_admit(struct rn_stripe *s, struct rn_counts *row, uint64_t units)
{
    if (rn_unlikely(s->shared)) {
        rn_stats_count(s, row, RN_RESULT_ALLOWED, units);
        rn_stats_count_total(s, RN_RESULT_ALLOWED);
        return;
    }
    rn_stats_add_own(&s->total.allowed, 1);
    rn_stats_add_own(&row->allowed, 1);
    if (units != 0)
        rn_stats_add_own(&row->hits_allowed, units);
}

#endif
