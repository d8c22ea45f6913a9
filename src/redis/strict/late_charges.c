/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/strict/late_charges.h"

#include <stdlib.h>
#include <sys/random.h>

#include "redis/codec.h"

bool rn_late_charges_init(struct rn_late_charges *lates)
{
    *lates = (struct rn_late_charges){.ring = calloc(RN_LATE_CHARGES_MAX, sizeof *lates->ring)};
    if (!lates->ring || getrandom(&lates->last, sizeof lates->last, 0) != sizeof lates->last)
        return false;
    lates->last %= RN_CHARGE_LATE_MAX;
    return true;
}

void rn_late_charges_done(struct rn_late_charges *lates)
{
    free(lates->ring);
    *lates = (struct rn_late_charges){0};
}

static struct rn_late_charge *find(struct rn_late_charges *lates, uint64_t id)
{
    struct rn_late_charge *late = &lates->ring[id % RN_LATE_CHARGES_MAX];

    return id != 0 && late->id == id && !late->returning ? late : NULL;
}

/* The calendar belongs to the rules, which may be replaced. A refund needs none: its mark names the
 * window. */
uint64_t rn_late_charges_note(struct rn_late_charges *lates, const struct rn_charge *charge)
{
    enum rn_op op = charge->ask.op;

    if ((op != RN_TAKE && op != RN_DRAIN) || charge->ask.cost == 0)
        return 0;
    lates->last = lates->last % RN_CHARGE_LATE_MAX + 1;
    struct rn_late_charge *late = &lates->ring[lates->last % RN_LATE_CHARGES_MAX];

    if (late->returning)
        return 0;
    *late = (struct rn_late_charge){.job = {.batch = &late->charge, .n = 1, .left = 1},
                                    .id = lates->last,
                                    .charge = *charge,
                                    .limit = *charge->limit};
    late->limit.calendar = NULL;
    late->charge.limit = &late->limit;
    return late->id;
}

void rn_late_charges_forget(struct rn_late_charges *lates, uint64_t id)
{
    struct rn_late_charge *late = find(lates, id);

    if (late)
        rn_late_charges_end(late);
}

static struct rn_late_charge *return_if_due(struct rn_late_charge *late)
{
    if (!late->charged || !late->unwanted)
        return NULL;
    late->returning = true;
    return late;
}

struct rn_late_charge *rn_late_charges_answer(struct rn_late_charges *lates, uint64_t id,
                                              const char *answer)
{
    struct rn_late_charge *late = find(lates, id);

    if (!late)
        return NULL;
    struct rn_charge *charge = &late->charge;

    rn_codec_read(charge, answer);
    if (charge->error != 0 || !charge->answer.allowed) {
        rn_late_charges_end(late);
        return NULL;
    }
    charge->ask.op = RN_GIVE_BACK;
    charge->ask.at_ns = charge->ask.now_ns;
    charge->ask.mark = charge->answer.mark;
    charge->flags |= RN_CHARGE_RESET_LOG;
    late->charged = true;
    return return_if_due(late);
}

struct rn_late_charge *rn_late_charges_disown(struct rn_late_charges *lates, uint64_t id,
                                              const struct rn_charge *charge)
{
    struct rn_late_charge *late = find(lates, id);

    if (!late || late->charge.key != charge->key || late->charge.ask.cost != charge->ask.cost)
        return NULL;
    late->unwanted = true;
    return return_if_due(late);
}
