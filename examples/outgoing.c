/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shaping outgoing calls with a leaky bucket: a partner accepts 20 calls a
 * second and dislikes bursts. Calls queue up, each is told how long to wait
 * for its turn, and what the queue cannot hold is refused at once.
 *
 *     build/examples/outgoing
 *
 * When the partner itself answers with Retry-After, its word counts: nothing
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

#define SECOND_NS INT64_C(1000000000)
#define MS_NS INT64_C(1000000)

enum { CALLS = 12 };

struct partner {
    struct ration *limiter;
    int64_t closed_until_ns; /* from its Retry-After; make it atomic if threads share it */
};

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void sleep_until(const struct partner *p, int64_t due_ns)
{
    int64_t ns = longer(due_ns - ration_now(p->limiter), 0);
    struct timespec left = {.tv_sec = ns / SECOND_NS, .tv_nsec = ns % SECOND_NS};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Takes a place in the queue. Returns 0 and when the call may leave, 1 and when
 * to ask again, or a RATION_E*. */
static int book(const struct partner *p, int64_t *due_ns)
{
    struct ration_charge c = {.limit = 0, .key = "partner", .key_len = 7, .cost = 1};
    int64_t now = ration_now(p->limiter);
    int failed = ration_take(p->limiter, &c, now);

    if (failed)
        return failed;
    *due_ns = now + (c.verdict.allowed ? c.verdict.delay_ns : c.verdict.retry_after_ns);
    *due_ns = longer(*due_ns, p->closed_until_ns);
    return c.verdict.allowed ? 0 : 1;
}

/* The form in seconds; a date would need a calendar. */
static void heed_retry_after(struct partner *p, const char *value)
{
    long seconds = strtol(value, NULL, 10);

    if (seconds > 0 && seconds < 86400)
        p->closed_until_ns =
            longer(p->closed_until_ns, ration_now(p->limiter) + seconds * SECOND_NS);
}

/* A burst of calls, booked at once, sent as their turns come. */
static int send_burst(const struct partner *p)
{
    int64_t start = ration_now(p->limiter), due[CALLS];
    int outcome[CALLS];

    for (int i = 0; i < CALLS; i++)
        outcome[i] = book(p, &due[i]);
    for (int i = 0; i < CALLS; i++) {
        if (outcome[i] < 0)
            return outcome[i];
        if (outcome[i] > 0) {
            printf("call %2d  refused: the queue is full, again in %" PRId64 " ms\n", i + 1,
                   (due[i] - start) / MS_NS);
            continue;
        }
        sleep_until(p, due[i]);
        printf("call %2d  left at %3" PRId64 " ms\n", i + 1,
               (ration_now(p->limiter) - start) / MS_NS);
    }
    return 0;
}

static int send_after_pause(struct partner *p)
{
    int64_t start = ration_now(p->limiter), due;

    printf("the partner answers 429 with Retry-After: 1\n");
    heed_retry_after(p, "1");
    int outcome = book(p, &due);
    if (outcome != 0)
        return outcome;
    sleep_until(p, due);
    printf("call %2d  left %" PRId64 " ms after that\n", CALLS + 1,
           (ration_now(p->limiter) - start) / MS_NS);
    return 0;
}

int main(void)
{
    static const char text[] = "20 per second queue 10";
    struct ration_named limit = {.name = "partner"};
    struct ration_error error = {0};
    struct partner p = {0};
    int failed = ration_limit_parse(text, strlen(text), &limit.limit, &error);

    if (!failed)
        failed = ration_open(&(struct ration_options){.limits = &limit, .limit_count = 1},
                             &p.limiter, &error);
    if (failed) {
        fprintf(stderr, "outgoing: %s\n", error.text);
        return EXIT_FAILURE;
    }
    printf("%s: %d calls at once\n", text, CALLS);
    failed = send_burst(&p);
    if (!failed)
        failed = send_after_pause(&p);
    if (failed)
        fprintf(stderr, "outgoing: %s\n", failed < 0 ? ration_error_text(failed) : "refused");
    ration_close(p.limiter);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
