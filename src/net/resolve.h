/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a name, without holding up the loop: a thread asks, the loop's
 * hears the answer.
 */
#ifndef RN_NET_RESOLVE_H
#define RN_NET_RESOLVE_H

#include "net/address.h"

#define RN_RESOLVE_MAX 8

struct rn_resolve;

/* In the loop's thread, once. None: `why` says so. Both only during the call. */
typedef void rn_resolve_done(void *arg, const struct rn_address *found, size_t count,
                             const char *why);

/* `name` is host:port, as rn_address_is_name says. NULL: it could not be begun, and
 * nothing follows. */
struct rn_resolve *rn_resolve_begin(struct rn_loop *loop, const char *name, rn_resolve_done *done,
                                    void *arg);
/* `done` is not called any more. A question that is under way holds up the end of the
 * loop until the system gives up on it. NULL is fine. */
void rn_resolve_cancel(struct rn_resolve *resolve);

#endif
