/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls to a partner that allows 20 a second, and answers 429 or 503 with Retry-After when it has
 * had enough.
 *
 *     build/examples/outgoing examples/outgoing/ration.yaml calls.state stripe 127.0.0.1 3000
 * /charges 10
 *
 * All processes that name the same state file keep the rate together, and a rationd with that file
 * and these rules, too. Each call
 *   - waits in line until it is allowed (ration_wait), as long as `max_wait` of the rules says;
 *   - is made;
 *   - if the partner answers 429 or 503 with Retry-After, pauses the partner (ration_pause): nobody
 * calls it before that time, whichever process it is;
 *   - without Retry-After, backs off for a random time that grows (full jitter);
 *   - is tried ATTEMPTS times in all.
 *
 * If a decision fails (ration_error_text says why), the call is not made: the partner would block
 * us.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ration/pause.h>
#include <ration/rules.h>
#include <ration/wait.h>

#include "http_call.h"

#define RULE "partners"
#define MS_NS INT64_C(1000000)

enum { ATTEMPTS = 5, BACKOFF_FIRST_MS = 200, BACKOFF_MOST_MS = 10000, CALL_TIMEOUT_S = 10 };

struct partner {
    struct ration *limiter;
    struct ration_attribute name;
    struct ration_request request; /* what the rules see of each call */
};

/* For a random time, up to a bound that doubles with each attempt. */
static void back_off(int attempt)
{
    int64_t most_ms = (int64_t)BACKOFF_FIRST_MS << attempt;

    if (most_ms > BACKOFF_MOST_MS)
        most_ms = BACKOFF_MOST_MS;
    int64_t ns = (int64_t)(drand48() * (double)(most_ms * MS_NS));
    struct timespec left = {.tv_sec = ns / (1000 * MS_NS), .tv_nsec = ns % (1000 * MS_NS)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Stops the calls of all processes. False if Retry-After makes no sense. */
static bool pause_calls(const struct partner *p, const char *retry_after)
{
    const struct ration_pause_of of = {
        .request = &p->request, .rule = RULE, .rule_len = sizeof RULE - 1};
    struct ration_error error = {0};
    int64_t for_ns;
    int failed = ration_pause_length(retry_after, strlen(retry_after), RATION_NOW, &for_ns, &error);

    if (failed)
        fprintf(stderr, "outgoing: %s\n", error.text);
    else if ((failed = ration_pause(p->limiter, &of, for_ns, RATION_NOW, NULL)) != 0)
        fprintf(stderr, "outgoing: %s\n", ration_error_text(failed));
    return failed == 0;
}

/* One call. The status, or NULL-terminated text in *why and 0 if it was not made or not taken. A
 * call without an answer is repeated, too: the partner must know repetitions by their
 * Idempotency-Key. */
static int call_partner(const struct partner *p, struct http_call *call, const char **why)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct ration_outcome out;
        int failed = ration_wait(p->limiter, &p->request, &out);

        if (failed || !out.decision.allowed) {
            *why = failed ? ration_error_text(failed)
                          : "too many calls wait, or the partner is paused for longer";
            return 0;
        }
        http_call_make(call);
        if (call->status != 0 && call->status != 429 && call->status != 503)
            return call->status;
        if (call->retry_after[0] == '\0' || !pause_calls(p, call->retry_after))
            back_off(attempt);
    }
    *why = "the partner refused every attempt";
    return 0;
}

static int open_limiter(const char *rules, const char *state, struct ration **out)
{
    struct ration_error error = {0};
    struct ration_report *report = NULL;
    int failed = ration_open(&(struct ration_options){.state_path = state}, out, &error);

    if (failed) {
        fprintf(stderr, "outgoing: %s\n", error.text);
        return failed;
    }
    failed = ration_rules_load(*out, &rules, 1, &report);
    if (failed) {
        fputs(report ? ration_report_text(report) : ration_error_text(failed), stderr);
        ration_close(*out);
    }
    ration_report_free(report);
    return failed;
}

int main(int argc, char **argv)
{
    struct partner p = {0};

    if (argc != 8) {
        fprintf(stderr, "usage: outgoing RULES STATE PARTNER HOST PORT PATH COUNT\n");
        return 2;
    }
    if (open_limiter(argv[1], argv[2], &p.limiter) != 0)
        return EXIT_FAILURE;
    p.name = (struct ration_attribute){"partner", 7, argv[3], strlen(argv[3])};
    p.request = (struct ration_request){.attributes = &p.name, .count = 1};
    srand48(getpid());
    for (int n = 0, count = atoi(argv[7]); n < count; n++) {
        char key[64];
        struct http_call call = {.host = argv[4],
                                 .port = argv[5],
                                 .path = argv[6],
                                 .key = key,
                                 .timeout_s = CALL_TIMEOUT_S};
        const char *why = NULL;

        snprintf(key, sizeof key, "%ld-%d", (long)getpid(), n);
        if (call_partner(&p, &call, &why) != 0)
            printf("call %d: %d\n", n, call.status);
        else
            printf("call %d: not made: %s\n", n, why);
        fflush(stdout);
    }
    ration_close(p.limiter);
    return EXIT_SUCCESS;
}
