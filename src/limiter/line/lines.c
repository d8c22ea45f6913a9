/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining a line, the decision for good, and leaving: what a decision asks of lines.
 */
#include "limiter/line/lines.h"

#include <stdlib.h>

#include "limiter/line/claims.h"
#include "limiter/line/line_internal.h"
#include "limiter/line/order.h"

#define MS INT64_C(1000000)
#define AGAIN_NS MS              /* between two tries of a line, at least */
#define AGAIN_SHARED_NS (5 * MS) /* the same if a shared store is asked */
#define POLL_NS (50 * MS)        /* between two looks for what others free unseen, at least, */
#define POLL_LAST_NS (500 * MS)  /* and at most */

static struct rn_waiter *own(struct ration_waiter *waiter)
{
    return (struct rn_waiter *)(void *)waiter;
}

static const struct rn_waiter *own_const(const struct ration_waiter *waiter)
{
    return (const struct rn_waiter *)(const void *)waiter;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void add(uint64_t *total, uint64_t n)
{
    __atomic_fetch_add(total, n, __ATOMIC_RELAXED);
}

static uint64_t load(const uint64_t *total)
{
    return __atomic_load_n(total, __ATOMIC_RELAXED);
}

/* --- the gate --------------------------------------------------------------------------------- */

static uint64_t arrival_of(const struct ration_waiter *waiter)
{
    const struct rn_waiter *w = waiter ? own_const(waiter) : NULL;

    return w && w->state != RN_WAITER_IDLE ? w->arrival : UINT64_MAX;
}

static int64_t wait_in(const struct rn_line *line, uint64_t units, int64_t now_ns)
{
    int64_t at = rn_estimate_at(&line->estimate, units);

    at = at > line->opens_ns ? at : line->opens_ns;

    return at > now_ns ? at - now_ns : 0;
}

bool rn_lines_is_ahead(struct rn_lines *lines, uint64_t key, uint64_t units, uint32_t rank,
                       const struct ration_waiter *waiter, int64_t now_ns, int64_t *wait_ns)
{
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, key);
    struct rn_line *line = rn_line_table_find(stripe, key);
    bool is_ahead = false;

    if (line) {
        const struct rn_waiter *w = waiter ? own_const(waiter) : NULL;
        bool together =
            w && w->line == line && (w->steps == RN_STEPS_LOCAL || rn_line_is_running(w->waiting));
        uint64_t arrival = arrival_of(waiter);
        const struct rn_waiter *first =
            together ? rn_order_first_standing(line->root) : rn_order_first(line->root);

        is_ahead = first && rn_order_is_before(first, rank, arrival);
        if (is_ahead)
            *wait_ns =
                wait_in(line, rn_order_ahead(line->root, rank, arrival).units + units, now_ns);
    }
    rn_line_table_unlock(stripe, NULL);
    return is_ahead;
}

bool rn_lines_is_behind(struct rn_lines *lines, const struct ration_waiter *waiter)
{
    const struct rn_waiter *w = own_const(waiter);
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, w->key);
    const struct rn_waiter *first = w->line ? rn_order_first_standing(w->line->root) : NULL;
    bool is_behind = first && rn_order_is_before(first, w->rank, w->arrival);

    rn_line_table_unlock(stripe, NULL);
    return is_behind;
}

void rn_lines_look(struct rn_lines *lines, uint64_t key, uint64_t units, uint32_t rank,
                   int64_t now_ns, struct ration_line *out)
{
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, key);
    const struct rn_line *line = rn_line_table_find(stripe, key);

    *out = (struct ration_line){0};
    if (line) {
        struct rn_order_ahead ahead = rn_order_ahead(line->root, rank, UINT64_MAX);

        out->waiting = line->root ? line->root->count : 0;
        out->ahead = ahead.count;
        out->opens_after_ns = line->opens_ns > now_ns ? line->opens_ns - now_ns : 0;
        out->wait_at_least_ns = ahead.count ? wait_in(line, ahead.units + units, now_ns) : 0;
    }
    rn_line_table_unlock(stripe, NULL);
}

/* --- joining ---------------------------------------------------------------------------------- */

/* Counts one more that waits, if the process has room. */
static bool reserve(struct rn_lines *lines)
{
    if (__atomic_fetch_add(&lines->waiting, 1, __ATOMIC_RELAXED) < load(&lines->most))
        return true;
    __atomic_fetch_sub(&lines->waiting, 1, __ATOMIC_RELAXED);
    return false;
}

/* Whether a newcomer to the line has room. *last: if this one of a lower rank goes for it. */
static bool has_room(struct rn_lines *lines, struct rn_line *line, bool waited,
                     const struct rn_line_refusal *refusal, struct rn_waiter **last)
{
    bool fits = line->root ? line->root->count < refusal->size : refusal->size != 0;

    if (fits && (waited || reserve(lines)))
        return true;
    *last = rn_order_last(line->root);
    if (!*last || (*last)->state != RN_WAITER_STANDS || (*last)->rank <= refusal->rank)
        return false;
    if (!waited) /* the other counts until it has been refused */
        add(&lines->waiting, 1);
    return true;
}

/* The longer it has looked in vain, the less often it looks. */
static int64_t poll_ns(const struct rn_waiter *w, int64_t now_ns)
{
    int64_t rest_ns = (now_ns - w->arrived_ns) / 8;

    if (rest_ns < POLL_NS)
        return POLL_NS;
    return rest_ns < POLL_LAST_NS ? rest_ns : POLL_LAST_NS;
}

/* It is the first that stands: the store's answer is news of the limit. */
static void refused_first(struct rn_line *line, const struct rn_waiter *w,
                          const struct rn_line_refusal *refusal, int64_t now_ns)
{
    uint64_t before = rn_order_ahead(line->root, w->rank, w->arrival).units;
    int64_t retry = refusal->verdict.retry_after_ns;
    bool shared = refusal->steps != RN_STEPS_LOCAL;
    int64_t again = shared ? AGAIN_SHARED_NS : AGAIN_NS;

    /* Those ahead have left meanwhile: it must ask, but not over and over. */
    if (refusal->by_line) {
        line->estimate.at_ns = RN_ESTIMATE_UNKNOWN;
        line->opens_ns = now_ns + (now_ns - w->moved_ns < again ? again : 0);
        return;
    }
    if (refusal->polls && retry > poll_ns(w, now_ns))
        retry = poll_ns(w, now_ns);
    line->limit = *refusal->limit;
    line->batches = shared;
    line->opens_ns = now_ns + (retry < again || line->poked ? again : retry);
    line->estimate = rn_estimate_refused(refusal->limit, &refusal->verdict, before,
                                         refusal->units + refusal->keep, now_ns);
    if (line->poked || refusal->inexact)
        line->estimate.at_ns = RN_ESTIMATE_UNKNOWN;
    line->poked = false;
}

/* The least wait by the line, and by what the store said of this request alone. */
static bool is_late(const struct rn_line *line, const struct rn_waiter *w,
                    const struct rn_line_refusal *refusal, int64_t now_ns)
{
    int64_t retry = refusal->verdict.retry_after_ns;
    uint64_t units = rn_order_ahead(line->root, w->rank, w->arrival).units + w->units;

    if (retry == RATION_NEVER || now_ns >= w->until_ns)
        return true;
    if (!refusal->by_line && !refusal->claimed && !rn_form_is_places(refusal->limit->form) &&
        retry > w->until_ns - now_ns)
        return true;
    return rn_estimate_at(&line->estimate, units) > w->until_ns;
}

struct entry {
    struct rn_line_refusal refusal;
    int64_t until_ns, now_ns;
};

/* Enters the line that is locked, or stays there. */
static enum rn_line_answer enter(struct rn_lines *lines, struct rn_line *line, struct rn_waiter *w,
                                 const struct entry *entry, struct rn_wakes *wakes)
{
    bool waited = w->state != RN_WAITER_IDLE, stays = w->line == line;
    const struct rn_line_refusal *refusal = &entry->refusal;
    struct rn_waiter *displaced = NULL;

    line->seen_ns = entry->now_ns;
    if (stays)
        rn_turns_take_out(w);
    else if (!has_room(lines, line, waited, refusal, &displaced))
        return RN_LINE_FULL;
    w->rank = refusal->rank;
    w->units = refusal->units;
    w->keep = refusal->keep;
    w->steps = (uint8_t)refusal->steps;
    w->until_ns = entry->until_ns;
    w->line = line;
    rn_waiter_set_state(w, RN_WAITER_STANDS);
    rn_order_insert(&line->root, w);
    bool is_first = rn_order_first_standing(line->root) == w;

    if (is_first)
        refused_first(line, w, refusal, entry->now_ns);
    if (is_late(line, w, refusal, entry->now_ns)) {
        rn_turns_take_out(w);
        if (is_first)
            rn_turns_reopen(line, w->units + w->keep);
        rn_waiter_set_state(w, waited ? RN_WAITER_OVER : RN_WAITER_IDLE);
        if (!waited)
            __atomic_fetch_sub(&lines->waiting, 1, __ATOMIC_RELAXED);
        return RN_LINE_LATE;
    }
    if (displaced)
        rn_turns_end(displaced, wakes);
    if (is_first)
        rn_turns_end_late(line, wakes);
    return RN_LINE_JOINED;
}

/* Leaves the line in which it stands, uncharged. */
static void step_out(struct rn_lines *lines, struct rn_waiter *w, enum rn_waiter_state state)
{
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, w->key);
    struct rn_line *line = w->line;
    struct rn_wakes wakes = {0};

    if (line) {
        bool had_turn = w->state == RN_WAITER_TURN || w->state == RN_WAITER_CALLED;
        bool was_first = rn_order_first_standing(line->root) == w;

        rn_turns_take_out(w);
        if (had_turn)
            line->opens_ns = line->seen_ns < line->busy_ns ? line->busy_ns : line->seen_ns;
        else if (was_first)
            rn_turns_reopen(line, w->units + w->keep);
        rn_line_table_settle(lines, stripe, line, &wakes);
    }
    rn_waiter_set_state(w, state);
    rn_line_table_unlock(stripe, &wakes);
}

static void count_refused(struct rn_lines *lines, enum rn_line_answer answer)
{
    add(answer == RN_LINE_FULL ? &lines->totals.refused_full : &lines->totals.refused_late, 1);
}

/* One that comes from another line has left that. */
static enum rn_line_answer enter_by_key(struct rn_lines *lines, struct rn_waiter *w,
                                        struct rn_line *spare, const struct entry *entry)
{
    uint64_t key = entry->refusal.key;
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, key);
    struct rn_line *line = rn_line_table_find(stripe, key);
    enum rn_line_answer answer = RN_LINE_FULL;
    int64_t due_ns = RATION_NEVER;
    struct rn_wakes wakes = {0};

    if (!line && (spare || (spare = malloc(sizeof *spare)) != NULL)) {
        rn_line_table_add(lines, stripe, spare, key);
        line = spare;
        spare = NULL;
    }
    if (line) {
        answer = enter(lines, line, w, entry, &wakes);
        if (answer == RN_LINE_JOINED)
            due_ns = rn_turns_due_ns(line, w, load(&lines->threads) > 1);
        rn_line_table_settle(lines, stripe, line, &wakes);
    }
    rn_line_table_unlock(stripe, &wakes);
    free(spare);
    if (answer == RN_LINE_JOINED)
        rn_line_set_due(w, due_ns);
    return answer;
}

enum rn_line_answer rn_lines_join(struct rn_lines *lines, struct ration_waiter *waiter,
                                  const struct rn_line_refusal *refusal, int64_t until_ns,
                                  int64_t now_ns)
{
    struct rn_waiter *w = own(waiter);
    struct entry entry = {*refusal, until_ns, now_ns};
    struct rn_line *spare = NULL;
    uint8_t state = __atomic_load_n(&w->state, __ATOMIC_RELAXED);
    bool moves = state != RN_WAITER_IDLE && refusal->key != w->key;
    int64_t end_ns = rn_line_end_ns(w->waiting);

    if (state == RN_WAITER_OVER)
        return RN_LINE_LATE;
    if (moves && (spare = malloc(sizeof *spare)) == NULL) { /* no memory: it stays where it is */
        entry.refusal.key = w->key;
        entry.refusal.by_line = true;
        w->moved_ns = now_ns;
    } else if (moves) {
        step_out(lines, w, RN_WAITER_OVER);
        if (w->moves < RN_CLAIMS_AFTER)
            w->moves++;
    }
    if (state == RN_WAITER_IDLE) {
        w->arrival = __atomic_add_fetch(&lines->arrivals, 1, __ATOMIC_RELAXED);
        w->arrived_ns = now_ns;
        w->moved_ns = INT64_MIN / 2;
        w->moves = 0;
    }
    w->key = entry.refusal.key;
    w->verdict = refusal->verdict;
    w->joined_ns = now_ns;
    w->watches_ns = INT64_MIN;
    if (w->most_ns > 0 && w->most_ns < INT64_MAX - w->arrived_ns)
        end_ns = least(end_ns, w->arrived_ns + w->most_ns);
    entry.until_ns = least(until_ns, end_ns);
    enum rn_line_answer answer = enter_by_key(lines, w, spare, &entry);

    w->moved_ns = entry.refusal.by_line ? now_ns : w->moved_ns;
    if (state == RN_WAITER_IDLE && answer != RN_LINE_JOINED)
        count_refused(lines, answer);
    else if (state == RN_WAITER_IDLE)
        add(&lines->totals.joined, 1);
    return answer;
}

/* --- going ------------------------------------------------------------------------------------ */

/* The one that had its turn is gone. When the next fits, if the answer to it tells. */
static void open_next(struct rn_line *line, bool admitted, const struct ration_verdict *verdict,
                      int64_t now_ns, struct rn_wakes *wakes)
{
    struct rn_waiter *next = rn_order_first_standing(line->root);

    line->seen_ns = line->opens_ns = now_ns;
    if (admitted)
        line->estimate.at_ns = RN_ESTIMATE_UNKNOWN;
    if (admitted && verdict && !line->poked) {
        line->estimate = rn_estimate_admitted(&line->limit, verdict, now_ns);
        rn_turns_end_late(line, wakes);
        next = rn_order_first_standing(line->root);
        if (next && line->estimate.at_ns != RN_ESTIMATE_UNKNOWN)
            line->opens_ns = rn_estimate_at(&line->estimate, next->units + next->keep);
    }
    line->poked = line->poked && line->turns != 0;
}

static void count_time(struct rn_lines *lines, int64_t ns)
{
    static const int bounds_ms[RATION_WAIT_BUCKETS - 1] = {5,   10,   25,   50,   100,  250,
                                                           500, 1000, 2500, 5000, 10000};
    unsigned i = 0;

    while (i < RATION_WAIT_BUCKETS - 1 && ns > bounds_ms[i] * MS)
        i++;
    add(&lines->totals.times[i], 1);
    add(&lines->totals.time_sum_ns, ns > 0 ? (uint64_t)ns : 0);
}

void rn_lines_finish(struct rn_lines *lines, struct ration_waiter *waiter, bool admitted,
                     const struct ration_verdict *verdict, int64_t now_ns)
{
    struct rn_waiter *w = own(waiter);
    struct rn_wakes wakes = {0};

    if (!rn_lines_waits(waiter))
        return;
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, w->key);
    struct rn_line *line = w->line;

    if (line) {
        rn_turns_take_out(w);
        open_next(line, admitted, verdict, now_ns, &wakes);
        rn_line_table_settle(lines, stripe, line, &wakes);
    }
    rn_waiter_set_state(w, RN_WAITER_IDLE);
    rn_line_table_unlock(stripe, &wakes);
    rn_line_forget(w);
    rn_claims_drop(lines, waiter, true);
    __atomic_fetch_sub(&lines->waiting, 1, __ATOMIC_RELAXED);
    add(admitted ? &lines->totals.admitted : &lines->totals.timed_out, 1);
    count_time(lines, now_ns - w->arrived_ns);
}

void rn_lines_leave(struct rn_lines *lines, struct rn_waiter *w)
{
    step_out(lines, w, RN_WAITER_IDLE);
    rn_line_forget(w);
    rn_claims_drop(lines, (struct ration_waiter *)(void *)w, true);
    __atomic_fetch_sub(&lines->waiting, 1, __ATOMIC_RELAXED);
    add(&lines->totals.left, 1);
}

/* --- what is known of a waiter ---------------------------------------------------------------- */

bool rn_lines_waits(const struct ration_waiter *waiter)
{
    return __atomic_load_n(&own_const(waiter)->state, __ATOMIC_RELAXED) != RN_WAITER_IDLE;
}

bool rn_lines_is_over(const struct ration_waiter *waiter)
{
    return __atomic_load_n(&own_const(waiter)->state, __ATOMIC_RELAXED) == RN_WAITER_OVER;
}

bool rn_lines_is_shared(const struct ration_waiter *waiter)
{
    return own_const(waiter)->steps != RN_STEPS_LOCAL;
}

uint64_t rn_lines_key(const struct ration_waiter *waiter)
{
    return own_const(waiter)->key;
}

int64_t rn_lines_arrived_ns(const struct ration_waiter *waiter)
{
    return own_const(waiter)->arrived_ns;
}
