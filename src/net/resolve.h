/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a name, without blocking the loop: another thread asks, and the loop's
 * thread gets the answer.
 */
#ifndef RN_NET_RESOLVE_H
#define RN_NET_RESOLVE_H

#include "net/address.h"

#define RN_RESOLVE_MAX 8

struct rn_resolve;

/* Called once, in the loop's thread. `count` 0: `why` says why. Both are valid during the
 * call only. */
typedef void rn_resolve_done(void *arg, const struct rn_address *found, size_t count,
                             const char *why);

/* `name` is host:port, for which rn_address_is_name is true. NULL: it failed at once, and
 * `done` is not called. */
struct rn_resolve *rn_resolve_begin(struct rn_loop *loop, const char *name, rn_resolve_done *done,
                                    void *arg);
/* `done` will not be called. A query that has begun delays the end of the loop until the
 * system gives up. NULL is fine. */
void rn_resolve_cancel(struct rn_resolve *resolve);

#endif
