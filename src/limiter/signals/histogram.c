/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How requests ended, counted on the board, so that all threads and processes of a table add up.
 *
 * The window of a signal is cut into SLOTS parts. An entry of the board holds for each part the
 * number of the part (time / length, plus 1) and its counts of 32 bits:
 *
 *   when the last part was begun, in ns | parts' numbers | counts of part 0 | ...
 *
 * The first one to count in a new part clears the counts of the old one in its place. What others
 * count at that moment may be lost. An entry that had no new part for longer than any window holds
 * nothing that counts: on a full board a signal of another name gets it.
 *
 * Durations are counted in buckets, 8 for each doubling, from 64 microseconds to 67 seconds: a
 * quantile is off by at most 12 %, as values are spread evenly over a bucket.
 */
#include <string.h>

#include "limiter/board.h"
#include "limiter/rulebook/book.h"
#include "limiter/signals/signals.h"

#define SLOTS 5
#define OCTAVES 20
#define FIRST_BITS 6 /* the first bucket: below 2^6 microseconds */
#define BUCKETS (OCTAVES * 8 + 2)
#define STATUS_COUNTS 2 /* all, and those with one of the statuses */

static uint32_t counts_of(const struct rn_signal *signal)
{
    return signal->source == RN_SIGNAL_LATENCY ? BUCKETS : STATUS_COUNTS;
}

static uint32_t words_of(const struct rn_signal *signal)
{
    return 1 + SLOTS + SLOTS * counts_of(signal) / 2;
}

static uint64_t part_at(const struct rn_signal *signal, int64_t now_ns)
{
    return (uint64_t)(now_ns / (signal->over_ns / SLOTS)) + 1;
}

/* --- buckets ---------------------------------------------------------------------------- */

static unsigned bucket_of(uint64_t us)
{
    if (us >> FIRST_BITS == 0)
        return 0;
    unsigned octave = 63 - (unsigned)__builtin_clzll(us);
    unsigned bucket = 1 + (octave - FIRST_BITS) * 8 + (unsigned)(us >> (octave - 3) & 7);

    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The shortest duration in a bucket, in microseconds. */
static int64_t bucket_begin(unsigned bucket)
{
    if (bucket == 0)
        return 0;
    unsigned octave = (bucket - 1) / 8 + FIRST_BITS, part = (bucket - 1) % 8;

    return (int64_t)(8 + part) << (octave - 3);
}

/* --- counting ----------------------------------------------------------------------------- */

/* NULL: the board is full of what others still need. */
static uint64_t *entry_of(struct rn_table *table, const struct rn_signal *signal, int64_t now_ns)
{
    uint32_t n = words_of(signal);
    uint64_t *words = rn_board_entry(table, RN_BOARD_HISTOGRAM, signal->name, n);

    return words != NULL ? words
                         : rn_board_reuse(table, RN_BOARD_HISTOGRAM, signal->name, n,
                                          now_ns - RN_SIGNAL_OVER_MAX_NS);
}

/* The counts of the current part. */
static uint32_t *open_part(uint64_t *words, const struct rn_signal *signal, int64_t now_ns)
{
    uint64_t part = part_at(signal, now_ns), *number = &words[1 + part % SLOTS];
    uint32_t n = counts_of(signal), *counts = (uint32_t *)(words + 1 + SLOTS) + part % SLOTS * n;
    uint64_t before = __atomic_load_n(number, __ATOMIC_ACQUIRE);

    if (before != part && __atomic_compare_exchange_n(number, &before, part, false,
                                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&words[0], (uint64_t)now_ns, __ATOMIC_RELAXED);
        for (uint32_t i = 0; i < n; i++)
            __atomic_store_n(&counts[i], 0, __ATOMIC_RELAXED);
    }
    return counts;
}

void rn_histogram_add(struct rn_table *table, const struct rn_book *book,
                      const struct rn_rule *rule, unsigned status, int64_t duration_ns,
                      int64_t now_ns)
{
    for (uint32_t i = 0; i < book->ruleset->signal_count; i++) {
        const struct rn_signal *signal = &book->ruleset->signals[i];
        bool is_latency = signal->source == RN_SIGNAL_LATENCY;
        uint64_t *words;

        if (signal->of != rule || (is_latency ? duration_ns < 0 : status == 0))
            continue;
        words = entry_of(table, signal, now_ns);
        if (words == NULL)
            continue;
        uint32_t *counts = open_part(words, signal, now_ns);

        if (is_latency) {
            __atomic_fetch_add(&counts[bucket_of((uint64_t)duration_ns / 1000)], 1,
                               __ATOMIC_RELAXED);
        } else {
            __atomic_fetch_add(&counts[0], 1, __ATOMIC_RELAXED);
            if (rn_statuses_has(&signal->statuses, status))
                __atomic_fetch_add(&counts[1], 1, __ATOMIC_RELAXED);
        }
    }
}

/* --- values ------------------------------------------------------------------------------- */

/* Adds up the parts of the window. */
static void sum_parts(const uint64_t *words, const struct rn_signal *signal, int64_t now_ns,
                      uint64_t sums[BUCKETS])
{
    uint64_t part = part_at(signal, now_ns);
    uint32_t n = counts_of(signal);

    memset(sums, 0, BUCKETS * sizeof *sums);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        uint64_t number = __atomic_load_n(&words[1 + slot], __ATOMIC_ACQUIRE);
        const uint32_t *counts = (const uint32_t *)(words + 1 + SLOTS) + slot * n;

        if (number > part || number + SLOTS <= part)
            continue;
        for (uint32_t i = 0; i < n; i++)
            sums[i] += __atomic_load_n(&counts[i], __ATOMIC_RELAXED);
    }
}

/* Values are spread evenly over their bucket. */
static int64_t quantile_of(const uint64_t sums[BUCKETS], uint64_t total, uint32_t quantile)
{
    uint64_t before = 0, rank = (total * quantile + RN_SIGNAL_UNIT - 1) / RN_SIGNAL_UNIT;
    unsigned i = 0;

    while (i + 1 < BUCKETS && before + sums[i] < rank)
        before += sums[i++];
    int64_t begin = bucket_begin(i), width = bucket_begin(i + 1) - begin;
    double share = sums[i] == 0 ? 1 : (double)(rank - before) / (double)sums[i];

    return begin + (int64_t)((double)width * share);
}

bool rn_histogram_value(struct rn_table *table, const struct rn_signal *signal, int64_t now_ns,
                        int64_t *value)
{
    const uint64_t *words =
        rn_board_find(table, RN_BOARD_HISTOGRAM, signal->name, words_of(signal));
    uint64_t sums[BUCKETS], total = 0;

    if (words == NULL)
        return false;
    sum_parts(words, signal, now_ns, sums);
    if (signal->source == RN_SIGNAL_STATUS) {
        if (sums[0] < RN_HISTOGRAM_LEAST)
            return false;
        *value = (int64_t)(sums[1] * (uint64_t)RN_SIGNAL_UNIT / sums[0]);
        return true;
    }
    for (unsigned i = 0; i < BUCKETS; i++)
        total += sums[i];
    if (total < RN_HISTOGRAM_LEAST)
        return false;
    *value = quantile_of(sums, total, signal->quantile);
    return true;
}
