/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of two limits is the larger. The envelope of a limit is the most that it
 * admits: in any time t, both ends included, at most
 *
 *   burst + amount * t / period
 *
 * units. A limit covers another if it would never refuse a client anything that
 * the other has admitted, given that nothing else was charged to it.
 */
#ifndef RN_CORE_ENVELOPE_H
#define RN_CORE_ENVELOPE_H

#include "core/limit.h"

/* RN_NEVER if `outer` does not cover `inner`. Else a time: so long after the last charge
 * that did not come from `inner`, nothing that `inner` admits can exceed `outer`, provided
 * that it was not exceeded before. Exact integers; both limits have a capacity. */
int64_t rn_envelope_settles_ns(const struct rn_limit *outer, const struct rn_limit *inner);

/* At most this long after the last charge a state is as if there were none. */
int64_t rn_envelope_memory_ns(const struct rn_limit *limit);

#endif
