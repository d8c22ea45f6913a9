/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/match/reason.h"

#include <inttypes.h>

#include "base/decimal.h"
#include "base/utf8.h"

#define SHOWN 6 /* values of a condition; the rest is counted */

struct rn_finding rn_reason_find(const struct rn_ruleset *ruleset,
                                 const struct rn_condition *condition,
                                 const struct rn_values *values)
{
    return (struct rn_finding){.ruleset = ruleset,
                               .condition = condition,
                               .value = values->value[condition->attribute],
                               .holds = rn_condition_holds(ruleset, condition, values),
                               .unreadable = values->paths.unreadable &&
                                             values->value[condition->attribute].data ==
                                                 values->paths.text[0].data};
}

/* --- conditions ---------------------------------------------------------------------- */

static size_t count_values(const struct rn_condition *c)
{
    return c->test == RN_TEST_CIDR ? c->networks->count : c->value_count;
}

static void put_values(struct rn_buf *out, const struct rn_condition *c)
{
    size_t count = count_values(c);
    char text[RN_CIDR_TEXT];

    for (size_t i = 0; i < count && i < SHOWN; i++) {
        rn_buf_put_slice(out, i == 0 ? RN_SLICE(" ") : RN_SLICE(", "));
        if (c->test == RN_TEST_CIDR) {
            rn_cidr_write(&c->networks->items[i], text);
            rn_buf_put_slice(out, rn_slice_of(text));
        } else {
            rn_utf8_escape(out, c->values[i]);
        }
    }
    if (count == 0)
        rn_buf_put_literal(out, " nothing");
    if (count > SHOWN)
        rn_buf_putf(out, " and %zu more", count - SHOWN);
}

/* [test][whether it is so, before what is negated]; "must" follows the last. */
static const char *const verbs[][3] = {
    [RN_TEST_EQUALS] = {"is not", "is", "be"},
    [RN_TEST_PATTERN] = {"does not match", "matches", "match"},
    [RN_TEST_PREFIX] = {"does not begin with", "begins with", "begin with"},
    [RN_TEST_CIDR] = {"is not in", "is in", "be in"},
    [RN_TEST_PRESENT] = {"is absent", "is present", "be present"},
    [RN_TEST_ABOVE] = {"is not above", "is above", "be above"},
    [RN_TEST_BELOW] = {"is not below", "is below", "be below"},
};

static const char *one_of(const struct rn_condition *c)
{
    return c->test != RN_TEST_PRESENT && c->test != RN_TEST_CIDR && count_values(c) > 1 ? " one of"
                                                                                        : "";
}

/* The required value, where the request's cannot be compared. */
static void put_wanted(struct rn_buf *out, const struct rn_finding *f)
{
    if (f->holds)
        return;
    rn_buf_putf(out, "; it must %s%s", verbs[f->condition->test][2], one_of(f->condition));
    if (f->condition->test != RN_TEST_PRESENT)
        put_values(out, f->condition);
}

void rn_reason_write_finding(struct rn_buf *out, const struct rn_finding *f)
{
    const struct rn_condition *c = f->condition;
    bool is_so = f->holds != c->negated;
    bool compares = c->test == RN_TEST_ABOVE || c->test == RN_TEST_BELOW;
    struct rn_decimal number;

    rn_buf_put_slice(out, f->ruleset->attributes[c->attribute].name);
    if (f->value.data == NULL) {
        rn_buf_put_literal(out, " is absent");
        put_wanted(out, f);
        return;
    }
    if (f->unreadable) {
        rn_buf_put_literal(out, " cannot be read, so it may be meant");
        return;
    }
    rn_buf_put_char(out, ' ');
    rn_utf8_escape_quoted(out, f->value);
    if (compares && !rn_decimal_parse(f->value, &number)) {
        rn_buf_put_literal(out, " is not a number");
        put_wanted(out, f);
        return;
    }
    rn_buf_putf(out, " %s%s", verbs[c->test][is_so], one_of(c));
    if (c->test != RN_TEST_PRESENT)
        put_values(out, c);
    if (!f->holds && c->negated)
        rn_buf_put_literal(out, ", which it must not");
}

/* --- keys and tiers ------------------------------------------------------------------ */

static void put_no_tier(struct rn_buf *out, const struct rn_ruleset *ruleset,
                        const struct rn_rule *rule, const struct rn_values *values)
{
    const uint16_t by[] = {rule->tier_attribute, rule->tier_second};
    bool two = by[1] != RN_NO_ATTRIBUTE;

    rn_buf_put_literal(out, "no tier: ");
    for (unsigned i = 0; i < 1U + two; i++) {
        struct rn_slice value = values->value[by[i]];

        rn_buf_put_slice(out, i == 0 ? RN_SLICE("") : RN_SLICE(" and "));
        rn_buf_put_slice(out, ruleset->attributes[by[i]].name);
        if (value.len == 0 && !two) {
            rn_buf_put_literal(out, " is absent, and there is no default");
            return;
        }
        rn_buf_put_char(out, ' ');
        if (value.len == 0)
            rn_buf_put_literal(out, "(absent)");
        else
            rn_utf8_escape_quoted(out, value);
    }
    rn_buf_putf(out, " %s ", two ? "fit none of the rows" : "is none of");
    for (uint32_t i = 0; i < rule->tier_count; i++) {
        if (i != 0)
            rn_buf_put_slice(out, two ? RN_SLICE("; ") : RN_SLICE(", "));
        rn_utf8_escape(out, rule->tiers[i].value);
    }
    rn_buf_put_literal(out, ", and there is no default");
}

/* --- the whole ----------------------------------------------------------------------- */

/* All of the alternative that holds. */
static void put_conditions(struct rn_buf *out, const struct rn_ruleset *ruleset,
                           const struct rn_rule *rule, const struct rn_values *values,
                           uint32_t number)
{
    const struct rn_alternative *a = &rule->alternatives[number];

    if (rule->alternative_count > 1)
        rn_buf_putf(out, "alternative %" PRIu32 " of %" PRIu32 ": ", number + 1,
                    rule->alternative_count);
    for (uint32_t i = 0; i < a->condition_count; i++) {
        struct rn_finding finding = rn_reason_find(ruleset, &a->conditions[i], values);

        if (i != 0)
            rn_buf_put_literal(out, "; ");
        rn_reason_write_finding(out, &finding);
    }
    if (a->condition_count == 0)
        rn_buf_put_literal(out, "the rule has no conditions");
}

void rn_reason_write(struct rn_buf *out, const struct rn_ruleset *ruleset,
                     const struct rn_rule *rule, const struct rn_values *values,
                     struct rn_reason reason)
{
    const struct rn_key_part *part = reason.why == RN_WHY_NO_KEY ? &rule->key[reason.at] : NULL;
    bool several = rule->alternative_count > 1;

    switch (reason.why) {
    case RN_WHY_UNLIMITED:
    case RN_WHY_APPLIES:
        put_conditions(out, ruleset, rule, values, reason.alternative);
        rn_buf_putf(out, "%s", reason.why == RN_WHY_UNLIMITED ? "; the tier is unlimited" : "");
        break;
    case RN_WHY_CONDITION: /* the first of each alternative that does not hold */
        if (several)
            rn_buf_put_literal(out, "no alternative holds: ");
        for (uint32_t i = 0; i < rule->alternative_count; i++) {
            const struct rn_alternative *a = &rule->alternatives[i];
            struct rn_finding finding = {.holds = true};

            for (uint32_t n = 0; finding.holds && n < a->condition_count; n++)
                finding = rn_reason_find(ruleset, &a->conditions[n], values);
            if (several)
                rn_buf_putf(out, "%s(%" PRIu32 ") ", i == 0 ? "" : "; ", i + 1);
            if (!finding.holds)
                rn_reason_write_finding(out, &finding);
        }
        break;
    case RN_WHY_NO_KEY:
        for (unsigned i = 0; i < part->count; i++) {
            rn_buf_put_slice(out, i == 0 ? RN_SLICE("no key: ") : RN_SLICE(" and "));
            rn_buf_put_slice(out, ruleset->attributes[part->attributes[i]].name);
        }
        rn_buf_putf(out, " %s absent", part->count == 1 ? "is" : "are");
        break;
    case RN_WHY_NO_TIER:
        put_no_tier(out, ruleset, rule, values);
        break;
    }
}
