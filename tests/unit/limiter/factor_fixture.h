/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of factors share: rules that have factors, and setting them. */
#ifndef RN_TESTS_LIMITER_FACTOR_FIXTURE_H
#define RN_TESTS_LIMITER_FACTOR_FIXTURE_H

#include "clients_fixture.h"

#include "limiter/factor.h"

static const uint16_t ten_by_ten[] = {10,  20,  30,  40,  50,  60,  70,  80,  90,  100,
                                      110, 120, 130, 140, 150, 160, 170, 180, 190, 200};

/* Puts rules in place, all of which have these factors, as if it were `now_ns`. */
static inline int try_factor_rules(struct ration *r, const char *text, const uint16_t *factors,
                                   uint32_t count, int64_t now_ns)
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
    for (uint32_t i = 0; i < set->rule_count; i++) {
        struct rn_rule *rule = (struct rn_rule *)&set->rules[i]; /* not in use yet */

        rule->factors = factors;
        rule->factor_count = count;
    }
    return rn_reload_install(r, set, now_ns, &(struct ration_error){0});
}

static inline void factor_rules(struct ration *r, const char *text, int64_t now_ns)
{
    assert_int_equal(try_factor_rules(r, text, ten_by_ten, COUNT(ten_by_ten), now_ns), 0);
}

static inline struct ration *open_factor_rules(const char *text)
{
    struct ration *r = open_limits(NULL, 0);

    factor_rules(r, text, T0);
    return r;
}

static inline unsigned set_factor(struct ration *r, const char *name, unsigned percent)
{
    struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    const struct rn_rule *rule = rn_book_find(book, rn_slice_of(name));

    assert_non_null(rule);
    return rn_factor_set(r, book, rule, percent);
}

static inline unsigned get_factor(struct ration *r, const char *name)
{
    struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);

    return rn_factor_get(book, rn_book_find(book, rn_slice_of(name)));
}

static inline struct ration_outcome decide_cost(struct ration *r, const char *words, uint64_t cost,
                                                int64_t now_ns)
{
    struct words w;
    struct ration_outcome out;

    split_words(&w, words);
    w.request.cost = cost;
    assert_int_equal(ration_decide(r, &w.request, now_ns, &out), 0);
    return out;
}

#endif
