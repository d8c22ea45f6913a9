/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/members.h"
#include "wire/publish/publish_internal.h"

#define TITLE "Rate limits"
#define INTRO "How many requests this API serves, and what to do when it refuses one."

/* --- a document ------------------------------------------------------------------------ */

static void put_requests(struct rn_buf *out, const struct rn_ruleset *set,
                         const struct rn_rule *rule)
{
    for (uint32_t a = 0; a < rule->alternative_count; a++) {
        if (a != 0)
            rn_buf_put_literal(out, "; ");
        rn_publish_put_requests(out, set, &rule->alternatives[a]);
    }
}

static void put_limits(struct rn_buf *out, const struct rn_rule *rule, const struct rn_tier *tier)
{
    if (tier->limit_count == 0)
        rn_buf_put_literal(out, "no limit");
    for (uint32_t i = 0; i < tier->limit_count; i++) {
        if (i != 0)
            rn_buf_put_literal(out, "; and ");
        rn_publish_put_limit(out, rule, tier->limits[i]);
    }
}

/* `line` is memory for one text. */
static void put_rule(struct rn_markup *d, struct rn_buf *line, const struct rn_ruleset *set,
                     const struct rn_rule *rule)
{
    rn_markup_heading(d, rule->name);
    rn_buf_clear(line);
    rn_buf_put_literal(line, "For ");
    put_requests(line, set, rule);
    rn_buf_put_literal(line, ", counted for ");
    rn_publish_put_key(line, set, rule);
    rn_buf_put_literal(line, ".");
    rn_markup_paragraph(d, rn_buf_slice(line));
    rn_markup_table_open(d, (const char *const[]){"Tier", "Limit"}, 2);
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        rn_buf_clear(line);
        rn_buf_put_slice(line, rn_publish_tier(rule, t));
        if (t == rule->default_tier && rule->tiers[t].value.len != 0)
            rn_buf_put_literal(line, ", and all others");
        rn_markup_cell(d, rn_buf_slice(line));
        rn_buf_clear(line);
        put_limits(line, rule, &rule->tiers[t]);
        rn_markup_cell(d, rn_buf_slice(line));
    }
    rn_markup_table_close(d);
    rn_buf_clear(line);
    rn_publish_put_notes(line, rule);
    if (line->len != 0)
        rn_markup_paragraph(d, (struct rn_slice){line->data, line->len - 1});
}

static void put_document(struct rn_buf *out, const struct rn_ruleset *set, bool markdown)
{
    struct rn_buf line = {0};
    struct rn_markup d;

    rn_markup_open(&d, markdown, TITLE, INTRO);
    for (uint32_t i = 0; set && i < set->rule_count; i++) {
        if (set->shadow || !rn_publish_shows(&set->rules[i]))
            continue;
        put_rule(&d, &line, set, &set->rules[i]);
    }
    if (rn_publish_any(set))
        rn_publish_put_guide(&d, rn_publish_headers_of(set));
    else
        rn_markup_paragraph(&d, RN_SLICE("No limits are published."));
    rn_markup_close(&d);
    rn_buf_put_slice(out, rn_buf_slice(&d.page.out));
    out->failed |= d.page.out.failed | line.failed;
    rn_page_done(&d.page);
    rn_buf_done(&line);
}

/* --- JSON ------------------------------------------------------------------------------ */

static void put_text(struct rn_members *m, const char *name, struct rn_buf *line)
{
    rn_members_text(m, name, rn_buf_slice(line));
    m->out->failed |= line->failed;
    rn_buf_clear(line);
}

static void put_json_limit(struct rn_members *m, struct rn_buf *line, const struct rn_rule *rule,
                           const struct rn_rule_limit *limit)
{
    const struct ration_limit *spec = &limit->spec;

    rn_members_open(m, NULL, '{');
    rn_publish_put_limit(line, rule, limit);
    put_text(m, "text", line);
    rn_members_u64(m, "amount", spec->amount);
    if (spec->algorithm != RATION_CONCURRENCY)
        rn_members_seconds(m, "period", spec->period_ns);
    rn_members_u64(m, "at_once",
                   spec->algorithm == RATION_TOKEN_BUCKET && spec->burst != 0 ? spec->burst
                                                                              : spec->amount);
    rn_members_close(m, '}');
}

static void put_json_rule(struct rn_members *m, struct rn_buf *line, const struct rn_ruleset *set,
                          const struct rn_rule *rule)
{
    rn_members_open(m, NULL, '{');
    rn_members_text(m, "name", rule->name);
    put_requests(line, set, rule);
    put_text(m, "requests", line);
    rn_publish_put_key(line, set, rule);
    put_text(m, "counted_for", line);
    rn_members_open(m, "tiers", '[');
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        rn_members_open(m, NULL, '{');
        rn_members_text(m, "tier", rn_publish_tier(rule, t));
        if (rule->tier_attribute != RN_NO_ATTRIBUTE)
            rn_members_bool(m, "default", t == rule->default_tier);
        rn_members_open(m, "limits", '[');
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++)
            put_json_limit(m, line, rule, rule->tiers[t].limits[i]);
        rn_members_close(m, ']');
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
    rn_members_u64(m, "status", rule->response.status);
    rn_publish_put_notes(line, rule);
    if (line->len != 0) {
        line->len--; /* the blank at its end */
        put_text(m, "notes", line);
    }
    rn_members_close(m, '}');
}

static void put_json(struct rn_buf *out, const struct rn_ruleset *set)
{
    struct rn_publish_headers headers = rn_publish_headers_of(set);
    struct rn_members m = {.out = out};
    const char *name, *meaning;
    struct rn_buf line = {0};

    rn_members_open(&m, NULL, '{');
    rn_members_open(&m, "limits", '[');
    for (uint32_t i = 0; set && !set->shadow && i < set->rule_count; i++)
        if (rn_publish_shows(&set->rules[i]))
            put_json_rule(&m, &line, set, &set->rules[i]);
    rn_members_close(&m, ']');
    rn_members_open(&m, "headers", '[');
    for (size_t i = 0; rn_publish_header(headers, i, &name, &meaning); i++) {
        rn_members_open(&m, NULL, '{');
        rn_members_text(&m, "name", rn_slice_of(name));
        rn_members_text(&m, "meaning", rn_slice_of(meaning));
        rn_members_close(&m, '}');
    }
    rn_members_close(&m, ']');
    rn_members_text(&m, "advice", rn_slice_of(rn_publish_advice));
    rn_members_close(&m, '}');
    rn_buf_put_char(out, '\n');
    rn_buf_done(&line);
}

bool rn_publish_any(const struct rn_ruleset *set)
{
    bool any = false;

    for (uint32_t i = 0; set && !set->shadow && i < set->rule_count; i++)
        any |= rn_publish_shows(&set->rules[i]);
    return any;
}

void rn_publish_put(struct rn_buf *out, const struct rn_ruleset *set, enum rn_publish_format format)
{
    if (format == RN_PUBLISH_JSON)
        put_json(out, set);
    else
        put_document(out, set, format == RN_PUBLISH_MARKDOWN);
}
