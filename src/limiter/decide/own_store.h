/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of the embedder's (ration/store.h) as a store of ours: its records hold the states, and
 * core computes in its transactions.
 *
 *   record of a state   form (8 bits) | 0 (56 bits), words of the state; host byte order
 *   record RN_OWN_STORE_HEAD   magic, version, secret under which keys are hashed (2 words)
 */
#ifndef RN_LIMITER_DECIDE_OWN_STORE_H
#define RN_LIMITER_DECIDE_OWN_STORE_H

#include <ration/error.h>
#include <ration/store.h>

#include "base/siphash.h"
#include "store/store.h"

#define RN_OWN_STORE_HEAD 0 /* its key; that of no state */

struct rn_own_store {
    struct rn_store store; /* first */
    struct ration_store user;
};

/* RATION_EINVAL: not a struct ration_store of a version that we know. */
int rn_own_store_init(struct rn_own_store *own, const struct ration_store *user,
                      struct ration_error *error);

/* The secret of all that use the store. The first to ask makes it: `fresh`. RATION_ESTORE,
 * RATION_EVERSION or 0. */
int rn_own_store_secret(struct rn_own_store *own, const struct rn_hash_key *fresh, int64_t now_ns,
                        struct rn_hash_key *secret, struct ration_error *error);

#endif
