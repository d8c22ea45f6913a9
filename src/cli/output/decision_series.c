/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/decision_series.h"

#include <inttypes.h>
#include <string.h>

static bool is_alike(const struct ration_outcome *a, const struct ration_outcome *b)
{
    return a->decision.allowed == b->decision.allowed && a->kind == b->kind && a->soft == b->soft &&
           a->shadow_refused == b->shadow_refused && (a->delay_ns > 0) == (b->delay_ns > 0) &&
           (a->shadow_delay_ns > 0) == (b->shadow_delay_ns > 0) && strcmp(a->rule, b->rule) == 0;
}

static void put_run(const struct rn_cli_decision_series *s)
{
    char numbers[48];

    if (s->from == s->to)
        snprintf(numbers, sizeof numbers, "%" PRIu64, s->from);
    else
        snprintf(numbers, sizeof numbers, "%" PRIu64 "-%" PRIu64, s->from, s->to);
    rn_output_put(&s->out, RN_DIM, "%-9s ", numbers);
    rn_cli_decision_line(&s->out, &s->last, s->matched.entry, s->from != s->to);
    rn_output_put(&s->out, RN_PLAIN, "\n");
}

void rn_cli_decision_series_add(struct rn_cli_decision_series *s,
                                const struct ration_outcome *outcome)
{
    uint64_t number = s->allowed + s->refused + 1;

    s->allowed += outcome->decision.allowed;
    s->refused += !outcome->decision.allowed;
    if (s->from != 0 && !is_alike(&s->last, outcome)) {
        put_run(s);
        s->from = number;
    }
    s->from = s->from == 0 ? number : s->from;
    s->to = number;
    s->last = *outcome;
}

void rn_cli_decision_series_end(struct rn_cli_decision_series *s)
{
    if (s->times == 1) {
        rn_cli_decision_line(&s->out, &s->last, s->matched.entry, false);
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
    rn_cli_decision_table(&s->out, &s->last, &s->matched);
}

void rn_cli_decision_series_begin_json(bool several)
{
    if (several)
        fputs("{\"decisions\":[\n", stdout);
}

int rn_cli_decision_series_end_json(bool several, const uint64_t count[2])
{
    if (several)
        printf("],\"allowed\":%" PRIu64 ",\"refused\":%" PRIu64 "}\n", count[true], count[false]);
    return count[false] == 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}
