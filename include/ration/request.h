/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request as rules see it: named attributes. Names are lower case:
 *
 *   ip, method, host           as the caller knows them
 *   path                       the target as the client sent it, not decoded
 *   header.NAME                a header of the request, NAME in lower case
 *   anything else              user, api_key, tier, country, …
 *
 * The rules file may derive further ones (a user from the path, the client's
 * address from X-Forwarded-For).
 */
#ifndef RATION_REQUEST_H
#define RATION_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ration_attribute {
    const char *name;
    size_t name_len;
    const char *value; /* any bytes; borrowed during the call */
    size_t value_len;
};

struct ration_waiter; /* wait.h */

struct ration_request {
    const struct ration_attribute *attributes;
    size_t count;
    uint64_t cost; /* 0 means 1; multiplied by nothing: a rule's own `cost` replaces it */
    /* The longest that the caller would wait, in line and for its place in a queue; 0: as long
     * as the rules let it; less, as the rest of a deadline that has passed: not at all. A longer
     * wait is a refusal, which charges nothing. */
    int64_t max_wait_ns;
    /* Not NULL: what is refused for the moment stands in line (wait.h), where the rules have a
     * `queue`, or for max_wait_ns under any rule. */
    struct ration_waiter *waiter;
    /* If it does not fit, take what is left and refuse: RATION_ESEVERAL if more than one limit
     * applies, RATION_EPLACES if that is one of concurrency. For ration_decide. */
    bool drain;
    bool
        shadow; /* count everything, refuse and delay nothing: as ration_shadow_set, for this one */
};

#endif
