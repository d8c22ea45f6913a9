/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that rationd's own code takes for a decision, from bytes to bytes:
 * reading the command, deciding, counting, writing the reply.
 *
 *   bench-front
 */
#include <stdio.h>

#include "front/http/conversation.h"
#include "front/resp/resp_internal.h"
#include "limiter/effect/effect.h"
#include "paper.h"

#define ALONE 8 /* wake-ups of one command: each has another key in a pipeline */

static unsigned missed;

enum command { CL_THROTTLE, RATION_CHECK, HTTP_CHECK, HTTP_DESCRIPTORS };

static void put_command(struct rn_buf *bytes, enum command command, unsigned i)
{
    char key[32], body[128];
    int len = snprintf(key, sizeof key, "key:%012u", i * 7919 % 10000);
    struct ration_attribute attributes[] = {{"user", 4, key, (size_t)len},
                                            {"path", 4, "/api/items", 10}};
    struct ration_request request = {.attributes = attributes, .count = 2};

    switch (command) {
    case CL_THROTTLE:
        rn_buf_putf(bytes, "*5\r\n$11\r\nCL.THROTTLE\r\n$%d\r\n%s\r\n", len, key);
        rn_buf_putf(bytes, "$3\r\n999\r\n$4\r\n1000\r\n$1\r\n1\r\n");
        break;
    case RATION_CHECK:
        paper_put_resp_check(bytes, &request);
        break;
    case HTTP_CHECK:
        paper_put_http_check(bytes, &request);
        break;
    case HTTP_DESCRIPTORS:
        snprintf(body, sizeof body,
                 "{\"domain\":\"shop\",\"descriptors\":[{\"entries\":"
                 "[{\"key\":\"user\",\"value\":\"%s\"}]}]}",
                 key);
        paper_put_http_post(bytes, "/json", body);
        break;
    }
}

/* `goal` 0: none was set. */
static void row(struct rn_front *front, const char *what, enum command command, unsigned pipeline,
                double goal)
{
    bool resp = command == CL_THROTTLE || command == RATION_CHECK;
    struct rn_buf bytes = {0};

    for (unsigned i = 0; i < pipeline; i++)
        put_command(&bytes, command, i);
    double steps = paper_steps(front, resp ? &rn_resp_protocol : &rn_http_protocol,
                               rn_buf_slice(&bytes), pipeline == 1 ? ALONE : 1) /
                   pipeline;

    rn_buf_done(&bytes);
    printf("  %-46s %8.0f", what, steps);
    if (goal > 0)
        printf("   goal <= %-5g %s", goal, steps <= goal ? "met" : "MISSED");
    putchar('\n');
    fflush(stdout);
    missed += goal > 0 && steps > goal;
}

static bool open_front(struct rn_front *front, struct rn_slice rules)
{
    struct ration_error error;

    if (ration_open(&(struct ration_options){0}, &front->limiter, &error) != 0)
        return false;
    rn_effect_watch(front->limiter); /* as rationd does */
    return ration_rules_parse(front->limiter, "rules", rules.data, rules.len, NULL) == 0 &&
           rn_front_init(front, front->limiter, NULL) == 0;
}

static void close_front(struct rn_front *front)
{
    struct ration *limiter = front->limiter;

    rn_front_done(front);
    ration_close(limiter);
}

int main(void)
{
    struct rn_slice rules = rn_slice_of("limits:\n"
                                        "  - {name: api, when: {path: /api/**}, key: user, limit: "
                                        "1000000 per second}\n");
    struct rn_slice envoy_rules = rn_slice_of("domain: shop\n"
                                              "descriptors:\n"
                                              "  - key: user\n"
                                              "    rate_limit: {unit: second, "
                                              "requests_per_unit: 1000000}\n");
    struct rn_front front = {0}, envoy_front = {0};

    if (!open_front(&front, rules) || !open_front(&envoy_front, envoy_rules))
        return 1;
    puts("instructions for a decision, from bytes to bytes");
    row(&front, "CL.THROTTLE, pipeline 64", CL_THROTTLE, 64, 600);
    row(&front, "CL.THROTTLE, alone", CL_THROTTLE, 1, 0);
    row(&front, "RATION.CHECK, one rule of one, pipeline 64", RATION_CHECK, 64, 0);
    row(&front, "POST /v1/check, one rule of one, pipeline 16", HTTP_CHECK, 16, 4000);
    row(&envoy_front, "POST /json, one descriptor, pipeline 4", HTTP_DESCRIPTORS, 4, 0);
    close_front(&front);
    close_front(&envoy_front);
    printf(missed ? "%u goals missed\n" : "all goals met\n", missed);
    return 0;
}
