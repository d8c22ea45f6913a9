/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an error of Redis says about the command that it answers: whether it was not
 * run, and so may be sent again, and where to. Pure.
 */
#ifndef RN_REDIS_REDIRECT_H
#define RN_REDIS_REDIRECT_H

#include <stdint.h>

#include "redis/url.h"

enum rn_redirect_kind {
    RN_REDIRECT_FAILED,    /* it was run in part, or is not allowed: never again */
    RN_REDIRECT_NO_SCRIPT, /* not run, here and below: the script is not known */
    RN_REDIRECT_MOVED,     /* the slot is another server's */
    RN_REDIRECT_ASK,       /* the key is on its way to another server, or there */
    RN_REDIRECT_TRY_AGAIN, /* some of several keys are */
    RN_REDIRECT_NOT_HERE,  /* the server is no master, or has no data: another one may be */
    RN_REDIRECT_NOT_NOW,   /* it is busy with something */
    RN_REDIRECT_NO_OWNER,  /* the cluster has no server for the slot */
};

struct rn_redirect {
    enum rn_redirect_kind kind;
    uint16_t slot;                /* of MOVED and ASK */
    char address[RN_URL_ADDRESS]; /* of MOVED and ASK; ":port": the host that was asked */
};

/* `error` as Redis wrote it, without the dash. A redirection that cannot be read is
 * RN_REDIRECT_FAILED. */
void rn_redirect_parse(const char *error, struct rn_redirect *out);

/* host:port, with brackets if the host is an IPv6 address. False: too long. */
bool rn_redirect_address(const char *host, unsigned port, char out[RN_URL_ADDRESS]);

/* Of an address without a host, the host is that of `near`: who has told of it. */
void rn_redirect_complete(char address[RN_URL_ADDRESS], const char *near);

#endif
