/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that tickets are signed with. Without other nodes there is one, derived from the
 * table's secret. Nodes that share limits also share random keys (redis/fleet/tickets.c): the
 * newest signs, tickets of earlier keys are accepted, and this node's own key stays among them.
 *
 * One thread adds keys; any thread reads them, without a lock. While the oldest key is
 * overwritten a reader may see half of each: no ticket is signed with that.
 */
#ifndef RN_LIMITER_TICKETS_TICKET_KEYS_H
#define RN_LIMITER_TICKETS_TICKET_KEYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/siphash.h"

#define RN_TICKET_KEYS 8 /* accepted at once; one more takes the place of the oldest */

struct rn_ticket_keys {
    struct {
        _Atomic uint64_t k0, k1;
    } ring[RN_TICKET_KEYS];
    _Atomic unsigned added;  /* in all; the next one's place is its remainder */
    _Atomic unsigned signer; /* place of the key that signs */
};

/* Starts with this key only, before any other thread looks. */
void rn_ticket_keys_init(struct rn_ticket_keys *keys, const struct rn_hash_key *key);
/* Accepts tickets of this key from now on; signs with it, too, if it `signs`. */
void rn_ticket_keys_add(struct rn_ticket_keys *keys, const struct rn_hash_key *key, bool signs);

struct rn_hash_key rn_ticket_keys_signer(const struct rn_ticket_keys *keys);
/* All accepted keys. Returns how many. */
size_t rn_ticket_keys_list(const struct rn_ticket_keys *keys,
                           struct rn_hash_key out[RN_TICKET_KEYS]);

#endif
