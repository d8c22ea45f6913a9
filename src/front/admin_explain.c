/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules and limits of one client: why a rule applies or not, and what is left
 * under it.
 */
#include "front/admin.h"
#include "limiter/survey.h"
#include "rules/report.h"
#include "rules/wording.h"
#include "wire/answer.h"

struct telling {
    struct rn_members *m;
    struct rn_buf *words; /* to make a sentence in */
    struct rn_slice rule; /* data NULL: all */
    bool found;           /* something was told */
    bool matching;        /* only rules that apply */
    int error;            /* of the store */
};

/* --- limits ------------------------------------------------------------------------------ */

static void put_limit(struct rn_members *m, const struct rn_surveyed *seen, uint32_t at)
{
    const struct ration_outcome_limit *limit = &seen->outcome->limits[at];
    const struct ration_limit *spec = &seen->limits[at]->spec;
    const struct ration_verdict *v = &limit->verdict;
    char text[RATION_LIMIT_TEXT];

    ration_limit_write(spec, text, sizeof text);
    rn_members_u64(m, "limit", v->limit);
    rn_members_u64(m, "remaining", v->remaining);
    rn_members_seconds(m, "reset_after", v->reset_after_ns);
    rn_members_seconds(m, "retry_after", v->retry_after_ns);
    rn_members_text(m, "text", rn_slice_of(text));
    rn_members_text(m, "algorithm", rn_slice_of(ration_algorithm_name(spec->algorithm)));
    if (limit->shadow)
        rn_members_bool(m, "shadow", true);
}

static void put_unlimited(struct rn_members *m)
{
    rn_members_null(m, "limit");
    rn_members_null(m, "remaining");
    rn_members_u64(m, "reset_after", 0);
    rn_members_u64(m, "retry_after", 0);
    rn_members_text(m, "text", RN_SLICE("unlimited"));
    rn_members_text(m, "algorithm", rn_slice_of(ration_algorithm_name(RATION_UNLIMITED)));
}

static void put_limits(struct telling *t, const struct rn_surveyed *seen)
{
    uint32_t at = 0;

    if (seen->error != 0) {
        t->error = seen->error;
        return;
    }
    do {
        rn_members_open(t->m, NULL, '{');
        rn_members_text(t->m, "rule", seen->rule->name);
        if (seen->limit_count)
            put_limit(t->m, seen, at);
        else
            put_unlimited(t->m);
        if (seen->overridden)
            rn_members_bool(t->m, "override", true);
        rn_members_close(t->m, '}');
    } while (++at < seen->limit_count);
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
    if (seen->rule->by_outcome) {
        char text[RN_STATUSES_TEXT];

        rn_statuses_write(&seen->rule->charge_on, text);
        rn_members_text(t->m, "charge_on", rn_slice_of(text));
    }
    rn_members_open(t->m, "limits", '[');
    put_limits(t, seen);
    rn_members_close(t->m, ']');
}

static int explain_rule(void *arg, const struct rn_surveyed *seen)
{
    struct telling *t = arg;

    if (t->matching && !seen->applies)
        return 0;
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

static int show_rule(void *arg, const struct rn_surveyed *seen)
{
    struct telling *t = arg;

    if (!seen->applies || (t->rule.data && !rn_slice_equal(t->rule, seen->rule->name)))
        return 0;
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
        rn_exchange_error(x, 400, "unmatched", "rule %s is found by descriptors, not by attributes",
                          name.text);
    else if (entry.found)
        rn_exchange_error(x, 400, "unmatched", "no rule is asked: the %s list applies (%s:%u)",
                          entry.deny ? "deny" : "allow", entry.file, entry.line);
    else
        rn_exchange_error(x, 400, "unmatched", "rule %s does not apply to these attributes: %.*s",
                          name.text, (int)words.len, words.data);
    rn_buf_done(&words);
}

/* --- routes ------------------------------------------------------------------------------------
 */

static void refuse_store(struct rn_exchange *x, int code)
{
    if (code == RATION_EINVAL)
        rn_exchange_error(x, 400, "bad_request",
                          "more limits apply to these attributes than can be decided together");
    else
        rn_exchange_error(x, 503, "store", "%s", ration_error_text(code));
}

void rn_admin_explain(struct rn_exchange *x)
{
    struct ration_outcome *outcome = &x->desk->decided.outcome;
    struct rn_answer_extra extra = {
        .wall_ns = ration_wall(x->front->limiter, ration_now(x->front->limiter))};
    struct rn_survey_entry entry;
    struct ration_request request;
    struct rn_buf words = {0};
    struct rn_change change;
    int code;

    if (!rn_admin_read(x, &change, RN_CHANGE_ATTRIBUTES | RN_CHANGE_COST | RN_CHANGE_MATCHING))
        return;
    request = rn_admin_request(x);
    code = ration_decide_peek(x->front->limiter, &request, RATION_NOW, outcome);
    if (code != 0) {
        refuse_store(x, code);
        return;
    }
    struct rn_members m = rn_admin_begin(x);
    struct telling t = {.m = &m, .words = &words, .matching = change.matching};

    rn_members_name(&m, "decision");
    rn_answer_put_json(m.out, outcome, &extra);
    rn_members_open(&m, "rules", '[');
    rn_survey_request(x->front->limiter, &request, explain_rule, &t, &entry);
    rn_members_close(&m, ']');
    put_entry(&m, &entry);
    rn_buf_done(&words);
    if (t.error != 0)
        refuse_store(x, t.error);
    else
        rn_admin_end(x, &m, 200);
}

bool rn_admin_put_limits(struct rn_exchange *x, struct rn_members *m, struct rn_slice rule)
{
    struct ration_request request = rn_admin_request(x);
    struct telling t = {.m = m, .rule = rule};

    rn_members_open(m, "limits", '[');
    rn_survey_request(x->front->limiter, &request, show_rule, &t, NULL);
    rn_members_close(m, ']');
    if (t.error != 0)
        refuse_store(x, t.error);
    else if (rule.data && !t.found)
        rn_admin_refuse_unmatched(x, rule);
    else
        return true;
    return false;
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
