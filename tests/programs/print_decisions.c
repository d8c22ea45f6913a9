/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints decisions as HTTP sends them, one a line, for test_decision_formats.py:
 *
 *   FAMILY ALLOWED RETRY_NS RESET_NS MESSAGE COUNT {RULE LIMIT REMAINING RESET_NS PERIOD_NS SHADOW}
 *
 * FAMILY is 0 to 3, texts are in hexadecimal behind an x, a period of 0 is a concurrency limit, and
 * the first limit decides. Prints the headers, the body and the problem, in hexadecimal.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/answer.h"

#define WALL_NS INT64_C(1800000000123456789)

static int64_t read_number(void)
{
    int64_t n;

    if (scanf("%" SCNd64, &n) != 1)
        exit(2);
    return n;
}

static void read_text(char *out, size_t size)
{
    char word[2 * RATION_MESSAGE_SIZE + 2];
    size_t len = 0;
    unsigned byte;

    if (scanf("%1025s", word) != 1)
        exit(2);
    for (; len + 1 < size && sscanf(word + 1 + 2 * len, "%2x", &byte) == 1; len++)
        out[len] = (char)byte;
    out[len] = '\0';
}

static void read_limit(struct ration_outcome_limit *limit)
{
    read_text(limit->rule, sizeof limit->rule);
    limit->verdict.limit = (uint64_t)read_number();
    limit->verdict.remaining = (uint64_t)read_number();
    limit->verdict.reset_after_ns = read_number();
    limit->period_ns = read_number();
    limit->amount = limit->verdict.limit;
    limit->algorithm = limit->period_ns ? RATION_TOKEN_BUCKET : RATION_CONCURRENCY;
    limit->shadow = read_number() != 0;
}

static void print(struct rn_buf *out, char end)
{
    for (size_t i = 0; i < out->len; i++)
        printf("%02x", (unsigned char)out->data[i]);
    putchar(end);
    rn_buf_clear(out);
}

int main(void)
{
    const struct rn_answer_extra extra = {.wall_ns = WALL_NS};
    struct rn_buf out = {0};
    int family;

    while (scanf("%d", &family) == 1) {
        struct ration_outcome o = {.headers = (enum ration_header_family)family, .status = 429};

        o.decision.allowed = read_number() != 0;
        o.decision.verdict.retry_after_ns = read_number();
        o.decision.verdict.reset_after_ns = read_number();
        read_text(o.message, sizeof o.message);
        o.listed = (uint32_t)read_number();
        if (o.listed < 1 || o.listed > RATION_OUTCOME_LIMITS)
            return 2;
        for (uint32_t i = 0; i < o.listed; i++)
            read_limit(&o.limits[i]);
        memcpy(o.rule, o.limits[0].rule, sizeof o.rule);
        o.decision.verdict.limit = o.limits[0].verdict.limit;
        o.decision.verdict.remaining = o.limits[0].verdict.remaining;
        rn_answer_put_headers(&out, &o, &extra);
        print(&out, ' ');
        rn_answer_put_body(&out, &o, &extra, false);
        print(&out, ' ');
        rn_answer_put_body(&out, &o, &extra, true);
        print(&out, '\n');
    }
    rn_buf_done(&out);
    return 0;
}
