/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an error reply says about its command: whether Redis has not run it, so that it may be
 * sent again, and to which server. Pure.
 */
#ifndef RN_REDIS_REDIRECT_H
#define RN_REDIS_REDIRECT_H

#include <stdint.h>

#include "redis/url.h"

enum rn_redirect_kind {
    RN_REDIRECT_FAILED, /* run in part, or not allowed: never send it again */
    /* All others were not run. */
    RN_REDIRECT_NO_SCRIPT, /* the server does not have the script */
    RN_REDIRECT_MOVED,     /* another server owns the slot */
    RN_REDIRECT_ASK,       /* the slot is migrating, and the key is at the new server */
    RN_REDIRECT_TRY_AGAIN, /* the slot is migrating, and only some of the keys have moved */
    RN_REDIRECT_NOT_HERE,  /* the server is not a master, or has no data yet */
    RN_REDIRECT_NOT_NOW,   /* the server is busy */
    RN_REDIRECT_NO_OWNER,  /* no server owns the slot */
};

struct rn_redirect {
    enum rn_redirect_kind kind;
    uint16_t slot;                /* of MOVED and ASK */
    char address[RN_URL_ADDRESS]; /* of MOVED and ASK; ":port": on the host that replied */
};

/* `error` is the reply without the dash. A malformed redirection is RN_REDIRECT_FAILED. */
void rn_redirect_parse(const char *error, struct rn_redirect *out);

/* Writes host:port, with brackets around an IPv6 address. False: too long. */
bool rn_redirect_address(const char *host, unsigned port, char out[RN_URL_ADDRESS]);

/* Gives an address without a host the host of `near`, the server that reported it. */
void rn_redirect_complete(char address[RN_URL_ADDRESS], const char *near);

#endif
