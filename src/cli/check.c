/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration check` with rules files: decides, once or several times, and counts.
 */
#include "cli/daemon.h"
#include "cli/series.h"
#include "rules/looks_at.h"

/* A name that no rule knows, but nearly. */
static void note_misspelled(const struct rn_session *s)
{
    for (size_t i = 0; !s->envoy && i < s->options->attribute_count; i++) {
        const struct ration_attribute *a = &s->options->attributes[i];
        struct rn_slice name = {a->name, a->name_len};
        const char *meant =
            rn_ruleset_looks_at(s->ruleset, name) ? NULL : rn_ruleset_meant(s->ruleset, name);

        if (meant != NULL)
            rn_complain("note: no rule looks at %s; did you mean %s?", rn_excerpt(name).text,
                        meant);
    }
}

/* Tells how a request ended, if it is said. */
static bool end(struct rn_session *s, struct ration_outcome *outcome)
{
    int code = s->options->status != 0
                   ? ration_outcome_charge(s->limiter, outcome, (unsigned)s->options->status,
                                           s->now_ns, NULL)
                   : 0;

    if (code != 0)
        rn_complain("the outcome could not be charged: %s", ration_error_text(code));
    return code == 0;
}

static int decide(struct rn_session *session)
{
    struct rn_series s = {.out = rn_output_to(stdout, session->options),
                          .times = session->options->times};
    struct ration_outcome outcome;

    rn_decision_find(session, &s.applying);
    for (uint64_t i = 0; i < s.times; i++) {
        if (!rn_session_decide(session, false, &outcome))
            return RN_EXIT_ERROR;
        rn_series_add(&s, &outcome);
        if (!end(session, &outcome))
            return RN_EXIT_ERROR;
    }
    rn_series_end(&s);
    return s.refused == 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

static int decide_json(struct rn_session *session)
{
    struct rn_pretty json = RN_PRETTY_TO(stdout);
    bool several = session->options->times > 1;
    struct rn_applying applying;
    struct ration_outcome outcome;
    uint64_t count[2] = {0};

    rn_decision_find(session, &applying);
    if (several) {
        rn_pretty_open(&json, NULL, '{');
        rn_pretty_open(&json, "decisions", '[');
    }
    for (uint64_t i = 0; i < session->options->times; i++) {
        if (!rn_session_decide(session, false, &outcome))
            return RN_EXIT_ERROR;
        rn_decision_json(&json, NULL, &outcome, &applying);
        count[outcome.decision.allowed]++;
        if (!end(session, &outcome))
            return RN_EXIT_ERROR;
    }
    if (several) {
        rn_pretty_close(&json, ']');
        rn_pretty_uint(&json, "allowed", count[true]);
        rn_pretty_uint(&json, "refused", count[false]);
        rn_pretty_close(&json, '}');
    }
    return count[false] == 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_check(const struct rn_options *options)
{
    struct rn_output complaints = rn_output_to(stderr, options);
    struct rn_session session;
    int status = RN_EXIT_ERROR;

    if (rn_daemon_is_meant(options))
        return rn_command_check_daemon(options);
    if (!rn_session_load(&session, options)) {
        rn_output_report(&complaints, &session.report);
    } else if (rn_session_open(&session, true)) {
        note_misspelled(&session);
        status = options->json ? decide_json(&session) : decide(&session);
    }
    rn_session_done(&session);
    return status;
}
