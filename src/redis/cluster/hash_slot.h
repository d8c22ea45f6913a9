/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of a Redis Cluster, as its specification has them: CRC16 of a name, or of what
 * stands in its first braces, modulo 16384. Pure.
 */
#ifndef RN_REDIS_HASH_SLOT_H
#define RN_REDIS_HASH_SLOT_H

#include <stdint.h>

#include "base/slice.h"

#define RN_HASH_SLOTS 16384

uint16_t rn_hash_slot_of(struct rn_slice name);

#endif
