/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrency: the leases in force. A lease that is neither renewed nor
 * released ends by itself, so that a crashed holder frees its place.
 *
 *   [0] when the last lease ends   [1] how many
 *   [2] end of lease, [3] its id; and so on, in no order
 */
#include "core/forms.h"

#define HEADER 2
#define PLACE 2
#define RETRY_LEAST_NS 1000000000 /* Retry-After has whole seconds */

static uint32_t count_in(const uint64_t *state, uint32_t words)
{
    return (uint32_t)rn_min_u64(state[1], (words - HEADER) / PLACE);
}

static int64_t end_of(const uint64_t *state, uint32_t i)
{
    return (int64_t)state[HEADER + PLACE * i];
}

static uint64_t id_of(const uint64_t *state, uint32_t i)
{
    return state[HEADER + PLACE * i + 1];
}

static void set_place(uint64_t *state, uint32_t i, int64_t end, uint64_t id)
{
    state[HEADER + PLACE * i] = (uint64_t)end;
    state[HEADER + PLACE * i + 1] = id;
}

static uint32_t count_live(const uint64_t *state, uint32_t count, int64_t by)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < count; i++)
        live += end_of(state, i) > by;
    return live;
}

/* Drops what has ended or bears `drop`; returns how many remain. No lease
 * reaches further than the longest that can be granted. */
static uint32_t compact(uint64_t *state, uint32_t count, int64_t now, uint64_t drop)
{
    uint32_t kept = 0;
    int64_t last = 0;

    for (uint32_t i = 0; i < count; i++) {
        int64_t end = end_of(state, i);

        if (end <= now || id_of(state, i) == drop)
            continue;
        if (end - now > RATION_LEASE_MAX_NS)
            end = now + RATION_LEASE_MAX_NS;
        set_place(state, kept++, end, id_of(state, i));
        last = rn_max_i64(last, end);
    }
    state[0] = (uint64_t)last;
    state[1] = kept;
    return kept;
}

/* Until at most `keep` leases are left, if none is released: the smallest time
 * by which enough have ended. */
static int64_t wait_ns(const uint64_t *state, uint32_t count, int64_t now, uint32_t keep)
{
    int64_t low = now, high = now;

    for (uint32_t i = 0; i < count; i++)
        high = rn_max_i64(high, end_of(state, i));
    while (low + 1 < high) {
        int64_t middle = low + (high - low) / 2;

        if (count_live(state, count, middle) <= keep)
            high = middle;
        else
            low = middle;
    }
    return high - now;
}

/* An estimate. It assumes that the holder of median age is half way through and that all
 * take as long: then places come free at even distances. Never later than the leases end,
 * and never sooner than a client can ask again. */
static int64_t estimate_ns(const struct rn_limit *limit, const uint64_t *state, uint32_t count,
                           const struct rn_ask *ask, uint32_t live)
{
    uint32_t keep = (uint32_t)(limit->amount - ask->cost);
    int64_t lease = ask->lease_ns ? ask->lease_ns : limit->lease_ns, needed = live - keep;
    int64_t age = rn_max_i64(lease - wait_ns(state, count, ask->now_ns, live / 2), 0);
    int64_t guess = (2 * age * needed + live - 1) / live;
    int64_t latest = wait_ns(state, count, ask->now_ns, keep);

    guess = rn_max_i64(guess, RETRY_LEAST_NS);
    return guess < latest ? guess : latest;
}

static bool renew(uint64_t *state, uint32_t count, const struct rn_ask *ask)
{
    bool found = false;

    for (uint32_t i = 0; i < count; i++) {
        if (id_of(state, i) != ask->id || end_of(state, i) <= ask->now_ns)
            continue;
        set_place(state, i, ask->now_ns + ask->lease_ns, ask->id);
        found = true;
    }
    return found;
}

static bool holds(const uint64_t *state, uint32_t count, const struct rn_ask *ask)
{
    for (uint32_t i = 0; i < count; i++)
        if (id_of(state, i) == ask->id && end_of(state, i) > ask->now_ns)
            return true;
    return false;
}

/* A lease that outlasts the longest possible one was written by a clock far ahead. */
static bool lies_ahead(const uint64_t *state, uint32_t count, int64_t now)
{
    for (uint32_t i = 0; i < count; i++)
        if (end_of(state, i) > now && end_of(state, i) - now > RATION_LEASE_MAX_NS)
            return true;
    return false;
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t now = ask->now_ns;
    uint32_t count = count_in(state, words);
    bool write = false;

    if (lies_ahead(state, count, now)) {
        count = compact(state, count, now, 0);
        write = true;
    }
    uint32_t live = count_live(state, count, now);
    uint64_t left = limit->amount > live ? limit->amount - live : 0;

    answer->retry_after_ns = answer->delay_ns = 0;
    answer->mark = (int64_t)ask->id;
    if (ask->op == RN_RENEW) {
        answer->allowed = renew(state, count, ask);
    } else if (ask->op == RN_RELEASE || ask->op == RN_GIVE_BACK) {
        answer->allowed = holds(state, count, ask);
    } else {
        answer->allowed = ask->cost <= left;
        if (!answer->allowed)
            answer->retry_after_ns = ask->cost > limit->amount
                                         ? rn_limit_beyond_ns(limit, ask->cost)
                                         : estimate_ns(limit, state, count, ask, live);
    }
    bool looks = ask->op == RN_PEEK || ask->op == RN_OLDEST || ask->op == RN_FORCE ||
                 ask->op == RN_DEBIT || ask->op == RN_CREDIT ||
                 (ask->op == RN_TAKE && ask->cost == 0);

    if (!looks && answer->allowed) {
        uint32_t units = ask->op == RN_TAKE ? (uint32_t)ask->cost : 0;

        if (live + units > (words - HEADER) / PLACE)
            return RN_GROW;
        count = compact(state, count, now, ask->op == RN_TAKE || ask->op == RN_RENEW ? 0 : ask->id);
        for (; units > 0; units--)
            set_place(state, count++, now + ask->lease_ns, ask->id);
        compact(state, count, now, 0);
        live = count;
        write = true;
    }
    answer->remaining = limit->amount > live ? limit->amount - live : 0;
    answer->reset_after_ns = live && (int64_t)state[0] > now ? (int64_t)state[0] - now : 0;
    return write ? RN_WRITE : RN_KEEP;
}

static uint64_t spent(const uint64_t *state, uint32_t words)
{
    return words >= 2 ? state[1] : 0;
}

const struct rn_form_descriptor rn_places_form = {
    .algorithm = RATION_CONCURRENCY,
    .apply = apply,
    .spent = spent,
};
