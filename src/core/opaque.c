/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An algorithm of the embedder's: a form whose bytes only its functions can read.
 *
 *   [0] when the state is idle
 *   [1] the time up to which the bytes are: of the last change
 *   [2] owed: what a late debit found no room for
 *   [3] the bytes
 *
 * The functions know no clock. They get how much time has passed since [1], which is never
 * less than nothing: a clock that steps back stands still, and a state from further ahead than
 * states last is brought back. Whatever else the operations need is made of take and give_back:
 *
 *   a look         takes from a copy
 *   what is owed   is charged in one piece as soon as it fits, at just that time; until then
 *                  nothing else is admitted
 *
 * All functions work on a draft in front of a guard, and their answers are checked. One that
 * cannot be is a fault: nothing is decided, and the state stays as it was.
 */
#include <string.h>

#include <ration/algorithm.h>

#include "core/forms.h"

#define HEADER RN_OWN_HEADER
#define GUARD_WORDS 8
#define GUARD UINT64_C(0xA5C396E17B2D4F08)
#define LASTS_MAX_NS (2 * RATION_PERIOD_MAX_NS)

struct draft {
    const struct rn_limit *limit;
    struct ration_terms terms;
    int64_t last_ns, pays_ns; /* pays_ns: when what is owed fits */
    uint64_t owed;
    bool is_fresh, is_faulty;
    uint64_t bytes[RATION_STATE_MAX / 8 + GUARD_WORDS];
};

static uint32_t words_of(const struct rn_limit *limit)
{
    return limit->words_full - HEADER;
}

static struct ration_terms terms_of(const struct rn_limit *limit)
{
    return (struct ration_terms){
        .amount = limit->amount, .period_ns = limit->period_ns, .capacity = limit->cap};
}

const char *rn_opaque_bound(struct rn_limit *l)
{
    struct ration_terms terms = terms_of(l);
    const char *fault;
    int64_t longest_ns;
    rn_u128 full;

    if (l->amount == 0)
        return NULL;
    full = (rn_u128)l->cap * (uint64_t)l->period_ns / l->amount;
    if (full > (uint64_t)LASTS_MAX_NS)
        return "a burst that takes more than 20 years to come back; write a smaller burst or a "
               "higher rate";
    l->longest_ns = longest_ns = rn_max_i64((int64_t)full, l->period_ns);
    fault = l->own->check ? l->own->check(l->own->arg, &terms, &longest_ns) : NULL;
    if (!fault && (longest_ns <= 0 || longest_ns > LASTS_MAX_NS))
        return "states that last for more than 20 years, says its algorithm; write a shorter "
               "period";
    if (!fault)
        l->longest_ns = longest_ns; /* within bounds, even if it answers otherwise next time */
    return fault;
}

/* --- the functions, guarded ------------------------------------------------------------ */

static void set_guard(struct draft *d)
{
    for (uint32_t i = 0; i < GUARD_WORDS; i++)
        d->bytes[words_of(d->limit) + i] = GUARD;
}

static bool is_guard_whole(const struct draft *d)
{
    bool whole = true;

    for (uint32_t i = 0; i < GUARD_WORDS; i++)
        whole &= d->bytes[words_of(d->limit) + i] == GUARD;
    return whole;
}

static bool is_sound(const struct ration_terms *terms, const struct ration_attempt *a)
{
    if (a->reset_after_ns < 0 || a->reset_after_ns > LASTS_MAX_NS ||
        (a->reset_after_ns == 0 && a->remaining < terms->capacity))
        return false;
    if (a->admitted)
        return a->remaining <= terms->capacity - a->cost;
    return a->cost > a->remaining && a->retry_after_ns > 0 && a->retry_after_ns <= LASTS_MAX_NS;
}

/* Whether the cost, at most the capacity, is admitted at a time. If so, it is charged. Of a fault
 * nothing is handed on: its times would overflow, and its `admitted` may be neither true nor false.
 */
static bool charge(struct draft *d, int64_t at_ns, uint64_t cost, struct ration_attempt *a)
{
    const struct ration_own_algorithm *own = d->limit->own;
    struct ration_terms terms = d->terms;
    uint64_t before[RATION_STATE_MAX / 8];
    unsigned char admitted;

    memcpy(before, d->bytes, 8 * (size_t)words_of(d->limit));
    *a = (struct ration_attempt){.cost = cost, .elapsed_ns = at_ns - d->last_ns};
    own->take(own->arg, &terms, d->bytes, a);
    a->cost = cost;
    memcpy(&admitted, &a->admitted, sizeof admitted);
    d->is_faulty |= !is_guard_whole(d) || admitted > 1 || !is_sound(&d->terms, a);
    if (d->is_faulty)
        *a = (struct ration_attempt){.cost = cost};
    if (a->admitted && cost != 0) {
        d->last_ns = at_ns;
        return true;
    }
    memcpy(d->bytes, before, 8 * (size_t)words_of(d->limit));
    return a->admitted;
}

static uint64_t left_at(const struct draft *d, int64_t at_ns, bool *is_faulty)
{
    struct draft copy = *d;
    struct ration_attempt a;

    charge(&copy, at_ns, 0, &a);
    *is_faulty |= copy.is_faulty;
    return a.remaining;
}

/* Undoes a charge. More must not come back than was charged. */
static bool undo(struct draft *d, int64_t at_ns, uint64_t units, int64_t age_ns)
{
    const struct ration_own_algorithm *own = d->limit->own;
    struct ration_terms terms = d->terms;
    struct draft before = *d;
    uint64_t left = left_at(d, at_ns, &d->is_faulty);

    if (!own->give_back(own->arg, &terms, d->bytes, at_ns - d->last_ns, units, age_ns)) {
        memcpy(d->bytes, before.bytes, 8 * (size_t)words_of(d->limit));
        return false;
    }
    d->last_ns = at_ns;
    d->is_faulty |= !is_guard_whole(d);
    uint64_t after = left_at(d, at_ns, &d->is_faulty);

    d->is_faulty |= after > left && after - left > units;
    return !d->is_faulty;
}

/* --- what is owed ------------------------------------------------------------------------ */

/* Charges what is owed at the first time after from_ns at which it fits, unless that is still to
 * come: pays_ns. */
static void settle(struct draft *d, int64_t from_ns, int64_t now_ns)
{
    struct ration_attempt a;

    if (d->owed == 0)
        return;
    d->owed = rn_min_u64(d->owed, d->limit->cap);
    if (!charge(d, from_ns, d->owed, &a)) {
        d->pays_ns = d->is_faulty ? now_ns : from_ns + a.retry_after_ns;
        if (d->pays_ns > now_ns || d->is_faulty)
            return;
        d->is_faulty |= !charge(d, d->pays_ns, d->owed, &a);
    }
    d->owed = 0;
}

/* What a look says: the draft as it is when all that is owed has been charged. */
static void look(const struct draft *d, int64_t now_ns, uint64_t cost, struct rn_answer *answer,
                 bool *is_faulty)
{
    struct draft copy = *d;
    struct ration_attempt a;
    int64_t at_ns = d->owed != 0 ? d->pays_ns : rn_max_i64(now_ns, d->last_ns);

    if (d->owed != 0)
        copy.is_faulty |= !charge(&copy, at_ns, d->owed, &a);
    charge(&copy, at_ns, 0, &a);
    answer->remaining = d->owed != 0 ? 0 : a.remaining;
    /* What has spent nothing is fresh, however far ahead its time is. */
    answer->reset_after_ns = a.reset_after_ns != 0 ? at_ns - now_ns + a.reset_after_ns : 0;
    answer->allowed = cost == 0;
    answer->retry_after_ns = 0;
    if (cost > d->limit->cap) {
        answer->retry_after_ns = rn_limit_beyond_ns(d->limit, cost);
    } else if (cost != 0) {
        bool fits = charge(&copy, at_ns, cost, &a);

        answer->allowed = fits && d->owed == 0;
        if (!answer->allowed)
            answer->retry_after_ns = at_ns - now_ns + (fits ? 0 : a.retry_after_ns);
    }
    *is_faulty |= copy.is_faulty;
}

/* --- operations -------------------------------------------------------------------------- */

/* The state at a time. True: it has to be written, for it was too far ahead. */
static bool read_state(const struct rn_limit *limit, const uint64_t *state, int64_t now_ns,
                       struct draft *d)
{
    uint32_t words = words_of(limit);

    *d = (struct draft){.limit = limit, .terms = terms_of(limit), .last_ns = now_ns};
    if ((int64_t)state[0] > now_ns) {
        memcpy(d->bytes, state + HEADER, 8 * (size_t)words);
        d->owed = state[2];
        d->last_ns = (int64_t)state[1];
    } else {
        d->is_fresh = true;
    }
    set_guard(d);
    bool is_ahead = d->last_ns > now_ns && d->last_ns - now_ns > limit->longest_ns;

    if (is_ahead || d->last_ns < now_ns - LASTS_MAX_NS)
        d->last_ns = now_ns;
    return is_ahead;
}

/* FORCE and DEBIT: charges what fits; a debit owes the rest. */
static bool charge_anyway(struct draft *d, int64_t at_ns, const struct rn_ask *ask,
                          struct rn_answer *answer)
{
    uint64_t left = d->owed == 0 ? left_at(d, at_ns, &d->is_faulty) : 0;
    uint64_t fits = rn_min_u64(ask->cost, left), room = d->limit->cap - d->owed;
    struct ration_attempt a;

    if (d->is_faulty)
        return false;
    if (fits != 0)
        d->is_faulty |= !charge(d, at_ns, fits, &a);
    uint64_t owed = rn_owe(ask, left, room, answer);

    d->owed += owed;
    return fits != 0 || owed != 0;
}

static bool credit(struct draft *d, int64_t at_ns, uint64_t units)
{
    uint64_t paid = rn_min_u64(d->owed, units);

    d->owed -= paid;
    units = rn_min_u64(units - paid, d->limit->cap);
    return (units != 0 && undo(d, at_ns, units, 0)) || paid != 0;
}

/* The answer is that of the attempt; no look is needed. */
static bool take(struct draft *d, int64_t at_ns, const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t ahead_ns = at_ns - ask->now_ns;
    struct ration_attempt a;

    answer->allowed = charge(d, at_ns, ask->cost, &a);
    answer->remaining = a.remaining;
    answer->retry_after_ns = answer->allowed ? 0 : ahead_ns + a.retry_after_ns;
    answer->reset_after_ns = a.reset_after_ns != 0 ? ahead_ns + a.reset_after_ns : 0;
    return answer->allowed;
}

/* Changes the draft. Returns whether it did. */
static bool change(struct draft *d, int64_t at_ns, const struct rn_ask *ask,
                   struct rn_answer *answer)
{
    uint64_t cost = rn_min_u64(ask->cost, d->limit->cap);

    switch (ask->op) {
    case RN_FORCE:
    case RN_DEBIT:
        return charge_anyway(d, at_ns, ask, answer);
    case RN_GIVE_BACK:
        return cost != 0 && !d->is_fresh && ask->mark <= at_ns &&
               ask->mark > at_ns - LASTS_MAX_NS && undo(d, at_ns, cost, at_ns - ask->mark);
    case RN_CREDIT:
        return !d->is_fresh && credit(d, at_ns, ask->cost);
    case RN_TAKE: /* see apply() */
    case RN_PEEK:
    case RN_OLDEST:
    case RN_DRAIN: /* made of takes */
    case RN_RENEW:
    case RN_RELEASE:
    case RN_RESET:
        break;
    }
    return false;
}

static void write_state(uint64_t *state, const struct draft *d, int64_t idle_at_ns)
{
    state[0] = (uint64_t)idle_at_ns;
    state[1] = (uint64_t)d->last_ns;
    state[2] = d->owed;
    memcpy(state + HEADER, d->bytes, 8 * (size_t)words_of(d->limit));
}

static enum rn_outcome apply_nothing(const struct rn_limit *limit, const struct rn_ask *ask,
                                     struct rn_answer *answer)
{
    bool forced = ask->op == RN_FORCE || ask->op == RN_DEBIT;

    *answer = (struct rn_answer){.allowed = forced || ask->cost == 0, .oldest_ns = RN_NEVER};
    if (ask->op == RN_GIVE_BACK || ask->op == RN_CREDIT)
        answer->allowed = false;
    else if (!answer->allowed)
        answer->retry_after_ns = rn_limit_beyond_ns(limit, ask->cost);
    if (ask->op == RN_DEBIT)
        answer->uncollected = ask->cost;
    return RN_KEEP;
}

/* All but a take that may fit. */
static bool apply_other(struct draft *d, int64_t at_ns, const struct rn_ask *ask,
                        struct rn_answer *answer)
{
    bool looks = ask->op == RN_TAKE || ask->op == RN_PEEK || ask->op == RN_OLDEST;
    bool is_changed = change(d, at_ns, ask, answer);
    uint64_t uncollected = answer->uncollected;

    if (is_changed)
        settle(d, at_ns, at_ns);
    look(d, ask->now_ns, looks ? ask->cost : 0, answer, &d->is_faulty);
    if (!looks)
        answer->allowed = is_changed || ask->op == RN_FORCE || ask->op == RN_DEBIT;
    answer->uncollected = uncollected;
    return is_changed;
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    bool may_fit = ask->op == RN_TAKE && ask->cost != 0 && ask->cost <= limit->cap, is_changed;
    struct draft d;

    (void)words; /* never fewer than words_small */
    if (limit->cap == 0)
        return apply_nothing(limit, ask, answer);
    *answer = (struct rn_answer){.oldest_ns = RN_NEVER};
    bool is_ahead = read_state(limit, state, ask->now_ns, &d);
    int64_t at_ns = rn_max_i64(ask->now_ns, d.last_ns);

    settle(&d, d.last_ns, at_ns);
    is_changed =
        may_fit && d.owed == 0 ? take(&d, at_ns, ask, answer) : apply_other(&d, at_ns, ask, answer);
    answer->mark = d.last_ns;
    if (d.is_faulty) {
        *answer = (struct rn_answer){.oldest_ns = RN_NEVER};
        return RN_FAULT;
    }
    if (!is_changed && !is_ahead)
        return RN_KEEP;
    write_state(state, &d, ask->now_ns + answer->reset_after_ns);
    return RN_WRITE;
}

const struct rn_form_descriptor rn_own_form = {
    .algorithm = RATION_OWN_ALGORITHM,
    .apply = apply,
};
