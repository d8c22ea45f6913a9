/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of your own: where the states of limits are kept, in the place of the library's memory.
 * Processes and machines that use the same store share their limits exactly.
 *
 * The library computes; a store only keeps records of bytes by 64-bit keys, and changes some of
 * them in one transaction. So every algorithm, receipt, lease and reservation works with any store,
 * and no store can get the arithmetic wrong.
 *
 *     struct ration_store store = {.size = sizeof store, .arg = database, .update = update};
 *     struct ration_options options = {.store = &store};
 *     ration_open(&options, &r, &error);
 *
 * update() begins a transaction, finds the records, calls compute, writes what has changed, and
 * commits.
 *
 * A complete one, on SQLite: examples/own-store/. The guide: docs/extending.md.
 */
#ifndef RATION_STORE_H
#define RATION_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Records of one update, at most. */
#define RATION_UPDATE_MAX 64
/* Bytes of a record, at most. Most have 16 to 64; a sliding log or places have more. */
#define RATION_RECORD_MAX 262152

struct ration_record {
    uint64_t key; /* given by the library; no two of one update are equal */

    /* Set by the store before compute: what it has under the key. len 0: nothing. The bytes belong
     * to the store and must stay as they are until compute returns. They need no alignment. */
    const void *data;
    size_t len;

    /* Set by compute. If `changed`, data and len are the new bytes, which belong to the library and
     * stay until update returns; len 0: delete the record. Else leave the record alone. */
    bool changed;
    /* If changed: from this time on (the library's, see ration_now) the record is worth as much as
     * none, also to a process whose clock is 10 s behind, and may be deleted. INT64_MAX: keep it.
     */
    int64_t idle_at_ns;
};

struct ration_update {
    struct ration_record *records;
    size_t count;   /* 1 to RATION_UPDATE_MAX */
    int64_t now_ns; /* time of the decision: records with an earlier idle_at_ns may go */
    /* Call it once all records are found. A store whose transaction must be tried again (another
     * writer was faster) finds all records again and calls it again: the last call counts. */
    void (*compute)(struct ration_update *update);
    void *own; /* the library's */
};

/* Zero-initialise it, so that members of later versions are unset. */
struct ration_store {
    size_t size; /* sizeof(struct ration_store): which version of it you were compiled with */
    void *arg;
    /* Finds all records of the update, calls compute, and writes those that changed: all of them or
     * none, and so that nobody else changes any of them in between (serialisable). Writes must
     * be there after a crash as far as you want limits to survive it.
     *
     * Returns 0 if all of it was done. Anything else: nothing was, or nobody knows; the limits then
     * decide by on_store_failure. It must return within the time that a request may take:
     * the thread of the request waits for it. Called by any thread, by several at once. Must not
     * call the library, but for compute. */
    int (*update)(void *arg, struct ration_update *update);
};

#endif
