/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adaptive concurrency: places as in places.c, but their number is learnt from how long they are
 * held. docs/algorithms.md derives the controller.
 *
 *   [0] when the state is forgotten         [1] how many places are taken
 *   [2] learnt number, in 1/1024            [3] best latency
 *   [4] latency of the last window          [5] sum of the latencies in this window
 *   [6] how many they are                   [7] windows since the last probe, streak, phase
 *   [8] learnt number at the last probe     [9] when places were last taken or released
 *   [10] when this window began
 *   [11] end of a lease, [12] when it was acquired, [13] its id; and so on, in no order
 *
 * Latencies are whole microseconds, at most LATENCY_MAX, so that the script in Redis computes the
 * same bits with doubles: no product here reaches 2^53.
 */
#include "core/forms.h"

#define HEADER RN_ADAPTIVE_HEADER
#define PLACE RN_ADAPTIVE_PLACE
#define RETRY_LEAST_NS 1000000000 /* Retry-After has whole seconds */
#define US_NS 1000
/* What was learnt outlasts the last place by this. */
#define MEMORY_NS INT64_C(600000000000)

#define PART 1024                             /* of a place */
#define LATENCY_MAX ((UINT64_C(1) << 37) - 1) /* 38 hours */
#define WINDOW_LEAST 64                       /* samples */
#define PROBE_LEAST 128                       /* of a window that measures the best latency again */
#define DRAIN_LEAST 16
#define SAMPLES_MAX ((uint64_t)2 * RATION_ADAPTIVE_MAX)
#define WINDOW_BESTS 2  /* a window lasts at least this many times the best latency */
#define CLIP 4          /* a sample counts as at most this many times the last window or the best */
#define TOLERATED 21    /* twentieths: a latency of 1.05 times the best is no reason to go down */
#define STREAK_MAX 15   /* windows in a row without such a reason */
#define PROBE_EVERY 384 /* windows */
#define PROBE_AGAIN 24  /* windows after the first measurement, which had few samples */
#define PROBE_SOONEST 4 /* windows, if something seems to have changed */
#define STALLED 8       /* latencies without a change: a probe is given up */

/* Measuring comes first: a fresh state has phase 0. */
enum phase { MEASURING, FOLLOWING, DRAINING };

/* The header, each number within its range whatever the state holds. */
struct learner {
    uint64_t learnt, best, recent, sum, samples, windows, streak, at_probe;
    int64_t began; /* the window */
    enum phase phase;
};

/* What one pass over the places finds. */
struct census {
    uint32_t live, found; /* places in force, and those of the lease that is asked for */
    int64_t first, last;  /* when the first and the last of them end */
    int64_t acquired;     /* the lease that is asked for */
    bool ahead;           /* some were written by a clock far ahead */
};

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static uint64_t square_root(uint64_t n)
{
    uint64_t root = 0;

    for (uint64_t bit = UINT64_C(1) << 20; bit != 0; bit >>= 1)
        if ((root + bit) * (root + bit) <= n)
            root += bit;
    return root;
}

static struct learner read_learner(const struct rn_limit *limit, const uint64_t *state, int64_t now)
{
    uint64_t low = limit->least * PART, high = limit->amount * PART;

    struct learner l = {
        .learnt = clamp(state[2], low, high),
        .best = rn_min_u64(state[3], LATENCY_MAX),
        .recent = rn_min_u64(state[4], LATENCY_MAX),
        .sum = rn_min_u64(state[5], LATENCY_MAX * SAMPLES_MAX),
        .samples = rn_min_u64(state[6], SAMPLES_MAX),
        .windows = rn_min_u64(state[7] >> 6, PROBE_EVERY),
        .streak = state[7] >> 2 & STREAK_MAX,
        .phase = (enum phase)((state[7] & 3) % 3),
        .at_probe = clamp(state[8], low, high),
        .began = (int64_t)state[10],
    };
    uint64_t still_us = ((uint64_t)now - state[9]) / US_NS;

    /* Holders that never release have all places of the probe. */
    if (l.phase != FOLLOWING && l.best != 0 && (int64_t)state[9] <= now &&
        still_us > STALLED * l.recent) {
        l.phase = FOLLOWING;
        l.sum = l.samples = l.windows = 0;
    }
    return l;
}

static void write_learner(const struct learner *l, uint64_t *state)
{
    state[2] = l->learnt;
    state[3] = l->best;
    state[4] = l->recent;
    state[5] = l->sum;
    state[6] = l->samples;
    state[7] = l->windows << 6 | l->streak << 2 | (uint64_t)l->phase;
    state[8] = l->at_probe;
    state[10] = (uint64_t)l->began;
}

/* A third of the square root of the number of places: enough to notice that more are of use, and
 * little of a large number. */
static uint64_t headroom(const struct learner *l)
{
    return square_root(l->learnt * PART) / 3;
}

/* While the best latency is measured, about half of the places: below the knee, where
 * requests do not wait for each other, if the number is near it. */
static uint64_t in_force(const struct rn_limit *limit, const struct learner *l)
{
    uint64_t parts = l->learnt;

    if (l->phase != FOLLOWING)
        parts = parts / 2 - headroom(l);
    return clamp(parts / PART, limit->least, limit->amount);
}

static void follow(const struct rn_limit *limit, struct learner *l, uint64_t mean)
{
    uint64_t gradient = clamp(l->best * PART * TOLERATED / (mean * 20), PART / 2, PART);

    if (gradient < PART)
        l->streak = 0;
    uint64_t room = rn_min_u64(headroom(l) << l->streak, l->learnt / 2);
    uint64_t target = l->learnt * gradient / PART + room;

    if (gradient == PART)
        l->streak = rn_min_u64(l->streak + 1, STREAK_MAX);
    if (target < l->learnt)
        target = (l->learnt + target) / 2;
    l->learnt = clamp(target, limit->least * PART, limit->amount * PART);
    l->windows++;
    bool odd = l->learnt * 2 < l->at_probe || mean * 2 < l->best ||
               (gradient < PART && l->learnt == limit->least * PART);

    if (l->windows >= PROBE_EVERY || (odd && l->windows >= PROBE_SOONEST))
        l->phase = DRAINING;
}

/* The mean of two measurements, unless they are far apart: then the service has changed. A probe
 * that met requests which did nothing must not make all others look slow: at most half at once. */
static uint64_t best_of(uint64_t before, uint64_t measured)
{
    bool near = before * 2 <= measured * 3 && measured * 2 <= before * 3;

    return near ? (before + measured) / 2 : measured < before / 2 ? before / 2 : measured;
}

static void end_window(const struct rn_limit *limit, struct learner *l)
{
    uint64_t mean = clamp(l->sum / l->samples, 1, LATENCY_MAX);

    l->sum = l->samples = 0;
    l->recent = mean;
    switch (l->phase) {
    case FOLLOWING:
        follow(limit, l, mean);
        break;
    case DRAINING: /* these were acquired before the number was lowered, or waited behind such */
        l->phase = MEASURING;
        break;
    case MEASURING:
        l->windows = l->best == 0 ? PROBE_EVERY - PROBE_AGAIN : 0;
        l->best = best_of(l->best, mean);
        l->phase = FOLLOWING;
        l->at_probe = l->learnt;
        break;
    }
}

/* Samples of a window: two generations of places, or one to drain. */
static uint64_t needed(const struct learner *l)
{
    uint64_t generations = l->phase == DRAINING ? 1 : 2;
    uint64_t least = l->phase == DRAINING                    ? DRAIN_LEAST
                     : l->phase == MEASURING && l->best != 0 ? PROBE_LEAST
                                                             : WINDOW_LEAST;

    return clamp(generations * l->learnt / PART, least, SAMPLES_MAX);
}

/* A place was held for so long. It says something about the service only if about as many
 * were held as there are: with few requests, any number of places would do. */
static void learn(const struct rn_limit *limit, struct learner *l, const struct census *c,
                  int64_t now)
{
    if (c->acquired > now || 2 * (uint64_t)c->live < in_force(limit, l))
        return;
    uint64_t held = ((uint64_t)now - (uint64_t)c->acquired) / US_NS;
    uint64_t usual = l->recent > l->best ? l->recent : l->best;
    uint64_t most = usual == 0 ? LATENCY_MAX : rn_min_u64(CLIP * usual, LATENCY_MAX);

    if (l->samples == 0)
        l->began = now;
    if (l->samples < SAMPLES_MAX) {
        l->sum += rn_min_u64(held, most);
        l->samples++;
    }
    if (l->samples >= needed(l) &&
        (l->began > now || ((uint64_t)now - (uint64_t)l->began) / US_NS >= WINDOW_BESTS * l->best))
        end_window(limit, l);
}

static struct census count_places(const uint64_t *state, uint32_t count, const struct rn_ask *ask)
{
    int64_t now = ask->now_ns;
    struct census c = {.first = INT64_MAX, .acquired = INT64_MAX};

    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *place = state + HEADER + PLACE * i;
        int64_t end = (int64_t)place[0];

        if (end <= now)
            continue;
        if (end - RATION_LEASE_MAX_NS > now) {
            c.ahead = true;
            end = now + RATION_LEASE_MAX_NS;
        }
        c.live++;
        c.first = end < c.first ? end : c.first;
        c.last = rn_max_i64(c.last, end);
        if (place[2] == ask->id) {
            c.found++;
            c.acquired = (int64_t)place[1];
        }
    }
    return c;
}

/* Drops the places that have ended and, with `drop`, those of the lease that is asked for;
 * with `renew` those last as long as asked for. Returns how many remain. */
static uint32_t rewrite(uint64_t *state, uint32_t count, const struct rn_ask *ask, bool drop,
                        bool renew)
{
    int64_t now = ask->now_ns;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *from = state + HEADER + PLACE * i;
        uint64_t *to = state + HEADER + PLACE * kept, id = from[2];
        int64_t end = (int64_t)from[0];

        if (end <= now || (drop && id == ask->id))
            continue;
        if (renew && id == ask->id)
            end = now + ask->lease_ns;
        to[0] = (uint64_t)(end - RATION_LEASE_MAX_NS > now ? now + RATION_LEASE_MAX_NS : end);
        to[1] = from[1];
        to[2] = id;
        kept++;
    }
    return kept;
}

/* An estimate: places come free at even distances, after the latency of late. Never sooner
 * than a client can ask again, nor later than the leases end. */
static int64_t estimate_ns(const struct learner *l, const struct census *c, uint64_t places,
                           const struct rn_ask *ask)
{
    uint64_t needed = c->live + ask->cost - places;
    int64_t guess = (int64_t)(l->recent * needed / (c->live ? c->live : 1)) * US_NS;

    guess = rn_max_i64(guess, RETRY_LEAST_NS);
    if (c->live == 0 || ask->cost > places)
        return guess;
    int64_t latest = (needed == 1 ? c->first : c->last) - ask->now_ns;

    return guess < latest ? guess : latest;
}

static bool changes_places(const struct rn_ask *ask)
{
    return ask->op == RN_RENEW || ask->op == RN_RELEASE || ask->op == RN_GIVE_BACK ||
           (ask->op == RN_TAKE && ask->cost != 0);
}

static void add_places(uint64_t *state, uint32_t count, const struct rn_ask *ask)
{
    for (uint64_t i = 0; i < ask->cost; i++) {
        uint64_t *place = state + HEADER + PLACE * (count + i);

        place[0] = (uint64_t)(ask->now_ns + ask->lease_ns);
        place[1] = (uint64_t)ask->now_ns;
        place[2] = ask->id;
    }
}

static enum rn_outcome change(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                              const struct rn_ask *ask, struct learner *l, struct census *c,
                              uint32_t count)
{
    bool take = ask->op == RN_TAKE, renew = ask->op == RN_RENEW;

    if (take && c->live + ask->cost > (words - HEADER) / PLACE)
        return RN_GROW;
    if (ask->op == RN_RELEASE)
        learn(limit, l, c, ask->now_ns);
    count = rewrite(state, count, ask, !take && !renew, renew);
    if (take) {
        add_places(state, count, ask);
        count += (uint32_t)ask->cost;
    }
    state[1] = count;
    write_learner(l, state);
    state[9] = (uint64_t)ask->now_ns;
    *c = count_places(state, count, ask);
    state[0] = (uint64_t)rn_max_i64(c->last, ask->now_ns + MEMORY_NS);
    return RN_WRITE;
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    const uint64_t fresh[HEADER] = {0};
    bool known = (int64_t)state[0] > ask->now_ns;
    struct learner l = read_learner(limit, known ? state : fresh, ask->now_ns);
    uint32_t count = known ? (uint32_t)rn_min_u64(state[1], (words - HEADER) / PLACE) : 0;
    struct census c = count_places(state, count, ask);
    uint64_t places = in_force(limit, &l), left = places > c.live ? places - c.live : 0;
    enum rn_outcome outcome = RN_KEEP;

    answer->retry_after_ns = answer->delay_ns = 0;
    answer->mark = (int64_t)ask->id;
    if (ask->op == RN_RENEW || ask->op == RN_RELEASE || ask->op == RN_GIVE_BACK) {
        answer->allowed = c.found != 0;
    } else {
        answer->allowed = ask->cost <= left;
        if (!answer->allowed)
            answer->retry_after_ns =
                ask->cost > limit->amount ? RN_NEVER : estimate_ns(&l, &c, places, ask);
    }
    if (answer->allowed && changes_places(ask)) {
        outcome = change(limit, state, words, ask, &l, &c, count);
        if (outcome == RN_GROW)
            return outcome;
        places = in_force(limit, &l);
    } else if (c.ahead) {
        state[1] = rewrite(state, count, ask, false, false);
        state[0] = (uint64_t)rn_max_i64(c.last, ask->now_ns + MEMORY_NS);
        outcome = RN_WRITE;
    }
    answer->remaining = places > c.live ? places - c.live : 0;
    answer->reset_after_ns = c.live ? c.last - ask->now_ns : 0;
    answer->places = places;
    if (ask->op != RN_OLDEST)
        answer->latency =
            (struct rn_place_latency){.best_us = (uint32_t)rn_min_u64(l.best, RN_LATENCY_MAX),
                                      .recent_us = (uint32_t)rn_min_u64(l.recent, RN_LATENCY_MAX)};
    return outcome;
}

static uint64_t spent(const uint64_t *state, uint32_t words)
{
    return words >= 2 ? state[1] : 0;
}

const struct rn_form_descriptor rn_adaptive_form = {
    .algorithm = RATION_CONCURRENCY,
    .apply = apply,
    .spent = spent,
};
