/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/decide/fallback.h"

#include <ration/error.h>

#include "base/clock.h"
#include "limiter/decide/gather.h"

#define RETRY_NS RN_SECOND_NS

static _Thread_local struct rn_store *shared;

void rn_fallback_use(struct rn_store *store)
{
    shared = store;
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Of `whole` units, the part that is this node's: `share` of `cap`. */
static uint64_t to_share(uint64_t whole, uint64_t share, uint64_t cap)
{
    return cap > 0 ? (uint64_t)((u128)whole * share / cap) : whole;
}

/* Decides in this node's table, under another key than the shared store has. One unit of this
 * node's share counts as many units of the whole as there are shares. */
static void decide_here(struct rn_fallback *f, struct rn_charge *charge)
{
    unsigned nodes = atomic_load_explicit(&f->nodes, memory_order_relaxed);
    uint64_t cap = charge->limit->cap, share = cap / (nodes > 1 ? nodes : 1);
    uint64_t key = charge->key, cost = charge->ask.cost;

    share = share > 0 ? share : cap > 0;
    u128 whole = share > 0 ? ((u128)cost * cap + share - 1) / share : cost;

    charge->key = rn_siphash(&f->secret, &key, sizeof key);
    charge->ask.cost = whole < UINT64_MAX ? (uint64_t)whole : UINT64_MAX;
    rn_store_apply(rn_table_store(f->table), charge, 1);
    charge->key = key;
    charge->ask.cost = cost;
    charge->answer.remaining = to_share(charge->answer.remaining, share, cap);
    if (charge->ask.op == RN_DRAIN)
        charge->answer.drained = to_share(charge->answer.drained, share, cap);
    charge->answer.mark = RN_FALLBACK_MARK;
    count(&f->counts.local);
}

/* NULL: there is none. */
static struct rn_store *shared_of(struct rn_fallback *f)
{
    return f->own.store.ops ? &f->own.store : shared;
}

static void do_without(struct rn_fallback *f, struct rn_charge *charge)
{
    switch (charge->ask.op) {
    case RN_PEEK:
    case RN_OLDEST:
    case RN_TAKE:
    case RN_DRAIN:
    case RN_FORCE:
    case RN_DEBIT:
        break;
    case RN_GIVE_BACK:
    case RN_RENEW:
    case RN_RELEASE:
    case RN_RESET:
    case RN_CREDIT:
        count(&f->counts.lost);
        return;
    }
    if (charge->flags & (RN_CHARGE_ELSE_ALLOW | RN_CHARGE_ELSE_REFUSE)) {
        bool allow = charge->flags & RN_CHARGE_ELSE_ALLOW;

        charge->error = 0;
        charge->answer = (struct rn_answer){.allowed = allow,
                                            .remaining = allow ? charge->limit->cap : 0,
                                            .retry_after_ns = allow ? 0 : RETRY_NS,
                                            .reset_after_ns = allow ? 0 : RETRY_NS,
                                            .mark = RN_FALLBACK_MARK};
        if (charge->ask.op == RN_DEBIT)
            charge->answer.uncollected = charge->ask.cost;
        count(allow ? &f->counts.allowed : &f->counts.refused);
    } else {
        decide_here(f, charge);
    }
    if (charge->late == 0)
        return;
    if (charge->error == 0 && charge->answer.allowed)
        charge->answer.mark = RN_FALLBACK_MARK + (int64_t)charge->late;
    else if (shared_of(f))
        rn_store_disown(shared_of(f), charge, charge->late);
}

static void apply_run(struct rn_fallback *f, struct rn_charge *batch, size_t n)
{
    struct rn_store *store = shared_of(f);

    for (size_t i = 0; i < n; i++) {
        batch[i].late = 0;
        if (!store)
            batch[i].error = RATION_ESTORE;
    }
    if (store && n != 0)
        rn_store_apply(store, batch, n);
    for (size_t i = 0; i < n; i++)
        if (batch[i].error == RATION_ESTORE)
            do_without(f, &batch[i]);
}

/* The shared store was never charged what was decided here: there is nothing to give back to it,
 * unless the charge arrived there late. */
static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct rn_fallback *f = (struct rn_fallback *)(void *)store;
    size_t begin = 0;

    for (size_t i = 0; i < n; i++) {
        struct rn_charge *charge = &batch[i];

        if (charge->ask.op != RN_GIVE_BACK || !rn_fallback_has_decided(charge->ask.mark))
            continue;
        if (shared_of(f))
            rn_store_disown(shared_of(f), charge, (uint64_t)(charge->ask.mark - RN_FALLBACK_MARK));
        charge->error = 0;
        charge->answer = (struct rn_answer){0};
        apply_run(f, batch + begin, i - begin);
        begin = i + 1;
    }
    apply_run(f, batch + begin, n - begin);
}

static const struct rn_store_ops fallback_ops = {.apply = apply};

void rn_fallback_init(struct rn_fallback *fallback, struct rn_table *table,
                      rn_limit_fault_fn *store_fault)
{
    *fallback = (struct rn_fallback){.store = {.ops = &fallback_ops},
                                     .table = table,
                                     .secret = *rn_table_secret(table),
                                     .store_fault = store_fault};
}

unsigned rn_fallback_flags(const struct rn_rule *rule)
{
    static const unsigned flags[] = {[RN_FAIL_LOCAL] = 0,
                                     [RN_FAIL_ALLOW] = RN_CHARGE_ELSE_ALLOW,
                                     [RN_FAIL_REFUSE] = RN_CHARGE_ELSE_REFUSE};

    return flags[rule->on_store_failure];
}

int rn_fallback_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                       struct ration_outcome *out)
{
    return rn_gather_decide(r, request, now_ns, &(struct rn_terms){.no_server = true}, out);
}

bool rn_fallback_is_local(const struct rn_rule *rule)
{
    return rule->on_store_failure == RN_FAIL_LOCAL;
}

const struct rn_rule *rn_fallback_refuser(const struct rn_matches *matches)
{
    for (uint32_t i = 0; i < matches->count; i++) {
        const struct rn_rule *rule = matches->items[i].rule;

        if (rule->on_store_failure == RN_FAIL_REFUSE && !rule->shadow)
            return rule;
    }
    return NULL;
}
