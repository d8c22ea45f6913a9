/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a well-behaved client has earned: more of a rule's limit, in percent.
 */
#ifndef RN_CORE_EARN_H
#define RN_CORE_EARN_H

#include <stdint.h>

/* `earn` of a rule. */
struct rn_earn_plan {
    int64_t every_ns;
    uint16_t add, up_to; /* percent */
    uint32_t lost_after; /* refusals */
    int64_t lost_within_ns;
    int64_t forget_ns;
};

#endif
