/* SPDX-License-Identifier: Apache-2.0 */
#include "rationd/membership.h"

#include "base/clock.h"
#include "limiter/limiter.h"
#include "net/log.h"
#include "redis/fleet/rules_file.h"
#include "wire/metrics.h"

/* --- rules ------------------------------------------------------------------------------- */

static int use_rules(void *arg, struct rn_slice text)
{
    struct rn_front *front = ((struct rn_changes *)arg)->front;
    struct rn_author author = {.by = RN_SLICE("fleet")};
    struct ration_report *report = NULL;
    int code = text.data ? rn_front_put_rules(front, NULL, text, author, &report)
                         : front->daemon.reload(front->daemon.arg, author, &report);

    rn_front_log_report(report);
    ration_report_free(report);
    return code;
}

bool rn_changes_have_rules(const struct rn_changes *changes)
{
    return changes->fleet ? rn_fleet_rules(changes->fleet).len != 0 : changes->kept.len != 0;
}

/* --- between the front and the fleet -------------------------------------------------------- */

static bool is_busy(void *arg)
{
    const struct rn_changes *changes = arg;

    return rn_turn_control_waits(changes->front);
}

static void on_changed(void *arg)
{
    rn_fleet_changed(((struct rn_changes *)arg)->fleet);
}

static bool on_rules_changed(void *arg, struct rn_slice text)
{
    rn_fleet_rules_changed(((struct rn_changes *)arg)->fleet, text);
    return true; /* Redis has them */
}

static bool on_rules_kept(void *arg, struct rn_slice text)
{
    struct rn_changes *changes = arg;
    bool saved =
        rn_rules_file_save(changes->rules_path, text, rn_clock_read_ns(CLOCK_REALTIME) / 1000);

    if (saved || text.len != 0) { /* rules that cannot be deleted go on */
        rn_buf_clear(&changes->kept);
        rn_buf_put_slice(&changes->kept, text);
    }
    return saved;
}

static void put_metrics(void *arg, struct rn_buf *out)
{
    const struct rn_changes *changes = arg;
    const struct rn_fleet_counts *counts = rn_fleet_counts(changes->fleet);
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
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rn_metrics_begin(out, rows[i].name, rows[i].type, rows[i].help);
        rn_metrics_put(out, rows[i].name, NULL, 0, rows[i].value);
    }
}

/* --- life ------------------------------------------------------------------------------------ */

static void keep_rules_beside_state(struct rn_changes *changes)
{
    if (changes->options->state)
        snprintf(changes->rules_path, sizeof changes->rules_path, "%s.rules",
                 changes->options->state);
}

static bool open_fleet(struct rn_changes *changes, struct rn_redis *redis)
{
    struct rn_fleet_options options = {.changes = changes->options->redis_changes,
                                       .rules_path =
                                           changes->rules_path[0] ? changes->rules_path : NULL,
                                       .arg = changes,
                                       .is_busy = is_busy,
                                       .use_rules = use_rules};
    struct ration_error error;

    if (redis && rn_fleet_new(changes->loop, redis, changes->front->limiter, &options,
                              &changes->fleet, &error) == 0)
        return true;
    rn_log(RN_LOG_ERROR, "fleet.unusable",
           RN_LOG_TEXT("error", rn_slice_of(redis ? error.text : "Redis cannot be used")));
    return false;
}

void rn_changes_begin(struct rn_changes *changes, struct rn_shared *shared, struct rn_front *front)
{
    *changes = (struct rn_changes){
        .options = shared->options, .front = front, .loop = rn_server_control(front->server)};
    keep_rules_beside_state(changes);
    if (!open_fleet(changes, shared->ways[shared->count - 1].redis))
        return;
    front->fleet = (struct rn_front_fleet){.arg = changes, .put_metrics = put_metrics};
    if (!shared->options->redis_changes)
        return;
    front->fleet.changed = on_changed;
    front->fleet.rules_changed = on_rules_changed;
    front->fleet.rules_max = RN_FLEET_RULES_MAX;
}

void rn_changes_begin_alone(struct rn_changes *changes, const struct rn_daemon_options *options,
                            struct rn_front *front)
{
    struct ration_report *report = NULL;
    int64_t made_us;

    *changes = (struct rn_changes){.options = options, .front = front};
    keep_rules_beside_state(changes);
    if (!changes->rules_path[0])
        return;
    front->fleet = (struct rn_front_fleet){.arg = changes, .rules_changed = on_rules_kept};
    if (!rn_rules_file_load(changes->rules_path, &changes->kept, &made_us))
        return;
    rn_front_put_rules(front, changes->rules_path, rn_buf_slice(&changes->kept),
                       (struct rn_author){.by = RN_SLICE("state")}, &report);
    rn_front_log_report(report);
    ration_report_free(report);
}

void rn_changes_end(struct rn_changes *changes)
{
    rn_buf_done(&changes->kept);
    rn_fleet_free(changes->fleet);
    changes->fleet = NULL;
}

void rn_changes_leave(struct rn_changes *changes)
{
    if (changes->fleet)
        rn_fleet_leave(changes->fleet);
}

void rn_changes_count_nodes(struct rn_changes *changes)
{
    if (changes->fleet && changes->options->redis_nodes == 0)
        atomic_store_explicit(&changes->front->limiter->policy->nodes,
                              rn_fleet_nodes(changes->fleet), memory_order_relaxed);
}

/* --- what is known -----------------------------------------------------------------------------
 */

bool rn_changes_are_known(const struct rn_changes *changes)
{
    const struct rn_fleet_counts *counts = changes->fleet ? rn_fleet_counts(changes->fleet) : NULL;

    if (!counts)
        return true;
    return changes->options->redis_changes ? atomic_load(&counts->joined)
                                           : atomic_load(&counts->nodes) > 0;
}

int64_t rn_changes_patience_ns(const struct rn_changes *changes)
{
    bool comes =
        !rn_changes_are_known(changes) && atomic_load(&rn_fleet_counts(changes->fleet)->nodes) > 0;

    return comes ? RN_CHANGES_PATIENCE_NS : 0;
}
