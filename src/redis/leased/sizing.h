/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a limit a node should hold, and for how long: as much as it is likely to
 * spend in the time of a lease. Pure: time is an argument.
 *
 * A lease is short enough that what is out is at most about a quarter of the limit, for
 * while it is out a bucket does not refill behind it; and as long as that allows, for
 * each lease is a trip. Fixed shares of a limit would be simpler, and starve whoever
 * needs more while others do not use theirs.
 */
#ifndef RN_REDIS_SIZING_H
#define RN_REDIS_SIZING_H

#include "core/limit.h"

#define RN_SIZING_LONGEST_NS (INT64_C(1) * 1000000000)
#define RN_SIZING_SCARCE_NS (INT64_C(250) * 1000000) /* where there is not enough for all */
#define RN_SIZING_SHORTEST_NS (INT64_C(10) * 1000000)
/* Units a second from which a key is worth a lease, and under which it is not any more. */
#define RN_SIZING_HOT 20
#define RN_SIZING_COLD 10
/* Charges within a tenth of a second that make it worth one at once: as many as the store decides
 * in one call. Those that come faster would wait for one call after another; unless they are a
 * large part of the limit, which refuses them soon, and that takes no calls. */
#define RN_SIZING_RUSH 64
#define RN_SIZING_RUSH_PARTS 16

/* What is asked of a key, refused or not: for who asks only for what he got would never
 * get more. Zeroed before first use. */
struct rn_demand {
    int64_t slot;         /* of a tenth of a second: the current one */
    uint64_t count, asks; /* in it: units; charges */
    uint64_t latest;      /* units a second in the last slot */
    uint64_t rate;        /* and over some of them */
};
void rn_sizing_note(struct rn_demand *demand, uint64_t units, int64_t now_ns);
/* Units a second, of late: up to the last tenth of one. */
uint64_t rn_sizing_rate(struct rn_demand *demand, int64_t now_ns);
/* Whether the key, under a limit of `cap` units, is worth a lease; whether it is not any more. */
bool rn_sizing_is_hot(struct rn_demand *demand, uint64_t cap, int64_t now_ns);
bool rn_sizing_is_cold(struct rn_demand *demand, int64_t now_ns);

struct rn_sizing {
    uint64_t cap;
    uint64_t most;    /* to hold at once, unless more is waited for */
    int64_t lease_ns; /* 0: leases of this limit would be too short to be of use */
};
/* `survives`: what is held is not lost when the process is killed. Otherwise little is held of
 * limits that take long to be whole again: LOST_PARTS in sizing.c. */
struct rn_sizing rn_sizing_of(const struct rn_limit *limit, bool survives);

int64_t rn_sizing_lease_ns(const struct rn_sizing *sizing, bool scarce);
/* What to hold for the time of a lease; at least `least`. */
uint64_t rn_sizing_want(const struct rn_sizing *sizing, struct rn_demand *demand, int64_t lease_ns,
                        uint64_t least, int64_t now_ns);
/* How long not to ask again when there was little or nothing to be had. */
int64_t rn_sizing_pause_ns(const struct rn_sizing *sizing);

#endif
