/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of clients under a rule, each one 64-bit word: offences (escalate.h), what a client has
 * earned, and the lapses by which it would lose that (earn.h). This file has what both kinds share,
 * and what can be read without the plan of the rule: for listings, and for choosing which record
 * goes when there is no room.
 *
 *   63              32 31           17 16             7 6         2 1      0
 *   time in ticks (32) | span (15)    | refusals (10)  | level (5) | kind (2)    offences
 *   time in ticks (32) | life (15)    | refusals (10)  | 0 (5)     | kind (2)    lapses
 *   time in ticks (32) | life (21)           | surplus percent (9) | kind (2)    earned
 *
 * 0 is no record. A tick is 2^26 ns, about 67 ms. Times are rounded in favour of the client, and
 * compared modulo 2^32 ticks (9 years): at most RN_RECORD_AHEAD_NS ahead of now, else before now.
 * Records that are over go when a process that is alone opens the file, before that can matter.
 * The time of an earned record is the start of its period, that of lapses the start of a window.
 * Life is how long after that time the record lives: in hours, or in units of 2^34 ns, rounded up.
 * In an offence record:
 *
 *   refusals  level  time                   span
 *   0         > 0    end of the ban         when the level is forgotten
 *   > 0       > 0    start of the window    when the level is forgotten
 *   > 0       0      start of the window    its length, in units of 2^32 ns, rounded up
 *
 * A level is forgotten at a whole number of units of 2^40 ns, modulo 2^15 units. This is at most
 * 365 days after the time of the word, and 2^15 units are more: so it is unambiguous. The length of
 * the window is there for readers without a plan.
 */
#ifndef RN_CORE_RECORD_H
#define RN_CORE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define RN_RECORD_TICK_BITS 26
#define RN_RECORD_TICK_NS (INT64_C(1) << RN_RECORD_TICK_BITS)
#define RN_RECORD_DAY_NS (INT64_C(86400) * 1000000000)
#define RN_RECORD_BAN_MAX_NS (365 * RN_RECORD_DAY_NS)
#define RN_RECORD_AHEAD_NS (366 * RN_RECORD_DAY_NS)

/* Threads read the clock before they read a record, which another thread may have changed in
 * between: so far ahead of the clock a record may be without a step of the clock. */
#define RN_RECORD_SKEW_NS (INT64_C(10) * 1000000000)

#define RN_LEVELS 32            /* of bans; 0: none */
#define RN_RECORD_REFUSALS 1023 /* the most that a record can count */

/* Numbers are part of the file. */
enum rn_record_kind {
    RN_RECORD_NONE = 0,
    RN_RECORD_OFFENCES = 1,
    RN_RECORD_EARNED = 2,
    RN_RECORD_LAPSES = 3,
};
#define RN_RECORD_KIND UINT64_C(3)

/* What a record says at a time. A field that its kind does not have is 0. */
struct rn_record_view {
    enum rn_record_kind kind;
    bool live;         /* false: all of it is over; as good as no record */
    bool banned;       /* until ends_ns */
    int64_t ends_ns;   /* of the ban in force */
    uint32_t level;    /* of the last ban, until it is forgotten */
    uint32_t refusals; /* counted in the window that is open */
    uint32_t percent;  /* in force because it was earned; 100: nothing */
    int64_t since_ns;  /* start of the window or period, or end of the last ban */
};

/* A word that no plan could have written gives a view that is not live, or one within the ranges
 * of a plan. */
void rn_record_view(uint64_t word, int64_t now_ns, struct rn_record_view *view);

/* What a record is worth: the lowest goes first. 0: not live. Clients that have not earned a step
 * yet rank lowest, the youngest record first; then refusals counted, levels of bans that have
 * ended, what was earned, and bans in force, by level and then by how long they last. */
uint64_t rn_record_rank(uint64_t word, int64_t now_ns);

/* --- for escalate.c and earn.c ----------------------------------------------------------- */

static inline enum rn_record_kind rn_record_kind(uint64_t word)
{
    return (enum rn_record_kind)(word & RN_RECORD_KIND);
}

/* The time of a word rounded down, and where it belongs in a word. */
static inline uint64_t rn_record_stamp(int64_t time_ns)
{
    return (uint64_t)time_ns >> RN_RECORD_TICK_BITS << 32;
}

/* Back again: always a multiple of a tick. */
static inline int64_t rn_record_time(uint64_t word, int64_t now_ns)
{
    uint32_t now = (uint32_t)((uint64_t)now_ns >> RN_RECORD_TICK_BITS);
    uint32_t ahead = (uint32_t)(word >> 32) - now;
    int64_t ticks = ahead <= RN_RECORD_AHEAD_NS >> RN_RECORD_TICK_BITS
                        ? (int64_t)ahead
                        : (int64_t)ahead - (INT64_C(1) << 32);

    return (int64_t)(((uint64_t)now_ns >> RN_RECORD_TICK_BITS << RN_RECORD_TICK_BITS) +
                     ((uint64_t)ticks << RN_RECORD_TICK_BITS));
}

/* Fields of an offence record. */
#define RN_RECORD_LEVEL_AT 2
#define RN_RECORD_REFUSALS_AT 7
#define RN_RECORD_SPAN_AT 17
#define RN_RECORD_SPAN_MAX UINT64_C(0x7FFF)
#define RN_RECORD_FORGET_BITS 40 /* log2 of a unit in ns */
#define RN_RECORD_WINDOW_BITS 32
#define RN_RECORD_LAPSES_BITS 34

static inline uint32_t rn_record_level(uint64_t word)
{
    return (uint32_t)(word >> RN_RECORD_LEVEL_AT) & (RN_LEVELS - 1);
}

static inline uint32_t rn_record_refusals(uint64_t word)
{
    return (uint32_t)(word >> RN_RECORD_REFUSALS_AT) & RN_RECORD_REFUSALS;
}

static inline uint64_t rn_record_span(uint64_t word)
{
    return word >> RN_RECORD_SPAN_AT & RN_RECORD_SPAN_MAX;
}

/* When the level is forgotten; `time_ns` is rn_record_time of the word. */
static inline int64_t rn_record_forgotten(uint64_t word, int64_t time_ns)
{
    uint64_t from = (uint64_t)time_ns >> RN_RECORD_FORGET_BITS;
    uint64_t units = (rn_record_span(word) - from) & RN_RECORD_SPAN_MAX;

    return (int64_t)((from + units) << RN_RECORD_FORGET_BITS);
}

/* Fields of an earned record. */
#define RN_RECORD_LIFE_AT 11 /* in hours */
#define RN_RECORD_SURPLUS_AT 2
#define RN_RECORD_SURPLUS 0x1FF /* percent above 100 */
#define RN_RECORD_SURPLUS_MAX 300

static inline uint32_t rn_record_surplus(uint64_t word)
{
    uint32_t surplus = (uint32_t)(word >> RN_RECORD_SURPLUS_AT) & RN_RECORD_SURPLUS;

    return surplus < RN_RECORD_SURPLUS_MAX ? surplus : RN_RECORD_SURPLUS_MAX;
}

#endif
