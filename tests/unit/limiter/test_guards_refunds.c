/* SPDX-License-Identifier: Apache-2.0 */
/* A client that stays with one variant never notices the others, whatever it
 * gives back; and giving back and moving mints nothing. */
#include "guards_fixture.h"

#define RECEIPTS 16

struct stay {
    struct ration *r;
    struct ration_charge receipts[RECEIPTS];
    uint64_t holds[RECEIPTS]; /* 0: not reserved */
};

static void take_or_reserve(struct stay *s, const struct client *c, uint32_t limit, uint64_t cost,
                            size_t slot, bool reserve, int64_t timeout_ns)
{
    struct ration_decision d;

    s->receipts[slot] = charge(limit, c->key, cost);
    s->holds[slot] = 0;
    if (!reserve)
        assert_int_equal(ration_take(s->r, &s->receipts[slot], stopped_at(s->r, c->now_ns)), 0);
    else
        assert_int_equal(ration_reserve(s->r, &s->receipts[slot], 1, timeout_ns,
                                        stopped_at(s->r, c->now_ns), &s->holds[slot], &d),
                         0);
}

static int settle(struct stay *s, const struct client *c, size_t slot, uint64_t used)
{
    struct ration_charge *receipt = &s->receipts[slot];

    if (s->holds[slot] == 0)
        return ration_give_back(s->r, receipt, stopped_at(s->r, c->now_ns));
    used = used < receipt->taken ? used : receipt->taken;
    if (used == 0)
        return ration_refund(s->r, s->holds[slot], receipt, 1, stopped_at(s->r, c->now_ns));
    return ration_commit(s->r, s->holds[slot], receipt, 1, &used, stopped_at(s->r, c->now_ns));
}

/* The same life with variants and without. */
static void stay_with(const struct ration_named *pair, uint32_t which, int steps)
{
    struct stay with_others = {.r = open_limits(pair, 2)};
    struct stay no_server = {.r = open_limits(&pair[which], 1)};
    struct client c = new_client(which + 100);
    char text[200];

    describe(&pair[which], text, sizeof text);
    for (int i = 0; i < steps; i++) {
        size_t slot = below(&c, RECEIPTS);
        uint64_t cost = below(&c, 3) ? below(&c, 4) : below(&c, 14);

        rest(&c);
        if (below(&c, 3) == 0) {
            uint64_t used = below(&c, 3);
            int code = settle(&with_others, &c, slot, used);

            assert_int_equal(code, settle(&no_server, &c, slot, used));
            continue;
        }
        bool reserve = below(&c, 2);
        int64_t timeout_ns = SECOND / 100 + (int64_t)below(&c, (uint64_t)MINUTE);

        take_or_reserve(&with_others, &c, which, cost, slot, reserve, timeout_ns);
        take_or_reserve(&no_server, &c, 0, cost, slot, reserve, timeout_ns);
        if (with_others.receipts[slot].verdict.allowed != no_server.receipts[slot].verdict.allowed)
            fail_msg("step %d: %s is not what it is alone", i, text);
        assert_same(&with_others.receipts[slot].verdict, &no_server.receipts[slot].verdict);
        c.retry_ns = no_server.receipts[slot].verdict.retry_after_ns;
        c.retry_ns = c.retry_ns == RATION_NEVER ? 0 : c.retry_ns;
    }
    ration_close(with_others.r);
    ration_close(no_server.r);
}

static void stay_with_either(const struct ration_named *pair)
{
    stay_with(pair, 0, STEPS(100000));
    stay_with(pair, 1, STEPS(10000));
}

static void a_client_that_stays_never_notices_the_other(void **state)
{
    (void)state;
    for_each_pair(stay_with_either);
}

/* What was given back is free again for the larger, too; and what was not,
 * is not: the room of a guard is not lost to charges that were given back. */
static void give_back_then_move(const struct ration_named *pair)
{
    struct ration *r = open_limits(pair, 2);
    struct ration_charge receipts[64];
    struct model m;

    if (pair[1].limit.algorithm == RATION_TOKEN_BUCKET ||
        pair[1].limit.algorithm == RATION_LEAKY_BUCKET) {
        ration_close(r);
        return; /* the model keeps no charges of these */
    }
    for (unsigned number = 0; number < 6; number++) {
        struct client c = new_client(number);

        model_init(&m, &pair[1].limit);
        for (int i = 0; i < STEPS(600); i++) {
            /* Mostly the smaller, most of which comes back; then the larger, at once. */
            bool rush = i % 50 > 44;
            int n = 0;

            rest(&c);
            for (; n < 40; n++) {
                receipts[n] = charge(rush, c.key, 1);
                assert_int_equal(ration_take(r, &receipts[n], stopped_at(r, c.now_ns)), 0);
                if (!receipts[n].verdict.allowed)
                    break;
                judge(&m, &c, 1, pair, 2);
            }
            for (int k = 0; k < n && !rush; k++)
                if (below(&c, 4)) {
                    assert_int_equal(ration_give_back(r, &receipts[k], stopped_at(r, c.now_ns)), 0);
                    model_give_back(&m, m.charge_count - (size_t)(n - k), 1);
                }
        }
        model_done(&m);
    }
    ration_close(r);
}

static void giving_back_and_moving_mints_nothing(void **state)
{
    (void)state;
    for_each_pair(give_back_then_move);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_stays_never_notices_the_other),
        cmocka_unit_test(giving_back_and_moving_mints_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
