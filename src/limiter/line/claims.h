/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request that needs several limits claims while it stands in the line of one of them: units
 * of the others, which those that come after it must leave. Nothing is charged, and each claim ends
 * by itself.
 *
 * Without claims, requests of one limit each could take in turn what it needs of both, for ever:
 * while it stands in one line, the other limit is emptied. So once a request has changed lines
 * twice, and nobody goes before it anywhere, it claims whenever it is refused: at each of its
 * limits that is *slower* than the one whose line it stands in then, until that one has said that
 * it has room, and 100 ms more. Slower: see rn_claims_is_slower. A faster limit is never claimed,
 * since nobody may wait for it for as long as for a slow one.
 *
 * Order the limits of a request from the slowest to the fastest. Those that have room, from the
 * slowest on, keep it: they are slower than any that refuses. When its turn comes, the slowest that
 * refused has room, too: it was claimed meanwhile, or the request stood in its line. So it has one
 * turn more for each of its limits, at most, unless others come that go before it. And nobody waits
 * for a claim in a circle: claims are made by requests that no claim and no line holds up, and wait
 * for time alone. See docs/adr/2026-11-18-requests-for-several-limits-claim-units.md.
 */
#ifndef RN_LIMITER_LINE_CLAIMS_H
#define RN_LIMITER_LINE_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "limiter/line/lines.h"

/* A request claims once it has changed lines so often. */
#define RN_CLAIMS_AFTER 2

/* Whether the limit of state `key` is slower than that of `other`: rates by the time that one unit
 * takes to come back, windows and logs by their length; places are slower than all, the scarcer
 * ones first. An order of all states, for equal ones go by key. */
bool rn_claims_is_slower(const struct rn_limit *limit, uint64_t key, const struct rn_limit *than,
                         uint64_t other);

/* In the thread of the waiter, which stands in line: others must leave it `units` at `key` until
 * ends_ns. A claim that it has there is changed. Without memory there is none. */
void rn_claims_set(struct rn_lines *lines, struct ration_waiter *waiter, uint64_t key,
                   uint64_t units, uint32_t rank, int64_t ends_ns);
/* The same: drops its claims, all or those that were not set since the last call. */
void rn_claims_drop(struct rn_lines *lines, struct ration_waiter *waiter, bool all);

/* How many units those claim that go before this request: `waiter` as in rn_lines_is_ahead. If any,
 * *rest_ns: until the first of the claims ends. */
uint64_t rn_claims_before(struct rn_lines *lines, uint64_t key, uint32_t rank,
                          const struct ration_waiter *waiter, int64_t now_ns, int64_t *rest_ns);

#endif
