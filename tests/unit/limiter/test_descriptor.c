/* SPDX-License-Identifier: Apache-2.0 */
/* Envoy's descriptors, decided one at a time. */
#include "rules_fixture.h"

/* --- Envoy --------------------------------------------------------------------------------------
 */

static struct ration_outcome descriptor(struct ration *r, const char *domain, const char *words,
                                        uint64_t hits, int64_t now_ns)
{
    struct ration_descriptor_entry entries[WORDS_MAX];
    struct words w;
    struct ration_outcome out;

    split_words(&w, words);
    for (size_t i = 0; i < w.request.count; i++)
        entries[i] =
            (struct ration_descriptor_entry){w.attributes[i].name, w.attributes[i].name_len,
                                             w.attributes[i].value, w.attributes[i].value_len};
    assert_int_equal(
        ration_decide_descriptor(
            r, &(struct ration_descriptor){domain, strlen(domain), entries, w.request.count, hits},
            now_ns, &out),
        0);
    return out;
}

static unsigned admitted_hits(struct ration *r, const char *domain, const char *words, unsigned n,
                              int64_t now_ns)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++)
        count += descriptor(r, domain, words, 1, now_ns).decision.allowed;
    return count;
}

#define DAY (24 * 60 * MINUTE)

static void five_marketing_messages_a_day(void **state)
{
    struct ration *r = open_rules("domain: messaging\n"
                                  "descriptors:\n"
                                  "  - key: message_type\n"
                                  "    value: marketing\n"
                                  "    rate_limit:\n"
                                  "      unit: day\n"
                                  "      requests_per_unit: 5\n");

    (void)state;
    assert_int_equal(admitted_hits(r, "messaging", "message_type=marketing", 9, T0), 5);
    assert_int_equal(admitted_hits(r, "messaging", "message_type=marketing", 9, T0 + DAY), 5);
    assert_int_equal(admitted_hits(r, "messaging", "message_type=other", 9, T0), 9);
    assert_int_equal(admitted_hits(r, "unknown", "message_type=marketing", 9, T0), 9);
    assert_int_equal(descriptor(r, "messaging", "message_type=marketing to=all", 1, T0).kind,
                     RATION_BY_NO_RULE);
    ration_close(r);
}

static void five_logins_a_minute_with_a_capital_value(void **state)
{
    struct ration *r = open_rules("domain: auth\n"
                                  "descriptors:\n"
                                  "  - key: auth_type\n"
                                  "    Value: login\n"
                                  "    rate_limit:\n"
                                  "      unit: minute\n"
                                  "      requests_per_unit: 5\n");

    (void)state;
    assert_int_equal(admitted_hits(r, "auth", "auth_type=login", 9, T0), 5);
    assert_int_equal(admitted_hits(r, "auth", "auth_type=login", 9, T0 + MINUTE), 5);
    ration_close(r);
}

static void descriptors_may_be_unlimited_empty_or_in_shadow_mode(void **state)
{
    struct ration *r =
        open_rules("domain: d\n"
                   "descriptors:\n"
                   "  - { key: free, rate_limit: { unlimited: true } }\n"
                   "  - { key: never, rate_limit: { unit: day, requests_per_unit: 0 } }\n"
                   "  - key: trial\n"
                   "    shadow_mode: true\n"
                   "    rate_limit: { unit: day, requests_per_unit: 3 }\n"
                   "  - key: user\n"
                   "    rate_limit: { unit: hour, requests_per_unit: 10 }\n");
    struct ration_outcome out;

    (void)state;
    out = descriptor(r, "d", "free=1", 1, T0);
    assert_true(out.decision.allowed);
    assert_int_equal(out.decision.verdict.remaining, UINT32_MAX);
    out = descriptor(r, "d", "never=1", 1, T0);
    assert_false(out.decision.allowed);
    assert_int_equal(out.decision.verdict.limit, 0);
    for (unsigned i = 0; i < 5; i++) {
        out = descriptor(r, "d", "trial=1", 1, T0);
        assert_true(out.decision.allowed);
        assert_int_equal(out.shadow_refused, i >= 3);
    }
    assert_int_equal(descriptor(r, "d", "user=ann", 4, T0).decision.verdict.remaining, 6);
    assert_int_equal(descriptor(r, "d", "user=ann", 0, T0).decision.verdict.remaining, 6);
    assert_int_equal(descriptor(r, "d", "user=bob", 1, T0).decision.verdict.remaining, 9);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_marketing_messages_a_day),
        cmocka_unit_test(five_logins_a_minute_with_a_capital_value),
        cmocka_unit_test(descriptors_may_be_unlimited_empty_or_in_shadow_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
