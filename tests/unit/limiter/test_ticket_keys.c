/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of tickets: the one that signs, those that are honoured, and which goes first. */
#include "ticket_fixture.h"

#include "limiter/limiter.h"

static struct rn_hash_key numbered(uint64_t n)
{
    return (struct rn_hash_key){n, ~n};
}

static bool honours(const struct rn_ticket_keys *keys, uint64_t n)
{
    struct rn_hash_key all[RN_TICKET_KEYS], key = numbered(n);
    size_t count = rn_ticket_keys_list(keys, all);

    for (size_t i = 0; i < count; i++)
        if (all[i].k0 == key.k0 && all[i].k1 == key.k1)
            return true;
    return false;
}

static void the_oldest_goes_but_never_the_one_that_signs(void **state)
{
    struct rn_ticket_keys keys;
    struct rn_hash_key key = numbered(0);

    (void)state;
    rn_ticket_keys_init(&keys, &key);
    for (uint64_t n = 1; n <= 3 * RN_TICKET_KEYS; n++) {
        key = numbered(n);
        rn_ticket_keys_add(&keys, &key, n == 2);
        assert_true(honours(&keys, n) && honours(&keys, n - 1));
        assert_true(rn_ticket_keys_signer(&keys).k0 == (n < 2 ? 0 : 2));
    }
    assert_true(honours(&keys, 2));
    assert_false(honours(&keys, 0));
    assert_false(honours(&keys, 3));
}

static void a_key_that_is_known_takes_no_place(void **state)
{
    struct rn_ticket_keys keys;
    struct rn_hash_key key = numbered(7), all[RN_TICKET_KEYS];

    (void)state;
    rn_ticket_keys_init(&keys, &key);
    for (uint64_t n = 0; n < 100; n++) {
        key = numbered(7 + n % 2);
        rn_ticket_keys_add(&keys, &key, true);
        assert_true(rn_ticket_keys_signer(&keys).k0 == key.k0);
    }
    assert_int_equal(rn_ticket_keys_list(&keys, all), 2);
}

static const char *none_is_unfit(const struct rn_limit *limit)
{
    (void)limit;
    return NULL;
}

/* Limiters that share, as nodes do, but have no shared store. */
static struct ration *open_node(uint64_t secret)
{
    const struct rn_hash_key published = {secret, 2};
    struct ration *r = open_limits(NULL, 0);

    assert_int_equal(rn_limiter_share(r, &published, none_is_unfit), 0);
    rules_at(r, tokens, T0);
    return r;
}

static void nodes_honour_each_other_once_they_have_a_key_in_common(void **state)
{
    struct ration *one = open_node(1), *two = open_node(1), *stranger = open_node(3);
    struct slip before, after;

    (void)state;
    rn_fallback_use(NULL);
    reserve(one, "user=ann", 1, T0, &before);
    assert_int_equal(refund(two, &before, T0), RATION_EINVAL); /* the same secret is not enough */
    rn_limiter_add_ticket_key(two, &one->ticket_key, true);
    rn_limiter_add_ticket_key(stranger, &one->ticket_key, true);
    assert_int_not_equal(refund(two, &before, T0), RATION_EINVAL);
    assert_int_equal(refund(stranger, &before, T0), RATION_EINVAL); /* nor is the key alone */
    reserve(two, "user=ann", 1, T0, &after);
    assert_int_not_equal(refund(one, &after, T0), RATION_EINVAL);
    ration_close(one);
    ration_close(two);
    ration_close(stranger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_goes_but_never_the_one_that_signs),
        cmocka_unit_test(a_key_that_is_known_takes_no_place),
        cmocka_unit_test(nodes_honour_each_other_once_they_have_a_key_in_common),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
