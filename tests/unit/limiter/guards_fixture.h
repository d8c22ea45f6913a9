/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of guards share: pairs of limits of which one is the larger,
 * clients that do anything at any time, and the model that judges them. */
#ifndef RN_TESTS_LIMITER_GUARDS_FIXTURE_H
#define RN_TESTS_LIMITER_GUARDS_FIXTURE_H

#include "rules_fixture.h"

#include <stdio.h>

#include "core/envelope.h"
#include "model/model.h"
#include "unit/sanitized.h"

/* Sanitizers make a step ten times as long, and look for something else. */
#define STEPS(n) (SANITIZED ? (n) / 8 : (n))

/* ---- limits, small and large */

static inline struct ration_named small_one(unsigned i)
{
    static const char *const texts[] = {"10 per 10s", "10 per 10s burst 4", "10 per 10s queue 7",
                                        "10 per 10s in steps of 2s", "20 per 20s"};
    struct ration_named n = named("v", i < COUNT(texts) ? texts[i] : texts[0]);

    switch (i) {
    case 5:
        return with(n, RATION_FIXED_WINDOW);
    case 6:
        n.limit.from_first = true;
        return with(n, RATION_FIXED_WINDOW);
    case 7:
        return with(n, RATION_SLIDING_LOG);
    case 8:
        return with(n, RATION_SLIDING_WINDOW);
    case 9:
        n.limit.sub_windows = 5;
        return with(n, RATION_SLIDING_WINDOW);
    default:
        return n;
    }
}

#define SMALL 10

/* Some have just the room that they need for those above, some have more. */
static inline struct ration_named large_one(unsigned i)
{
    struct ration_named n = named("v", "81 per minute");

    switch (i) {
    case 0:
        return named("v", "66 per minute burst 20");
    case 1:
        return named("v", "120 per minute burst 90 in steps of 20s");
    case 2:
        return named("v", "90 per minute queue 24");
    case 3:
        return with(n, RATION_FIXED_WINDOW);
    case 4:
        return with(n, RATION_SLIDING_LOG);
    case 5:
        return with(n, RATION_SLIDING_WINDOW);
    case 6:
        n = named("v", "90 per minute");
        n.limit.sub_windows = 6;
        return with(n, RATION_SLIDING_WINDOW);
    default:
        return with(named("v", "60 per minute"), RATION_FIXED_WINDOW); /* of fixed ones only */
    }
}

#define LARGE 8

static inline bool covers(const struct ration_limit *large, const struct ration_limit *small)
{
    struct rn_limit a, b;

    rn_limit_init(&a, large);
    rn_limit_init(&b, small);
    return rn_envelope_settles_ns(&a, &b) != RN_NEVER;
}

static inline void for_each_pair(void (*see)(const struct ration_named *pair))
{
    unsigned seen = 0;

    for (unsigned s = 0; s < SMALL; s++)
        for (unsigned l = 0; l < LARGE; l++) {
            const struct ration_named pair[] = {small_one(s), large_one(l)};

            if (!covers(&pair[1].limit, &pair[0].limit))
                continue;
            assert_false(covers(&pair[0].limit, &pair[1].limit));
            see(pair);
            seen++;
        }
    assert_true(seen >= SMALL * (LARGE - 1));
}

static inline void describe(const struct ration_named *n, char *out, size_t size)
{
    snprintf(out, size, "%s: %u per %u s, burst %u, queue %u, steps %u, subs %u%s",
             ration_algorithm_name(n->limit.algorithm), (unsigned)n->limit.amount,
             (unsigned)(n->limit.period_ns / SECOND), (unsigned)n->limit.burst,
             (unsigned)n->limit.queue, (unsigned)(n->limit.step_ns / SECOND), n->limit.sub_windows,
             n->limit.from_first ? ", from first" : "");
}

/* ---- a client with its own random numbers and clock */

struct client {
    uint64_t random;
    int64_t now_ns, retry_ns;
    char key[16];
};

static inline uint64_t below(struct client *c, uint64_t n)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (c->random >> 11) % n;
}

static inline struct client new_client(unsigned number)
{
    struct client c = {.random = UINT64_C(88172645463325252) + number * UINT64_C(7777777777777)};

    c.now_ns = T0 + (int64_t)below(&c, (uint64_t)MINUTE);
    snprintf(c.key, sizeof c.key, "%u", number);
    return c;
}

/* Rests for any interesting time: mostly none, often to an edge of a window or
 * until it may try again, at times until all is forgotten. */
static inline void rest(struct client *c)
{
    int64_t grid = below(c, 2) ? 10 * SECOND : MINUTE;

    switch (below(c, 16)) {
    case 0:
        c->now_ns += (int64_t)below(c, (uint64_t)(5 * MINUTE));
        break;
    case 1:
        c->now_ns += (int64_t)below(c, (uint64_t)(30 * SECOND));
        break;
    case 2:
    case 3:
        c->now_ns += (int64_t)below(c, (uint64_t)(2 * SECOND));
        break;
    case 4:
    case 5:
        c->now_ns += grid - c->now_ns % grid - (int64_t)below(c, 2);
        break;
    case 6:
    case 7:
    case 8:
        c->now_ns += c->retry_ns;
        break;
    default:
        break;
    }
    c->retry_ns = 0;
}

static inline void judge(struct model *m, const struct client *c, uint64_t cost,
                         const struct ration_named *limits, size_t n)
{
    char text[4][200] = {""};

    model_tick(m, c->now_ns);
    for (size_t i = 0; i < n; i++)
        describe(&limits[i], text[i], sizeof text[i]);
    if (!model_fits(m, cost))
        fail_msg("client %s: %u too many at %lld ns of (%s) (%s) (%s) (%s)", c->key, (unsigned)cost,
                 (long long)(c->now_ns - T0), text[0], text[1], text[2], text[3]);
    model_take(m, cost, 0);
}

/* Each client has a habit: any variant at any time; all it can get of one, then
 * of the other; long stays with one. */
static inline uint32_t choose(struct client *c, unsigned habit, uint32_t last, uint32_t n)
{
    if (habit == 0)
        return (uint32_t)below(c, n);
    if (habit == 1)
        return (last + 1) % n;
    return below(c, 40) == 0 ? (uint32_t)below(c, n) : last;
}

/* ---- rules */

#define RULE(algorithm, tiers)                                                                     \
    "limits:\n  - name: api\n    key: user\n    algorithm: " algorithm                             \
    "\n    limit:\n      by: plan\n" tiers "      default: free\n"

#endif
