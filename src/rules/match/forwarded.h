/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the client is behind proxies: X-Forwarded-For, or Forwarded (RFC 7239),
 * read from the right. What stands left of the first address that is not a
 * trusted proxy's was written by strangers and is never looked at.
 */
#ifndef RN_RULES_MATCH_FORWARDED_H
#define RN_RULES_MATCH_FORWARDED_H

#include "base/ip.h"
#include "base/slice.h"

#define RN_FORWARDED_HOPS 64 /* elements looked at, empty ones included */

/* A walk from the peer's address towards the client. */
struct rn_forwarded {
    const struct rn_cidr_set *trusted; /* not NULL */
    bool rfc7239;
    struct rn_ip client; /* at first the peer; then the best that is known */
    unsigned hops;       /* 0 at first */
};

/* Goes through one header's value, moving `client` leftwards. True: at its left
 * end everybody was trusted, so that the header before it (if the request has
 * several of that name) is next. False: the walk is over. */
bool rn_forwarded_walk(struct rn_forwarded *walk, struct rn_slice value);

#endif
