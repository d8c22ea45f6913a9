/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that between them use every form a state can have, each with a second
 * amount of the same shape, and a private copy of a key's state to compare a
 * store with.
 */
#ifndef TEST_STORE_EVERY_FORM_H
#define TEST_STORE_EVERY_FORM_H

#include <string.h>

#include "../../../examples/own-algorithm/decay.h"
#include "../../model/subject.h"
#include "core/limit.h"
#include "store/store.h"

enum {
    TOKENS,
    QUEUE,
    STEPS,
    FINE,
    WINDOW,
    FIRST_WINDOW,
    SHORT_WINDOW,
    COUNTER,
    SUBS,
    SMALL_LOG,
    LOG,
    OWN,
    PLACES,
    ADAPTIVE,
    KINDS,
};

static const struct every_form {
    const char *name;
    enum rn_form form[2];
    struct ration_limit spec[2];
} every_form[KINDS] = {
    [TOKENS] = {"token bucket",
                {RN_FORM_GCRA, RN_FORM_GCRA},
                {{.algorithm = RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE},
                 {.algorithm = RATION_TOKEN_BUCKET, .amount = 7, .period_ns = MINUTE}}},
    [QUEUE] =
        {"leaky bucket",
         {RN_FORM_GCRA, RN_FORM_GCRA},
         {{.algorithm = RATION_LEAKY_BUCKET, .amount = 10, .period_ns = SECOND, .queue = 49},
          {.algorithm = RATION_LEAKY_BUCKET, .amount = 20, .period_ns = SECOND, .queue = 99}}},
    [STEPS] = {"stepped token bucket",
               {RN_FORM_STEP, RN_FORM_STEP},
               {{.algorithm = RATION_TOKEN_BUCKET,
                 .amount = 100,
                 .period_ns = MINUTE,
                 .step_ns = 6 * SECOND},
                {.algorithm = RATION_TOKEN_BUCKET,
                 .amount = 200,
                 .period_ns = MINUTE,
                 .step_ns = 6 * SECOND}}},
    [FINE] = {"fast token bucket",
              {RN_FORM_FINE, RN_FORM_GCRA},
              {{.algorithm = RATION_TOKEN_BUCKET, .amount = 700000000, .period_ns = SECOND},
               {.algorithm = RATION_TOKEN_BUCKET, .amount = 1000, .period_ns = SECOND}}},
    [WINDOW] = {"fixed window",
                {RN_FORM_WINDOW, RN_FORM_WIDE},
                {{.algorithm = RATION_FIXED_WINDOW, .amount = 50, .period_ns = MINUTE},
                 {.algorithm = RATION_FIXED_WINDOW, .amount = 2000000, .period_ns = MINUTE}}},
    [FIRST_WINDOW] = {"fixed window from the first request",
                      {RN_FORM_WINDOW, RN_FORM_WINDOW},
                      {{.algorithm = RATION_FIXED_WINDOW,
                        .amount = 40,
                        .period_ns = 10 * SECOND,
                        .from_first = true},
                       {.algorithm = RATION_FIXED_WINDOW,
                        .amount = 1048575,
                        .period_ns = 10 * SECOND,
                        .from_first = true}}},
    [SHORT_WINDOW] = {"short fixed window",
                      {RN_FORM_WIDE, RN_FORM_WIDE},
                      {{.algorithm = RATION_FIXED_WINDOW, .amount = 30, .period_ns = SECOND / 10},
                       {.algorithm = RATION_FIXED_WINDOW, .amount = 90, .period_ns = SECOND / 10}}},
    [COUNTER] = {"sliding window of two",
                 {RN_FORM_COUNTER, RN_FORM_COUNTER},
                 {{.algorithm = RATION_SLIDING_WINDOW, .amount = 100, .period_ns = MINUTE},
                  {.algorithm = RATION_SLIDING_WINDOW, .amount = 1000, .period_ns = MINUTE}}},
    [SUBS] = {"sliding window of sixty",
              {RN_FORM_SUBS, RN_FORM_SUBS},
              {{.algorithm = RATION_SLIDING_WINDOW,
                .amount = 60,
                .period_ns = MINUTE,
                .sub_windows = 60},
               {.algorithm = RATION_SLIDING_WINDOW,
                .amount = 100000,
                .period_ns = MINUTE,
                .sub_windows = 60}}},
    [SMALL_LOG] = {"log of five",
                   {RN_FORM_LOG, RN_FORM_LOG},
                   {{.algorithm = RATION_SLIDING_LOG, .amount = 5, .period_ns = MINUTE},
                    {.algorithm = RATION_SLIDING_LOG, .amount = 4, .period_ns = MINUTE}}},
    [LOG] = {"log of three hundred",
             {RN_FORM_LOG, RN_FORM_LOG},
             {{.algorithm = RATION_SLIDING_LOG, .amount = 300, .period_ns = HOUR},
              {.algorithm = RATION_SLIDING_LOG, .amount = 20, .period_ns = HOUR}}},
    [OWN] =
        {"own algorithm",
         {RN_FORM_OWN, RN_FORM_OWN},
         {{.algorithm = RATION_OWN_ALGORITHM, .own = &decay, .amount = 100, .period_ns = MINUTE},
          {.algorithm = RATION_OWN_ALGORITHM, .own = &decay, .amount = 1000, .period_ns = MINUTE}}},
    [PLACES] = {"places",
                {RN_FORM_PLACES, RN_FORM_PLACES},
                {{.algorithm = RATION_CONCURRENCY, .amount = 40},
                 {.algorithm = RATION_CONCURRENCY, .amount = 100}}},
    [ADAPTIVE] = {"adaptive places",
                  {RN_FORM_ADAPTIVE, RN_FORM_ADAPTIVE},
                  {{.algorithm = RATION_CONCURRENCY, .amount = 40, .adaptive_min = 40},
                   {.algorithm = RATION_CONCURRENCY, .amount = 80, .adaptive_min = 80}}},
};

static inline struct rn_limit compiled(const struct ration_limit *spec)
{
    struct rn_limit limit;

    if (rn_limit_fault(spec))
        abort();
    rn_limit_init(&limit, spec);
    return limit;
}

/* A key as the limiter would hash it: any 64 bits. */
static inline uint64_t key_of(uint64_t number)
{
    uint64_t z = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* ---- a private state */

#define CELL_WORDS 256

struct cell {
    bool present;
    enum rn_form form;
    uint32_t count;
    uint64_t words[CELL_WORDS];
};

static inline bool cell_serves(const struct cell *cell, const struct rn_limit *limit)
{
    return cell->present && (cell->form == limit->form ||
                             (cell->form == RN_FORM_FINE && limit->form == RN_FORM_GCRA) ||
                             (cell->form == RN_FORM_WIDE && limit->form == RN_FORM_WINDOW));
}

static inline int64_t cell_idle_at(const struct cell *cell)
{
    return cell->present ? rn_limit_idle_at(cell->form, cell->words[0]) : INT64_MIN;
}

static inline void cell_apply(struct cell *cell, const struct rn_limit *limit,
                              const struct rn_ask *ask, struct rn_answer *answer)
{
    struct cell work = *cell;
    uint32_t least = limit->words_small ? limit->words_small : 1;

    *answer = (struct rn_answer){0};
    if (ask->op == RN_RESET) {
        answer->allowed = cell_idle_at(cell) > ask->now_ns;
        answer->remaining = limit->cap;
        *cell = (struct cell){0};
        return;
    }
    if (limit->words_full > CELL_WORDS)
        abort();
    if (!cell_serves(cell, limit)) {
        work = (struct cell){.present = true, .form = limit->form};
        if (cell->present && cell->count == 1)
            rn_limit_convert(limit, cell->form, cell->words[0], work.words);
    }
    work.count = work.count < least ? least : work.count;
    enum rn_outcome outcome = rn_form_apply(work.form, limit, work.words, work.count, ask, answer);

    if (outcome == RN_GROW && work.form == RN_FORM_WINDOW) {
        uint64_t word = work.words[0];

        work.form = RN_FORM_WIDE;
        work.count = RN_WIDE_WORDS;
        rn_limit_convert(limit, RN_FORM_WINDOW, word, work.words);
        outcome = rn_form_apply(work.form, limit, work.words, work.count, ask, answer);
    } else if (outcome == RN_GROW) {
        work.count = work.form == RN_FORM_WIDE ? RN_WIDE_WORDS : limit->words_full;
        outcome = rn_form_apply(work.form, limit, work.words, work.count, ask, answer);
    }
    if (outcome == RN_WRITE)
        *cell = work;
}

#endif
