/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration explain --json`.
 */
#include "cli/describe.h"
#include "cli/explain.h"

static void put_request(struct rn_pretty *json, const struct rn_explained *e)
{
    const struct rn_options *o = e->session->options;

    rn_pretty_open(json, "request", '[');
    for (size_t i = 0; i < o->attribute_count; i++) {
        const struct ration_attribute *a = &o->attributes[i];

        rn_pretty_open(json, NULL, '{');
        rn_pretty_text(json, "attribute", (struct rn_slice){a->name, a->name_len});
        rn_pretty_text(json, "value", (struct rn_slice){a->value, a->value_len});
        rn_pretty_close(json, '}');
    }
    rn_pretty_close(json, ']');
}

static void put_readings(struct rn_pretty *json, const struct rn_readings *paths)
{
    if (paths->text[0].data == NULL)
        return;
    rn_pretty_open(json, "readings", '[');
    for (uint32_t i = 0; i < paths->count && !paths->unreadable; i++)
        rn_pretty_text(json, NULL, paths->text[i]);
    rn_pretty_close(json, ']');
}

static void put_conditions(struct rn_pretty *json, const struct rn_explained *e,
                           const struct rn_condition *conditions, uint32_t count)
{
    rn_pretty_open(json, "conditions", '[');
    for (uint32_t i = 0; i < count; i++) {
        struct rn_finding finding =
            rn_wording_find(e->session->ruleset, &conditions[i], &e->values);

        rn_describe_finding_json(json, &finding);
    }
    rn_pretty_close(json, ']');
}

static void put_limits(struct rn_pretty *json, const struct rn_explained *e,
                       const struct rn_explained_rule *found)
{
    const struct rn_tier *tier = found->match.tier;
    char text[RN_LIMIT_TEXT];

    rn_pretty_open(json, "limits", '[');
    for (uint32_t i = 0; i < tier->limit_count; i++) {
        const struct ration_limit *spec = &tier->limits[i]->spec;
        const struct ration_verdict *left = rn_explain_left(e, found->first_limit + i);

        ration_limit_write(spec, text, sizeof text);
        rn_pretty_open(json, NULL, '{');
        rn_pretty_text(json, "text", rn_slice_of(text));
        rn_pretty_text(json, "algorithm", rn_slice_of(ration_algorithm_name(spec->algorithm)));
        if (left != NULL) {
            rn_pretty_bool(json, "allowed", left->allowed);
            rn_pretty_uint(json, "limit", left->limit);
            rn_pretty_uint(json, "remaining", left->remaining);
        }
        rn_pretty_close(json, '}');
    }
    rn_pretty_close(json, ']');
}

static void put_charge(struct rn_pretty *json, const struct rn_explained *e,
                       const struct rn_explained_rule *found)
{
    rn_pretty_open(json, "key", '[');
    for (uint32_t i = 0; i < found->rule->key_count; i++)
        rn_pretty_text(json, NULL, found->match.key[i]);
    rn_pretty_close(json, ']');
    if (found->rule->tier_attribute != RN_NO_ATTRIBUTE)
        rn_pretty_text(json, "tier", found->match.tier->value);
    rn_pretty_uint(json, "cost", found->match.cost);
    if (found->rule->by_outcome) {
        char text[RN_STATUSES_TEXT];

        rn_statuses_write(&found->rule->charge_on, text);
        rn_pretty_text(json, "charge_on", rn_slice_of(text));
    }
    rn_pretty_uint(json, "keep_percent", found->match.keep_percent);
    rn_pretty_bool(json, "shadow", found->rule->shadow || e->session->ruleset->shadow);
    put_limits(json, e, found);
}

static void put_rule(struct rn_pretty *json, const struct rn_explained *e,
                     const struct rn_explained_rule *found)
{
    static const char *const why[] = {[RN_WHY_APPLIES] = "applies",
                                      [RN_WHY_CONDITION] = "condition",
                                      [RN_WHY_NO_KEY] = "no key",
                                      [RN_WHY_NO_TIER] = "no tier",
                                      [RN_WHY_UNLIMITED] = "unlimited"};
    const struct rn_rule *rule = found->rule;

    rn_pretty_open(json, NULL, '{');
    rn_pretty_text(json, "rule", rule->name);
    rn_pretty_text(json, "file", rule->file);
    rn_pretty_uint(json, "line", rule->line);
    rn_pretty_bool(json, "applies", found->applies);
    rn_pretty_text(json, "why", rn_slice_of(why[found->reason.why]));
    put_conditions(json, e, rule->conditions, rule->condition_count);
    if (found->applies)
        put_charge(json, e, found);
    rn_pretty_close(json, '}');
}

static void put_rules(struct rn_pretty *json, struct rn_explained *e)
{
    const struct rn_ruleset *ruleset = e->session->ruleset;
    struct rn_explained_rule found;
    uint32_t at = e->applying.of_descriptor;

    rn_pretty_open(json, "rules", '[');
    if (e->session->envoy)
        rn_explain_json_descriptor_rule(json, e);
    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        if (!rn_session_asks(e->session, &ruleset->rules[i]))
            continue;
        rn_explain_rule(e, &ruleset->rules[i], &at, &found);
        if (found.applies || !e->session->options->matching)
            put_rule(json, e, &found);
    }
    rn_pretty_close(json, ']');
}

static void put_entry(struct rn_pretty *json, const struct rn_explained *e)
{
    const struct rn_list_entry *entry = e->applying.entry;

    rn_pretty_open(json, "list", '{');
    rn_pretty_text(json, "list", rn_slice_of(entry->deny ? "deny" : "allow"));
    rn_pretty_text(json, "file", entry->file);
    rn_pretty_uint(json, "line", entry->line);
    put_conditions(json, e, entry->conditions, entry->condition_count);
    rn_pretty_close(json, '}');
}

void rn_explain_json(struct rn_pretty *json, struct rn_explained *e)
{
    rn_pretty_open(json, NULL, '{');
    put_request(json, e);
    if (rn_session_is_native(e->session))
        put_readings(json, &e->values.paths);
    if (e->applying.entry != NULL)
        put_entry(json, e);
    if (e->session->envoy)
        rn_explain_json_descriptor(json, e);
    put_rules(json, e);
    rn_decision_json(json, "decision", &e->outcome, &e->applying);
    rn_pretty_close(json, '}');
}
