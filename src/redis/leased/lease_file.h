/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holders have, in a file that survives them: FILE.leases beside the state file. Each holder
 * has a part of its own, with a record for each key that it holds; the process that starts
 * after a kill returns what was not spent.
 *
 *   part     header, RN_LEASE_FILE_RECORDS records; locked by its holder for as long as it lives
 *   header   magic | version | sizes | id of this boot | id of the holder | check sum | open
 *   record   state | units not spent | what calls told | name and limit | check sum
 *
 * Never too much: the units in a record are stored before the admission is answered, with one
 * store; whatever takes more than one is done in the state CHANGING, and a record that is found
 * so is void. So is a part that another boot wrote, as its last stores may not be on the disk, and
 * a record that does not check. The part of a holder that is stopped stays locked.
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
    _Atomic uint64_t units; /* not spent */
    uint64_t known, call;   /* units that the store knows of, once that call was run */
    int64_t ends_us, mark;  /* of the lease; the receipt of what is held */
    uint64_t check;         /* of the holder, the script and these: */
    char name[RN_CODEC_NAME], params[RN_CODEC_PARAMS];
};

struct rn_lease_part;

struct rn_lease_file {
    struct rn_lease_part *part;
    struct rn_lease_record *records;
    uint64_t holder;
    int fd; /* has the lock; -1: in memory only */
};

/* A part for a new holder. Without a path, or after an error that says why there is no file: in
 * memory. NULL in `records`: there is no memory either. */
int rn_lease_file_open(const char *path, uint64_t holder, struct rn_lease_file *out,
                       struct ration_error *error);
/* The part of a holder that is gone, if something is left of it. */
bool rn_lease_file_find(const char *path, struct rn_lease_file *out);
/* What is left in it is for whoever finds it. Does nothing for a zeroed one. */
void rn_lease_file_close(struct rn_lease_file *file);

/* What is held, in memory of the holder's. */
struct rn_lease_what {
    enum rn_script script;
    struct rn_slice name, params;
};
void rn_lease_file_name(struct rn_lease_record *record, uint64_t holder,
                        const struct rn_lease_what *what);
/* As the holder stands, and its last call: before that is sent, and after it was answered. */
void rn_lease_file_note(struct rn_lease_record *record, const struct rn_lease *h, uint64_t call);
void rn_lease_file_clear(struct rn_lease_record *record);
/* Before an admission is answered. */
static inline void rn_lease_file_spent(struct rn_lease_record *record, uint64_t units)
{
    atomic_store_explicit(&record->units, units, memory_order_release);
}
/* Takes out of the file what is to be returned. False: there is nothing, or it is not sound. */
bool rn_lease_file_take(struct rn_lease_record *record, uint64_t holder,
                        struct rn_lease_record *out);
/* Undoes that: it was not sent. */
void rn_lease_file_put_back(struct rn_lease_record *record, const struct rn_lease_record *from);

#endif
