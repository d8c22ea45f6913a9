/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections there may be: in the process, and from one address. Any
 * thread; the addresses are behind a mutex, which only accepting and closing take.
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

/* Whether the next would be one too many. */
bool rn_caps_are_taken(const struct rn_caps *caps);
enum rn_caps_answer rn_caps_take(struct rn_caps *caps, const struct rn_peer *peer);
/* Of one that was taken. */
void rn_caps_give_back(struct rn_caps *caps, const struct rn_peer *peer);

#endif
