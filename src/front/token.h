/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing the admin token, so that guessing it is slow: from one address ten wrong ones in a
 * row, then one a second. What is more is refused without a look, whatever it is; so callers
 * that have shown the token on their connection are exempt from that. Any thread.
 */
#ifndef RN_FRONT_TOKEN_H
#define RN_FRONT_TOKEN_H

#include <pthread.h>

#include "base/ip.h"
#include "base/siphash.h"
#include "base/slice.h"
#include "net/conn.h"

#define RN_TOKEN_SETS 128 /* of addresses that gave wrong ones lately, */
#define RN_TOKEN_WAYS 8   /* and how many are known of each */

struct rn_token_guard {
    pthread_mutex_t lock;
    struct rn_hash_key key;
    struct rn_token_suspect {
        struct rn_ip ip;
        int64_t clear_ns; /* when all of its wrong ones are forgotten */
    } suspects[RN_TOKEN_SETS][RN_TOKEN_WAYS];
};

enum rn_token_answer { RN_TOKEN_RIGHT, RN_TOKEN_WRONG, RN_TOKEN_LATER };

/* False: there is no randomness. */
bool rn_token_guard_init(struct rn_token_guard *guard);
void rn_token_guard_done(struct rn_token_guard *guard);

/* `known`: the peer has shown the token on this connection before. LATER: not compared. */
enum rn_token_answer rn_token_try(struct rn_token_guard *guard, const struct rn_peer *peer,
                                  bool known, struct rn_slice token, struct rn_slice given,
                                  int64_t now_ns);

#endif
