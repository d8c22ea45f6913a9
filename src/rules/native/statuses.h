/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of HTTP status codes, from 100 to 599: `401, 403, 5xx`.
 */
#ifndef RN_RULES_NATIVE_STATUSES_H
#define RN_RULES_NATIVE_STATUSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define RN_STATUS_FIRST 100u
#define RN_STATUS_COUNT 500u
#define RN_STATUSES_TEXT 2600 /* the longest text of a set, and a NUL */

/* All zero: the empty set. */
struct rn_statuses {
    uint64_t bits[(RN_STATUS_COUNT + 63) / 64]; /* of FIRST + i: bit i % 64 of word i / 64 */
};

/* Codes out of range are in no set. */
static inline bool rn_statuses_has(const struct rn_statuses *set, unsigned status)
{
    unsigned i = status - RN_STATUS_FIRST;

    return i < RN_STATUS_COUNT && (set->bits[i / 64] >> i % 64 & 1) != 0;
}

/* Adds a code (`401`) or a class (`5xx`, also `5XX`). False: it is neither. */
bool rn_statuses_add(struct rn_statuses *set, struct rn_slice word);

/* Writes the set in order, with 5xx for a whole class. */
void rn_statuses_write(const struct rn_statuses *set, char out[RN_STATUSES_TEXT]);

#endif
