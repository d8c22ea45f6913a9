/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what an algorithm of one's own admits, beside two of the library's: a client spends all it
 * can at once, and comes back every ten seconds for whatever it gets.
 *
 * usage: own-algorithm LIMIT     own-algorithm "100 per minute"
 */
#include <stdio.h>
#include <string.h>

#include <ration/ration.h>

#include "decay.h"

#define SECOND_NS INT64_C(1000000000)

static unsigned long take_all(struct ration *r, uint32_t limit, int64_t now_ns)
{
    struct ration_charge c = {.limit = limit, .key = "ada", .key_len = 3, .cost = 0};

    if (ration_peek(r, &c, now_ns) != 0)
        return 0;
    c.cost = c.verdict.remaining;
    return c.cost != 0 && ration_take(r, &c, now_ns) == 0 && c.verdict.allowed ? c.cost : 0;
}

int main(int argc, char **argv)
{
    struct ration_named limits[] = {
        {.name = "decay"}, {.name = "token-bucket"}, {.name = "fixed-window"}};
    struct ration_options options = {.limits = limits, .limit_count = 3};
    struct ration_error error;
    struct ration *r;

    if (argc != 2) {
        fprintf(stderr, "usage: own-algorithm LIMIT, for example \"100 per minute\"\n");
        return 2;
    }
    for (int i = 0; i < 3; i++) {
        if (ration_limit_parse(argv[1], strlen(argv[1]), &limits[i].limit, &error) != 0) {
            fprintf(stderr, "own-algorithm: %s\n", error.text);
            return 2;
        }
    }
    limits[0].limit.algorithm = RATION_OWN_ALGORITHM;
    limits[0].limit.own = &decay;
    limits[2].limit.algorithm = RATION_FIXED_WINDOW;
    limits[2].limit.from_first = true;
    if (ration_open(&options, &r, &error) != 0) {
        fprintf(stderr, "own-algorithm: %s\n", error.text);
        return 1;
    }
    int64_t begin_ns = ration_now(r);

    printf("seconds  decay  token-bucket  fixed-window\n");
    for (int s = 0; s <= 120; s += 10) {
        int64_t now_ns = begin_ns + s * SECOND_NS;

        printf("%7d %6lu %13lu %13lu\n", s, take_all(r, 0, now_ns), take_all(r, 1, now_ns),
               take_all(r, 2, now_ns));
    }
    ration_close(r);
    return 0;
}
