/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the limiter share: opening one, and short ways to charge it. */
#ifndef RN_TESTS_LIMITER_FIXTURE_H
#define RN_TESTS_LIMITER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <ration/ration.h>

#include "limiter/limiter.h"

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)
/* Some day at noon, to the minute: windows aligned to the epoch begin here. */
#define T0 (INT64_C(1699963200) * SECOND)

/* What pauses have of every board: words, with the head of their entry. */
#define PAUSE_WORDS (1 + sizeof(struct rn_pause_board) / sizeof(uint64_t))

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A named limit from its text. */
static inline struct ration_named named(const char *name, const char *text)
{
    struct ration_named n = {.name = name};
    struct ration_error error;

    if (ration_limit_parse(text, strlen(text), &n.limit, &error) != 0)
        fail_msg("%s: %s", text, error.text);
    return n;
}

static inline struct ration_named with(struct ration_named n, enum ration_algorithm algorithm)
{
    n.limit.algorithm = algorithm;
    return n;
}

static inline struct ration_named flagged(struct ration_named n, unsigned flags)
{
    n.flags = flags;
    return n;
}

static inline struct ration *open_limits(const struct ration_named *limits, size_t n)
{
    struct ration_options options = {
        .memory_bytes = UINT64_C(4) << 20, .limits = limits, .limit_count = n};
    struct ration_error error;
    struct ration *r = NULL;

    if (ration_open(&options, &r, &error) != 0)
        fail_msg("%s", error.text);
    return r;
}

static inline struct ration_charge charge(uint32_t limit, const char *key, uint64_t cost)
{
    return (struct ration_charge){.limit = limit, .key = key, .key_len = strlen(key), .cost = cost};
}

static inline bool take(struct ration *r, uint32_t limit, const char *key, uint64_t cost,
                        int64_t now_ns)
{
    struct ration_charge c = charge(limit, key, cost);

    assert_int_equal(ration_take(r, &c, now_ns), 0);
    return c.verdict.allowed;
}

static inline uint64_t left(struct ration *r, uint32_t limit, const char *key, int64_t now_ns)
{
    struct ration_charge c = charge(limit, key, 0);

    assert_int_equal(ration_peek(r, &c, now_ns), 0);
    return c.verdict.remaining;
}

/* That time, with the wall clock stopped there: windows stay where they are while
 * the clock of the machine is being adjusted. */
static inline int64_t stopped_at(struct ration *r, int64_t now_ns)
{
    struct rn_anchor *anchor = ((struct rn_table_face *)(void *)r->table)->anchor;

    __atomic_store_n(&anchor->checked_ns, now_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&anchor->wall_offset_ns, 0, __ATOMIC_RELAXED);
    return now_ns;
}

static inline void assert_same(const struct ration_verdict *a, const struct ration_verdict *b)
{
    assert_int_equal(a->allowed, b->allowed);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
    assert_int_equal(a->delay_ns, b->delay_ns);
}

#endif
