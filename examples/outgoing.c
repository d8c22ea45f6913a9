/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shaping outgoing calls with a leaky bucket: a partner accepts 20 calls a
 * second and dislikes bursts. Calls queue up, each is told how long to wait
 * for its turn, and what the queue cannot hold is refused at once.
 *
 *     build/examples/outgoing
 *
 * When the partner itself answers with Retry-After, its word counts: no call
 * leaves before that time, whatever the bucket would allow.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ration/ration.h>

#define MS_NS INT64_C(1000000)

static const char limit_text[] = "20 per second queue 10";

struct partner {
    struct ration *limiter;
    int64_t start_ns;
    int64_t closed_until_ns; /* from its Retry-After; atomic if several threads call */
};

static void sleep_ns(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Takes a place in the queue. Returns how long to wait before calling, or -1
 * with the reason printed. */
static int64_t book_call(const struct partner *p, int number)
{
    int64_t now = ration_now(p->limiter);
    struct ration_charge c = {.limit = 0, .key = "partner", .key_len = 7, .cost = 1};
    int failed;

    if (now < p->closed_until_ns) {
        printf("call %2d: not sent, the partner asked for %" PRId64 " ms more\n", number,
               (p->closed_until_ns - now) / MS_NS);
        return -1;
    }
    failed = ration_take(p->limiter, &c, now);
    if (failed) {
        printf("call %2d: %s\n", number, ration_error_text(failed));
        return -1;
    }
    if (!c.verdict.allowed) {
        printf("call %2d: refused, the queue is full; again in %" PRId64 " ms\n", number,
               c.verdict.retry_after_ns / MS_NS);
        return -1;
    }
    return c.verdict.delay_ns;
}
