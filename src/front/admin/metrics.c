/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of metrics. Labels are rules, listeners and words of ours, so a rules
 * file bounds the number of series, and no client can make one; but for values of descriptors
 * (limiter/value_stats.h), of which a rule tells so many and no more. docs/metrics.md
 * lists what is here.
 */
#include <stdlib.h>

#include <ration/clients.h>

#include "front/admin/admin_internal.h"
#include "front/admin/process_stats.h"
#include "limiter/value_stats.h"

#define NS_PER_SECOND 1e9
#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

static const char *const listeners[] = {"http", "resp", "grpc", "admin"};
static const char *const protocols[RN_FRONT_COUNT] = {[RN_FRONT_HTTP] = "http",
                                                      [RN_FRONT_RESP] = "resp",
                                                      [RN_FRONT_GRPC] = "grpc",
                                                      [RN_FRONT_ADMIN] = "admin"};

#define LABEL(name_, text_)                                                                        \
    (struct rn_metrics_label)                                                                      \
    {                                                                                              \
        .name = (name_), .value = (text_)                                                          \
    }

/* A family of one sample. */
static void put_gauge(struct rn_buf *out, const char *name, const char *help, uint64_t value)
{
    rn_metrics_begin(out, name, RN_METRICS_GAUGE, help);
    rn_metrics_put(out, name, NULL, 0, value);
}

static void put_counter(struct rn_buf *out, const char *name, const char *help, uint64_t value)
{
    rn_metrics_begin(out, name, RN_METRICS_COUNTER, help);
    rn_metrics_put(out, name, NULL, 0, value);
}

static void put_number(struct rn_buf *out, const char *name, enum rn_metrics_type type,
                       const char *help, double value)
{
    rn_metrics_begin(out, name, type, help);
    rn_metrics_put_double(out, name, NULL, 0, value);
}

/* --- decisions ---------------------------------------------------------------------------- */

/* What is counted besides allowed and refused, in all and for each rule. */
static const struct remark {
    size_t offset; /* in ration_totals */
    const char *total, *by_rule, *help;
} remarks[] = {
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
    {offsetof(struct ration_totals, errors), "ration_decision_errors_total",
     "ration_rule_errors_total", "Decisions that could not be made."},
};

static uint64_t total_at(const struct ration_totals *totals, size_t offset)
{
    uint64_t value;

    memcpy(&value, (const char *)totals + offset, sizeof value);
    return value;
}

static void put_totals(struct rn_buf *out, struct rn_front *front)
{
    static const char name[] = "ration_decisions_total";
    struct ration_totals totals;

    ration_totals(front->limiter, &totals);
    rn_metrics_begin(out, name, RN_METRICS_COUNTER, "Decisions made, by what was decided.");
    rn_metrics_put(out, name, &LABEL("decision", RN_SLICE("allowed")), 1, totals.allowed);
    rn_metrics_put(out, name, &LABEL("decision", RN_SLICE("refused")), 1, totals.refused);
    for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
        put_counter(out, remarks[i].total, remarks[i].help, total_at(&totals, remarks[i].offset));
    put_counter(out, "ration_unmatched_total",
                "Admissions that no rule applied to: nothing limits such requests.",
                totals.unmatched);
}

/* The rules are asked once, and told family by family. */
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

    return LABEL("rule", ((struct rn_slice){rows->names.data + row->name_at, row->name_len}));
}

/* Two samples for each rule. */
static void put_by_decision(struct rn_buf *out, const struct rows *rows, const char *name,
                            const char *help, size_t allowed, size_t refused)
{
    rn_metrics_begin(out, name, RN_METRICS_COUNTER, help);
    for (size_t i = 0; i < rows->count; i++) {
        const struct ration_totals *totals = &rows->items[i].totals;
        struct rn_metrics_label labels[] = {rule_label(rows, i),
                                            LABEL("decision", RN_SLICE("allowed"))};

        rn_metrics_put(out, name, labels, 2, total_at(totals, allowed));
        labels[1].value = RN_SLICE("refused");
        rn_metrics_put(out, name, labels, 2, total_at(totals, refused));
    }
}

static void put_rows(struct rn_buf *out, const struct rows *rows)
{
    put_by_decision(out, rows, "ration_rule_decisions_total",
                    "Decisions in which a rule took part, by what the rule last_entry.",
                    offsetof(struct ration_totals, allowed),
                    offsetof(struct ration_totals, refused));
    put_by_decision(out, rows, "ration_rule_hits_total",
                    "Units that requests asked a rule for, by what the rule last_entry.",
                    offsetof(struct ration_totals, hits_allowed),
                    offsetof(struct ration_totals, hits_refused));
    for (size_t r = 0; r < sizeof remarks / sizeof *remarks; r++) {
        rn_metrics_begin(out, remarks[r].by_rule, RN_METRICS_COUNTER, remarks[r].help);
        for (size_t i = 0; i < rows->count; i++) {
            struct rn_metrics_label label = rule_label(rows, i);

            rn_metrics_put(out, remarks[r].by_rule, &label, 1,
                           total_at(&rows->items[i].totals, remarks[r].offset));
        }
    }
    put_gauge(out, "ration_rules", "Rules in force.", rows->count);
}

static const char rule_limit[] = "ration_rule_limit";

static int put_limits(void *arg, const struct ration_rule_info *info)
{
    for (uint32_t i = 0; i < info->listed; i++) {
        const struct ration_rule_limit *limit = &info->limits[i];
        struct rn_metrics_label labels[] = {
            LABEL("rule", ((struct rn_slice){info->name, info->name_len})),
            LABEL("tier", rn_slice_of(limit->tier)), LABEL("limit", rn_slice_of(limit->text))};

        if (limit->algorithm != RATION_UNLIMITED)
            rn_metrics_put(arg, rule_limit, labels, 3, limit->amount);
    }
    return 0;
}

/* A family of what is counted by values of requests. */
struct value_family {
    struct rn_buf *out;
    const char *name;
    size_t allowed, refused; /* in rn_value_totals */
};

static void put_value(void *arg, struct rn_slice rule, struct rn_slice descriptor,
                      const struct rn_value_totals *totals)
{
    const struct value_family *f = arg;
    struct rn_metrics_label labels[] = {LABEL("rule", rule), LABEL("descriptor", descriptor),
                                        LABEL("decision", RN_SLICE("allowed"))};
    uint64_t allowed, refused;

    memcpy(&allowed, (const char *)totals + f->allowed, sizeof allowed);
    memcpy(&refused, (const char *)totals + f->refused, sizeof refused);
    rn_metrics_put(f->out, f->name, labels, 3, allowed);
    labels[2].value = RN_SLICE("refused");
    rn_metrics_put(f->out, f->name, labels, 3, refused);
}

static void put_values(struct rn_buf *out, struct rn_front *front)
{
    struct value_family decisions = {out, "ration_rule_value_decisions_total",
                                     offsetof(struct rn_value_totals, allowed),
                                     offsetof(struct rn_value_totals, refused)};
    struct value_family hits = {out, "ration_rule_value_hits_total",
                                offsetof(struct rn_value_totals, hits_allowed),
                                offsetof(struct rn_value_totals, hits_refused)};

    rn_metrics_begin(out, decisions.name, RN_METRICS_COUNTER,
                     "Decisions of rules with detailed_metric or value_to_metric, by descriptor.");
    rn_value_stats_each(front->limiter, put_value, &decisions);
    rn_metrics_begin(out, hits.name, RN_METRICS_COUNTER,
                     "Units of rules with detailed_metric or value_to_metric, by descriptor.");
    rn_value_stats_each(front->limiter, put_value, &hits);
}

static void put_rules(struct rn_buf *out, struct rn_front *front)
{
    struct rows rows = {.count = 0};

    rn_metrics_begin(out, rule_limit, RN_METRICS_GAUGE,
                     "The amount of each limit in force, as the rules have it.");
    ration_rules_each(front->limiter, put_limits, out);

    ration_rules_each(front->limiter, add_row, &rows);
    if (rows.failed || rows.names.failed)
        out->failed = true;
    else
        put_rows(out, &rows);
    rn_buf_done(&rows.names);
    free(rows.items);
}

/* --- reloads -------------------------------------------------------------------------------- */

#define TEAM_KEPT "ration_rules_team_kept"

static void put_reload(struct rn_buf *out, const char *name, const char *source, uint64_t attempts,
                       uint64_t failed)
{
    struct rn_metrics_label labels[] = {LABEL("source", rn_slice_of(source)),
                                        LABEL("result", RN_SLICE("success"))};

    rn_metrics_put(out, name, labels, 2, attempts - failed);
    labels[1].value = RN_SLICE("failure");
    rn_metrics_put(out, name, labels, 2, failed);
}

static int put_team(void *arg, const struct ration_team_info *info)
{
    const struct rn_metrics_label team =
        LABEL("team", ((struct rn_slice){info->name, info->name_len}));

    rn_metrics_put(arg, TEAM_KEPT, &team, 1, info->kept);
    return 0;
}

static void put_reloads(struct rn_buf *out, const struct rn_front *front)
{
    static const char name[] = "ration_rules_reloads_total";

    rn_metrics_begin(out, name, RN_METRICS_COUNTER,
                     "Attempts to replace the rules, by where they came from and what became of "
                     "it.");
    put_reload(out, name, "files", front->reloads, front->reloads_failed);
    put_reload(out, name, "api", front->puts, front->puts_failed);
    put_gauge(out, "ration_rules_version", "How often rules have been put in place.",
              ration_rules_version(front->limiter));
    put_number(out, "ration_rules_loaded_timestamp_seconds", RN_METRICS_GAUGE,
               "When the rules in force were put in place, as Unix time.",
               (double)front->rules_loaded_ns / NS_PER_SECOND);
    put_gauge(out, "ration_rules_last_reload_successful",
              "Whether the last attempt to read the rules files was successful.",
              !front->reload_failed);
    rn_metrics_begin(out, TEAM_KEPT, RN_METRICS_GAUGE,
                     "Whether errors in a team's files leave its former rules in force.");
    ration_teams_each(front->limiter, put_team, out);
    put_gauge(out, "ration_shadow_mode", "Whether the whole service was put into shadow mode.",
              ration_shadow(front->limiter));
}

/* --- conversations ---------------------------------------------------------------------------- */

/* The sum of one counter over all loops. */
static uint64_t sum(const struct rn_front *front, size_t offset)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < front->loop_count; i++)
        total += __atomic_load_n(
            (const uint64_t *)(const void *)((const char *)&front->loops[i].counts + offset),
            __ATOMIC_RELAXED);
    return total;
}

/* A counter of each protocol: `offset` is that of the first. */
static void put_by_protocol(struct rn_buf *out, const struct rn_front *front, const char *name,
                            const char *help, size_t offset)
{
    rn_metrics_begin(out, name, RN_METRICS_COUNTER, help);
    for (size_t p = 0; p < RN_FRONT_COUNT; p++)
        rn_metrics_put(out, name, &LABEL("protocol", rn_slice_of(protocols[p])), 1,
                       sum(front, offset + p * sizeof(uint64_t)));
}

static void put_latency(struct rn_buf *out, const struct rn_front *front)
{
    static const char name[] = "ration_request_duration_seconds";

    rn_metrics_begin(out, name, RN_METRICS_HISTOGRAM,
                     "From the arrival of a request to its answer, without what it was held for.");
    for (size_t p = 0; p < RN_FRONT_COUNT; p++) {
        struct rn_histogram total = {.sum_ns = 0};

        for (unsigned i = 0; i < front->loop_count; i++)
            rn_metrics_histogram_merge(&total, &front->loops[i].counts.latency[p]);
        rn_metrics_put_histogram(out, name, &LABEL("protocol", rn_slice_of(protocols[p])), 1,
                                 &total);
    }
}

static void put_conversations(struct rn_buf *out, const struct rn_front *front)
{
    put_by_protocol(out, front, "ration_requests_total", "Requests answered.",
                    offsetof(struct rn_front_counts, requests));
    put_by_protocol(out, front, "ration_bad_requests_total",
                    "Requests that were answered with an error.",
                    offsetof(struct rn_front_counts, bad));
    put_by_protocol(out, front, "ration_failed_requests_total",
                    "Requests answered with an error because no decision could be made.",
                    offsetof(struct rn_front_counts, failed));
    put_latency(out, front);
    put_counter(out, "ration_held_replies_total", "Replies that were held until their turn.",
                sum(front, offsetof(struct rn_front_counts, delayed)));
    put_by_protocol(out, front, "ration_wrong_tokens_total",
                    "Wrong tokens, and those refused without a look after too many.",
                    offsetof(struct rn_front_counts, wrong_tokens));
    put_counter(out, "ration_resp_http_total",
                "Connections to the RESP port that were closed for speaking HTTP.",
                sum(front, offsetof(struct rn_front_counts, resp_http)));
}

/* --- connections --------------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    enum rn_metrics_type type;
    const char *help;
    size_t offset; /* in rn_server_counts */
} connection_families[] = {
    {"ration_connections", RN_METRICS_GAUGE, "Connections that are open.",
     offsetof(struct rn_server_counts, open)},
    {"ration_connections_accepted_total", RN_METRICS_COUNTER, "Connections accepted.",
     offsetof(struct rn_server_counts, accepted)},
    {"ration_connections_refused_total", RN_METRICS_COUNTER,
     "Connections closed at once for being more than allowed.",
     offsetof(struct rn_server_counts, refused)},
    {"ration_connections_timed_out_total", RN_METRICS_COUNTER,
     "Connections closed for being too slow.", offsetof(struct rn_server_counts, timed_out)},
    {"ration_connections_overlong_total", RN_METRICS_COUNTER,
     "Connections closed for a request that was too large.",
     offsetof(struct rn_server_counts, too_long)},
    {"ration_connections_crowded_total", RN_METRICS_COUNTER,
     "Connections closed to make room for others: the quietest first.",
     offsetof(struct rn_server_counts, crowded)},
    {"ration_connections_swamped_total", RN_METRICS_COUNTER,
     "Connections closed because too much input was not complete: large messages first.",
     offsetof(struct rn_server_counts, swamped)},
    {"ration_received_bytes_total", RN_METRICS_COUNTER, "Bytes received.",
     offsetof(struct rn_server_counts, bytes_in)},
    {"ration_sent_bytes_total", RN_METRICS_COUNTER, "Bytes sent.",
     offsetof(struct rn_server_counts, bytes_out)},
};

static void put_connections(struct rn_buf *out, const struct rn_server *server)
{
    for (size_t f = 0; f < sizeof connection_families / sizeof *connection_families; f++) {
        const char *name = connection_families[f].name;

        rn_metrics_begin(out, name, connection_families[f].type, connection_families[f].help);
        for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++) {
            struct rn_server_counts counts;
            uint64_t value;

            if (!rn_server_address(server, listeners[i]))
                continue;
            rn_server_counts(server, listeners[i], &counts);
            memcpy(&value, (const char *)&counts + connection_families[f].offset, sizeof value);
            rn_metrics_put(out, name, &LABEL("listener", rn_slice_of(listeners[i])), 1, value);
        }
    }
}

/* --- the rest ------------------------------------------------------------------------------------
 */

static void put_memory(struct rn_buf *out, struct rn_front *front)
{
    const struct ration_memory *memory = rn_front_memory(front);

    put_gauge(out, "ration_memory_bytes", "Size of the table that holds all counters.",
              memory->bytes);
    put_gauge(out, "ration_slots", "Places for keys in the table.", memory->slots);
    put_gauge(out, "ration_capacity_keys",
              "Live keys that fit, of whichever rule in force, before any is forgotten.",
              memory->capacity);
    put_gauge(out, "ration_live_keys",
              "Keys with something spent, as counted in the last ten seconds.", memory->live);
    put_counter(out, "ration_evictions_total",
                "Keys with something spent that were forgotten for want of room.",
                memory->evictions);
    put_gauge(out, "ration_block_bytes", "Memory for states larger than a slot.",
              memory->block_bytes);
    put_gauge(out, "ration_block_used_bytes", "What of it is in use.", memory->block_bytes_used);
}

static void put_clients(struct rn_buf *out, struct rn_front *front)
{
    uint64_t overrides, bans;

    ration_clients_count(front->limiter, &overrides, &bans);
    put_gauge(out, "ration_overrides", "Overrides in force.", overrides);
    put_gauge(out, "ration_bans", "Bans in force.", bans);
}

static void put_process(struct rn_buf *out, const struct rn_front *front)
{
    static const char info[] = "ration_build_info";
    struct rn_process process;

    rn_process_stats_read(&process);
    rn_metrics_begin(out, info, RN_METRICS_GAUGE, "The version, as a label; always 1.");
    rn_metrics_put(out, info, &LABEL("version", rn_slice_of(ration_version())), 1, 1);
    put_gauge(out, "ration_workers", "Threads that answer requests.",
              rn_server_workers(front->server));
    put_number(out, "process_start_time_seconds", RN_METRICS_GAUGE,
               "When the process started, as Unix time.",
               (double)front->started_ns / NS_PER_SECOND);
    put_number(out, "process_cpu_seconds_total", RN_METRICS_COUNTER,
               "CPU time that the process has used.", process.cpu_seconds);
    put_gauge(out, "process_resident_memory_bytes", "Memory of the process that is present.",
              process.resident_bytes);
    put_gauge(out, "process_virtual_memory_bytes", "Address space of the process.",
              process.virtual_bytes);
    put_gauge(out, "process_open_fds", "File descriptors that are open.", process.open_fds);
    put_gauge(out, "process_max_fds", "File descriptors that may be open.", process.max_fds);
}

void rn_admin_metrics(struct rn_http_context *c)
{
    struct rn_buf *out = &c->ws->scratch;

    rn_buf_clear(out);
    put_totals(out, c->front);
    put_rules(out, c->front);
    put_values(out, c->front);
    put_reloads(out, c->front);
    put_conversations(out, c->front);
    put_connections(out, c->front->server);
    put_gauge(out, "ration_unfinished_input_bytes",
              "Bytes of requests that are not complete, of all connections.",
              rn_server_unfinished(c->front->server));
    put_memory(out, c->front);
    put_clients(out, c->front);
    if (c->front->store.arg)
        c->front->store.put_metrics(c->front->store.arg, out);
    if (c->front->fleet.put_metrics)
        c->front->fleet.put_metrics(c->front->fleet.arg, out);
    put_process(out, c->front);
    if (out->failed) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    rn_http_put_status(c->out, 200);
    rn_http_put_body(c->out, c->keep_alive, c->head, CONTENT_TYPE, rn_buf_slice(out));
}
