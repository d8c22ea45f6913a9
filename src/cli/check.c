/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration check`: decides, once or several times, and counts.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/decision.h"

/* Decisions in a row that came out the same way are told as one. */
struct series {
    struct rn_session session;
    struct rn_output out;
    struct rn_applying applying;
    struct rn_pretty json;
    struct ration_outcome last; /* of the run that is open */
    uint64_t from, to;          /* which ones they were, from 1; 0: none yet */
    uint64_t allowed, refused;
};

static bool is_alike(const struct ration_outcome *a, const struct ration_outcome *b)
{
    return a->decision.allowed == b->decision.allowed && a->kind == b->kind && a->soft == b->soft &&
           a->shadow_refused == b->shadow_refused && (a->delay_ns > 0) == (b->delay_ns > 0) &&
           strcmp(a->rule, b->rule) == 0;
}

static void put_run(const struct series *s)
{
    char numbers[48];

    if (s->from == s->to)
        snprintf(numbers, sizeof numbers, "%" PRIu64, s->from);
    else
        snprintf(numbers, sizeof numbers, "%" PRIu64 "-%" PRIu64, s->from, s->to);
    rn_output_put(&s->out, RN_DIM, "%-9s ", numbers);
    rn_decision_line(&s->out, &s->last, &s->applying, s->from != s->to);
    rn_output_put(&s->out, RN_PLAIN, "\n");
}

static void add(struct series *s, uint64_t number, const struct ration_outcome *outcome)
{
    s->allowed += outcome->decision.allowed;
    s->refused += !outcome->decision.allowed;
    if (s->session.options->json) {
        if (s->session.options->times > 1)
            rn_decision_json(&s->json, NULL, outcome, &s->applying);
    } else if (s->from != 0 && !is_alike(&s->last, outcome)) {
        put_run(s);
        s->from = number;
    }
    s->from = s->from == 0 ? number : s->from;
    s->to = number;
    s->last = *outcome;
}

static void put_end(struct series *s)
{
    if (s->session.options->times == 1) {
        rn_decision_line(&s->out, &s->last, &s->applying, false);
        rn_output_put(&s->out, RN_PLAIN, "\n");
    } else {
        put_run(s);
        rn_output_put(&s->out, RN_BOLD, "%" PRIu64 " allowed, %" PRIu64 " refused\n", s->allowed,
                      s->refused);
    }
    if (!s->last.decision.allowed && s->last.message[0] != '\0') {
        rn_output_put(&s->out, RN_PLAIN, "message: ");
        rn_output_escaped(&s->out, rn_slice_of(s->last.message));
        rn_output_put(&s->out, RN_PLAIN, "\n");
    }
    rn_decision_table(&s->out, &s->last, &s->applying);
}

static void begin_json(struct series *s)
{
    s->json = RN_PRETTY_TO(stdout);
    if (s->session.options->times > 1) {
        rn_pretty_open(&s->json, NULL, '{');
        rn_pretty_open(&s->json, "decisions", '[');
    }
}

static void end_json(struct series *s)
{
    if (s->session.options->times == 1) {
        rn_decision_json(&s->json, NULL, &s->last, &s->applying);
        return;
    }
    rn_pretty_close(&s->json, ']');
    rn_pretty_uint(&s->json, "allowed", s->allowed);
    rn_pretty_uint(&s->json, "refused", s->refused);
    rn_pretty_close(&s->json, '}');
}

/* A name that no rule knows, but nearly. */
static void note_misspelled(const struct rn_session *s)
{
    for (size_t i = 0; !s->envoy && i < s->options->attribute_count; i++) {
        const struct ration_attribute *a = &s->options->attributes[i];
        struct rn_slice name = {a->name, a->name_len};
        const char *meant;

        if (!rn_session_looks_at(s, name, &meant) && meant != NULL)
            rn_complain("note: no rule looks at %s; did you mean %s?", rn_excerpt(name).text,
                        meant);
    }
}

static int decide_all(struct series *s)
{
    const struct rn_options *o = s->session.options;
    struct ration_outcome outcome;

    note_misspelled(&s->session);
    rn_decision_find(&s->session, &s->applying);
    if (o->json)
        begin_json(s);
    for (uint64_t i = 1; i <= o->times; i++) {
        if (!rn_session_decide(&s->session, false, &outcome))
            return RN_EXIT_ERROR;
        add(s, i, &outcome);
    }
    if (o->json)
        end_json(s);
    else
        put_end(s);
    return s->refused == 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_check(const struct rn_options *options)
{
    struct series s = {.out = rn_output_to(stdout, options)};
    struct rn_output complaints = rn_output_to(stderr, options);
    int status = RN_EXIT_ERROR;

    if (!rn_session_load(&s.session, options))
        rn_output_report(&complaints, &s.session.report);
    else if (rn_session_open(&s.session, true))
        status = decide_all(&s);
    rn_session_done(&s.session);
    return status;
}
