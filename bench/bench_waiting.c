/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others pay for those that wait in line: instructions of a decision for which nobody waits,
 * with nobody in line anywhere and with 10,000 waiters in 1,000 lines. Then the cost of waiting
 * itself: to be refused by a line, to stand in line, to have one's turn, and bytes.
 *
 *   bench-waiting
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/wait.h>

#include "front/http/conversation.h"
#include "front/resp/resp_internal.h"
#include "paper.h"
#include "steps.h"

#define LINES 1000
#define WAITERS 10000
#define PIPELINE 64
#define TURNS 100 /* that are counted */
#define GOAL 1.05
#define MINUTE_NS INT64_C(60000000000)
#define MS_NS INT64_C(1000000)

enum way { BY_TAKE, BY_DECIDE, BY_CHECK, BY_THROTTLE, BY_HTTP, WAYS };

static const char *const way_names[WAYS] = {"ration_take()", "ration_decide()",
                                            "RATION.CHECK, pipeline 64", "CL.THROTTLE, pipeline 64",
                                            "POST /v1/check, pipeline 16"};

struct waiting_request {
    struct ration_waiter waiter;
    struct bench *bench;
    char user[24];
};

struct bench {
    struct rn_front front;
    struct ration_waiting *waiting;
    struct waiting_request *requests;
    int64_t now_ns;
    unsigned admitted;
};

static unsigned missed;

static void must(bool worked, const char *what)
{
    if (worked)
        return;
    fprintf(stderr, "bench-waiting: %s failed\n", what);
    exit(1);
}

/* --- requests ------------------------------------------------------------------------------ */

static int decide(struct bench *b, const char *user, const char *path, struct ration_waiter *waiter,
                  struct ration_outcome *out)
{
    struct ration_attribute attributes[] = {{"user", 4, user, strlen(user)},
                                            {"path", 4, path, strlen(path)}};

    return ration_decide(
        b->front.limiter,
        &(struct ration_request){.attributes = attributes, .count = 2, .waiter = waiter}, b->now_ns,
        out);
}

static void take_turn(struct ration_waiter *waiter)
{
    struct waiting_request *request = (struct waiting_request *)(void *)waiter; /* first member */
    struct ration_outcome out;
    int code = decide(request->bench, request->user, "/line/x", waiter, &out);

    must(code == 0 && out.decision.allowed, "a turn");
    request->bench->admitted++;
}

/* Line i opens i milliseconds after the first one. */
static void stand_in_line(struct bench *b, unsigned i)
{
    struct waiting_request *request = &b->requests[i];
    struct ration_outcome out;

    *request =
        (struct waiting_request){.waiter = {.waiting = b->waiting, .turn = take_turn}, .bench = b};
    snprintf(request->user, sizeof request->user, "waits:%u", i % LINES);
    b->now_ns += i < LINES ? MS_NS : 0;
    if (i < LINES)
        must(decide(b, request->user, "/line/x", NULL, &out) == 0 && out.decision.allowed,
             "the first of a line");
    must(decide(b, request->user, "/line/x", &request->waiter, &out) == RATION_EWAITS, "to wait");
}

/* --- settings ------------------------------------------------------------------------------ */

static struct bench *bench_new(void)
{
    static const char rules[] =
        "limits:\n"
        "  - {name: api, when: {path: /api/**}, key: user, limit: 1000000 per second}\n"
        "  - {name: line, when: {path: /line/**}, key: user, limit: 1 per minute, "
        "queue: {size: 100, max_wait: 1h}}\n";
    struct bench *b = calloc(1, sizeof *b);
    struct ration_named named = {.name = "a",
                                 .limit = {.algorithm = RATION_TOKEN_BUCKET,
                                           .amount = 1000000,
                                           .period_ns = INT64_C(1000000000)}};
    struct ration_error error;

    must(b != NULL, "calloc");
    must(ration_open(&(struct ration_options){.limits = &named, .limit_count = 1},
                     &b->front.limiter, &error) == 0,
         "ration_open");
    must(ration_rules_parse(b->front.limiter, "rules", rules, strlen(rules), NULL) == 0,
         "ration_rules_parse");
    must(rn_front_init(&b->front, b->front.limiter, NULL) == 0, "rn_front_init");
    must(ration_waiting_new(b->front.limiter, NULL, NULL, &b->waiting) == 0, "ration_waiting_new");
    b->requests = calloc(WAITERS, sizeof *b->requests);
    must(b->requests != NULL, "calloc");
    b->now_ns = ration_now(b->front.limiter);
    return b;
}

/* Only glibc counts. */
static size_t allocated(void)
{
#ifdef __GLIBC__
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

/* Bytes of the heap for each waiter, besides its own. */
static double fill_lines(struct bench *b)
{
    size_t before = allocated();

    for (unsigned i = 0; i < WAITERS; i++)
        stand_in_line(b, i);
    return (double)(allocated() - before) / WAITERS;
}

static void bench_free(struct bench *b)
{
    struct ration *limiter = b->front.limiter;

    for (unsigned i = 0; i < WAITERS; i++)
        ration_waiter_leave(&b->requests[i].waiter);
    ration_waiting_free(b->waiting);
    rn_front_done(&b->front);
    ration_close(limiter);
    free(b->requests);
    free(b);
}

/* --- counting ------------------------------------------------------------------------------ */

static void name_client(char user[32], unsigned i)
{
    snprintf(user, 32, "key:%012u", i * 7919 % 10000);
}

static void take_each(void *context, uint64_t count)
{
    const struct bench *b = context;
    static char users[PIPELINE][32];

    for (unsigned i = 0; i < PIPELINE && users[i][0] == '\0'; i++)
        name_client(users[i], i);
    for (; count > 0; count--)
        for (unsigned i = 0; i < PIPELINE; i++) {
            struct ration_charge c = {.key = users[i], .key_len = 16, .cost = 1};

            ration_take(b->front.limiter, &c, RATION_NOW);
        }
}

static void decide_each(void *context, uint64_t count)
{
    struct bench *b = context;
    static char users[PIPELINE][32];
    struct ration_outcome out;

    for (unsigned i = 0; i < PIPELINE && users[i][0] == '\0'; i++)
        name_client(users[i], i);
    for (; count > 0; count--)
        for (unsigned i = 0; i < PIPELINE; i++)
            decide(b, users[i], "/api/items", NULL, &out);
}

static void put_command(struct rn_buf *bytes, enum way way, unsigned i)
{
    char user[32];

    name_client(user, i);
    struct ration_attribute attributes[] = {{"user", 4, user, strlen(user)},
                                            {"path", 4, "/api/items", 10}};
    struct ration_request request = {.attributes = attributes, .count = 2};

    if (way == BY_CHECK)
        paper_put_resp_check(bytes, &request);
    else if (way == BY_HTTP)
        paper_put_http_check(bytes, &request);
    else
        rn_buf_putf(
            bytes,
            "*5\r\n$11\r\nCL.THROTTLE\r\n$%zu\r\n%s\r\n$3\r\n999\r\n$4\r\n1000\r\n$1\r\n1\r\n",
            strlen(user), user);
}

static double steps_over_wire(struct bench *b, enum way way)
{
    unsigned pipeline = way == BY_HTTP ? 16 : PIPELINE;
    struct rn_buf bytes = {0};

    for (unsigned i = 0; i < pipeline; i++)
        put_command(&bytes, way, i);
    double steps = paper_steps(&b->front, way == BY_HTTP ? &rn_http_protocol : &rn_resp_protocol,
                               rn_buf_slice(&bytes), 1);

    rn_buf_done(&bytes);
    return steps / pipeline;
}

static double steps_of(struct bench *b, enum way way)
{
    switch (way) {
    case BY_TAKE:
        return bench_steps(take_each, b, 1) / PIPELINE;
    case BY_DECIDE:
        return bench_steps(decide_each, b, 1) / PIPELINE;
    case BY_CHECK:
    case BY_THROTTLE:
    case BY_HTTP:
        return steps_over_wire(b, way);
    case WAYS:
        break;
    }
    return 0;
}

/* --- waiting itself ------------------------------------------------------------------------ */

static void be_refused(void *context, uint64_t count)
{
    struct bench *b = context;
    struct ration_outcome out;

    for (uint64_t i = 0; i < count; i++) {
        must(decide(b, b->requests[i].user, "/line/x", NULL, &out) == 0 && !out.decision.allowed,
             "a refusal by the line");
    }
}

/* The last waiters leave and stand in line again. */
static void stand_again(void *context, uint64_t count)
{
    struct bench *b = context;

    for (uint64_t i = 0; i < count; i++) {
        ration_waiter_leave(&b->requests[WAITERS - 1 - i].waiter);
        stand_in_line(b, WAITERS - 1 - (unsigned)i);
    }
}

/* One line opens each millisecond. The limit of a line lets one in; the next one waits on. */
static void have_turns(void *context, uint64_t count)
{
    struct bench *b = context;

    for (uint64_t i = 0; i < count; i++) {
        b->now_ns += MS_NS;
        ration_waiting_run(b->waiting, b->now_ns);
    }
}

static void verify_turns(struct bench *b)
{
    b->now_ns += MINUTE_NS - LINES * MS_NS;
    have_turns(b, 10);
    must(b->admitted >= 9 && b->admitted <= 11, "one turn each millisecond");
}

int main(void)
{
    struct bench *empty = bench_new(), *full = bench_new();
    double bytes = fill_lines(full);

    puts(
        "instructions of a decision for which nobody waits: nobody in line, 10,000 in 1,000 lines");
    for (enum way way = 0; way < WAYS; way++) {
        double without = steps_of(empty, way), with = steps_of(full, way);
        bool met = with <= GOAL * without;

        missed += !met;
        printf("  %-30s %8.0f %8.0f %7.3f times   goal <= %g %s\n", way_names[way], without, with,
               with / without, GOAL, met ? "met" : "MISSED");
        fflush(stdout);
    }
    puts("waiting itself: instructions in the library, 10 in each of 1,000 lines");
    printf("  %-30s %8.0f\n", "refused because others wait", bench_steps(be_refused, full, TURNS));
    printf("  %-30s %8.0f\n", "leave, and stand in line again",
           bench_steps(stand_again, full, TURNS));
    verify_turns(full);
    printf("  %-30s %8.0f\n", "a turn, and admitted", bench_steps(have_turns, full, TURNS));
    printf("  %-30s %8.0f\n", "bytes of a waiter", (double)sizeof(struct ration_waiter) + bytes);
    bench_free(empty);
    bench_free(full);
    printf(missed ? "%u goals missed\n" : "all goals met\n", missed);
    return 0;
}
