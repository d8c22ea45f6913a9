/* SPDX-License-Identifier: Apache-2.0 */
/* Private to fleet/: usage of clients that nodes publish. scripts/fleet_usage.lua has the formats.
 */
#ifndef RN_REDIS_FLEET_USAGE_INTERNAL_H
#define RN_REDIS_FLEET_USAGE_INTERNAL_H

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "limiter/usage/usage.h"

struct rn_fleet;

#define RN_FLEET_USAGE_INDEX "ration:{fleet}:usage"
#define RN_FLEET_USAGE_FILES "ration:{fleet}:usage:files"
#define RN_FLEET_USAGE_LOT 30        /* rows in a call */
#define RN_FLEET_USAGE_BUCKETS 4096u /* of a group */
#define RN_FLEET_USAGE_BUCKET(hash) ((unsigned)((hash) >> 52))
#define RN_FLEET_USAGE_SILENT_S 10 /* a node that has said nothing for so long is missing */
/* What stands before the name of a client: the row `other` has no name. */
#define RN_FLEET_USAGE_CLIENT 'c'
#define RN_FLEET_USAGE_OTHER 'o'

/* Of the node that publishes; all zeros at first. */
struct rn_fleet_usage {
    bool walking;     /* a walk over the rows has begun */
    bool all;         /* ... over all of them */
    bool again;       /* the next walk must be over all */
    uint64_t cursor;  /* where the walk goes on */
    unsigned calls;   /* left in this round, */
    int64_t until_ns; /* which ends then, on the loop's clock */
    int64_t said_ns;  /* when this node has said last that it is there */
    size_t row_count; /* in the call under way */
    uint64_t rows[RN_FLEET_USAGE_LOT];
    int64_t finish_ns;                /* the node stops: give up then; 0: it does not stop */
    bool last;                        /* the walk has begun after all was counted */
    bool left;                        /* Redis knows that there is no more */
    bool failed;                      /* Redis refused the last call, which was logged */
    bool refusing;                    /* something malformed was logged */
    struct rn_fleet_missing *missing; /* as the last reader found them */
    size_t missing_count;
};

/* usage.c */
void rn_fleet_usage_begin_round(struct rn_fleet *fleet);
/* Redis may have lost something: publishes all rows again. */
void rn_fleet_usage_doubt(struct rn_fleet *fleet);
/* Publishes some rows. False: nothing to do in this round, or the call was not sent. */
bool rn_fleet_usage_publish(struct rn_fleet *fleet);

/* Nothing is counted any more: publishes the rest. True: that is done, or cannot be done in time.
 */
bool rn_fleet_usage_finish(struct rn_fleet *fleet);

/* usage_text.c */
/* Where a client is in its group: its bucket, and the order of readers. */
uint64_t rn_fleet_usage_hash(struct rn_slice client, bool other);
/* The name of a group: the same on all nodes, whatever they keep. */
uint64_t rn_fleet_usage_group_id(const struct ration_usage *usage);
void rn_fleet_usage_group_write(struct rn_buf *out, const struct ration_usage *usage,
                                uint32_t keep);
/* The key of a bucket; RN_FLEET_USAGE_BUCKETS: of the group's bitmap. */
void rn_fleet_usage_key_write(struct rn_buf *out, uint64_t group, unsigned bucket);

struct rn_fleet_usage_group {
    uint64_t id;
    uint32_t number;
    struct ration_usage usage; /* without a client; `rule` is borrowed */
};
struct rn_fleet_usage_file {
    char name[64 + 1 + 16 + 1]; /* machine/file */
    int64_t seen_s;             /* by the clock of Redis */
    uint64_t unpublished;
};
struct rn_fleet_usage_row {
    struct rn_slice client; /* borrowed */
    size_t place;           /* in a list: of its name */
    uint64_t hash;          /* of it */
    bool other;
    int64_t admitted;
    uint64_t refused;
    int64_t corrected;
};
/* A field and its value. False: malformed. */
bool rn_fleet_usage_group_read(struct rn_slice field, struct rn_slice value,
                               struct rn_fleet_usage_group *group);
bool rn_fleet_usage_file_read(struct rn_slice field, struct rn_slice value,
                              struct rn_fleet_usage_file *file);
bool rn_fleet_usage_row_read(struct rn_slice field, struct rn_slice value,
                             struct rn_fleet_usage_row *row);

/* usage_index.c: the first answer of scripts/fleet_usage_read.lua to a reader: time, groups, files.
 * All zeros at first. */
struct rn_fleet_usage_groups {
    struct rn_fleet_usage_group *list; /* in the order of numbers; NULL: out of memory */
    size_t count;
    struct rn_buf rules; /* their names */
};
/* Both return how many entries were malformed. */
size_t rn_fleet_usage_groups_read(struct rn_fleet_usage_groups *groups, const redisReply *reply);
void rn_fleet_usage_groups_done(struct rn_fleet_usage_groups *groups);
/* Replaces usage->missing; NULL: out of memory. */
size_t rn_fleet_usage_missing_read(struct rn_fleet_usage *usage, const redisReply *reply);
/* The text of an element; data NULL: it is none. */
struct rn_slice rn_fleet_usage_text(const redisReply *element);
/* How many fields the element has, each followed by its value. */
size_t rn_fleet_usage_fields(const redisReply *reply, size_t index);

/* usage_rows.c: adds up what several state files say of a client. All zeros at first. */
struct rn_fleet_usage_rows {
    struct rn_fleet_usage_row *list;
    size_t count, room;
    struct rn_buf clients; /* their names */
};
/* 0 or RATION_ENOMEM. */
int rn_fleet_usage_rows_add(struct rn_fleet_usage_rows *rows, const struct rn_fleet_usage_row *row);
/* One row for each client, in the order of hashes. */
void rn_fleet_usage_rows_add_up(struct rn_fleet_usage_rows *rows);
struct rn_fleet_usage_row rn_fleet_usage_rows_at(const struct rn_fleet_usage_rows *rows, size_t i);
void rn_fleet_usage_rows_clear(struct rn_fleet_usage_rows *rows);
void rn_fleet_usage_rows_done(struct rn_fleet_usage_rows *rows);

#endif
