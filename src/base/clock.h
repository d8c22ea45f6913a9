/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One time line for everybody who shares a table.
 *
 * It starts at the wall time of the table's creation and then follows the
 * boot-time clock, which no one can set and which counts suspends. The anchor
 * that says how far the two are apart lives in shared memory, so that every
 * process gets the same time; after a reboot the first one to open the table
 * moves the anchor, never below the last time seen.
 *
 * A file may have been damaged since it was written, and a wrong anchor would
 * forget every counter or refuse every client. So what a later process needs is
 * saved twice, in turn, each with a check sum: a process that is killed while it
 * saves spoils one of them at most. Only a sound save is believed.
 *
 * Calendar time is this time plus an offset, measured again every second. When
 * the wall clock is set forward the offset follows at once; set back, it
 * follows at half speed, so that calendar time never runs backwards.
 */
#ifndef RN_BASE_CLOCK_H
#define RN_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define RN_SECOND_NS INT64_C(1000000000)

/* Which boot a time line was anchored in, and where. */
struct rn_anchor_line {
    uint64_t boot_id[2];
    int64_t boot_ns;  /* boot-time clock when anchored */
    int64_t delta_ns; /* now = boot-time clock + delta */
};

/* What is believed when a table is opened. */
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
    uint64_t turn;      /* of the saves: the low bit says which is next */
    struct rn_anchor_save saves[2];
};

static inline int64_t rn_clock_read_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return t.tv_sec * RN_SECOND_NS + t.tv_nsec;
}

static inline int64_t rn_clock_boot_ns(void)
{
    return rn_clock_read_ns(CLOCK_BOOTTIME);
}

static inline int64_t rn_clock_wall_ns(void)
{
    return rn_clock_read_ns(CLOCK_REALTIME);
}

/* A new time line that starts at the wall time. */
void rn_anchor_init(struct rn_anchor *anchor);

enum rn_resumed {
    RN_RESUMED,
    RN_RESUMED_MENDED,  /* and parts that were damaged are restored from a save */
    RN_RESUMED_AHEAD,   /* no: it would go on more than a day ahead of the wall clock */
    RN_RESUMED_DAMAGED, /* no: neither save is sound */
};
/* A process that is alone with the anchor must call this first. "No" leaves the
 * anchor as it was. */
enum rn_resumed rn_anchor_resume(struct rn_anchor *anchor);
/* Whether the time line in use is the saved one: for a process that joins others. */
bool rn_anchor_is_sound(const struct rn_anchor *anchor);
/* Saves the anchor as it is. */
void rn_anchor_save(struct rn_anchor *anchor);

static inline int64_t rn_anchor_now(const struct rn_anchor *anchor)
{
    return rn_clock_boot_ns() + __atomic_load_n(&anchor->line.delta_ns, __ATOMIC_RELAXED);
}

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
