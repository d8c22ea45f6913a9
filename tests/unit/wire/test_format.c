/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers written without printf, against printf. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/format.h"

static void demand_u64(uint64_t n)
{
    char found[RN_FORMAT_U64_MAX + 1], expected[RN_FORMAT_U64_MAX + 1];

    *rn_format_u64(found, n) = '\0';
    snprintf(expected, sizeof expected, "%" PRIu64, n);
    assert_string_equal(found, expected);
}

static void numbers_are_written_at_every_power_of_two_and_ten(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 20000; n++)
        demand_u64(n);
    for (int bit = 0; bit < 64; bit++)
        for (uint64_t near = 0; near < 3; near++)
            demand_u64((UINT64_C(1) << bit) + near - 1);
    for (uint64_t power = 1; power < UINT64_MAX / 10; power *= 10)
        for (uint64_t near = 0; near < 3; near++)
            demand_u64(power * 10 + near - 1);
    for (uint64_t n = 1; n < UINT64_C(10000000000000000); n += n / 1000 + 1)
        demand_u64(n);
    demand_u64(UINT64_MAX);
}

/* The definition, in milliseconds. */
static void every_millisecond_has_its_shortest_form(void **state)
{
    (void)state;
    for (int64_t ms = 0; ms < 3000; ms++) {
        char found[RN_FORMAT_SECONDS_MAX + 1], expected[RN_FORMAT_SECONDS_MAX + 1];

        for (int64_t below = 0; below < 1000000; below += 499999) {
            if (ms == 0 && below > 0)
                break;
            *rn_format_seconds(found, ms * 1000000 - below) = '\0';
            snprintf(expected, sizeof expected, "%g", (double)ms / 1000);
            assert_string_equal(found, expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_at_every_power_of_two_and_ten),
        cmocka_unit_test(every_millisecond_has_its_shortest_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
