/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A circuit breaker for one server. Several failures in a row open it; while it is open, calls
 * fail at once instead of waiting for their deadline, and probes at random intervals find out
 * whether to close it. Pure: time is an argument.
 */
#ifndef RN_REDIS_BREAKER_H
#define RN_REDIS_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define RN_BREAKER_FAILURES 8 /* in a row, to open */
#define RN_BREAKER_PROBE_NS (INT64_C(100) * 1000000)

struct rn_breaker {
    bool open;
    bool probing; /* a probe is on its way */
    unsigned failures;
    int64_t probe_at_ns;
    uint64_t opened; /* how many times */
};

/* The server has answered a probe or a call: closes the breaker. Returns whether it was open. */
bool rn_breaker_succeed(struct rn_breaker *breaker);
/* A call was not answered in time. Returns whether this opened the breaker. */
bool rn_breaker_fail(struct rn_breaker *breaker, int64_t now_ns, uint64_t random);
/* Opens at once: the connection is lost. Returns whether this opened the breaker. */
bool rn_breaker_trip(struct rn_breaker *breaker, int64_t now_ns, uint64_t random);
/* True: the caller must send a probe now. */
bool rn_breaker_probe(struct rn_breaker *breaker, int64_t now_ns);
/* The probe has failed; another one will follow. */
void rn_breaker_probe_failed(struct rn_breaker *breaker, int64_t now_ns, uint64_t random);

#endif
