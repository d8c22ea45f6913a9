/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules in the words of those who call the API. Names of attributes are the operator's own, except
 * for those that everybody has.
 */
#include <inttypes.h>
#include <string.h>

#include <ration/rules.h>

#include "base/number.h"
#include "wire/publish/publish_internal.h"

bool rn_publish_shows(const struct rn_rule *rule)
{
    return !rule->shadow && !rule->envoy && !rule->unpublished;
}

/* --- limits ---------------------------------------------------------------------------- */

/* From the text of the limit: 100 per minute burst 20. */
void rn_publish_put_limit(struct rn_buf *out, const struct rn_rule *rule,
                          const struct rn_rule_limit *limit)
{
    const struct ration_limit *spec = &limit->spec;
    struct ration_limit plain = *spec;
    bool units = rule->cost.attribute != RN_NO_ATTRIBUTE || rule->cost.fixed > 1;
    const char *what = units ? "units" : spec->amount == 1 ? "request" : "requests";
    char text[RATION_LIMIT_TEXT], *queue;
    size_t digits;

    if (spec->algorithm == RATION_CONCURRENCY) {
        if (spec->adaptive_min != 0)
            rn_buf_putf(out, "up to ");
        rn_buf_putf(out, "%" PRIu64 " %s at the same time", spec->amount, what);
        return;
    }
    plain.burst = plain.queue = 0;
    plain.step_ns = 0;
    ration_limit_write(&plain, text, sizeof text);
    queue = strstr(text, " queue "); /* a leaky bucket is written with it, even if it is 0 */
    if (queue != NULL)
        *queue = '\0';
    digits = strspn(text, "0123456789");
    rn_buf_putf(out, "%.*s %s%s", (int)digits, text, what, text + digits);
    if (spec->calendar != RATION_CALENDAR_NONE && spec->zone[0] == '\0')
        rn_buf_put_literal(out, " (UTC)");
    if (spec->burst != 0 && spec->burst != spec->amount)
        rn_buf_putf(out, ", up to %" PRIu64 " at once", spec->burst);
    if (spec->queue != 0)
        rn_buf_putf(out, "; up to %" PRIu64 " more wait for their turn", spec->queue);
}

struct rn_slice rn_publish_tier(const struct rn_rule *rule, uint32_t tier)
{
    if (rule->tiers[tier].value.len != 0)
        return rule->tiers[tier].value;
    return rule->tier_count > 1 ? RN_SLICE("all others") : RN_SLICE("all");
}

/* --- requests -------------------------------------------------------------------------- */

static void put_values(struct rn_buf *out, const struct rn_condition *c)
{
    for (uint32_t i = 0; i < c->value_count; i++) {
        if (i != 0)
            rn_buf_put_literal(out, ", ");
        rn_buf_put_slice(out, c->values[i]);
        if (c->test == RN_TEST_PREFIX)
            rn_buf_put_literal(out, "*");
    }
}

static bool is_plain(const struct rn_ruleset *set, const struct rn_condition *c, const char *name)
{
    return !c->negated && rn_slice_is(set->attributes[c->attribute].name, name) &&
           (c->test == RN_TEST_EQUALS || c->test == RN_TEST_PATTERN || c->test == RN_TEST_PREFIX);
}

void rn_publish_put_requests(struct rn_buf *out, const struct rn_ruleset *set,
                             const struct rn_alternative *a)
{
    static const char *const names[] = {"method", "path"};
    size_t begun = out->len;
    uint32_t told = 0;

    for (size_t n = 0; n < RN_COUNT(names); n++)
        for (uint32_t i = 0; i < a->condition_count; i++) {
            if (!is_plain(set, &a->conditions[i], names[n]))
                continue;
            if (out->len != begun)
                rn_buf_put_literal(out, " ");
            put_values(out, &a->conditions[i]);
            told++;
        }
    if (told == a->condition_count && told == 0)
        rn_buf_put_literal(out, "all requests");
    else if (told == 0)
        rn_buf_put_literal(out, "some requests");
    else if (told < a->condition_count)
        rn_buf_put_literal(out, " (some of them)");
}

/* --- keys ------------------------------------------------------------------------------ */

/* NULL: a name that only the operator knows. */
static const char *name_of(struct rn_slice attribute)
{
    static const char *const names[] = {"user",   "api_key", "ip",      "device", "path",
                                        "method", "host",    "country", "tier",   "tenant"};
    static const char *const words[] = {"user",   "API key", "IP address", "device", "path",
                                        "method", "host",    "country",    "tier",   "tenant"};
    size_t i = rn_slice_find(attribute, names, RN_COUNT(names));

    return i < RN_COUNT(names) ? words[i] : NULL;
}

void rn_publish_put_key(struct rn_buf *out, const struct rn_ruleset *set,
                        const struct rn_rule *rule)
{
    size_t begun = out->len;
    bool unknown = false;

    for (uint32_t i = 0; i < rule->key_count; i++) {
        const struct rn_key_part *part = &rule->key[i];

        for (uint8_t n = 0; n < part->count; n++) {
            const char *name = name_of(set->attributes[part->attributes[n]].name);

            unknown |= name == NULL;
            if (name == NULL)
                continue;
            if (out->len == begun)
                rn_buf_put_literal(out, "each ");
            else
                rn_buf_putf(out, n == 0 ? " and " : ", or without it each ");
            rn_buf_put(out, name, strlen(name));
        }
    }
    if (out->len == begun && rule->key_count == 0)
        rn_buf_put_literal(out, "all callers together");
    else if (out->len == begun)
        rn_buf_put_literal(out, "each client");
    else if (unknown)
        rn_buf_put_literal(out, ", among others");
}

/* --- notes ----------------------------------------------------------------------------- */

void rn_publish_put_notes(struct rn_buf *out, const struct rn_rule *rule)
{
    char text[RN_DURATION_TEXT];

    if (rule->cost.attribute != RN_NO_ATTRIBUTE)
        rn_buf_put_literal(out, "Requests cost different numbers of units. ");
    else if (rule->cost.fixed > 1)
        rn_buf_putf(out, "A request costs %" PRIu64 " units. ", rule->cost.fixed);
    if (rule->by_outcome)
        rn_buf_put_literal(out, "Only requests with certain outcomes, such as failures, count. ");
    if (rule->soft_percent != 0)
        rn_buf_putf(out, "Up to %u %% more are served, marked by X-RateLimit-Soft. ",
                    rule->soft_percent);
    if (rule->throttle.on)
        rn_buf_put_literal(out, "Answers become slower before the limit is reached. ");
    if (rule->line_size != 0) {
        rn_number_write_duration(rule->max_wait_ns, text, sizeof text);
        rn_buf_putf(out, "Beyond the limit requests wait in line, for %s at most. ", text);
    }
    if (rn_rule_follows(rule))
        rn_buf_put_literal(out, "The limit may change with the load of the service. ");
    if (rule->earn != NULL)
        rn_buf_put_literal(out, "Clients that keep within it earn more. ");
    if (rule->escalate != NULL)
        rn_buf_put_literal(out, "Clients that go on after being refused are banned for a time. ");
    if (rule->response.status != 429)
        rn_buf_putf(out, "A refusal has the status %u. ", rule->response.status);
    if (rule->response.message.len != 0) {
        rn_buf_put_literal(out, "A refusal says: ");
        rn_buf_put_slice(out, rule->response.message);
        rn_buf_put_literal(out, " ");
    }
}
