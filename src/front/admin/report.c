/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/report: what the rules have done since the daemon started. Facts only: `ration report`
 * draws the conclusions, here and from a replayed log.
 */
#include "front/admin/admin_internal.h"
#include "limiter/effect/effect.h"
#include "limiter/effect/uncovered.h"
#include "limiter/limiter.h"
#include "limiter/signals/signals.h"

#define PATHS 20

static void put_limits(struct rn_members *m, const struct rn_effect_info *info)
{
    const struct rn_rule *rule = info->rule;

    rn_members_open(m, "limits", '[');
    for (uint32_t t = 0; t < rule->tier_count; t++)
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++) {
            const struct rn_rule_limit *limit = rule->tiers[t].limits[i];
            char text[RATION_LIMIT_TEXT];

            ration_limit_write(&limit->spec, text, sizeof text);
            rn_members_open(m, NULL, '{');
            if (rule->tiers[t].value.len != 0)
                rn_members_text(m, "tier", rule->tiers[t].value);
            rn_members_text(m, "limit", rn_slice_of(text));
            rn_members_u64(m, "capacity", limit->limit.cap);
            rn_members_u64(m, "amount", limit->spec.amount);
            rn_members_u64(m, "most_used",
                           __atomic_load_n(&info->most_used[limit->id], __ATOMIC_RELAXED));
            rn_members_close(m, '}');
        }
    rn_members_close(m, ']');
}

static void put_near(struct rn_members *m, const struct rn_effect_info *info)
{
    rn_members_open(m, "near", '[');
    for (size_t i = 0; i < RN_EFFECT_NAMES; i++)
        if (info->names[i].len != 0)
            rn_admin_put_key(m, NULL, (struct rn_slice){info->names[i].text, info->names[i].len});
    rn_members_close(m, ']');
}

static void put_rule(void *arg, const struct rn_effect_info *info)
{
    const struct rn_rule *rule = info->rule;
    const struct rn_counts *counts = &info->counts;
    struct rn_members *m = arg;

    rn_members_open(m, NULL, '{');
    rn_members_text(m, "rule", rule->name);
    rn_members_text(m, "file", rule->file);
    rn_members_u64(m, "line", rule->line);
    rn_members_text(m, "mode", rule->shadow ? RN_SLICE("shadow") : RN_SLICE("enforce"));
    rn_members_bool(m, "keyed", rule->key_count != 0 || rule->envoy);
    rn_members_u64(m, "allowed", counts->allowed);
    rn_members_u64(m, "refused", counts->refused);
    rn_members_u64(m, "shadowed", counts->shadowed);
    rn_members_u64(m, "near_limit", counts->near);
    rn_members_u64(m, "clients", info->clients);
    rn_members_u64(m, "clients_refused", info->refused);
    rn_members_u64(m, "clients_near", info->near);
    put_near(m, info);
    put_limits(m, info);
    if (info->refuser && info->spared != 0) {
        rn_members_open(m, "beside", '{');
        rn_members_text(m, "rule", info->refuser->name);
        rn_members_u64(m, "refused", info->spared);
        rn_members_bool(m, "always", info->always_beside);
        rn_members_close(m, '}');
    }
    rn_members_close(m, '}');
}

static void put_uncovered(struct rn_members *m, struct ration *r)
{
    struct rn_uncovered_path paths[PATHS];
    size_t count = rn_uncovered_list(r->uncovered, paths, PATHS);

    rn_members_open(m, "uncovered", '[');
    for (size_t i = 0; i < count; i++) {
        rn_members_open(m, NULL, '{');
        rn_members_text(m, "request", rn_slice_of(paths[i].text));
        rn_members_u64(m, "requests", paths[i].requests);
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
}

static void put_signal(void *arg, struct rn_slice rule, struct rn_slice signal, bool fired)
{
    struct rn_members *m = arg;

    rn_members_open(m, NULL, '{');
    rn_members_text(m, "rule", rule);
    rn_members_text(m, "signal", signal);
    rn_members_bool(m, "fired", fired);
    rn_members_close(m, '}');
}

void rn_admin_get_report(struct rn_http_context *c)
{
    struct ration *r = c->front->limiter;
    struct rn_members m = rn_admin_begin(c);
    struct ration_totals totals;

    ration_totals(r, &totals);
    rn_members_text(&m, "source", RN_SLICE("daemon"));
    rn_admin_put_time(&m, "since", c->front->started_ns);
    rn_members_u64(&m, "requests", totals.allowed + totals.refused);
    rn_members_u64(&m, "refused", totals.refused);
    rn_members_u64(&m, "unmatched", totals.unmatched);
    rn_members_open(&m, "rules", '[');
    rn_effect_each(r, put_rule, &m);
    rn_members_close(&m, ']');
    put_uncovered(&m, r);
    rn_members_open(&m, "signals", '[');
    rn_signals_each_follower(r, put_signal, &m);
    rn_members_close(&m, ']');
    rn_admin_end(c, &m, 200);
}
