/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One limit and its state under test, as a store would hold them.
 */
#ifndef MODEL_SUBJECT_H
#define MODEL_SUBJECT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/own-algorithm/decay.h"
#include "core/algorithm.h"
#include "core/limit.h"
#include "model/random.h"

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define BASE (INT64_C(1790000000) * SECOND)

/* ---- the subject */

struct subject {
    struct ration_limit spec;
    struct rn_limit limit;
    uint64_t *state, *scratch; /* exactly `words`; words_full */
    uint32_t words;
    enum rn_form form; /* of the state: a window that owes is wide */
    int64_t wall_offset_ns;
    int64_t promised_ns; /* retry_after or reset_after of the last answer */
};

static inline uint64_t *zeroed(size_t words)
{
    uint64_t *p = calloc(words ? words : 1, sizeof(*p));

    if (!p)
        abort();
    return p;
}

static inline struct subject subject_new(const struct ration_limit *spec)
{
    struct subject s = {.spec = *spec};
    const char *fault = rn_limit_fault(spec);

    if (fault) {
        fprintf(stderr, "not a limit: %s\n", fault);
        abort();
    }
    rn_limit_init(&s.limit, spec);
    s.words = s.limit.words_small ? s.limit.words_small : 1;
    s.form = s.limit.form;
    s.state = zeroed(s.words);
    s.scratch = zeroed(s.limit.words_full ? s.limit.words_full : RN_WIDE_WORDS);
    return s;
}

static inline void subject_free(struct subject *s)
{
    free(s->state);
    free(s->scratch);
}

static inline void subject_grow(struct subject *s)
{
    bool widens = s->form == RN_FORM_WINDOW;
    uint32_t words = widens ? RN_WIDE_WORDS : s->limit.words_full;
    uint64_t *grown = zeroed(words);

    if (s->words >= words)
        abort();
    if (widens)
        rn_limit_convert(&s->limit, s->form, s->state[0], grown);
    else
        memcpy(grown, s->state, s->words * sizeof(*grown));
    s->form = widens ? RN_FORM_WIDE : s->form;
    free(s->state);
    s->state = grown;
    s->words = words;
}

/* Applies to the state, growing it as a store would. */
static inline enum rn_outcome subject_ask(struct subject *s, const struct rn_ask *ask,
                                          struct rn_answer *answer)
{
    struct rn_ask shifted = *ask;
    enum rn_outcome outcome;

    shifted.wall_offset_ns = s->wall_offset_ns;
    memset(answer, 0, sizeof(*answer));
    outcome = rn_form_apply(s->form, &s->limit, s->state, s->words, &shifted, answer);
    if (outcome == RN_GROW) {
        subject_grow(s);
        outcome = rn_form_apply(s->form, &s->limit, s->state, s->words, &shifted, answer);
    }
    s->promised_ns = answer->reset_after_ns;
    if (answer->retry_after_ns > 0 && answer->retry_after_ns != RN_NEVER)
        s->promised_ns = answer->retry_after_ns;
    return outcome;
}

static inline struct rn_answer subject_do(struct subject *s, enum rn_op op, int64_t now,
                                          uint64_t cost)
{
    struct rn_ask ask = {.op = op, .now_ns = now, .cost = cost};
    struct rn_answer answer;

    subject_ask(s, &ask, &answer);
    return answer;
}

static inline struct rn_answer take(struct subject *s, int64_t now, uint64_t cost)
{
    return subject_do(s, RN_TAKE, now, cost);
}

/* Looks at a copy: not even a clamp reaches the state. */
static inline struct rn_answer peek(const struct subject *s, int64_t now, uint64_t cost)
{
    struct rn_ask ask = {.op = RN_PEEK, .now_ns = now, .cost = cost};
    struct rn_answer answer = {0};

    ask.wall_offset_ns = s->wall_offset_ns;
    memcpy(s->scratch, s->state, s->words * sizeof(*s->scratch));
    rn_form_apply(s->form, &s->limit, s->scratch, s->words, &ask, &answer);
    return answer;
}

static inline struct rn_answer give_back(struct subject *s, int64_t now, uint64_t cost,
                                         int64_t at_ns, int64_t mark)
{
    struct rn_ask ask = {
        .op = RN_GIVE_BACK, .now_ns = now, .cost = cost, .at_ns = at_ns, .mark = mark};
    struct rn_answer answer;

    subject_ask(s, &ask, &answer);
    return answer;
}

/* How long after the last charge a state still differs from none. */
static inline int64_t subject_horizon(const struct subject *s)
{
    switch (s->limit.form) {
    case RN_FORM_STEP:
        return (int64_t)((s->limit.cap + s->limit.step_units - 1) / s->limit.step_units + 1) *
               s->limit.step_ns;
    case RN_FORM_GCRA:
        return s->limit.full_ns;
    case RN_FORM_FINE:
        return (int64_t)s->limit.cap * s->limit.unit_ns +
               (int64_t)(s->limit.cap >> 32) * s->limit.unit_frac + 1 +
               (int64_t)((s->limit.cap & UINT32_MAX) * s->limit.unit_frac >> 32);
    case RN_FORM_COUNTER:
        return 2 * s->limit.period_ns;
    case RN_FORM_SUBS:
        return (s->limit.subs + 1) * s->limit.sub_ns;
    case RN_FORM_LOG:
        return s->limit.period_ns + s->limit.sub_ns;
    case RN_FORM_WINDOW:
        return s->limit.period_ns + 320000;
    case RN_FORM_OWN:
        return s->limit.longest_ns;
    case RN_FORM_NONE:
    case RN_FORM_WIDE:
    case RN_FORM_PLACES:
    case RN_FORM_ADAPTIVE:
        break;
    }
    return s->limit.period_ns;
}

/* ---- random limits */

/* Of those that can decide a rate, with the example of an embedder's. */
static inline enum ration_algorithm random_algorithm(void)
{
    enum ration_algorithm rates[RN_ALGORITHMS_MAX + 1] = {RATION_OWN_ALGORITHM};
    size_t n = 1;

    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++)
        if (a->is_rate)
            rates[n++] = a->algorithm;
    return rates[random_below(n)];
}

static inline void random_bucket(struct ration_limit *l)
{
    if (l->algorithm == RATION_LEAKY_BUCKET) {
        l->queue = random_below(2) ? random_below(100) : random_scale(0, 1000000);
    } else if (random_below(4) == 0) { /* steps: period a multiple, amount follows */
        int64_t steps = 1 + (int64_t)random_below(60);

        l->step_ns = (l->period_ns + steps - 1) / steps;
        l->period_ns = l->step_ns * steps;
        l->amount = (uint64_t)steps * random_scale(1, random_below(2) ? 20 : (uint64_t)l->step_ns);
        l->burst = random_below(2) ? 0 : random_scale(1, 2 * l->amount);
    } else if (random_below(2)) {
        l->burst = random_below(2) ? 1 + random_below(200) : random_scale(1, RATION_AMOUNT_MAX);
    }
}

/* Any limit that can be enforced, of the given algorithm. */
static inline struct ration_limit random_limit(enum ration_algorithm algorithm)
{
    static const int64_t periods[] = {1000,   SECOND,    SECOND / 3, 7 * SECOND, MINUTE,
                                      HOUR,   DAY,       7 * DAY,    30 * DAY,   365 * DAY,
                                      999983, 320000000, 319999999,  10 * SECOND};
    static const uint64_t amounts[] = {1, 2, 3, 7, 10, 97, 100, 300000000, 1000000000, 999999937};

    for (;;) {
        struct ration_limit l = {.algorithm = algorithm};
        uint64_t most = algorithm == RATION_SLIDING_LOG ? 300 : RATION_AMOUNT_MAX;

        l.period_ns = random_below(2) ? periods[random_below(sizeof periods / sizeof *periods)]
                                      : (int64_t)random_scale(1000, RATION_PERIOD_MAX_NS);
        l.amount = random_below(2)   ? amounts[random_below(sizeof amounts / sizeof *amounts)]
                   : random_below(3) ? 1 + random_below(200)
                                     : random_scale(0, most);
        if (algorithm == RATION_SLIDING_LOG && random_below(50) == 0)
            l.amount = random_scale(1, RATION_LOG_MAX);
        if (algorithm == RATION_TOKEN_BUCKET || algorithm == RATION_LEAKY_BUCKET)
            random_bucket(&l);
        if (algorithm == RATION_SLIDING_WINDOW && random_below(2))
            l.sub_windows =
                random_below(4) ? 2 + (uint32_t)random_below(60) : (uint32_t)random_scale(2, 1024);
        if (algorithm == RATION_OWN_ALGORITHM) {
            l.own = &decay;
            l.burst = random_below(2) ? 0 : random_scale(1, 1000000000);
        }
        l.from_first = algorithm == RATION_FIXED_WINDOW && random_below(2);
        if (!rn_limit_fault(&l))
            return l;
    }
}

/* A pause of any interesting length, up to a few times the whole state: the
 * edges of what was promised above all. */
static inline int64_t random_gap(const struct subject *s)
{
    int64_t horizon = subject_horizon(s);
    int64_t unit = horizon / (int64_t)(s->limit.cap ? s->limit.cap : 1);

    switch (random_below(20)) {
    case 0:
        return (int64_t)random_below(3 * (uint64_t)horizon);
    case 1:
        return horizon - 1 + (int64_t)random_below(3);
    case 2:
        return (int64_t)random_below((uint64_t)s->limit.period_ns / 8 + 1);
    case 3:
    case 4:
        return (int64_t)random_below((uint64_t)horizon / 8 + 1);
    case 5:
        return 1;
    case 11:
        return s->promised_ns;
    case 12:
        return s->promised_ns > 0 ? s->promised_ns - 1 : 0;
    case 6:
    case 7:
        return unit;
    case 8:
    case 9:
    case 10:
        return (int64_t)random_below(4 * (uint64_t)unit + 1);
    default:
        return 0;
    }
}

static inline uint64_t random_cost(uint64_t cap)
{
    switch (random_below(12)) {
    case 0:
        return 0;
    case 1:
        return cap;
    case 2:
        return cap + 1 + random_below(3) * random_scale(0, UINT64_MAX / 4);
    case 3:
    case 4:
        return random_below(cap + 1);
    case 5:
    case 6:
        return random_scale(1, cap);
    case 7:
        return cap / 2;
    default:
        return 1;
    }
}

static inline void describe(const struct ration_limit *l, char *out, size_t size)
{
    snprintf(out, size,
             "{.algorithm = %d, .amount = %" PRIu64 ", .period_ns = %" PRId64 ", .burst = %" PRIu64
             ", .queue = %" PRIu64 ", .sub_windows = %u, .from_first = %d, .step_ns = %" PRId64 "}",
             (int)l->algorithm, l->amount, l->period_ns, l->burst, l->queue, l->sub_windows,
             l->from_first, l->step_ns);
}

#endif
