/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory table: a store of fixed size in one mapping, anonymous or a file,
 * shared by threads and processes. Decisions are lock-free and always inline;
 * nothing is allocated after rn_table_open.
 */
#ifndef RN_STORE_TABLE_H
#define RN_STORE_TABLE_H

#include "base/anchor.h"
#include "base/siphash.h"
#include "store/store.h"

struct rn_table;

/* What the inline functions below see of a table: it begins with this. */
struct rn_table_face {
    struct rn_store store;
    struct rn_anchor *anchor;
};

struct rn_table_options {
    const char *path;   /* NULL: anonymous */
    uint64_t bytes;     /* whole mapping; 0: as in the file, else 64 MiB */
    double block_share; /* percent of `bytes` for block forms, 0 to RN_TABLE_SHARE_MAX */
    bool keep_share;    /* a file that exists stays as it is divided */
};

#define RN_TABLE_BYTES_MIN (UINT64_C(1) << 20)
#define RN_TABLE_BYTES_MAX (UINT64_C(1) << 44)
#define RN_TABLE_SHARE_MAX 99.9 /* the rest is for slots: every key needs one */

/* 0, or RATION_E* with `error` filled. A file that exists with another size is
 * rebuilt at options->bytes if no other process has it open, else RATION_EBUSY; so is one
 * of the layout version before this one. One
 * that is divided otherwise is rebuilt if no other process has it open and what lives
 * in it fits, else it stays as it is.
 * error->text may hold a notice on success, else it is "". */
int rn_table_open(const struct rn_table_options *options, struct rn_table **out,
                  struct ration_error *error);
void rn_table_close(struct rn_table *table);

/* Whether the file is still what it was, where it was: RATION_ETORN if something has cut it
 * short (the next access beyond its end is a SIGBUS), RATION_EIO if it was deleted, moved or
 * replaced. Two system calls. */
int rn_table_check_file(const struct rn_table *table, struct ration_error *error);

/* The table as a store; lives as long as the table. */
static inline struct rn_store *rn_table_store(struct rn_table *table)
{
    return &((struct rn_table_face *)(void *)table)->store;
}

/* The secret under which keys of this table are hashed. */
const struct rn_hash_key *rn_table_secret(const struct rn_table *table);

/* Start fetching the memory of a key from RAM. */
void rn_table_prefetch(const struct rn_table *table, uint64_t key);

/* Charges all or none of n takes at one time: looks at all of them first, and if all have room
 * charges them one by one, the narrowest first. */
enum rn_table_all {
    RN_ALL_TAKEN,
    RN_ALL_REFUSED, /* one has no room: nothing was written, the answers are those of peeks */
    RN_ALL_UNDONE,  /* another request was faster, or one failed: what was charged has been given
                       back, and there are no answers */
};
#define RN_TABLE_ALL_MAX 8
enum rn_table_all rn_table_take_all(struct rn_table *table, struct rn_charge *charges, size_t n);

/* The table's time line, and wall time - now (re-read once a second, see base/clock.h). */
static inline int64_t rn_table_now(const struct rn_table *table)
{
    return rn_anchor_now(((const struct rn_table_face *)(const void *)table)->anchor);
}

static inline int64_t rn_table_wall_offset(struct rn_table *table, int64_t now_ns)
{
    return rn_anchor_wall_offset(((struct rn_table_face *)(void *)table)->anchor, now_ns);
}

/* rn_anchor_detach. */
static inline void rn_table_detach_clock(struct rn_table *table)
{
    rn_anchor_detach(((struct rn_table_face *)(void *)table)->anchor);
}

/* Words for values of the caller's that all users of the table share: zero when the table is new,
 * kept when it is rebuilt, and only ever accessed atomically. */
#define RN_BOARD_BYTES (UINT64_C(64) << 10)
uint64_t *rn_table_board(struct rn_table *table);

/* A counter that all users of the table share, for callers that keep other files
 * beside it: added to after each change there. */
uint64_t *rn_table_generation(struct rn_table *table);

/* Frees idle slots; returns how many. */
uint64_t rn_table_clean(struct rn_table *table, int64_t now_ns);

struct rn_table_entry {
    uint64_t tag; /* hash of the key; the low 6 bits are not part of it */
    enum rn_form form;
    int64_t idle_at_ns;
};
/* Visits live keys until `see` returns non-zero. */
void rn_table_each(const struct rn_table *table, int64_t now_ns,
                   int (*see)(void *arg, const struct rn_table_entry *entry), void *arg);

/* How many live keys of this limit the table holds if it has no others, before a
 * live key can be evicted; `sizes` is how many sizes of blocks share the table. */
uint64_t rn_table_capacity(const struct rn_table *table, const struct rn_limit *limit,
                           unsigned sizes);
/* The percentage of a table's bytes that blocks need if all keys are of this limit. */
double rn_table_block_share(const struct rn_limit *limit);

struct rn_table_memory {
    uint64_t bytes, slots, live, evictions;
    uint64_t block_bytes, block_bytes_used;
};
void rn_table_memory(const struct rn_table *table, int64_t now_ns, struct rn_table_memory *memory);

#endif
