/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles limits, with their soft part and the calendar that ends their windows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/calendar.h"
#include "rules/builder.h"

/* The capacity of a limit, as core/limit.c computes it. */
static uint64_t capacity_of(const struct ration_limit *spec)
{
    if (spec->amount == 0)
        return 0;
    if (spec->algorithm == RATION_LEAKY_BUCKET)
        return spec->queue + 1;
    return spec->burst != 0 ? spec->burst : spec->amount; /* only a few algorithms have one */
}

/* The calendar of a unit and zone, which all its limits share; its boundaries are copied into the
 * arena. NULL: *fault says why, or memory ran out. */
static const struct rn_calendar *find_calendar(struct rn_builder *builder,
                                               const struct ration_limit *spec, uint64_t id,
                                               const char **fault)
{
    struct rn_calendar *const *calendars = builder->calendars.items;
    const uint64_t *ids = builder->calendar_ids.items;
    struct ration_error error = {.text = ""};
    int64_t *ends = NULL, *copy = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < builder->calendar_ids.count; i++)
        if (ids[i] == id)
            return calendars[i];
    int failed = rn_calendar_load(spec->zone, spec->calendar, &ends, &count, &error);

    if (failed == RATION_ENOMEM) {
        builder->failed = true;
    } else if (failed) {
        snprintf(builder->fault, sizeof builder->fault, "%s", error.text);
        *fault = builder->fault;
    }
    if (failed)
        return NULL;
    struct rn_calendar *calendar = rn_builder_alloc(builder, 1, sizeof *calendar);
    struct rn_calendar **slot = rn_builder_push(builder, &builder->calendars, sizeof calendar);

    uint64_t *id_slot = rn_builder_push(builder, &builder->calendar_ids, sizeof id);

    copy = rn_builder_alloc(builder, count, sizeof *copy);
    if (copy != NULL && count != 0)
        memcpy(copy, ends, count * sizeof *copy);
    free(ends);
    if (calendar == NULL || slot == NULL || id_slot == NULL || copy == NULL)
        return NULL;
    *id_slot = id;
    *calendar = (struct rn_calendar){.ends = copy, .count = count};
    return *slot = calendar;
}

const struct rn_calendar *rn_builder_calendar(struct rn_builder *builder, enum ration_calendar unit,
                                              struct rn_slice zone, const char **fault)
{
    struct ration_limit spec = {.algorithm = RATION_FIXED_WINDOW, .amount = 1, .calendar = unit};
    struct rn_limit compiled;

    rn_slice_copy(spec.zone, sizeof spec.zone, zone);
    spec.period_ns = rn_limit_period(&spec);
    rn_limit_init(&compiled, &spec);
    return find_calendar(builder, &spec, compiled.calendar_id, fault);
}

/* The limit with its soft part of `units`. A bucket refills faster by the same share, so that it
 * still takes as long to fill; one that is refilled in steps keeps them as written. */
static struct ration_limit soften(const struct ration_limit *spec, uint64_t units, uint64_t percent)
{
    struct ration_limit soft = *spec;

    if (units == 0)
        return soft;
    if (spec->algorithm == RATION_TOKEN_BUCKET || spec->burst != 0)
        soft.burst = capacity_of(spec) + units;
    if (spec->own && spec->burst != 0)
        soft.amount += (spec->amount * percent + 99) / 100;
    else if (spec->algorithm != RATION_TOKEN_BUCKET)
        *(spec->algorithm == RATION_LEAKY_BUCKET ? &soft.queue : &soft.amount) += units;
    if ((spec->algorithm == RATION_TOKEN_BUCKET || spec->algorithm == RATION_LEAKY_BUCKET) &&
        spec->step_ns == 0) {
        uint64_t share = 100 + percent, whole = (uint64_t)spec->period_ns / share,
                 rest = (uint64_t)spec->period_ns % share;

        soft.period_ns = (int64_t)(whole * 100 + (rest * 100 + share - 1) / share);
    }
    return soft;
}

struct rn_rule_limit *rn_builder_limit(struct rn_builder *builder, const struct rn_rule *rule,
                                       const struct ration_limit *spec, const char **fault)
{
    uint64_t units =
        spec->adaptive_min != 0 ? 0 : (capacity_of(spec) * rule->soft_percent + 99) / 100;
    struct ration_limit soft = soften(spec, units, rule->soft_percent);
    struct rn_limit compiled;

    *fault = rn_limit_fault(spec);
    if (rule->by_outcome && /* these charge before the outcome is known */
        (spec->algorithm == RATION_LEAKY_BUCKET || spec->algorithm == RATION_CONCURRENCY))
        *fault = "charge_on is for limits that are spent, not for queues and places; write for "
                 "example 5 per minute";
    if (*fault == NULL && rn_limit_fault(&soft) != NULL) {
        snprintf(builder->fault, sizeof builder->fault, "with the soft part, %s",
                 rn_limit_fault(&soft));
        *fault = builder->fault;
    }
    if (*fault != NULL)
        return NULL;
    rn_limit_init(&compiled, &soft);
    if (compiled.calendar_id != 0) {
        const struct rn_calendar *calendar =
            find_calendar(builder, spec, compiled.calendar_id, fault);

        if (calendar == NULL)
            return NULL;
        rn_limit_set_calendar(&compiled, calendar);
    }
    struct rn_rule_limit *limit = rn_builder_alloc(builder, 1, sizeof *limit);
    struct rn_rule_limit **slot = rn_builder_push(builder, &builder->limits, sizeof limit);
    if (limit == NULL || slot == NULL)
        return NULL;
    *limit = (struct rn_rule_limit){
        .spec = *spec, .limit = compiled, .soft_units = units, .id = builder->limits.count - 1};
    *slot = limit;
    return rn_builder_refer(builder, rule, &limit->rule) ? limit : NULL;
}
