/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration check` without rules files: the daemon decides, and counts.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client/daemon.h"
#include "cli/output/daemon_reply.h"
#include "cli/output/decision_series.h"

static void put_body(struct rn_daemon *d)
{
    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    if (d->options->cost != 0)
        rn_buf_putf(&d->body, ",\"cost\":%" PRIu64, d->options->cost);
    if (d->options->drain)
        rn_buf_put_literal(&d->body, ",\"drain\":true");
    rn_buf_put_char(&d->body, '}');
}

/* Asks for a decision. False after an error message. */
static bool decide(struct rn_daemon *d)
{
    const struct rn_cli_json *allowed;

    put_body(d);
    if (!rn_daemon_ask(d, &(struct rn_daemon_request){.method = "POST", .target = "/v1/check"}))
        return false;
    allowed = rn_cli_json_get(d->answer, "allowed");
    if (allowed != NULL && (allowed->kind == RN_JSON_TRUE || allowed->kind == RN_JSON_FALSE))
        return true;
    rn_daemon_complain(d);
    return false;
}

/* Reports the status of --status, if given and the decision has a ticket. The answer replaces the
 * decision. */
static bool end(struct rn_daemon *d)
{
    const struct rn_cli_json *charge = rn_cli_json_get(d->answer, "charge");

    if (d->options->status == 0 || charge == NULL || charge->kind != RN_JSON_STRING)
        return true;
    rn_buf_put_literal(&d->body, "{\"charge\":");
    rn_json_put_string(&d->body, charge->text);
    rn_buf_putf(&d->body, ",\"status\":%" PRIu64 "}", d->options->status);
    return rn_daemon_do(d, &(struct rn_daemon_request){.method = "POST", .target = "/v1/charge"});
}

static int decide_json(struct rn_daemon *d)
{
    bool several = d->options->times > 1;
    uint64_t count[2] = {0};

    rn_cli_decision_series_begin_json(several);
    for (uint64_t i = 0; i < d->options->times; i++) {
        if (!decide(d))
            return RN_EXIT_ERROR;
        count[rn_cli_json_is_true(d->answer, "allowed")]++;
        fputs(i > 0 ? "," : "", stdout);
        rn_daemon_print(d);
        if (!end(d))
            return RN_EXIT_ERROR;
    }
    return rn_cli_decision_series_end_json(several, count);
}

static int decide_all(struct rn_daemon *d)
{
    struct rn_cli_decision_series s = {.out = rn_output_to(stdout, d->options),
                                       .times = d->options->times,
                                       .matched = {.unknown = true}};
    struct ration_outcome outcome;

    for (uint64_t i = 0; i < s.times; i++) {
        if (!decide(d))
            return RN_EXIT_ERROR;
        rn_daemon_reply_outcome(d->answer, d->status, &outcome);
        rn_cli_decision_series_add(&s, &outcome);
        if (!end(d))
            return RN_EXIT_ERROR;
    }
    rn_cli_decision_series_end(&s);
    return s.refused == 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_check_daemon(const struct rn_options *options)
{
    if (options->attribute_count > 0 || options->server != NULL || options->http != NULL)
        return rn_daemon_run(options, RN_PORT_HTTP, options->json ? decide_json : decide_all);
    rn_output_error("no request given; write for example ration check path=/login ip=192.0.2.7, "
                    "which asks rationd, or ration check rules.yaml path=/login ip=192.0.2.7");
    return RN_EXIT_ERROR;
}
