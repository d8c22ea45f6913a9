/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata of the limits of descriptors that passed. */
#include "descriptors_fixture.h"

#include <stdio.h>

static void note_leaf(void *arg, const struct ration_metadata *leaf)
{
    char *text = arg;

    snprintf(text + strlen(text), 100 - strlen(text), "%.*s=%.*s;", (int)leaf->key_len, leaf->key,
             (int)leaf->value_len, leaf->value);
}

static void metadata_is_passed_on(void **state)
{
    struct ration *r = open_rules("domain: d\n"
                                  "descriptors:\n"
                                  "  - key: k\n"
                                  "    rate_limit: {unit: minute, requests_per_unit: 1}\n"
                                  "    metadata: {owner: {team: web}, cost: 7}\n");
    char text[100] = "";
    struct asked a;

    (void)state;
    DESCRIBE(&a, "d", "k=x");
    a.request.metadata = note_leaf;
    a.request.arg = text;
    assert_true(ask(r, &a, T0));
    assert_string_equal(text, "owner.team=web;cost=7;");
    ration_close(r);
}

struct kept {
    unsigned count;
    char text[64];
};

static void keep_leaf(void *arg, const struct ration_metadata *leaf)
{
    struct kept *kept = arg;

    kept->count++;
    snprintf(kept->text, sizeof kept->text, "%.*s", (int)leaf->value_len, leaf->value);
}

static void metadata_is_that_of_descriptors_that_passed(void **state)
{
    struct ration *r = open_rules("domain: shop\n"
                                  "descriptors:\n"
                                  "  - key: a\n"
                                  "    quota_mode: true\n"
                                  "    metadata: {pool: fast}\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 1}\n"
                                  "  - key: b\n"
                                  "    quota_mode: true\n"
                                  "    metadata: {pool: slow}\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 2}\n");
    static const unsigned counts[] = {2, 1, 0};
    struct asked a;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct kept kept = {0};

        DESCRIBE(&a, "shop", "a=1", "b=1");
        a.request.metadata = keep_leaf;
        a.request.arg = &kept;
        ask(r, &a, T0);
        assert_int_equal(kept.count, counts[i]);
        if (i == 1)
            assert_string_equal(kept.text, "slow");
    }
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_is_passed_on),
        cmocka_unit_test(metadata_is_that_of_descriptors_that_passed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
