/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One time line for all processes that share a table.
 *
 * It starts at the wall time of the table's creation and then follows the
 * boot-time clock, which cannot be set and which counts suspends. The anchor,
 * the distance between the two, lies in shared memory, so that every process gets
 * the same time. After a reboot the first process that opens the table moves the
 * anchor, never below the last time seen.
 *
 * The file may be damaged, and a wrong anchor would forget every counter or refuse
 * every client. So the anchor is saved twice, in turn, each time with a checksum: a
 * process that is killed while it saves spoils at most one copy. Only a sound copy
 * is used.
 *
 * Calendar time is this time plus an offset, measured every second. When the wall
 * clock is set forward, the offset follows at once; when it is set back, the offset
 * follows at half speed, so that calendar time never runs backwards.
 */
#ifndef RN_BASE_ANCHOR_H
#define RN_BASE_ANCHOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Which boot a time line was anchored in, and where. */
struct rn_anchor_line {
    uint64_t boot_id[2];
    int64_t boot_ns;  /* boot-time clock when anchored */
    int64_t delta_ns; /* now = boot-time clock + delta */
};

/* One of the two saved copies. */
struct rn_anchor_save {
    struct rn_anchor_line line;
    int64_t last_seen_ns, wall_offset_ns;
    uint64_t check;
};

/* Shared between processes; all fields are accessed atomically. */
struct rn_anchor {
    struct rn_anchor_line line;
    int64_t last_seen_ns; /* within a second of the latest time used */
    int64_t wall_offset_ns;
    int64_t checked_ns; /* when the offset was last measured */
    uint64_t turn;      /* counts saves: the low bit says which copy is next */
    struct rn_anchor_save saves[2];
};

/* A new time line that starts at the wall time. */
void rn_anchor_init(struct rn_anchor *anchor);

enum rn_resumed {
    RN_RESUMED,
    RN_RESUMED_MENDED,  /* resumed; damaged parts were restored from a saved copy */
    RN_RESUMED_AHEAD,   /* refused: the time is more than a day ahead of the wall clock */
    RN_RESUMED_DAMAGED, /* refused: neither copy is sound */
};
/* The first process that opens the table must call this first. A refusal leaves the
 * anchor as it was. */
enum rn_resumed rn_anchor_resume(struct rn_anchor *anchor);
/* Whether the time line in use is the saved one. For a process that joins others. */
bool rn_anchor_is_sound(const struct rn_anchor *anchor);
/* Saves the anchor as it is. */
void rn_anchor_save(struct rn_anchor *anchor);

static inline int64_t rn_anchor_now(const struct rn_anchor *anchor)
{
    return rn_clock_boot_ns() + __atomic_load_n(&anchor->line.delta_ns, __ATOMIC_RELAXED);
}

/* From now on the time line follows no clock: wall time is the time that callers give. For a table
 * of this process alone, which follows the time of a log. Call it before other threads use it.
 */
void rn_anchor_detach(struct rn_anchor *anchor);

/* Measures the offset and notes the time; any thread may, about once a second. */
void rn_anchor_refresh(struct rn_anchor *anchor, int64_t now_ns);

/* Wall time - now. */
static inline int64_t rn_anchor_wall_offset(struct rn_anchor *anchor, int64_t now_ns)
{
    uint64_t age =
        (uint64_t)now_ns - (uint64_t)__atomic_load_n(&anchor->checked_ns, __ATOMIC_RELAXED);

    if (__builtin_expect(age >= (uint64_t)RN_SECOND_NS, 0))
        rn_anchor_refresh(anchor, now_ns);
    return __atomic_load_n(&anchor->wall_offset_ns, __ATOMIC_RELAXED);
}

#endif
