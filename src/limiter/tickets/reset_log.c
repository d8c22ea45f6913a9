/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of an entry is the hash of the state key, under a token bucket of one unit. A reset takes
 * that unit: the time that is left until it is refilled says when the reset was, whatever clock the
 * table has.
 */
#include "limiter/tickets/reset_log.h"

#include "base/clock.h"
#include "core/envelope.h"
#include "limiter/limiter.h"
#include "limiter/tickets/reservation.h"

static struct rn_charge ask(struct ration *r, enum rn_op op, const struct rn_limit *limit,
                            uint64_t key, int64_t now_ns)
{
    const uint64_t words[] = {key, 1}; /* longer than the id of a reservation */

    return (struct rn_charge){.limit = limit,
                              .key = rn_siphash(&r->reservation_seed, words, sizeof words),
                              .ask = {.op = op,
                                      .now_ns = now_ns,
                                      .cost = op == RN_TAKE,
                                      .wall_offset_ns = rn_table_wall_offset(r->table, now_ns)}};
}

/* The entry lasts as long as the limit remembers, in whole seconds. */
static void init_entry(struct rn_limit *entry, const struct rn_limit *of)
{
    int64_t ns = rn_envelope_memory_ns(of);

    rn_compiled_init_flag(entry, ns < RN_RESERVATION_MAX_NS ? (ns / RN_SECOND_NS + 1) * RN_SECOND_NS
                                                            : RN_RESERVATION_MAX_NS);
}

/* An entry that is there already is from an earlier reset. */
int rn_reset_log_add(struct ration *r, const struct rn_limit *limit, uint64_t key, int64_t now_ns)
{
    struct rn_limit entry;

    if (rn_limiter_is_remote(r) ||
        rn_form_is_places(limit->form)) /* places are released, never given back */
        return 0;
    init_entry(&entry, limit);
    struct rn_charge batch[] = {ask(r, RN_RESET, &entry, key, now_ns),
                                ask(r, RN_TAKE, &entry, key, now_ns)};

    rn_store_apply(r->store, batch, 2);
    return batch[0].error ? batch[0].error : batch[1].error;
}

bool rn_reset_log_covers(struct ration *r, const struct rn_limit *limit, uint64_t key,
                         int64_t at_ns, int64_t now_ns)
{
    struct rn_limit entry;

    if (rn_limiter_is_remote(r))
        return false;
    init_entry(&entry, limit);
    struct rn_charge peek = ask(r, RN_PEEK, &entry, key, now_ns);

    rn_store_apply(r->store, &peek, 1);
    int64_t left_ns = peek.error == 0 ? peek.answer.reset_after_ns : 0;

    return left_ns > 0 && now_ns - at_ns > entry.full_ns - left_ns;
}
