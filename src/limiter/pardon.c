/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a pardon is that of the state, hashed, under a token bucket of one unit that is
 * taken by a reset and takes the longest reservation to refill: how much of that time is left
 * tells when the reset was, whatever clock the store has.
 */
#include "limiter/pardon.h"

#include "limiter/hold.h"
#include "limiter/limiter.h"

void rn_pardon_ask(struct ration *r, uint64_t key, int64_t now_ns, struct rn_limit *limit,
                   struct rn_charge *charge)
{
    const uint64_t words[] = {key, 1}; /* longer than the id of a reservation */

    rn_limit_init(limit, &(struct ration_limit){.algorithm = RATION_TOKEN_BUCKET,
                                                .amount = 1,
                                                .period_ns = RN_HOLD_MAX_NS});
    *charge = (struct rn_charge){.limit = limit,
                                 .key = rn_siphash(&r->hold_seed, words, sizeof words),
                                 .ask = {.op = RN_PEEK,
                                         .now_ns = now_ns,
                                         .wall_offset_ns = rn_table_wall_offset(r->table, now_ns)}};
}

/* One that is there already is of an earlier reset. */
int rn_pardon_note(struct ration *r, uint64_t key, int64_t now_ns)
{
    struct rn_limit limit;
    struct rn_charge batch[2];

    rn_pardon_ask(r, key, now_ns, &limit, &batch[0]);
    batch[1] = batch[0];
    batch[0].ask.op = RN_RESET;
    batch[1].ask.op = RN_TAKE;
    batch[1].ask.cost = 1;
    rn_store_apply(r->store, batch, 2, NULL, NULL);
    return batch[0].error ? batch[0].error : batch[1].error;
}

bool rn_pardon_covers(const struct rn_charge *asked, int64_t at_ns)
{
    int64_t left_ns = asked->answer.reset_after_ns;

    if (asked->error != 0 || left_ns <= 0)
        return false;
    return asked->ask.now_ns - at_ns > RN_HOLD_MAX_NS - left_ns;
}
