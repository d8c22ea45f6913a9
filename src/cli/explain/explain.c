/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration explain`: the request as the rules see it, whether each rule applies, and the
 * decision. Counts nothing.
 */
#include "cli/explain/explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "cli/client/daemon.h"
#include "cli/output/daemon_reply.h"
#include "cli/output/decision.h"

static void put_label(const struct rn_output *out, const char *label)
{
    rn_output_put(out, RN_DIM, "    %-8s", label);
}

static void put_field(const struct rn_output *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put_field(const struct rn_output *out, const char *label, const char *format, ...)
{
    va_list args;

    put_label(out, label);
    va_start(args, format);
    vfprintf(out->file, format, args);
    va_end(args);
    fputc('\n', out->file);
}

/* --- the request ------------------------------------------------------------------- */

/* The path as rules see it, if that differs from the given path. */
static void put_readings(const struct rn_output *out, const struct rn_options *o,
                         const struct rn_cli_json *answer)
{
    const struct rn_cli_json *all = rn_cli_json_get(answer, "readings"),
                             *first = all != NULL ? all->first : NULL;

    if (all != NULL && first == NULL)
        rn_output_put(out, RN_ODD,
                      "    path can be read in too many ways, so every condition on it holds\n");
    for (size_t i = 0; first != NULL && first->next == NULL && i < o->attribute_count; i++) {
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

/* Its attributes, as given and as rules see them. */
static void put_request(const struct rn_output *out, const struct rn_options *o,
                        const struct rn_cli_json *answer)
{
    const struct rn_cli_json *seen = rn_cli_json_list(answer, "request");

    rn_output_put(out, RN_BOLD, "request\n");
    if (o->attribute_count == 0)
        rn_output_put(out, RN_DIM, "    without attributes; give some, such as path=/login\n");
    for (size_t i = 0; i < o->attribute_count; i++, seen = seen != NULL ? seen->next : NULL) {
        const struct ration_attribute *a = &o->attributes[i];
        struct rn_slice meant = rn_cli_json_text(seen, "meant");

        rn_output_pair(out, "    ", (struct rn_slice){a->name, a->name_len},
                       (struct rn_slice){a->value, a->value_len});
        if (rn_cli_json_is_true(seen, "unused"))
            rn_output_put(out, RN_ODD, "  no rule looks at it");
        if (meant.len > 0)
            rn_output_put(out, RN_ODD, "; did you mean %.*s?", (int)meant.len, meant.data);
        rn_output_put(out, RN_PLAIN, "\n");
    }
    put_readings(out, o, answer);
    for (seen = rn_cli_json_list(answer, "derived"); seen != NULL; seen = seen->next) {
        struct rn_slice header = rn_cli_json_text(seen, "header"),
                        database = rn_cli_json_text(seen, "database");

        rn_output_pair(out, "    ", rn_cli_json_text(seen, "attribute"),
                       rn_cli_json_text(seen, "value"));
        rn_output_put(out, RN_DIM,
                      header.data != NULL     ? "  from header "
                      : database.data != NULL ? "  from database "
                                              : "  from path ");
        rn_output_escaped(out, header.data != NULL     ? header
                               : database.data != NULL ? database
                                                       : rn_cli_json_text(seen, "path"));
        rn_output_put(out, RN_PLAIN, "\n");
    }
    rn_output_put(out, RN_PLAIN, "\n");
}

/* --- why --------------------------------------------------------------------------- */

static void put_reason(const struct rn_output *out, bool holds, struct rn_slice text)
{
    rn_output_put(out, holds ? RN_GOOD : RN_BAD, holds ? "    + " : "    - ");
    rn_output_lines(out, text);
    rn_output_put(out, RN_PLAIN, "\n");
}

/* The conditions of a rule that applies; else those that do not hold. */
static void put_conditions(const struct rn_output *out, const struct rn_cli_json *of, bool applies)
{
    const struct rn_cli_json *c = rn_cli_json_list(of, "conditions");

    for (; c != NULL; c = c->next)
        if (applies || !rn_cli_json_is_true(c, "holds"))
            put_reason(out, rn_cli_json_is_true(c, "holds"), rn_cli_json_text(c, "text"));
}

/* `applies  rules.yaml:4`, and a newline. */
static void put_applies(const struct rn_output *out, const struct rn_cli_json *of, bool applies)
{
    uint64_t line = 0;

    rn_output_put(out, applies ? RN_GOOD : RN_DIM, applies ? "applies" : "does not apply");
    rn_cli_json_u64(of, "line", &line);
    rn_output_put(out, RN_PLAIN, "  ");
    rn_output_place(out, rn_cli_json_text(of, "file"), (uint32_t)line);
    rn_output_put(out, RN_PLAIN, "\n");
}

/* --- what is charged --------------------------------------------------------------- */

static void put_key_and_tier(const struct rn_output *out, const struct rn_cli_json *rule)
{
    const struct rn_cli_json *key = rn_cli_json_get(rule, "key");
    struct rn_slice tier = rn_cli_json_text(rule, "tier"),
                    by = rn_cli_json_text(rule, "tier_attribute"),
                    value = rn_cli_json_text(rule, "tier_value"),
                    second = rn_cli_json_text(rule, "tier_second_attribute");

    put_label(out, "key");
    if (key == NULL || key->first == NULL)
        rn_output_put(out, RN_PLAIN, "none: one counter for all");
    rn_daemon_reply_attributes(out, key);
    rn_output_put(out, RN_PLAIN, "\n");
    if (tier.data == NULL)
        return;
    put_label(out, "tier");
    rn_output_escaped(out, tier.len > 0 ? tier : RN_SLICE("default"));
    if (second.data != NULL)
        rn_output_put(out, RN_PLAIN, "%s by %.*s and %.*s",
                      memchr(tier.data, ',', tier.len) != NULL ? ";" : ",", (int)by.len, by.data,
                      (int)second.len, second.data);
    else if (by.data != NULL && value.data == NULL)
        rn_output_put(out, RN_PLAIN, ", the default: %.*s is absent", (int)by.len, by.data);
    else if (by.data != NULL)
        rn_output_put(out, RN_PLAIN, "%s by %.*s",
                      rn_slice_equal(value, tier) ? "," : ", the default,", (int)by.len, by.data);
    rn_output_put(out, RN_PLAIN, "\n");
}

static void put_limit(const struct rn_output *out, const struct rn_cli_json *limit)
{
    struct rn_slice text = rn_cli_json_text(limit, "text"),
                    algorithm = rn_cli_json_text(limit, "algorithm");
    bool said = rn_slice_is(algorithm, "token-bucket") || rn_slice_is(algorithm, "leaky-bucket") ||
                rn_slice_is(algorithm, "concurrency") || rn_slice_is(algorithm, "unlimited") ||
                (text.len > 0 && memmem(text.data, text.len, "calendar", 8) != NULL);
    uint64_t amount, remaining;

    put_label(out, "limit");
    rn_output_escaped(out, text);
    if (!said && algorithm.len > 0) /* the texts of the others say what they are */
        rn_output_put(out, RN_PLAIN, ", %.*s", (int)algorithm.len, algorithm.data);
    if (rn_cli_json_u64(limit, "limit", &amount) &&
        rn_cli_json_u64(limit, "remaining", &remaining)) {
        bool over = rn_cli_json_seconds(limit, "retry_after") != 0;

        rn_output_put(out, RN_PLAIN, "; ");
        rn_output_put(out, over ? RN_BAD : RN_PLAIN, "%" PRIu64 " of %" PRIu64 " left", remaining,
                      amount);
    }
    int percent = rn_cli_json_percent(limit, "factor");

    if (percent != 0 && percent != 100)
        rn_output_put(out, RN_PLAIN, ", at a factor of %d%%", percent);
    if (rn_cli_json_get(limit, "best_latency") != NULL) {
        int64_t best_ns = rn_cli_json_seconds(limit, "best_latency");
        char best[RN_TIME_TEXT], recent[RN_TIME_TEXT];

        if (best_ns > 0)
            rn_output_put(out, RN_PLAIN, "; held for %s at best, %s of late",
                          rn_output_time(best_ns, best),
                          rn_output_time(rn_cli_json_seconds(limit, "recent_latency"), recent));
        else
            rn_output_put(out, RN_PLAIN, "; nothing learnt yet");
    }
    rn_output_put(out, RN_PLAIN, "\n");
    rn_daemon_reply_line(out, "    ", limit);
}

static void put_charge(const struct rn_output *out, const struct rn_cli_json *rule)
{
    const struct rn_cli_json *throttle = rn_cli_json_get(rule, "throttle");
    struct rn_slice statuses = rn_cli_json_text(rule, "charge_on");
    int64_t max_ns = rn_cli_json_seconds(throttle, "max_delay");
    char text[RN_TIME_TEXT];
    uint64_t number = 0;

    rn_cli_json_u64(rule, "cost", &number);
    put_field(out, "cost", "%" PRIu64, number);
    if (statuses.len > 0)
        put_field(out, "charged", "when the answer is known, if its status is %.*s",
                  (int)statuses.len, statuses.data);
    if (rn_cli_json_u64(rule, "keep_percent", &number) && number != 0)
        put_field(out, "leaves", "%" PRIu64 "%% of the limit, to requests of higher priority",
                  number);
    if (rn_cli_json_u64(rule, "soft_percent", &number))
        put_field(out, "soft", "%" PRIu64 "%% more is admitted and marked", number);
    if (throttle != NULL) {
        bool requests = rn_cli_json_u64(throttle, "from_requests", &number);

        rn_cli_json_u64(throttle, "from_percent", &number);
        put_field(out, "throttle", " from %" PRIu64 "%s on, %s%s", number,
                  requests ? " requests" : "%", max_ns != 0 ? "up to " : "at the rate of the limit",
                  max_ns != 0 ? rn_output_time(max_ns, text) : "");
    }
    rn_daemon_reply_queue(out, "    ", rule);
    if (rn_cli_json_is_true(rule, "shadow")) {
        put_label(out, "mode");
        rn_output_put(out, RN_ODD, "shadow: counted, never refused\n");
    }
}

/* --- rules and the decision -------------------------------------------------------- */

static void put_rule(const struct rn_output *out, const struct rn_cli_json *rule, bool applies)
{
    const struct rn_cli_json *alternatives = rn_cli_json_list(rule, "alternatives"), *v;
    struct rn_slice name = rn_cli_json_text(rule, "rule"), why = rn_cli_json_text(rule, "why");
    uint64_t count = 0, number = 1, chosen;
    bool one_holds = rn_cli_json_u64(rule, "alternative", &chosen);
    char text[RN_TIME_TEXT];

    rn_output_put(out, RN_BOLD, "%.*s ", (int)name.len, name.data);
    put_applies(out, rule, applies);
    put_conditions(out, rule, applies);
    for (v = alternatives; v != NULL; v = v->next)
        count++;
    /* The alternative that matches; or why each of them does not. */
    for (v = alternatives; v != NULL; v = v->next, number++) {
        if (one_holds && number != chosen)
            continue;
        rn_output_put(out, RN_DIM, "    alternative %" PRIu64 " of %" PRIu64 "\n", number, count);
        put_conditions(out, v, applies);
    }
    if (rn_slice_is(why, "no key") || rn_slice_is(why, "no tier"))
        put_reason(out, false, rn_cli_json_text(rule, "reason"));
    if (applies) {
        put_key_and_tier(out, rule);
        for (v = rn_cli_json_list(rule, "limits"); v != NULL; v = v->next)
            put_limit(out, v);
        if (!rn_slice_is(why, "unlimited"))
            put_charge(out, rule);
        rn_daemon_reply_reputation(out, "    ", rule);
        if (rn_cli_json_seconds(rule, "paused_for") > 0) {
            put_label(out, "paused");
            rn_output_put(out, RN_BAD, "for %s\n",
                          rn_output_time(rn_cli_json_seconds(rule, "paused_for"), text));
        }
    }
    rn_output_put(out, RN_PLAIN, "\n");
}

/* The list that applies, or the rules; then the decision. */
static void put_answer(const struct rn_output *out, const struct rn_options *options,
                       const struct rn_cli_json *answer, const struct ration_outcome *o)
{
    const struct rn_cli_json *list = rn_cli_json_get(answer, "list"),
                             *rule = rn_cli_json_list(answer, "rules");
    struct rn_list_entry entry = {.file = rn_cli_json_text(list, "file")};
    struct rn_slice name = rn_cli_json_text(list, "list");
    int64_t patience_ns = 0; /* of the rule that decides */
    uint64_t line = 0;
    unsigned hidden = 0;

    rn_cli_json_u64(list, "line", &line);
    entry.line = (uint32_t)line;
    if (list != NULL) {
        rn_output_put(out, RN_BOLD, "%.*s list ", (int)name.len, name.data);
        put_applies(out, list, true);
        put_conditions(out, list, true);
        rn_output_put(out, RN_DIM, "    so no rule is asked\n\n");
    }
    for (; list == NULL && rule != NULL; rule = rule->next) {
        bool applies = rn_cli_json_is_true(rule, "applies");

        if (rn_slice_is(rn_cli_json_text(rule, "rule"), o->rule))
            patience_ns = rn_cli_json_seconds(rn_cli_json_get(rule, "queue"), "max_wait");
        if (applies || !options->matching)
            put_rule(out, rule, applies);
        else
            hidden++;
    }
    if (hidden != 0)
        rn_output_put(out, RN_DIM, "%u rule%s not apply\n\n", hidden,
                      hidden == 1 ? " does" : "s do");
    rn_output_put(out, RN_BOLD, "would be ");
    rn_cli_decision_line(out, o, list != NULL ? &entry : NULL, false);
    if (o->decision.allowed && o->decision.decided_by >= 0 && o->limit_count > 1)
        rn_output_put(out, RN_PLAIN, "; %s is nearest its limit", o->rule);
    if (!o->decision.allowed && o->decision.verdict.retry_after_ns < patience_ns)
        rn_output_put(out, RN_PLAIN, ", or wait in line until then");
    rn_output_put(out, RN_DIM, "\nnothing was counted\n");
}

/* --- the command -------------------------------------------------------------------- */

static int explain_files(struct rn_offline *offline)
{
    const struct rn_options *o = offline->options;
    struct ration_request request = {
        .attributes = o->attributes, .count = o->attribute_count, .cost = o->cost};
    const struct rn_explanation_descriptor descriptor = {
        o->json ? rn_cli_explain_json_descriptor : NULL,
        o->json ? rn_cli_explain_json_descriptor_rule : NULL, offline};
    struct rn_output out = rn_output_to(stdout, o);
    struct ration_outcome outcome;
    struct rn_arena arena = {0};
    struct rn_buf json = {0};
    struct rn_members m = {.out = &json};
    int code;

    if (!rn_offline_decide(offline, true, &outcome))
        return RN_EXIT_ERROR;
    rn_members_open(&m, NULL, '{');
    code = rn_explanation_put(&m, offline->limiter,
                              &(struct rn_explanation){&request, &outcome, offline->now_ns,
                                                       o->json && o->matching,
                                                       offline->envoy ? &descriptor : NULL});
    rn_members_close(&m, '}');
    code = code == 0 && json.failed ? RATION_ENOMEM : code;
    if (code != 0) {
        rn_output_error("no decision: %s", ration_error_text(code));
    } else if (o->json) {
        rn_output_json(&json);
    } else {
        const struct rn_cli_json *answer = rn_cli_json_parse(&arena, json.data, json.len, NULL);

        put_request(&out, o, answer);
        if (offline->envoy)
            rn_cli_explain_put_descriptor(&out, offline, &outcome);
        put_answer(&out, o, answer, &outcome);
    }
    rn_arena_done(&arena);
    rn_buf_done(&json);
    return code != 0 ? RN_EXIT_ERROR : outcome.decision.allowed ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

static int explain_daemon(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
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
    const struct rn_cli_json *list = rn_cli_json_get(d->answer, "list");
    if (list != NULL) /* the decision does not name the list */
        outcome.kind = rn_slice_is(rn_cli_json_text(list, "list"), "deny") ? RATION_BY_DENY_LIST
                                                                           : RATION_BY_ALLOW_LIST;
    if (d->options->json) {
        rn_daemon_print(d);
    } else {
        put_request(&out, d->options, d->answer);
        put_answer(&out, d->options, d->answer, &outcome);
    }
    return outcome.decision.allowed ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_explain(const struct rn_options *options)
{
    struct rn_output complaints = rn_output_to(stderr, options);
    struct rn_offline offline;
    int status = RN_EXIT_ERROR;

    if (rn_daemon_is_meant(options))
        return rn_daemon_run(options, RN_PORT_ADMIN, explain_daemon);
    if (!rn_offline_load(&offline, options))
        rn_output_report(&complaints, &offline.report);
    else if (rn_offline_open(&offline, false))
        status = explain_files(&offline);
    rn_offline_done(&offline);
    return status;
}
