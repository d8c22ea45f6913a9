/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration explain`: the request as the rules see it, whether each rule applies, and the
 * decision. Counts nothing.
 */
#include "cli/explain/explain.h"

#include <inttypes.h>

#include "cli/client/daemon.h"
#include "rules/ruleset.h"
#include "wire/explanation.h"

/* --- the request ------------------------------------------------------------------- */

static void put_given(const struct rn_output *out, const struct rn_offline *s)
{
    rn_output_put(out, RN_BOLD, "request\n");
    if (s->options->attribute_count == 0)
        rn_output_put(out, RN_DIM, "    without attributes; give some, such as path=/login\n");
    for (size_t i = 0; i < s->options->attribute_count; i++) {
        const struct ration_attribute *a = &s->options->attributes[i];
        struct rn_slice name = {a->name, a->name_len}, value = {a->value, a->value_len};

        rn_output_put(out, RN_PLAIN, "    ");
        rn_output_escaped(out, name);
        rn_output_put(out, RN_PLAIN, " ");
        rn_output_quoted(out, value);
        if (!s->envoy && !rn_ruleset_uses_attribute(s->ruleset, name)) {
            const char *meant = rn_ruleset_suggest_attribute(s->ruleset, name);

            rn_output_put(out, RN_ODD, "  no rule looks at it");
            if (meant != NULL)
                rn_output_put(out, RN_ODD, "; did you mean %s?", meant);
        }
        rn_output_put(out, RN_PLAIN, "\n");
    }
}

static bool is_given(const struct rn_options *o, struct rn_slice name, struct rn_slice value)
{
    for (size_t i = 0; i < o->attribute_count; i++) {
        const struct ration_attribute *a = &o->attributes[i];

        if (rn_slice_equal(name, (struct rn_slice){a->name, a->name_len}) &&
            rn_slice_equal(value, (struct rn_slice){a->value, a->value_len}))
            return true;
    }
    return false;
}

/* Attributes that rules derive: a user from the path, the client's address. */
static void put_derived(const struct rn_output *out, const struct rn_cli_explain *e)
{
    static const char *const from[] = {[RN_SOURCE_HEADER] = "header ",
                                       [RN_SOURCE_PATH] = "path ",
                                       [RN_SOURCE_FORWARDED] = "header "};
    const struct rn_ruleset *ruleset = e->offline->ruleset;

    for (uint32_t i = 0; i < ruleset->attribute_count; i++) {
        const struct rn_attribute *a = &ruleset->attributes[i];
        struct rn_slice source = a->source == RN_SOURCE_PATH ? a->pattern : a->header;

        if (a->source == RN_SOURCE_REQUEST || e->values.value[i].data == NULL ||
            is_given(e->offline->options, a->name, e->values.value[i]))
            continue;
        rn_output_put(out, RN_PLAIN, "    %.*s ", (int)a->name.len, a->name.data);
        rn_output_quoted(out, e->values.value[i]);
        rn_output_put(out, RN_DIM, "  from %s", from[a->source]);
        rn_output_escaped(out, source);
        rn_output_put(out, RN_PLAIN, "\n");
    }
}

/* The path as rules see it, if that differs from the given path. */
static void put_readings(const struct rn_output *out, const struct rn_cli_explain *e)
{
    const struct rn_path_readings *paths = &e->values.paths;

    if (paths->unreadable) {
        rn_output_put(out, RN_ODD,
                      "    path can be read in too many ways, so every condition on it holds\n");
        return;
    }
    if (paths->text[0].data == NULL ||
        (paths->count == 1 && is_given(e->offline->options, RN_SLICE("path"), paths->text[0])))
        return;
    for (uint32_t i = 0; i < paths->count; i++) {
        rn_output_put(out, RN_DIM, i == 0 ? "    path is read as " : "                 or ");
        rn_output_quoted(out, paths->text[i]);
        rn_output_put(out, RN_PLAIN, "\n");
    }
}

/* --- lists and rules --------------------------------------------------------------- */

static void put_entry(const struct rn_output *out, const struct rn_cli_explain *e)
{
    const struct rn_list_entry *entry = e->matched.entry;

    rn_output_put(out, RN_BOLD, "%s list ", entry->deny ? "deny" : "allow");
    rn_output_put(out, RN_GOOD, "applies");
    rn_output_put(out, RN_PLAIN, "  ");
    rn_output_place(out, entry->file, entry->line);
    rn_output_put(out, RN_PLAIN, "\n");
    for (uint32_t i = 0; i < entry->condition_count; i++) {
        struct rn_finding finding =
            rn_reason_find(e->offline->ruleset, &entry->conditions[i], &e->values);

        rn_cli_explain_put_finding(out, &finding);
    }
    rn_output_put(out, RN_DIM, "    so no rule is asked\n\n");
}

static void put_rules(const struct rn_output *out, struct rn_cli_explain *e)
{
    const struct rn_ruleset *ruleset = e->offline->ruleset;
    struct rn_cli_explain_match found;
    uint32_t at = e->matched.of_descriptor, hidden = 0;

    for (uint32_t i = 0; i < ruleset->rule_count; i++) {
        if (!rn_offline_asks(e->offline, &ruleset->rules[i]))
            continue;
        rn_cli_explain_rule(e, &ruleset->rules[i], &at, &found);
        if (!found.applies && e->offline->options->matching) {
            hidden++;
            continue;
        }
        rn_cli_explain_put_rule(out, e, &found);
        rn_output_put(out, RN_PLAIN, "\n");
    }
    if (hidden != 0)
        rn_output_put(out, RN_DIM, "%" PRIu32 " rule%s not apply\n\n", hidden,
                      hidden == 1 ? " does" : "s do");
}

/* --- all --------------------------------------------------------------------------- */

void rn_cli_explain_put_decision(const struct rn_output *out, const struct ration_outcome *o,
                                 const struct rn_matched_limits *matched)
{
    rn_output_put(out, RN_BOLD, "would be ");
    rn_cli_decision_line(out, o, matched, false);
    if (o->decision.allowed && o->decision.decided_by >= 0 && o->limit_count > 1)
        rn_output_put(out, RN_PLAIN, "; %s is nearest its limit", o->rule);
    rn_output_put(out, RN_DIM, "\nnothing was counted\n");
}

static void put(const struct rn_output *out, struct rn_cli_explain *e)
{
    put_given(out, e->offline);
    if (rn_offline_is_native(e->offline)) {
        put_readings(out, e);
        put_derived(out, e);
    }
    rn_output_put(out, RN_PLAIN, "\n");
    if (e->offline->envoy)
        rn_cli_explain_put_descriptor(out, e);
    if (e->matched.entry != NULL)
        put_entry(out, e);
    else if (rn_offline_is_native(e->offline))
        put_rules(out, e);
    rn_cli_explain_put_decision(out, &e->outcome, &e->matched);
}

/* The same JSON as the daemon's answer. False after an error message. */
static bool put_json(const struct rn_cli_explain *e, const struct ration_request *request)
{
    struct rn_offline *offline = e->offline;
    const struct rn_explanation_descriptor descriptor = {
        rn_cli_explain_json_descriptor, rn_cli_explain_json_descriptor_rule, offline};
    struct rn_buf out = {0};
    struct rn_members m = {.out = &out};
    int code;

    rn_members_open(&m, NULL, '{');
    code = rn_explanation_put(&m, offline->limiter,
                              &(struct rn_explanation){request, &e->outcome, offline->now_ns,
                                                       offline->options->matching,
                                                       offline->envoy ? &descriptor : NULL});
    rn_members_close(&m, '}');
    rn_buf_put_char(&out, '\n');
    if (code == 0 && out.failed)
        code = RATION_ENOMEM;
    if (code != 0)
        rn_output_error("no decision: %s", ration_error_text(code));
    else
        fwrite(out.data, 1, out.len, stdout);
    rn_buf_done(&out);
    return code == 0;
}

static int explain(struct rn_offline *offline)
{
    const struct rn_options *o = offline->options;
    struct rn_cli_explain e = {.offline = offline};
    struct ration_request request = {
        .attributes = o->attributes, .count = o->attribute_count, .cost = o->cost};
    struct rn_output out = rn_output_to(stdout, o);

    if (!rn_offline_decide(offline, true, &e.outcome))
        return RN_EXIT_ERROR;
    rn_values_resolve(offline->ruleset, &request, &e.values);
    rn_cli_decision_find(offline, &e.matched);
    if (!o->json)
        put(&out, &e);
    else if (!put_json(&e, &request))
        return RN_EXIT_ERROR;
    return e.outcome.decision.allowed ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_explain(const struct rn_options *options)
{
    struct rn_output complaints = rn_output_to(stderr, options);
    struct rn_offline offline;
    int status = RN_EXIT_ERROR;

    if (rn_daemon_is_meant(options))
        return rn_command_explain_daemon(options);
    if (!rn_offline_load(&offline, options))
        rn_output_report(&complaints, &offline.report);
    else if (rn_offline_open(&offline, false))
        status = explain(&offline);
    rn_offline_done(&offline);
    return status;
}
