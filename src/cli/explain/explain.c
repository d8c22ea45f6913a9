/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration explain`: the request as the rules see it, whether each rule applies, and the
 * decision. Counts nothing.
 */
#include "cli/explain/explain.h"

#include <inttypes.h>

#include "cli/client/daemon.h"
#include "cli/output/daemon_reply.h"

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

        rn_cli_explain_put_request(&out, o, answer);
        if (offline->envoy)
            rn_cli_explain_put_descriptor(&out, offline, &outcome);
        rn_cli_explain_put_answer(&out, o, answer, &outcome);
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
        rn_cli_explain_put_request(&out, d->options, d->answer);
        rn_cli_explain_put_answer(&out, d->options, d->answer, &outcome);
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
