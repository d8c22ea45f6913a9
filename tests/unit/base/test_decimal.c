/* SPDX-License-Identifier: Apache-2.0 */
/* Decimal numbers: which texts are some, and which of two is the greater. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/decimal.h"

static struct rn_decimal parse(const char *text)
{
    struct rn_decimal number;

    if (!rn_decimal_parse(rn_slice_of(text), &number))
        fail_msg("%s is not a number", text);
    return number;
}

static int compare(const char *a, const char *b)
{
    struct rn_decimal x = parse(a), y = parse(b);
    int order = rn_decimal_compare(&x, &y);

    assert_int_equal(rn_decimal_compare(&y, &x), -order);
    return order;
}

static void other_texts_are_no_numbers(void **state)
{
    static const char *const texts[] = {"",    "-",   "+1",   ".5",   "5.",       "1e",  "1e+",
                                        "1_0", " 1",  "1 ",   "0x1F", "1.2.3",    "1,5", "10k",
                                        "e5",  "--1", "1e5.", "NaN",  "Infinity", "1-1", "-e1"};
    struct rn_decimal number;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (rn_decimal_parse(rn_slice_of(texts[i]), &number))
            fail_msg("%s is a number", texts[i]);
    assert_false(rn_decimal_parse((struct rn_slice){NULL, 0}, &number));
    assert_false(rn_decimal_parse((struct rn_slice){"1\0002", 3}, &number));
}

static void one_number_has_many_spellings(void **state)
{
    (void)state;
    assert_int_equal(compare("7", "007.00"), 0);
    assert_int_equal(compare("0", "-0.0e9"), 0);
    assert_int_equal(compare("1200", "1.2e3"), 0);
    assert_int_equal(compare("0.0012", "12E-4"), 0);
    assert_int_equal(compare("-1000", "-1e+3"), 0);
    assert_int_equal(compare("100.5", "1005e-1"), 0);
}

static void the_greater_number_is_found(void **state)
{
    (void)state;
    assert_int_equal(compare("9", "10"), -1);
    assert_int_equal(compare("10.01", "10.001"), 1);
    assert_int_equal(compare("10", "10.0000000000000000000000001"), -1);
    assert_int_equal(compare("-2", "-10"), 1);
    assert_true(compare("-1", "1") < 0);
    assert_int_equal(compare("0", "0.1"), -1);
    assert_int_equal(compare("0", "-0.1"), 1);
    assert_int_equal(compare("105", "10.5"), 1);
    assert_int_equal(compare("1.05", "1.5"), -1);
}

static void no_number_is_too_large(void **state)
{
    (void)state;
    assert_int_equal(compare("18446744073709551616", "18446744073709551615"), 1);
    assert_int_equal(compare("123456789012345678901234567890", "123456789012345678901234567891"),
                     -1);
    assert_int_equal(compare("1e400", "9e399"), 1);
    assert_int_equal(compare("1e99999999999999999999999", "1"), 1);
    assert_int_equal(compare("1e-99999999999999999999999", "0"), 1);
    assert_int_equal(compare("-1e99999999999999999999999", "-1"), -1);
}

/* --- random spellings, against whole numbers ----------------------------------------- */

static uint32_t random_below(uint32_t n)
{
    static uint64_t seed = 1;

    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

/* So many thousandths, somehow written. */
static void spell(int thousandths, char out[64])
{
    const char *sign = thousandths < 0 ? "-" : "";
    int size = thousandths < 0 ? -thousandths : thousandths;

    switch (random_below(4)) {
    case 0:
        sprintf(out, "%s%d.%03d", sign, size / 1000, size % 1000);
        break;
    case 1:
        sprintf(out, "%s000%d.%03d00", sign, size / 1000, size % 1000);
        break;
    case 2:
        sprintf(out, "%s%de-3", sign, size);
        break;
    default:
        sprintf(out, "%s0.%06de3", sign, size);
        break;
    }
}

static void spellings_compare_as_what_they_mean(void **state)
{
    char a[64], b[64];

    (void)state;
    for (int i = 0; i < 100000; i++) {
        int range = 1 + (int)random_below(20000);
        int x = (int)random_below((uint32_t)range) - range / 2;
        int y = random_below(4) ? (int)random_below((uint32_t)range) - range / 2 : x;

        spell(x, a);
        spell(y, b);
        int order = compare(a, b);
        if ((order > 0) - (order < 0) != (x > y) - (x < y))
            fail_msg("%s, %s: %d", a, b, order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_texts_are_no_numbers),
        cmocka_unit_test(one_number_has_many_spellings),
        cmocka_unit_test(the_greater_number_is_found),
        cmocka_unit_test(no_number_is_too_large),
        cmocka_unit_test(spellings_compare_as_what_they_mean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
