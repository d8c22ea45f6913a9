/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pauses: nothing of a key is admitted until a time. For callers of a service that has answered 429
 * or 503 with Retry-After: one of them pauses the key, and all of them stop.
 *
 *     int64_t for_ns;
 *     if (ration_pause_length(retry_after, strlen(retry_after), RATION_NOW, &for_ns, NULL) == 0)
 *         ration_pause(r, &(struct ration_pause_of){.key = "stripe", .key_len = 6}, for_ns,
 *                      RATION_NOW, NULL);
 *
 * A pause holds for all processes that share the state file, survives restarts, and with rationd
 * holds on all nodes. A request of a paused key is refused (RATION_BY_PAUSE) with the rest of the
 * pause as retry_after_ns, before any limit is asked; one that may wait stands in line until the
 * pause is over. Limits in shadow mode refuse nothing. What was used is still reported, given back
 * and released as usual.
 */
#ifndef RATION_PAUSE_H
#define RATION_PAUSE_H

#include <ration/ration.h>
#include <ration/rules.h>

#define RATION_PAUSE_MAX_NS (INT64_C(86400) * 1000000000)

/* Who is paused. Zero it and set one of the three. */
struct ration_pause_of {
    /* The client of this request, under the rule with this name, or under each rule that
     * applies and has a limit (`rule` NULL). */
    const struct ration_request *request;
    const char *rule;
    size_t rule_len;
    /* The client of an Envoy descriptor, under the Envoy rule that applies. */
    const struct ration_descriptor *descriptor;
    /* A key: under the limit given at open with index `limit`, if `limit_given`; else under all
     * limits that come with a call. There a charge that has a hash and no key is not found. */
    const void *key;
    size_t key_len;
    bool limit_given;
    uint32_t limit;
};

/* Pauses for `for_ns` from now on, at most RATION_PAUSE_MAX_NS. If a pause is in force already, the
 * later end counts; so 0 changes nothing. *rest_ns (may be NULL) is how long the pause lasts then.
 * RATION_EINVAL: for_ns, or no limit of this index. RATION_ENORULE: there is no rule of this name.
 * RATION_EUNMATCHED: no rule that has a limit applies. RATION_EFULL: no room for another. */
RATION_API int ration_pause(struct ration *r, const struct ration_pause_of *of, int64_t for_ns,
                            int64_t now_ns, int64_t *rest_ns);
/* Ends the pause now. *rest_ns (may be NULL) is how long it would have lasted; 0: there was none.
 * Codes as above. */
RATION_API int ration_pause_lift(struct ration *r, const struct ration_pause_of *of, int64_t now_ns,
                                 int64_t *rest_ns);
/* How long the pause lasts; 0: there is none. Of several rules the longest. Codes as above. */
RATION_API int ration_pause_rest(struct ration *r, const struct ration_pause_of *of, int64_t now_ns,
                                 int64_t *rest_ns);

/* Reads how long to pause: a Retry-After header as received (seconds, or a date as HTTP has it), or
 * a length of time such as 30s or 5m. A date that has passed is 0. A header that says more than
 * RATION_PAUSE_MAX_NS is cut to that. `wall_ns`: Unix time, or RATION_NOW. RATION_EPARSE: something
 * else, or a longer length of time; `error` (may be NULL) says so. */
RATION_API int ration_pause_length(const char *text, size_t len, int64_t wall_ns, int64_t *for_ns,
                                   struct ration_error *error);

struct ration_pause_totals {
    uint64_t begun, lifted; /* by calls of this process; one that is prolonged counts again */
    uint64_t refused;       /* requests, which are also counted as refused */
    int64_t last_ends_ns;   /* until the last pause of all ends, at most; 0: nothing is paused */
};
RATION_API void ration_pause_totals(struct ration *r, int64_t now_ns,
                                    struct ration_pause_totals *totals);

#endif
