/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/strict/refusal_cache.h"

static struct rn_cached_refusal *place_of(struct rn_refusal_cache *refusals, uint64_t key)
{
    return &refusals->places[key & (RN_REFUSAL_CACHE_SIZE - 1)];
}

bool rn_refusal_cache_find(struct rn_refusal_cache *refusals, struct rn_charge *charge,
                           int64_t now_ns)
{
    struct rn_cached_refusal *refusal = place_of(refusals, charge->key);
    const struct rn_limit *l = charge->limit;
    enum rn_op op = charge->ask.op;

    if (refusal->until_ns <= now_ns || refusal->key != charge->key)
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
                           int64_t sent_ns)
{
    const struct rn_answer *answer = &charge->answer;
    const struct rn_limit *l = charge->limit;
    int64_t retry = answer->retry_after_ns;

    if ((charge->ask.op != RN_TAKE && charge->ask.op != RN_DRAIN) || charge->error != 0 ||
        answer->allowed || rn_form_is_places(l->form) || retry <= 0 || retry == RN_NEVER)
        return;
    *place_of(refusals, charge->key) = (struct rn_cached_refusal){
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
