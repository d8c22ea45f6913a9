/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of reputation share: a rule that bans, and offending it. */
#ifndef RN_TESTS_LIMITER_REPUTATION_FIXTURE_H
#define RN_TESTS_LIMITER_REPUTATION_FIXTURE_H

#include "factor_fixture.h"

#include <stdio.h>

#include "limiter/reputation/reputation.h"

#define HOUR (60 * MINUTE)
#define ESCALATE                                                                                   \
    "    escalate: {after: 3 refusals within 10s, ban: 1m, grow: 4x, up_to: 1h, forget: 1d}\n"
#define LOGIN                                                                                      \
    "limits:\n"                                                                                    \
    "  - name: login\n"                                                                            \
    "    key: ip\n"                                                                                \
    "    limit: 2 per minute\n" ESCALATE

static inline struct ration_outcome offend(struct ration *r, const char *words, unsigned n,
                                           int64_t now_ns)
{
    struct ration_outcome out = {0};

    for (unsigned i = 0; i < n; i++)
        out = decide(r, words, now_ns);
    return out;
}

static inline bool is_banned(struct ration *r, const char *words, int64_t now_ns)
{
    return look(r, words, now_ns).kind == RATION_BY_ESCALATION;
}

/* For rn_limiter_share. */
static inline const char *no_fault(const struct rn_limit *limit)
{
    (void)limit;
    return NULL;
}

#endif
