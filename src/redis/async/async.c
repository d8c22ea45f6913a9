/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/async/async.h"

#include <stdlib.h>

#include "base/error.h"
#include "net/server.h"

struct rn_async {
    struct rn_backend backend; /* first */
    struct rn_loop *loop;
    struct rn_backend *next;
    unsigned permille, workers, holders;
    int64_t started_ns;
    struct rn_local_keys keys; /* of struct rn_async_key */
    struct rn_reports reports;
    struct rn_async_counts counts;
    struct rn_backend_jobs jobs;
};

/* --- decisions ------------------------------------------------------------------------------ */

static bool is_ours(const struct rn_async *a, const struct rn_charge *charge)
{
    return (charge->flags & RN_CHARGE_ASYNC) && !a->reports.stopped;
}

static bool has_ours(const struct rn_async *a, const struct rn_charge *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_ours(a, &batch[i]))
            return true;
    return false;
}

/* Operations that may come with the factor of an earlier decision. */
static bool settles(enum rn_op op)
{
    return op == RN_GIVE_BACK || op == RN_DEBIT;
}

/* The key of a charge. NULL: the charge must be passed on. */
static struct rn_async_key *find_key(struct rn_async *a, const struct rn_charge *charge,
                                     int64_t now_ns)
{
    const struct rn_limit *limit = charge->limit;
    struct rn_async_key *key = rn_local_keys_find(&a->keys, charge->key);
    uint64_t most = rn_local_budget_most(limit, a->permille, a->holders);
    int64_t store_us = rn_reports_store_us(&a->reports, now_ns);

    if (!key) {
        if (!rn_view_serves(limit) || !(key = rn_local_keys_add(&a->keys, charge->key, now_ns)))
            return NULL;
        bool settled = now_ns - a->started_ns >= rn_local_budget_settle_ns(limit, most, a->holders);

        rn_local_budget_init(&key->budget, charge,
                             settled ? RN_LOCAL_BUDGET_FRESH : RN_LOCAL_BUDGET_UNKNOWN, store_us,
                             now_ns);
        atomic_store_explicit(&a->counts.keys, a->keys.count, memory_order_relaxed);
    } else if (key->budget.view.percent != limit->percent && settles(charge->ask.op)) {
        return NULL; /* at the price of an earlier factor, which the view does not know */
    } else if (!rn_view_is_of(&key->budget.view, limit)) {
        if (!rn_view_serves(limit))
            return NULL;
        rn_view_init(&key->budget.view, limit, store_us, now_ns);
        rn_local_budget_doubt(&key->budget);
    }
    key->most = most;
    return key;
}

/* Operations on all units that are spent or left, by any worker. */
static bool concerns_all(enum rn_op op)
{
    return op == RN_RESET || op == RN_CREDIT || op == RN_DRAIN;
}

/* A key in use is reported even without units, to learn what other workers have reported. */
static void want_report(struct rn_async *a, struct rn_async_key *key,
                        const struct rn_charge *charge, bool here, int64_t now_ns)
{
    const struct rn_local_budget *h = &key->budget;

    if (h->unsent >= (key->most + 1) / 2 ||
        (h->unsent > 0 && !here && concerns_all(charge->ask.op))) /* report them before it */
        rn_reports_want(&a->reports, key, charge, true);
    else if (h->stage != RN_LOCAL_BUDGET_UNKNOWN &&
             (h->unsent > 0 || now_ns - h->view.at_ns >= RN_ASYNC_TICK_NS))
        rn_reports_want(&a->reports, key, charge, false);
}

/* False: the charge must be passed on. */
static bool decide(struct rn_async *a, struct rn_charge *charge)
{
    int64_t now_ns = rn_wheel_now(rn_loop_wheel(a->loop));
    struct rn_async_key *key = is_ours(a, charge) ? find_key(a, charge, now_ns) : NULL;
    uint64_t before;
    bool here;

    if (!key)
        return false;
    before = key->budget.unsent;
    here = rn_local_budget_decide(&key->budget, charge, now_ns, key->most);
    rn_redis_count(&a->counts.unreported, key->budget.unsent - before);
    want_report(a, key, charge, here, now_ns);
    return here;
}

/* --- passing on -------------------------------------------------------------------------- */

/* Charges that are not decided here get RATION_ESTORE for now. Returns how many. Charges of one key
 * must be decided in the order of the batch: those after one that is passed on are, too. */
static size_t decide_all(struct rn_async *a, struct rn_charge *batch, size_t n)
{
    size_t passed = 0;

    for (size_t i = 0; i < n; i++) {
        bool follows = false;

        for (size_t j = 0; j < i && passed > 0; j++)
            follows |= batch[j].error != 0 && batch[j].key == batch[i].key;
        if (!follows && decide(a, &batch[i]))
            continue;
        batch[i].error = RATION_ESTORE;
        passed++;
    }
    rn_redis_count(&a->counts.decided, n - passed);
    rn_redis_count(&a->counts.passed, passed);
    return passed;
}

/* Reports the keys of charges that were passed on, to learn their state. After a reset, a credit or
 * a refund more is left than this worker knows of, after a drain or a late debit less. */
static void note_passed(struct rn_async *a, const struct rn_charge *charges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum rn_op op = charges[i].ask.op;
        struct rn_async_key *key =
            is_ours(a, &charges[i]) ? rn_local_keys_find(&a->keys, charges[i].key) : NULL;

        if (!key)
            continue;
        if (concerns_all(op))
            rn_local_budget_doubt(&key->budget);
        if (op == RN_GIVE_BACK || op == RN_DEBIT || key->budget.stage == RN_LOCAL_BUDGET_UNKNOWN)
            rn_reports_want(&a->reports, key, &charges[i], true);
    }
}

static void on_part(void *arg, struct rn_charge *charges, size_t n)
{
    struct rn_backend_job *job = arg;

    note_passed(job->jobs->owner, charges, n);
    rn_backend_answered(job, 1);
}

/* Passes on the stretches of the batch that were not decided, one after the other. */
static enum rn_progress pass_on(struct rn_async *a, struct rn_backend_job *job)
{
    struct rn_charge *batch = job->batch;
    size_t n = job->n, end;

    job->left = 1; /* this function */
    for (size_t i = 0; i < n; i = end) {
        end = i + 1;
        if (batch[i].error == 0)
            continue;
        while (end < n && batch[end].error != 0)
            end++;
        job->left++;
        if (rn_backend_begin(a->next, &batch[i], end - i, job->done ? on_part : NULL, job) ==
            RN_DONE) {
            note_passed(a, &batch[i], end - i);
            job->left--;
        }
    }
    if (--job->left > 0)
        return RN_PENDING;
    rn_backend_end_job(job);
    return RN_DONE;
}

static enum rn_progress begin(struct rn_backend *backend, struct rn_charge *batch, size_t n,
                              rn_backend_done *done, void *arg)
{
    struct rn_async *a = (struct rn_async *)(void *)backend;

    if (!has_ours(a, batch, n)) {
        rn_redis_count(&a->counts.passed, n);
        return rn_backend_begin(a->next, batch, n, done, arg);
    }
    if (decide_all(a, batch, n) == 0)
        return RN_DONE;
    struct rn_backend_job *job = rn_backend_begin_job(&a->jobs, batch, n, done, arg, INT64_MAX);
    return job ? pass_on(a, job) : RN_DONE;
}

static void disown(struct rn_backend *backend, const struct rn_charge *charge, uint64_t late)
{
    rn_store_disown(&((struct rn_async *)(void *)backend)->next->store, charge, late);
}

/* --- start and end ----------------------------------------------------------------------- */

int rn_async_new(struct rn_loop *loop, struct rn_redis *redis, struct rn_backend *next,
                 const struct rn_async_options *options, struct rn_async **out,
                 struct ration_error *error)
{
    static const struct rn_backend_ops ops = {.begin = begin, .disown = disown};
    struct rn_async *a = calloc(1, sizeof *a);

    if (!a ||
        !rn_local_keys_init(&a->keys, options->keys ? options->keys : RN_ASYNC_KEYS,
                            sizeof(struct rn_async_key), rn_reports_spares) ||
        !rn_reports_init(&a->reports, loop, redis, options->by_tag, &a->counts)) {
        rn_async_free(a);
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    }
    rn_backend_init(&a->backend, &ops);
    a->loop = loop;
    a->next = next;
    a->permille = options->permille ? options->permille : RN_ASYNC_PERMILLE;
    a->workers = options->workers ? options->workers : 1;
    a->started_ns = rn_wheel_now(rn_loop_wheel(loop));
    rn_async_set_nodes(a, options->nodes);
    rn_backend_init_jobs(&a->jobs, a);
    *out = a;
    return 0;
}

void rn_async_stop(struct rn_async *a)
{
    rn_reports_stop(&a->reports);
}

bool rn_async_is_busy(const struct rn_async *a)
{
    return rn_reports_are_busy(&a->reports);
}

void rn_async_free(struct rn_async *a)
{
    if (!a)
        return;
    rn_reports_done(&a->reports);
    rn_local_keys_done(&a->keys);
    free(a);
}

struct rn_backend *rn_async_backend(struct rn_async *a)
{
    return &a->backend;
}

void rn_async_set_nodes(struct rn_async *a, unsigned nodes)
{
    a->holders = (nodes ? nodes : 1) * a->workers;
}

const struct rn_async_counts *rn_async_counts(const struct rn_async *a)
{
    return &a->counts;
}
