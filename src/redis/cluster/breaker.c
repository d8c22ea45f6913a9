/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/breaker.h"

/* Half to one and a half of the interval. */
static int64_t next_probe(int64_t now_ns, uint64_t random)
{
    return now_ns + RN_BREAKER_PROBE_NS / 2 + (int64_t)(random % (uint64_t)RN_BREAKER_PROBE_NS);
}

bool rn_breaker_succeed(struct rn_breaker *breaker)
{
    bool was_open = breaker->open;

    breaker->open = breaker->probing = false;
    breaker->failures = 0;
    return was_open;
}

bool rn_breaker_trip(struct rn_breaker *breaker, int64_t now_ns, uint64_t random)
{
    breaker->probing = false;
    if (breaker->open)
        return false;
    breaker->open = true;
    breaker->opened++;
    breaker->probe_at_ns = next_probe(now_ns, random);
    return true;
}

bool rn_breaker_fail(struct rn_breaker *breaker, int64_t now_ns, uint64_t random)
{
    if (breaker->open || ++breaker->failures < RN_BREAKER_FAILURES)
        return false;
    return rn_breaker_trip(breaker, now_ns, random);
}

bool rn_breaker_probe(struct rn_breaker *breaker, int64_t now_ns)
{
    if (!breaker->open || breaker->probing || now_ns < breaker->probe_at_ns)
        return false;
    breaker->probing = true;
    return true;
}

void rn_breaker_probe_failed(struct rn_breaker *breaker, int64_t now_ns, uint64_t random)
{
    breaker->probing = false;
    breaker->probe_at_ns = next_probe(now_ns, random);
}
