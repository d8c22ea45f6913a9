/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sliding window of K sub-windows of length w = ceil(period / K), numbered
 * floor(now / w). A request at sub-window i is judged by the counts of
 * i - K .. i: the oldest, of which the sliding window covers a part, counts
 * whole, so that never more than the limit is admitted in any period.
 *
 *   [0] (newest number + K + 1) * w: when nothing counts any more
 *   [1] owed, 56 bits | bits per count, 8 bits
 *   [2] counts of K + 1 sub-windows, packed; number i is at i mod (K + 1)
 *
 * What a late debit finds no room for is owed. It counts, and is charged to the sub-window
 * in which older charges leave room for it: to number i + K + 1 as much as number i held.
 * Then [0] is K + 1 sub-windows later.
 */
#include "core/forms.h"

#define HEADER 2
#define WIDTH_BITS 8 /* of the bits per count */

static uint64_t low_bits(unsigned bits)
{
    return (UINT64_C(1) << bits) - 1;
}

/* bits <= 50, so a count touches at most two words. */
static uint64_t get_count(const uint64_t *state, unsigned bits, uint32_t at)
{
    size_t bit = (size_t)at * bits, word = HEADER + bit / 64, shift = bit % 64;
    uint64_t value = state[word] >> shift;

    if (shift + bits > 64)
        value |= state[word + 1] << (64 - shift);
    return value & low_bits(bits);
}

static void set_count(uint64_t *state, unsigned bits, uint32_t at, uint64_t value)
{
    size_t bit = (size_t)at * bits, word = HEADER + bit / 64, shift = bit % 64;

    state[word] = (state[word] & ~(low_bits(bits) << shift)) | value << shift;
    if (shift + bits > 64) {
        size_t done = 64 - shift;

        state[word + 1] = (state[word + 1] & ~(low_bits(bits) >> done)) | value >> done;
    }
}

static unsigned bits_for(uint64_t amount)
{
    return amount == 0 ? 1 : 64 - (unsigned)__builtin_clzll(amount);
}

static uint32_t words_for(uint32_t subs, unsigned bits)
{
    return HEADER + (uint32_t)(((uint64_t)(subs + 1) * bits + 63) / 64);
}

/* What the block says, checked against its size. */
struct view {
    const uint64_t *state;
    unsigned bits;
    uint32_t ring;  /* K + 1 */
    int64_t newest; /* number of the newest sub-window in the block */
    int64_t now;    /* number of the sub-window judged: never before newest */
    uint64_t lump;  /* found too far ahead: all that counted, now in the newest */
    uint64_t owed;  /* as of newest */
};

/* The sum of the counts in the first `words` words. */
static uint64_t spent(const uint64_t *state, uint32_t words)
{
    unsigned bits = words > HEADER ? (unsigned)(state[1] & 0xFF) : 0;
    uint64_t total = 0;

    for (uint32_t i = 0; bits != 0 && bits <= 50 && (i + 1) * bits <= (words - HEADER) * 64; i++)
        total += get_count(state, bits, i);
    return total;
}

static uint64_t count_all(const struct view *v)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < v->ring; i++)
        total += get_count(v->state, v->bits, i);
    return rn_min_u64(total, low_bits(v->bits));
}

static struct view look(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                        int64_t now, bool *clamped)
{
    struct view v = {.state = state, .ring = limit->subs + 1};
    unsigned bits = (unsigned)(state[1] & low_bits(WIDTH_BITS));
    bool sound = bits >= 1 && bits <= 50 && words_for(limit->subs, bits) <= words;

    *clamped = false;
    v.now = rn_floor_div(now, limit->sub_ns);
    v.bits = sound ? bits : 0;
    v.owed = sound && state[1] >> WIDTH_BITS != 0
                 ? rn_min_u64(state[1] >> WIDTH_BITS, rn_largest_amount(limit))
                 : 0;
    v.newest = v.now - v.ring;
    if (sound)
        v.newest = rn_max_i64((int64_t)state[0], 0) / limit->sub_ns -
                   (state[1] >> WIDTH_BITS != 0 ? 2 : 1) * (int64_t)v.ring;
    if (v.newest > v.now + (int64_t)v.ring) {
        v.newest = v.now;
        v.lump = count_all(&v);
        *clamped = true;
    }
    v.now = rn_max_i64(v.now, v.newest);
    return v;
}

static uint32_t ring_at(const struct view *v, int64_t number)
{
    int64_t at = number % v->ring;

    return (uint32_t)(at < 0 ? at + v->ring : at);
}

static uint64_t count_of(const struct view *v, int64_t number)
{
    if (v->lump != 0)
        return number == v->newest ? v->lump : 0;
    if (v->bits == 0 || number > v->newest || number <= v->newest - v->ring)
        return 0;
    return get_count(v->state, v->bits, ring_at(v, number));
}

/* The sub-windows in which something counts or will, oldest first, with what is owed where
 * it belongs. */
struct walk {
    int64_t number, last;
    uint64_t owed; /* not placed yet */
    uint64_t count;
};

static struct walk walk_all(const struct view *v)
{
    int64_t last = v->owed != 0 ? v->newest + v->ring : v->newest;

    return (struct walk){.number = v->newest - v->ring, .last = last, .owed = v->owed};
}

/* The next one that has not left the window; false: that was the last. */
static bool walk_on(const struct view *v, struct walk *w)
{
    if (w->owed == 0) /* nothing to carry: straight to what counts */
        w->number = rn_max_i64(w->number, v->now - v->ring);
    while (w->number < w->last) {
        w->number++;
        w->count = w->number <= v->newest ? count_of(v, w->number)
                                          : rn_min_u64(count_of(v, w->number - v->ring), w->owed);
        if (w->number > v->newest)
            w->owed -= w->count;
        if (w->number > v->now - v->ring)
            return true;
    }
    return false;
}

static uint64_t sum(const struct view *v)
{
    uint64_t total = 0;

    for (struct walk w = walk_all(v); walk_on(v, &w);)
        total += w.count;
    return total;
}

/* Until `excess` units have left, oldest first. */
static int64_t wait_ns(const struct rn_limit *limit, const struct view *v, int64_t now,
                       uint64_t excess)
{
    uint64_t gone = 0;
    struct walk w = walk_all(v);

    while (gone < excess && walk_on(v, &w))
        gone += w.count;
    return (w.number + v->ring) * limit->sub_ns - now;
}

static int64_t reset_ns(const struct rn_limit *limit, const struct view *v, int64_t now)
{
    int64_t last = v->now - v->ring;

    for (struct walk w = walk_all(v); walk_on(v, &w);)
        last = w.count != 0 ? w.number : last;
    return last > v->now - v->ring ? (last + v->ring) * limit->sub_ns - now : 0;
}

/* Widens the counts in place, last first, so that none is overwritten unread. */
static void widen(uint64_t *state, unsigned from, unsigned to, uint32_t ring)
{
    for (uint32_t i = ring; i-- > 0;)
        set_count(state, to, i, from != 0 ? get_count(state, from, i) : 0);
    state[1] = to;
}

/* Brings the block up to v->now: what is owed takes the place of what fell out of the
 * window. */
static void advance(uint64_t *state, struct view *v)
{
    int64_t oldest = v->now - v->ring + 1, from = v->lump != 0 ? oldest : v->newest + 1;

    if (v->now - v->newest > 2 * (int64_t)v->ring)
        v->owed = 0;
    if (v->owed == 0)
        from = rn_max_i64(from, oldest);
    for (int64_t i = from; i <= v->now; i++) {
        uint32_t at = ring_at(v, i);
        uint64_t placed = v->lump != 0 ? 0 : rn_min_u64(get_count(state, v->bits, at), v->owed);

        set_count(state, v->bits, at, placed);
        v->owed -= placed;
    }
    if (v->lump != 0)
        set_count(state, v->bits, ring_at(v, v->now), v->lump);
    v->lump = 0;
    v->newest = v->now;
}

static void add(uint64_t *state, const struct view *v, int64_t number, uint64_t up, uint64_t down)
{
    uint32_t at = ring_at(v, number);

    set_count(state, v->bits, at, get_count(state, v->bits, at) + up - down);
}

/* Takes out so many units that count, the youngest first. */
static void take_youngest(uint64_t *state, const struct view *v, uint64_t units)
{
    for (int64_t i = v->now; units > 0 && i > v->now - (int64_t)v->ring; i--) {
        uint64_t gone = rn_min_u64(get_count(state, v->bits, ring_at(v, i)), units);

        add(state, v, i, 0, gone);
        units -= gone;
    }
}

/* Of a credit: whichever are the youngest. */
#define YOUNGEST INT64_MAX

/* Writes it all down: `up` and `down` are for sub-window `number`; what is given back is
 * taken from what is owed first. */
static void store(const struct rn_limit *limit, uint64_t *state, struct view *v, int64_t number,
                  uint64_t up, uint64_t down, uint64_t owe)
{
    advance(state, v);
    uint64_t forgiven = rn_min_u64(v->owed, down);

    v->owed += owe - forgiven;
    if (number == YOUNGEST)
        take_youngest(state, v, down - forgiven);
    else if (up != 0 || down != forgiven)
        add(state, v, number, up, down - forgiven);
    state[0] = (uint64_t)((v->now + (v->owed != 0 ? 2 : 1) * (int64_t)v->ring) * limit->sub_ns);
    state[1] = v->owed << WIDTH_BITS | v->bits;
}

/* How much more may be owed after `up` units are charged: one capacity below empty at most, and no
 * more than the charges that count will leave room for. The second matters where the amount was
 * smaller before. */
static uint64_t room_for_debt(const struct rn_limit *limit, const struct view *v, uint64_t spent,
                              uint64_t up)
{
    uint64_t later = 0;

    for (struct walk w = walk_all(v); walk_on(v, &w);)
        later += w.number > v->now ? w.count : 0;
    uint64_t total = spent + up, counted = total - later;
    uint64_t room = total < 2 * limit->amount ? 2 * limit->amount - total : 0;

    return rn_min_u64(room, counted > later ? counted - later : 0);
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t now = ask->now_ns;
    unsigned bits = bits_for(limit->amount);
    bool clamped;
    struct view v = look(limit, state, words, now, &clamped);
    uint64_t spent = sum(&v), left = limit->amount > spent ? limit->amount - spent : 0;
    uint64_t up = 0, down = 0, owe = 0;
    int64_t number = v.now;

    answer->retry_after_ns = answer->delay_ns = 0;
    answer->mark = v.now;
    if (ask->op == RN_GIVE_BACK) {
        number = ask->mark;
        down = number > v.now - v.ring ? rn_min_u64(count_of(&v, number), ask->cost) : 0;
        answer->allowed = down != 0;
    } else if (ask->op == RN_CREDIT) {
        number = YOUNGEST;
        down = rn_min_u64(spent, ask->cost);
        answer->allowed = down != 0;
    } else {
        answer->allowed = ask->cost <= left;
        if (!answer->allowed)
            answer->retry_after_ns =
                ask->cost > limit->amount
                    ? rn_limit_beyond_ns(limit, ask->cost)
                    : wait_ns(limit, &v, now, spent + ask->cost - limit->amount);
        if (ask->cost != 0 && rn_op_charges(ask->op, answer->allowed)) {
            up = rn_min_u64(ask->cost, left);
            owe = rn_owe(ask, left, ask->op == RN_DEBIT ? room_for_debt(limit, &v, spent, up) : 0,
                         answer);
        }
    }
    bool write = up != 0 || down != 0 || owe != 0 || clamped;

    if (write && v.bits < bits && words < limit->words_full)
        return RN_GROW;
    if (write && v.bits < bits) {
        widen(state, v.bits, bits, v.ring);
        v.bits = bits;
    }
    if (write)
        store(limit, state, &v, number, up, down, owe);
    spent = spent + up + owe - down;
    answer->remaining = limit->amount > spent ? limit->amount - spent : 0;
    answer->reset_after_ns = reset_ns(limit, &v, now);
    return write ? RN_WRITE : RN_KEEP;
}

static int64_t oldest(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                      const struct rn_ask *ask)
{
    bool clamped;
    struct view v = look(limit, state, words, ask->now_ns, &clamped);

    for (struct walk w = walk_all(&v); walk_on(&v, &w);)
        if (w.count != 0)
            return rn_max_i64(ask->now_ns - w.number * limit->sub_ns, 0);
    return RN_NEVER;
}

static int64_t mark_at(const struct rn_limit *limit, int64_t at_ns)
{
    return rn_floor_div(at_ns, limit->sub_ns);
}

static int64_t settles(const struct rn_limit *outer, const struct rn_limit *inner)
{
    int64_t counted_ns = (int64_t)(outer->subs + 1) * outer->sub_ns;

    return rn_envelope_settles_span(outer, inner, counted_ns, counted_ns);
}

const struct rn_form_descriptor rn_sub_windows_form = {
    .algorithm = RATION_SLIDING_WINDOW,
    .apply = apply,
    .oldest = oldest,
    .spent = spent,
    .mark_at = mark_at,
    .envelope = rn_envelope_smooth,
    .settles = settles,
};
