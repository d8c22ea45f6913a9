/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/fit.h"

#include <stdlib.h>
#include <string.h>

/* Whether the limit in `spec` admits all. */
static bool admits(struct rn_fit *f, const struct rn_demand_event *events, size_t count)
{
    struct rn_limit limit;
    size_t words;

    if (rn_limit_fault(&f->spec) != NULL)
        return false;
    rn_limit_init(&limit, &f->spec);
    if (limit.calendar_id != 0)
        rn_limit_set_calendar(&limit, f->calendar);
    words = limit.words_full != 0 ? limit.words_full : 1;
    if (words > f->words) {
        uint64_t *more = realloc(f->state, words * sizeof *more);

        if (more == NULL)
            return false;
        f->state = more;
        f->words = words;
    }
    memset(f->state, 0, words * sizeof *f->state);
    for (size_t i = 0; i < count; i++) {
        struct rn_ask ask = {.op = RN_TAKE, .now_ns = events[i].at_ns, .cost = events[i].cost};
        struct rn_answer answer;
        enum rn_outcome outcome = rn_limit_apply(&limit, f->state, (uint32_t)words, &ask, &answer);

        if (outcome == RN_GROW || outcome == RN_FAULT || !answer.allowed)
            return false;
    }
    return true;
}

bool rn_fit_init(struct rn_fit *f, const struct ration_limit *spec,
                 const struct rn_calendar *calendar)
{
    uint64_t above = RATION_AMOUNT_MAX + 1;

    *f = (struct rn_fit){.spec = *spec, .calendar = calendar, .words = 64, .most = 1};
    f->state = malloc(f->words * sizeof *f->state);
    if (f->spec.algorithm == RATION_TOKEN_BUCKET)
        f->spec.burst = 0;
    while (above - f->most > 1) {
        uint64_t middle = f->most + (above - f->most) / 2;

        f->spec.amount = middle;
        if (rn_limit_fault(&f->spec) == NULL)
            f->most = middle;
        else
            above = middle;
    }
    return f->state != NULL;
}

void rn_fit_done(struct rn_fit *f)
{
    free(f->state);
    f->state = NULL;
}

/* The least value of a number in spec, from 1 to `most`, that admits all; most + 1: none. */
static uint64_t find_least(struct rn_fit *f, uint64_t *number, uint64_t most,
                           const struct rn_demand_event *events, size_t count)
{
    uint64_t refuses = 0, admitting = most + 1;

    while (admitting - refuses > 1) {
        *number = refuses + (admitting - refuses) / 2;
        if (admits(f, events, count))
            admitting = *number;
        else
            refuses = *number;
    }
    return admitting;
}

static uint64_t total_cost(const struct rn_demand_event *events, size_t count)
{
    uint64_t total = 0;

    for (size_t i = 0; i < count && total <= RATION_AMOUNT_MAX; i++)
        total += events[i].cost;
    return total;
}

uint64_t rn_fit_amount(struct rn_fit *f, const struct rn_demand_event *events, size_t count)
{
    uint64_t most = total_cost(events, count);
    bool queues = f->spec.algorithm == RATION_LEAKY_BUCKET; /* its rate may have to be higher */
    uint64_t least;

    if (count == 1 && events->cost <= 1) /* most clients */
        return 1;
    most = most == 0 ? 1 : most > f->most || queues ? f->most : most;
    least = find_least(f, &f->spec.amount, most, events, count);
    return least > most ? f->most + 1 : least;
}

uint64_t rn_fit_burst(struct rn_fit *f, const struct rn_demand_event *events, size_t count)
{
    return find_least(f, &f->spec.burst, f->spec.amount, events, count);
}
