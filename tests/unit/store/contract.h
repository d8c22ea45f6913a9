/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every store must do, whatever it is made of. A store is plugged in as a
 * struct plugged_store; CONTRACT_TESTS are the tests, whose state is a
 * struct plugged_store.
 */
#ifndef TEST_STORE_CONTRACT_H
#define TEST_STORE_CONTRACT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_form.h"
#include "store/store.h"

struct plugged_store {
    const char *name;
    struct rn_store *(*open)(struct plugged_store *self); /* an empty one */
    void (*close)(struct plugged_store *self);
    void (*wait)(struct plugged_store *self); /* runs its loop until `done` was called */
    void *handle;
};

static void contract_done(void *arg, struct rn_charge *batch, size_t n)
{
    (void)batch, (void)n;
    *(bool *)arg = true;
}

static void apply_batch(struct plugged_store *p, struct rn_store *store, struct rn_charge *batch,
                        size_t n)
{
    bool done = false;

    for (size_t i = 0; i < n; i++)
        batch[i].error = 12345;
    if (rn_store_apply(store, batch, n, contract_done, &done) == RN_PENDING) {
        assert_non_null(p->wait);
        p->wait(p);
        assert_true(done);
    } else {
        assert_false(done);
    }
}

/* One key under one limit, asked one thing at a time. */
struct client {
    struct plugged_store *plugged;
    struct rn_store *store;
    struct rn_limit limit;
    uint64_t key;
    int64_t now;
};

static struct rn_answer ask_store(struct client *c, const struct rn_ask *ask)
{
    struct rn_charge charge = {.limit = &c->limit, .key = c->key, .ask = *ask};

    apply_batch(c->plugged, c->store, &charge, 1);
    assert_int_equal(charge.error, 0);
    return charge.answer;
}

static struct rn_answer ask_now(struct client *c, enum rn_op op, uint64_t cost)
{
    return ask_store(
        c, &(struct rn_ask){.op = op, .now_ns = c->now, .cost = cost, .id = 1, .lease_ns = MINUTE});
}

static struct client new_client(struct plugged_store *p, struct rn_store *store, unsigned kind,
                                uint64_t key)
{
    return (struct client){p, store, compiled(&every_form[kind].spec[0]), key_of(key), BASE};
}

/* ---- one test, every form */

static void the_limits_cover_every_form(void **state)
{
    unsigned seen = 0;

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct rn_limit a = compiled(&every_form[kind].spec[0]);
        struct rn_limit b = compiled(&every_form[kind].spec[1]);

        assert_int_equal(a.form, every_form[kind].form[0]);
        assert_int_equal(b.form, every_form[kind].form[1]);
        assert_true(a.shape == b.shape);
        seen |= 1u << a.form;
    }
    assert_int_equal(seen, (2u << RN_FORM_PLACES) - 2);
}

static void a_fresh_key_admits_its_capacity_and_no_more(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(p, store, kind, kind);
        uint64_t cap = c.limit.cap, step = cap > 1000 ? cap / 1000 : 1;

        for (uint64_t taken = 0; taken < cap; taken += step) {
            struct rn_answer a = ask_now(&c, RN_TAKE, step);

            assert_true(a.allowed);
            assert_int_equal(a.remaining, cap - taken - step);
        }
        assert_false(ask_now(&c, RN_TAKE, 1).allowed);
        assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, 0);
    }
    p->close(p);
}

static void a_look_charges_nothing(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(p, store, kind, kind);

        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(ask_now(&c, RN_PEEK, 1).remaining, c.limit.cap);
            assert_int_equal(ask_now(&c, RN_OLDEST, 0).remaining, c.limit.cap);
            assert_int_equal(ask_now(&c, RN_TAKE, 0).remaining, c.limit.cap);
        }
        assert_int_equal(ask_now(&c, RN_TAKE, 2).remaining, c.limit.cap - 2);
        assert_true(ask_now(&c, RN_PEEK, c.limit.cap - 2).allowed);
        assert_false(ask_now(&c, RN_PEEK, c.limit.cap - 1).allowed);
        assert_int_equal(ask_now(&c, RN_PEEK, 1).remaining, c.limit.cap - 2);
    }
    p->close(p);
}

static void a_refusal_charges_nothing(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(p, store, kind, kind);

        assert_false(ask_now(&c, RN_TAKE, c.limit.cap + 1).allowed);
        assert_int_equal(ask_now(&c, RN_TAKE, c.limit.cap + 1).retry_after_ns, RN_NEVER);
        assert_true(ask_now(&c, RN_TAKE, c.limit.cap - 1).allowed);
        for (unsigned i = 0; i < 5; i++)
            assert_false(ask_now(&c, RN_TAKE, 2).allowed);
        assert_true(ask_now(&c, RN_TAKE, 1).allowed);
    }
    p->close(p);
}

static void what_was_given_back_can_be_taken_again(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(p, store, kind, kind);

        assert_true(ask_now(&c, RN_TAKE, 1).allowed);
        struct rn_answer last = ask_store(
            &c, &(struct rn_ask){
                    .op = RN_TAKE, .now_ns = c.now, .cost = 2, .id = 2, .lease_ns = MINUTE});
        assert_int_equal(last.remaining, c.limit.cap - 3);
        struct rn_ask back = {.op = RN_GIVE_BACK,
                              .now_ns = c.now,
                              .cost = 2,
                              .id = 2,
                              .at_ns = c.now,
                              .mark = last.mark};
        struct rn_answer a = ask_store(&c, &back);

        assert_true(a.allowed);
        assert_int_equal(a.remaining, c.limit.cap - 1);
        assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, c.limit.cap - 1);
    }
    p->close(p);
}

static void giving_back_to_a_key_without_state_does_nothing(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(p, store, kind, kind);
        struct rn_ask back = {
            .op = RN_GIVE_BACK, .now_ns = c.now, .cost = 1, .id = 1, .at_ns = c.now, .mark = c.now};

        assert_false(ask_store(&c, &back).allowed);
        assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, c.limit.cap);
    }
    p->close(p);
}

static void a_forced_charge_takes_what_is_left(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < PLACES; kind++) {
        struct client c = new_client(p, store, kind, kind);

        assert_int_equal(ask_now(&c, RN_FORCE, 1).remaining, c.limit.cap - 1);
        assert_int_equal(ask_now(&c, RN_FORCE, c.limit.cap).remaining, 0);
        assert_false(ask_now(&c, RN_TAKE, 1).allowed);
    }
    p->close(p);
}

static void a_reset_forgets_and_tells_whether_there_was_something(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(p, store, kind, kind);

        assert_false(ask_now(&c, RN_RESET, 0).allowed);
        ask_now(&c, RN_TAKE, c.limit.cap);
        assert_false(ask_now(&c, RN_TAKE, 1).allowed);
        struct rn_answer a = ask_now(&c, RN_RESET, 0);

        assert_true(a.allowed);
        assert_int_equal(a.remaining, c.limit.cap);
        assert_int_equal(ask_now(&c, RN_TAKE, 1).remaining, c.limit.cap - 1);
        c.now += 2 * HOUR;
        assert_false(ask_now(&c, RN_RESET, 0).allowed); /* idle by then: nothing was spent */
    }
    p->close(p);
}

static void a_key_is_fresh_again_when_the_reset_time_has_come(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(p, store, kind, kind);
        struct rn_answer a = ask_now(&c, RN_TAKE, c.limit.cap);

        assert_true(a.allowed && a.reset_after_ns > 0);
        c.now += a.reset_after_ns - 1;
        assert_false(ask_now(&c, RN_PEEK, c.limit.cap).allowed);
        c.now += 1;
        assert_true(ask_now(&c, RN_TAKE, c.limit.cap).allowed);
    }
    p->close(p);
}

static void the_oldest_charge_has_the_age_of_its_entry_or_window(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);
    static const int64_t expected[KINDS] = {
        [TOKENS] = RN_NEVER,      [QUEUE] = RN_NEVER,        [STEPS] = RN_NEVER,
        [FINE] = RN_NEVER,        [SHORT_WINDOW] = RN_NEVER, [LOG] = 5 * SECOND,
        [SMALL_LOG] = 5 * SECOND, [SUBS] = 5 * SECOND,       [PLACES] = RN_NEVER,
    };

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(p, store, kind, kind);

        assert_true(ask_now(&c, RN_OLDEST, 0).oldest_ns == RN_NEVER);
        ask_now(&c, RN_TAKE, 1);
        c.now += 5 * SECOND;
        int64_t age = ask_now(&c, RN_OLDEST, 0).oldest_ns;

        if (expected[kind] != 0)
            assert_true(age == expected[kind]);
        else /* the window it fell into began before it, by a period at most */
            assert_true(age >= 5 * SECOND && age <= 5 * SECOND + c.limit.period_ns);
    }
    p->close(p);
}

/* ---- single forms */

static struct rn_answer lease(struct client *c, enum rn_op op, uint64_t id, int64_t lease_ns)
{
    return ask_store(
        c, &(struct rn_ask){
               .op = op, .now_ns = c->now, .cost = op == RN_TAKE, .id = id, .lease_ns = lease_ns});
}

static void places_are_held_until_released_or_run_out(void **state)
{
    struct plugged_store *p = *state;
    struct client c = new_client(p, p->open(p), PLACES, 1);

    c.limit = compiled(&(struct ration_limit){.algorithm = RATION_CONCURRENCY, .amount = 2});
    assert_true(lease(&c, RN_TAKE, 11, MINUTE).allowed);
    assert_true(lease(&c, RN_TAKE, 12, 10 * SECOND).allowed);
    assert_false(lease(&c, RN_TAKE, 13, MINUTE).allowed);
    assert_true(lease(&c, RN_TAKE, 13, MINUTE).retry_after_ns == 10 * SECOND);

    assert_true(lease(&c, RN_RELEASE, 11, 0).allowed);
    assert_false(lease(&c, RN_RELEASE, 11, 0).allowed); /* once */
    assert_true(lease(&c, RN_TAKE, 13, MINUTE).allowed);

    c.now += 9 * SECOND;
    assert_true(lease(&c, RN_RENEW, 12, 10 * SECOND).allowed);
    c.now += 9 * SECOND;
    assert_false(lease(&c, RN_TAKE, 14, MINUTE).allowed);
    c.now += SECOND;
    assert_false(lease(&c, RN_RENEW, 12, MINUTE).allowed); /* too late */
    assert_true(lease(&c, RN_TAKE, 14, MINUTE).allowed);
    assert_false(lease(&c, RN_RELEASE, 999, 0).allowed);
    p->close(p);
}

static void unlimited_admits_everything(void **state)
{
    struct plugged_store *p = *state;
    struct client c = new_client(p, p->open(p), TOKENS, 1);

    c.limit = compiled(&(struct ration_limit){.algorithm = RATION_UNLIMITED});
    for (unsigned op = RN_PEEK; op <= RN_RESET; op++) {
        struct rn_answer a = ask_now(&c, op, UINT64_MAX / 2);

        assert_true(a.allowed);
        assert_true(a.remaining == UINT64_MAX);
        assert_true(op != RN_OLDEST || a.oldest_ns == RN_NEVER);
    }
    p->close(p);
}

static void a_limit_of_nothing_refuses_everything(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct ration_limit spec = every_form[kind].spec[0];
        struct client c = new_client(p, store, kind, kind);

        spec.amount = 0;
        spec.queue = 0;
        c.limit = compiled(&spec);
        assert_false(ask_now(&c, RN_TAKE, 1).allowed);
        assert_true(ask_now(&c, RN_TAKE, 1).retry_after_ns == RN_NEVER);
        assert_int_equal(ask_now(&c, RN_FORCE, 1).remaining, 0);
        assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, 0);
    }
    p->close(p);
}

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
        apply_batch(p, store, batch, 16);
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
        apply_batch(p, store, batch, n);
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
        struct client c = new_client(p, store, kinds[i], kinds[i]);

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
    static const unsigned kinds[] = {WINDOW, FIRST_WINDOW, SHORT_WINDOW, COUNTER,
                                     SUBS,   SMALL_LOG,    LOG,          PLACES};

    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct ration_limit *specs = every_form[kinds[i]].spec;
        struct client c = new_client(p, store, kinds[i], kinds[i]);

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
    struct client c = new_client(p, store, WINDOW, 1);

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
    struct client c = new_client(p, p->open(p), FINE, 1);
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

/* ---- anything at all */

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
        ask.op = RN_FORCE;
        break;
    case 3:
        ask.op = random_below(10) == 0 ? RN_RESET : RN_PEEK;
        break;
    case 4:
    case 5:
    case 6:
        ask.op = kind != PLACES ? RN_GIVE_BACK : random_below(2) ? RN_RENEW : RN_RELEASE;
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
        (ask->op != RN_OLDEST || got->oldest_ns == want->oldest_ns))
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

        apply_batch(p, store, &c, 1);
        assert_int_equal(c.error, 0);
        cell_apply(&cells[at], limit, &c.ask, &want);
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

#define CONTRACT_TEST(f, store)                                                                    \
    {                                                                                              \
#f, f, NULL, NULL, store                                                                   \
    }
#define CONTRACT_TESTS(store)                                                                      \
    CONTRACT_TEST(the_limits_cover_every_form, store),                                             \
        CONTRACT_TEST(a_fresh_key_admits_its_capacity_and_no_more, store),                         \
        CONTRACT_TEST(a_look_charges_nothing, store),                                              \
        CONTRACT_TEST(a_refusal_charges_nothing, store),                                           \
        CONTRACT_TEST(what_was_given_back_can_be_taken_again, store),                              \
        CONTRACT_TEST(giving_back_to_a_key_without_state_does_nothing, store),                     \
        CONTRACT_TEST(a_forced_charge_takes_what_is_left, store),                                  \
        CONTRACT_TEST(a_reset_forgets_and_tells_whether_there_was_something, store),               \
        CONTRACT_TEST(a_key_is_fresh_again_when_the_reset_time_has_come, store),                   \
        CONTRACT_TEST(the_oldest_charge_has_the_age_of_its_entry_or_window, store),                \
        CONTRACT_TEST(places_are_held_until_released_or_run_out, store),                           \
        CONTRACT_TEST(unlimited_admits_everything, store),                                         \
        CONTRACT_TEST(a_limit_of_nothing_refuses_everything, store),                               \
        CONTRACT_TEST(charges_of_one_key_in_a_batch_are_applied_in_order, store),                  \
        CONTRACT_TEST(a_batch_answers_as_single_calls_do, store),                                  \
        CONTRACT_TEST(buckets_keep_the_share_spent_when_the_amount_changes, store),                \
        CONTRACT_TEST(windows_and_logs_keep_their_count_when_the_amount_changes, store),           \
        CONTRACT_TEST(a_window_crosses_the_bound_of_packing_in_both_directions, store),            \
        CONTRACT_TEST(a_bucket_crosses_into_fractions_of_a_nanosecond_and_back, store),            \
        CONTRACT_TEST(random_operations_agree_with_a_private_state, store)

#endif
