/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of Envoy's requests share: requests from words. */
#ifndef RN_TESTS_LIMITER_DESCRIPTORS_FIXTURE_H
#define RN_TESTS_LIMITER_DESCRIPTORS_FIXTURE_H

#include "rules_fixture.h"

#include <ration/envoy.h>

static struct ration_descriptors_outcome out; /* of the last request */

/* A request of at most four descriptors. */
struct asked {
    struct words words[4];
    struct ration_descriptor_entry entries[4][WORDS_MAX];
    struct ration_descriptor_ask asks[4];
    struct ration_descriptors request;
};

static inline void describe(struct asked *a, const char *domain, size_t n, const char *const *texts)
{
    memset(a, 0, sizeof *a);
    for (size_t i = 0; i < n; i++) {
        split_words(&a->words[i], texts[i]);
        for (size_t j = 0; j < a->words[i].request.count; j++) {
            const struct ration_attribute *from = &a->words[i].attributes[j];

            a->entries[i][j] = (struct ration_descriptor_entry){from->name, from->name_len,
                                                                from->value, from->value_len};
        }
        a->asks[i].entries = a->entries[i];
        a->asks[i].count = a->words[i].request.count;
    }
    a->request = (struct ration_descriptors){
        .domain = domain, .domain_len = strlen(domain), .asks = a->asks, .count = n};
}

#define DESCRIBE(a, domain, ...)                                                                   \
    describe(a, domain, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *),               \
             (const char *const[]){__VA_ARGS__})

static inline bool ask(struct ration *r, struct asked *a, int64_t now_ns)
{
    assert_int_equal(ration_decide_descriptors(r, &a->request, now_ns, &out), 0);
    assert_int_equal(out.count, a->request.count);
    return out.allowed;
}

static inline bool ask_for(struct ration *r, const char *domain, const char *text, int64_t now_ns)
{
    struct asked a;

    DESCRIBE(&a, domain, text);
    return ask(r, &a, now_ns);
}

static const char shop_rules[] =
    "domain: shop\n"
    "descriptors:\n"
    "  - key: user\n"
    "    rate_limit: {unit: minute, requests_per_unit: 3, name: by-user}\n"
    "  - key: route\n"
    "    value: cart\n"
    "    rate_limit: {unit: hour, requests_per_unit: 10}\n"
    "  - key: zero\n"
    "    rate_limit: {unit: second, requests_per_unit: 0}\n"
    "  - key: free\n"
    "    rate_limit: {unlimited: true}\n"
    "  - key: white\n"
    "  - key: shy\n"
    "    shadow_mode: true\n"
    "    rate_limit: {unit: minute, requests_per_unit: 1}\n";

#endif
