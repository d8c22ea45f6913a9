/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rule with `escalate` or `earn` says, and what it keeps of the client.
 */
#include "base/clock.h"
#include "rules/ruleset.h"
#include "wire/explanation.h"

/* 1.5 for 150 percent. */
static void put_percent(struct rn_members *m, const char *name, uint64_t percent)
{
    rn_members_seconds(m, name, (int64_t)percent * (RN_SECOND_NS / 100));
}

static void put_escalate(struct rn_members *m, const struct rn_rule *rule,
                         const struct ration_reputation *client)
{
    const struct rn_escalate_plan *plan = rule->escalate;
    uint32_t next = client->level + 1 < RN_LEVELS ? client->level + 1 : RN_LEVELS - 1;

    rn_members_open(m, "escalate", '{');
    rn_members_u64(m, "after", plan->after);
    rn_members_seconds(m, "within", plan->within_ns);
    rn_members_seconds(m, "ban", plan->ban_ns[1]);
    put_percent(m, "grow", rule->ban_grow_percent);
    rn_members_seconds(m, "up_to", rule->ban_up_to_ns);
    rn_members_seconds(m, "forget", plan->forget_ns);
    rn_members_bool(m, "banned", client->banned);
    if (client->banned)
        rn_members_seconds(m, "ends_after", client->ends_after_ns);
    rn_members_u64(m, "level", client->level);
    rn_members_u64(m, "refusals", client->refusals);
    rn_members_seconds(m, "next_ban", plan->ban_ns[next]);
    rn_members_close(m, '}');
}

static void put_earn(struct rn_members *m, const struct rn_earn_plan *plan,
                     const struct ration_reputation *client)
{
    rn_members_open(m, "earn", '{');
    rn_members_seconds(m, "every", plan->every_ns);
    put_percent(m, "add", plan->add);
    put_percent(m, "up_to", plan->up_to);
    rn_members_u64(m, "lost_by", plan->lost_after);
    rn_members_seconds(m, "lost_within", plan->lost_within_ns);
    rn_members_seconds(m, "forget", plan->forget_ns);
    put_percent(m, "earned", client->earned_percent);
    rn_members_close(m, '}');
}

void rn_explanation_put_reputation(struct rn_members *m, const struct rn_explained_rule *seen)
{
    if (seen->rule->escalate)
        put_escalate(m, seen->rule, &seen->reputation);
    if (seen->rule->earn)
        put_earn(m, seen->rule->earn, &seen->reputation);
}
