/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of status codes: by example, and every set survives being written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/native/statuses.h"

static unsigned size_of(const struct rn_statuses *set)
{
    unsigned n = 0;

    for (unsigned status = 0; status <= 1100; status++)
        n += rn_statuses_has(set, status);
    return n;
}

static void a_code_is_in_its_set_alone(void **state)
{
    (void)state;
    for (unsigned status = 0; status <= 9999; status++) {
        char word[8];
        struct rn_statuses set = {{0}};
        bool is_one = status >= 100 && status <= 599;

        snprintf(word, sizeof word, "%u", status);
        assert_int_equal(rn_statuses_add(&set, rn_slice_of(word)), is_one);
        assert_int_equal(rn_statuses_has(&set, status), is_one);
        assert_int_equal(size_of(&set), is_one);
    }
    assert_false(rn_statuses_has(&(struct rn_statuses){{UINT64_MAX, UINT64_MAX}}, UINT32_MAX));
}

static void a_class_has_a_hundred_codes(void **state)
{
    struct rn_statuses set = {{0}};

    (void)state;
    assert_true(rn_statuses_add(&set, RN_SLICE("5xx")));
    assert_int_equal(size_of(&set), 100);
    assert_true(rn_statuses_has(&set, 500) && rn_statuses_has(&set, 599));
    assert_true(rn_statuses_add(&set, RN_SLICE("1XX")));
    assert_true(rn_statuses_add(&set, RN_SLICE("503")));
    assert_int_equal(size_of(&set), 200);
}

static void other_words_are_not_added(void **state)
{
    static const char *const words[] = {"",     "x",    "5",   "50",  "5x",   "5xy", "50x",
                                        "5x0",  "0xx",  "6xx", "9xx", "xxx",  "099", "600",
                                        "401 ", " 401", "-40", "4.1", "5xxx", "40",  "4\xFF\xFF"};
    struct rn_statuses set = {{0}};

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_false(rn_statuses_add(&set, rn_slice_of(words[i])));
    assert_int_equal(size_of(&set), 0);
}

/* Reads what rn_statuses_write wrote. */
static struct rn_statuses read_back(const char *text)
{
    struct rn_statuses set = {{0}};

    while (*text != '\0') {
        size_t len = strcspn(text, ",");

        assert_true(rn_statuses_add(&set, (struct rn_slice){text, len}));
        text += len;
        text += strspn(text, ", ");
    }
    return set;
}

static void every_set_survives_being_written(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        struct rn_statuses set = {{0}}, again;
        char text[RN_STATUSES_TEXT];

        for (unsigned status = 100; status < 600; status++) {
            char word[8];

            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            snprintf(word, sizeof word, "%u", status);
            if ((seed >> 33) % 1000 >= i % 400) /* from all of them to few */
                rn_statuses_add(&set, rn_slice_of(word));
        }
        rn_statuses_write(&set, text);
        assert_true(strlen(text) < sizeof text);
        again = read_back(text);
        assert_memory_equal(&again, &set, sizeof set);
    }
}

static void whole_classes_are_written_as_such(void **state)
{
    struct rn_statuses set = {{0}};
    char text[RN_STATUSES_TEXT];

    (void)state;
    rn_statuses_write(&set, text);
    assert_string_equal(text, "");
    rn_statuses_add(&set, RN_SLICE("503"));
    rn_statuses_add(&set, RN_SLICE("4xx"));
    rn_statuses_add(&set, RN_SLICE("200"));
    rn_statuses_write(&set, text);
    assert_string_equal(text, "200, 4xx, 503");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_code_is_in_its_set_alone),
        cmocka_unit_test(a_class_has_a_hundred_codes),
        cmocka_unit_test(other_words_are_not_added),
        cmocka_unit_test(every_set_survives_being_written),
        cmocka_unit_test(whole_classes_are_written_as_such),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
