/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting decisions without sharing cache lines: each thread has a stripe of
 * counters of its own (base/thread.h), written by nobody else and summed by
 * whoever asks. Threads beyond RN_THREADS share the last stripe.
 */
#ifndef RN_LIMITER_STATS_H
#define RN_LIMITER_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/ration.h>

#include "base/thread.h"

#define RN_STATS_LINE 64

struct rn_book;
struct rn_workspace;

/* What nearly every decision counts lies in one cache line. */
struct rn_counts {
    uint64_t allowed, refused, shadowed, errors;
    uint64_t delayed, soft, near; /* of those allowed; under rules only */
    uint64_t hits_allowed;        /* units, of a rule */
    uint64_t hits_refused;
    uint64_t charged;        /* outcomes, when they were known; under rules only */
    uint64_t uncollected;    /* units of late debits that no limit could hold */
    uint64_t shadow_delayed; /* of those allowed; under rules only */
    uint64_t unused[4];      /* up to two lines */
};

/* All fields but `shared` and `workspaces` are accessed atomically, since anyone may read. */
struct rn_stripe {
    bool shared;
    struct rn_book *book;            /* pin.h: what its thread is reading */
    uint64_t ids;                    /* lease and hold ids made */
    int64_t second;                  /* top.c: the time slice, */
    uint64_t refused;                /* and refusals seen in it */
    uint64_t unmatched;              /* admissions that no rule, list or ban had a say in */
    struct rn_workspace *workspaces; /* workspace.h: unused ones; atomically if `shared` */
    /* Of decisions, whatever number of limits they name. */
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

/* `counts` may be counted in meanwhile; the sum is the caller's. */
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
    if (__builtin_expect(s->shared, 0))
        __atomic_fetch_add(counter, units, __ATOMIC_RELAXED);
    else
        __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + units,
                         __ATOMIC_RELAXED);
}

static inline void rn_stats_add(const struct rn_stripe *s, uint64_t *counter)
{
    rn_stats_add_units(s, counter, 1);
}

/* An admission where there are no rules at all. */
static inline void rn_stats_unmatched(struct rn_stripe *s)
{
    rn_stats_add(s, &s->total.allowed);
    rn_stats_add(s, &s->unmatched);
}

/* The common case: both counters behind one question. */
static inline void rn_stats_admit(struct rn_stripe *s, uint32_t index)
{
    struct rn_counts *row = rn_stats_row(s, index);

    if (__builtin_expect(s->shared, 0)) {
        __atomic_fetch_add(&s->total.allowed, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&row->allowed, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_store_n(&s->total.allowed, __atomic_load_n(&s->total.allowed, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&row->allowed, __atomic_load_n(&row->allowed, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
}

#endif
