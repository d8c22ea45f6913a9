/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms of the embedder's: whether they can be used, and whether they keep their contract. */
#ifndef RN_LIMITER_OWN_ALGORITHM_H
#define RN_LIMITER_OWN_ALGORITHM_H

#include <ration/algorithm.h>
#include <ration/ration.h>

/* 0, or RATION_EINVAL: which of those given at open cannot be used. */
int rn_own_algorithm_check_all(const struct ration_own_algorithm *const *algorithms, size_t count,
                               struct ration_error *error);

#endif
