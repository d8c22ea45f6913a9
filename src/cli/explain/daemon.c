/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration explain` without rules files: asks the daemon about its rules.
 */
#include <inttypes.h>

#include "cli/client/daemon.h"
#include "cli/explain/explain.h"
#include "cli/output/daemon_reply.h"

static void put_label(const struct rn_output *out, const char *label)
{
    rn_output_put(out, RN_DIM, "    %-7s ", label);
}

static void put_given(const struct rn_output *out, const struct rn_options *o)
{
    rn_output_put(out, RN_BOLD, "request\n");
    if (o->attribute_count == 0)
        rn_output_put(out, RN_DIM, "    without attributes; give some, such as path=/login\n");
    for (size_t i = 0; i < o->attribute_count; i++) {
        const struct ration_attribute *a = &o->attributes[i];

        rn_output_put(out, RN_PLAIN, "    ");
        rn_output_escaped(out, (struct rn_slice){a->name, a->name_len});
        rn_output_put(out, RN_PLAIN, " ");
        rn_output_quoted(out, (struct rn_slice){a->value, a->value_len});
        rn_output_put(out, RN_PLAIN, "\n");
    }
}

/* The path as rules see it, if that differs from the given path. */
static void put_readings(const struct rn_output *out, const struct rn_options *o,
                         const struct rn_cli_json *answer)
{
    const struct rn_cli_json *all = rn_cli_json_get(answer, "readings"),
                             *first = all ? all->first : NULL;

    if (all != NULL && first == NULL)
        rn_output_put(out, RN_ODD,
                      "    path can be read in too many ways, so every condition on it holds\n");
    if (first != NULL && first->next == NULL)
        for (size_t i = 0; i < o->attribute_count; i++) {
            const struct ration_attribute *a = &o->attributes[i];

            if (rn_slice_is((struct rn_slice){a->name, a->name_len}, "path") &&
                rn_slice_equal(first->text, (struct rn_slice){a->value, a->value_len}))
                return;
        }
    for (const struct rn_cli_json *v = first; v != NULL; v = v->next) {
        rn_output_put(out, RN_DIM, v == first ? "    path is read as " : "                 or ");
        rn_output_quoted(out, v->text);
        rn_output_put(out, RN_PLAIN, "\n");
    }
}

static void put_charge(const struct rn_output *out, const struct rn_cli_json *rule)
{
    const struct rn_cli_json *key = rn_cli_json_get(rule, "key");
    struct rn_slice tier = rn_cli_json_text(rule, "tier");

    put_label(out, "key");
    if (key == NULL || key->first == NULL)
        rn_output_put(out, RN_PLAIN, "none: one counter for all");
    rn_daemon_reply_attributes(out, key);
    rn_output_put(out, RN_PLAIN, "\n");
    if (tier.data != NULL) {
        put_label(out, "tier");
        rn_output_escaped(out, tier);
        rn_output_put(out, RN_PLAIN, "\n");
    }
    for (const struct rn_cli_json *l = rn_cli_json_list(rule, "limits"); l != NULL; l = l->next) {
        struct rn_slice text = rn_cli_json_text(l, "text");
        uint64_t amount, remaining;

        put_label(out, "limit");
        rn_output_escaped(out, l->kind == RN_JSON_STRING ? l->text : text);
        if (rn_cli_json_u64(l, "limit", &amount) && rn_cli_json_u64(l, "remaining", &remaining))
            rn_output_put(out, remaining == 0 ? RN_BAD : RN_PLAIN,
                          "%s%" PRIu64 " of %" PRIu64 " left", text.len > 0 ? "; " : "", remaining,
                          amount);
        rn_output_put(out, RN_PLAIN, "\n");
    }
}

static void put_place(const struct rn_output *out, const struct rn_cli_json *of)
{
    uint64_t line = 0;

    rn_cli_json_u64(of, "line", &line);
    rn_output_put(out, RN_PLAIN, "  ");
    rn_output_place(out, rn_cli_json_text(of, "file"), (uint32_t)line);
    rn_output_put(out, RN_PLAIN, "\n");
}

static void put_reason(const struct rn_output *out, bool holds, struct rn_slice text)
{
    rn_output_put(out, holds ? RN_GOOD : RN_BAD, holds ? "    + " : "    - ");
    rn_output_lines(out, text);
    rn_output_put(out, RN_PLAIN, "\n");
}

/* Prints the conditions of a rule that do not hold. */
static void put_conditions(const struct rn_output *out, const struct rn_cli_json *of, bool applies)
{
    const struct rn_cli_json *c = rn_cli_json_list(of, "conditions");

    for (; c != NULL; c = c->next)
        if (applies || !rn_cli_json_is_true(c, "holds"))
            put_reason(out, rn_cli_json_is_true(c, "holds"), rn_cli_json_text(c, "text"));
}

/* The alternative that matches; or why each of them does not. */
static void put_alternatives(const struct rn_output *out, const struct rn_cli_json *rule,
                             bool applies)
{
    const struct rn_cli_json *all = rn_cli_json_list(rule, "alternatives");
    uint64_t count = 0, number = 1, chosen;
    bool one_holds = rn_cli_json_u64(rule, "alternative", &chosen);

    for (const struct rn_cli_json *a = all; a != NULL; a = a->next)
        count++;
    for (const struct rn_cli_json *a = all; a != NULL; a = a->next, number++) {
        if (one_holds && number != chosen)
            continue;
        rn_output_put(out, RN_DIM, "    alternative %" PRIu64 " of %" PRIu64 "\n", number, count);
        put_conditions(out, a, applies);
    }
}

static void put_rule(const struct rn_output *out, const struct rn_cli_json *rule)
{
    bool applies = rn_cli_json_is_true(rule, "applies");
    struct rn_slice name = rn_cli_json_text(rule, "rule"), why = rn_cli_json_text(rule, "why");

    rn_output_put(out, RN_BOLD, "%.*s ", (int)name.len, name.data);
    rn_output_put(out, applies ? RN_GOOD : RN_DIM, applies ? "applies" : "does not apply");
    put_place(out, rule);
    put_conditions(out, rule, applies);
    put_alternatives(out, rule, applies);
    if (rn_slice_is(why, "no key") || rn_slice_is(why, "no tier"))
        put_reason(out, false, rn_cli_json_text(rule, "reason"));
    if (applies)
        put_charge(out, rule);
    rn_output_put(out, RN_PLAIN, "\n");
}

static void put_rules(const struct rn_output *out, const struct rn_cli_json *answer, bool matching)
{
    unsigned hidden = 0;

    for (const struct rn_cli_json *r = rn_cli_json_list(answer, "rules"); r != NULL; r = r->next) {
        if (matching && !rn_cli_json_is_true(r, "applies"))
            hidden++;
        else
            put_rule(out, r);
    }
    if (hidden != 0)
        rn_output_put(out, RN_DIM, "%u rule%s not apply\n\n", hidden,
                      hidden == 1 ? " does" : "s do");
}

/* The allow or deny list that decided before the rules. */
static void put_entry(const struct rn_output *out, const struct rn_cli_json *entry)
{
    struct rn_slice list = rn_cli_json_text(entry, "list");

    rn_output_put(out, RN_BOLD, "%.*s list ", (int)list.len, list.data);
    rn_output_put(out, RN_GOOD, "applies");
    put_place(out, entry);
    put_conditions(out, entry, true);
    rn_output_put(out, RN_DIM, "    so no rule is asked\n\n");
}

static int explain(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    const struct rn_cli_json *entry;
    struct ration_outcome outcome;

    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    if (d->options->cost != 0)
        rn_buf_putf(&d->body, ",\"cost\":%" PRIu64, d->options->cost);
    if (d->options->json && d->options->matching) /* the text output counts the other rules */
        rn_buf_put_literal(&d->body, ",\"matching\":true");
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_do(d, &(struct rn_daemon_request){.method = "POST", .target = "/v1/explain"}))
        return RN_EXIT_ERROR;
    rn_daemon_reply_outcome(rn_cli_json_get(d->answer, "decision"), 0, &outcome);
    entry = rn_cli_json_get(d->answer, "list");
    if (entry != NULL) /* the decision does not name the list */
        outcome.kind = outcome.decision.allowed ? RATION_BY_ALLOW_LIST : RATION_BY_DENY_LIST;
    if (d->options->json) {
        rn_daemon_print(d);
    } else {
        put_given(&out, d->options);
        put_readings(&out, d->options, d->answer);
        rn_output_put(&out, RN_PLAIN, "\n");
        if (entry != NULL)
            put_entry(&out, entry);
        else
            put_rules(&out, d->answer, d->options->matching);
        rn_cli_explain_put_decision(&out, &outcome, &(struct rn_matched_limits){.unknown = true});
    }
    return outcome.decision.allowed ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_explain_daemon(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, explain);
}
