/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of lines: stripes with a lock each, and chains of lines by key. A line exists while
 * somebody stands in it.
 */
#include <assert.h>
#include <stdlib.h>

#include "limiter/line/line_internal.h"
#include "limiter/line/order.h"

#define MOST_WAITING 10000

struct rn_lines *rn_lines_new(void)
{
    struct rn_lines *lines = aligned_alloc(64, sizeof *lines);

    if (!lines)
        return NULL;
    *lines = (struct rn_lines){.most = MOST_WAITING};
    for (unsigned i = 0; i < RN_LINE_STRIPES; i++)
        pthread_mutex_init(&lines->stripes[i].lock, NULL);
    return lines;
}

void rn_lines_free(struct rn_lines *lines)
{
    if (!lines)
        return;
    assert(lines->gate.lines == 0);
    for (unsigned i = 0; i < RN_LINE_STRIPES; i++)
        pthread_mutex_destroy(&lines->stripes[i].lock);
    free(lines);
}

struct rn_line_stripe *rn_line_table_lock(struct rn_lines *lines, uint64_t key)
{
    struct rn_line_stripe *stripe = &lines->stripes[key >> 58];

    pthread_mutex_lock(&stripe->lock);
    return stripe;
}

void rn_line_table_unlock(struct rn_line_stripe *stripe, struct rn_wakes *wakes)
{
    pthread_mutex_unlock(&stripe->lock);
    if (wakes)
        rn_line_wake(wakes);
}

static struct rn_line **bucket_of(struct rn_line_stripe *stripe, uint64_t key)
{
    return &stripe->buckets[(key >> 52) % RN_LINE_BUCKETS];
}

struct rn_line *rn_line_table_find(struct rn_line_stripe *stripe, uint64_t key)
{
    struct rn_line *line = *bucket_of(stripe, key);

    while (line && line->key != key)
        line = line->next;
    return line;
}

void rn_line_table_add(struct rn_lines *lines, struct rn_line_stripe *stripe, struct rn_line *line,
                       uint64_t key)
{
    struct rn_line **bucket = bucket_of(stripe, key);

    *line = (struct rn_line){
        .next = *bucket, .key = key, .estimate.at_ns = RN_ESTIMATE_UNKNOWN, .opens_ns = INT64_MIN};
    *bucket = line;
    __atomic_fetch_add(&lines->gate.filter[key % RN_LINES_FILTER], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&lines->gate.lines, 1, __ATOMIC_RELAXED);
}

void rn_line_table_settle(struct rn_lines *lines, struct rn_line_stripe *stripe,
                          struct rn_line *line, struct rn_wakes *wakes)
{
    struct rn_line **link = bucket_of(stripe, line->key);

    if (line->root) {
        rn_turns_hand_on(line, wakes);
        return;
    }
    if (line->claims)
        return;
    while (*link != line)
        link = &(*link)->next;
    *link = line->next;
    __atomic_fetch_sub(&lines->gate.filter[line->key % RN_LINES_FILTER], 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&lines->gate.lines, 1, __ATOMIC_RELAXED);
    free(line);
}

/* --- in the thread of a waiter ---------------------------------------------------------------- */

static bool has_several(const struct rn_lines *lines)
{
    return __atomic_load_n(&lines->threads, __ATOMIC_RELAXED) > 1;
}

bool rn_line_table_begin(struct rn_lines *lines, struct rn_waiter *w, int64_t now_ns,
                         int64_t *due_ns)
{
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, w->key);
    struct rn_line *line = w->line;
    struct rn_wakes wakes = {0};
    bool begins = w->state == RN_WAITER_OVER;

    *due_ns = RATION_NEVER;
    if (line) {
        bool several = has_several(lines);

        line->seen_ns = now_ns;
        begins = rn_turns_begin(line, w, now_ns, several, &wakes);
        if (!begins)
            *due_ns = rn_turns_due_ns(line, w, several);
        else if (!w->line)
            rn_line_table_settle(lines, stripe, line, &wakes);
    }
    rn_line_table_unlock(stripe, &wakes);
    return begins;
}

int64_t rn_line_table_due_ns(struct rn_lines *lines, struct rn_waiter *w)
{
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, w->key);
    int64_t due = w->state == RN_WAITER_OVER ? INT64_MIN
                  : w->line                  ? rn_turns_due_ns(w->line, w, has_several(lines))
                                             : RATION_NEVER;

    rn_line_table_unlock(stripe, NULL);
    return due;
}

void rn_line_table_open(struct rn_line *line, int64_t now_ns, struct rn_wakes *wakes)
{
    line->estimate.at_ns = RN_ESTIMATE_UNKNOWN;
    line->poked = line->turns != 0;
    line->opens_ns = line->opens_ns < now_ns ? line->opens_ns : now_ns;
    line->seen_ns = now_ns;
    rn_turns_hand_on(line, wakes);
}

void rn_line_table_shift(struct rn_lines *lines, struct rn_waiter *w, int64_t back_ns,
                         int64_t now_ns)
{
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, w->key);
    struct rn_wakes wakes = {0};

    w->arrived_ns -= back_ns;
    w->moved_ns = INT64_MIN / 2;
    if (w->line) {
        w->until_ns -= back_ns;
        rn_order_update(w->line->root, w);
        rn_line_table_open(w->line, now_ns, &wakes);
    }
    rn_line_table_unlock(stripe, &wakes);
}

bool rn_lines_stands(struct rn_lines *lines, uint64_t key)
{
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, key);
    bool stands = rn_line_table_find(stripe, key) != NULL;

    rn_line_table_unlock(stripe, NULL);
    return stands;
}

/* --- all lines -------------------------------------------------------------------------------- */

void rn_lines_poke(struct rn_lines *lines, uint64_t key, int64_t now_ns)
{
    struct rn_wakes wakes = {0};

    if (!rn_lines_any(lines) || !rn_lines_may_stand(lines, key))
        return;
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, key);
    struct rn_line *line = rn_line_table_find(stripe, key);

    if (line)
        rn_line_table_open(line, now_ns, &wakes);
    rn_line_table_unlock(stripe, &wakes);
}

void rn_lines_poke_all(struct rn_lines *lines, int64_t now_ns)
{
    if (!rn_lines_any(lines))
        return;
    for (uint64_t i = 0; i < RN_LINE_STRIPES; i++) {
        struct rn_line_stripe *stripe = rn_line_table_lock(lines, i << 58);
        struct rn_wakes wakes = {0};

        for (unsigned j = 0; j < RN_LINE_BUCKETS; j++) {
            for (struct rn_line *line = stripe->buckets[j]; line; line = line->next)
                rn_line_table_open(line, now_ns, &wakes);
        }
        rn_line_table_unlock(stripe, &wakes);
    }
}
