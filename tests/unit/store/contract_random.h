/* SPDX-License-Identifier: Apache-2.0 */
/* Anything at all, against states of which the store knows nothing. */
#ifndef TEST_STORE_CONTRACT_RANDOM_H
#define TEST_STORE_CONTRACT_RANDOM_H

#include "contract_client.h"

#define RANDOM_OPS 100000
#define RANDOM_KEYS 500

/* What a client remembers of its last takes, to give back or renew. */
struct receipt {
    int64_t at_ns, mark;
    uint64_t cost, id;
};

static struct rn_ask random_ask(unsigned kind, const struct rn_limit *limit, int64_t now,
                                const struct receipt *r)
{
    struct rn_ask ask = {.op = RN_TAKE,
                         .now_ns =
                             now - (random_below(8) == 0 ? (int64_t)random_below(SECOND / 2) : 0),
                         .wall_offset_ns = 12345 * SECOND / 1000,
                         .cost = random_below(3) ? 1 + random_below(4) : random_cost(limit->cap),
                         .id = 1 + random_next() / 2,
                         .lease_ns = 1 + (int64_t)random_below(20 * SECOND)};

    switch (random_below(16)) {
    case 0:
        ask.op = RN_PEEK;
        break;
    case 1:
        ask.op = RN_OLDEST;
        break;
    case 2:
        ask.op = random_below(2) ? RN_FORCE : RN_DEBIT;
        break;
    case 3:
        ask.op = random_below(10) == 0 ? RN_RESET : RN_PEEK;
        break;
    case 7:
        ask.op = kind < PLACES && random_below(2) ? RN_CREDIT : RN_TAKE;
        break;
    case 8:
        ask.op = kind < PLACES ? RN_DRAIN : RN_TAKE;
        break;
    case 4:
    case 5:
    case 6:
        ask.op = kind < PLACES ? RN_GIVE_BACK : random_below(2) ? RN_RENEW : RN_RELEASE;
        ask.at_ns = r->at_ns;
        ask.mark = r->mark;
        ask.cost = r->cost;
        ask.id = r->id ? r->id : 1;
        break;
    default:
        break;
    }
    return ask;
}

static void answers_agree(unsigned kind, uint64_t step, const struct rn_ask *ask,
                          const struct rn_answer *got, const struct rn_answer *want)
{
    bool take = ask->op == RN_TAKE && want->allowed && ask->cost != 0;

    if (got->allowed == want->allowed && got->remaining == want->remaining &&
        got->retry_after_ns == want->retry_after_ns &&
        got->reset_after_ns == want->reset_after_ns && got->delay_ns == want->delay_ns &&
        (!take || got->mark == want->mark) &&
        (ask->op != RN_OLDEST || got->oldest_ns == want->oldest_ns) &&
        (ask->op != RN_DEBIT || kind >= PLACES || ask->cost == 0 ||
         got->uncollected == want->uncollected) &&
        (ask->op != RN_DRAIN || want->allowed || got->drained == want->drained))
        return;
    fail_msg("RATION_SEED=%" PRIu64 " step %" PRIu64 ", %s, op %d cost %" PRIu64
             ": allowed %d/%d remaining %" PRIu64 "/%" PRIu64 " retry %" PRId64 "/%" PRId64
             " reset %" PRId64 "/%" PRId64 " mark %" PRId64 "/%" PRId64,
             random_seed, step, every_form[kind].name, (int)ask->op, ask->cost, got->allowed,
             want->allowed, got->remaining, want->remaining, got->retry_after_ns,
             want->retry_after_ns, got->reset_after_ns, want->reset_after_ns, got->mark,
             want->mark);
}

static void random_operations_agree_with_a_private_state(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);
    static struct rn_limit limits[KINDS][2];
    static struct cell cells[RANDOM_KEYS];
    static struct receipt receipts[RANDOM_KEYS];
    uint64_t admitted = 0, refused = 0;
    int64_t now = BASE;

    memset(cells, 0, sizeof cells);
    memset(receipts, 0, sizeof receipts);
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < 2; i++)
            limits[kind][i] = compiled(&every_form[kind].spec[i]);
    for (uint64_t step = 0; step < RANDOM_OPS * soak_factor(); step++) {
        unsigned at = (unsigned)random_below(RANDOM_KEYS), kind = at % KINDS;
        struct rn_limit *limit = &limits[kind][random_below(10) == 0];
        struct rn_charge c = {
            .limit = limit, .key = key_of(at), .ask = random_ask(kind, limit, now, &receipts[at])};
        struct rn_answer want;

        apply_batch(store, &c, 1);
        assert_int_equal(c.error, 0);
        cell_apply(&cells[at], limit, &c.ask, &want);
        if (p->forgets_idle && (c.ask.op == RN_FORCE || c.ask.op == RN_DEBIT)) {
            c.answer.allowed = want.allowed;
            c.answer.retry_after_ns = want.retry_after_ns;
        }
        answers_agree(kind, step, &c.ask, &c.answer, &want);
        if (c.ask.op == RN_TAKE && want.allowed)
            receipts[at] = (struct receipt){c.ask.now_ns, want.mark, c.ask.cost, c.ask.id};
        admitted += want.allowed;
        refused += !want.allowed;
        if (random_below(4) == 0)
            now += (int64_t)random_scale(1, random_below(1000) ? 50000000 : 2 * MINUTE);
    }
    assert_true(admitted > RANDOM_OPS / 5 && refused > RANDOM_OPS / 5);
    p->close(p);
}

#endif
