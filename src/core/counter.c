/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sliding window counter: the previous window weighted by how much of it the
 * sliding window still covers, plus the current one. With W the period, e the
 * time into the current window and n the cost, a request fits if
 *
 *   prev * (W - e) + (cur + n) * W <= amount * W
 *
 * in exact integers. Windows are numbered floor(now / W).
 *
 *   [0] (number of the current window + 2) * W: when nothing counts any more
 *   [1] previous count   [2] current count
 *   [3] owed: what a late debit found no room for counts here, and is charged to the
 *       next window. Then [0] is a window later
 */
#include "core/forms.h"

struct counter {
    int64_t number; /* of the current window */
    uint64_t prev, cur, owed;
    int64_t into_ns; /* time into it */
};

static uint64_t saturating_sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* One window on: what is owed goes where the one that has ended had room for it, now that
 * all before has faded, and else into the next one. */
static void turn(const struct rn_limit *limit, struct counter *c)
{
    uint64_t room = limit->amount > c->cur ? limit->amount - c->cur : 0;
    uint64_t filled = rn_min_u64(c->owed, room);

    c->prev = c->cur + filled;
    c->cur = c->owed - filled;
    c->owed = 0;
    c->number++;
}

/* The counter as it stands at now. A clock that went back stays at the start of
 * the window it had reached, if that is the next one; from further ahead all
 * that counted is brought into the current window, where none of it has faded. */
static struct counter roll(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                           int64_t now, bool *clamped)
{
    int64_t period = limit->period_ns, number = rn_floor_div(now, period);
    struct counter c = {.prev = state[1], .cur = state[2]};

    if (words >= 4 && state[3] != 0)
        c.owed = rn_min_u64(state[3], rn_largest_amount(limit));
    c.number = rn_floor_div((int64_t)state[0], period) - (words >= 4 && state[3] != 0 ? 3 : 2);
    *clamped = false;
    if (c.number > number + 1) {
        c = (struct counter){
            .number = number, .cur = saturating_sum(c.prev, c.cur), .owed = c.owed};
        *clamped = true;
    }
    if (c.number > number)
        return c;
    for (unsigned i = 0; i < 3 && c.number < number; i++)
        turn(limit, &c);
    if (c.number < number)
        c = (struct counter){.number = number};
    c.into_ns = now - number * period;
    return c;
}

/* amount * W - prev * (W - e) - (cur + owed) * W: free units times W. */
static rn_i128 free_area(const struct rn_limit *limit, const struct counter *c)
{
    rn_i128 period = limit->period_ns;

    return (rn_i128)limit->amount * period - (rn_i128)c->prev * (period - c->into_ns) -
           ((rn_i128)c->cur + c->owed) * period;
}

/* Until `prev` has faded so far that the room is enough for it: the smallest e with
 * prev * (W - e) <= room * W. */
static int64_t wait_ns(const struct rn_limit *limit, const struct counter *c, int64_t now,
                       uint64_t cost)
{
    struct counter at = *c;

    if (cost > limit->amount)
        return rn_limit_beyond_ns(limit, cost);
    while (saturating_sum(at.cur, at.owed) > limit->amount - cost) /* at most three times */
        turn(limit, &at);
    uint64_t room = limit->amount - cost - at.cur - at.owed, period = (uint64_t)limit->period_ns;

    if (at.prev <= room)
        return at.number * limit->period_ns - now;
    return (at.number + 1) * limit->period_ns - (int64_t)((rn_u128)room * period / at.prev) - now;
}

static bool give_back(struct counter *c, const struct rn_ask *ask)
{
    uint64_t *count = ask->mark == c->number       ? &c->cur
                      : ask->mark == c->number - 1 ? &c->prev
                                                   : NULL;
    uint64_t owed = rn_min_u64(c->owed, ask->cost);

    if (!count || *count == 0 || ask->cost == 0)
        return false;
    c->owed -= owed; /* first */
    *count -= rn_min_u64(*count, ask->cost - owed);
    return true;
}

/* What is owed, then the current window, then the one before. */
static bool credit(struct counter *c, uint64_t units)
{
    uint64_t *const youngest_first[] = {&c->owed, &c->cur, &c->prev};
    uint64_t rest = units;

    for (unsigned i = 0; i < 3; i++) {
        uint64_t back = rn_min_u64(*youngest_first[i], rest);

        *youngest_first[i] -= back;
        rest -= back;
    }
    return rest != units;
}

static int64_t idle_at(const struct rn_limit *limit, struct counter c, int64_t now)
{
    while (c.cur != 0 || c.owed != 0)
        turn(limit, &c);
    return c.prev != 0 ? (c.number + 1) * limit->period_ns : now;
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t now = ask->now_ns, period = limit->period_ns;
    bool write;
    struct counter c = roll(limit, state, words, now, &write);
    rn_i128 area = free_area(limit, &c);
    uint64_t left = area > 0 ? (uint64_t)(area / period) : 0;

    answer->retry_after_ns = answer->delay_ns = 0;
    answer->mark = c.number;
    if (ask->op == RN_GIVE_BACK || ask->op == RN_CREDIT) {
        answer->allowed = ask->op == RN_CREDIT ? credit(&c, ask->cost) : give_back(&c, ask);
        write |= answer->allowed;
    } else {
        answer->allowed = ask->cost <= left;
        if (!answer->allowed)
            answer->retry_after_ns = wait_ns(limit, &c, now, ask->cost);
        if (ask->cost != 0 && rn_op_charges(ask->op, answer->allowed)) {
            c.cur += rn_min_u64(ask->cost, left);
            c.owed += rn_owe(ask, left, limit->cap - rn_min_u64(c.owed, limit->cap), answer);
            write = true;
        }
    }
    area = free_area(limit, &c);
    answer->remaining = area > 0 ? (uint64_t)(area / period) : 0;
    answer->reset_after_ns = idle_at(limit, c, now) - now;
    if (!write)
        return RN_KEEP;
    if (c.owed != 0 && words < 4)
        return RN_GROW;
    state[0] = (uint64_t)((c.number + (c.owed != 0 ? 3 : 2)) * period);
    state[1] = c.prev;
    state[2] = c.cur;
    if (words >= 4)
        state[3] = c.owed;
    return RN_WRITE;
}

static int64_t oldest(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                      const struct rn_ask *ask)
{
    bool clamped;
    int64_t now_ns = ask->now_ns;
    struct counter c = roll(limit, state, words, now_ns, &clamped);

    if (c.prev == 0 && c.cur == 0)
        return RN_NEVER;
    return rn_max_i64(now_ns - (c.number - (c.prev != 0)) * limit->period_ns, 0);
}

static uint64_t spent(const uint64_t *state, uint32_t words)
{
    return words >= 3 ? (state[1] > state[2] ? state[1] : state[2]) : 0;
}

static int64_t mark_at(const struct rn_limit *limit, int64_t at_ns)
{
    return rn_floor_div(at_ns, limit->period_ns);
}

static int64_t settles(const struct rn_limit *outer, const struct rn_limit *inner)
{
    return rn_envelope_settles_span(outer, inner, outer->period_ns, 2 * outer->period_ns);
}

const struct rn_form_descriptor rn_counter_form = {
    .algorithm = RATION_SLIDING_WINDOW,
    .apply = apply,
    .oldest = oldest,
    .spent = spent,
    .mark_at = mark_at,
    .envelope = rn_envelope_doubled,
    .settles = settles,
};
