/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the client behind proxies: X-Forwarded-For or Forwarded (RFC 7239), read
 * from the right. The walk stops at the first address that is not a trusted
 * proxy; a client can forge everything to its left.
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
    struct rn_ip client; /* at first the peer, then the last address read */
    unsigned hops;       /* 0 at first */
};

/* Walks through one header's value, moving `client` leftwards. True: all its addresses
 * are trusted, so the walk goes on with the header before it (a request may have
 * several of that name). False: the walk is over. */
bool rn_forwarded_walk(struct rn_forwarded *walk, struct rn_slice value);

#endif
