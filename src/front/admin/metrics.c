/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of metrics for Prometheus. docs/metrics.md lists what is here.
 */
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <ration/clients.h>
#include <ration/pause.h>

#include "front/admin/admin_internal.h"
#include "front/admin/query.h"

#define NS_PER_SECOND 1e9
#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

static const char *const protocols[RN_FRONT_COUNT] = {[RN_FRONT_HTTP] = "http",
                                                      [RN_FRONT_RESP] = "resp",
                                                      [RN_FRONT_GRPC] = "grpc",
                                                      [RN_FRONT_ADMIN] = "admin"};

/* --- reloads -------------------------------------------------------------------------------- */

#define TEAM_KEPT "ration_rules_team_kept"

static void put_reload(struct rn_buf *out, const char *name, const char *source, uint64_t attempts,
                       uint64_t failed)
{
    struct rn_metrics_label labels[] = {RN_METRICS_LABEL("source", rn_slice_of(source)),
                                        RN_METRICS_LABEL("result", RN_SLICE("success"))};

    rn_metrics_put(out, name, labels, 2, attempts - failed);
    labels[1].value = RN_SLICE("failure");
    rn_metrics_put(out, name, labels, 2, failed);
}

static int put_team(void *arg, const struct ration_team_info *info)
{
    const struct rn_metrics_label team =
        RN_METRICS_LABEL("team", ((struct rn_slice){info->name, info->name_len}));

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
    rn_metrics_put_gauge(out, "ration_rules_version", "How often rules have been put in place.",
                         ration_rules_version(front->limiter));
    rn_metrics_put_number(out, "ration_rules_loaded_timestamp_seconds", RN_METRICS_GAUGE,
                          "When the rules in force were put in place, as Unix time.",
                          (double)front->rules_loaded_ns / NS_PER_SECOND);
    rn_metrics_put_gauge(out, "ration_rules_last_reload_successful",
                         "Whether the last attempt to read the rules files was successful.",
                         !front->reload_failed);
    rn_metrics_begin(out, TEAM_KEPT, RN_METRICS_GAUGE,
                     "Whether errors in a team's files leave its former rules in force.");
    ration_teams_each(front->limiter, put_team, out);
    rn_metrics_put_gauge(out, "ration_shadow_mode",
                         "Whether the whole service was put into shadow mode.",
                         ration_shadow(front->limiter));
}

/* --- databases ------------------------------------------------------------------------------ */

/* One metric of every database. */
struct database_metric {
    struct rn_buf *out;
    const char *name;
    uint64_t (*of)(const struct ration_database *database);
};

static uint64_t built(const struct ration_database *database)
{
    return database->built_s;
}

static uint64_t networks(const struct ration_database *database)
{
    return database->networks;
}

static uint64_t loads(const struct ration_database *database)
{
    return database->loads;
}

static uint64_t failures(const struct ration_database *database)
{
    return database->failures;
}

static uint64_t is_current(const struct ration_database *database)
{
    return database->problem[0] == '\0';
}

static int put_database(void *arg, const struct ration_database *database)
{
    const struct database_metric *metric = arg;
    const struct rn_metrics_label label = RN_METRICS_LABEL("database", rn_slice_of(database->path));

    rn_metrics_put(metric->out, metric->name, &label, 1, metric->of(database));
    return 0;
}

static void put_databases(struct rn_buf *out, const struct rn_front *front)
{
    static const struct {
        const char *name;
        enum rn_metrics_type type;
        uint64_t (*of)(const struct ration_database *database);
        const char *help;
    } metrics[] = {
        {"ration_database_built_timestamp_seconds", RN_METRICS_GAUGE, built,
         "When the database in use was made, as Unix time."},
        {"ration_database_networks", RN_METRICS_GAUGE, networks,
         "Networks in the database in use."},
        {"ration_database_loads_total", RN_METRICS_COUNTER, loads,
         "How often the file of a database was put in use."},
        {"ration_database_failures_total", RN_METRICS_COUNTER, failures,
         "How often the file of a database had changed and could not be used."},
        {"ration_database_current", RN_METRICS_GAUGE, is_current,
         "Whether the file of now is in use: 0 while it is damaged or missing."},
    };

    for (size_t i = 0; i < RN_COUNT(metrics); i++) {
        struct database_metric metric = {out, metrics[i].name, metrics[i].of};

        rn_metrics_begin(out, metrics[i].name, metrics[i].type, metrics[i].help);
        ration_databases_each(front->limiter, put_database, &metric);
    }
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
        rn_metrics_put(out, name, &RN_METRICS_LABEL("protocol", rn_slice_of(protocols[p])), 1,
                       sum(front, offset + p * sizeof(uint64_t)));
}

static void put_conversations(struct rn_buf *out, const struct rn_front *front)
{
    static const char name[] = "ration_request_duration_seconds";

    put_by_protocol(out, front, "ration_requests_total", "Requests answered.",
                    offsetof(struct rn_front_counts, requests));
    put_by_protocol(out, front, "ration_bad_requests_total",
                    "Requests that were answered with an error.",
                    offsetof(struct rn_front_counts, bad));
    put_by_protocol(out, front, "ration_failed_requests_total",
                    "Requests answered with an error because no decision could be made.",
                    offsetof(struct rn_front_counts, failed));
    rn_metrics_begin(out, name, RN_METRICS_HISTOGRAM,
                     "From the arrival of a request to its answer, without what it was held for.");
    for (size_t p = 0; p < RN_FRONT_COUNT; p++) {
        struct rn_histogram total = {.sum_ns = 0};

        for (unsigned i = 0; i < front->loop_count; i++)
            rn_metrics_histogram_merge(&total, &front->loops[i].counts.latency[p]);
        rn_metrics_put_histogram(
            out, name, &RN_METRICS_LABEL("protocol", rn_slice_of(protocols[p])), 1, &total);
    }
    rn_metrics_put_counter(out, "ration_held_replies_total",
                           "Replies that were held: for a turn in line, or for a delay.",
                           sum(front, offsetof(struct rn_front_counts, delayed)));
    put_by_protocol(out, front, "ration_wrong_tokens_total",
                    "Wrong tokens, and those refused without a look after too many.",
                    offsetof(struct rn_front_counts, wrong_tokens));
    rn_metrics_put_counter(out, "ration_resp_http_total",
                           "Connections to the RESP port that were closed for speaking HTTP.",
                           sum(front, offsetof(struct rn_front_counts, resp_http)));
}

/* --- connections ---------------------------------------------------------------------------- */

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
        for (size_t i = 0; i < RN_FRONT_COUNT; i++) {
            struct rn_server_counts counts;
            uint64_t value;

            if (!rn_server_address(server, protocols[i]))
                continue;
            rn_server_counts(server, protocols[i], &counts);
            memcpy(&value, (const char *)&counts + connection_families[f].offset, sizeof value);
            rn_metrics_put(out, name, &RN_METRICS_LABEL("listener", rn_slice_of(protocols[i])), 1,
                           value);
        }
    }
    rn_metrics_put_gauge(out, "ration_unfinished_input_bytes",
                         "Bytes of requests that are not complete, of all connections.",
                         rn_server_unfinished(server));
}

/* --- the process ---------------------------------------------------------------------------- */

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static uint64_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;

    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - (count != 0); /* without the folder's */
}

/* What the system says about the process. Values that it does not give are 0. */
static void put_process(struct rn_buf *out)
{
    unsigned long long pages = 0, resident = 0;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    struct rlimit limit = {0};
    struct rusage usage = {0};

    if (file) {
        if (fscanf(file, "%llu %llu", &pages, &resident) != 2)
            pages = resident = 0;
        fclose(file);
    }
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    rn_metrics_put_number(out, "process_cpu_seconds_total", RN_METRICS_COUNTER,
                          "CPU time that the process has used.",
                          seconds(usage.ru_utime) + seconds(usage.ru_stime));
    rn_metrics_put_gauge(out, "process_resident_memory_bytes",
                         "Memory of the process that is present.", resident * page_bytes);
    rn_metrics_put_gauge(out, "process_virtual_memory_bytes", "Address space of the process.",
                         pages * page_bytes);
    rn_metrics_put_gauge(out, "process_open_fds", "File descriptors that are open.",
                         count_descriptors());
    rn_metrics_put_gauge(out, "process_max_fds", "File descriptors that may be open.",
                         limit.rlim_cur);
}

/* --- the page ------------------------------------------------------------------------------ */

static void put_memory(struct rn_buf *out, struct rn_front *front)
{
    const struct ration_memory *memory = rn_front_memory(front, RN_FRONT_MEMORY_ASKED);

    rn_metrics_put_gauge(out, "ration_memory_bytes", "Size of the table that holds all counters.",
                         memory->bytes);
    rn_metrics_put_gauge(out, "ration_slots", "Places for keys in the table.", memory->slots);
    rn_metrics_put_gauge(out, "ration_capacity_keys",
                         "Live keys that fit, of whichever rule in force, before any is forgotten.",
                         memory->capacity);
    rn_metrics_put_gauge(out, "ration_live_keys",
                         "Keys with something spent, as counted in the last ten seconds.",
                         memory->live);
    rn_metrics_put_counter(
        out, "ration_evictions_total",
        "Keys with something spent that were forgotten because the table was full.",
        memory->evictions);
    rn_metrics_put_gauge(out, "ration_block_bytes", "Memory for states larger than a slot.",
                         memory->block_bytes);
    rn_metrics_put_gauge(out, "ration_block_used_bytes", "What of it is in use.",
                         memory->block_bytes_used);
}

static void put_pauses(struct rn_buf *out, struct ration *r)
{
    struct ration_pause_totals totals;

    ration_pause_totals(r, RATION_NOW, &totals);
    rn_metrics_put_counter(out, "ration_pauses_total", "Pauses that were begun or prolonged here.",
                           totals.begun);
    rn_metrics_put_counter(out, "ration_pauses_lifted_total", "Pauses that were lifted here.",
                           totals.lifted);
    rn_metrics_put_counter(out, "ration_pause_refusals_total",
                           "Requests refused because their key or client is paused.",
                           totals.refused);
    rn_metrics_put_number(out, "ration_pause_rest_seconds", RN_METRICS_GAUGE,
                          "Until the last pause in force ends, at most; 0: nothing is paused.",
                          (double)totals.last_ends_ns / NS_PER_SECOND);
}

void rn_admin_metrics(struct rn_http_context *c)
{
    static const char info[] = "ration_build_info";
    struct rn_front *front = c->front;
    struct rn_buf *out = &c->ws->scratch;
    static const char *const choices[] = {"none"};
    struct rn_query_field fields[] = {{.name = "rules"}};
    uint64_t overrides, bans;
    size_t choice = 0;

    if (!rn_query_read(c, fields, 1) || !rn_query_choose(c, &fields[0], choices, 1, &choice))
        return;
    rn_buf_clear(out);
    rn_admin_metrics_put_rules(out, front, !fields[0].given);
    rn_admin_metrics_put_signals(out, front, !fields[0].given);
    rn_admin_metrics_put_reputation(out, front);
    put_reloads(out, front);
    put_databases(out, front);
    put_conversations(out, front);
    put_connections(out, front->server);
    put_memory(out, front);
    rn_admin_metrics_put_live(out, front);
    ration_clients_count(front->limiter, &overrides, &bans);
    rn_metrics_put_gauge(out, "ration_overrides", "Overrides in force.", overrides);
    rn_metrics_put_gauge(out, "ration_bans", "Bans in force.", bans);
    put_pauses(out, front->limiter);
    rn_admin_metrics_put_usage(out, front);
    if (front->store.arg)
        front->store.put_metrics(front->store.arg, out);
    if (front->fleet.put_metrics)
        front->fleet.put_metrics(front->fleet.arg, out);
    rn_metrics_begin(out, info, RN_METRICS_GAUGE, "The version, as a label; always 1.");
    rn_metrics_put(out, info, &RN_METRICS_LABEL("version", rn_slice_of(ration_version())), 1, 1);
    rn_metrics_put_gauge(out, "ration_workers", "Threads that answer requests.",
                         rn_server_workers(front->server));
    rn_metrics_put_number(out, "process_start_time_seconds", RN_METRICS_GAUGE,
                          "When the process started, as Unix time.",
                          (double)front->started_ns / NS_PER_SECOND);
    put_process(out);
    if (out->failed) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    rn_http_put_status(c->out, 200);
    rn_http_put_body(c->out, c->keep_alive, c->head, CONTENT_TYPE, rn_buf_slice(out));
}
