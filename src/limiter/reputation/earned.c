/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/reputation/earned.h"

static uint64_t follow_admission(void *arg, uint64_t word)
{
    const struct rn_earned *client = arg;

    return rn_earn_admit(client->plan, word, client->now_ns);
}

static uint64_t follow_refusal(void *arg, uint64_t word)
{
    const struct rn_earned *client = arg;

    return rn_earn_refuse(client->plan, word, client->now_ns);
}

static uint64_t follow_loss(void *arg, uint64_t word)
{
    const struct rn_earned *client = arg;

    return rn_earn_lose(client->plan, word, client->now_ns);
}

/* One change of a record of the client; whether it was kept. */
static bool change(struct ration *r, const struct rn_earned *client, enum rn_record_kind kind,
                   uint64_t (*follow)(void *arg, uint64_t word), struct rn_records_change *done)
{
    struct rn_earned copy = *client;

    *done = (struct rn_records_change){.key = rn_records_key(client->hash, kind),
                                       .rule = client->rule,
                                       .now_ns = client->now_ns,
                                       .follow = follow,
                                       .arg = &copy};
    return rn_records_change(&r->reputation.records, done);
}

static unsigned percent(const struct rn_earned *client, uint64_t word)
{
    return rn_earn_percent(client->plan, word, client->now_ns);
}

RN_ASIDE void rn_earned_admit(struct ration *r, const struct rn_earned *client)
{
    struct rn_records_change done;

    if (rn_earn_goes_on(client->plan, rn_earned_find(r, client->hash), client->now_ns))
        return;
    if (change(r, client, RN_RECORD_EARNED, follow_admission, &done) &&
        percent(client, done.after) > percent(client, done.before))
        __atomic_fetch_add(&r->reputation.steps, 1, __ATOMIC_RELAXED);
}

/* Refusals that find no room are not counted, which is in favour of the client. */
RN_ASIDE void rn_earned_refuse(struct ration *r, const struct rn_earned *client)
{
    struct rn_records_change done;

    if (!change(r, client, RN_RECORD_LAPSES, follow_refusal, &done) || done.after != 0)
        return;
    if (rn_earned_find(r, client->hash) != 0 &&
        change(r, client, RN_RECORD_EARNED, follow_loss, &done) &&
        percent(client, done.after) < percent(client, done.before))
        __atomic_fetch_add(&r->reputation.lost_steps, 1, __ATOMIC_RELAXED);
}
