/* SPDX-License-Identifier: Apache-2.0 */
/* Several charges at once, and limits of which the amount changes. */
#ifndef TEST_STORE_CONTRACT_CHANGES_H
#define TEST_STORE_CONTRACT_CHANGES_H

#include "contract_client.h"

/* ---- batches */

static void charges_of_one_key_in_a_batch_are_applied_in_order(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct rn_limit limit = compiled(&every_form[kind].spec[0]);
        struct rn_charge batch[16];
        uint64_t part = limit.cap / 5 + 1; /* four fit */

        for (unsigned i = 0; i < 16; i++)
            batch[i] = (struct rn_charge){
                .limit = &limit,
                .key = key_of(100 * kind + i % 2),
                .ask = {
                    .op = RN_TAKE, .now_ns = BASE, .cost = part, .id = i + 1, .lease_ns = HOUR}};
        apply_batch(store, batch, 16);
        for (unsigned i = 0; i < 16; i++) {
            assert_int_equal(batch[i].error, 0);
            assert_int_equal(batch[i].answer.allowed, (i / 2 + 1) * part <= limit.cap);
            if (batch[i].answer.allowed)
                assert_int_equal(batch[i].answer.remaining, limit.cap - (i / 2 + 1) * part);
        }
    }
    p->close(p);
}

static void a_batch_answers_as_single_calls_do(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);
    static struct rn_limit limits[KINDS];
    static struct cell cells[40];
    int64_t now = BASE;

    memset(cells, 0, sizeof cells);
    for (unsigned kind = 0; kind < KINDS; kind++)
        limits[kind] = compiled(&every_form[kind].spec[0]);
    for (unsigned round = 0; round < 200; round++) {
        struct rn_charge batch[64];
        size_t n = 1 + random_below(64);

        now += (int64_t)random_below((uint64_t)SECOND);
        for (size_t i = 0; i < n; i++) {
            uint64_t key = random_below(40);

            batch[i] = (struct rn_charge){.limit = &limits[key % KINDS],
                                          .key = key_of(key),
                                          .ask = {.op = RN_TAKE,
                                                  .now_ns = now,
                                                  .cost = 1 + random_below(20),
                                                  .id = 1 + random_next() / 2,
                                                  .lease_ns = 5 * SECOND}};
        }
        apply_batch(store, batch, n);
        for (size_t i = 0; i < n; i++) {
            struct rn_answer a;
            unsigned at = 0;

            while (key_of(at) != batch[i].key)
                at++;
            cell_apply(&cells[at], batch[i].limit, &batch[i].ask, &a);
            assert_int_equal(batch[i].error, 0);
            assert_int_equal(batch[i].answer.allowed, a.allowed);
            assert_int_equal(batch[i].answer.remaining, a.remaining);
        }
    }
    p->close(p);
}

/* ---- another amount, the same shape */

static void buckets_keep_the_share_spent_when_the_amount_changes(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);
    static const unsigned kinds[] = {TOKENS, QUEUE, STEPS, FINE};

    for (unsigned i = 0; i < 4; i++) {
        const struct ration_limit *specs = every_form[kinds[i]].spec;
        struct client c = new_client(store, kinds[i], kinds[i]);

        ask_now(&c, RN_TAKE, c.limit.cap / 2);
        c.limit = compiled(&specs[1]);
        uint64_t left = ask_now(&c, RN_PEEK, 0).remaining, half = c.limit.cap - c.limit.cap / 2;

        assert_in_range(left, half - 1, half);
        assert_true(ask_now(&c, RN_TAKE, left).allowed);
        assert_false(ask_now(&c, RN_TAKE, 1).allowed);
        c.limit = compiled(&specs[0]); /* what is left now is less than one unit of the other */
        assert_in_range(ask_now(&c, RN_PEEK, 0).remaining, 0, c.limit.cap / 7);
        c.now += 2 * MINUTE;
        assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, c.limit.cap);
    }
    p->close(p);
}

static void windows_and_logs_keep_their_count_when_the_amount_changes(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);
    static const unsigned kinds[] = {WINDOW,    FIRST_WINDOW, SHORT_WINDOW, COUNTER, SUBS,
                                     SMALL_LOG, LOG,          OWN,          PLACES,  ADAPTIVE};

    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct ration_limit *specs = every_form[kinds[i]].spec;
        struct client c = new_client(store, kinds[i], kinds[i]);

        for (unsigned turn = 0; turn < 7; turn++) {
            c.limit = compiled(&specs[turn % 2]);
            uint64_t left = c.limit.cap > turn ? c.limit.cap - turn : 0;

            assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, left);
            if (left == 0)
                break;
            assert_int_equal(ask_now(&c, RN_TAKE, 1).remaining, left - 1);
        }
    }
    p->close(p);
}

/* 2^20 - 1 is the largest count that packs into a word. */
static void a_window_crosses_the_bound_of_packing_in_both_directions(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);
    struct ration_limit small = {
        .algorithm = RATION_FIXED_WINDOW, .amount = 1048575, .period_ns = MINUTE};
    struct ration_limit large = small, tiny = small;
    struct client c = new_client(store, WINDOW, 1);

    large.amount = UINT64_C(1) << 40;
    large.period_ns = small.period_ns = tiny.period_ns = HOUR;
    tiny.amount = 10;
    c.limit = compiled(&small);
    assert_int_equal(c.limit.form, RN_FORM_WINDOW);
    struct rn_answer first = ask_now(&c, RN_TAKE, 1048575);

    assert_true(first.allowed);
    assert_false(ask_now(&c, RN_TAKE, 1).allowed);
    c.limit = compiled(&large);
    assert_int_equal(c.limit.form, RN_FORM_WIDE);
    assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, large.amount - 1048575);
    assert_int_equal(ask_now(&c, RN_TAKE, 5000000).remaining, large.amount - 6048575);
    c.limit = compiled(&tiny);
    assert_int_equal(ask_now(&c, RN_TAKE, 1).remaining, 0);
    c.limit = compiled(&large);
    assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, large.amount - 6048575);
    /* the receipt of the first take is still good */
    struct rn_answer back = ask_store(&c, &(struct rn_ask){.op = RN_GIVE_BACK,
                                                           .now_ns = c.now,
                                                           .cost = 1048575,
                                                           .at_ns = c.now,
                                                           .mark = first.mark});
    assert_true(back.allowed);
    assert_int_equal(back.remaining, large.amount - 5000000);
    c.limit = compiled(&small);
    assert_false(ask_now(&c, RN_TAKE, 1).allowed);
    c.now += HOUR;
    assert_int_equal(ask_now(&c, RN_TAKE, 1).remaining, small.amount - 1);
    p->close(p);
}

static void a_bucket_crosses_into_fractions_of_a_nanosecond_and_back(void **state)
{
    struct plugged_store *p = *state;
    struct client c = new_client(p->open(p), FINE, 1);
    struct rn_limit fast = c.limit, slow = compiled(&every_form[FINE].spec[1]);

    c.limit = slow;
    ask_now(&c, RN_TAKE, 250);
    c.limit = fast;
    assert_in_range(ask_now(&c, RN_PEEK, 0).remaining, 525000000 - 1, 525000000);
    ask_now(&c, RN_TAKE, 175000000);
    c.limit = slow;
    assert_in_range(ask_now(&c, RN_PEEK, 0).remaining, 499, 500);
    ask_now(&c, RN_TAKE, 250);
    c.limit = fast;
    assert_in_range(ask_now(&c, RN_PEEK, 0).remaining, 175000000 - 10, 175000000);
    c.limit = slow;
    c.now += SECOND;
    assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, 1000);
    p->close(p);
}

#endif
