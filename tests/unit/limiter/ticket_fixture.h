/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tickets share: short ways to make and to settle them. */
#ifndef RN_TESTS_LIMITER_TICKET_FIXTURE_H
#define RN_TESTS_LIMITER_TICKET_FIXTURE_H

#include "rules_fixture.h"

static const char tokens[] = "limits:\n"
                             "  - { name: minute, key: user, limit: 1000 per minute }\n"
                             "  - name: day\n"
                             "    key: user\n"
                             "    algorithm: fixed-window\n"
                             "    limit: 5000 per day\n";

struct slip {
    char text[RATION_TICKET_SIZE];
    struct ration_outcome out;
};

/* A reservation for a minute. */
static inline void reserve(struct ration *r, const char *words, uint64_t cost, int64_t now_ns,
                           struct slip *slip)
{
    struct words w;

    split_words(&w, words);
    w.request.cost = cost;
    assert_int_equal(ration_decide_reserve(r, &w.request, MINUTE, now_ns, &slip->out, slip->text),
                     0);
}

static inline void acquire(struct ration *r, const char *words, int64_t lease_ns, int64_t now_ns,
                           struct slip *slip)
{
    struct words w;

    split_words(&w, words);
    assert_int_equal(
        ration_acquire_request(r, &w.request, lease_ns, now_ns, &slip->out, slip->text), 0);
}

static inline int commit(struct ration *r, const struct slip *slip, uint64_t cost, int64_t now_ns)
{
    return ration_ticket_commit(r, slip->text, strlen(slip->text), false, cost, now_ns);
}

static inline int refund(struct ration *r, const struct slip *slip, int64_t now_ns)
{
    return ration_ticket_refund(r, slip->text, strlen(slip->text), now_ns);
}

static inline int renew(struct ration *r, const struct slip *slip, int64_t lease_ns, int64_t now_ns,
                        int64_t *expires_after_ns)
{
    return ration_ticket_renew(r, slip->text, strlen(slip->text), lease_ns, now_ns,
                               expires_after_ns);
}

static inline int release(struct ration *r, const struct slip *slip, int64_t now_ns)
{
    return ration_ticket_release(r, slip->text, strlen(slip->text), now_ns);
}

static inline struct ration *open_file(const char *path)
{
    struct ration_options options = {.state_path = path, .memory_bytes = UINT64_C(1) << 20};
    struct ration_error error;
    struct ration *r = NULL;

    if (ration_open(&options, &r, &error) != 0)
        fail_msg("%s", error.text);
    return r;
}

#endif
