/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of clients (core/record.h): a bounded area of its own, so that records never take
 * room from the states of limits. In a file beside the state file, or in memory.
 *
 *   header   counters, and how keys are spread over groups    one page
 *   ring     the last bans (event_ring.h)
 *   groups   8 slots of 16 bytes {tag, word}, and for each slot a hint which rule it is of
 *
 * A record may be in any slot of its group, and changes by one compare-and-swap of its slot: a
 * process that is killed leaves nothing half done. Two threads may enter the same record at once.
 * Then the one in the lower slot counts; the other thread removes its own and starts again.
 *
 * When a group is full, the record of the lowest rank goes; a new record that ranks below all
 * others is not kept. Each loss is counted. Nothing is allocated after opening, and nothing waits.
 */
#ifndef RN_STORE_RECORDS_H
#define RN_STORE_RECORDS_H

#include "core/record.h"
#include "store/event_ring.h"
#include "store/side_file.h"

#define RN_RECORDS_GROUP 8
#define RN_RECORDS_SHARE 16 /* of the table's bytes: one in so many */
#define RN_RECORDS_BYTES_MIN (UINT64_C(1) << 20)

struct rn_records_slot {
    _Alignas(16) uint64_t tag; /* rn_records_key; 0: empty */
    uint64_t word;
};

struct rn_records_group {
    _Alignas(64) struct rn_records_slot slots[RN_RECORDS_GROUP];
    uint64_t rules[RN_RECORDS_GROUP]; /* hash of the rule's name ^ tag; may belong to a tag that is
                                         gone */
};

struct rn_records_header {
    uint64_t mix;                                              /* odd; 0: new */
    _Alignas(64) uint64_t lost_counts, lost_bans, lost_earned; /* records that were still of use */
};

struct rn_records {
    struct rn_records_group *groups;
    uint64_t group_count, mix; /* out of the shared cache line */
    struct rn_records_header *header;
    struct rn_event_ring *ring;
    struct rn_side_file file;
};

/* The area for slots has a sixteenth of the table's bytes, at least RN_RECORDS_BYTES_MIN, unless a
 * file of another size exists. As rn_side_file_open. */
int rn_records_open(struct rn_records *records, struct rn_table *table, struct ration_error *error);
/* All zeros is closed. */
void rn_records_close(struct rn_records *records);

/* A client has one record of each kind. The two lowest bits of the hash are not used. */
static inline uint64_t rn_records_key(uint64_t hash, enum rn_record_kind kind)
{
    return (hash & ~RN_RECORD_KIND) | (uint64_t)kind;
}

/* All records of a client are in one group. */
static inline struct rn_records_group *rn_records_group(const struct rn_records *records,
                                                        uint64_t key)
{
    __extension__ typedef unsigned __int128 wide;
    uint64_t spread = (key >> 2) * records->mix;

    return &records->groups[(wide)spread * records->group_count >> 64];
}

static inline void rn_records_prefetch(const struct rn_records *records, uint64_t key)
{
    const struct rn_records_group *group = rn_records_group(records, key);

    __builtin_prefetch(&group->slots[0]);
    __builtin_prefetch(&group->slots[4]);
}

/* The record's word; 0: there is none. */
static inline uint64_t rn_records_find(const struct rn_records *records, uint64_t key)
{
    const struct rn_records_group *group = rn_records_group(records, key);

    for (unsigned i = 0; i < RN_RECORDS_GROUP; i++) {
        const struct rn_records_slot *slot = &group->slots[i];

        if (__builtin_expect(__atomic_load_n(&slot->tag, __ATOMIC_RELAXED) != key, 1))
            continue;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        uint64_t word = __atomic_load_n(&slot->word, __ATOMIC_ACQUIRE);

        if (__atomic_load_n(&slot->tag, __ATOMIC_RELAXED) == key)
            return word;
    }
    return 0;
}

/* The hash of the name of its rule; 0: there is no such record. */
uint64_t rn_records_rule(const struct rn_records *records, uint64_t key);

/* One change of a record. */
struct rn_records_change {
    uint64_t key, rule; /* `rule`: hash of its name */
    int64_t now_ns;
    /* The word that follows `word`, which is 0 if there is no record; 0: none. May be called
     * several times. */
    uint64_t (*follow)(void *arg, uint64_t word);
    void *arg;
    uint64_t before, after; /* out: what it was, and what `follow` returned last */
};
/* False: there was no room for the record, and it is lost. */
bool rn_records_change(struct rn_records *records, struct rn_records_change *change);

struct rn_records_entry {
    uint64_t key, rule, word;
};
/* Calls `see` for the records from a position on, in the order of positions, from 0 to
 * rn_records_capacity, until it returns non-zero. Returns the next position. */
uint64_t rn_records_each(const struct rn_records *records, uint64_t position,
                         int (*see)(void *arg, const struct rn_records_entry *entry), void *arg);

static inline uint64_t rn_records_capacity(const struct rn_records *records)
{
    return records->group_count * RN_RECORDS_GROUP;
}

#endif
