/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling a limit: bounds, rounding, the choice of layout; and dispatch to
 * the file of its form.
 */
#include "core/limit.h"

#include <assert.h>

#include <ration/algorithm.h>

#include "core/algorithm.h"
#include "core/envelope.h"
#include "core/forms.h"

#define SECOND_NS INT64_C(1000000000)
/* Rounding a unit of this many ns up to whole ns changes the rate by at most 1e-6. */
#define COARSE_UNIT_NS INT64_C(1000000)
#define FULL_MAX_NS (2 * RATION_PERIOD_MAX_NS)
#define SUBS_MAX 1024
#define DEFAULT_LEASE_NS (60 * SECOND_NS)
#define DAY_NS (86400 * SECOND_NS)
/* A unit of the calendar may last this much longer than period_ns: a day comes
 * twice where a zone crosses the date line eastwards, an hour in autumn. */
#define CALENDAR_SLACK_NS (DAY_NS + 3600 * SECOND_NS)
/* Blocks of a log or of places start small: most clients never need the whole. */
#define SMALL_PART 16

static bool is_bucket(enum ration_algorithm a)
{
    return a == RATION_TOKEN_BUCKET || a == RATION_LEAKY_BUCKET;
}

static bool has_burst(enum ration_algorithm a)
{
    return a == RATION_TOKEN_BUCKET || a == RATION_OWN_ALGORITHM;
}

int64_t rn_limit_period(const struct ration_limit *s)
{
    switch (s->calendar) {
    case RATION_CALENDAR_DAY:
        return DAY_NS;
    case RATION_CALENDAR_WEEK:
        return 7 * DAY_NS;
    case RATION_CALENDAR_MONTH:
        return 31 * DAY_NS;
    case RATION_CALENDAR_YEAR:
        return 366 * DAY_NS;
    case RATION_CALENDAR_NONE:
        break;
    }
    return s->period_ns;
}

static uint64_t capacity(const struct ration_limit *s)
{
    if (s->algorithm == RATION_LEAKY_BUCKET)
        return s->amount == 0 ? 0 : s->queue + 1;
    if (s->burst != 0 && s->amount != 0 && has_burst(s->algorithm))
        return s->burst;
    return s->amount;
}

static const char *fault_of_bucket(const struct ration_limit *s)
{
    rn_u128 full = (rn_u128)capacity(s) * (uint64_t)s->period_ns;

    if (s->burst > RATION_AMOUNT_MAX || s->queue >= RATION_AMOUNT_MAX)
        return "a burst or queue above 1,000,000,000,000,000; write a smaller one";
    if (s->amount != 0 && full / s->amount > (uint64_t)FULL_MAX_NS)
        return "a bucket that takes more than 20 years to refill; write a smaller burst or a "
               "higher rate";
    if (s->step_ns == 0)
        return NULL;
    if (s->step_ns < 0 || s->step_ns > s->period_ns)
        return "steps longer than the period; write steps of at most the period";
    if (s->algorithm == RATION_LEAKY_BUCKET)
        return "steps with a queue; a leaky bucket leaks evenly, so leave out the steps";
    if ((rn_u128)s->amount * (uint64_t)s->step_ns % (uint64_t)s->period_ns != 0)
        return "steps that do not refill a whole number of units; write a step in which the rate "
               "yields one";
    return NULL;
}

static bool zone_is_written(const struct ration_limit *s)
{
    size_t len = 0;

    for (; len < sizeof s->zone && s->zone[len] != '\0'; len++) {
        char c = s->zone[len], lower = (char)(c | 0x20);

        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '+' &&
            c != '-' && c != '/')
            return false;
    }
    return len < sizeof s->zone;
}

static const char *fault_of_calendar(const struct ration_limit *s)
{
    if (s->calendar == RATION_CALENDAR_NONE)
        return s->zone[0] == '\0' ? NULL
                                  : "a time zone without a calendar; only calendar day, week, "
                                    "month and year have one";
    if (rn_limit_period(&(struct ration_limit){.calendar = s->calendar}) == 0)
        return "an unknown unit of the calendar; use day, week, month or year";
    if (s->algorithm != RATION_FIXED_WINDOW)
        return "a calendar without a fixed window; only algorithm fixed-window has one";
    if (s->from_first)
        return "a calendar and a start at the first request; leave out one of them";
    if (s->period_ns != 0 && s->period_ns != rn_limit_period(s))
        return "a calendar and another length of the period; leave the length 0";
    if (!zone_is_written(s))
        return "a time zone that is not at most 39 letters, digits, _, +, - and /";
    return NULL;
}

static const char *fault_of_extras(const struct ration_limit *s)
{
    if (s->own != NULL && s->algorithm != RATION_OWN_ALGORITHM)
        return "an algorithm of your own beside another; set algorithm to RATION_OWN_ALGORITHM";
    if (s->burst != 0 && !has_burst(s->algorithm))
        return "a burst without a token bucket; only algorithm token-bucket has one";
    if (s->queue != 0 && s->algorithm != RATION_LEAKY_BUCKET)
        return "a queue without a leaky bucket; only algorithm leaky-bucket has one";
    if (s->step_ns != 0 && !is_bucket(s->algorithm))
        return "steps without a token bucket; only algorithm token-bucket refills in steps";
    if (s->sub_windows != 0 && s->algorithm != RATION_SLIDING_WINDOW)
        return "sub-windows without a sliding window; only algorithm sliding-window has them";
    if (s->sub_windows == 1 || s->sub_windows > SUBS_MAX)
        return "a number of sub-windows that is not 2 to 1024";
    if (s->from_first && s->algorithm != RATION_FIXED_WINDOW)
        return "a start at the first request without a fixed window; only algorithm fixed-window "
               "has one";
    if (s->adaptive_min != 0 && s->algorithm != RATION_CONCURRENCY)
        return "a number to be learnt without concurrency; only places are adaptive";
    if (s->lease_ns < 0 || s->lease_ns > RATION_LEASE_MAX_NS)
        return "a lease that is not between 1 ns and 24 hours";
    return fault_of_calendar(s);
}

static const char *fault_of_places(const struct ration_limit *s)
{
    if (s->adaptive_min != 0 && s->amount < s->adaptive_min)
        return "an adaptive minimum above the maximum; write the smaller number first";
    if (s->adaptive_min != 0 && s->amount > RATION_ADAPTIVE_MAX)
        return "more than 10,000 adaptive places; write at most that";
    return s->amount > RATION_PLACES_MAX ? "more than 16,000 concurrent; write at most that" : NULL;
}

static inline const char *fault_of_rate(const struct ration_limit *s)
{
    if (s->amount > RATION_AMOUNT_MAX)
        return "an amount above 1,000,000,000,000,000; write a smaller one";
    if (rn_limit_period(s) < RATION_PERIOD_MIN_NS || rn_limit_period(s) > RATION_PERIOD_MAX_NS)
        return "a period that is not between 1 microsecond and 10 years";
    if (s->amount > (uint64_t)rn_limit_period(s))
        return "a rate above 1,000,000,000 per second; write a lower one";
    return NULL;
}

/* Its algorithm is asked last, about sound terms. */
static const char *fault_of_own(const struct ration_limit *s)
{
    const struct ration_own_algorithm *own = s->own;
    struct rn_limit limit = {.own = own, .amount = s->amount, .period_ns = s->period_ns};
    const char *fault = fault_of_rate(s);

    if (!own)
        return "no algorithm of your own; set `own`";
    if (own->size < sizeof *own || !own->name || !own->take || !own->give_back)
        return "an algorithm of your own that is not whole; set size, name, take and give_back";
    if (own->state_bytes == 0 || own->state_bytes > RATION_STATE_MAX)
        return "an algorithm of your own whose state is not 1 to 256 bytes; set state_bytes";
    if (s->burst > RATION_AMOUNT_MAX)
        return "a burst above 1,000,000,000,000,000; write a smaller one";
    limit.cap = capacity(s);
    return fault ? fault : rn_opaque_bound(&limit);
}

const char *rn_limit_fault(const struct ration_limit *s)
{
    const char *fault = fault_of_extras(s);

    if (fault || s->algorithm == RATION_UNLIMITED)
        return fault;
    if (!rn_algorithm_find((uint64_t)s->algorithm))
        return s->algorithm == RATION_OWN_ALGORITHM ? fault_of_own(s) : "an unknown algorithm";
    if (s->algorithm == RATION_CONCURRENCY)
        return fault_of_places(s);
    fault = fault_of_rate(s);
    if (fault)
        return fault;
    if (s->algorithm == RATION_SLIDING_LOG && s->amount > RATION_LOG_MAX)
        return "a log of more than 65,536 entries; use algorithm sliding-window with sub_windows";
    return is_bucket(s->algorithm) ? fault_of_bucket(s) : NULL;
}

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

/* Without a zone it is UTC. */
static uint64_t calendar_id_of(const struct ration_limit *s)
{
    const char *z = s->zone;

    if (s->calendar == RATION_CALENDAR_NONE)
        return 0;

    uint64_t h = mix(0, (uint64_t)s->calendar);

    if (z[0] == 'U' && z[1] == 'T' && z[2] == 'C' && z[3] == '\0')
        z += 3;
    for (; *z != '\0'; z++)
        h = mix(h, (unsigned char)*z);
    return h != 0 ? h : 1;
}

/* States of two algorithms of the embedder's, or of two versions of one, must never meet. */
static uint64_t mix_own(uint64_t h, const struct ration_own_algorithm *own)
{
    for (const char *c = own->name; *c != '\0'; c++)
        h = mix(h, (unsigned char)*c);
    return mix(mix(h, own->version), own->state_bytes);
}

/* Limits with equal shapes read each other's state as the same share spent:
 * algorithm + window, where the window of a bucket is its time from empty to
 * full. */
static uint64_t shape_of(const struct ration_limit *s)
{
    uint64_t window = (uint64_t)rn_limit_period(s);
    uint64_t h = mix(0, (uint64_t)s->algorithm);

    if (s->algorithm == RATION_CONCURRENCY && s->adaptive_min != 0)
        return mix(h, 1);
    if (s->algorithm == RATION_CONCURRENCY || s->algorithm == RATION_UNLIMITED)
        return h;
    if (is_bucket(s->algorithm) && s->amount != 0)
        window = (uint64_t)((rn_u128)capacity(s) * (uint64_t)s->period_ns / s->amount);
    if (s->algorithm == RATION_OWN_ALGORITHM)
        h = mix_own(h, s->own);
    h = mix(mix(mix(mix(h, window), (uint64_t)s->step_ns), s->sub_windows), s->from_first);
    return s->calendar == RATION_CALENDAR_NONE ? h : mix(h, calendar_id_of(s));
}

static void init_bucket(struct rn_limit *l, const struct ration_limit *s)
{
    uint64_t period = (uint64_t)s->period_ns, amount = s->amount ? s->amount : 1;
    uint64_t whole = period / amount, rest = period % amount;

    l->form = RN_FORM_GCRA;
    l->unit_ns = (int64_t)(whole + (rest != 0));
    if (s->step_ns != 0 && s->amount != 0) {
        l->form = RN_FORM_STEP;
        l->step_ns = s->step_ns;
        l->step_units = (uint64_t)((rn_u128)s->amount * (uint64_t)s->step_ns / period);
    } else if (rest != 0 && whole < (uint64_t)COARSE_UNIT_NS) {
        l->form = RN_FORM_FINE;
        l->unit_ns = (int64_t)whole;
        rn_u128 frac = (((rn_u128)rest << 32) + amount - 1) / amount;
        l->unit_ns += (int64_t)(frac >> 32);
        l->unit_frac = (uint32_t)frac;
        l->words_small = l->words_full = 2;
        rn_u128 full = (((rn_u128)(uint64_t)l->unit_ns << 32) + l->unit_frac) * l->cap;

        l->full_ns = (int64_t)((full + UINT32_MAX) >> 32);
        l->full_over = (uint32_t)(0u - (uint32_t)full);
        l->unit_inverse = UINT64_MAX / (uint64_t)l->unit_ns;
        return;
    }
    l->full_ns = l->unit_ns * (int64_t)l->cap;
    l->unit_inverse = UINT64_MAX / (uint64_t)l->unit_ns;
}

static void init_window(struct rn_limit *l)
{
    bool packs = l->amount < UINT64_C(1) << RN_WINDOW_COUNT_BITS &&
                 l->period_ns >= 1000 * RN_WINDOW_QUANTUM_NS;

    l->longest_ns = l->period_ns + (l->calendar_id != 0 ? CALENDAR_SLACK_NS : 0);
    l->form = packs ? RN_FORM_WINDOW : RN_FORM_WIDE;
    l->words_small = packs ? 0 : 2;
    l->words_full = packs ? 0 : RN_WIDE_WORDS;
}

static void init_sliding(struct rn_limit *l, const struct ration_limit *s)
{
    unsigned bits = l->amount ? 64 - (unsigned)__builtin_clzll(l->amount) : 1;

    l->form = RN_FORM_COUNTER;
    l->words_small = 3;
    l->words_full = 4;
    if (s->sub_windows != 0) {
        l->form = RN_FORM_SUBS;
        l->subs = s->sub_windows;
        l->sub_ns = rn_ceil_div(l->period_ns, s->sub_windows);
        l->words_small = l->words_full = 2 + (uint32_t)(((uint64_t)(l->subs + 1) * bits + 63) / 64);
    }
}

void rn_limit_init(struct rn_limit *l, const struct ration_limit *s)
{
    *l = (struct rn_limit){.algorithm = s->algorithm,
                           .from_first = s->from_first,
                           .amount = s->amount,
                           .cap = capacity(s),
                           .period_ns = rn_limit_period(s),
                           .calendar_id = calendar_id_of(s),
                           .shape = shape_of(s)};
    uint64_t small = l->amount / SMALL_PART < 4 ? rn_min_u64(l->amount, 4) : l->amount / SMALL_PART;

    switch (s->algorithm) {
    case RATION_TOKEN_BUCKET:
    case RATION_LEAKY_BUCKET:
        init_bucket(l, s);
        break;
    case RATION_FIXED_WINDOW:
        init_window(l);
        break;
    case RATION_SLIDING_WINDOW:
        init_sliding(l, s);
        break;
    case RATION_SLIDING_LOG:
        l->form = RN_FORM_LOG;
        l->sub_ns = l->period_ns / 65500 + 1;
        l->words_small = 3 + (uint32_t)((small + 3) / 4);
        l->words_full = 3 + (uint32_t)((l->amount + 3) / 4);
        break;
    case RATION_CONCURRENCY:
        l->lease_ns = s->lease_ns ? s->lease_ns : DEFAULT_LEASE_NS;
        if (s->adaptive_min != 0) {
            l->form = RN_FORM_ADAPTIVE;
            l->least = s->adaptive_min;
            l->words_small = RN_ADAPTIVE_HEADER + RN_ADAPTIVE_PLACE * (uint32_t)small;
            l->words_full = RN_ADAPTIVE_HEADER + RN_ADAPTIVE_PLACE * (uint32_t)l->amount;
            break;
        }
        l->form = RN_FORM_PLACES;
        l->words_small = 2 + 2 * (uint32_t)small;
        l->words_full = 2 + 2 * (uint32_t)l->amount;
        break;
    case RATION_UNLIMITED:
        l->cap = l->amount = UINT64_MAX;
        break;
    case RATION_OWN_ALGORITHM:
        l->form = RN_FORM_OWN;
        l->own = s->own;
        l->words_small = l->words_full = RN_OWN_HEADER + (s->own->state_bytes + 7) / 8;
        (void)rn_opaque_bound(l);
        break;
    }
}

void rn_limit_set_calendar(struct rn_limit *limit, const struct rn_calendar *calendar)
{
    assert(limit->calendar_id != 0 || calendar == NULL);
    limit->calendar = calendar;
}

static enum rn_outcome apply_none(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                                  const struct rn_ask *ask, struct rn_answer *answer)
{
    (void)state, (void)words, (void)ask;
    *answer = (struct rn_answer){.allowed = true, .remaining = limit->cap, .oldest_ns = RN_NEVER};
    return RN_KEEP;
}

static const struct rn_form_descriptor none = {.algorithm = RATION_UNLIMITED, .apply = apply_none};

/* A form may come from a damaged state file: one that is unknown has no state. */
static const struct rn_form_descriptor *descriptor_of(enum rn_form form)
{
    switch (form) {
    case RN_FORM_NONE:
        return &none;
    case RN_FORM_GCRA:
        return &rn_gcra_form;
    case RN_FORM_STEP:
        return &rn_step_form;
    case RN_FORM_WINDOW:
        return &rn_window_form;
    case RN_FORM_FINE:
        return &rn_fine_form;
    case RN_FORM_WIDE:
        return &rn_wide_form;
    case RN_FORM_COUNTER:
        return &rn_counter_form;
    case RN_FORM_SUBS:
        return &rn_sub_windows_form;
    case RN_FORM_LOG:
        return &rn_sliding_log_form;
    case RN_FORM_PLACES:
        return &rn_places_form;
    case RN_FORM_ADAPTIVE:
        return &rn_adaptive_form;
    case RN_FORM_OWN:
        return &rn_own_form;
    }
    return &none;
}

/* Whole units: a bucket keeps the part of one that it has besides. */
static enum rn_outcome drain(const struct rn_form_descriptor *d, const struct rn_limit *limit,
                             uint64_t *state, uint32_t words, const struct rn_ask *ask,
                             struct rn_answer *answer)
{
    struct rn_ask step = *ask;

    step.op = RN_TAKE;
    enum rn_outcome outcome = d->apply(limit, state, words, &step, answer);

    if (outcome == RN_GROW || answer->allowed || rn_form_is_places(limit->form))
        return outcome;
    answer->drained = step.cost = answer->remaining;
    if (step.cost == 0)
        return outcome;
    outcome = d->apply(limit, state, words, &step, answer);
    if (outcome == RN_GROW)
        return outcome;

    uint64_t drained = step.cost;
    int64_t mark = answer->mark;

    step.op = RN_PEEK; /* retry_after is that of the next attempt */
    step.cost = ask->cost;
    (void)d->apply(limit, state, words, &step, answer);
    answer->mark = mark;
    answer->drained = drained;
    return outcome;
}

enum rn_outcome rn_form_apply(enum rn_form form, const struct rn_limit *limit, uint64_t *state,
                              uint32_t words, const struct rn_ask *ask, struct rn_answer *answer)
{
    const struct rn_form_descriptor *d = descriptor_of(form);

    if (__builtin_expect(ask->op == RN_OLDEST, 0))
        answer->oldest_ns = d->oldest ? d->oldest(limit, state, words, ask) : RN_NEVER;
    if (__builtin_expect(ask->op == RN_DRAIN, 0))
        return drain(d, limit, state, words, ask, answer);
    return d->apply(limit, state, words, ask, answer);
}

enum rn_outcome rn_limit_apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                               const struct rn_ask *ask, struct rn_answer *answer)
{
    return rn_form_apply(limit->form, limit, state, words, ask, answer);
}

int64_t rn_limit_idle_at(enum rn_form form, uint64_t state)
{
    const struct rn_form_descriptor *d = descriptor_of(form);

    return d->idle_at ? d->idle_at(state) : (int64_t)state;
}

uint64_t rn_limit_spent(enum rn_form form, const uint64_t *state, uint32_t words)
{
    const struct rn_form_descriptor *d = descriptor_of(form);

    return d->spent ? d->spent(state, words) : 0;
}

enum ration_algorithm rn_form_algorithm(enum rn_form form)
{
    return descriptor_of(form)->algorithm;
}

enum rn_form rn_form_grows_into(enum rn_form form)
{
    return descriptor_of(form)->grows_into;
}

bool rn_limit_convert(const struct rn_limit *limit, enum rn_form from, uint64_t word,
                      uint64_t *state)
{
    const struct rn_form_descriptor *d = descriptor_of(from);

    if (d->grows_into == RN_FORM_NONE || (limit->form != d->grows_into && limit->form != from))
        return false;
    d->grow(word, state);
    return true;
}

bool rn_limit_mark_at(const struct rn_limit *limit, int64_t at_ns, int64_t *mark)
{
    const struct rn_form_descriptor *d = descriptor_of(limit->form);

    if (!d->mark_at)
        return false;
    *mark = d->mark_at(limit, at_ns);
    return true;
}

int64_t rn_envelope_settles_ns(const struct rn_limit *outer, const struct rn_limit *inner)
{
    const struct rn_form_descriptor *d = descriptor_of(outer->form);

    return d->settles && descriptor_of(inner->form)->envelope ? d->settles(outer, inner) : RN_NEVER;
}

struct rn_envelope rn_limit_envelope(const struct rn_limit *limit)
{
    return descriptor_of(limit->form)->envelope(limit);
}
