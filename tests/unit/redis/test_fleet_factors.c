/* SPDX-License-Identifier: Apache-2.0 */
/* What a node says about the factors that it asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/fleet/fleet_internal.h"

static void each_line_is_a_percentage_and_a_rule(void **state)
{
    struct rn_slice said = RN_SLICE("1 web-3.example\n50 api\n100 team.reports\n1 x"), rule;
    char host[RN_FLEET_HOST];
    unsigned percent;

    (void)state;
    assert_true(rn_fleet_factors_read_host(&said, host));
    assert_string_equal(host, "web-3.example");
    assert_true(rn_fleet_factors_read(&said, &percent, &rule));
    assert_int_equal(percent, 50);
    assert_true(rn_slice_is(rule, "api"));
    assert_true(rn_fleet_factors_read(&said, &percent, &rule));
    assert_int_equal(percent, 100);
    assert_true(rn_slice_is(rule, "team.reports"));
    assert_true(rn_fleet_factors_read(&said, &percent, &rule));
    assert_int_equal(percent, 1);
    assert_int_equal(said.len, 0);
}

static void a_malformed_line_is_left_out_and_the_next_one_counts(void **state)
{
    static const char *const bad[] = {"0 api",
                                      "101 api",
                                      "1000 api",
                                      "-5 api",
                                      "+5 api",
                                      "10",
                                      "10 ",
                                      "10api",
                                      " 10 api",
                                      "ten api",
                                      "",
                                      "5.5 api",
                                      "99999999999999999999 api"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rn_buf text = {0};
        struct rn_slice said, rule;
        unsigned percent;

        rn_buf_putf(&text, "%s\n20 api\n", bad[i]);
        said = rn_buf_slice(&text);
        assert_false(rn_fleet_factors_read(&said, &percent, &rule));
        assert_true(rn_fleet_factors_read(&said, &percent, &rule));
        assert_int_equal(percent, 20);
        rn_buf_done(&text);
    }
}

static void another_version_or_an_odd_name_says_nothing(void **state)
{
    static const char *const bad[] = {
        "",         "1",
        "1 ",       "2 web\n50 api\n",
        "1web\n",   "x",
        "1 we b\n", "1 w\x01\n",
        "50 api\n", "1 0123456789012345678901234567890123456789012345678901234567890123\n"};
    char host[RN_FLEET_HOST];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rn_slice said = rn_slice_of(bad[i]);

        assert_false(rn_fleet_factors_read_host(&said, host));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_a_percentage_and_a_rule),
        cmocka_unit_test(a_malformed_line_is_left_out_and_the_next_one_counts),
        cmocka_unit_test(another_version_or_an_odd_name_says_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
