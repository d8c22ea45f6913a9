/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/describe.h"

void rn_describe_finding(const struct rn_output *out, const struct rn_finding *f)
{
    struct rn_buf words = {0};

    rn_wording_finding(&words, f);
    rn_output_put(out, f->holds ? RN_GOOD : RN_BAD, f->holds ? "+ " : "- ");
    rn_output_put(out, RN_PLAIN, "%.*s", (int)words.len, words.data);
    rn_buf_done(&words);
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
