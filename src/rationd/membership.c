/* SPDX-License-Identifier: Apache-2.0 */
#include "rationd/membership.h"

#include "base/clock.h"
#include "net/log.h"
#include "wire/metrics.h"

/* --- rules ------------------------------------------------------------------------------- */

static int use_rules(void *arg, struct rn_slice text)
{
    struct rn_front *front = ((struct rn_membership *)arg)->front;
    struct rn_author author = {.by = RN_SLICE("fleet")};
    struct ration_report *report = NULL;
    int code = text.data ? rn_front_put_rules(front, NULL, text, author, &report)
                         : front->daemon.reload(front->daemon.arg, author, &report);

    if (code == 0)
        rn_front_note_rules(front, author, RN_VERSION_OTHER_NODE, 0);
    rn_front_log_report(report);
    ration_report_free(report);
    return code;
}

bool rn_membership_has_rules(const struct rn_membership *membership)
{
    return membership->fleet ? rn_fleet_rules(membership->fleet).len != 0
                             : membership->kept.len != 0;
}

/* --- between the front and the fleet -------------------------------------------------------- */

static bool is_busy(void *arg)
{
    const struct rn_membership *membership = arg;

    return rn_await_control_is_busy(membership->front);
}

static void on_changed(void *arg)
{
    rn_fleet_changed(((struct rn_membership *)arg)->fleet);
}

static bool on_rules_changed(void *arg, struct rn_slice text)
{
    rn_fleet_rules_changed(((struct rn_membership *)arg)->fleet, text);
    return true; /* Redis has them */
}

static bool on_rules_kept(void *arg, struct rn_slice text)
{
    struct rn_membership *membership = arg;
    bool saved =
        rn_rules_file_save(membership->rules_path, text, rn_clock_read_ns(CLOCK_REALTIME) / 1000);

    if (saved || text.len != 0) { /* if the file cannot be deleted, its rules stay in force */
        rn_buf_clear(&membership->kept);
        rn_buf_put_slice(&membership->kept, text);
    }
    return saved;
}

static bool asked(void *arg, struct rn_slice rule, struct rn_front_asked *out)
{
    const struct rn_fleet_asked *rules;
    size_t count = rn_fleet_factors(((struct rn_membership *)arg)->fleet, &rules);

    for (size_t i = 0; i < count; i++)
        if (rn_slice_is(rule, rules[i].rule)) {
            *out = (struct rn_front_asked){rules[i].percent, rules[i].who};
            return true;
        }
    return false;
}

static int usage_each(void *arg, const struct ration_usage_query *query,
                      int (*see)(void *, const struct ration_usage *), void *see_arg,
                      uint64_t *next, struct ration_error *error)
{
    return rn_fleet_usage_each(((struct rn_membership *)arg)->fleet, query, see, see_arg, next,
                               error);
}

static int usage_missing(void *arg, int (*see)(void *, const struct rn_front_missing *),
                         void *see_arg)
{
    const struct rn_fleet_missing *files;
    size_t count = rn_fleet_usage_missing(((struct rn_membership *)arg)->fleet, &files);
    int code = 0;

    for (size_t i = 0; i < count && code == 0; i++)
        code = see(see_arg, &(struct rn_front_missing){rn_slice_of(files[i].name),
                                                       files[i].silent_s * RN_SECOND_NS,
                                                       files[i].unpublished});
    return code;
}

static void put_factors(const struct rn_membership *membership, struct rn_buf *out)
{
    const struct rn_fleet_asked *rules;
    size_t count = rn_fleet_factors(membership->fleet, &rules);

    rn_metrics_begin(out, "ration_rule_fleet_factor", RN_METRICS_GAUGE,
                     "The least that another node asks of a rule with scope: fleet.");
    for (size_t i = 0; i < count; i++) {
        struct rn_metrics_label label = RN_METRICS_LABEL("rule", rn_slice_of(rules[i].rule));

        rn_metrics_put_double(out, "ration_rule_fleet_factor", &label, 1, rules[i].percent / 100.0);
    }
}

static void put_metrics(void *arg, struct rn_buf *out)
{
    const struct rn_membership *membership = arg;
    const struct rn_fleet_counts *counts = rn_fleet_counts(membership->fleet);
    const struct {
        const char *name, *help;
        enum rn_metrics_type type;
        uint64_t value;
    } rows[] = {
        {"ration_fleet_nodes", "Nodes that share the store, this one included; 0: not known yet.",
         RN_METRICS_GAUGE, atomic_load(&counts->nodes)},
        {"ration_fleet_synced", "Whether all that the nodes share is in force here.",
         RN_METRICS_GAUGE, atomic_load(&counts->synced)},
        {"ration_fleet_taken_total", "Changes of other nodes that were taken over.",
         RN_METRICS_COUNTER, atomic_load(&counts->taken)},
        {"ration_fleet_published_total", "Changes of this node that the others can have.",
         RN_METRICS_COUNTER, atomic_load(&counts->published)},
        {"ration_fleet_refused_total", "Changes of other nodes that cannot be had here.",
         RN_METRICS_COUNTER, atomic_load(&counts->refused)},
        {"ration_fleet_failed_total", "Questions about what is shared that had no answer.",
         RN_METRICS_COUNTER, atomic_load(&counts->failed)},
        {"ration_fleet_bans_published_total",
         "Bans that rules began and lifts of them, of this node, that were new to Redis.",
         RN_METRICS_COUNTER, atomic_load(&counts->bans_published)},
        {"ration_fleet_bans_taken_total",
         "Bans that rules began and lifts of them, of other nodes, that were put in force.",
         RN_METRICS_COUNTER, atomic_load(&counts->bans_taken)},
        {"ration_fleet_bans_refused_total", "Entries among the shared bans that are malformed.",
         RN_METRICS_COUNTER, atomic_load(&counts->bans_refused)},
        {"ration_fleet_bans_dropped_total",
         "Shared bans that gave way to those of this node, as there are too many.",
         RN_METRICS_COUNTER, atomic_load(&counts->bans_dropped)},
        {"ration_fleet_pauses_published_total",
         "Pauses and lifts of them, of this node, that were new to Redis.", RN_METRICS_COUNTER,
         atomic_load(&counts->pauses_published)},
        {"ration_fleet_pauses_taken_total",
         "Pauses and lifts of them, of other nodes, that were put in force.", RN_METRICS_COUNTER,
         atomic_load(&counts->pauses_taken)},
        {"ration_fleet_pauses_refused_total", "Entries among the shared pauses that are malformed.",
         RN_METRICS_COUNTER, atomic_load(&counts->pauses_refused)},
        {"ration_fleet_pauses_dropped_total",
         "Shared pauses that gave way to those of this node, as there are too many.",
         RN_METRICS_COUNTER, atomic_load(&counts->pauses_dropped)},
        {"ration_fleet_usage_published_total", "Totals of usage of this node that Redis has.",
         RN_METRICS_COUNTER, atomic_load(&counts->usage_published)},
        {"ration_fleet_usage_refused_total",
         "Entries among the shared usage that are malformed, in exports of this node.",
         RN_METRICS_COUNTER, atomic_load(&counts->usage_refused)},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rn_metrics_begin(out, rows[i].name, rows[i].type, rows[i].help);
        rn_metrics_put(out, rows[i].name, NULL, 0, rows[i].value);
    }
    put_factors(membership, out);
}

/* --- life ------------------------------------------------------------------------------------ */

static void keep_rules_beside_state(struct rn_membership *membership)
{
    if (membership->options->state)
        snprintf(membership->rules_path, sizeof membership->rules_path, "%s.rules",
                 membership->options->state);
}

static void open_versions(struct rn_membership *membership)
{
    char path[sizeof membership->options->state_path + sizeof ".versions"];
    const char *state = membership->options->state;

    snprintf(path, sizeof path, "%s.versions", state ? state : "");
    rn_front_open_versions(membership->front, state ? path : NULL);
}

void rn_membership_begin(struct rn_membership *membership, struct rn_shared_store *shared,
                         struct rn_front *front)
{
    struct rn_redis *redis = shared->stores[shared->count - 1].redis;
    struct rn_fleet_options options = {.changes = shared->options->redis_changes,
                                       .arg = membership,
                                       .is_busy = is_busy,
                                       .use_rules = use_rules};
    struct ration_error error;

    *membership = (struct rn_membership){
        .options = shared->options, .front = front, .loop = rn_server_control(front->server)};
    keep_rules_beside_state(membership);
    if (membership->rules_path[0])
        options.rules_path = membership->rules_path;
    bool joined = redis && rn_fleet_new(membership->loop, redis, front->limiter, &options,
                                        &membership->fleet, &error) == 0;

    open_versions(membership);
    if (!joined) {
        rn_log(RN_LOG_ERROR, "fleet.unusable",
               RN_LOG_TEXT("error", rn_slice_of(redis ? error.text : "Redis cannot be used")));
        return;
    }
    front->fleet = (struct rn_front_fleet){.arg = membership,
                                           .put_metrics = put_metrics,
                                           .name = rn_fleet_name(membership->fleet),
                                           .asked = asked,
                                           .usage_each = usage_each,
                                           .usage_missing = usage_missing};
    if (!options.changes)
        return;
    front->fleet.changed = on_changed;
    front->fleet.rules_changed = on_rules_changed;
    front->fleet.rules_max = RN_FLEET_RULES_MAX;
}

void rn_membership_begin_alone(struct rn_membership *membership,
                               const struct rn_rationd_options *options, struct rn_front *front)
{
    struct ration_report *report = NULL;
    int64_t made_us;

    *membership = (struct rn_membership){.options = options, .front = front};
    keep_rules_beside_state(membership);
    if (membership->rules_path[0]) {
        front->fleet = (struct rn_front_fleet){.arg = membership, .rules_changed = on_rules_kept};
        if (rn_rules_file_load(membership->rules_path, &membership->kept, &made_us))
            rn_front_put_rules(front, membership->rules_path, rn_buf_slice(&membership->kept),
                               (struct rn_author){.by = RN_SLICE("state")}, &report);
    }
    open_versions(membership);
    rn_front_log_report(report);
    ration_report_free(report);
}

void rn_membership_end(struct rn_membership *membership)
{
    rn_buf_done(&membership->kept);
    rn_fleet_free(membership->fleet);
    membership->fleet = NULL;
}

void rn_membership_leave(struct rn_membership *membership)
{
    if (membership->fleet)
        rn_fleet_leave(membership->fleet);
}

bool rn_membership_finish(struct rn_membership *membership)
{
    return !membership->fleet || rn_fleet_finish(membership->fleet);
}

void rn_membership_count_nodes(struct rn_membership *membership)
{
    if (membership->fleet && membership->options->redis_nodes == 0)
        atomic_store_explicit(&membership->front->limiter->fallback->nodes,
                              rn_fleet_nodes(membership->fleet), memory_order_relaxed);
}

/* --- what is known -------------------------------------------------------------------------- */

bool rn_membership_is_synced(const struct rn_membership *membership)
{
    const struct rn_fleet_counts *counts =
        membership->fleet ? rn_fleet_counts(membership->fleet) : NULL;

    if (!counts)
        return true;
    return membership->options->redis_changes ? atomic_load(&counts->joined)
                                              : atomic_load(&counts->nodes) > 0;
}

int64_t rn_membership_wait_ns(const struct rn_membership *membership)
{
    bool comes = !rn_membership_is_synced(membership) &&
                 atomic_load(&rn_fleet_counts(membership->fleet)->nodes) > 0;

    return comes ? RN_MEMBERSHIP_WAIT_NS : 0;
}
