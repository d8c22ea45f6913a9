/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/decide/fallback.h"

#include <ration/error.h>

#include "base/clock.h"
#include "limiter/decide/gather.h"

__extension__ typedef unsigned __int128 u128;

#define RETRY_NS RN_SECOND_NS

static _Thread_local struct rn_store *shared;

void rn_fallback_use(struct rn_store *store)
{
    shared = store;
}

/* --- asking ----------------------------------------------------------------------------- */

static void ask(struct rn_charge *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        batch[i].late = 0;
    for (size_t i = 0; i < n && !shared; i++)
        batch[i].error = RATION_ESTORE;
    if (shared)
        rn_store_apply(shared, batch, n);
}

/* --- without an answer -------------------------------------------------------------------- */

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* One unit of this node's share is as many of the whole as there are shares. */
struct share {
    uint64_t units, of;
};

static struct share share_of(const struct rn_fallback *p, const struct rn_limit *limit)
{
    unsigned nodes = atomic_load_explicit(&p->nodes, memory_order_relaxed);
    uint64_t units = limit->cap / (nodes > 1 ? nodes : 1);

    return (struct share){units > 0 ? units : limit->cap > 0, limit->cap};
}

static uint64_t to_whole(struct share share, uint64_t cost)
{
    u128 whole = share.units > 0 ? ((u128)cost * share.of + share.units - 1) / share.units : cost;

    return whole < UINT64_MAX ? (uint64_t)whole : UINT64_MAX;
}

static uint64_t to_share(struct share share, uint64_t remaining)
{
    return share.of > 0 ? (uint64_t)((u128)remaining * share.units / share.of) : remaining;
}

static void decide_here(struct rn_fallback *p, struct rn_charge *charge)
{
    struct share share = share_of(p, charge->limit);
    uint64_t key = charge->key, cost = charge->ask.cost;

    charge->key = rn_siphash(&p->secret, &key, sizeof key);
    charge->ask.cost = to_whole(share, cost);
    rn_store_apply(rn_table_store(p->table), charge, 1);
    charge->key = key;
    charge->ask.cost = cost;
    charge->answer.remaining = to_share(share, charge->answer.remaining);
    if (charge->ask.op == RN_DRAIN)
        charge->answer.drained = to_share(share, charge->answer.drained);
    charge->answer.mark = RN_FALLBACK_MARK;
    count(&p->counts.local);
}

static void answer_without(struct rn_fallback *p, struct rn_charge *charge, bool allow)
{
    charge->error = 0;
    charge->answer = (struct rn_answer){.allowed = allow,
                                        .remaining = allow ? charge->limit->cap : 0,
                                        .retry_after_ns = allow ? 0 : RETRY_NS,
                                        .reset_after_ns = allow ? 0 : RETRY_NS,
                                        .mark = RN_FALLBACK_MARK};
    if (charge->ask.op == RN_DEBIT)
        charge->answer.uncollected = charge->ask.cost;
    count(allow ? &p->counts.allowed : &p->counts.refused);
}

static void do_without(struct rn_fallback *p, struct rn_charge *charge)
{
    switch (charge->ask.op) {
    case RN_PEEK:
    case RN_OLDEST:
    case RN_TAKE:
    case RN_DRAIN:
    case RN_FORCE:
    case RN_DEBIT:
        if (charge->flags & (RN_CHARGE_ELSE_ALLOW | RN_CHARGE_ELSE_REFUSE))
            answer_without(p, charge, charge->flags & RN_CHARGE_ELSE_ALLOW);
        else
            decide_here(p, charge);
        if (charge->late == 0)
            break;
        if (charge->error == 0 && charge->answer.allowed)
            charge->answer.mark = RN_FALLBACK_MARK + (int64_t)charge->late;
        else
            rn_store_disown(shared, charge, charge->late);
        break;
    case RN_GIVE_BACK:
    case RN_RELEASE:
    case RN_RENEW:
    case RN_CREDIT:
    case RN_RESET:
        count(&p->counts.lost);
    }
}

/* --- the contract ------------------------------------------------------------------------- */

/* What was decided here was never charged to the shared store: there is nothing to give back,
 * unless the charge arrived there late. */
static bool gives_back_here(struct rn_charge *charge)
{
    if (charge->ask.op != RN_GIVE_BACK || !rn_fallback_has_decided(charge->ask.mark))
        return false;
    if (shared)
        rn_store_disown(shared, charge, (uint64_t)(charge->ask.mark - RN_FALLBACK_MARK));
    charge->error = 0;
    charge->answer = (struct rn_answer){0};
    return true;
}

static void apply_run(struct rn_fallback *p, struct rn_charge *batch, size_t n)
{
    if (n != 0)
        ask(batch, n);
    for (size_t i = 0; i < n; i++)
        if (batch[i].error == RATION_ESTORE)
            do_without(p, &batch[i]);
}

static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct rn_fallback *p = (struct rn_fallback *)(void *)store;
    size_t begin = 0;

    for (size_t i = 0; i < n; i++)
        if (gives_back_here(&batch[i])) {
            apply_run(p, batch + begin, i - begin);
            begin = i + 1;
        }
    apply_run(p, batch + begin, n - begin);
}

static const struct rn_store_ops fallback_ops = {.apply = apply};

void rn_fallback_init(struct rn_fallback *fallback, struct rn_table *table, rn_limit_judge *judge)
{
    *fallback = (struct rn_fallback){.store = {.ops = &fallback_ops},
                                     .table = table,
                                     .secret = *rn_table_secret(table),
                                     .judge = judge};
}

/* --- rules --------------------------------------------------------------------------------- */

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
