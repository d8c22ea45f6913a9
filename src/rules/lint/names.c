/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns of names that look like mistakes: limits that differ in letter case only,
 * misspelled attributes and methods.
 */
#include <stdlib.h>
#include <strings.h>

#include "rules/lint/lint_internal.h"

/* Attributes that many rulesets use. */
static const char *const well_known[] = {"ip",      "method",  "path",   "host",   "user",
                                         "api_key", "account", "tenant", "device", "session",
                                         "tier",    "plan",    "country"};
#define WELL_KNOWN RN_COUNT(well_known)

static const char *const methods[] = {"GET",    "HEAD",    "POST",    "PUT",  "PATCH",
                                      "DELETE", "OPTIONS", "CONNECT", "TRACE"};
/* --- limits ------------------------------------------------------------------------ */

static int by_letters(const void *a, const void *b)
{
    const struct rn_rule *x = *(const struct rn_rule *const *)a;
    const struct rn_rule *y = *(const struct rn_rule *const *)b;
    int order = strcasecmp(x->name.data, y->name.data); /* in the arena a NUL follows */

    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

void rn_lint_rule_names(const struct rn_linter *l)
{
    const struct rn_rule **sorted = calloc(l->rule_count, sizeof *sorted);

    if (sorted == NULL)
        return;
    memcpy(sorted, l->rules, l->rule_count * sizeof *sorted);
    qsort(sorted, l->rule_count, sizeof *sorted, by_letters);
    for (uint32_t i = 1; i < l->rule_count; i++) {
        const struct rn_rule *first = sorted[i - 1], *second = sorted[i];

        if (strcasecmp(first->name.data, second->name.data) == 0)
            rn_report_warning(l->report, rn_lint_rule_place(l, second),
                              "%s differs from %s, at %.*s:%u, in letter case only; give it "
                              "another name",
                              rn_excerpt(second->name).text, rn_excerpt(first->name).text,
                              (int)first->file.len, first->file.data, first->line);
    }
    free(sorted);
}

/* --- attributes -------------------------------------------------------------------- */

/* How many rules and lists use an attribute, and where the first does. */
struct use {
    uint32_t count;
    uint32_t last; /* the user counted last, from 1: each counts once */
    struct rn_place at;
};

static void count_use(struct use *uses, uint16_t attribute, uint32_t user, struct rn_place at)
{
    if (attribute == RN_NO_ATTRIBUTE || uses[attribute].last == user)
        return;
    if (uses[attribute].count++ == 0)
        uses[attribute].at = at;
    uses[attribute].last = user;
}

static void count_rule(const struct rn_linter *l, const struct rn_rule *rule, uint32_t user,
                       struct use *uses)
{
    struct rn_place at = rn_lint_rule_place(l, rule);

    for (uint32_t a = 0; a < rule->alternative_count; a++)
        for (uint32_t i = 0; i < rule->alternatives[a].condition_count; i++) {
            const struct rn_condition *c = &rule->alternatives[a].conditions[i];

            count_use(uses, c->attribute, user, rn_lint_place(l, rule->file, c->line, c->column));
        }
    for (uint32_t i = 0; i < rule->key_count; i++)
        for (unsigned n = 0; n < rule->key[i].count; n++)
            count_use(uses, rule->key[i].attributes[n], user, at);
    count_use(uses, rule->tier_attribute, user, at);
    count_use(uses, rule->tier_second, user, at);
    count_use(uses, rule->cost.attribute, user, at);
    count_use(uses, rule->priority.attribute, user, at);
}

/* Whether one letter is wrong, missing or too many, or two neighbours are swapped. rn_suggest
 * allows more, which is too much for names that a user chooses. */
static bool is_slip(struct rn_slice a, struct rn_slice b)
{
    while (a.len != 0 && b.len != 0 && a.data[0] == b.data[0]) {
        a = (struct rn_slice){a.data + 1, a.len - 1};
        b = (struct rn_slice){b.data + 1, b.len - 1};
    }
    while (a.len != 0 && b.len != 0 && a.data[a.len - 1] == b.data[b.len - 1]) {
        a.len--;
        b.len--;
    }
    return (a.len <= 1 && b.len <= 1) ||
           (a.len == 2 && b.len == 2 && a.data[0] == b.data[1] && a.data[1] == b.data[0]);
}

/* Warns of attributes used once, not declared, and close to a more common name. */
void rn_lint_attributes(const struct rn_linter *l)
{
    const struct rn_ruleset *ruleset = l->ruleset;
    const char *usual[WELL_KNOWN + RN_ATTRIBUTES_MAX];
    struct use uses[RN_ATTRIBUTES_MAX] = {{0}};
    size_t count = WELL_KNOWN;

    for (uint32_t i = 0; i < l->rule_count; i++)
        count_rule(l, l->rules[i], i + 1, uses);
    for (uint32_t i = 0; i < ruleset->list_count; i++) {
        const struct rn_list_entry *entry = &ruleset->lists[i];

        for (uint32_t n = 0; n < entry->condition_count; n++) {
            const struct rn_condition *c = &entry->conditions[n];

            count_use(uses, c->attribute, l->rule_count + i + 1,
                      rn_lint_place(l, entry->file, c->line, c->column));
        }
    }
    memcpy(usual, well_known, sizeof well_known);
    for (uint32_t i = 0; i < ruleset->attribute_count; i++)
        if (uses[i].count > 1 || ruleset->attributes[i].source != RN_SOURCE_REQUEST)
            usual[count++] = ruleset->attributes[i].name.data;
    for (uint32_t i = 0; i < ruleset->attribute_count; i++) {
        const struct rn_attribute *attribute = &ruleset->attributes[i];

        if (uses[i].count != 1 || attribute->source != RN_SOURCE_REQUEST ||
            rn_slice_starts_with(attribute->name, RN_SLICE("header.")) ||
            rn_slice_find(attribute->name, well_known, WELL_KNOWN) < WELL_KNOWN)
            continue;
        const char *meant = rn_suggest(attribute->name, usual, count);
        if (meant != NULL && is_slip(attribute->name, rn_slice_of(meant)))
            rn_report_warning(l->report, uses[i].at,
                              "attribute %s is used here only; did you mean \"%s\"?",
                              rn_excerpt(attribute->name).text, meant);
    }
}

/* --- methods ----------------------------------------------------------------------- */

void rn_lint_methods(const struct rn_linter *l)
{
    for (uint32_t r = 0; r < l->rule_count; r++) {
        const struct rn_rule *rule = l->rules[r];

        for (uint32_t a = 0; a < rule->alternative_count; a++) {
            for (uint32_t n = 0; n < rule->alternatives[a].condition_count; n++) {
                const struct rn_condition *c = &rule->alternatives[a].conditions[n];
                bool is_method = rn_slice_is(l->ruleset->attributes[c->attribute].name, "method");

                for (uint32_t i = 0; is_method && i < c->value_count; i++) {
                    const char *meant = rn_suggest(c->values[i], methods, RN_COUNT(methods));

                    if (c->test == RN_TEST_EQUALS && meant != NULL &&
                        !rn_slice_is(c->values[i], meant))
                        rn_report_warning(l->report,
                                          rn_lint_place(l, rule->file, c->line, c->column),
                                          "%s is not a usual method; did you mean \"%s\"?",
                                          rn_excerpt(c->values[i]).text, meant);
                }
            }
        }
    }
}
