/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/strict/refusal_cache.h"

static struct rn_cached_refusal *place_of(struct rn_refusal_cache *refusals, uint64_t key)
{
    return &refusals->places[key & (RN_REFUSAL_CACHE_SIZE - 1)];
}

uint64_t rn_refusal_cache_asked(const struct rn_refusal_cache *refusals)
{
    return refusals->returns ? __atomic_load_n(&refusals->returns->count, __ATOMIC_ACQUIRE) : 0;
}

static uint64_t *last_return(const struct rn_refusal_cache *refusals, uint64_t key)
{
    return &refusals->returns->last[key & (RN_REFUSAL_CACHE_SIZE - 1)];
}

void rn_refusal_cache_returned(struct rn_refusal_cache *refusals, uint64_t key)
{
    if (!refusals->returns)
        return;
    uint64_t number = __atomic_add_fetch(&refusals->returns->count, 1, __ATOMIC_ACQ_REL);
    uint64_t *last = last_return(refusals, key), before = __atomic_load_n(last, __ATOMIC_RELAXED);

    while (before < number && !__atomic_compare_exchange_n(last, &before, number, true,
                                                           __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
}

static bool is_outdated(const struct rn_refusal_cache *refusals,
                        const struct rn_cached_refusal *refusal)
{
    return refusals->returns &&
           refusal->asked < __atomic_load_n(last_return(refusals, refusal->key), __ATOMIC_ACQUIRE);
}

bool rn_refusal_cache_find(struct rn_refusal_cache *refusals, struct rn_charge *charge,
                           int64_t now_ns)
{
    struct rn_cached_refusal *refusal = place_of(refusals, charge->key);
    const struct rn_limit *l = charge->limit;
    enum rn_op op = charge->ask.op;

    if (refusal->until_ns <= now_ns || refusal->key != charge->key ||
        is_outdated(refusals, refusal))
        return false;
    if (op == RN_GIVE_BACK || op == RN_CREDIT || op == RN_RESET)
        refusal->until_ns = 0;
    if (op != RN_TAKE || charge->ask.cost < refusal->cost || refusal->amount != l->amount ||
        refusal->cap != l->cap || refusal->period_ns != l->period_ns ||
        refusal->percent != l->percent)
        return false;
    charge->error = 0;
    charge->answer =
        (struct rn_answer){.remaining = refusal->remaining,
                           .retry_after_ns = charge->ask.cost > charge->limit->cap
                                                 ? rn_limit_beyond_ns(l, charge->ask.cost)
                                                 : refusal->retry_ns - now_ns,
                           .reset_after_ns = refusal->reset_ns - now_ns,
                           .oldest_ns = RN_NEVER};
    return true;
}

void rn_refusal_cache_note(struct rn_refusal_cache *refusals, const struct rn_charge *charge,
                           int64_t sent_ns, uint64_t asked)
{
    const struct rn_answer *answer = &charge->answer;
    const struct rn_limit *l = charge->limit;
    int64_t retry = answer->retry_after_ns;

    if ((charge->ask.op != RN_TAKE && charge->ask.op != RN_DRAIN) || charge->error != 0 ||
        answer->allowed || rn_form_is_places(l->form) || retry <= 0 || retry == RN_NEVER)
        return;
    *place_of(refusals, charge->key) = (struct rn_cached_refusal){
        .asked = asked,
        .key = charge->key,
        .cost = charge->ask.cost,
        .remaining = answer->remaining,
        .amount = l->amount,
        .cap = l->cap,
        .period_ns = l->period_ns,
        .percent = l->percent,
        .until_ns = sent_ns + (retry < RN_REFUSAL_CACHE_MAX_NS ? retry : RN_REFUSAL_CACHE_MAX_NS),
        .retry_ns = sent_ns + retry,
        .reset_ns = sent_ns + answer->reset_after_ns,
    };
}
