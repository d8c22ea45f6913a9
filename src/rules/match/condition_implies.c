/* SPDX-License-Identifier: Apache-2.0 */

#include "base/decimal.h"
#include "rules/match/condition.h"
#include "rules/match/pattern.h"

/* --- one value of each --------------------------------------------------------------- */

static bool is_bound(const struct rn_condition *c)
{
    return c->test == RN_TEST_ABOVE || c->test == RN_TEST_BELOW;
}

static bool value_covers(const struct rn_condition *narrow, struct rn_slice inner,
                         const struct rn_condition *wide, struct rn_slice outer)
{
    struct rn_decimal a, b;

    if (narrow->test == RN_TEST_EQUALS)
        return rn_condition_accepts(wide, outer, inner);
    if (is_bound(narrow)) { /* bounds on different sides never cover each other */
        if (narrow->test != wide->test || !rn_decimal_parse(inner, &a) ||
            !rn_decimal_parse(outer, &b))
            return false;
        int order = rn_decimal_compare(&a, &b);
        return narrow->test == RN_TEST_ABOVE ? order >= 0 : order <= 0;
    }
    if (narrow->test == RN_TEST_PREFIX && wide->test == RN_TEST_PREFIX)
        return rn_slice_starts_with(inner, outer);
    if (narrow->test != RN_TEST_PATTERN || narrow->is_path != wide->is_path)
        return false;
    if (wide->test == RN_TEST_PREFIX)
        return rn_slice_starts_with(rn_pattern_literal(inner), outer);
    if (wide->test != RN_TEST_PATTERN)
        return false;
    /* A star that matches the other's star also matches all that one stands for. */
    return wide->is_path ? rn_pattern_covers(outer, inner) : rn_pattern_match(outer, inner);
}

/* --- positive tests ------------------------------------------------------------------ */

static bool positive_implies(const struct rn_condition *narrow, const struct rn_condition *wide)
{
    bool networks = narrow->test == RN_TEST_CIDR;
    size_t inner = networks ? narrow->networks->count : narrow->value_count;
    size_t outer =
        networks && wide->test == RN_TEST_CIDR ? wide->networks->count : wide->value_count;

    if (wide->test == RN_TEST_PRESENT) { /* no empty value may pass */
        for (uint32_t i = 0; i < narrow->value_count; i++)
            if (rn_condition_accepts(narrow, narrow->values[i], RN_SLICE("")))
                return false;
        return true;
    }
    if (narrow->test == RN_TEST_PRESENT || networks != (wide->test == RN_TEST_CIDR))
        return false;
    for (size_t i = 0; i < inner; i++) {
        bool covered = false;

        for (size_t n = 0; n < outer && !covered; n++)
            covered = networks
                          ? wide->networks->items[n].prefix <= narrow->networks->items[i].prefix &&
                                rn_cidr_contains(&wide->networks->items[n],
                                                 &narrow->networks->items[i].network)
                          : value_covers(narrow, narrow->values[i], wide, wide->values[n]);
        if (!covered)
            return false;
    }
    return inner != 0;
}

bool rn_condition_implies(const struct rn_condition *narrow, const struct rn_condition *wide)
{
    struct rn_decimal above, below;

    if (narrow->attribute != wide->attribute)
        return false;
    if (!narrow->negated && !wide->negated)
        return positive_implies(narrow, wide);
    if (narrow->negated && wide->negated) /* what fails the wider test fails the narrower one */
        return positive_implies(wide, narrow);
    if (narrow->negated)
        return false;
    /* Whether no value passes both tests. */
    if (is_bound(narrow) && is_bound(wide) && narrow->test != wide->test) {
        const struct rn_condition *low = narrow->test == RN_TEST_ABOVE ? narrow : wide,
                                  *high = low == narrow ? wide : narrow;

        return rn_decimal_parse(low->values[0], &above) &&
               rn_decimal_parse(high->values[0], &below) && rn_decimal_compare(&above, &below) >= 0;
    }
    if (narrow->test != RN_TEST_EQUALS || wide->test == RN_TEST_CIDR ||
        wide->test == RN_TEST_PRESENT)
        return false;
    for (uint32_t i = 0; i < narrow->value_count; i++)
        for (uint32_t n = 0; n < wide->value_count; n++)
            if (rn_condition_accepts(wide, wide->values[n], narrow->values[i]))
                return false;
    return narrow->value_count != 0;
}

bool rn_condition_implies_all(const struct rn_alternative *narrow,
                              const struct rn_alternative *wide)
{
    for (uint32_t i = 0; i < wide->condition_count; i++) {
        bool implied = false;

        for (uint32_t n = 0; n < narrow->condition_count && !implied; n++)
            implied = rn_condition_implies(&narrow->conditions[n], &wide->conditions[i]);
        if (!implied)
            return false;
    }
    return true;
}
