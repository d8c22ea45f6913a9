/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t floor_to(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q * b > a ? q - 1 : q;
}

static int64_t ceil_to(int64_t a, int64_t b)
{
    return -floor_to(-a, b);
}

/* ---- buckets */

static uint64_t capacity(const struct ration_limit *spec)
{
    if (spec->algorithm == RATION_LEAKY_BUCKET)
        return spec->amount == 0 ? 0 : spec->queue + 1;
    if (spec->burst != 0 && spec->amount != 0) /* of a token bucket or an own algorithm */
        return spec->burst;
    return spec->amount;
}

static void bucket_init(struct model_bucket *b, const struct ration_limit *spec, bool strict)
{
    model_int amount = (model_int)spec->amount, period = spec->period_ns, one = 1;

    *b = (struct model_bucket){.unit = period, .per_tick = amount, .tick_ns = 1, .strict = strict};
    if (spec->step_ns != 0) {
        b->unit = 1;
        b->per_tick = amount * spec->step_ns / period;
        b->tick_ns = spec->step_ns;
    } else if (strict && amount != 0) {
        bool whole = period / amount >= 1000000;

        b->per_tick = one << 32;
        b->unit =
            whole ? (period + amount - 1) / amount << 32 : ((period << 32) + amount - 1) / amount;
    }
    b->full = b->unit * (model_int)capacity(spec);
}

static void bucket_tick(struct model_bucket *b, int64_t now_ns)
{
    int64_t tick = floor_to(now_ns, b->tick_ns);
    model_int paid = (model_int)(tick - b->tick) * b->per_tick;

    b->tick = tick;
    if (paid >= 0 || b->strict)
        b->debt -= paid;
    if (b->debt < 0)
        b->debt = 0;
    if (b->debt > 2 * b->full)
        b->debt = 2 * b->full;
}

static bool bucket_fits(const struct model_bucket *b, uint64_t cost)
{
    return b->debt + (model_int)cost * b->unit <= b->full;
}

static void bucket_take(struct model_bucket *b, uint64_t cost)
{
    model_int most = b->debt > b->full ? b->debt : b->full;

    b->debt += (model_int)cost * b->unit;
    if (b->strict && b->debt > most)
        b->debt = most;
}

/* Down to one capacity below empty; returns whole units that are beyond that. */
static uint64_t bucket_debit(struct model_bucket *b, uint64_t cost)
{
    model_int room = 2 * b->full - b->debt, fit = room / b->unit;

    if ((model_int)cost <= fit) {
        b->debt += (model_int)cost * b->unit;
        return 0;
    }
    b->debt = 2 * b->full;
    return cost - (uint64_t)fit;
}

/* ---- windows */

int64_t model_window_ns(const struct ration_limit *spec)
{
    if (spec->algorithm == RATION_SLIDING_WINDOW && spec->sub_windows != 0)
        return ceil_to(spec->period_ns, spec->sub_windows);
    return spec->period_ns;
}

int64_t model_grain(const struct ration_limit *spec)
{
    bool packed = spec->period_ns >= 320000000 && spec->amount < 1 << 20;

    return packed ? 320000 : 1;
}

static int64_t window_number(const struct model *m)
{
    return floor_to(m->now_ns, model_window_ns(&m->spec));
}

/* Whether the number of its window still means that window: after a step back the clock passes
 * the same numbers again. */
static bool is_numbered(const struct model *m, const struct model_charge *c)
{
    return c->elapsed_ns > m->back_at_ns;
}

static uint64_t units_in(const struct model *m, int64_t first, int64_t last)
{
    uint64_t units = 0;

    for (size_t i = 0; i < m->charge_count; i++)
        if (m->charges[i].number >= first && m->charges[i].number <= last &&
            is_numbered(m, &m->charges[i]))
            units += m->charges[i].units;
    return units;
}

static bool counter_fits(const struct model *m, uint64_t cost)
{
    model_int period = m->spec.period_ns;
    int64_t number = window_number(m), into = m->now_ns - number * m->spec.period_ns;
    model_int prev = (model_int)units_in(m, number - 1, number - 1);
    model_int cur = (model_int)units_in(m, number, INT64_MAX); /* and what was put off */

    return prev * (period - into) + (cur + (model_int)cost) * period <=
           (model_int)m->spec.amount * period;
}

/* Wherever the windows lie, a unit counts whole while its window is the
 * current one and fades after that: at least 1 - age / period in all. */
static bool fading_fits(const struct model *m, uint64_t cost)
{
    model_int period = m->spec.period_ns, area = (model_int)cost * period;

    for (size_t i = 0; i < m->charge_count; i++) {
        int64_t age = m->elapsed_ns - m->charges[i].elapsed_ns;

        if (age < m->spec.period_ns)
            area += (model_int)m->charges[i].units * (period - age);
    }
    return area <= (model_int)m->spec.amount * period;
}

static bool subs_fit(const struct model *m, uint64_t cost)
{
    int64_t number = window_number(m);

    return units_in(m, number - (int64_t)m->spec.sub_windows, INT64_MAX) + cost <= m->spec.amount;
}

/* Entries younger than `period_ns`; at exactly that age they are gone. */
static uint64_t logged(const struct model *m, int64_t period_ns)
{
    uint64_t units = 0;

    for (size_t i = 0; i < m->charge_count; i++)
        if (m->charges[i].elapsed_ns > m->elapsed_ns - period_ns)
            units += m->charges[i].units;
    return units;
}

static bool log_fits(const struct model *m, int64_t period_ns, uint64_t cost)
{
    return logged(m, period_ns) + cost <= m->spec.amount;
}

/* How long a charge may count. */
static int64_t span_ns(const struct ration_limit *spec)
{
    return spec->sub_windows != 0 ? (spec->sub_windows + 1) * model_window_ns(spec)
                                  : 2 * spec->period_ns;
}

/* After a step back the windows on the clock are passed again. The state may lie one span ahead;
 * what counts then, and what is owed, is gone after two more. A late debit during that time is
 * put off to a place that is uncertain, too. */
static bool is_disturbed(const struct model *m)
{
    return m->unplaced_at_ns >= 0 && m->elapsed_ns - m->unplaced_at_ns <= 3 * span_ns(&m->spec);
}

static bool sliding_fits(const struct model *m, uint64_t cost)
{
    bool subs = m->spec.sub_windows != 0;

    if (is_disturbed(m))
        return subs ? log_fits(m, m->spec.period_ns, cost) : fading_fits(m, cost);
    return subs ? subs_fit(m, cost) : counter_fits(m, cost);
}

/* ---- fixed windows */

/* Where a window that begins now, or the one that now is in, ends. */
static int64_t window_end(const struct model *m)
{
    int64_t period = m->spec.period_ns;

    if (m->spec.from_first)
        return m->now_ns + period;
    return (floor_to(m->now_ns + m->wall_offset_ns, period) + 1) * period - m->wall_offset_ns;
}

static int64_t rounded_end(const struct model *m, int64_t end_ns)
{
    return ceil_to(end_ns, m->grain_ns) * m->grain_ns;
}

/* The window as of now. If something is owed, the next one begins with it. A window is entered
 * by the charge that finds it: until then a step back leads into the one before. */
static struct model_window window_now(const struct model *m)
{
    struct model_window w = m->window;
    int64_t end = m->spec.from_first ? rounded_end(m, w.end_ns) : w.end_ns;

    if (w.owed != 0 && end <= m->now_ns) {
        w.end_ns =
            end + (m->spec.from_first ? rounded_end(m, m->spec.period_ns) : m->spec.period_ns);
        w.count = w.owed;
        w.owed = 0;
    }
    return w;
}

/* So close to the rounded end of a window that began anywhere that it may have
 * ended already. */
static bool is_unclear(const struct model *m)
{
    int64_t left = rounded_end(m, window_now(m).end_ns) - m->now_ns;

    return m->spec.from_first && left > 0 && left < m->grain_ns;
}

/* Enters the window of now. */
static void enter(struct model *m)
{
    m->window = window_now(m);
    if (m->window.end_ns <= m->now_ns && !is_unclear(m))
        m->window = (struct model_window){.end_ns = window_end(m)};
}

/* ---- the counter that decays */

#define DECAY_NOTHING (1.0L / 1024) /* of a unit: as good as nothing */
#define DECAY_QUANTUM 0.001L        /* what is dropped at the end of a counter, and rounding */

static long double faded(const struct model *m, int64_t ns)
{
    return exp2l(-(long double)ns / (long double)m->spec.period_ns);
}

/* What was put off is charged in one piece, at the time at which it fits. The smaller the level
 * that it has to wait for, the more a rounded level changes that time. */
static void decay_for(struct model *m, int64_t ns)
{
    long double room = (long double)(m->cap - m->put_off) + DECAY_NOTHING;
    long double waits = 0;

    if (m->put_off != 0 && m->level > room)
        waits = ceill(log2l(m->level / room) * (long double)m->spec.period_ns);
    if (m->put_off != 0 && waits <= (long double)ns) {
        m->level *= faded(m, (int64_t)waits);
        m->blur += (m->blur + DECAY_QUANTUM / 100) * (long double)m->put_off / room;
        m->level += (long double)m->put_off;
        m->put_off = 0;
        ns -= (int64_t)waits;
    }
    m->level *= faded(m, ns);
    m->blur *= faded(m, ns);
}

static bool decay_fits(const struct model *m, uint64_t cost)
{
    return m->level + (long double)m->put_off + (long double)cost <=
           (long double)m->cap + DECAY_NOTHING + DECAY_QUANTUM + m->blur;
}

static bool decay_must_fit(const struct model *m, uint64_t cost)
{
    /* A state stands still until the clock has caught up, and what is owed waits for it. */
    long double span =
        log2l((long double)(m->cap + 1) / DECAY_NOTHING) * (long double)m->spec.period_ns;
    bool stands = m->back_at_ns >= 0 && (long double)(m->elapsed_ns - m->back_at_ns) <= 3 * span;

    return !stands && m->put_off == 0 &&
           m->level + (long double)cost <= (long double)m->cap - DECAY_QUANTUM - m->blur;
}

/* If anything is left, nothing is put off any more. */
static struct model_range decay_debit(struct model *m, uint64_t cost, uint64_t left,
                                      uint64_t uncollected)
{
    if (left != 0) {
        m->level += (long double)m->put_off;
        m->put_off = 0;
    }
    uint64_t fits = cost < left ? cost : left, over = cost - fits, room = m->cap - m->put_off;
    struct model_range range = {over > m->cap ? over - m->cap : 0, over > room ? over - room : 0};

    m->level += (long double)fits;
    m->put_off += over - (over < uncollected ? over : uncollected);
    if (m->put_off > m->cap)
        m->put_off = m->cap;
    return cost != 0 ? range : (struct model_range){0};
}

static void decay_credit(struct model *m, uint64_t units)
{
    uint64_t paid = units < m->put_off ? units : m->put_off;

    m->put_off -= paid;
    m->level -= (long double)(units - paid);
    if (m->level < 0)
        m->level = 0;
    decay_for(m, 0);
}

/* ---- all */

void model_init(struct model *m, const struct ration_limit *spec)
{
    *m = (struct model){
        .spec = *spec, .cap = capacity(spec), .back_at_ns = -1, .unplaced_at_ns = -1, .quanta = 1};
    m->grain_ns = model_grain(spec);
    bucket_init(&m->exact, spec, false);
    bucket_init(&m->strict, spec, true);
}

void model_done(struct model *m)
{
    free(m->charges);
}

void model_tick(struct model *m, int64_t now_ns)
{
    if (m->spec.algorithm == RATION_OWN_ALGORITHM && now_ns > m->now_ns && m->now_ns != 0)
        decay_for(m, now_ns - m->now_ns);
    if (now_ns >= m->now_ns)
        m->elapsed_ns += m->now_ns == 0 ? 0 : now_ns - m->now_ns;
    else
        m->back_at_ns = m->unplaced_at_ns = m->elapsed_ns;
    m->now_ns = now_ns;
    bucket_tick(&m->exact, now_ns);
    bucket_tick(&m->strict, now_ns);
    if (rounded_end(m, m->window.end_ns) - now_ns >
        (m->spec.from_first ? 1 : 2) * (m->spec.period_ns + m->grain_ns))
        m->window.end_ns = window_end(m);
}

static bool window_fits(const struct model *m, uint64_t cost)
{
    struct model_window w = window_now(m);

    return (w.end_ns > m->now_ns ? w.count + w.owed : 0) + cost <= m->spec.amount;
}

bool model_fits(const struct model *m, uint64_t cost)
{
    if (cost == 0 || cost > m->cap)
        return cost == 0;
    switch (m->spec.algorithm) {
    case RATION_TOKEN_BUCKET:
    case RATION_LEAKY_BUCKET:
        return bucket_fits(&m->exact, cost);
    case RATION_FIXED_WINDOW:
        return window_fits(m, cost);
    case RATION_SLIDING_LOG:
        return log_fits(m, m->spec.period_ns, cost);
    case RATION_SLIDING_WINDOW:
        return sliding_fits(m, cost);
    case RATION_OWN_ALGORITHM:
        return decay_fits(m, cost);
    case RATION_CONCURRENCY: /* has a model of its own */
    case RATION_UNLIMITED:
        break;
    }
    return true;
}

bool model_must_fit(const struct model *m, uint64_t cost)
{
    if (cost > m->cap)
        return false;
    switch (m->spec.algorithm) {
    case RATION_TOKEN_BUCKET:
    case RATION_LEAKY_BUCKET:
        return bucket_fits(&m->strict, cost);
    case RATION_SLIDING_LOG:
        return !is_disturbed(m) &&
               log_fits(m, m->spec.period_ns + m->quanta * (m->spec.period_ns / 65500 + 1), cost);
    case RATION_SLIDING_WINDOW:
        return !is_disturbed(m) && sliding_fits(m, cost);
    case RATION_FIXED_WINDOW:
        return !is_unclear(m) && window_fits(m, cost);
    case RATION_OWN_ALGORITHM:
        return decay_must_fit(m, cost);
    case RATION_CONCURRENCY:
    case RATION_UNLIMITED:
        break;
    }
    return model_fits(m, cost);
}

static void note(struct model *m, struct model_charge charge)
{
    if ((m->charge_count & (m->charge_count + 1)) == 0) {
        size_t room = 2 * (m->charge_count + 1);

        m->charges = realloc(m->charges, room * sizeof(*m->charges));
        if (!m->charges)
            abort();
    }
    m->charges[m->charge_count++] = charge;
}

/* Its place among the charges alone: see model_take for buckets. */
static void count(struct model *m, uint64_t cost)
{
    if (cost == 0)
        return;
    m->window = window_now(m);
    if (m->window.end_ns <= m->now_ns)
        m->window = (struct model_window){.end_ns = window_end(m)};
    m->window.count += cost;
    note(m, (struct model_charge){m->now_ns, m->elapsed_ns,
                                  m->spec.algorithm == RATION_FIXED_WINDOW ? m->window.end_ns
                                                                           : window_number(m),
                                  cost});
}

void model_take(struct model *m, uint64_t cost, int64_t wall_offset_ns)
{
    m->wall_offset_ns = wall_offset_ns;
    if (cost == 0)
        return;
    bucket_take(&m->exact, cost);
    bucket_take(&m->strict, cost);
    m->level += (long double)cost;
    count(m, cost);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The windows of a counter: what this one has no room for goes to the next. */
static void put_off_to_next(struct model *m, uint64_t over)
{
    int64_t number = window_number(m);
    uint64_t used = units_in(m, number, number);
    uint64_t here = used < m->spec.amount ? least(over, m->spec.amount - used) : 0;

    note(m, (struct model_charge){m->now_ns, m->elapsed_ns, number, here});
    note(m, (struct model_charge){m->now_ns, m->elapsed_ns, number + 1, over - here});
}

/* Logs and sub-windows: each unit takes the place of one that leaves, at the time at which
 * it does. Those that were put off before have taken the places of the oldest. */
static void put_off(struct model *m, uint64_t over, uint64_t put_off_before)
{
    bool log = m->spec.algorithm == RATION_SLIDING_LOG;
    int64_t length = log ? m->spec.period_ns : (int64_t)m->spec.sub_windows + 1;
    int64_t now = log ? m->elapsed_ns : window_number(m);
    uint64_t spent = log ? logged(m, length) : m->spec.amount;
    uint64_t fits = spent < m->spec.amount ? least(over, m->spec.amount - spent) : 0;
    size_t count = m->charge_count;

    if (fits != 0) /* by the exact definition, if not by a rounded log */
        note(m, (struct model_charge){m->now_ns, m->elapsed_ns, 0, fits});
    over -= fits;
    for (size_t i = 0; i < count && over > 0; i++) {
        struct model_charge c = m->charges[i];
        int64_t at = log ? c.elapsed_ns : c.number;
        bool leaves = at > now - length && at <= now && (log || is_numbered(m, &c));
        uint64_t free = leaves ? c.units : 0;
        uint64_t taken = least(free, put_off_before);

        put_off_before -= taken;
        taken = least(free - taken, over);
        over -= taken;
        if (taken != 0)
            note(m, (struct model_charge){m->now_ns, log ? at + length : m->elapsed_ns,
                                          log ? 0 : at + length, taken});
    }
}

/* How much of it was put off before: what does not count as charged by now. */
static uint64_t owed(const struct model *m)
{
    uint64_t units = 0;

    for (size_t i = 0; i < m->charge_count; i++)
        if (m->spec.algorithm == RATION_SLIDING_LOG
                ? m->charges[i].elapsed_ns > m->elapsed_ns
                : m->charges[i].number > window_number(m) && is_numbered(m, &m->charges[i]))
            units += m->charges[i].units;
    return units;
}

static struct model_range debit_bucket(struct model *m, uint64_t cost)
{
    uint64_t exact = bucket_debit(&m->exact, cost), strict = bucket_debit(&m->strict, cost);
    uint64_t low = least(exact, strict), high = exact < strict ? strict : exact;

    return (struct model_range){low - (low != 0), high};
}

struct model_range model_debit(struct model *m, uint64_t cost, uint64_t left, uint64_t uncollected,
                               int64_t wall_offset_ns)
{
    bool counter = m->spec.algorithm == RATION_SLIDING_WINDOW && m->spec.sub_windows == 0;
    bool window = m->spec.algorithm == RATION_FIXED_WINDOW;
    bool same = m->put_off_in == window_number(m);
    uint64_t before = window ? window_now(m).owed : counter ? (same ? m->put_off : 0) : owed(m);
    uint64_t fits = least(cost, left), over = cost - fits;
    uint64_t beyond = over - least(over, m->cap - least(before, m->cap));

    m->wall_offset_ns = wall_offset_ns;
    if (cost == 0)
        return (struct model_range){0};
    if (m->spec.algorithm == RATION_TOKEN_BUCKET || m->spec.algorithm == RATION_LEAKY_BUCKET)
        return debit_bucket(m, cost);
    if (m->spec.algorithm == RATION_OWN_ALGORITHM)
        return decay_debit(m, cost, left, uncollected);
    if (window)
        enter(m);
    count(m, fits);
    over -= least(over, uncollected);
    if (window)
        m->window.owed += over;
    else if (counter)
        put_off_to_next(m, over);
    else if (over > 0)
        put_off(m, over, before);
    m->quanta += over > 0 ? 2 : 0;
    if (over > 0 && is_disturbed(m))
        m->unplaced_at_ns = m->elapsed_ns;
    m->put_off = before + over;
    m->put_off_in = window_number(m);
    return (struct model_range){beyond, m->spec.algorithm == RATION_SLIDING_LOG ? cost : beyond};
}

void model_saturate(struct model *m)
{
    enter(m);
    if (m->strict.debt < m->strict.full)
        m->strict.debt = m->strict.full;
}

static void bucket_credit(struct model_bucket *b, uint64_t units)
{
    if ((model_int)units > b->debt / b->unit)
        b->debt = 0;
    else
        b->debt -= (model_int)units * b->unit;
}

/* Of the charges that still count, or will, the last; NULL: none does. */
static struct model_charge *youngest(const struct model *m)
{
    bool log = m->spec.algorithm == RATION_SLIDING_LOG;
    int64_t length = log ? m->spec.period_ns : m->spec.sub_windows ? m->spec.sub_windows + 1 : 2;
    int64_t now = log ? m->elapsed_ns : window_number(m), latest = now - length;
    struct model_charge *found = NULL;

    for (size_t i = 0; i < m->charge_count; i++) {
        struct model_charge *c = &m->charges[i];
        int64_t at = log ? c->elapsed_ns : c->number;

        if (c->units == 0 || at <= latest)
            continue;
        latest = at;
        found = c;
    }
    return found;
}

void model_credit(struct model *m, uint64_t units)
{
    struct model_window *w = &m->window;
    struct model_charge *c;

    bucket_credit(&m->exact, units);
    bucket_credit(&m->strict, units);
    if (m->spec.algorithm == RATION_OWN_ALGORITHM) {
        decay_credit(m, units);
        return;
    }
    if (m->spec.algorithm == RATION_FIXED_WINDOW) {
        bool counts = window_now(m).end_ns > m->now_ns || is_unclear(m);

        if (counts) {
            *w = window_now(m);
            uint64_t forgiven = least(w->owed, units);

            w->owed -= forgiven;
            w->count -= least(w->count, units - forgiven);
        }
        return;
    }
    if (m->put_off_in == window_number(m))
        m->put_off -= least(m->put_off, units);
    while (units > 0 && (c = youngest(m))) {
        uint64_t back = least(c->units, units);

        c->units -= back;
        units -= back;
    }
}

void model_give_back(struct model *m, size_t at, uint64_t units)
{
    struct model_charge *c = &m->charges[at];

    c->units -= units;
    m->level -= (long double)units * faded(m, m->elapsed_ns - c->elapsed_ns);
    if (c->number == m->window.end_ns)
        m->window.count -= units;
}

model_int model_bound_scale(const struct model *m)
{
    return m->spec.step_ns != 0 ? 1 : m->spec.period_ns;
}

model_int model_bound(const struct model *m, int64_t apart_ns)
{
    const struct ration_limit *spec = &m->spec;
    model_int scale = model_bound_scale(m), full = (model_int)m->cap * scale;
    model_int whole_periods = apart_ns / spec->period_ns;

    switch (spec->algorithm) {
    case RATION_TOKEN_BUCKET:
    case RATION_LEAKY_BUCKET:
        if (spec->step_ns != 0) /* a grid line may lie between any two instants */
            return full + (apart_ns / spec->step_ns + 1) * m->exact.per_tick;
        return full + (model_int)apart_ns * (model_int)spec->amount;
    case RATION_SLIDING_LOG:
        return full * (whole_periods + 1);
    case RATION_SLIDING_WINDOW:
        if (spec->sub_windows != 0)
            return full * (whole_periods + 1);
        return full * (whole_periods + 2);
    case RATION_FIXED_WINDOW:
        return full * (whole_periods + 2);
    case RATION_OWN_ALGORITHM: /* fades by at most ln 2 of the capacity in a period */
        return full + (model_int)apart_ns * (model_int)m->cap * 694 / 1000 + scale;
    case RATION_CONCURRENCY:
    case RATION_UNLIMITED:
        break;
    }
    return INT64_MAX;
}
