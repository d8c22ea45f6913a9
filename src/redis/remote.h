/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store contract over Redis, strict: every charge is decided there, by the
 * store's clock. One for each loop, of its thread.
 *
 * An answer comes within the deadline, counted from rn_store_apply, or the charge has
 * RATION_ESTORE: what that means for a request is not decided here. The charge may
 * have been made all the same; it is then burnt. While the breaker is open, charges
 * have RATION_ESTORE at once. Refusals are remembered (redis/refusals.h): those who come
 * again too early are answered here.
 */
#ifndef RN_REDIS_REMOTE_H
#define RN_REDIS_REMOTE_H

#include <stdatomic.h>

#include "redis/breaker.h"
#include "redis/call.h"
#include "redis/lane.h"

#define RN_REMOTE_DEADLINE_NS (INT64_C(5) * 1000000)
#define RN_REMOTE_JOBS 1024 /* under way at once; one more has RATION_ESTORE */
/* A reply that is owed for longer than this will not come: another connection. */
#define RN_REMOTE_OWED_NS (INT64_C(1) * 1000000000)

/* Written by the loop's thread, read by any. */
struct rn_remote_counts {
    _Atomic uint64_t charges, answered; /* answered: in time, by Redis */
    _Atomic uint64_t late;              /* the deadline passed */
    _Atomic uint64_t remembered;        /* refused without asking: redis/refusals.h */
    _Atomic uint64_t turned_away;       /* at once: breaker open, or too many under way */
    _Atomic uint64_t failed;            /* an error, or the connection was lost */
    _Atomic uint64_t opened;            /* how often the breaker did */
    _Atomic uint64_t calls, resent, mismatches, connects;
    _Atomic int64_t skew_us; /* clock of the store less ours, at the last reply */
    _Atomic bool open;
    _Atomic bool up; /* charges are being sent */
};

struct rn_remote;

/* In the loop's thread; connecting begins at once. `url` is borrowed until the end.
 * deadline_ns 0: RN_REMOTE_DEADLINE_NS. */
int rn_remote_new(struct rn_loop *loop, const struct rn_url *url, int64_t deadline_ns,
                  struct rn_remote **out, struct ration_error *error);
/* Whatever is under way ends with RATION_ESTORE first. */
void rn_remote_free(struct rn_remote *remote);

struct rn_store *rn_remote_store(struct rn_remote *remote);
/* Runs a script beside the charges, now. False: it was not sent, as the breaker is
 * open or the connection is down. The time that the caller waits is its own affair. */
bool rn_remote_call(struct rn_remote *remote, const struct rn_call_ask *ask);
const struct rn_remote_counts *rn_remote_counts(const struct rn_remote *remote);
/* Charges are being sent. */
bool rn_remote_is_up(const struct rn_remote *remote);

#endif
