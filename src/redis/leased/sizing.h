/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many units of a limit a worker should lease, and for how long: as many as it is likely to
 * spend during the lease. Pure: time is an argument.
 *
 * A lease is short enough that all leases hold about a quarter of the limit at most, as a bucket
 * does not refill while its units are leased; and otherwise as long as possible, as each lease
 * costs a call. Fixed shares of a limit would be simpler, but would starve a worker that needs more
 * while others do not use theirs.
 */
#ifndef RN_REDIS_SIZING_H
#define RN_REDIS_SIZING_H

#include "core/limit.h"

#define RN_SIZING_LONGEST_NS (INT64_C(1) * 1000000000)
#define RN_SIZING_SCARCE_NS (INT64_C(250) * 1000000) /* when there is not enough for all */
#define RN_SIZING_SHORTEST_NS (INT64_C(10) * 1000000)
/* A key gets a lease from this many units a second on, and loses it below this many. */
#define RN_SIZING_HOT 20
#define RN_SIZING_COLD 10
/* This many charges within a tenth of a second get a lease at once: as many as Redis decides in one
 * call, so more of them would wait for one call after another. Not if they are a large part of the
 * limit: it will refuse them soon, and refusals need no calls. */
#define RN_SIZING_RUSH 64
#define RN_SIZING_RUSH_PARTS 16

/* The demand for a key. Refused charges count as well: a demand of admitted charges only would
 * never grow. Zeroed before first use. */
struct rn_demand {
    int64_t slot;         /* the current tenth of a second */
    uint64_t count, asks; /* units and charges in it */
    uint64_t latest;      /* units a second in the last slot */
    uint64_t rate;        /* the same, averaged over several slots */
};
void rn_sizing_note(struct rn_demand *demand, uint64_t units, int64_t now_ns);
/* Recent units a second, without the current slot. */
uint64_t rn_sizing_rate(struct rn_demand *demand, int64_t now_ns);
/* Whether a key, under a limit of `cap` units, must get a lease; whether it must lose it. */
bool rn_sizing_is_hot(struct rn_demand *demand, uint64_t cap, int64_t now_ns);
bool rn_sizing_is_cold(struct rn_demand *demand, int64_t now_ns);

struct rn_sizing {
    uint64_t cap;
    uint64_t most;    /* units to hold at once, unless more are waited for */
    int64_t lease_ns; /* 0: leases of this limit would be too short to be useful */
};
/* `survives`: the lease file keeps the units when the process is killed. Without it a worker holds
 * few units of limits that refill slowly: LOST_PARTS in sizing.c. */
struct rn_sizing rn_sizing_of(const struct rn_limit *limit, bool survives);

int64_t rn_sizing_lease_ns(const struct rn_sizing *sizing, bool scarce);
/* How many units to hold for the time of a lease; `least` at least. */
uint64_t rn_sizing_want(const struct rn_sizing *sizing, struct rn_demand *demand, int64_t lease_ns,
                        uint64_t least, int64_t now_ns);
/* How long to wait after a small grant before asking again. */
int64_t rn_sizing_pause_ns(const struct rn_sizing *sizing);

#endif
