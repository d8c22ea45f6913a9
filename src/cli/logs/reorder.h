/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in the order in which they arrived. Logs have them in the order in which they ended, so
 * each waits here until requests have been seen that arrived so much later that no older one is
 * expected. Those that are older still are not passed on. The memory is bounded: when it is
 * full, the oldest requests leave early.
 */
#ifndef RN_CLI_LOGS_REORDER_H
#define RN_CLI_LOGS_REORDER_H

#include "cli/logs/format.h"

#define RN_REORDER_BYTES_MIN (UINT64_C(2) << 20)

struct rn_reorder_chunk;

/* The requests of one second. */
struct rn_reorder_bucket {
    struct rn_reorder_chunk *first, *last;
    size_t count;
    int64_t last_ns;
    bool unsorted;
};

struct rn_reorder {
    uint64_t late;  /* requests that were too old, */
    uint64_t early; /* and that left early, because memory was full */

    uint32_t attribute_count; /* private from here on */
    size_t value_most;        /* longer values are cut */
    struct rn_reorder_bucket *buckets;
    int64_t bucket_count, base_s; /* the second of the oldest bucket */
    bool begun;
    int64_t floor_ns; /* requests before this are late */
    struct rn_reorder_chunk *unused;
    uint64_t chunks, chunks_most;
    const char **sorted; /* records of one bucket */
    size_t sorted_room;
    void (*see)(void *arg, const struct rn_logs_entry *entry);
    void *arg;
};

/* `see` is called for each request in order. False: out of memory. */
bool rn_reorder_init(struct rn_reorder *reorder, uint32_t attribute_count, int64_t horizon_ns,
                     uint64_t bytes, void (*see)(void *arg, const struct rn_logs_entry *entry),
                     void *arg);
void rn_reorder_done(struct rn_reorder *reorder);
/* False: out of memory. */
bool rn_reorder_add(struct rn_reorder *reorder, const struct rn_logs_entry *entry);
/* There are no more: passes on all that are left. False: out of memory. */
bool rn_reorder_finish(struct rn_reorder *reorder);

#endif
