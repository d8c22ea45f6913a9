/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/describe.h"

#define SHOWN 6 /* values of a condition; the rest is counted */

struct rn_finding rn_describe_find(const struct rn_ruleset *ruleset,
                                   const struct rn_condition *condition,
                                   const struct rn_values *values)
{
    /* A rule of this condition alone applies just if it holds. */
    const struct rn_tier tier = {.value = RN_SLICE("")};
    const struct rn_rule rule = {.conditions = condition,
                                 .condition_count = 1,
                                 .tier_attribute = RN_NO_ATTRIBUTE,
                                 .tiers = &tier,
                                 .tier_count = 1,
                                 .cost = {.attribute = RN_NO_ATTRIBUTE},
                                 .priority = {.attribute = RN_NO_ATTRIBUTE}};
    struct rn_match match;
    struct rn_reason reason = rn_rule_explain(ruleset, &rule, values, &match);

    return (struct rn_finding){.ruleset = ruleset,
                               .condition = condition,
                               .value = values->value[condition->attribute],
                               .holds = reason.why != RN_WHY_CONDITION};
}

/* --- for people -------------------------------------------------------------------- */

static size_t count_values(const struct rn_condition *c)
{
    return c->test == RN_TEST_CIDR ? c->networks->count : c->value_count;
}

static void put_values(const struct rn_output *out, const struct rn_condition *c)
{
    size_t count = count_values(c);
    char text[RN_CIDR_TEXT];

    for (size_t i = 0; i < count && i < SHOWN; i++) {
        rn_output_put(out, RN_PLAIN, i == 0 ? " " : ", ");
        if (c->test == RN_TEST_CIDR) {
            rn_cidr_write(&c->networks->items[i], text);
            rn_output_put(out, RN_PLAIN, "%s", text);
        } else {
            rn_output_escaped(out, c->values[i]);
        }
    }
    if (count == 0)
        rn_output_put(out, RN_PLAIN, " nothing");
    if (count > SHOWN)
        rn_output_put(out, RN_PLAIN, " and %zu more", count - SHOWN);
}

/* [test][whether it is so, before what is negated]; "must" follows the last. */
static const char *const verbs[][3] = {
    [RN_TEST_EQUALS] = {"is not", "is", "be"},
    [RN_TEST_PATTERN] = {"does not match", "matches", "match"},
    [RN_TEST_PREFIX] = {"does not begin with", "begins with", "begin with"},
    [RN_TEST_CIDR] = {"is not in", "is in", "be in"},
    [RN_TEST_PRESENT] = {"is absent", "is present", "be present"},
};

static const char *one_of(const struct rn_condition *c)
{
    return c->test != RN_TEST_PRESENT && c->test != RN_TEST_CIDR && count_values(c) > 1 ? " one of"
                                                                                        : "";
}

/* An absent value has no property but that one. */
static void put_absent(const struct rn_output *out, const struct rn_finding *f)
{
    rn_output_put(out, RN_PLAIN, " is absent");
    if (f->holds)
        return;
    rn_output_put(out, RN_PLAIN, "; it must %s%s", verbs[f->condition->test][2],
                  one_of(f->condition));
    if (f->condition->test != RN_TEST_PRESENT)
        put_values(out, f->condition);
}

void rn_describe_finding(const struct rn_output *out, const struct rn_finding *f)
{
    const struct rn_condition *c = f->condition;
    struct rn_slice name = f->ruleset->attributes[c->attribute].name;
    bool is_so = f->holds != c->negated;

    rn_output_put(out, f->holds ? RN_GOOD : RN_BAD, f->holds ? "+ " : "- ");
    rn_output_put(out, RN_PLAIN, "%.*s", (int)name.len, name.data);
    if (f->value.data == NULL) {
        put_absent(out, f);
        return;
    }
    rn_output_put(out, RN_PLAIN, " ");
    rn_output_quoted(out, f->value);
    rn_output_put(out, RN_PLAIN, " %s%s", verbs[c->test][is_so], one_of(c));
    if (c->test != RN_TEST_PRESENT)
        put_values(out, c);
    if (!f->holds && c->negated)
        rn_output_put(out, RN_PLAIN, ", which it must not");
}

/* --- for programs ------------------------------------------------------------------ */

void rn_describe_finding_json(struct rn_pretty *json, const struct rn_finding *f)
{
    static const char *const tests[] = {[RN_TEST_EQUALS] = "one_of",
                                        [RN_TEST_PATTERN] = "pattern",
                                        [RN_TEST_PREFIX] = "prefix",
                                        [RN_TEST_CIDR] = "cidr",
                                        [RN_TEST_PRESENT] = "present"};
    const struct rn_condition *c = f->condition;
    char text[RN_CIDR_TEXT];

    rn_pretty_open(json, NULL, '{');
    rn_pretty_text(json, "attribute", f->ruleset->attributes[c->attribute].name);
    rn_pretty_text(json, "test", rn_slice_of(tests[c->test]));
    rn_pretty_bool(json, "not", c->negated);
    rn_pretty_open(json, "values", '[');
    for (uint32_t i = 0; i < c->value_count; i++)
        rn_pretty_text(json, NULL, c->values[i]);
    for (size_t i = 0; c->networks != NULL && i < c->networks->count; i++) {
        rn_cidr_write(&c->networks->items[i], text);
        rn_pretty_text(json, NULL, rn_slice_of(text));
    }
    rn_pretty_close(json, ']');
    if (f->value.data != NULL)
        rn_pretty_text(json, "found", f->value);
    else
        rn_pretty_null(json, "found");
    rn_pretty_bool(json, "holds", f->holds);
    rn_pretty_close(json, '}');
}
