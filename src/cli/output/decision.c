/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/decision.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cli/output/columns.h"

/* --- limits ------------------------------------------------------------------------ */

void rn_cli_decision_find(const struct rn_offline *s, struct rn_matched_limits *matched)
{
    struct ration_request request = {.attributes = s->options->attributes,
                                     .count = s->options->attribute_count,
                                     .cost = s->options->cost};
    const struct ration_attribute *domain = &s->options->attributes[0];
    struct rn_envoy_entry entries[RN_ENVOY_DEPTH_MAX];
    struct rn_slice parts[RN_ENVOY_PARTS_MAX];
    const struct rn_envoy_limit *limit = NULL;
    struct rn_matches *matches;
    uint32_t part_count;

    *matched = (struct rn_matched_limits){.count = 0};
    if (s->envoy)
        limit = rn_envoy_match(s->ruleset, (struct rn_slice){domain->value, domain->value_len},
                               entries, rn_offline_entries(s, entries), parts, &part_count);
    if (limit != NULL && limit->limit != NULL)
        matched->limits[matched->count++] = limit->limit;
    if (s->envoy && !s->ruleset->apply_to_envoy)
        return;
    matches = malloc(sizeof *matches); /* if out of memory, only texts are missing */
    if (matches == NULL)
        return;
    rn_match_request(s->ruleset, &request, matches);
    matched->entry = matches->entry;
    for (uint32_t i = 0; i < matches->count; i++) {
        const struct rn_tier *tier = matches->items[i].tier;
        const struct rn_rule *rule = matches->items[i].rule;
        bool asked = !rule->envoy && (!s->envoy || rule->for_envoy);
        uint32_t count = asked ? tier->limit_count : 0;

        for (uint32_t k = 0; k < count && matched->count < RATION_CHARGES_MAX; k++)
            matched->limits[matched->count++] = tier->limits[k];
    }
    free(matches);
}

const char *rn_cli_decision_limit(const struct rn_rule_limit *limit, char text[RN_LIMIT_TEXT])
{
    const struct ration_limit *spec = &limit->spec;
    size_t len = ration_limit_write(spec, text, RN_LIMIT_TEXT);
    bool said = spec->algorithm == RATION_TOKEN_BUCKET || spec->algorithm == RATION_LEAKY_BUCKET ||
                spec->algorithm == RATION_CONCURRENCY || spec->calendar != RATION_CALENDAR_NONE;

    if (!said && len < RN_LIMIT_TEXT)
        snprintf(text + len, RN_LIMIT_TEXT - len, ", %s", ration_algorithm_name(spec->algorithm));
    return text;
}

/* --- for people -------------------------------------------------------------------- */

/* Several waits differ. */
static void put_waited(const struct rn_output *out, const struct ration_outcome *o, bool several)
{
    char text[RN_TIME_TEXT];

    if (o->waited_ns > 0 && several)
        rn_output_put(out, RN_PLAIN, ", after waiting in line");
    else if (o->waited_ns > 0)
        rn_output_put(out, RN_PLAIN, ", after %s in line", rn_output_time(o->waited_ns, text));
}

static void put_allowed(const struct rn_output *out, const struct ration_outcome *o, bool several)
{
    const char *shadow = NULL; /* the first rule in shadow mode that would have refused */
    char text[RN_TIME_TEXT];

    for (uint32_t i = 0; shadow == NULL && i < o->listed; i++)
        if (o->limits[i].shadow && !o->limits[i].verdict.allowed)
            shadow = o->limits[i].rule;
    if (o->kind == RATION_BY_NO_RULE)
        rn_output_put(out, RN_PLAIN, ": no rule applies");
    else if (o->kind == RATION_BY_LIMITS && o->limit_count == 0)
        rn_output_put(out, RN_PLAIN, ": unlimited");
    put_waited(out, o, several);
    if (o->delay_ns > 0)
        rn_output_put(out, RN_PLAIN, ", after %s %s%s", o->hold ? "being held" : "waiting",
                      several ? "up to " : "", rn_output_time(o->delay_ns, text));
    if (o->soft)
        rn_output_put(out, RN_ODD, ", in the soft part above the limit");
    if (o->shadow_refused && shadow != NULL)
        rn_output_put(out, RN_ODD, ", though %s would refuse (shadow mode)", shadow);
    else if (o->shadow_refused)
        rn_output_put(out, RN_ODD, ", being in shadow mode");
    else if (o->shadow_delay_ns > 0)
        rn_output_put(out, RN_ODD, ", though it would wait %s%s but for shadow mode",
                      several ? "up to " : "", rn_output_time(o->shadow_delay_ns, text));
}

void rn_cli_decision_line(const struct rn_output *out, const struct ration_outcome *o,
                          const struct rn_list_entry *entry, bool several)
{
    bool allowed = o->decision.allowed, denied = o->kind == RATION_BY_DENY_LIST;
    int64_t retry_ns = o->decision.verdict.retry_after_ns;
    char text[RN_TIME_TEXT];

    rn_output_put(out, allowed ? RN_GOOD : RN_BAD, allowed ? "allowed" : "refused");
    if (denied || o->kind == RATION_BY_ALLOW_LIST) {
        rn_output_put(out, RN_PLAIN,
                      denied && allowed ? " though on the deny list"
                      : denied          ? " by the deny list"
                                        : " by the allow list");
        if (entry != NULL) {
            rn_output_put(out, RN_PLAIN, " (");
            rn_output_place(out, entry->file, entry->line);
            rn_output_put(out, RN_PLAIN, ")");
        }
    } else if (!allowed) {
        rn_output_put(out, RN_PLAIN, " by ");
        /* Names of rules are plain ASCII. */
        if (o->kind == RATION_BY_ESCALATION)
            rn_output_put(out, RN_PLAIN, "a ban of level %u under ", o->level);
        if (o->kind == RATION_BY_PAUSE)
            rn_output_put(out, RN_PLAIN, "a pause%s", o->rule[0] ? " under " : "");
        rn_output_put(out, RN_BOLD, "%s", o->kind == RATION_BY_BAN ? "a ban" : o->rule);
        put_waited(out, o, several);
        if (retry_ns == RATION_NEVER)
            rn_output_put(out, RN_PLAIN,
                          o->kind == RATION_BY_BAN ? " without end"
                                                   : "; it costs more than the limit ever admits");
        else
            rn_output_put(out, RN_PLAIN, "; try again in %s", rn_output_time(retry_ns, text));
        if (o->status != 0)
            rn_output_put(out, RN_DIM, " (status %u)", o->status);
    } else if (o->kind == RATION_BY_BAN || o->kind == RATION_BY_ESCALATION) {
        rn_output_put(out, RN_PLAIN, " though banned");
    }
    if (allowed)
        put_allowed(out, o, several);
}

/* --- the table --------------------------------------------------------------------- */

void rn_cli_decision_table(const struct rn_output *out, const struct ration_outcome *o,
                           const struct rn_matched_limits *matched)
{
    static const char *const titles[] = {"  rule", "limit", "left", "resets in", "retry in"};
    bool all = o->limit_count == o->listed, known = matched->count == o->limit_count;
    struct rn_columns columns;
    char text[RN_LIMIT_TEXT];

    if (o->listed == 0)
        return;
    rn_columns_init(&columns, titles, 5);
    for (uint32_t i = 0; i < o->listed; i++) {
        const struct ration_outcome_limit *l = &o->limits[i];
        const struct ration_verdict *v = &l->verdict;
        /* The last entry of a long list may be a later limit. */
        const struct rn_rule_limit *limit =
            known && (all || i + 1 < o->listed) ? matched->limits[i] : NULL;

        if (limit != NULL && limit->limit.cap - limit->soft_units != v->limit)
            limit = NULL; /* an override replaces the rule's limit */
        if (!v->allowed)
            rn_columns_mark_bad(&columns);
        rn_columns_put(&columns, "%s %s%s", (int)i == o->decision.decided_by ? ">" : " ", l->rule,
                       l->shadow ? " (shadow)" : "");
        rn_columns_put(&columns, "%s",
                       limit != NULL      ? rn_cli_decision_limit(limit, text)
                       : matched->unknown ? ""
                                          : ration_algorithm_name(l->algorithm));
        rn_columns_put(&columns, "%" PRIu64 " of %" PRIu64, v->remaining, v->limit);
        rn_columns_put(&columns, "%s", rn_output_time(v->reset_after_ns, text));
        rn_columns_put(&columns, "%s", v->allowed ? "" : rn_output_time(v->retry_after_ns, text));
    }
    rn_columns_write(&columns, out, 0);
    rn_columns_done(&columns);
    if (o->limit_count > o->listed)
        rn_output_put(out, RN_DIM, "  and %" PRIu32 " more\n", o->limit_count - o->listed);
}
