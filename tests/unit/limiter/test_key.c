/* SPDX-License-Identifier: Apache-2.0 */
/* One key of one limit: its hash, looking at it, giving back to it. */
#include "fixture.h"

enum { API, LOG };

static struct ration *open_some(void)
{
    const struct ration_named limits[] = {
        [API] = named("api", "10 per second"),
        [LOG] = with(named("log", "5 per 10s"), RATION_SLIDING_LOG),
    };

    return open_limits(limits, COUNT(limits));
}

/* --- keys ------------------------------------------------------------------ */

static void a_key_hashed_beforehand_is_the_same_key(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = {.limit = API, .hash = ration_hash(r, API, "me", 2), .cost = 3};

    (void)state;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(left(r, API, "me", T0), 7);
    ration_close(r);
}

static void parts_of_a_key_are_kept_apart(void **state)
{
    struct ration *r = open_some();
    const struct ration_part ab_c[] = {{"ab", 2}, {"c", 1}}, a_bc[] = {{"a", 1}, {"bc", 2}};
    const struct ration_part abc[] = {{"abc", 3}, {"", 0}};
    /* One part that spells out the lengths of two. */
    const struct ration_part forged = {"\2\0\0\0\0\0\0\0ab\1\0\0\0\0\0\0\0c", 19};
    uint64_t hash = ration_hash_parts(r, API, ab_c, 2);

    (void)state;
    assert_int_equal(ration_hash_parts(r, API, abc, 1), ration_hash(r, API, "abc", 3));
    assert_int_not_equal(hash, ration_hash_parts(r, API, a_bc, 2));
    assert_int_not_equal(hash, ration_hash_parts(r, API, abc, 1));
    assert_int_not_equal(hash, ration_hash_parts(r, API, &forged, 1));
    assert_int_not_equal(ration_hash_parts(r, API, abc, 2), ration_hash_parts(r, API, abc, 1));
    assert_int_not_equal(ration_hash_parts(r, API, abc, 0), ration_hash(r, API, "", 0));
    assert_int_not_equal(hash, ration_hash_parts(r, LOG, ab_c, 2));
    assert_int_equal(ration_hash_parts(r, 99, ab_c, 2), 0);
    assert_int_equal(ration_hash(r, 99, "a", 1), 0);
    ration_close(r);
}

static void limits_do_not_see_each_others_keys(void **state)
{
    struct ration_named limits[] = {named("a", "1 per minute"), named("b", "1 per minute")};
    struct ration *r = open_limits(limits, 2);
    struct ration_charge c = {.ad_hoc = &limits[0].limit, .key = "k", .key_len = 1, .cost = 1};

    (void)state;
    assert_true(take(r, 0, "k", 1, T0));
    assert_true(take(r, 1, "k", 1, T0));
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_true(c.verdict.allowed);
    ration_close(r);
}

/* --- looking --------------------------------------------------------------- */

static void a_peek_foretells_and_keeps_the_receipt(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(API, "me", 8);

    (void)state;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(ration_peek(r, &c, T0), 0);
    assert_false(c.verdict.allowed);
    assert_int_equal(c.verdict.remaining, 2);
    assert_int_equal(c.verdict.retry_after_ns, SECOND * 6 / 10);
    assert_int_equal(c.taken, 8);
    assert_int_equal(ration_give_back(r, &c, T0), 0);
    assert_int_equal(left(r, API, "me", T0), 10);
    ration_close(r);
}

static void the_oldest_charge_of_a_log_has_its_age(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(LOG, "me", 1);
    int64_t age = 0;

    (void)state;
    assert_int_equal(ration_oldest(r, &c, T0, &age), 0);
    assert_int_equal(age, RATION_NEVER);
    take(r, LOG, "me", 1, T0);
    take(r, LOG, "me", 1, T0 + SECOND);
    assert_int_equal(ration_oldest(r, &c, T0 + 3 * SECOND, &age), 0);
    assert_int_equal(age, 3 * SECOND);
    c.limit = API;
    take(r, API, "me", 1, T0);
    assert_int_equal(ration_oldest(r, &c, T0, &age), 0);
    assert_int_equal(age, RATION_NEVER);
    ration_close(r);
}

/* --- undoing --------------------------------------------------------------- */

static void a_charge_is_given_back_at_most_once(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(API, "me", 4);

    (void)state;
    take(r, API, "me", 5, T0);
    assert_int_equal(ration_take(r, &c, T0), 0);
    c.key = NULL; /* the receipt is enough */
    assert_int_equal(ration_give_back(r, &c, T0), 0);
    assert_int_equal(left(r, API, "me", T0), 5);
    assert_int_equal(c.taken, 0);
    assert_int_equal(ration_give_back(r, &c, T0), 0);
    assert_int_equal(left(r, API, "me", T0), 5);
    ration_close(r);
}

static void a_refused_charge_has_nothing_to_give_back(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(API, "me", 6);

    (void)state;
    take(r, API, "me", 5, T0);
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(ration_give_back(r, &c, T0), 0);
    assert_int_equal(left(r, API, "me", T0), 5);
    ration_close(r);
}

static void a_reset_lets_a_client_start_afresh(void **state)
{
    struct ration *r = open_some();
    struct ration_limit ad_hoc = named("", "3 per minute").limit;
    struct ration_charge c = charge(API, "me", 1);
    struct ration_charge a = {.ad_hoc = &ad_hoc, .key = "k", .key_len = 1, .cost = 3};

    (void)state;
    take(r, API, "me", 10, T0);
    take(r, API, "you", 10, T0);
    assert_int_equal(ration_reset(r, &c, T0), 0);
    assert_int_equal(left(r, API, "me", T0), 10);
    assert_int_equal(left(r, API, "you", T0), 0);
    assert_int_equal(ration_take(r, &a, T0), 0);
    assert_int_equal(ration_reset(r, &a, T0), 0);
    assert_int_equal(ration_peek(r, &a, T0), 0);
    assert_int_equal(a.verdict.remaining, 3);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_hashed_beforehand_is_the_same_key),
        cmocka_unit_test(parts_of_a_key_are_kept_apart),
        cmocka_unit_test(limits_do_not_see_each_others_keys),
        cmocka_unit_test(a_peek_foretells_and_keeps_the_receipt),
        cmocka_unit_test(the_oldest_charge_of_a_log_has_its_age),
        cmocka_unit_test(a_charge_is_given_back_at_most_once),
        cmocka_unit_test(a_refused_charge_has_nothing_to_give_back),
        cmocka_unit_test(a_reset_lets_a_client_start_afresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
