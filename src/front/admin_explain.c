/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules and limits of one client: why a rule applies or not, and what is left
 * under it.
 *
 * The outcome of a look lists the limits that apply in the order of the rules;
 * the survey visits the rules in that order and knows their limits as written.
 * Both see the same rules, since nobody but this thread replaces them.
 */
#include "front/admin.h"
#include "limiter/survey.h"
#include "rules/report.h"
#include "rules/wording.h"
#include "wire/answer.h"

struct telling {
    struct rn_members *m;
    struct rn_buf *words; /* to make a sentence in */
    const struct ration_outcome *outcome;
    uint32_t at;          /* the next limit of the outcome */
    struct rn_slice rule; /* data NULL: all */
    bool found;           /* something was told */
};

/* --- limits ------------------------------------------------------------------------------ */

/* The outcome's next limit if it is the rule's; NULL: there is none, or it is not
 * known, as the outcome lists a part of the limits only. */
static const struct ration_outcome_limit *next_limit(struct telling *t, const struct rn_rule *rule)
{
    const struct ration_outcome *o = t->outcome;
    char name[RATION_NAME_SIZE]; /* cut as in the outcome */

    rn_slice_copy(name, sizeof name, rule->name);
    if (t->at >= o->listed || strcmp(o->limits[t->at].rule, name) != 0)
        return NULL;
    return &o->limits[t->at++];
}

static void put_verdict(struct rn_members *m, const struct ration_outcome_limit *limit)
{
    const struct ration_verdict *v = limit ? &limit->verdict : NULL;

    if (!v) {
        rn_members_null(m, "limit");
        rn_members_null(m, "remaining");
        return;
    }
    rn_members_u64(m, "limit", v->limit);
    rn_members_u64(m, "remaining", v->remaining);
    rn_members_seconds(m, "reset_after", v->reset_after_ns);
    rn_members_seconds(m, "retry_after", v->retry_after_ns);
    if (limit->shadow)
        rn_members_bool(m, "shadow", true);
}

static void put_limit(struct telling *t, const struct rn_surveyed *seen,
                      const struct ration_limit *spec)
{
    char text[RATION_LIMIT_TEXT];

    rn_members_open(t->m, NULL, '{');
    rn_members_text(t->m, "rule", seen->rule->name);
    put_verdict(t->m, spec ? next_limit(t, seen->rule) : NULL);
    if (spec)
        ration_limit_write(spec, text, sizeof text);
    rn_members_text(t->m, "text", spec ? rn_slice_of(text) : RN_SLICE("unlimited"));
    if (spec)
        rn_members_text(t->m, "algorithm", rn_slice_of(ration_algorithm_name(spec->algorithm)));
    rn_members_close(t->m, '}');
}

static void put_limits(struct telling *t, const struct rn_surveyed *seen)
{
    const struct rn_tier *tier = seen->match->tier;

    for (uint32_t i = 0; i < tier->limit_count; i++)
        put_limit(t, seen, &tier->limits[i]->spec);
    if (tier->limit_count == 0)
        put_limit(t, seen, NULL);
}

/* --- one rule ------------------------------------------------------------------------------ */

static void put_key(struct rn_members *m, const struct rn_surveyed *seen)
{
    rn_members_open(m, "key", '{');
    for (uint32_t i = 0; i < seen->rule->key_count; i++) {
        struct rn_slice name = seen->match->key_names[i];

        if (!name.data) /* there was no choice */
            name = seen->ruleset->attributes[seen->rule->key[i].attributes[0]].name;
        rn_members_text_named(m, name, seen->match->key[i]);
    }
    rn_members_close(m, '}');
}

static void put_charge(struct telling *t, const struct rn_surveyed *seen)
{
    put_key(t->m, seen);
    if (seen->rule->tier_attribute == RN_NO_ATTRIBUTE)
        rn_members_null(t->m, "tier");
    else
        rn_members_text(t->m, "tier", seen->match->tier->value);
    rn_members_open(t->m, "limits", '[');
    put_limits(t, seen);
    rn_members_close(t->m, ']');
}

static int explain_rule(void *arg, const struct rn_surveyed *seen)
{
    struct telling *t = arg;

    rn_buf_clear(t->words);
    rn_wording_reason(t->words, seen->ruleset, seen->rule, seen->values, seen->reason);
    rn_members_open(t->m, NULL, '{');
    rn_members_text(t->m, "rule", seen->rule->name);
    rn_members_bool(t->m, "applies", seen->applies);
    rn_members_text(t->m, "reason", rn_buf_slice(t->words));
    if (seen->applies)
        put_charge(t, seen);
    rn_members_close(t->m, '}');
    return 0;
}

/* No limit was asked. */
static bool is_aside(const struct ration_outcome *outcome)
{
    return outcome->kind == RATION_BY_ALLOW_LIST || outcome->kind == RATION_BY_DENY_LIST;
}

static int show_rule(void *arg, const struct rn_surveyed *seen)
{
    struct telling *t = arg;

    if (!seen->applies || is_aside(t->outcome))
        return 0;
    if (t->rule.data && !rn_slice_equal(t->rule, seen->rule->name)) {
        while (next_limit(t, seen->rule))
            continue;
        return 0;
    }
    put_limits(t, seen);
    t->found = true;
    return 0;
}

/* The list that took the request aside. */
static void put_entry(struct rn_members *m, const struct rn_survey_entry *entry)
{
    if (!entry->found)
        return;
    rn_members_open(m, "list", '{');
    rn_members_text(m, "list", entry->deny ? RN_SLICE("deny") : RN_SLICE("allow"));
    rn_members_text(m, "file", rn_slice_of(entry->file));
    rn_members_u64(m, "line", entry->line);
    rn_members_close(m, '}');
}

/* --- a rule that does not apply --------------------------------------------------------------- */

static int word_rule(void *arg, const struct rn_surveyed *seen)
{
    struct telling *t = arg;

    if (!rn_slice_equal(t->rule, seen->rule->name))
        return 0;
    rn_buf_clear(t->words);
    rn_wording_reason(t->words, seen->ruleset, seen->rule, seen->values, seen->reason);
    t->found = true;
    return 1;
}

void rn_admin_refuse_unmatched(struct rn_exchange *x, struct rn_slice rule)
{
    struct ration_request request = rn_admin_request(x);
    struct rn_buf words = {0};
    struct telling t = {.words = &words, .rule = rule};
    struct rn_excerpt name = rn_excerpt(rule);
    struct rn_survey_entry entry;

    rn_survey_request(x->front->limiter, &request, word_rule, &t, &entry);
    if (!t.found)
        rn_exchange_error(x, 400, "unmatched",
                          "rule %s is found by descriptors, not by attributes", name.text);
    else if (entry.found)
        rn_exchange_error(x, 400, "unmatched", "no rule is asked: the %s list applies (%s:%u)",
                          entry.deny ? "deny" : "allow", entry.file, entry.line);
    else
        rn_exchange_error(x, 400, "unmatched", "rule %s does not apply to these attributes: %.*s",
                          name.text, (int)words.len, words.data);
    rn_buf_done(&words);
}

/* --- routes ------------------------------------------------------------------------------------ */

static bool peek(struct rn_exchange *x, struct ration_outcome *outcome)
{
    struct ration_request request = rn_admin_request(x);
    int code = ration_decide_peek(x->front->limiter, &request, RATION_NOW, outcome);

    if (code == RATION_EINVAL)
        rn_exchange_error(x, 400, "bad_request",
                          "more limits apply to this request than can be decided together");
    else if (code != 0)
        rn_exchange_error(x, 503, "store", "%s", ration_error_text(code));
    return code == 0;
}

void rn_admin_explain(struct rn_exchange *x)
{
    struct ration_outcome *outcome = &x->loop->decided.outcome;
    struct rn_answer_extra extra = {
        .wall_ns = ration_wall(x->front->limiter, ration_now(x->front->limiter))};
    struct rn_survey_entry entry;
    struct ration_request request;
    struct rn_change change;

    if (!rn_admin_read(x, &change, RN_CHANGE_ATTRIBUTES | RN_CHANGE_COST) || !peek(x, outcome))
        return;
    struct rn_members m = rn_admin_begin(x);
    struct rn_buf words = {0};
    struct telling t = {.m = &m, .words = &words, .outcome = outcome};

    request = rn_admin_request(x);
    rn_members_name(&m, "decision");
    rn_answer_put_json(m.out, outcome, &extra);
    rn_members_open(&m, "rules", '[');
    rn_survey_request(x->front->limiter, &request, explain_rule, &t, &entry);
    rn_members_close(&m, ']');
    put_entry(&m, &entry);
    rn_buf_done(&words);
    rn_admin_end(x, &m, 200);
}

bool rn_admin_put_limits(struct rn_exchange *x, struct rn_members *m, struct rn_slice rule)
{
    struct ration_outcome *outcome = &x->loop->decided.outcome;
    struct ration_request request = rn_admin_request(x);
    struct telling t = {.m = m, .outcome = outcome, .rule = rule};
    struct rn_survey_entry entry;

    if (!peek(x, outcome))
        return false;
    rn_members_open(m, "limits", '[');
    rn_survey_request(x->front->limiter, &request, show_rule, &t, &entry);
    rn_members_close(m, ']');
    put_entry(m, &entry);
    if (rule.data && (!t.found || entry.found)) {
        rn_admin_refuse_unmatched(x, rule);
        return false;
    }
    return true;
}

void rn_admin_get_state(struct rn_exchange *x)
{
    struct rn_change change;
    struct rn_members m;

    if (!rn_admin_read_query(x, &change, RN_CHANGE_ATTRIBUTES | RN_CHANGE_RULE) ||
        (change.rule.data && !rn_admin_know_rule(x, change.rule)))
        return;
    m = rn_admin_begin(x);
    if (rn_admin_put_limits(x, &m, change.rule))
        rn_admin_end(x, &m, 200);
}
