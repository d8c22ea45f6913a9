/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state is what counts, in parts of a unit, as of its last change. Rounding errs towards
 * refusing: what counts is rounded up, what comes back is rounded down.
 */
#include "decay.h"

#include <math.h>
#include <string.h>

#define PARTS UINT64_C(1048576)   /* of a unit */
#define NONE (PARTS / 1024)       /* so little is as good as nothing: else no counter would end */
#define MOST UINT64_C(1000000000) /* units */
#define COUNTED_MAX                                                                                \
    (4 * MOST * PARTS) /* limits that follow signals have up to four times as many */
#define DAY_NS (INT64_C(86400) * 1000000000)

static double share_after(const struct ration_terms *terms, int64_t ns)
{
    return exp2(-(double)ns / (double)terms->period_ns);
}

static uint64_t counted_after(const struct ration_terms *terms, uint64_t counted, int64_t ns)
{
    uint64_t rest = (uint64_t)ceil((double)counted * share_after(terms, ns));

    return rest > NONE ? rest : 0;
}

/* The first time at which no more than `least` counts. A logarithm tells it to a few nanoseconds.
 */
static int64_t time_until(const struct ration_terms *terms, uint64_t counted, uint64_t least)
{
    if (counted <= least)
        return 0;
    int64_t ns = (int64_t)(log2((double)counted / (double)least) * (double)terms->period_ns);

    while (counted_after(terms, counted, ns) > least)
        ns++;
    while (ns > 0 && counted_after(terms, counted, ns - 1) <= least)
        ns--;
    return ns;
}

static uint64_t read_counted(const void *state)
{
    uint64_t counted;

    memcpy(&counted, state, sizeof counted);
    return counted < COUNTED_MAX ? counted : COUNTED_MAX;
}

static void take(const void *arg, const struct ration_terms *terms, void *state,
                 struct ration_attempt *a)
{
    uint64_t counted = read_counted(state), room = terms->capacity * PARTS + NONE,
             cost = a->cost * PARTS;
    uint64_t now = counted_after(terms, counted, a->elapsed_ns);
    int64_t since_ns = a->elapsed_ns; /* of `counted` */

    (void)arg;
    a->admitted = cost == 0 || now + cost <= room;
    if (a->admitted && cost != 0) {
        counted = now = now + cost;
        since_ns = 0;
        memcpy(state, &counted, sizeof counted);
    }
    a->remaining = now < room ? (room - now) / PARTS : 0;
    a->retry_after_ns = a->admitted ? 0 : time_until(terms, counted, room - cost) - since_ns;
    a->reset_after_ns = now != 0 ? time_until(terms, counted, NONE) - since_ns : 0;
}

/* A charge fades like all others, so that what is left of it is known: just that goes. */
static bool give_back(const void *arg, const struct ration_terms *terms, void *state,
                      int64_t elapsed_ns, uint64_t units, int64_t age_ns)
{
    uint64_t now = counted_after(terms, read_counted(state), elapsed_ns);
    uint64_t left = (uint64_t)((double)(units * PARTS) * share_after(terms, age_ns));

    (void)arg;
    if (left <= NONE || now == 0) /* it may have been dropped */
        return false;
    if (age_ns != 0)
        left--; /* two shares multiplied differ from one of both times in the last bit */
    now = now > left ? now - left : 0;
    memcpy(state, &now, sizeof now);
    return true;
}

static const char *check(const void *arg, const struct ration_terms *terms, int64_t *longest_ns)
{
    (void)arg;
    if (terms->capacity > MOST)
        return "more than 1,000,000,000 units that decay; write fewer";
    if (terms->period_ns > 30 * DAY_NS)
        return "a counter that takes more than 30 days to decay by half; write a shorter period";
    *longest_ns = time_until(terms, terms->capacity * PARTS + NONE, NONE);
    return NULL;
}

const struct ration_own_algorithm decay = {
    .size = sizeof decay,
    .name = "decay",
    .state_bytes = 8,
    .check = check,
    .take = take,
    .give_back = give_back,
};
