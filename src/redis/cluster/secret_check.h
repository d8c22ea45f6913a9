/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the nodes of a Redis agree on the secret that names are made with. Nodes that do
 * not would count the same limit under different names, each for itself, and nobody would
 * notice. The first one leaves a fingerprint of its secret there; who comes with another
 * one is refused until somebody has removed the wrong one.
 */
#ifndef RN_REDIS_SECRET_CHECK_H
#define RN_REDIS_SECRET_CHECK_H

#include "redis/cluster/routes.h"

#define RN_SECRET_CHECK_NAME "ration:secret"
#define RN_SECRET_CHECK_BYTES 64
#define RN_SECRET_CHECK_SOON_NS (INT64_C(50) * 1000000)    /* after no answer */
#define RN_SECRET_CHECK_AGAIN_NS (INT64_C(2) * 1000000000) /* after a refusal */
#define RN_SECRET_CHECK_LATER_NS                                                                   \
    (INT64_C(60) * 1000000000) /* and if all is well: it may be deleted */

enum rn_secret_check_state {
    RN_SECRET_CHECK_NONE, /* nobody cares */
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
    void (*changed)(void *arg); /* the state has */
    void *arg;
};

/* From now on it matters. `fingerprint` has up to RN_SECRET_CHECK_BYTES bytes, is not the secret,
 * and tells nobody what it is. */
void rn_secret_check_init(struct rn_secret_check *secret, struct rn_routes *routes,
                          const char *fingerprint, void (*changed)(void *arg), void *arg);
/* Before the routes' end. Does nothing for one that is zeroed. */
void rn_secret_check_done(struct rn_secret_check *secret);

/* Servers may have come up, or changed: asks again. */
void rn_secret_check_again(struct rn_secret_check *secret);

static inline bool rn_secret_check_allows(const struct rn_secret_check *secret)
{
    return secret->state == RN_SECRET_CHECK_NONE || secret->state == RN_SECRET_CHECK_AGREED;
}

#endif
