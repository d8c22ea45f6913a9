/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that all nodes of a Redis have the same redis_key_secret, from which key names are made.
 * Nodes with different secrets would count the same limit under different names, and nobody would
 * notice. The first node stores a fingerprint of its secret in Redis; a node with another
 * fingerprint sends no charges until an operator removes the wrong one.
 */
#ifndef RN_REDIS_SECRET_CHECK_H
#define RN_REDIS_SECRET_CHECK_H

#include "redis/cluster/routes.h"

#define RN_SECRET_CHECK_NAME "ration:secret"
#define RN_SECRET_CHECK_BYTES 64
#define RN_SECRET_CHECK_SOON_NS (INT64_C(50) * 1000000)    /* next check after no answer */
#define RN_SECRET_CHECK_AGAIN_NS (INT64_C(2) * 1000000000) /* after a mismatch */
#define RN_SECRET_CHECK_LATER_NS                                                                   \
    (INT64_C(60) * 1000000000) /* after a match: the key may be deleted */

enum rn_secret_check_state {
    RN_SECRET_CHECK_NONE, /* there is no secret to compare */
    RN_SECRET_CHECK_UNKNOWN,
    RN_SECRET_CHECK_AGREED,
    RN_SECRET_CHECK_REFUSED,
};

struct rn_secret_check {
    struct rn_routes *routes;
    enum rn_secret_check_state state;
    bool asking;
    struct rn_shard *asked;
    char fingerprint[RN_SECRET_CHECK_BYTES + 1];
    struct rn_timer timer;
    void (*changed)(void *arg); /* the state has changed */
    void *arg;
};

/* Starts to check. `fingerprint` has up to RN_SECRET_CHECK_BYTES bytes and does not reveal the
 * secret. */
void rn_secret_check_init(struct rn_secret_check *secret, struct rn_routes *routes,
                          const char *fingerprint, void (*changed)(void *arg), void *arg);
/* Must come before rn_routes_done. Does nothing for a zeroed one. */
void rn_secret_check_done(struct rn_secret_check *secret);

/* Servers may have come up or changed: checks again. */
void rn_secret_check_again(struct rn_secret_check *secret);

static inline bool rn_secret_check_allows(const struct rn_secret_check *secret)
{
    return secret->state == RN_SECRET_CHECK_NONE || secret->state == RN_SECRET_CHECK_AGREED;
}

#endif
