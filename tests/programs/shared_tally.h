/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What test programs share besides the state file: a file of counters that the
 * test reads, and the limits they use. No limit refills or ends while a test
 * runs, so that what was admitted can be told exactly.
 */
#ifndef TEST_PROGRAMS_SHARED_TALLY_H
#define TEST_PROGRAMS_SHARED_TALLY_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/limit.h"
#include "store/table.h"

#define HOUR_NS (INT64_C(3600) * 1000000000)
#define LONG_NS (INT64_C(3650) * 24 * HOUR_NS) /* ten years */

/* test_processes.py reads the first words by position. */
struct tally {
    _Atomic uint64_t ready;    /* [0] threads at the start line */
    _Atomic uint64_t next;     /* [1] next ticket */
    _Atomic uint64_t admitted; /* [2] */
    _Atomic uint64_t errors;   /* [3] charges that could not be decided */
    _Atomic uint64_t unused[4];
    _Atomic uint32_t of_key[]; /* admissions of each key */
};

static inline void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(2);
}

static inline struct tally *map_tally(const char *path, uint64_t keys)
{
    size_t bytes = sizeof(struct tally) + keys * sizeof(uint32_t);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *mapping;

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        die("cannot make the tally");
    mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED)
        die("cannot map the tally");
    close(fd);
    return mapping;
}

static inline uint64_t key_of(uint64_t number)
{
    uint64_t z = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* bucket, window, hour, wide, counter, subs, log, places */
static inline struct rn_limit limit_named(const char *name, uint64_t amount)
{
    struct ration_limit spec = {
        .algorithm = RATION_TOKEN_BUCKET, .amount = amount, .period_ns = LONG_NS};
    struct rn_limit limit;

    if (strcmp(name, "window") == 0 || strcmp(name, "wide") == 0) {
        spec.algorithm = RATION_FIXED_WINDOW;
        spec.from_first = true;
    } else if (strcmp(name, "hour") == 0) { /* as the wall clock has it */
        spec.algorithm = RATION_FIXED_WINDOW;
        spec.period_ns = HOUR_NS;
    } else if (strcmp(name, "counter") == 0) {
        spec.algorithm = RATION_SLIDING_WINDOW;
    } else if (strcmp(name, "subs") == 0) {
        spec.algorithm = RATION_SLIDING_WINDOW;
        spec.sub_windows = 60;
    } else if (strcmp(name, "log") == 0) {
        spec.algorithm = RATION_SLIDING_LOG;
    } else if (strcmp(name, "places") == 0) {
        spec = (struct ration_limit){.algorithm = RATION_CONCURRENCY, .amount = amount};
    } else if (strcmp(name, "bucket") != 0) {
        die("unknown limit");
    }
    if (rn_limit_fault(&spec))
        die(rn_limit_fault(&spec));
    rn_limit_init(&limit, &spec);
    return limit;
}

static inline struct rn_table *open_state(const char *path, uint64_t bytes)
{
    struct rn_table_options options = {.path = path, .bytes = bytes, .block_share = 60};
    struct ration_error error;
    struct rn_table *table;

    if (rn_table_open(&options, &table, &error) != 0)
        die(error.text);
    if (error.text[0] != '\0')
        die(error.text);
    return table;
}

#endif
