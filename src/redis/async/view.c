/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/async/view.h"

#define US_NS 1000
#define EXACT (INT64_C(1) << 53)

/* Half of the exact range is reserved for charges beyond the limit. */
bool rn_view_serves(const struct rn_limit *l)
{
    struct rn_codec_parts parts;

    if (rn_codec_fault(l))
        return false;
    enum rn_script script = rn_codec_script(l);

    if (script != RN_SCRIPT_BUCKET)
        return script == RN_SCRIPT_WINDOW || script == RN_SCRIPT_COUNTER;
    rn_codec_bucket(l, &parts);
    return l->algorithm == RATION_TOKEN_BUCKET && parts.full < EXACT / 2;
}

void rn_view_init(struct rn_view *v, const struct rn_limit *l, int64_t store_us, int64_t now_ns)
{
    *v = (struct rn_view){.kind = rn_codec_script(l),
                          .from_first = l->from_first,
                          .percent = l->percent,
                          .cap = l->cap,
                          .amount = l->amount,
                          .period_ns = l->period_ns,
                          .period_us = rn_codec_us(l->period_ns),
                          .store_us = store_us,
                          .at_ns = now_ns};
    if (v->kind == RN_SCRIPT_BUCKET)
        rn_codec_bucket(l, &v->parts);
}

bool rn_view_is_of(const struct rn_view *v, const struct rn_limit *l)
{
    return v->cap == l->cap && v->amount == l->amount && v->percent == l->percent &&
           v->period_ns == l->period_ns && v->from_first == l->from_first &&
           v->kind == rn_codec_script(l);
}

bool rn_view_learn(struct rn_view *v, const long long numbers[RN_VIEW_NUMBERS], long long store_us,
                   int64_t now_ns)
{
    bool sound = store_us >= 0 && store_us < EXACT;

    for (size_t i = 0; i < RN_VIEW_NUMBERS; i++)
        sound &= numbers[i] >= 0 && numbers[i] < EXACT;
    if (!sound)
        return false;
    for (size_t i = 0; i < RN_VIEW_NUMBERS; i++)
        v->state[i] = numbers[i];
    v->store_us = store_us;
    v->at_ns = now_ns;
    return true;
}

int64_t rn_view_time(const struct rn_view *v, int64_t now_ns)
{
    return v->store_us + (now_ns > v->at_ns ? (now_ns - v->at_ns) / US_NS : 0);
}

/* --- buckets: as bucket.lua -------------------------------------------------------------- */

static int64_t debt_at(const struct rn_view *v, int64_t store_us)
{
    int64_t ticks = store_us / v->parts.tick_us - v->state[1], paid;

    if (ticks <= 0)
        return v->state[0];
    if (__builtin_mul_overflow(ticks, v->parts.paid, &paid) || paid >= v->state[0])
        return 0;
    return v->state[0] - paid;
}

static int64_t bucket_wait(const struct rn_view *v, int64_t store_us, uint64_t units)
{
    int64_t tick = store_us / v->parts.tick_us, us;
    int64_t over = debt_at(v, store_us) + (int64_t)units * v->parts.unit - v->parts.full;
    int64_t from = tick > v->state[1] ? tick : v->state[1];

    if (over <= 0)
        return 0;
    int64_t ticks = over / v->parts.paid + (over % v->parts.paid > 0);
    if (__builtin_mul_overflow(from + ticks, v->parts.tick_us, &us))
        return INT64_MAX;
    return us - store_us;
}

/* --- fixed windows: as window.lua -------------------------------------------------------- */

static int64_t end_of_window(const struct rn_view *v, const struct rn_limit *l, int64_t store_us)
{
    if (v->state[0] > store_us)
        return v->state[0];
    if (v->from_first)
        return store_us + v->period_us;
    return store_us + rn_limit_window_left(l, store_us * US_NS) / US_NS;
}

static int64_t window_count(const struct rn_view *v, int64_t store_us)
{
    return v->state[0] > store_us ? v->state[1] : 0;
}

/* --- sliding counters: as counter.lua ----------------------------------------------------- */

struct counter {
    int64_t number, prev, cur;
    int64_t rest_us; /* of the current window */
};

static struct counter roll(const struct rn_view *v, int64_t store_us)
{
    int64_t number = store_us / v->period_us;
    struct counter c = {.number = v->state[0], .prev = v->state[1], .cur = v->state[2]};

    if (c.number < number)
        c = (struct counter){.number = number, .prev = c.number == number - 1 ? c.cur : 0};
    int64_t rest = (c.number + 1) * v->period_us - store_us;
    c.rest_us = rest < v->period_us ? rest : v->period_us;
    return c;
}

static int64_t counter_left(const struct rn_view *v, const struct counter *c)
{
    __extension__ typedef __int128 wide;
    wide area = ((wide)v->amount - c->cur) * v->period_us - (wide)c->prev * c->rest_us;

    return (int64_t)(area / v->period_us) - (area % v->period_us < 0);
}

/* The smallest time into a window at which `prev` weighs no more than `room`. */
static int64_t fades_at(const struct rn_view *v, int64_t prev, int64_t room)
{
    __extension__ typedef __int128 wide;

    return prev <= room ? 0 : v->period_us - (int64_t)((wide)room * v->period_us / prev);
}

static int64_t counter_wait(const struct rn_view *v, int64_t store_us, uint64_t more, uint64_t cost)
{
    struct counter c = roll(v, store_us);
    int64_t start = c.number * v->period_us, room = (int64_t)(v->amount - cost);

    c.cur += (int64_t)more;
    if (counter_left(v, &c) >= (int64_t)cost)
        return 0;
    if (c.cur <= room)
        return start + fades_at(v, c.prev, room - c.cur) - store_us;
    return start + v->period_us + fades_at(v, c.cur, room) - store_us;
}

/* --- all ----------------------------------------------------------------------------------- */

int64_t rn_view_left(const struct rn_view *v, int64_t store_us)
{
    struct counter c;

    if (v->kind == RN_SCRIPT_BUCKET) {
        int64_t parts = v->parts.full - debt_at(v, store_us);

        return parts / v->parts.unit - (parts % v->parts.unit < 0); /* rounded down */
    }
    if (v->kind == RN_SCRIPT_WINDOW)
        return (int64_t)v->amount - window_count(v, store_us);
    c = roll(v, store_us); /* a sliding counter: rn_view_serves admits no other */
    return counter_left(v, &c);
}

int64_t rn_view_wait(const struct rn_view *v, const struct rn_limit *l, int64_t store_us,
                     uint64_t more, uint64_t cost)
{
    int64_t us;

    if (v->kind == RN_SCRIPT_BUCKET)
        us = bucket_wait(v, store_us, more + cost);
    else if (v->kind == RN_SCRIPT_WINDOW)
        us = window_count(v, store_us) + (int64_t)(more + cost) > (int64_t)v->amount
                 ? end_of_window(v, l, store_us) - store_us
                 : 0;
    else
        us = counter_wait(v, store_us, more, cost);
    return us > INT64_MAX / US_NS ? RN_NEVER : us * US_NS;
}

int64_t rn_view_mark(const struct rn_view *v, const struct rn_limit *l, int64_t store_us)
{
    if (v->kind == RN_SCRIPT_BUCKET)
        return store_us;
    return v->kind == RN_SCRIPT_WINDOW ? end_of_window(v, l, store_us) : roll(v, store_us).number;
}
