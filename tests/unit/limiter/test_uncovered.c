/* SPDX-License-Identifier: Apache-2.0 */
/* What no rule covers: bounded, and without what may be a secret. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/siphash.h"
#include "limiter/effect/uncovered.h"

static const struct rn_hash_key secret = {1, 2};

static void note(struct rn_uncovered *u, const char *method, const char *path, size_t times)
{
    struct rn_stripe stripe = {.rowless = {.unmatched = 1}};
    struct ration_attribute attributes[] = {{"ip", 2, "192.0.2.1", 9},
                                            {"path", 4, path, strlen(path)},
                                            {"method", 6, method, strlen(method)}};
    struct ration_request request = {.attributes = attributes, .count = method[0] ? 3 : 2};

    while (times-- > 0)
        rn_uncovered_note(u, &request, &stripe);
}

static void texts_are_short_plain_and_without_ids(void **state)
{
    static const char *const cases[][3] = {
        {"GET", "/", "GET /"},
        {"GET", "/users/123/orders/9", "GET /users/{id}/**"},
        {"GET", "/v1/users", "GET /v1/users"},
        {"POST", "/a/b/c", "POST /a/b/**"},
        {"", "/reset/6f1c9a52-1d7b-4f6e-9a55-1f2b3c4d5e6f", "/reset/{id}"},
        {"GET", "/token/abcdefghijklmnopqrstuvwxyzabcdefghijkl", "GET /token/{id}"},
        {"GET", "/search?q=secret", "GET /search"},
        {"GET", "/<b>\x1b[0m\n\"", "GET /?b???0m??"},
        {"A METHOD THAT IS LONG", "/x", "A?METHOD?T /x"},
        {"GET", "no-slash", "GET no-slash"},
        {"GET", "//x/y/z", "GET //x/**"},
        {"GET", "", "GET"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct rn_uncovered *u = rn_uncovered_new(&secret);
        struct rn_uncovered_path path;

        assert_non_null(u);
        note(u, cases[i][0], cases[i][1], 1);
        assert_int_equal(rn_uncovered_list(u, &path, 1), 1);
        assert_string_equal(path.text, cases[i][2]);
        rn_uncovered_free(u);
    }
}

static void the_most_frequent_come_first_and_survive_a_flood(void **state)
{
    struct rn_uncovered *u = rn_uncovered_new(&secret);
    struct rn_uncovered_path paths[RN_UNCOVERED_ENTRIES + 1];
    char made_up[32];

    (void)state;
    assert_non_null(u);
    note(u, "GET", "/often", 1000);
    note(u, "GET", "/seldom", 500);
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(made_up, sizeof made_up, "/x%c%c%c", 'a' + i % 26, 'a' + i / 26 % 26,
                 'a' + i / 676 % 26);
        note(u, "GET", made_up, 1);
    }
    assert_int_equal(rn_uncovered_list(u, paths, COUNT(paths)), RN_UNCOVERED_ENTRIES);
    assert_string_equal(paths[0].text, "GET /often");
    assert_int_equal(paths[0].requests, 1000);
    assert_string_equal(paths[1].text, "GET /seldom");
    assert_int_equal(rn_uncovered_list(u, paths, 1), 1);
    rn_uncovered_free(u);
}

static void a_flood_is_sampled(void **state)
{
    struct rn_uncovered *u = rn_uncovered_new(&secret);
    struct ration_attribute path = {"path", 4, "/flood", 6};
    struct ration_request request = {.attributes = &path, .count = 1};
    struct rn_stripe stripe = {.shared = false};
    struct rn_uncovered_path out;

    (void)state;
    assert_non_null(u);
    for (stripe.rowless.unmatched = 1; stripe.rowless.unmatched <= 100000;
         stripe.rowless.unmatched++)
        rn_uncovered_note(u, &request, &stripe);
    assert_int_equal(rn_uncovered_list(u, &out, 1), 1);
    assert_in_range(out.requests, 99900, 100100);
    rn_uncovered_free(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_short_plain_and_without_ids),
        cmocka_unit_test(the_most_frequent_come_first_and_survive_a_flood),
        cmocka_unit_test(a_flood_is_sampled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
