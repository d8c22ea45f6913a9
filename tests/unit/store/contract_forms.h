/* SPDX-License-Identifier: Apache-2.0 */
/* What limits do: what holds for every form, then what single ones have of their own. */
#ifndef TEST_STORE_CONTRACT_FORMS_H
#define TEST_STORE_CONTRACT_FORMS_H

#include "contract_client.h"

/* ---- every form */

static void the_limits_cover_every_form(void **state)
{
    unsigned seen = 0, known = 0;

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct rn_limit a = compiled(&every_form[kind].spec[0]);
        struct rn_limit b = compiled(&every_form[kind].spec[1]);

        assert_int_equal(a.form, every_form[kind].form[0]);
        assert_int_equal(b.form, every_form[kind].form[1]);
        assert_true(a.shape == b.shape);
        seen |= 1u << a.form;
    }
    for (unsigned form = 0; form < 32; form++)
        if (rn_form_algorithm((enum rn_form)form) != RATION_UNLIMITED)
            known |= 1u << form;
    assert_int_equal(seen, known);
}

static void a_fresh_key_admits_its_capacity_and_no_more(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(store, kind, kind);
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
        struct client c = new_client(store, kind, kind);

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
        struct client c = new_client(store, kind, kind);

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
        struct client c = new_client(store, kind, kind);

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
        struct client c = new_client(store, kind, kind);
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
        struct client c = new_client(store, kind, kind);

        assert_int_equal(ask_now(&c, RN_FORCE, 1).remaining, c.limit.cap - 1);
        assert_int_equal(ask_now(&c, RN_FORCE, c.limit.cap).remaining, 0);
        assert_false(ask_now(&c, RN_TAKE, 1).allowed);
    }
    p->close(p);
}

static void a_drain_takes_what_is_left_and_a_credit_what_is_spent(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < PLACES; kind++) {
        struct client c = new_client(store, kind, kind);

        assert_true(ask_now(&c, RN_DRAIN, 2).allowed);
        struct rn_answer refused = ask_now(&c, RN_DRAIN, c.limit.cap);

        assert_false(refused.allowed);
        assert_int_equal(refused.drained, c.limit.cap - 2);
        assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, 0);
        assert_int_equal(ask_now(&c, RN_CREDIT, 1).remaining, 1);
        assert_int_equal(ask_now(&c, RN_CREDIT, UINT64_MAX).remaining, c.limit.cap);
        assert_false(ask_now(&c, RN_CREDIT, 1).allowed);
    }
    p->close(p);
}

static void a_reset_forgets_and_tells_whether_there_was_something(void **state)
{
    struct plugged_store *p = *state;
    struct rn_store *store = p->open(p);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(store, kind, kind);

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
        struct client c = new_client(store, kind, kind);
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
    enum { IN_WINDOW = 1 }; /* the window of the charge began before it, by a period at most */
    static const int64_t expected[KINDS] = {
        [WINDOW] = IN_WINDOW, [FIRST_WINDOW] = IN_WINDOW, [COUNTER] = IN_WINDOW,
        [SUBS] = 5 * SECOND,  [SMALL_LOG] = 5 * SECOND,   [LOG] = 5 * SECOND,
    };

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct client c = new_client(store, kind, kind);

        assert_true(ask_now(&c, RN_OLDEST, 0).oldest_ns == RN_NEVER);
        ask_now(&c, RN_TAKE, 1);
        c.now += 5 * SECOND;
        int64_t age = ask_now(&c, RN_OLDEST, 0).oldest_ns;

        if (expected[kind] == IN_WINDOW)
            assert_true(age >= 5 * SECOND && age <= 5 * SECOND + c.limit.period_ns);
        else /* other forms do not tell */
            assert_true(age == (expected[kind] != 0 ? expected[kind] : RN_NEVER));
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
    struct client c = new_client(p->open(p), PLACES, 1);

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
    struct client c = new_client(p->open(p), TOKENS, 1);

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
        struct client c = new_client(store, kind, kind);

        spec.amount = 0;
        spec.queue = spec.adaptive_min = 0;
        c.limit = compiled(&spec);
        assert_false(ask_now(&c, RN_TAKE, 1).allowed);
        assert_true(ask_now(&c, RN_TAKE, 1).retry_after_ns == RN_NEVER);
        assert_int_equal(ask_now(&c, RN_FORCE, 1).remaining, 0);
        assert_int_equal(ask_now(&c, RN_PEEK, 0).remaining, 0);
    }
    p->close(p);
}

#endif
