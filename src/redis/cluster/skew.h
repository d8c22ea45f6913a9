/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of a Redis beside ours. A reply tells its time; what lies between sending
 * and receiving, on a clock of ours that nobody can set, brackets the difference. When
 * two such brackets are too far apart for drift, the clock of Redis has been stepped,
 * or another Redis with another clock has taken its place: budgets have then been
 * refilled for time that did not pass, or will be refilled late. Pure.
 */
#ifndef RN_REDIS_SKEW_H
#define RN_REDIS_SKEW_H

#include <stdbool.h>
#include <stdint.h>

#define RN_SKEW_STEP_NS (INT64_C(500) * 1000000)
#define RN_SKEW_DRIFT_PER_MILLE 1 /* of the time between two replies */

struct rn_skew {
    bool known;
    int64_t low_ns, high_ns; /* the store's clock less ours was between */
    int64_t at_ns;           /* then */
};

/* `store_us` was read between `sent_ns` and `got_ns` of the boot-time clock. Returns by
 * how much the clock was stepped, in ns; 0: it was not. */
int64_t rn_skew_note(struct rn_skew *skew, int64_t store_us, int64_t sent_ns, int64_t got_ns);

#endif
