/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedder FILE [BYTES]: opens a limiter on FILE as an application would, uses
 * every kind of state, and closes it. Exit status 0: all went well; 3: a call of the
 * library failed and said why (on stderr); 4: a system call was made to fail and the
 * library did not report it, which is fine if the call did not matter. The preload
 * failing.c injects failures.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ration/ration.h>

static const char *const texts[] = {"100 per minute", "700000001 per second", "20 per hour",
                                    "20 per hour",    "50 per hour",          "5 concurrent"};
static const enum ration_algorithm algorithms[] = {RATION_TOKEN_BUCKET,   RATION_TOKEN_BUCKET,
                                                   RATION_FIXED_WINDOW,   RATION_SLIDING_LOG,
                                                   RATION_SLIDING_WINDOW, RATION_CONCURRENCY};
enum { LIMITS = 6 };

static int use(struct ration *r)
{
    uint64_t id;
    struct ration_decision decision;

    for (uint32_t i = 0; i < LIMITS; i++) {
        struct ration_charge c = {.limit = i, .key = "client", .key_len = 6, .cost = 1};
        int code = algorithms[i] == RATION_CONCURRENCY ? ration_acquire(r, &c, 0, RATION_NOW, &id)
                                                       : ration_take(r, &c, RATION_NOW);

        if (code != 0)
            return code;
    }
    struct ration_charge held = {.limit = 0, .key = "client", .key_len = 6, .cost = 5};
    int code = ration_reserve(r, &held, 1, 1000000000, RATION_NOW, &id, &decision);

    return code != 0 ? code : ration_refund(r, id, &held, 1, RATION_NOW);
}

int main(int argc, char **argv)
{
    void (*arm)(void);
    bool (*fired)(void);
    struct ration_named limits[LIMITS];
    struct ration_error error = {0};
    struct ration *r = NULL;
    int code;

    *(void **)&arm = dlsym(RTLD_DEFAULT, "failing_arm");
    *(void **)&fired = dlsym(RTLD_DEFAULT, "failing_fired");
    for (int i = 0; i < LIMITS; i++) {
        limits[i] = (struct ration_named){.name = "limit"};
        if (ration_limit_parse(texts[i], strlen(texts[i]), &limits[i].limit, &error) != 0)
            return 1;
        limits[i].limit.algorithm = algorithms[i];
        limits[i].name = texts[i];
    }
    limits[3].name = "log"; /* another limit, not a variant of the window */
    struct ration_options options = {.state_path = argc > 1 ? argv[1] : NULL,
                                     .memory_bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 0,
                                     .limits = limits,
                                     .limit_count = LIMITS};

    if (arm)
        arm();
    code = ration_open(&options, &r, &error);
    if (code == 0) {
        code = use(r);
        ration_close(r);
    }
    if (code != 0) {
        fprintf(stderr, "%s: %s\n", ration_error_name(code),
                *error.text ? error.text : ration_error_text(code));
        return 3;
    }
    return fired && fired() ? 4 : 0;
}
