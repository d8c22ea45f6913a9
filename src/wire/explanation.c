/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains why each rule applies to a request or not, and what is left of its limits.
 */
#include "wire/explanation.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "limiter/decide/transaction.h"
#include "rules/match/reason.h"
#include "rules/ruleset.h"
#include "wire/answer.h"

struct writer {
    struct rn_members *m;
    struct rn_buf words; /* scratch for a sentence */
    const struct ration_request *request;
    const struct rn_explanation_descriptor *descriptor;
    bool matching, begun;
    int error; /* of the store */
};

/* --- limits ------------------------------------------------------------------------------ */

static void put_latencies(struct rn_members *m, const struct rn_place_latency *latency)
{
    rn_members_seconds(m, "best_latency", (int64_t)latency->best_us * 1000);
    rn_members_seconds(m, "recent_latency", (int64_t)latency->recent_us * 1000);
}

int rn_explanation_put_limits(struct rn_members *m, const struct rn_explained_rule *seen)
{
    char text[RATION_LIMIT_TEXT];
    uint32_t at = 0;

    if (seen->error != 0)
        return seen->error;
    do {
        rn_members_open(m, NULL, '{');
        rn_members_text(m, "rule", seen->rule->name);
        if (seen->limit_count) {
            const struct ration_outcome_limit *limit = &seen->outcome->limits[at];
            const struct ration_limit *spec = &seen->limits[at]->spec;

            ration_limit_write(spec, text, sizeof text);
            rn_members_u64(m, "limit", limit->verdict.limit);
            rn_members_u64(m, "remaining", limit->verdict.remaining);
            rn_members_seconds(m, "reset_after", limit->verdict.reset_after_ns);
            rn_members_seconds(m, "retry_after", limit->verdict.retry_after_ns);
            rn_members_text(m, "text", rn_slice_of(text));
            rn_members_text(m, "algorithm", rn_slice_of(ration_algorithm_name(spec->algorithm)));
            if (spec->adaptive_min != 0)
                put_latencies(m, &seen->items[at].answer.latency);
            if (limit->shadow)
                rn_members_bool(m, "shadow", true);
            rn_explanation_put_line(m, &seen->lines[at]);
        } else {
            rn_members_null(m, "limit");
            rn_members_null(m, "remaining");
            rn_members_u64(m, "reset_after", 0);
            rn_members_u64(m, "retry_after", 0);
            rn_members_text(m, "text", RN_SLICE("unlimited"));
            rn_members_text(m, "algorithm", rn_slice_of(ration_algorithm_name(RATION_UNLIMITED)));
        }
        if (seen->overridden)
            rn_members_bool(m, "override", true);
        if (seen->factor != 0) /* 0.5: half of the limit as written is in force */
            rn_members_seconds(m, "factor", seen->factor * (RN_SECOND_NS / 100));
        rn_members_close(m, '}');
    } while (++at < seen->limit_count);
    return 0;
}

/* --- conditions ---------------------------------------------------------------------------- */

static void put_conditions(struct writer *w, const struct rn_ruleset *ruleset,
                           const struct rn_values *values, const struct rn_condition *conditions,
                           uint32_t count)
{
    static const char *const tests[] = {
        [RN_TEST_EQUALS] = "one_of", [RN_TEST_PATTERN] = "pattern", [RN_TEST_PREFIX] = "prefix",
        [RN_TEST_CIDR] = "cidr",     [RN_TEST_PRESENT] = "present", [RN_TEST_ABOVE] = "above",
        [RN_TEST_BELOW] = "below"};
    struct rn_members *m = w->m;
    char text[RN_CIDR_TEXT];

    rn_members_open(m, "conditions", '[');
    for (uint32_t n = 0; n < count; n++) {
        const struct rn_condition *c = &conditions[n];
        struct rn_finding f = rn_reason_find(ruleset, c, values);

        rn_members_open(m, NULL, '{');
        rn_members_text(m, "attribute", ruleset->attributes[c->attribute].name);
        rn_members_text(m, "test", rn_slice_of(tests[c->test]));
        rn_members_bool(m, "not", c->negated);
        rn_members_open(m, "values", '[');
        for (uint32_t i = 0; i < c->value_count; i++)
            rn_members_text(m, NULL, c->values[i]);
        for (size_t i = 0; c->networks && i < c->networks->count; i++) {
            rn_cidr_write(&c->networks->items[i], text);
            rn_members_text(m, NULL, rn_slice_of(text));
        }
        rn_members_close(m, ']');
        if (f.value.data)
            rn_members_text(m, "found", f.value);
        else
            rn_members_null(m, "found");
        rn_members_bool(m, "holds", f.holds);
        rn_buf_clear(&w->words);
        rn_reason_write_finding(&w->words, &f);
        rn_members_text(m, "text", rn_buf_slice(&w->words));
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
}

static void put_alternatives(struct writer *w, const struct rn_explained_rule *seen)
{
    const struct rn_rule *rule = seen->rule;

    if (seen->reason.why != RN_WHY_CONDITION)
        rn_members_u64(w->m, "alternative", seen->reason.alternative + 1);
    else
        rn_members_null(w->m, "alternative");
    rn_members_open(w->m, "alternatives", '[');
    for (uint32_t i = 0; i < rule->alternative_count; i++) {
        const struct rn_alternative *a = &rule->alternatives[i];

        rn_members_open(w->m, NULL, '{');
        rn_members_u64(w->m, "line", a->line);
        put_conditions(w, seen->ruleset, seen->values, a->conditions, a->condition_count);
        rn_members_close(w->m, '}');
    }
    rn_members_close(w->m, ']');
}

/* --- one rule ------------------------------------------------------------------------------ */

/* The tier, and the attribute that chose it; its value is null if it is absent. */
static void put_tier(struct rn_members *m, const struct rn_explained_rule *seen)
{
    uint16_t attribute = seen->rule->tier_attribute, second = seen->rule->tier_second;

    if (attribute == RN_NO_ATTRIBUTE) {
        rn_members_null(m, "tier");
        return;
    }
    rn_members_text(m, "tier", seen->match->tier->value);
    rn_members_text(m, "tier_attribute", seen->ruleset->attributes[attribute].name);
    if (seen->values->value[attribute].len > 0)
        rn_members_text(m, "tier_value", seen->values->value[attribute]);
    else
        rn_members_null(m, "tier_value");
    if (second == RN_NO_ATTRIBUTE)
        return;
    rn_members_text(m, "tier_second_attribute", seen->ruleset->attributes[second].name);
    if (seen->values->value[second].len > 0)
        rn_members_text(m, "tier_second_value", seen->values->value[second]);
    else
        rn_members_null(m, "tier_second_value");
}

static void put_charge(struct writer *w, const struct rn_explained_rule *seen)
{
    const struct rn_rule *rule = seen->rule;
    const struct rn_throttle *throttle = &rule->throttle;

    rn_members_open(w->m, "key", '{');
    for (uint32_t i = 0; i < rule->key_count; i++) {
        struct rn_slice name = seen->match->key_names[i];

        if (!name.data) /* there was no choice */
            name = seen->ruleset->attributes[rule->key[i].attributes[0]].name;
        rn_members_text_named(w->m, name, seen->match->key[i]);
    }
    rn_members_close(w->m, '}');
    put_tier(w->m, seen);
    rn_members_u64(w->m, "cost", seen->cost);
    char text[RN_STATUSES_TEXT];
    if (rule->by_outcome) {
        rn_statuses_write(&rule->charge_on, text);
        rn_members_text(w->m, "charge_on", rn_slice_of(text));
    }
    rn_members_u64(w->m, "keep_percent", seen->match->keep_percent);
    if (rule->soft_percent != 0)
        rn_members_u64(w->m, "soft_percent", rule->soft_percent);
    if (throttle->on) {
        rn_members_open(w->m, "throttle", '{');
        if (throttle->from_units != 0)
            rn_members_u64(w->m, "from_requests", throttle->from_units);
        else
            rn_members_u64(w->m, "from_percent", throttle->from_percent);
        if (throttle->max_ns != 0)
            rn_members_seconds(w->m, "max_delay", throttle->max_ns);
        rn_members_close(w->m, '}');
    }
    rn_explanation_put_queue(w->m, rule);
    rn_explanation_put_reputation(w->m, seen);
    if (seen->pause_ns > 0)
        rn_members_seconds(w->m, "paused_for", seen->pause_ns);
    rn_members_bool(w->m, "shadow", rule->shadow || seen->ruleset->shadow);
    rn_members_open(w->m, "limits", '[');
    int code = rn_explanation_put_limits(w->m, seen);
    w->error = w->error ? w->error : code;
    rn_members_close(w->m, ']');
}

static int put_rule(void *arg, const struct rn_explained_rule *seen)
{
    static const char *const why[] = {[RN_WHY_APPLIES] = "applies",
                                      [RN_WHY_CONDITION] = "condition",
                                      [RN_WHY_NO_KEY] = "no key",
                                      [RN_WHY_NO_TIER] = "no tier",
                                      [RN_WHY_UNLIMITED] = "unlimited"};
    const struct rn_rule *rule = seen->rule;
    struct writer *w = arg;

    if ((w->matching && !seen->applies) || (w->descriptor && !rule->for_envoy))
        return 0;
    rn_buf_clear(&w->words);
    rn_reason_write(&w->words, seen->ruleset, rule, seen->values, seen->reason);
    rn_members_open(w->m, NULL, '{');
    rn_members_text(w->m, "rule", rule->name);
    rn_members_text(w->m, "file", rule->file);
    rn_members_u64(w->m, "line", rule->line);
    rn_members_bool(w->m, "applies", seen->applies);
    rn_members_text(w->m, "why", rn_slice_of(why[seen->reason.why]));
    rn_members_text(w->m, "reason", rn_buf_slice(&w->words));
    if (rule->alternative_count > 1)
        put_alternatives(w, seen);
    else
        put_conditions(w, seen->ruleset, seen->values, rule->alternatives[0].conditions,
                       rule->alternatives[0].condition_count);
    if (seen->applies)
        put_charge(w, seen);
    rn_members_close(w->m, '}');
    return 0;
}

/* --- the request ---------------------------------------------------------------------------- */

/* `ruleset` is NULL if it is not known which attributes rules look at. */
static void put_attributes(struct writer *w, const struct rn_ruleset *ruleset)
{
    struct rn_members *m = w->m;

    rn_members_open(m, "request", '[');
    for (size_t i = 0; i < w->request->count; i++) {
        const struct ration_attribute *a = &w->request->attributes[i];
        struct rn_slice name = {a->name, a->name_len};

        rn_members_open(m, NULL, '{');
        rn_members_text(m, "attribute", name);
        rn_members_text(m, "value", (struct rn_slice){a->value, a->value_len});
        if (ruleset && !rn_ruleset_uses_attribute(ruleset, name)) {
            const char *meant = rn_ruleset_suggest_attribute(ruleset, name);

            rn_members_bool(m, "unused", true);
            if (meant)
                rn_members_text(m, "meant", rn_slice_of(meant));
        }
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
}

static bool is_given(const struct ration_request *request, struct rn_slice name,
                     struct rn_slice value)
{
    for (size_t i = 0; i < request->count; i++) {
        const struct ration_attribute *a = &request->attributes[i];

        if (rn_slice_equal(name, (struct rn_slice){a->name, a->name_len}) &&
            rn_slice_equal(value, (struct rn_slice){a->value, a->value_len}))
            return true;
    }
    return false;
}

/* Where a value was looked up, and for which address. */
static void put_geo(struct rn_members *m, const struct rn_explained_request *r,
                    const struct rn_attribute *a)
{
    rn_members_text(m, "geo", rn_slice_of(rn_geo_table_fields[a->field]));
    rn_members_text(m, "of", r->values->value[a->of]);
    rn_members_text(m, "database", a->geo->path);
}

/* Attributes that rules derive: a user from the path, the client's address from a header, a country
 * from a database. */
static void put_derived(struct writer *w, const struct rn_explained_request *r)
{
    bool any = false;

    for (uint32_t i = 0; i < r->ruleset->attribute_count; i++) {
        const struct rn_attribute *a = &r->ruleset->attributes[i];
        bool path = a->source == RN_SOURCE_PATH;

        if (a->source == RN_SOURCE_REQUEST || !r->values->value[i].data ||
            is_given(w->request, a->name, r->values->value[i]))
            continue;
        if (!any)
            rn_members_open(w->m, "derived", '[');
        any = true;
        rn_members_open(w->m, NULL, '{');
        rn_members_text(w->m, "attribute", a->name);
        rn_members_text(w->m, "value", r->values->value[i]);
        if (a->source == RN_SOURCE_GEO)
            put_geo(w->m, r, a);
        else
            rn_members_text(w->m, path ? "path" : "header", path ? a->pattern : a->header);
        rn_members_close(w->m, '}');
    }
    if (any)
        rn_members_close(w->m, ']');
}

/* Bytes that are not UTF-8 are written as in a URL: JSON has no other way. */
static void put_reading(struct rn_members *m, struct rn_slice path)
{
    struct rn_buf text = {0};
    size_t len;

    for (size_t i = 0; i < path.len; i += len) {
        uint32_t point;

        len = rn_utf8_decode(path.data + i, path.len - i, &point);
        if (len > 0)
            rn_buf_put(&text, path.data + i, len);
        else
            rn_buf_putf(&text, "%%%02X", (unsigned char)path.data[i]);
        len += len == 0;
    }
    rn_members_text(m, NULL, rn_buf_slice(&text));
    m->out->failed |= text.failed;
    rn_buf_done(&text);
}

static void begin(void *arg, const struct rn_explained_request *request)
{
    struct writer *w = arg;
    const struct rn_explanation_descriptor *d = w->descriptor;
    const struct rn_path_readings *paths = &request->values->paths;
    const struct rn_list_entry *entry = request->entry;
    bool native = !d || request->ruleset->apply_to_envoy;

    put_attributes(w, d || request->ruleset->domain_count > 0 ? NULL : request->ruleset);
    if (native && paths->text[0].data) {
        rn_members_open(w->m, "readings", '[');
        for (uint32_t i = 0; i < paths->count && !paths->unreadable; i++)
            put_reading(w->m, paths->text[i]);
        rn_members_close(w->m, ']');
    }
    if (native)
        put_derived(w, request);
    if (native && entry) { /* of the list that decides instead of the rules */
        rn_members_open(w->m, "list", '{');
        rn_members_text(w->m, "list", entry->deny ? RN_SLICE("deny") : RN_SLICE("allow"));
        rn_members_text(w->m, "file", entry->file);
        rn_members_u64(w->m, "line", entry->line);
        put_conditions(w, request->ruleset, request->values, entry->conditions,
                       entry->condition_count);
        rn_members_close(w->m, '}');
    }
    if (d && d->put)
        d->put(d->arg, w->m);
    rn_members_open(w->m, "rules", '[');
    if (d && d->put_rule)
        d->put_rule(d->arg, w->m);
    w->begun = true;
}

int rn_explanation_put(struct rn_members *m, struct ration *limiter,
                       const struct rn_explanation *explanation)
{
    struct writer w = {.m = m,
                       .request = explanation->request,
                       .matching = explanation->matching,
                       .descriptor = explanation->descriptor};
    struct rn_answer_extra extra = {.wall_ns = ration_wall(limiter, explanation->now_ns)};

    rn_members_name(m, "decision");
    rn_answer_put_json(m->out, explanation->outcome, &extra);
    int code = rn_explain_run(limiter, &(struct rn_explain){.request = explanation->request,
                                                            .now_ns = explanation->now_ns,
                                                            .arg = &w,
                                                            .begin = begin,
                                                            .see = put_rule});

    if (!w.begun) {
        put_attributes(&w, NULL);
        rn_members_open(m, "rules", '[');
    }
    rn_members_close(m, ']');
    rn_buf_done(&w.words);
    return w.error != 0 ? w.error : code;
}
