/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether it is worth asking a store at all. Several failures on end open the
 * breaker; then nobody waits for a deadline in vain, and one probe after another,
 * at random intervals, finds out whether to close it. Pure: time is an argument.
 */
#ifndef RN_REDIS_BREAKER_H
#define RN_REDIS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define RN_BREAKER_FAILURES 8 /* on end, which open it */
#define RN_BREAKER_PROBE_NS (INT64_C(100) * 1000000)

struct rn_breaker {
    bool open;
    bool probing; /* a probe is on its way */
    unsigned failures;
    int64_t probe_at_ns;
    uint64_t opened; /* how often */
};

/* Something was answered: closes it, whether or not it was a probe's answer. Returns
 * whether it was open. */
bool rn_breaker_succeed(struct rn_breaker *breaker);
/* Something was not answered in time. Returns whether it has opened. */
bool rn_breaker_fail(struct rn_breaker *breaker, int64_t now_ns, uint64_t random);
/* At once, for the connection is lost. Returns whether it has opened. */
bool rn_breaker_trip(struct rn_breaker *breaker, int64_t now_ns, uint64_t random);
/* True if a probe is to be sent now; it has then begun. */
bool rn_breaker_probe(struct rn_breaker *breaker, int64_t now_ns);
/* The probe came to nothing: the next one follows. */
void rn_breaker_probe_failed(struct rn_breaker *breaker, int64_t now_ns, uint64_t random);

#endif
