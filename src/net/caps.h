/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on the number of connections, in total and from one address. Any thread. A mutex
 * protects the addresses; only accepting and closing take it.
 */
#ifndef RN_NET_CAPS_H
#define RN_NET_CAPS_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/conn.h"

struct rn_caps;

enum rn_caps_answer { RN_CAPS_OK, RN_CAPS_TOTAL, RN_CAPS_ADDRESS };

/* per_address 0: no limit. NULL: out of memory. */
struct rn_caps *rn_caps_new(uint32_t total, uint32_t per_address);
void rn_caps_free(struct rn_caps *caps);

/* Whether the total is reached. */
bool rn_caps_are_taken(const struct rn_caps *caps);
enum rn_caps_answer rn_caps_take(struct rn_caps *caps, const struct rn_peer *peer);
/* For each successful rn_caps_take. */
void rn_caps_give_back(struct rn_caps *caps, const struct rn_peer *peer);

#endif
