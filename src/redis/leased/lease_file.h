/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leases of all workers, in a file that survives a kill: FILE.leases beside the state file.
 * Each holder, that is each worker, has its own part of the file, with a record for each key that
 * it leases. After a kill, the next process returns the unspent units to Redis.
 *
 *   part     header, RN_LEASE_FILE_RECORDS records; locked by its holder while it lives
 *   header   magic | version | sizes | id of this boot | id of the holder | check sum | open
 *   record   state | units not spent | what calls told | name and limit | check sum
 *
 * A record never claims too many units: a worker stores them before it answers the admission, with
 * one atomic store. Changes of more than one word happen in the state CHANGING, and a record found
 * in that state is void. So is a part of another boot, whose last stores may not have reached the
 * disk, and a record with a wrong check sum. The part of a stopped process stays locked.
 */
#ifndef RN_REDIS_LEASE_FILE_H
#define RN_REDIS_LEASE_FILE_H

#include <stdatomic.h>

#include <ration/error.h>

#include "redis/leased/lease.h"

#define RN_LEASE_FILE_RECORDS 4096
#define RN_LEASE_FILE_PARTS 256 /* of 772 KB each */

enum rn_lease_record_state { RN_RECORD_EMPTY, RN_RECORD_HELD, RN_RECORD_CHANGING };

struct rn_lease_record {
    _Atomic uint32_t state;
    uint8_t script, name_len, params_len;
    _Atomic uint64_t units; /* unspent */
    uint64_t known, call;   /* units that Redis knows of after it ran that call */
    int64_t ends_us, mark;  /* the end of the lease; its receipt */
    uint64_t check;         /* sum over the holder, the script and these: */
    char name[RN_CODEC_NAME], params[RN_CODEC_PARAMS];
};

struct rn_lease_part;

struct rn_lease_file {
    struct rn_lease_part *part;
    struct rn_lease_record *records;
    uint64_t holder;
    int fd; /* holds the lock; -1: in memory only */
};

/* Opens a part for a new holder. Without a path, or after an error (which says why), the part is in
 * memory. NULL in `records`: out of memory as well. */
int rn_lease_file_open(const char *path, uint64_t holder, struct rn_lease_file *out,
                       struct ration_error *error);
/* Finds the part of a dead holder that has units left. */
bool rn_lease_file_find(const char *path, struct rn_lease_file *out);
/* Releases the part: rn_lease_file_find may then find it. Does nothing for a zeroed one. */
void rn_lease_file_close(struct rn_lease_file *file);

/* The key and its limit, as the scripts read them. */
struct rn_lease_what {
    enum rn_script script;
    struct rn_slice name, params;
};
void rn_lease_file_name(struct rn_lease_record *record, uint64_t holder,
                        const struct rn_lease_what *what);
/* Records the lease and the number of its last call: before the call is sent, and after its
 * reply. */
void rn_lease_file_note(struct rn_lease_record *record, const struct rn_lease *h, uint64_t call);
void rn_lease_file_clear(struct rn_lease_record *record);
/* Call this before the admission is answered. */
static inline void rn_lease_file_spent(struct rn_lease_record *record, uint64_t units)
{
    atomic_store_explicit(&record->units, units, memory_order_release);
}
/* Takes a record out of the file, to return its units. False: it is empty or void. */
bool rn_lease_file_take(struct rn_lease_record *record, uint64_t holder,
                        struct rn_lease_record *out);
/* Puts it back: the return was not sent. */
void rn_lease_file_put_back(struct rn_lease_record *record, const struct rn_lease_record *from);

#endif
