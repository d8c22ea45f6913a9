/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/condition.h"

#include "base/decimal.h"
#include "base/hints.h"
#include "rules/match/index_internal.h"
#include "rules/match/pattern.h"

static bool is_beyond(const struct rn_condition *c, struct rn_slice bound,
                      const struct rn_decimal *number)
{
    struct rn_decimal limit;

    if (!rn_decimal_parse(bound, &limit))
        return false;
    int order = rn_decimal_compare(number, &limit);
    return c->test == RN_TEST_ABOVE ? order > 0 : order < 0;
}

/* A value that is no number is neither above nor below one. */
static RN_ASIDE bool fits_bound(const struct rn_condition *c, struct rn_slice bound,
                                struct rn_slice value)
{
    struct rn_decimal number;

    return rn_decimal_parse(value, &number) && is_beyond(c, bound, &number);
}

static inline bool fits(const struct rn_condition *c, struct rn_slice wanted, struct rn_slice value)
{
    switch (c->test) {
    case RN_TEST_EQUALS:
        return rn_slice_equal(wanted, value);
    case RN_TEST_PATTERN:
        return c->is_path ? rn_pattern_match_path(wanted, value) : rn_pattern_match(wanted, value);
    case RN_TEST_PREFIX:
        return c->is_path ? rn_pattern_path_begins(value, wanted)
                          : rn_slice_starts_with(value, wanted);
    case RN_TEST_ABOVE:
    case RN_TEST_BELOW:
        return fits_bound(c, wanted, value);
    case RN_TEST_CIDR:
    case RN_TEST_PRESENT:
        break; /* name no values */
    }
    return false;
}

bool rn_condition_accepts(const struct rn_condition *c, struct rn_slice wanted,
                          struct rn_slice value)
{
    return fits(c, wanted, value);
}

bool rn_condition_is_on_path(const struct rn_ruleset *ruleset, uint16_t attribute)
{
    const struct rn_attribute *a = &ruleset->attributes[attribute];

    return a->source == RN_SOURCE_PATH || rn_slice_is(a->name, "path");
}

static bool is_in(const struct rn_match_input *s, const struct rn_condition *c)
{
    struct rn_slice value = s->values->value[c->attribute];
    struct rn_ip ip;

    if (s->ruleset->attributes[c->attribute].is_ip)
        ip = s->values->address[c->attribute];
    else if (rn_ip_parse_host(value.data, value.len, &ip, NULL) != 0)
        return false;
    return ip.bits != 0 && rn_cidr_set_contains(c->networks, &ip);
}

/* A condition on an attribute that was not looked up yet, or is in no database. */
static RN_ASIDE bool holds_late(const struct rn_match_input *s, const struct rn_condition *c)
{
    if (!rn_values_find(s->ruleset, s->values, c->attribute).data)
        return c->negated;
    return rn_condition_first_false(s, c, 1) == 1;
}

static RN_INLINE bool holds(const struct rn_match_input *s, const struct rn_condition *c)
{
    struct rn_slice value = s->values->value[c->attribute];

    if (!value.data)
        return rn_unlikely(c->looked_up) ? holds_late(s, c) : c->negated;
    if (c->test == RN_TEST_PRESENT)
        return (value.len > 0) != c->negated;
    if (c->test == RN_TEST_CIDR)
        return is_in(s, c) != c->negated;
    if (c->test == RN_TEST_ABOVE || c->test == RN_TEST_BELOW)
        return (s->values->has_number[c->attribute] &&
                is_beyond(c, c->values[0], &s->values->number[c->attribute])) != c->negated;
    if (s->index && c->test == RN_TEST_EQUALS && c->value_count > RN_INDEX_MANY)
        return rn_index_has(s->index, c, value) != c->negated;
    for (uint32_t i = 0; i < c->value_count; i++)
        if (fits(c, c->values[i], value))
            return !c->negated;
    return c->negated;
}

/* Every condition on an unreadable path is assumed to hold. */
RN_HOT uint32_t rn_condition_first_false(const struct rn_match_input *s,
                                         const struct rn_condition *conditions, uint32_t count)
{
    uint32_t i = 0;

    while (i < count && (holds(s, &conditions[i]) ||
                         (rn_unlikely(s->values->paths.unreadable) &&
                          rn_condition_is_on_path(s->ruleset, conditions[i].attribute))))
        i++;
    return i;
}

bool rn_condition_holds(const struct rn_ruleset *ruleset, const struct rn_condition *condition,
                        const struct rn_values *values)
{
    /* Not changed: see match.h. */
    struct rn_values *all = (struct rn_values *)(uintptr_t)values;

    return rn_condition_first_false(&(struct rn_match_input){ruleset, all, NULL}, condition, 1) ==
           1;
}
