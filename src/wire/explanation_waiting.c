/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may wait in line under a rule, and who does.
 */
#include "rules/ruleset.h"
#include "wire/explanation.h"

void rn_explanation_put_queue(struct rn_members *m, const struct rn_rule *rule)
{
    if (rule->line_size == 0)
        return;
    rn_members_open(m, "queue", '{');
    rn_members_u64(m, "size", rule->line_size);
    rn_members_seconds(m, "max_wait", rule->max_wait_ns);
    rn_members_text(m, "by", rule->line_by_arrival ? RN_SLICE("arrival") : RN_SLICE("priority"));
    rn_members_close(m, '}');
}

void rn_explanation_put_line(struct rn_members *m, const struct ration_line *line)
{
    if (line->waiting == 0)
        return;
    rn_members_open(m, "line", '{');
    rn_members_u64(m, "waiting", line->waiting);
    rn_members_u64(m, "ahead", line->ahead);
    rn_members_seconds(m, "opens_after", line->opens_after_ns);
    rn_members_seconds(m, "wait_at_least", line->wait_at_least_ns);
    rn_members_close(m, '}');
}
