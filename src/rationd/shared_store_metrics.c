/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of the shared store: the sum of all loops' counters, and each server. docs/metrics.md
 * lists them.
 */
#include <stdlib.h>

#include "limiter/limiter.h"
#include "rationd/shared_store.h"
#include "redis/cluster/routes.h"
#include "wire/metrics.h"

#define US_PER_SECOND 1e6

/* --- counters of the loops ---------------------------------------------------------------- */

/* Which store has the counter. */
enum part { REMOTE, LEASED, ASYNC };

struct family {
    const char *name, *help;
    size_t offset; /* of an _Atomic uint64_t */
    enum part part;
    enum rn_metrics_type type;
};

#define OF_REMOTE(field) offsetof(struct rn_redis_counts, field), REMOTE, RN_METRICS_COUNTER
#define OF_LEASED(field, type) offsetof(struct rn_leased_counts, field), LEASED, RN_METRICS_##type
#define OF_ASYNC(field, type) offsetof(struct rn_async_counts, field), ASYNC, RN_METRICS_##type

static const struct family families[] = {
    {"ration_store_charges_total", "Charges of limits that nodes share.", OF_REMOTE(charges)},
    {"ration_store_answered_total", "Charges that the store has answered in time.",
     OF_REMOTE(answered)},
    {"ration_store_remembered_total",
     "Charges refused without asking, because the store has refused as much a moment ago.",
     OF_REMOTE(remembered)},
    {"ration_store_late_total", "Charges that had no answer within the deadline.", OF_REMOTE(late)},
    {"ration_store_returned_total",
     "Charges that the store made too late, of requests that were refused, and gave back.",
     OF_REMOTE(returned)},
    {"ration_store_burnt_total", "Those that could not be given back.", OF_REMOTE(burnt)},
    {"ration_store_turned_away_total",
     "Charges that were not sent: no connection, or the breaker is open.", OF_REMOTE(turned_away)},
    {"ration_store_failed_total", "Charges that the store answered with an error, or lost.",
     OF_REMOTE(failed)},
    {"ration_store_calls_total", "Calls of scripts that charge.", OF_REMOTE(calls)},
    {"ration_store_other_calls_total", "Calls of scripts that lease, report and share.",
     OF_REMOTE(others)},
    {"ration_store_resent_total", "Calls that were not run, and sent once more.",
     OF_REMOTE(resent)},
    {"ration_store_moved_total", "Answers that a slot has another owner.", OF_REMOTE(moved)},
    {"ration_store_asked_total", "Answers that a slot is about to have another owner.",
     OF_REMOTE(asked)},
    {"ration_store_mismatches_total", "Replies to another call than the one that was made.",
     OF_REMOTE(mismatches)},
    {"ration_store_connects_total", "Attempts to connect.", OF_REMOTE(connects)},
    {"ration_store_breaker_opened_total", "How often a breaker has opened.", OF_REMOTE(opened)},
    {"ration_store_clock_steps_total", "Steps of the clock of a server that were noticed.",
     OF_REMOTE(clock_steps)},
    {"ration_leased_decided_total", "Charges of leased limits decided out of what is held here.",
     OF_LEASED(here, COUNTER)},
    {"ration_leased_passed_on_total", "Charges of leased limits that the store decided.",
     OF_LEASED(passed_on, COUNTER)},
    {"ration_leased_calls_total", "Calls for leases.", OF_LEASED(calls, COUNTER)},
    {"ration_leased_lost_calls_total", "Calls for leases that had no answer.",
     OF_LEASED(lost, COUNTER)},
    {"ration_leased_granted_units_total", "Units that were leased.", OF_LEASED(granted, COUNTER)},
    {"ration_leased_returned_units_total", "Units that were given back unused.",
     OF_LEASED(returned, COUNTER)},
    {"ration_leased_burnt_units_total", "Units that were neither used nor given back in time.",
     OF_LEASED(burnt, COUNTER)},
    {"ration_leased_recovered_units_total",
     "Units that killed workers held and had not spent, returned after the next start.",
     OF_LEASED(recovered, COUNTER)},
    {"ration_leased_keys", "Keys of which something is held.", OF_LEASED(held, GAUGE)},
    {"ration_async_decided_total", "Charges of async limits decided without a trip.",
     OF_ASYNC(decided, COUNTER)},
    {"ration_async_reports_total", "Reports of keys that the store has answered.",
     OF_ASYNC(reports, COUNTER)},
    {"ration_async_reported_units_total", "Units in them.", OF_ASYNC(units, COUNTER)},
    {"ration_async_resent_total", "Calls with reports that were sent again.",
     OF_ASYNC(resent, COUNTER)},
    {"ration_async_unreported_units", "Units admitted and not reported yet.",
     OF_ASYNC(unreported, GAUGE)},
    {"ration_async_keys", "Keys of async limits that are known.", OF_ASYNC(keys, GAUGE)},
};
#define FAMILIES (sizeof families / sizeof *families)

static uint64_t value_of(const struct rn_loop_store *store, const struct family *family)
{
    const void *const counts[] = {[REMOTE] = rn_redis_counts(store->redis),
                                  [LEASED] = rn_leased_counts(store->leased),
                                  [ASYNC] = rn_async_counts(store->async)};
    const _Atomic uint64_t *counter =
        (const _Atomic uint64_t *)(const void *)((const char *)counts[family->part] +
                                                 family->offset);

    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* --- servers ------------------------------------------------------------------------------ */

/* As seen by the first worker. */
static void put_servers(struct rn_shared_store *shared, struct rn_buf *out)
{
    static const char up[] = "ration_store_server_up", skew[] = "ration_store_clock_skew_seconds";
    struct rn_redis *redis = shared->stores[0].redis;
    struct rn_routes_shard *servers = redis ? calloc(RN_SHARDS, sizeof *servers) : NULL;
    size_t count = servers ? rn_redis_shards(redis, servers, RN_SHARDS) : 0;

    rn_metrics_begin(out, up, RN_METRICS_GAUGE,
                     "Whether a server of the store can be asked, and serves.");
    for (size_t i = 0; i < count; i++)
        rn_metrics_put(out, up,
                       &(struct rn_metrics_label){"server", rn_slice_of(servers[i].address)}, 1,
                       servers[i].up && !servers[i].open);
    rn_metrics_begin(out, skew, RN_METRICS_GAUGE,
                     "Clock of a server less that of this machine, at its last reply.");
    for (size_t i = 0; i < count; i++)
        rn_metrics_put_double(out, skew,
                              &(struct rn_metrics_label){"server", rn_slice_of(servers[i].address)},
                              1, (double)servers[i].skew_us / US_PER_SECOND);
    free(servers);
}

/* --- the page ----------------------------------------------------------------------------- */

void rn_shared_store_put_metrics(void *arg, struct rn_buf *out)
{
    static const char up[] = "ration_store_up", fallbacks[] = "ration_store_fallbacks_total",
                      lost[] = "ration_store_lost_total";
    struct rn_shared_store *shared = arg;
    const struct rn_fallback_counts *counts = &shared->limiter->fallback->counts;
    const struct {
        const char *policy;
        uint64_t count;
    } rows[] = {{"local", counts->local}, {"allow", counts->allowed}, {"refuse", counts->refused}};

    rn_metrics_begin(out, up, RN_METRICS_GAUGE,
                     "Whether all threads can ask the store that nodes share, and it serves.");
    rn_metrics_put(out, up, NULL, 0, rn_shared_store_is_up(shared));
    pthread_mutex_lock(&shared->lock);
    for (const struct family *f = families; f < families + FAMILIES; f++) {
        uint64_t sum = 0;

        for (unsigned i = 0; i < shared->count; i++)
            sum += shared->stores[i].redis ? value_of(&shared->stores[i], f) : 0;
        rn_metrics_begin(out, f->name, f->type, f->help);
        rn_metrics_put(out, f->name, NULL, 0, sum);
    }
    put_servers(shared, out);
    pthread_mutex_unlock(&shared->lock);
    rn_metrics_begin(out, fallbacks, RN_METRICS_COUNTER,
                     "Charges decided by a rule's policy, because the store did not answer.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        rn_metrics_put(out, fallbacks,
                       &(struct rn_metrics_label){"policy", rn_slice_of(rows[i].policy)}, 1,
                       rows[i].count);
    rn_metrics_begin(out, lost, RN_METRICS_COUNTER,
                     "Refunds, renewals, releases and resets that did not reach the store.");
    rn_metrics_put(out, lost, NULL, 0, counts->lost);
}
