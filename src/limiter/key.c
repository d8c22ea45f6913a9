/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One key of one limit: hash it, look at it, give back a charge, reset it.
 */
#include "limiter/decide/transaction.h"
#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/state.h"
#include "limiter/tickets/reset_log.h"

uint64_t ration_hash(const struct ration *r, uint32_t limit, const void *key, size_t len)
{
    return limit < r->limit_count ? rn_compiled_hash(&r->limits[limit], key, len) : 0;
}

uint64_t ration_hash_parts(const struct ration *r, uint32_t limit, const struct ration_part *parts,
                           size_t count)
{
    if (limit >= r->limit_count)
        return 0;
    return rn_compiled_hash_parts(&r->limits[limit], parts, count) ^ r->limits[limit].salt;
}

uint64_t ration_hash_ad_hoc(const struct ration *r, const struct ration_limit *limit,
                            const void *key, size_t len)
{
    struct rn_compiled own;

    return rn_limiter_compile(r, limit, &own) ? rn_compiled_hash(&own, key, len) : 0;
}

/* Finds the limit and applies a look that changes nothing. */
static int look(struct ration *r, struct ration_charge *c, enum rn_op op, int64_t now_ns,
                struct rn_answer *answer)
{
    struct rn_compiled own;
    const struct rn_compiled *l = rn_limiter_find(r, c, &own);

    if (!l)
        return c->error = RATION_EINVAL;
    struct rn_charge charge = {
        .ask = {.op = op, .now_ns = rn_limiter_now(r, now_ns), .cost = c->cost}};

    c->error = rn_limiter_apply(r, l, rn_compiled_key(l, c), &charge);
    if (c->error != 0)
        return c->error;
    *answer = charge.answer;
    c->hash = charge.key;
    c->paused = false;
    rn_verdict_set(&c->verdict, l, answer);
    rn_verdict_set_places(&c->verdict, l, answer);
    if (rn_unlikely(rn_gate_stands(r, c->hash)) && op == RN_PEEK && !l->shadow)
        rn_gate_tell(r, c, charge.ask.now_ns);
    if (rn_pause_any(&r->pauses) && op == RN_PEEK)
        rn_pause_tell(r, l, c, charge.ask.now_ns);
    return 0;
}

/* With guards on a copy: the charge may be a receipt. */
int ration_peek(struct ration *r, struct ration_charge *c, int64_t now_ns)
{
    struct rn_answer answer;

    if (c->ad_hoc || c->limit >= r->limit_count || r->limits[c->limit].guard_count == 0)
        return look(r, c, RN_PEEK, now_ns, &answer);
    struct ration_charge copy = *c;
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return c->error = RATION_ENOMEM;
    struct rn_transaction *tx = &w->gathered.tx;

    rn_transaction_init(tx, r, &copy, 1, now_ns);
    tx->look_only = tx->uncounted = true;
    c->error = rn_transaction_run(tx);
    rn_workspace_return(s, w);
    if (c->error != 0)
        return c->error;
    c->hash = copy.hash;
    c->paused = copy.paused;
    c->verdict = copy.verdict;
    return 0;
}

int ration_oldest(struct ration *r, struct ration_charge *c, int64_t now_ns, int64_t *age_ns)
{
    struct rn_answer answer;
    int code = look(r, c, RN_OLDEST, now_ns, &answer);

    if (code == 0)
        *age_ns = answer.oldest_ns;
    return code;
}

/* The key may be gone by now; its hash is in the receipt. */
int ration_give_back(struct ration *r, struct ration_charge *c, int64_t now_ns)
{
    struct rn_compiled own;
    const struct rn_compiled *l = rn_limiter_find(r, c, &own);

    if (!l)
        return c->error = RATION_EINVAL;
    uint64_t taken = c->taken;

    c->taken = 0;
    c->error = 0;
    if (taken == 0)
        return 0;
    struct rn_refund refund = {.key = c->hash,
                               .cost = taken,
                               .units = taken,
                               .id = (uint64_t)c->mark, /* a lease's */
                               .at_ns = c->at_ns,
                               .mark = c->mark};

    return c->error = rn_limiter_give_back(r, l, &refund, rn_limiter_now(r, now_ns));
}

int ration_credit(struct ration *r, struct ration_charge *c, int64_t now_ns)
{
    struct rn_transaction_item item = {0};
    struct ration_charge look = *c;

    item.limit = rn_limiter_find(r, c, &item.own);
    if (!item.limit)
        return c->error = RATION_EINVAL;
    if (item.limit->limit.algorithm == RATION_CONCURRENCY)
        return c->error = RATION_EPLACES;
    item.key = rn_compiled_key(item.limit, c);
    now_ns = rn_limiter_now(r, now_ns);
    look.cost = 0;
    c->error = rn_state_credit(r, &item, c->cost, now_ns);
    if (c->error == 0)
        c->error = ration_peek(r, &look, now_ns);
    if (c->error == 0)
        c->verdict = look.verdict;
    return c->error;
}

static int forget(struct ration *r, const struct rn_compiled *l, uint64_t key, int64_t now_ns)
{
    struct rn_charge charge = {.flags = RN_CHARGE_RESET_LOG,
                               .ask = {.op = RN_RESET, .now_ns = now_ns}};
    int code = rn_limiter_apply(r, l, key, &charge);

    return code == 0 ? rn_reset_log_add(r, &l->limit, key, now_ns) : code;
}

int ration_reset(struct ration *r, struct ration_charge *c, int64_t now_ns)
{
    struct rn_compiled own;
    const struct rn_compiled *l = rn_limiter_find(r, c, &own);

    if (!l)
        return c->error = RATION_EINVAL;
    uint64_t key = rn_compiled_key(l, c);

    now_ns = rn_limiter_now(r, now_ns);
    c->error = l->shape_count == 0 ? forget(r, l, key, now_ns) : 0;
    for (uint32_t i = 0; i < l->shape_count && c->error == 0; i++)
        c->error = forget(r, l->shapes[i], key ^ l->salt ^ l->shapes[i]->salt, now_ns);
    if (c->error == 0)
        c->hash = key;
    return c->error;
}
