/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrency limits: places held under a lease.
 */
#include "limiter/tickets/lease.h"

#include "limiter/limiter.h"

/* The limit of a charge if it is one of places and the lease is possible. */
static const struct rn_compiled *find_places(const struct ration *r, const struct ration_charge *c,
                                             int64_t lease_ns, struct rn_compiled *own)
{
    const struct rn_compiled *l = rn_limiter_find(r, c, own);

    if (!l || l->limit.algorithm != RATION_CONCURRENCY)
        return NULL;
    return lease_ns >= 0 && lease_ns <= RATION_LEASE_MAX_NS ? l : NULL;
}

int ration_acquire(struct ration *r, struct ration_charge *c, int64_t lease_ns, int64_t now_ns,
                   uint64_t *lease)
{
    struct rn_compiled own;
    const struct rn_compiled *l = find_places(r, c, lease_ns, &own);

    if (!l)
        return c->error = RATION_EINVAL;
    struct rn_charge charge = {.ask = {.op = RN_TAKE,
                                       .now_ns = rn_limiter_now(r, now_ns),
                                       .cost = c->cost ? c->cost : 1,
                                       .id = rn_limiter_new_id(r),
                                       .lease_ns = lease_ns ? lease_ns : l->limit.lease_ns}};

    rn_limiter_apply(r, l, rn_compiled_key(l, c), &charge);
    int code = rn_limiter_settle(r, rn_stats_stripe(&r->stats), l, c, &charge);

    if (code == 0)
        *lease = charge.answer.allowed ? charge.ask.id : 0;
    return code;
}

/* RN_RENEW or RN_RELEASE. */
static int change(struct ration *r, struct ration_charge *c, struct rn_ask ask)
{
    struct rn_compiled own;
    const struct rn_compiled *l = find_places(r, c, ask.lease_ns, &own);

    if (!l || ask.id == 0)
        return c->error = RATION_EINVAL;
    struct rn_charge charge = {.ask = ask};

    charge.ask.now_ns = rn_limiter_now(r, ask.now_ns);
    if (charge.ask.lease_ns == 0)
        charge.ask.lease_ns = l->limit.lease_ns;
    c->error = rn_limiter_apply(r, l, rn_compiled_key(l, c), &charge);
    if (c->error != 0)
        return c->error;
    if (!charge.answer.allowed)
        return c->error = RATION_EGONE;
    c->hash = charge.key;
    rn_verdict_set(&c->verdict, l, &charge.answer);
    return 0;
}

int ration_renew(struct ration *r, struct ration_charge *c, uint64_t lease, int64_t lease_ns,
                 int64_t now_ns)
{
    return change(
        r, c, (struct rn_ask){.op = RN_RENEW, .now_ns = now_ns, .id = lease, .lease_ns = lease_ns});
}

int ration_release(struct ration *r, struct ration_charge *c, uint64_t lease, int64_t now_ns)
{
    int code = change(r, c, (struct rn_ask){.op = RN_RELEASE, .now_ns = now_ns, .id = lease});

    if (code == 0)
        c->taken = 0;
    return code;
}

int rn_limiter_lease_change(struct ration *r, enum rn_op op, uint64_t lease,
                            const struct ration_place *place, int64_t lease_ns, int64_t now_ns)
{
    struct rn_compiled places = {0};
    struct rn_charge charge = {
        .ask = {.op = op, .now_ns = now_ns, .id = lease, .lease_ns = lease_ns}};

    rn_limit_init(&places.limit,
                  &(struct ration_limit){.algorithm = RATION_CONCURRENCY, .amount = place->amount});
    int code = rn_limiter_apply(r, &places, place->hash, &charge);

    return code == 0 && !charge.answer.allowed ? RATION_EGONE : code;
}
