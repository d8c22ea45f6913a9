/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to limiter/usage/: the file beside the state file that keeps usage. It says by itself
 * which rules and periods it has, so that it can be read without rules.
 *
 *   head     struct rn_usage_head, one page
 *   rules    `rule_count` times struct rn_usage_slot: name, calendar, and the rows `other`
 *   regions  a byte for each RN_USAGE_REGION groups: something in them has changed
 *   groups   `group_count` times 8 entries
 *
 * An entry is one client of one rule in one period. It may lie in any of RN_USAGE_CHOICES groups
 * (two of which may be the same), which its tag gives: a hash of the rule's slot, the key and the
 * start of the period.
 *
 *   tag      0: free, and the counters of the entry are 0
 *            RN_USAGE_WIPED: being wiped, to be free
 *            else the entry's, set by a compare-and-swap before anything else of it
 *
 * The thread that set the tag then writes what the entry is about. If it is killed, the next one
 * that needs the entry does: all would write the same. The counters of an entry only ever change by
 * atomic additions, from when `about` is set. Only entries of periods that are not kept any more
 * are wiped, and only for want of room.
 */
#ifndef RN_LIMITER_USAGE_USAGE_FILE_H
#define RN_LIMITER_USAGE_USAGE_FILE_H

#include <ration/usage.h>

#include "base/slice.h"
#include "limiter/usage/usage.h"
#include "store/side_file.h"

#define RN_USAGE_MAGIC UINT64_C(0x656761737576726E) /* "nrvusage" */
#define RN_USAGE_VERSION 1
#define RN_USAGE_WIPED UINT64_C(1)
#define RN_USAGE_ENTRIES 8
#define RN_USAGE_CHOICES 8 /* with 4, some clients find no room when half the file is in use */
#define RN_USAGE_REGION 32
#define RN_USAGE_OTHERS 64 /* more than a rule keeps periods */
#define RN_USAGE_RULE_NAME RATION_NAME_SIZE

/* `about`: 0: not written yet. */
#define RN_USAGE_ABOUT(slot, len) ((uint32_t)(1 | (uint32_t)(len) << 8 | (uint32_t)(slot) << 16))
#define RN_USAGE_ABOUT_LEN(about) ((about) >> 8 & 0xFF)
#define RN_USAGE_ABOUT_SLOT(about) ((about) >> 16)

/* What is counted. All fields are accessed atomically. */
struct rn_usage_counts {
    int64_t admitted, refused, corrected;
    int64_t start_s;
    uint32_t dirty; /* changed since other nodes were told */
    uint32_t about;
};

struct rn_usage_entry {
    struct rn_usage_counts counts;
    uint64_t name[RATION_USAGE_CLIENT_MAX / 8];
};

struct rn_usage_group {
    _Alignas(128) uint64_t tags[RN_USAGE_ENTRIES];
    struct rn_usage_entry entries[RN_USAGE_ENTRIES];
};

/* A rule with one calendar. Another calendar is another slot, so that its periods are apart. */
struct rn_usage_slot {
    _Alignas(64) uint64_t tag;           /* hash of name, unit and zone; 0: free */
    uint32_t ready;                      /* all of what follows has been written */
    uint32_t keep;                       /* finished periods */
    uint32_t unit, name_len;             /* enum ration_calendar */
    uint64_t zone[RATION_ZONE_TEXT / 8]; /* as text, with zeros behind it, */
    uint64_t name[RN_USAGE_RULE_NAME / 8];
    uint64_t other_tags[RN_USAGE_OTHERS];
    struct rn_usage_counts others[RN_USAGE_OTHERS];
};

/* All fields are accessed atomically. */
struct rn_usage_head {
    uint64_t stamp;   /* rn_usage_stamp */
    uint64_t entries; /* in use, nearly: a kill may leave one uncounted */
    uint64_t other;   /* how often units went to `other` */
    uint64_t wiping;  /* not 0 if a process was killed while it wiped an entry */
};

/* A file that is open, or one that is only read. */
struct rn_usage_file {
    struct rn_side_file side;
    struct rn_usage_head *head;
    struct rn_usage_slot *rules;
    uint8_t *regions;
    struct rn_usage_group *groups;
    uint32_t rule_count;
    uint64_t group_count;
};

/* Points the file at its parts, which depend on the size alone. */
void rn_usage_file_lay_out(struct rn_usage_file *file, void *data, uint64_t bytes);
/* Texts are loaded and stored by words, atomically. */
void rn_usage_file_load_words(char *to, const uint64_t *from, size_t words);
void rn_usage_file_clear(struct rn_usage_counts *counts);

/* The path of the file beside a state file, or beside what a link to it leads to; to be freed.
 * NULL: out of memory. */
char *rn_usage_file_path(const char *state_path);

/* Opens or makes the file beside this state file; bytes as of struct rn_usage. 0, or RATION_E* with
 * `error` filled; its text may be a notice. */
int rn_usage_file_open(const char *state_path, const struct rn_table *table, uint64_t bytes,
                       struct rn_usage_file **out, struct ration_error *error);
/* To be read only, without a table. */
int rn_usage_file_read(const char *state_path, struct rn_usage_file **out,
                       struct ration_error *error);
void rn_usage_file_close(struct rn_usage_file *file);

/* The slot of a rule and calendar; made if there is none. -1: no room. */
int64_t rn_usage_file_slot(struct rn_usage_file *file, struct rn_slice name,
                           enum ration_calendar unit, struct rn_slice zone, uint32_t keep);

static inline uint64_t rn_usage_tag(uint64_t slot, uint64_t hash, int64_t start_s)
{
    uint64_t x = hash + (slot + 1) * UINT64_C(0x9E3779B97F4A7C15) +
                 (uint64_t)start_s * UINT64_C(0xD1B54A32D192ED03);

    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    x ^= x >> 32;
    return x > RN_USAGE_WIPED ? x : x + 2;
}

/* The group of a choice. */
static inline struct rn_usage_group *rn_usage_group_of(const struct rn_usage_file *file,
                                                       uint64_t tag, unsigned choice)
{
    __extension__ typedef unsigned __int128 wide;
    uint64_t spread = tag + choice * (tag << 32 | tag >> 32 | 1);

    return &file->groups[(uint64_t)((wide)spread * file->group_count >> 64)];
}

/* The counts of an entry, and whether anything is written in it. NULL: there is none. */
static inline struct rn_usage_counts *rn_usage_file_find(const struct rn_usage_file *file,
                                                         uint64_t tag)
{
    for (unsigned choice = 0; choice < RN_USAGE_CHOICES; choice++) {
        struct rn_usage_group *group = rn_usage_group_of(file, tag, choice);

        for (unsigned i = 0; i < RN_USAGE_ENTRIES; i++)
            if (__atomic_load_n(&group->tags[i], __ATOMIC_ACQUIRE) == tag)
                return &group->entries[i].counts;
    }
    return NULL;
}

/* The same; made for this client if there is none. `now_s` says which periods are not kept any
 * more. NULL: no room. */
struct rn_usage_counts *rn_usage_file_make(struct rn_usage_file *file, uint64_t tag, uint32_t slot,
                                           int64_t start_s, struct rn_slice client, int64_t now_s);
/* The row `other` of a rule and period: there is always room. */
struct rn_usage_counts *rn_usage_file_other(struct rn_usage_file *file, uint32_t slot,
                                            int64_t start_s);

/* An entry or a row `other`. */
struct rn_usage_place {
    uint64_t position; /* in the file, from 0; the rows `other` come first */
    uint64_t tag;
    struct rn_usage_counts *counts;
    bool other;
    uint32_t slot;
    int64_t start_s;
    struct rn_slice name; /* of the client */
};
/* How many positions there are. */
uint64_t rn_usage_file_end(const struct rn_usage_file *file);
/* False: nothing is there. `name` is a buffer for the name. */
bool rn_usage_file_at(const struct rn_usage_file *file, uint64_t position,
                      char name[RATION_USAGE_CLIENT_MAX], struct rn_usage_place *place);

/* The first entry with the tag of this place, and the sum of all: a race may make two of one
 * client. */
struct rn_usage_sum {
    const struct rn_usage_counts *first;
    int64_t admitted, refused, corrected;
};
struct rn_usage_sum rn_usage_file_sum(const struct rn_usage_file *file,
                                      const struct rn_usage_place *place, bool clear_marks);

/* Rows as ration_usage_each gives them. */
int rn_usage_file_each(const struct rn_usage_file *file, const struct ration_usage_query *query,
                       int64_t now_s, int (*see)(void *arg, const struct ration_usage *usage),
                       void *arg, uint64_t *next, struct ration_error *error);

/* The first position from there on that may be marked as changed; the end if there is none. Takes
 * the mark of a region away when it begins. */
uint64_t rn_usage_file_next_marked(struct rn_usage_file *file, uint64_t position);
/* The rest of the region from there on may still be marked. */
void rn_usage_file_keep_marked(struct rn_usage_file *file, uint64_t position);

/* Marks counts as changed, once they have been added to. */
void rn_usage_file_mark(struct rn_usage_file *file, struct rn_usage_counts *counts);

/* A counter stays within these, and a decision adds no more units: so no number of threads that
 * add at once makes it wrap. */
#define RN_USAGE_MOST (INT64_C(1) << 62)
#define RN_USAGE_UNITS_MOST (INT64_C(1) << 52) /* more than any limit has */

/* False: the counter would leave its bounds, and is left alone. */
static inline bool rn_usage_add(struct rn_usage_file *file, struct rn_usage_counts *counts,
                                int64_t *counter, int64_t units)
{
    int64_t sum;

    if (rn_unlikely(
            __builtin_add_overflow(__atomic_load_n(counter, __ATOMIC_RELAXED), units, &sum) ||
            sum > RN_USAGE_MOST || sum < -RN_USAGE_MOST))
        return false;
    __atomic_fetch_add(counter, units, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&counts->dirty, __ATOMIC_SEQ_CST) == 0)
        rn_usage_file_mark(file, counts);
    return true;
}

/* What a slot says. */
struct rn_usage_slot_text {
    enum ration_calendar unit;
    uint32_t keep, name_len;
    char name[RN_USAGE_RULE_NAME], zone[RATION_ZONE_TEXT];
};
/* False: nothing yet. */
bool rn_usage_slot_read(const struct rn_usage_slot *slot, struct rn_usage_slot_text *text);

/* Whether a period that began then is not kept any more, for sure: needs no calendar, and errs on
 * the side of keeping. */
bool rn_usage_slot_is_past(const struct rn_usage_slot *slot, int64_t start_s, int64_t now_s);

#endif
