/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/leased/leased.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/error.h"
#include "net/log.h"
#include "net/server.h"
#include "redis/leased/leased_internal.h"

#define LARGE_PARTS 4 /* a cost above this part of the limit is strict */

static struct rn_backend *behind(const struct rn_leased *leased)
{
    return rn_redis_backend(leased->redis);
}

/* --- one charge ----------------------------------------------------------------------- */

void rn_leased_expire(struct rn_hot_key *hot, int64_t now_ns)
{
    uint64_t burnt = rn_lease_expire(&hot->lease, now_ns);

    if (burnt > 0)
        rn_lease_file_spent(hot->record, 0);
    rn_redis_count(&hot->leased->counts.burnt, burnt);
}

/* Records the spend before the admission is answered: after a kill, the rest is returned. */
static bool try_spend(struct rn_hot_key *hot, const struct rn_ask *ask)
{
    struct rn_lease *h = &hot->lease;
    bool fits;

    if (ask->op == RN_PEEK)
        return ask->cost <= h->units;
    fits = ask->op == RN_GIVE_BACK ? rn_lease_unspend(h, ask->cost, ask->mark)
                                   : rn_lease_spend(h, ask->cost);
    if (fits)
        rn_lease_file_spent(hot->record, h->units);
    return fits;
}

bool rn_leased_decide(struct rn_hot_key *hot, struct rn_charge *charge, int64_t now_ns)
{
    const struct rn_ask *ask = &charge->ask;
    bool may_be_refused = ask->op == RN_TAKE || ask->op == RN_PEEK;
    bool allowed = try_spend(hot, ask);

    if (!allowed && !(may_be_refused && rn_lease_refuses(&hot->lease, ask->cost, now_ns)))
        return false;
    if (ask->op == RN_GIVE_BACK)
        rn_lease_forget_refusal(&hot->lease);
    charge->error = 0;
    rn_lease_answer(&hot->lease, allowed, now_ns, &charge->answer);
    rn_redis_count(&hot->leased->counts.here, 1);
    return true;
}

enum outcome { DECIDED, WAITS, PASSED_ON };

static bool may_wait(struct rn_hot_key *hot, const struct rn_charge *charge, int64_t now_ns)
{
    const struct rn_lease *h = &hot->lease;
    enum rn_op op = charge->ask.op;

    if ((op != RN_TAKE && op != RN_PEEK) || charge->ask.cost > h->sizing.cap / LARGE_PARTS)
        return false;
    if (h->in_flight)
        return now_ns - h->sent_ns < hot->leased->deadline_ns;
    if (hot->queue.first)
        return true; /* the charges before it are being served: no call needed */
    return rn_renew_begin(hot, charge->ask.cost, now_ns);
}

static enum outcome decide(struct rn_hot_key *hot, struct rn_charge *charge, int64_t now_ns)
{
    enum rn_op op = charge->ask.op;

    if (op == RN_TAKE || op == RN_DRAIN)
        rn_sizing_note(&hot->lease.demand, charge->ask.cost, now_ns);
    if (op == RN_RESET || op == RN_CREDIT)
        rn_lease_forget_refusal(&hot->lease);
    if (op == RN_RESET || op == RN_CREDIT || op == RN_OLDEST)
        return PASSED_ON;
    rn_leased_expire(hot, now_ns);
    if (hot->queue.first || !rn_leased_decide(hot, charge, now_ns))
        return may_wait(hot, charge, now_ns) ? WAITS : PASSED_ON;
    if (rn_lease_runs_low(&hot->lease, now_ns)) {
        if (rn_sizing_is_cold(&hot->lease.demand, now_ns))
            rn_renew_retire(hot, now_ns);
        else
            rn_renew_begin(hot, 0, now_ns);
    }
    return DECIDED;
}

static void destroy(struct rn_leased *leased)
{
    rn_hot_keys_done(&leased->table);
    free(leased);
}

bool rn_leased_goes_on(struct rn_leased *leased)
{
    bool ending = leased->ending;

    leased->in_flight--;
    if (ending && leased->in_flight == 0)
        destroy(leased);
    return !ending;
}

/* --- which keys have a lease ------------------------------------------------------------ */

static unsigned factor_of(const struct rn_limit *l)
{
    return l->percent != 0 ? l->percent : 100;
}

/* Before the record names the new limit: its units must never be worth more than they were. */
static void learn_limit(struct rn_hot_key *hot, const struct rn_charge *charge)
{
    const struct rn_limit *l = charge->limit;

    hot->lease.sizing = rn_sizing_of(l, hot->leased->file.fd >= 0);
    rn_lease_set_factor(&hot->lease, factor_of(l));
    rn_lease_file_spent(hot->record, hot->lease.units + hot->lease.late);
    hot->amount = l->amount;
    hot->period_ns = l->period_ns;
    hot->sub_ns = l->sub_ns;
    hot->script = rn_codec_script_of(charge);
    hot->name_len = rn_codec_name(charge, hot->name);
    hot->params_len = rn_codec_params(charge, hot->params);
    rn_lease_file_name(hot->record, hot->leased->id,
                       &(struct rn_lease_what){.script = hot->script,
                                               .name = {hot->name, hot->name_len},
                                               .params = {hot->params, hot->params_len}});
}

static bool may_be_leased(const struct rn_limit *l)
{
    return rn_sizing_of(l, true).lease_ns > 0 && !rn_codec_fault(l);
}

static struct rn_hot_key *promote(struct rn_leased *leased, const struct rn_charge *charge,
                                  struct rn_demand *demand, int64_t now_ns)
{
    struct rn_hot_key *hot = rn_hot_keys_add(&leased->table, charge->key, now_ns);

    rn_redis_count(hot ? &leased->counts.promoted : &leased->counts.crowded, 1);
    if (!hot)
        return NULL;
    learn_limit(hot, charge);
    hot->lease.demand = *demand;
    *demand = (struct rn_demand){0};
    atomic_store_explicit(&leased->counts.held, leased->table.keys.count, memory_order_relaxed);
    rn_renew_watch(hot, now_ns);
    return hot;
}

/* Calendar windows differ in length, so they are learnt again whenever a call may be due. */
static bool is_as_learnt(const struct rn_hot_key *hot, const struct rn_limit *l, int64_t now_ns)
{
    return hot->amount == l->amount && hot->lease.sizing.cap == l->cap &&
           hot->period_ns == l->period_ns && hot->sub_ns == l->sub_ns &&
           hot->lease.percent == factor_of(l) &&
           (!l->calendar || !rn_lease_runs_low(&hot->lease, now_ns));
}

/* NULL: the charge is for the strict backend. */
static struct rn_hot_key *hot_key_of(struct rn_leased *leased, const struct rn_charge *charge,
                                     int64_t now_ns)
{
    if (!(charge->flags & RN_CHARGE_LEASED) || leased->stopping || !rn_codec_leases(charge->limit))
        return NULL;
    struct rn_hot_key *hot = rn_hot_keys_find(&leased->table, charge->key);

    if (!hot && (charge->ask.op == RN_TAKE || charge->ask.op == RN_DRAIN)) {
        struct rn_demand *demand =
            rn_hot_keys_watch(&leased->table, charge->key, charge->ask.cost, now_ns);

        if (rn_sizing_is_hot(demand, charge->limit->cap, now_ns) && may_be_leased(charge->limit))
            hot = promote(leased, charge, demand, now_ns);
    }
    if (!hot)
        return NULL;
    if (!is_as_learnt(hot, charge->limit, now_ns)) {
        bool settles = charge->ask.op == RN_GIVE_BACK || charge->ask.op == RN_DEBIT;

        if (settles && hot->lease.percent != factor_of(charge->limit))
            return NULL; /* at the price of an earlier factor */
        if (!may_be_leased(charge->limit))
            return NULL; /* its lease will be given back as idle */
        learn_limit(hot, charge);
    }
    hot->used_ns = now_ns;
    return hot;
}

/* --- the backend ------------------------------------------------------------------------ */

/* A drain that Redis has refused also drains this worker's lease. It does not drain those of other
 * workers: they may spend their units until their leases end. */
static void drain_leases(struct rn_leased *leased, struct rn_charge *batch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct rn_charge *charge = &batch[i];
        bool refused = charge->ask.op == RN_DRAIN && charge->error == 0 && !charge->answer.allowed;
        struct rn_hot_key *hot = refused ? rn_hot_keys_find(&leased->table, charge->key) : NULL;

        if (!hot || hot->lease.units == 0)
            continue;
        charge->answer.drained += hot->lease.units;
        rn_lease_spend(&hot->lease, hot->lease.units);
        rn_lease_file_spent(hot->record, 0);
    }
}

static void on_part(void *arg, struct rn_charge *batch, size_t n)
{
    struct rn_backend_job *job = arg;

    drain_leases(job->jobs->owner, batch, n);
    rn_backend_answered(job, n);
}

void rn_leased_pass_on(struct rn_leased *leased, struct rn_backend_job *job,
                       struct rn_charge *charge)
{
    rn_redis_count(&leased->counts.passed_on, 1);
    if (rn_backend_begin(behind(leased), charge, 1, on_part, job) == RN_DONE)
        on_part(job, charge, 1);
}

/* One rn_backend_begin on its way through this layer. */
struct passage {
    struct rn_leased *leased;
    struct rn_charge *batch;
    size_t n, begin; /* begin: of the charges that are passed on next */
    rn_backend_done *done;
    void *arg;
    bool drains;                /* a drain of a leased key is in the batch */
    struct rn_backend_job *job; /* NULL while all charges so far are answered */
};

static bool need_job(struct passage *p)
{
    if (!p->job && p->done)
        p->job = rn_backend_begin_job(&p->leased->jobs, p->batch, p->n, p->done, p->arg, INT64_MAX);
    return p->job != NULL;
}

static void pass_on_until(struct passage *p, size_t end)
{
    struct rn_charge *run = &p->batch[p->begin];
    size_t n = end - p->begin;

    p->begin = end + 1;
    if (n == 0)
        return;
    rn_redis_count(&p->leased->counts.passed_on, n);
    if (!need_job(p)) {
        for (size_t i = 0; i < n; i++)
            run[i].error = RATION_ESTORE;
    } else if (rn_backend_begin(behind(p->leased), run, n, on_part, p->job) == RN_PENDING) {
        p->job->left += n;
    } else {
        drain_leases(p->leased, run, n);
    }
}

static enum rn_progress begin(struct rn_backend *backend, struct rn_charge *batch, size_t n,
                              rn_backend_done *done, void *arg)
{
    struct rn_leased *leased = (struct rn_leased *)(void *)backend;
    struct passage p = {.leased = leased, .batch = batch, .n = n, .done = done, .arg = arg};
    int64_t now_ns = rn_clock_boot_ns();

    for (size_t i = 0; i < n; i++) {
        struct rn_hot_key *hot = hot_key_of(leased, &batch[i], now_ns);
        enum outcome outcome = hot ? decide(hot, &batch[i], now_ns) : PASSED_ON;

        p.drains |= hot && batch[i].ask.op == RN_DRAIN;
        if (outcome == PASSED_ON)
            continue;
        pass_on_until(&p, i);
        if (outcome == DECIDED)
            continue;
        batch[i].error = RATION_ESTORE;
        if (need_job(&p))
            rn_renew_await(hot, p.job, &batch[i]);
    }
    if (p.begin == 0 && !p.drains) {
        rn_redis_count(&leased->counts.passed_on, n);
        return rn_backend_begin(behind(leased), batch, n, done, arg);
    }
    pass_on_until(&p, n);
    if (p.job && p.job->left > 0)
        return RN_PENDING;
    if (p.job)
        rn_backend_end_job(p.job);
    return RN_DONE;
}

static void disown(struct rn_backend *backend, const struct rn_charge *charge, uint64_t late)
{
    rn_store_disown(&behind((struct rn_leased *)(void *)backend)->store, charge, late);
}

static const struct rn_backend_ops leased_ops = {.begin = begin, .disown = disown};

/* --- start and end ---------------------------------------------------------------------- */

static void on_patience(struct rn_timer *timer)
{
    struct rn_leased *leased =
        (struct rn_leased *)((char *)timer - offsetof(struct rn_leased, patience));

    rn_renew_give_up(leased, rn_wheel_now(rn_loop_wheel(leased->loop)));
}

int rn_leased_new(struct rn_loop *loop, struct rn_redis *redis,
                  const struct rn_leased_options *options, struct rn_leased **out,
                  struct ration_error *error)
{
    struct rn_leased *leased = calloc(1, sizeof *leased);
    struct ration_error no_file = {0};

    if (!leased)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    if (getrandom(&leased->id, sizeof leased->id, 0) != sizeof leased->id) {
        free(leased);
        return rn_error_set(error, RATION_EIO, 0, "the kernel gives no random numbers");
    }
    /* Without the file, limits hold as well, but a kill loses more units. */
    if (rn_lease_file_open(options->path, leased->id, &leased->file, &no_file) == 0)
        leased->path = options->path;
    else
        rn_log(RN_LOG_WARN, "leases.unrecorded", RN_LOG_TEXT("error", rn_slice_of(no_file.text)));
    if (!leased->file.records || !rn_hot_keys_init(&leased->table, leased, leased->file.records)) {
        rn_lease_file_close(&leased->file);
        destroy(leased);
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    }
    rn_backend_init(&leased->backend, &leased_ops);
    leased->loop = loop;
    leased->redis = redis;
    leased->deadline_ns = options->deadline_ns > 0 ? options->deadline_ns : RN_REDIS_DEADLINE_NS;
    leased->patience.fire = on_patience;
    rn_backend_init_jobs(&leased->jobs, leased);
    rn_loss_probe_begin(leased);
    rn_recovery_begin(leased);
    *out = leased;
    return 0;
}

void rn_leased_stop(struct rn_leased *leased)
{
    if (leased->stopping)
        return;
    leased->stopping = true;
    rn_renew_give_up(leased, INT64_MAX);
    for (struct rn_local_key *key = leased->table.keys.oldest, *next; key; key = next) {
        next = key->newer;
        rn_renew_stop((struct rn_hot_key *)key);
    }
    rn_timer_cancel(rn_loop_wheel(leased->loop), &leased->patience);
    rn_loss_probe_end(leased);
    rn_timer_cancel(rn_loop_wheel(leased->loop), &leased->recovery.timer);
}

bool rn_leased_is_busy(const struct rn_leased *leased)
{
    return leased->in_flight > 0;
}

void rn_leased_free(struct rn_leased *leased)
{
    if (!leased)
        return;
    rn_leased_stop(leased);
    rn_recovery_end(leased);
    rn_lease_file_close(&leased->file);
    leased->ending = true;
    if (leased->in_flight == 0)
        destroy(leased);
}

struct rn_backend *rn_leased_backend(struct rn_leased *leased)
{
    return &leased->backend;
}

bool rn_leased_is_whole(const struct rn_leased *leased)
{
    return atomic_load_explicit(&leased->loss_probe.is_whole, memory_order_relaxed);
}

const struct rn_leased_counts *rn_leased_counts(const struct rn_leased *leased)
{
    return &leased->counts;
}
