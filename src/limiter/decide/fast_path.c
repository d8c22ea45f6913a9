/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/decide/fast_path.h"

#include "limiter/decide/gather.h"
#include "limiter/limiter.h"

/* Whether one RN_TAKE decides: no step of transaction.h is needed, and rn_outcome_admit fills in
 * the whole outcome. This depends on the rule alone and is found out once. */
bool rn_fast_path_fits(const struct rn_book *book, const struct rn_rule *rule,
                       const struct rn_rule_limit *limit)
{
    const struct rn_compiled *l = &book->limits[limit->id];
    enum ration_algorithm algorithm = l->limit.algorithm;
    bool counts = rn_compiled_counts(l) && algorithm != RATION_LEAKY_BUCKET;
    bool uncoupled =
        l->shape_count + l->guard_count == 0 && book->families[rule->index].until_ns == INT64_MIN;
    bool waits = rule->max_wait_ns != 0 || rule->throttle.on;

    return counts && uncoupled && !waits && !rule->shadow && !rule->by_outcome &&
           rule->priority.attribute == RN_NO_ATTRIBUTE && limit->soft_units == 0;
}

static RN_ASIDE uint64_t hash_parts(const struct rn_match *match, const struct rn_compiled *l)
{
    struct rn_applied applied = rn_applied_of(match);

    return rn_gather_hash(&applied, l);
}

RN_HOT bool rn_fast_path_admit(struct ration *r, const struct rn_book *book,
                               const struct rn_match *match, const struct rn_compiled *l,
                               int64_t now_ns, struct ration_outcome *out)
{
    uint64_t hash = rn_likely(match->rule->key_count == 1 && !match->key_names[0].data)
                        ? rn_siphash(&l->seed, match->key[0].data, match->key[0].len)
                        : hash_parts(match, l);
    struct rn_charge charge; /* as much of it as a take reads */

    charge.key = hash ^ l->salt;
    rn_table_prefetch(r->table, charge.key);
    charge.limit = &l->limit;
    charge.flags = l->charge_flags;
    charge.ask.op = RN_TAKE;
    charge.ask.cost = match->cost;
    charge.ask.now_ns = rn_limiter_now(r, now_ns);
    charge.ask.wall_offset_ns =
        rn_table_wall_offset(r->table, charge.ask.now_ns) - rn_gather_shift_ns(match->rule, hash);
    rn_store_apply(r->store, &charge, 1);
    if (rn_unlikely(charge.error != 0 || !charge.answer.allowed))
        return false;
    rn_outcome_admit(out, match->rule, l, &charge);
    struct rn_stripe *s = rn_stats_stripe(&r->stats), *rows = rn_stats_stripe(&book->stats);
    unsigned result = RN_RESULT_ALLOWED;

    if (rn_unlikely(rn_gather_is_near(&out->decision.verdict)))
        result |= RN_RESULT_NEAR;
    rn_stats_count(s, rn_stats_row(rows, match->rule->index), result, match->cost);
    rn_stats_count_total(s, result);
    return true;
}
