/* SPDX-License-Identifier: Apache-2.0 */
/* Concurrency limits: places, their leases, and what they are not. */
#include "fixture.h"

enum { API, PLACES, CROWD, WATCHED };

static struct ration *open_some(void)
{
    const struct ration_named limits[] = {
        [API] = named("api", "10 per second"),
        [PLACES] = named("places", "2 concurrent"),
        [CROWD] = named("crowd", "1000 concurrent"),
        [WATCHED] = flagged(named("watched", "1 concurrent"), RATION_SHADOW),
    };

    return open_limits(limits, COUNT(limits));
}

static void places_are_held_until_released_or_expired(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(PLACES, "me", 0); /* 0: one place */
    uint64_t first, second, third = 1;

    (void)state;
    assert_int_equal(ration_acquire(r, &c, 0, T0, &first), 0);
    assert_int_equal(c.verdict.remaining, 1);
    assert_int_equal(ration_acquire(r, &c, 10 * SECOND, T0, &second), 0);
    assert_true(first != 0 && second != 0 && first != second);
    assert_int_equal(ration_acquire(r, &c, 0, T0, &third), 0);
    assert_false(c.verdict.allowed);
    assert_int_equal(c.verdict.retry_after_ns, 10 * SECOND);
    assert_int_equal(third, 0);

    assert_int_equal(ration_release(r, &c, first, T0), 0);
    assert_int_equal(c.verdict.remaining, 1);
    assert_int_equal(ration_release(r, &c, first, T0), RATION_EGONE);
    assert_int_equal(ration_renew(r, &c, second, 30 * SECOND, T0 + 9 * SECOND), 0);
    assert_int_equal(left(r, PLACES, "me", T0 + 38 * SECOND), 1);
    assert_int_equal(left(r, PLACES, "me", T0 + 39 * SECOND), 2);
    assert_int_equal(ration_renew(r, &c, second, 0, T0 + 39 * SECOND), RATION_EGONE);
    ration_close(r);
}

static void a_place_can_be_given_back_by_its_receipt(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(PLACES, "me", 2);
    uint64_t lease;

    (void)state;
    assert_int_equal(ration_acquire(r, &c, 0, T0, &lease), 0);
    assert_int_equal(left(r, PLACES, "me", T0), 0);
    assert_int_equal(ration_give_back(r, &c, T0), 0);
    assert_int_equal(left(r, PLACES, "me", T0), 2);
    assert_int_equal(ration_release(r, &c, lease, T0), RATION_EGONE);
    ration_close(r);
}

static void places_and_rates_are_not_mixed_up(void **state)
{
    struct ration *r = open_some();
    struct ration_charge place = charge(PLACES, "me", 1), rate = charge(API, "me", 1);
    uint64_t lease = 7;

    (void)state;
    assert_int_equal(ration_take(r, &place, T0), RATION_EINVAL);
    assert_int_equal(ration_acquire(r, &rate, 0, T0, &lease), RATION_EINVAL);
    assert_int_equal(ration_acquire(r, &place, -1, T0, &lease), RATION_EINVAL);
    assert_int_equal(ration_acquire(r, &place, RATION_LEASE_MAX_NS + 1, T0, &lease), RATION_EINVAL);
    assert_int_equal(lease, 7);
    assert_int_equal(ration_renew(r, &rate, lease, 0, T0), RATION_EINVAL);
    assert_int_equal(ration_release(r, &rate, lease, T0), RATION_EINVAL);
    assert_int_equal(ration_release(r, &place, 0, T0), RATION_EINVAL);
    ration_close(r);
}

static void every_lease_has_an_id_of_its_own(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(CROWD, "me", 1);
    uint64_t ids[1000];

    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(ration_acquire(r, &c, 0, T0, &ids[i]), 0);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(ids[i], ids[j]);
    }
    assert_int_equal(left(r, CROWD, "me", T0), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ration_release(r, &c, ids[i], T0), 0);
    assert_int_equal(left(r, CROWD, "me", T0), 1000);
    ration_close(r);
}

static void a_shadow_limit_of_places_counts_what_it_would_refuse(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(WATCHED, "me", 1);
    struct ration_totals t;
    uint64_t lease;

    (void)state;
    assert_int_equal(ration_acquire(r, &c, 0, T0, &lease), 0);
    assert_int_equal(ration_acquire(r, &c, 0, T0, &lease), 0);
    assert_false(c.verdict.allowed);
    ration_totals(r, &t);
    assert_int_equal(t.allowed, 2);
    assert_int_equal(t.shadowed, 1);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_held_until_released_or_expired),
        cmocka_unit_test(a_place_can_be_given_back_by_its_receipt),
        cmocka_unit_test(places_and_rates_are_not_mixed_up),
        cmocka_unit_test(every_lease_has_an_id_of_its_own),
        cmocka_unit_test(a_shadow_limit_of_places_counts_what_it_would_refuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
