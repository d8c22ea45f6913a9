/* SPDX-License-Identifier: Apache-2.0 */
/* The keys refused most often. */
#include "fixture.h"

#include <stdio.h>

#include "limiter/top.h"

enum { API, WATCHED };

static struct ration *open_some(void)
{
    const struct ration_named limits[] = {
        [API] = named("api", "1 per minute"),
        [WATCHED] = flagged(named("watched", "1 per minute"), RATION_SHADOW),
    };

    return open_limits(limits, COUNT(limits));
}

/* One admitted, then `times` refused. */
static void refuse(struct ration *r, const char *key, unsigned times, int64_t now_ns)
{
    for (unsigned i = 0; i <= times; i++)
        take(r, API, key, 1, now_ns);
}

static void refused_keys_are_listed_by_how_often(void **state)
{
    struct ration *r = open_some();
    struct ration_top top[8];

    (void)state;
    assert_int_equal(ration_top(r, top, 8), 0);
    refuse(r, "some", 5, T0);
    refuse(r, "many", 50, T0);
    refuse(r, "few", 2, T0);
    refuse(r, "none", 0, T0);
    assert_int_equal(ration_top(r, top, 8), 3);
    assert_string_equal(top[0].name, "many");
    assert_int_equal(top[0].name_len, 4);
    assert_int_equal(top[0].refused, 50);
    assert_int_equal(top[0].limit, API);
    assert_int_equal(top[1].refused, 5);
    assert_string_equal(top[2].name, "few");
    assert_int_equal(ration_top(r, top, 2), 2);
    assert_int_equal(ration_top(r, NULL, 0), 0);
    ration_close(r);
}

static void checks_and_limits_given_per_call_are_listed_too(void **state)
{
    struct ration *r = open_some();
    struct ration_limit closed = named("", "0 per second").limit;
    struct ration_charge c[] = {{.ad_hoc = &closed, .key = "x", .key_len = 1, .cost = 1},
                                charge(API, "y", 1)};
    struct ration_decision d;
    struct ration_top top[8];

    (void)state;
    assert_int_equal(ration_check(r, c, 2, T0, &d), 0);
    assert_int_equal(ration_top(r, top, 8), 1); /* y would have been admitted */
    assert_string_equal(top[0].name, "x");
    assert_int_equal(top[0].limit, UINT32_MAX);
    ration_close(r);
}

static void shadow_limits_neither_refuse_nor_list_keys(void **state)
{
    struct ration *r = open_some();
    struct ration_top top[8];

    (void)state;
    for (int i = 0; i < 5; i++)
        take(r, WATCHED, "me", 1, T0);
    assert_int_equal(ration_top(r, top, 8), 0);
    ration_close(r);
}

static uint64_t hash_of(struct ration *r, const char *key)
{
    struct ration_top top[8];
    size_t count = ration_top(r, top, 8);

    for (size_t i = 0; i < count; i++)
        if (strcmp(top[i].name, key) == 0)
            return top[i].hash;
    fail_msg("%s is not listed", key);
    return 0;
}

static void the_last_refusals_of_a_key_are_known_the_newest_first(void **state)
{
    struct ration *r = open_some();
    int64_t at_ns[RN_TOP_LAST];

    (void)state;
    assert_int_equal(rn_top_last(r->top, 12345, at_ns), 0);
    for (int i = 0; i < 4; i++) /* the first is admitted */
        take(r, API, "me", 1, T0 + i * (SECOND / 1000));
    assert_int_equal(rn_top_last(r->top, hash_of(r, "me"), at_ns), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(at_ns[i], T0 + (3 - i) * (SECOND / 1000));
    for (int i = 4; i < 30; i++)
        take(r, API, "me", 1, T0 + i * (SECOND / 1000));
    assert_int_equal(rn_top_last(r->top, hash_of(r, "me"), at_ns), RN_TOP_LAST);
    for (int i = 0; i < RN_TOP_LAST; i++)
        assert_int_equal(at_ns[i], T0 + (29 - i) * (SECOND / 1000));
    ration_close(r);
}

static void a_key_that_takes_an_entry_over_has_no_refusals_of_the_former(void **state)
{
    struct ration *r = open_some();
    int64_t at_ns[RN_TOP_LAST];
    char key[16];

    (void)state;
    for (int i = 0; i < RN_TOP_ENTRIES; i++) {
        snprintf(key, sizeof key, "key %d", i);
        refuse(r, key, i == 0 ? 2 : 3, T0);
    }
    refuse(r, "late", 1,
           T0 + (SECOND / 1000)); /* in the place of key 0, whose count it takes over */
    assert_int_equal(rn_top_last(r->top, hash_of(r, "late"), at_ns), 1);
    assert_int_equal(at_ns[0], T0 + (SECOND / 1000));
    ration_close(r);
}

static void names_are_cut_and_may_be_unknown(void **state)
{
    struct ration *r = open_some();
    char key[101];
    struct ration_top top[8];

    (void)state;
    memset(key, 'k', 100);
    key[100] = '\0';
    refuse(r, key, 2, T0);
    struct ration_charge c = {.limit = API, .hash = ration_hash(r, API, "me", 2), .cost = 1};

    for (int i = 0; i < 2; i++)
        assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(ration_top(r, top, 8), 2);
    assert_int_equal(top[0].name_len, 63);
    assert_int_equal(strlen(top[0].name), 63);
    assert_int_equal(top[1].name_len, 0);

    take(r, API, "me", 1, T0); /* now its name is known */
    assert_int_equal(ration_top(r, top, 8), 2);
    assert_string_equal(top[1].name, "me");
    assert_int_equal(top[1].refused, 2);
    ration_close(r);
}

static void frequent_keys_stay_in_a_crowd_of_rare_ones(void **state)
{
    struct ration *r = open_some();
    struct ration_top top[RN_TOP_ENTRIES + 1];
    char key[16];
    int64_t t = T0;

    (void)state;
    for (unsigned i = 0; i < 2000; i++, t += SECOND / 100) {
        snprintf(key, sizeof key, "rare %u", i);
        refuse(r, key, 1, t);
        refuse(r, i % 2 ? "hot" : "hotter", i % 2 ? 5 : 9, t);
    }
    assert_int_equal(ration_top(r, top, COUNT(top)), RN_TOP_ENTRIES);
    assert_string_equal(top[0].name, "hotter");
    assert_string_equal(top[1].name, "hot");
    assert_true(top[0].refused >= 9000 && top[1].refused >= 5000);
    assert_true(top[2].refused < 100);
    ration_close(r);
}

static void a_flood_is_sampled_and_its_count_stays_right(void **state)
{
    struct ration *r = open_some();
    struct ration_top top[1];
    unsigned times = 100 * RN_TOP_EXACT;

    (void)state;
    refuse(r, "flood", times, T0);
    assert_int_equal(ration_top(r, top, 1), 1);
    uint64_t counted = top[0].refused;

    assert_in_range(counted, times - 128, times + 128); /* one in 128 at the end */
    refuse(r, "flood", 100, T0 + 2 * SECOND);           /* a new slice is exact again */
    assert_int_equal(ration_top(r, top, 1), 1);
    assert_int_equal(top[0].refused, counted + 101);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_keys_are_listed_by_how_often),
        cmocka_unit_test(checks_and_limits_given_per_call_are_listed_too),
        cmocka_unit_test(shadow_limits_neither_refuse_nor_list_keys),
        cmocka_unit_test(the_last_refusals_of_a_key_are_known_the_newest_first),
        cmocka_unit_test(a_key_that_takes_an_entry_over_has_no_refusals_of_the_former),
        cmocka_unit_test(names_are_cut_and_may_be_unknown),
        cmocka_unit_test(frequent_keys_stay_in_a_crowd_of_rare_ones),
        cmocka_unit_test(a_flood_is_sampled_and_its_count_stays_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
