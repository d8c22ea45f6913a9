/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of rules share: rules from text, and requests from words. */
#ifndef RN_TESTS_LIMITER_RULES_FIXTURE_H
#define RN_TESTS_LIMITER_RULES_FIXTURE_H

#include "fixture.h"

#include <ration/rules.h>

#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"
#include "limiter/rulebook/reload.h"

/* Puts rules in place as if it were `now_ns`. */
static inline void rules_at(struct ration *r, const char *text, int64_t now_ns)
{
    struct rn_report report;
    struct rn_ruleset *set;

    rn_report_init(&report);
    set = rn_ruleset_parse(RN_SLICE("test.yaml"), rn_slice_of(text), &report);
    for (uint32_t i = 0; i < report.kept_count && !set; i++)
        print_message("%u:%u: %s\n", report.kept[i].at.line, report.kept[i].at.column,
                      report.kept[i].message);
    rn_report_done(&report);
    assert_non_null(set);
    assert_int_equal(rn_reload_install(r, set, now_ns, &(struct ration_error){0}), 0);
}

static inline struct ration *open_rules(const char *text)
{
    struct ration *r = open_limits(NULL, 0);

    rules_at(r, text, T0);
    return r;
}

#define WORDS_MAX 16

/* "ip=192.0.2.1 user=ann path=/x": values without spaces. */
struct words {
    struct ration_attribute attributes[WORDS_MAX];
    struct ration_request request;
};

static inline void split_words(struct words *w, const char *text)
{
    size_t n = 0;

    for (const char *at = text; *at != '\0' && n < WORDS_MAX; n++) {
        size_t name = strcspn(at, "="), value = strcspn(at + name + 1, " ");

        w->attributes[n] = (struct ration_attribute){at, name, at + name + 1, value};
        at += name + 1 + value;
        at += *at == ' ';
    }
    w->request = (struct ration_request){.attributes = w->attributes, .count = n};
}

static inline struct ration_outcome decide(struct ration *r, const char *words, int64_t now_ns)
{
    struct words w;
    struct ration_outcome out;

    split_words(&w, words);
    assert_int_equal(ration_decide(r, &w.request, now_ns, &out), 0);
    return out;
}

static inline struct ration_outcome look(struct ration *r, const char *words, int64_t now_ns)
{
    struct words w;
    struct ration_outcome out;

    split_words(&w, words);
    assert_int_equal(ration_decide_peek(r, &w.request, now_ns, &out), 0);
    return out;
}

/* How many of n such requests are admitted at that moment. */
static inline unsigned admitted(struct ration *r, const char *words, unsigned n, int64_t now_ns)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++)
        count += decide(r, words, now_ns).decision.allowed;
    return count;
}

/* What is left of a rule's first limit. */
static inline uint64_t left_of(struct ration *r, const char *rule, const char *words,
                               int64_t now_ns)
{
    struct ration_outcome out = look(r, words, now_ns);

    for (uint32_t i = 0; i < out.listed; i++)
        if (strcmp(out.limits[i].rule, rule) == 0)
            return out.limits[i].verdict.remaining;
    fail_msg("%s does not apply to %s", rule, words);
    return 0;
}

#endif
