/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each algorithm means, written as plainly as possible: exact fractions,
 * lists that are never trimmed, counts per window. Shares no code with core/.
 *
 * A model is driven with the decisions of the implementation: ask model_fits,
 * then charge what the implementation admitted. Two answers bound it:
 *
 *   model_fits       the exact definition; admitting what it refuses mints budget
 *   model_must_fit   the definition less one documented quantum (below);
 *                    refusing what it admits is too strict
 *
 * Quanta: bucket, the time per unit rounded up to 1 ns if it is a millisecond or
 * longer, else to 2^-32 ns; log, period / 65500 rounded up; fixed window
 * from the first request, the last model_grain before its rounded end; all
 * others none. The example of an algorithm of the embedder's, a counter that decays: a thousandth
 * of a unit, which is as good as nothing there.
 *
 * Time. A step back is no time passed: the exact definition counts the sum of
 * the forward steps, so that an implementation may be stricter after a step
 * back, never more generous than the time that passed. For sliding windows,
 * whose place on the clock is then uncertain, what every placing has in common
 * is required for a while. A fixed window ends at most a period from now, an
 * aligned one two.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/limit.h>

__extension__ typedef __int128 model_int;

/* Debt in 1/`unit` parts of a unit; every tick_ns pays off per_tick of them. */
struct model_bucket {
    model_int unit, per_tick, full, debt;
    int64_t tick_ns, tick;
    bool strict; /* the bound from below: a step back adds to the debt */
};

struct model_charge {
    int64_t now_ns, elapsed_ns, number; /* number: of the window it counts in */
    uint64_t units;                     /* less what was given back */
};

/* A fixed window as the last change left it. */
struct model_window {
    int64_t end_ns;
    uint64_t count, owed; /* owed: the next window begins with it */
};

struct model {
    struct ration_limit spec;
    uint64_t cap;
    int64_t now_ns, elapsed_ns; /* clock, and the sum of its forward steps */
    int64_t back_at_ns;         /* elapsed time of the last step back, or -1 */
    int64_t unplaced_at_ns;     /* and of the last that makes it uncertain where charges lie */
    struct model_bucket exact, strict;
    int64_t grain_ns, wall_offset_ns;
    struct model_window window; /* see window_now in model.c */
    int64_t quanta;             /* by which a log may be late: each time units are put off, they are
                                   rounded again */
    long double level, blur;    /* decay: what counts, and how much of it may be rounding */
    uint64_t put_off;           /* decay: by late debits; counter: in window put_off_in */
    int64_t put_off_in;
    struct model_charge *charges; /* all of them, oldest first; those put off have times to come */
    size_t charge_count;
};

void model_init(struct model *m, const struct ration_limit *spec);
void model_done(struct model *m);

/* Moves the model's clock; the calls below are at its time. */
void model_tick(struct model *m, int64_t now_ns);

bool model_fits(const struct model *m, uint64_t cost);
bool model_must_fit(const struct model *m, uint64_t cost);
void model_take(struct model *m, uint64_t cost, int64_t wall_offset_ns);
/* A forced charge filled a bucket to the brim, fractions included. */
void model_saturate(struct model *m);
/* A late debit: charged where it first fits, but for what the implementation has left
 * uncollected. Returns how much that should be: what lies more than one capacity beyond
 * `left`, of the implementation. */
struct model_range {
    uint64_t least, most;
};
struct model_range model_debit(struct model *m, uint64_t cost, uint64_t left, uint64_t uncollected,
                               int64_t wall_offset_ns);
/* Gives units back: what was put off, then the youngest that count. After a step back no
 * placing of sliding windows tells which those are: not to be called then. */
void model_credit(struct model *m, uint64_t units);
/* Undoes part of charge `at` for the algorithms that count charges. */
void model_give_back(struct model *m, size_t at, uint64_t units);

/* Length of a window or sub-window. */
int64_t model_window_ns(const struct ration_limit *spec);
/* The ends of fixed windows of at least 320 ms and less than 2^20 units are kept
 * as multiples of this, rounded up; 1 for all others. */
int64_t model_grain(const struct ration_limit *spec);

/* Most units that may be charged, and not given back, between two instants
 * `apart_ns` apart, both included. As a fraction of model_bound_scale. */
model_int model_bound(const struct model *m, int64_t apart_ns);
model_int model_bound_scale(const struct model *m);

#endif
