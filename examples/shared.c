/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing a limit between processes: four workers open one state file and take
 * from one key as fast as they can. However they interleave, together they are
 * admitted exactly what was left, not one more.
 *
 *     build/examples/shared [STATE_FILE [TAKES_PER_WORKER]]
 *
 * Without arguments the file is a temporary one, and what was left is the whole
 * limit. State outlives processes: a second run with the same file within the
 * hour finds nothing left.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ration/ration.h>

enum { WORKERS = 4, LIMIT = 500000 };

/* A window from the first request on: nothing comes back during the run, so
 * that the total can be checked to the unit. */
static const struct ration_named limits[] = {
    {"shared",
     {.algorithm = RATION_FIXED_WINDOW,
      .amount = LIMIT,
      .period_ns = INT64_C(3600) * 1000000000,
      .from_first = true},
     0},
};

static const struct ration_charge one = {.limit = 0, .key = "everyone", .key_len = 8, .cost = 1};

static struct ration *open_state(const char *path)
{
    struct ration_options options = {.state_path = path, .limits = limits, .limit_count = 1};
    struct ration_error error;
    struct ration *r = NULL;

    if (ration_open(&options, &r, &error) != 0) {
        fprintf(stderr, "shared: %s\n", error.text);
        exit(EXIT_FAILURE);
    }
    return r;
}

static uint64_t units_left(const char *path)
{
    struct ration *r = open_state(path);
    struct ration_charge c = one;
    int failed = ration_peek(r, &c, RATION_NOW);

    ration_close(r);
    return failed ? 0 : c.verdict.remaining;
}

/* Runs in a process of its own, which opens the file for itself, as processes
 * that are not related would. */
static void work(const char *path, long takes, int start, int results)
{
    struct ration *r = open_state(path);
    uint64_t admitted = 0;
    char byte;

    if (read(start, &byte, 1) != 0) /* returns at the end of the pipe: all go at once */
        _exit(EXIT_FAILURE);
    for (long i = 0; i < takes; i++) {
        struct ration_charge c = one;

        if (ration_take(r, &c, RATION_NOW) != 0)
            _exit(EXIT_FAILURE);
        admitted += c.verdict.allowed;
    }
    ration_close(r);
    _exit(write(results, &admitted, sizeof admitted) != (ssize_t)sizeof admitted);
}

static void start_workers(const char *path, long takes, const int start[2], const int results[2])
{
    for (int i = 0; i < WORKERS; i++) {
        pid_t pid = fork();

        if (pid < 0) {
            perror("shared: fork");
            exit(EXIT_FAILURE);
        }
        if (pid == 0) {
            close(start[1]);
            work(path, takes, start[0], results[1]);
        }
    }
    close(start[1]);
    close(results[1]);
}

int main(int argc, char **argv)
{
    char temporary[] = "/tmp/ration-shared-XXXXXX";
    const char *path = argc > 1 ? argv[1] : mkdtemp(temporary);
    long takes = argc > 2 ? atol(argv[2]) : LIMIT / 2;
    char file[64];
    int start[2], results[2], status, failed = 0;
    uint64_t total = 0, admitted;

    if (path == NULL || pipe(start) != 0 || pipe(results) != 0) {
        perror("shared");
        return EXIT_FAILURE;
    }
    if (argc < 2) {
        snprintf(file, sizeof file, "%s/state", temporary);
        path = file;
    }
    uint64_t left = units_left(path), tries = (uint64_t)takes * WORKERS;
    uint64_t expected = tries < left ? tries : left;

    start_workers(path, takes, start, results);
    while (read(results[0], &admitted, sizeof admitted) == (ssize_t)sizeof admitted) {
        printf("a worker was admitted %" PRIu64 " of %ld times\n", admitted, takes);
        total += admitted;
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    if (argc < 2) {
        unlink(path);
        rmdir(temporary);
    }
    printf("admitted %" PRIu64 " in all; %" PRIu64 " of %d were left: %s\n", total, left, LIMIT,
           total == expected && !failed ? "exact" : "WRONG");
    return total == expected && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
