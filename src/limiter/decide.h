/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a check: which limit decided, what the caller is told, what is
 * counted.
 */
#ifndef RN_LIMITER_DECIDE_H
#define RN_LIMITER_DECIDE_H

#include "limiter/check.h"

/* With check->error set, only counts the failure. */
void rn_decide_end(struct rn_check *check, bool allowed);

#endif
