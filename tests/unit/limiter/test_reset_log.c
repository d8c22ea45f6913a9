/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator has forgiven, and reservations that were made before. */
#include "ticket_fixture.h"

#include <stdio.h>

static void reset(struct ration *r, const char *words, int64_t now_ns)
{
    struct words w;

    split_words(&w, words);
    assert_int_equal(ration_state_reset(r, &w.request, NULL, 0, now_ns, NULL), 0);
}

static const char *const forgiving[] = {"token-bucket", "fixed-window", "sliding-window",
                                        "sliding-log"};

static struct ration *open_forgiving(const char *algorithm)
{
    char rules[200];

    snprintf(rules, sizeof rules,
             "limits: [{name: api, key: user, algorithm: %s, limit: 10 per hour}]", algorithm);
    return open_rules(rules);
}

static void what_was_reset_is_not_given_back_as_well(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(forgiving); i++) {
        struct ration *r = open_forgiving(forgiving[i]);
        struct slip slip, other;

        reserve(r, "user=ann", 8, T0, &slip);
        reserve(r, "user=bob", 8, T0, &other);
        reset(r, "user=ann", T0 + SECOND);
        assert_int_equal(admitted(r, "user=ann", 20, T0 + SECOND), 10);
        assert_int_equal(refund(r, &slip, T0 + SECOND), 0);
        assert_int_equal(admitted(r, "user=ann", 20, T0 + SECOND), 0);
        assert_int_equal(refund(r, &other, T0 + SECOND), 0); /* it was not his */
        assert_in_range(left_of(r, "api", "user=bob", T0 + SECOND), 9, 10);
        ration_close(r);
    }
}

static void what_was_charged_after_a_reset_is_given_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(forgiving); i++) {
        struct ration *r = open_forgiving(forgiving[i]);
        struct slip slip;

        reset(r, "user=ann", T0);
        reserve(r, "user=ann", 10, T0 + 1, &slip);
        assert_int_equal(refund(r, &slip, T0 + 1), 0);
        assert_int_equal(left_of(r, "api", "user=ann", T0 + 1), 10);
        ration_close(r);
    }
}

static void of_several_resets_the_last_one_counts(void **state)
{
    struct ration *r = open_forgiving("fixed-window");
    struct slip slip;

    (void)state;
    reset(r, "user=ann", T0);
    reserve(r, "user=ann", 4, T0 + SECOND, &slip);
    reset(r, "user=ann", T0 + 2 * SECOND);
    assert_int_equal(admitted(r, "user=ann", 4, T0 + 2 * SECOND), 4);
    assert_int_equal(commit(r, &slip, 1, T0 + 3 * SECOND), 0);
    assert_int_equal(left_of(r, "api", "user=ann", T0 + 3 * SECOND), 6);
    ration_close(r);
}

static void what_is_given_back_without_a_reservation_is_judged_alike(void **state)
{
    struct ration *r = open_forgiving("fixed-window");
    struct ration_outcome out = decide(r, "user=ann", T0);

    (void)state;
    reset(r, "user=ann", T0 + SECOND);
    assert_int_equal(admitted(r, "user=ann", 10, T0 + SECOND), 10);
    assert_int_equal(ration_outcome_give_back(r, &out, T0 + SECOND), 0);
    assert_int_equal(left_of(r, "api", "user=ann", T0 + SECOND), 0);
    ration_close(r);
}

static void an_entry_lasts_no_longer_than_what_it_forgave_could_have(void **state)
{
    struct ration *r = open_rules("limits: [{name: api, key: user, limit: 10 per minute}]");
    struct ration_memory memory;

    (void)state;
    reset(r, "user=ann", T0);
    ration_memory(r, T0 + 60 * SECOND, &memory);
    assert_int_equal(memory.live, 1);
    ration_memory(r, T0 + 122 * SECOND, &memory);
    assert_int_equal(memory.live, 0);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_reset_is_not_given_back_as_well),
        cmocka_unit_test(what_was_charged_after_a_reset_is_given_back),
        cmocka_unit_test(of_several_resets_the_last_one_counts),
        cmocka_unit_test(what_is_given_back_without_a_reservation_is_judged_alike),
        cmocka_unit_test(an_entry_lasts_no_longer_than_what_it_forgave_could_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
