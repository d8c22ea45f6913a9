/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of decisions and rules. Labels are the names of rules, so a rules file bounds the
 * number of series and no client can add one. Values of descriptors (limiter/value_stats.h)
 * are an exception; each rule has a bounded number of them.
 */
#include <stdlib.h>

#include <ration/wait.h>

#include "front/admin/admin_internal.h"
#include "limiter/rulebook/listing.h"
#include "limiter/value_stats.h"

/* Counters besides allowed and refused, for all decisions and for each rule. */
static const struct counter {
    size_t offset;                      /* in ration_totals */
    const char *total, *by_rule, *help; /* total NULL: for each rule only */
} counters[] = {
    {offsetof(struct ration_totals, shadowed), "ration_shadow_refusals_total",
     "ration_rule_shadow_refusals_total",
     "Decisions that would have been refusals but for shadow mode."},
    {offsetof(struct ration_totals, delayed), "ration_delays_total", "ration_rule_delays_total",
     "Admissions with a delay: queued or throttled."},
    {offsetof(struct ration_totals, shadow_delayed), "ration_shadow_delays_total",
     "ration_rule_shadow_delays_total",
     "Admissions that would have had a delay but for shadow mode."},
    {offsetof(struct ration_totals, soft), "ration_soft_admissions_total",
     "ration_rule_soft_admissions_total",
     "Admissions above the limit as written, within its soft part."},
    {offsetof(struct ration_totals, near), "ration_near_limit_total",
     "ration_rule_near_limit_total", "Admissions that left less than a fifth of the limit."},
    {offsetof(struct ration_totals, charged), "ration_charged_outcomes_total",
     "ration_rule_charged_outcomes_total",
     "Requests that were charged when their outcome was known."},
    {offsetof(struct ration_totals, uncollected), "ration_uncollected_units_total",
     "ration_rule_uncollected_units_total",
     "Units of late debits that no limit could hold: beyond one capacity below empty."},
    {offsetof(struct ration_totals, bans), "ration_bans_begun_total",
     "ration_rule_bans_begun_total", "Bans that rules with escalate have begun."},
    {offsetof(struct ration_totals, ban_refusals), "ration_ban_refusals_total",
     "ration_rule_ban_refusals_total", "Requests refused because a rule has banned the client."},
    {offsetof(struct ration_totals, lifted), "ration_bans_lifted_total",
     "ration_rule_bans_lifted_total", "Bans and counts of refusals that were lifted."},
    {offsetof(struct ration_totals, waited), NULL, "ration_rule_waited_total",
     "Requests that were admitted after they had waited in line."},
    {offsetof(struct ration_totals, wait_timeouts), NULL, "ration_rule_wait_timeouts_total",
     "Requests that were refused after they had waited in line."},
    {offsetof(struct ration_totals, errors), "ration_decision_errors_total",
     "ration_rule_errors_total", "Decisions that could not be made."},
};

static uint64_t total_at(const struct ration_totals *totals, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const char *)totals + offset, sizeof value);
    return value;
}

static void put_totals(struct rn_buf *out, struct ration *limiter)
{
    static const char name[] = "ration_decisions_total";
    struct ration_totals totals;

    ration_totals(limiter, &totals);
    rn_metrics_begin(out, name, RN_METRICS_COUNTER, "Decisions made, by what was decided.");
    rn_metrics_put(out, name, &RN_METRICS_LABEL("decision", RN_SLICE("allowed")), 1,
                   totals.allowed);
    rn_metrics_put(out, name, &RN_METRICS_LABEL("decision", RN_SLICE("refused")), 1,
                   totals.refused);
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        if (counters[i].total)
            rn_metrics_put_counter(out, counters[i].total, counters[i].help,
                                   total_at(&totals, counters[i].offset));
    rn_metrics_put_counter(out, "ration_unmatched_total",
                           "Admissions that no rule applied to: nothing limits such requests.",
                           totals.unmatched);
}

/* --- waiting in line ------------------------------------------------------------------------- */

static void put_waiting(struct rn_buf *out, const struct ration *limiter)
{
    static const char waited[] = "ration_waited_total", refused[] = "ration_wait_refused_total",
                      times[] = "ration_wait_seconds";
    static const char *const bounds[RATION_WAIT_BUCKETS] = {
        "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"};
    struct ration_waiting_totals t;

    ration_waiting_totals(limiter, &t);
    rn_metrics_put_gauge(out, "ration_waiting", "Requests that wait in line now.", t.waiting);
    rn_metrics_put_gauge(out, "ration_waiting_capacity", "Requests that may wait at once.", t.most);
    rn_metrics_put_gauge(out, "ration_waiting_lines", "Lines in which requests wait.", t.lines);
    rn_metrics_begin(out, waited, RN_METRICS_COUNTER,
                     "Requests that have waited in line, by what became of them.");
    rn_metrics_put(out, waited, &RN_METRICS_LABEL("result", RN_SLICE("admitted")), 1, t.admitted);
    rn_metrics_put(out, waited, &RN_METRICS_LABEL("result", RN_SLICE("left")), 1, t.left);
    rn_metrics_put(out, waited, &RN_METRICS_LABEL("result", RN_SLICE("timed_out")), 1, t.timed_out);
    rn_metrics_begin(out, refused, RN_METRICS_COUNTER,
                     "Requests that would have waited and were refused on arrival, by reason.");
    rn_metrics_put(out, refused, &RN_METRICS_LABEL("reason", RN_SLICE("full")), 1, t.refused_full);
    rn_metrics_put(out, refused, &RN_METRICS_LABEL("reason", RN_SLICE("late")), 1, t.refused_late);
    rn_metrics_begin(out, times, RN_METRICS_HISTOGRAM,
                     "How long requests stood in line that were admitted or refused in the end.");
    rn_metrics_put_times(
        out, times, NULL, 0,
        &(struct rn_metrics_times){bounds, t.times, RATION_WAIT_BUCKETS, t.time_sum_ns});
}

/* --- rules ------------------------------------------------------------------------------------ */

/* The rules are read once and written family by family. */
struct rows {
    struct rn_buf names; /* one behind the other */
    struct row {
        size_t name_at, name_len;
        struct ration_totals totals;
    } * items;
    size_t count, size;
    bool failed;
};

static int add_row(void *arg, const struct ration_rule_info *info)
{
    struct rows *rows = arg;

    if (rows->count == rows->size) {
        size_t size = rows->size ? 2 * rows->size : 64;
        struct row *items = realloc(rows->items, size * sizeof *items);

        if (!items)
            return rows->failed = true;
        rows->items = items;
        rows->size = size;
    }
    rows->items[rows->count++] = (struct row){
        .name_at = rows->names.len, .name_len = info->name_len, .totals = info->totals};
    rn_buf_put(&rows->names, info->name, info->name_len);
    return 0;
}

static struct rn_metrics_label rule_label(const struct rows *rows, size_t i)
{
    const struct row *row = &rows->items[i];

    return RN_METRICS_LABEL("rule",
                            ((struct rn_slice){rows->names.data + row->name_at, row->name_len}));
}

/* Two samples for each rule. */
static void put_by_decision(struct rn_buf *out, const struct rows *rows, const char *name,
                            const char *help, size_t allowed, size_t refused)
{
    rn_metrics_begin(out, name, RN_METRICS_COUNTER, help);
    for (size_t i = 0; i < rows->count; i++) {
        const struct ration_totals *totals = &rows->items[i].totals;
        struct rn_metrics_label labels[] = {rule_label(rows, i),
                                            RN_METRICS_LABEL("decision", RN_SLICE("allowed"))};

        rn_metrics_put(out, name, labels, 2, total_at(totals, allowed));
        labels[1].value = RN_SLICE("refused");
        rn_metrics_put(out, name, labels, 2, total_at(totals, refused));
    }
}

static void put_rows(struct rn_buf *out, const struct rows *rows)
{
    put_by_decision(out, rows, "ration_rule_decisions_total",
                    "Decisions in which a rule took part, by what the rule said.",
                    offsetof(struct ration_totals, allowed),
                    offsetof(struct ration_totals, refused));
    put_by_decision(out, rows, "ration_rule_hits_total",
                    "Units that requests asked a rule for, by what the rule said.",
                    offsetof(struct ration_totals, hits_allowed),
                    offsetof(struct ration_totals, hits_refused));
    for (size_t r = 0; r < sizeof counters / sizeof *counters; r++) {
        rn_metrics_begin(out, counters[r].by_rule, RN_METRICS_COUNTER, counters[r].help);
        for (size_t i = 0; i < rows->count; i++) {
            struct rn_metrics_label label = rule_label(rows, i);

            rn_metrics_put(out, counters[r].by_rule, &label, 1,
                           total_at(&rows->items[i].totals, counters[r].offset));
        }
    }
}

static const char rule_limit[] = "ration_rule_limit";

static const char rule_places[] = "ration_rule_places";

/* A sample for one limit of a rule. */
static void put_limit(struct rn_buf *out, const char *family, const struct ration_rule_info *info,
                      const struct ration_rule_limit *limit, uint64_t value)
{
    struct rn_metrics_label labels[] = {
        RN_METRICS_LABEL("rule", ((struct rn_slice){info->name, info->name_len})),
        RN_METRICS_LABEL("tier", rn_slice_of(limit->tier)),
        RN_METRICS_LABEL("limit", rn_slice_of(limit->text))};

    rn_metrics_put(out, family, labels, 3, value);
}

static int put_limits(void *arg, const struct ration_rule_info *info)
{
    for (uint32_t i = 0; i < info->listed; i++)
        if (info->limits[i].algorithm != RATION_UNLIMITED)
            put_limit(arg, rule_limit, info, &info->limits[i], info->limits[i].amount);
    return 0;
}

/* Of rules without a key only: others have a number for each client. */
static int put_places(void *arg, const struct ration_rule_info *info)
{
    for (uint32_t i = 0; i < info->listed && info->key[0] == '\0'; i++)
        if (info->limits[i].places != 0)
            put_limit(arg, rule_places, info, &info->limits[i], info->limits[i].places);
    return 0;
}

/* A family of counters by values of requests. */
struct value_family {
    struct rn_buf *out;
    const char *name;
    size_t allowed, refused; /* in rn_value_totals */
};

static void put_value(void *arg, struct rn_slice rule, struct rn_slice descriptor,
                      const struct rn_value_totals *totals)
{
    const struct value_family *f = arg;
    struct rn_metrics_label labels[] = {RN_METRICS_LABEL("rule", rule),
                                        RN_METRICS_LABEL("descriptor", descriptor),
                                        RN_METRICS_LABEL("decision", RN_SLICE("allowed"))};
    uint64_t allowed, refused;

    memcpy(&allowed, (const char *)totals + f->allowed, sizeof allowed);
    memcpy(&refused, (const char *)totals + f->refused, sizeof refused);
    rn_metrics_put(f->out, f->name, labels, 3, allowed);
    labels[2].value = RN_SLICE("refused");
    rn_metrics_put(f->out, f->name, labels, 3, refused);
}

static void put_values(struct rn_buf *out, struct ration *limiter)
{
    struct value_family decisions = {out, "ration_rule_value_decisions_total",
                                     offsetof(struct rn_value_totals, allowed),
                                     offsetof(struct rn_value_totals, refused)};
    struct value_family hits = {out, "ration_rule_value_hits_total",
                                offsetof(struct rn_value_totals, hits_allowed),
                                offsetof(struct rn_value_totals, hits_refused)};

    rn_metrics_begin(out, decisions.name, RN_METRICS_COUNTER,
                     "Decisions of rules with detailed_metric or value_to_metric, by descriptor.");
    rn_value_stats_each(limiter, put_value, &decisions);
    rn_metrics_begin(out, hits.name, RN_METRICS_COUNTER,
                     "Units of rules with detailed_metric or value_to_metric, by descriptor.");
    rn_value_stats_each(limiter, put_value, &hits);
}

void rn_admin_metrics_put_rules(struct rn_buf *out, struct rn_front *front, bool each)
{
    struct rows rows = {.count = 0};

    put_totals(out, front->limiter);
    put_waiting(out, front->limiter);
    rn_metrics_put_gauge(out, "ration_rules", "Rules in force.", rn_listing_count(front->limiter));
    if (!each)
        return;
    rn_metrics_begin(out, rule_limit, RN_METRICS_GAUGE,
                     "The amount of each limit as the rules have it, without its factor; of one "
                     "that is learnt, the most.");
    ration_rules_each(front->limiter, put_limits, out);
    rn_metrics_begin(out, rule_places, RN_METRICS_GAUGE,
                     "Places in force of each adaptive limit without a key, at its last decision.");
    ration_rules_each(front->limiter, put_places, out);
    ration_rules_each(front->limiter, add_row, &rows);
    if (rows.failed || rows.names.failed)
        out->failed = true;
    else
        put_rows(out, &rows);
    rn_buf_done(&rows.names);
    free(rows.items);
    put_values(out, front->limiter);
}
