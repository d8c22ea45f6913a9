/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration check` with rules files: decides, once or several times, and counts.
 */
#include "cli/client/daemon.h"
#include "cli/output/decision_series.h"
#include "rules/ruleset.h"
#include "wire/answer.h"

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

/* Reports the status of --status, if given. */
static bool end(struct rn_offline *s, struct ration_outcome *outcome)
{
    int code = s->options->status != 0
                   ? ration_outcome_charge(s->limiter, outcome, (unsigned)s->options->status,
                                           s->now_ns, NULL)
                   : 0;

    if (code != 0)
        rn_output_error("the outcome could not be charged: %s", ration_error_text(code));
    return code == 0;
}

static int decide(struct rn_offline *offline)
{
    struct rn_cli_decision_series s = {.out = rn_output_to(stdout, offline->options),
                                       .times = offline->options->times};
    struct ration_outcome outcome;

    rn_cli_decision_find(offline, &s.matched);
    for (uint64_t i = 0; i < s.times; i++) {
        if (!rn_offline_decide(offline, false, &outcome))
            return RN_EXIT_ERROR;
        rn_cli_decision_series_add(&s, &outcome);
        if (!end(offline, &outcome))
            return RN_EXIT_ERROR;
    }
    rn_cli_decision_series_end(&s);
    return s.refused == 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

/* Prints the same JSON as the answer to POST /v1/check. */
static int decide_json(struct rn_offline *offline)
{
    struct rn_answer_extra extra = {.wall_ns = ration_wall(offline->limiter, offline->now_ns)};
    bool several = offline->options->times > 1;
    struct ration_outcome outcome;
    uint64_t count[2] = {0};

    rn_cli_decision_series_begin_json(several);
    for (uint64_t i = 0; i < offline->options->times; i++) {
        struct rn_buf text = {0};

        if (!rn_offline_decide(offline, false, &outcome))
            return RN_EXIT_ERROR;
        rn_buf_put(&text, ",", i > 0);
        rn_answer_put_body(&text, &outcome, &extra, false);
        rn_buf_put_char(&text, '\n');
        fwrite(text.data, 1, text.len, stdout);
        rn_buf_done(&text);
        count[outcome.decision.allowed]++;
        if (!end(offline, &outcome))
            return RN_EXIT_ERROR;
    }
    return rn_cli_decision_series_end_json(several, count);
}

int rn_command_check(const struct rn_options *options)
{
    struct rn_output complaints = rn_output_to(stderr, options);
    struct rn_offline offline;
    int status = RN_EXIT_ERROR;

    if (rn_daemon_is_meant(options))
        return rn_command_check_daemon(options);
    if (!rn_offline_load(&offline, options)) {
        rn_output_report(&complaints, &offline.report);
    } else if (rn_offline_open(&offline, true)) {
        note_misspelled(&offline);
        status = options->json ? decide_json(&offline) : decide(&offline);
    }
    rn_offline_done(&offline);
    return status;
}
