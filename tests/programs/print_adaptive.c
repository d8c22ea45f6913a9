/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides a trace of adaptive places with core, for tests/system/test_redis_adaptive.py, which
 * decides the same trace in Redis.
 *
 * usage: print_adaptive MIN MAX LEASE_US
 * stdin: a line for each operation: its name, the time in us, id, cost
 * stdout: a line for each: allowed, remaining, retry_us, reset_us, places, best_us, recent_us
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/limit.h"

#define US 1000

static enum rn_op operation_of(const char *name)
{
    static const struct {
        const char *name;
        enum rn_op op;
    } operations[] = {{"take", RN_TAKE},
                      {"peek", RN_PEEK},
                      {"renew", RN_RENEW},
                      {"release", RN_RELEASE},
                      {"give_back", RN_GIVE_BACK}};

    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0)
            return operations[i].op;
    fprintf(stderr, "no operation: %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    struct ration_limit spec = {.algorithm = RATION_CONCURRENCY};
    struct rn_limit limit;
    char name[16];
    int64_t now_us;
    uint64_t id, cost;

    if (argc != 4)
        return 2;
    spec.adaptive_min = (uint16_t)strtoul(argv[1], NULL, 10);
    spec.amount = strtoull(argv[2], NULL, 10);
    spec.lease_ns = strtoll(argv[3], NULL, 10) * US;
    if (rn_limit_fault(&spec))
        return 2;
    rn_limit_init(&limit, &spec);
    uint64_t *state = calloc(limit.words_full, sizeof *state);

    if (!state)
        return 2;
    while (scanf("%15s %" SCNd64 " %" SCNu64 " %" SCNu64, name, &now_us, &id, &cost) == 4) {
        struct rn_ask ask = {.op = operation_of(name),
                             .now_ns = now_us * US,
                             .cost = cost,
                             .id = id,
                             .lease_ns = limit.lease_ns};
        struct rn_answer a = {0};

        (void)rn_limit_apply(&limit, state, limit.words_full, &ask, &a);
        printf("%d %" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 " %u %u\n", a.allowed, a.remaining,
               a.retry_after_ns == RN_NEVER ? -1 : a.retry_after_ns / US, a.reset_after_ns / US,
               a.places, a.latency.best_us, a.latency.recent_us);
    }
    free(state);
    return 0;
}
