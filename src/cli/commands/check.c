/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration check`: decides a request, once or several times, and counts; by rules files, or by
 * asking the daemon. Consecutive equal decisions are printed as one.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/client/daemon.h"
#include "cli/output/daemon_reply.h"
#include "cli/output/decision.h"
#include "rules/ruleset.h"
#include "wire/answer.h"

/* Decisions on the same request, by one of the two. */
struct series {
    const struct rn_options *options;
    struct rn_offline *offline; /* NULL: the daemon decides */
    struct rn_daemon *daemon;
    struct rn_output out;
    struct rn_matched_limits matched; /* the same for all */
    uint64_t count[2];                /* refused, allowed */
    struct ration_outcome last;       /* last decision of the current run */
    uint64_t from, to;                /* numbers of the current run, from 1; 0: none yet */
};

/* --- one decision ------------------------------------------------------------------- */

/* Decides; `json` receives the answer of POST /v1/check. False after an error message. */
static bool decide(struct series *s, struct ration_outcome *outcome, struct rn_buf *json)
{
    const struct rn_options *o = s->options;
    struct rn_daemon *d = s->daemon;
    const struct rn_cli_json *allowed;

    if (s->offline != NULL) {
        struct rn_answer_extra extra = {.wall_ns =
                                            ration_wall(s->offline->limiter, s->offline->now_ns)};

        if (!rn_offline_decide(s->offline, false, outcome))
            return false;
        rn_answer_put_body(json, outcome, &extra, false);
        rn_buf_put_char(json, '\n');
        return true;
    }
    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    if (o->cost != 0)
        rn_buf_putf(&d->body, ",\"cost\":%" PRIu64, o->cost);
    if (o->drain)
        rn_buf_put_literal(&d->body, ",\"drain\":true");
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_ask(d, &(struct rn_daemon_request){.method = "POST", .target = "/v1/check"}))
        return false;
    allowed = rn_cli_json_get(d->answer, "allowed");
    if (allowed == NULL || (allowed->kind != RN_JSON_TRUE && allowed->kind != RN_JSON_FALSE)) {
        rn_daemon_complain(d);
        return false;
    }
    rn_daemon_reply_outcome(d->answer, d->status, outcome);
    rn_buf_put_slice(json, d->text);
    rn_buf_put(json, "\n", json->len == 0 || json->data[json->len - 1] != '\n');
    return true;
}

/* Reports the status of --status, if given. The daemon's answer replaces the decision. */
static bool charge(struct series *s, struct ration_outcome *outcome)
{
    const struct rn_cli_json *ticket;
    uint64_t status = s->options->status;
    int code;

    if (status == 0)
        return true;
    if (s->offline != NULL) {
        code = ration_outcome_charge(s->offline->limiter, outcome, (unsigned)status,
                                     s->offline->now_ns, NULL);
        if (code != 0)
            rn_output_error("the outcome could not be charged: %s", ration_error_text(code));
        return code == 0;
    }
    ticket = rn_cli_json_get(s->daemon->answer, "charge");
    if (ticket == NULL || ticket->kind != RN_JSON_STRING)
        return true;
    rn_buf_put_literal(&s->daemon->body, "{\"charge\":");
    rn_json_put_string(&s->daemon->body, ticket->text);
    rn_buf_putf(&s->daemon->body, ",\"status\":%" PRIu64 "}", status);
    return rn_daemon_do(s->daemon,
                        &(struct rn_daemon_request){.method = "POST", .target = "/v1/charge"});
}

/* --- several ------------------------------------------------------------------------ */

/* Prints the current run. */
static void put_run(const struct series *s)
{
    char numbers[48];

    if (s->from == s->to)
        snprintf(numbers, sizeof numbers, "%" PRIu64, s->from);
    else
        snprintf(numbers, sizeof numbers, "%" PRIu64 "-%" PRIu64, s->from, s->to);
    if (s->options->times > 1)
        rn_output_put(&s->out, RN_DIM, "%-9s ", numbers);
    rn_cli_decision_line(&s->out, &s->last, s->matched.entry, s->from != s->to);
    rn_output_put(&s->out, RN_PLAIN, "\n");
}

/* Adds a decision to the current run, or ends that and begins another. */
static void add(struct series *s, const struct ration_outcome *o, uint64_t number)
{
    const struct ration_outcome *l = &s->last;
    bool alike =
        o->decision.allowed == l->decision.allowed && o->kind == l->kind && o->soft == l->soft &&
        o->shadow_refused == l->shadow_refused && (o->delay_ns > 0) == (l->delay_ns > 0) &&
        (o->waited_ns > 0) == (l->waited_ns > 0) &&
        (o->shadow_delay_ns > 0) == (l->shadow_delay_ns > 0) && strcmp(o->rule, l->rule) == 0;

    if (s->from != 0 && !alike)
        put_run(s);
    if (s->from == 0 || !alike)
        s->from = number;
    s->to = number;
    s->last = *o;
}

/* Decides --times times and prints that. Returns the exit status. */
static int run(struct series *s)
{
    bool json = s->options->json, several = s->options->times > 1, ok = true;
    struct ration_outcome outcome;
    struct rn_buf text = {0};

    fputs(json && several ? "{\"decisions\":[\n" : "", stdout);
    for (uint64_t i = 1; ok && i <= s->options->times; i++) {
        rn_buf_clear(&text);
        ok = decide(s, &outcome, &text);
        if (!ok)
            break;
        s->count[outcome.decision.allowed]++;
        if (json)
            fprintf(stdout, "%s%.*s", i > 1 ? "," : "", (int)text.len, text.data);
        else
            add(s, &outcome, i);
        ok = charge(s, &outcome);
    }
    rn_buf_done(&text);
    if (!ok)
        return RN_EXIT_ERROR;
    if (json && several)
        printf("],\"allowed\":%" PRIu64 ",\"refused\":%" PRIu64 "}\n", s->count[1], s->count[0]);
    if (json)
        return s->count[0] == 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
    put_run(s);
    if (several)
        rn_output_put(&s->out, RN_BOLD, "%" PRIu64 " allowed, %" PRIu64 " refused\n", s->count[1],
                      s->count[0]);
    if (!s->last.decision.allowed && s->last.message[0] != '\0') {
        rn_output_put(&s->out, RN_PLAIN, "message: ");
        rn_output_escaped(&s->out, rn_slice_of(s->last.message));
        rn_output_put(&s->out, RN_PLAIN, "\n");
    }
    rn_cli_decision_table(&s->out, &s->last, &s->matched);
    return s->count[0] == 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

/* --- the command -------------------------------------------------------------------- */

/* Rules in Envoy's format see descriptors, not the attributes of POST /v1/check. */
static void note_descriptor(const struct series *s)
{
    const struct rn_options *o = s->options;
    struct rn_slice first = {0};

    if (o->attribute_count > 0)
        first = (struct rn_slice){o->attributes[0].name, o->attributes[0].name_len};
    if (s->from != 0 && s->last.kind == RATION_BY_NO_RULE && rn_slice_is(first, "domain"))
        rn_output_error("note: if this is a descriptor for rules in Envoy's format, name their "
                        "files here, or send it to POST /json of the daemon");
}

static int check_daemon(struct rn_daemon *d)
{
    struct series s = {.options = d->options,
                       .daemon = d,
                       .out = rn_output_to(stdout, d->options),
                       .matched = {.unknown = true}};
    int status = run(&s);

    if (status == RN_EXIT_OK)
        note_descriptor(&s);
    return status;
}

/* Warns about an attribute that no rule uses but whose name is close to one that is used. */
static void note_misspelled(const struct rn_offline *s)
{
    for (size_t i = 0; !s->envoy && i < s->options->attribute_count; i++) {
        const struct ration_attribute *a = &s->options->attributes[i];
        struct rn_slice name = {a->name, a->name_len};
        const char *meant = rn_ruleset_uses_attribute(s->ruleset, name)
                                ? NULL
                                : rn_ruleset_suggest_attribute(s->ruleset, name);

        if (meant != NULL)
            rn_output_error("note: no rule looks at %s; did you mean %s?", rn_excerpt(name).text,
                            meant);
    }
}

int rn_command_check(const struct rn_options *options)
{
    struct rn_output complaints = rn_output_to(stderr, options);
    struct rn_offline offline;
    int status = RN_EXIT_ERROR;

    if (rn_daemon_is_meant(options)) {
        if (options->attribute_count > 0 || options->server != NULL || options->http != NULL)
            return rn_daemon_run(options, RN_PORT_HTTP, check_daemon);
        rn_output_error(
            "no request given; write for example ration check path=/login ip=192.0.2.7, "
            "which asks rationd, or ration check rules.yaml path=/login ip=192.0.2.7");
        return RN_EXIT_ERROR;
    }
    if (!rn_offline_load(&offline, options)) {
        rn_output_report(&complaints, &offline.report);
    } else if (rn_offline_open(&offline, true)) {
        struct series s = {
            .options = options, .offline = &offline, .out = rn_output_to(stdout, options)};

        note_misspelled(&offline);
        rn_cli_decision_find(&offline, &s.matched);
        status = run(&s);
    }
    rn_offline_done(&offline);
    return status;
}
