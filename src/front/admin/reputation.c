/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules with `escalate` and `earn` keep of clients: listing it, lifting bans, log lines of
 * bans that begin, metrics.
 */
#include <ration/reputation.h>

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "front/admin/admin_internal.h"
#include "limiter/limiter.h"
#include "limiter/reputation/reputation.h"
#include "limiter/rulebook/book.h"
#include "rules/report/report.h"

#define PAGE_COUNT 1000 /* entries of a page by default */
#define HASH_DIGITS 16

/* --- listing -------------------------------------------------------------------------------- */

void rn_admin_put_key(struct rn_members *m, const char *name, struct rn_slice key)
{
    char text[RN_EVENT_NAME_BYTES];
    size_t len = key.len < sizeof text ? key.len : sizeof text;

    for (size_t i = 0; i < len; i++)
        text[i] = key.data[i] != '\0' ? key.data[i] : '\xff';
    rn_members_text(m, name, (struct rn_slice){text, len});
}

static int list_client(void *arg, const struct ration_reputation *client)
{
    struct rn_members *m = arg;
    char hash[HASH_DIGITS + 1];

    snprintf(hash, sizeof hash, "%016" PRIx64, client->hash);
    rn_members_open(m, NULL, '{');
    if (client->rule_len != 0)
        rn_members_text(m, "rule", (struct rn_slice){client->rule, client->rule_len});
    else
        rn_members_null(m, "rule");
    if (client->key)
        rn_admin_put_key(m, "key", (struct rn_slice){client->key, client->key_len});
    else
        rn_members_null(m, "key");
    rn_members_text(m, "hash", rn_slice_of(hash));
    rn_members_bool(m, "banned", client->banned);
    if (client->banned)
        rn_members_seconds(m, "ends_after", client->ends_after_ns);
    rn_members_u64(m, "level", client->level);
    rn_members_u64(m, "refusals", client->refusals);
    rn_members_seconds(m, "earned", client->earned_percent * (RN_SECOND_NS / 100));
    rn_members_close(m, '}');
    return 0;
}

void rn_admin_get_reputation(struct rn_http_context *c)
{
    struct rn_admin_params params;
    uint64_t next = 0;

    if (!rn_admin_read_query(c, &params, RN_ADMIN_PAGE | RN_ADMIN_RULE | RN_ADMIN_BANNED) ||
        (params.rule.data && !rn_admin_find_rule(c, params.rule)))
        return;
    struct ration_reputation_query query = {.rule = params.rule.data,
                                            .rule_len = params.rule.len,
                                            .banned_only = params.banned,
                                            .cursor = params.after,
                                            .limit = params.page ? params.page : PAGE_COUNT};
    struct rn_members m = rn_admin_begin(c);

    rn_members_open(&m, "clients", '[');
    int code = ration_reputation_each(c->front->limiter, &query, list_client, &m, &next);

    rn_members_close(&m, ']');
    if (next != 0)
        rn_members_u64(&m, "next", next);
    if (code != 0)
        rn_front_http_error(c, 503, "store", "%s", ration_error_text(code));
    else
        rn_admin_end(c, &m, 200);
}

void rn_admin_put_ban_of(struct rn_members *m, struct ration *r, struct rn_slice rule,
                         uint64_t hash)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_rule *found =
        pin.book ? rn_reputation_find_rule(r, pin.book, rn_reputation_rule(r, rule)) : NULL;
    struct ration_reputation client;

    if (found && rn_reputation_look(r, found, hash, ration_now(r), &client) && client.banned)
        rn_members_seconds(m, "banned_for", client.ends_after_ns);
    rn_pin_drop(&pin);
}

/* --- lifting -------------------------------------------------------------------------------- */

static bool parse_hash(struct rn_slice text, uint64_t *hash)
{
    *hash = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

        if (digit < 0)
            return false;
        *hash = *hash << 4 | (uint64_t)digit;
    }
    return text.len == HASH_DIGITS;
}

/* False after answering. */
static bool check_lift(struct rn_http_context *c, const struct rn_admin_params *params,
                       uint64_t *hash)
{
    bool by_hash = params->given & RN_ADMIN_HASH;

    if (by_hash == ((params->given & RN_ADMIN_ATTRIBUTES) != 0))
        rn_front_http_error(c, 400, "bad_request",
                            "give \"attributes\", the client's as in its requests, such as "
                            "{\"ip\": \"192.0.2.7\", \"path\": \"/login\"}, or \"rule\" and "
                            "\"hash\", as GET /v1/reputation lists them%s",
                            by_hash ? "; not both" : "");
    else if (by_hash && !params->rule.data)
        rn_front_http_error(c, 400, "bad_request",
                            "\"rule\" is missing: a hash is of a client under one rule");
    else if (by_hash && !parse_hash(params->hash, hash))
        rn_front_http_error(c, 400, "bad_request",
                            "\"hash\" must be %d hexadecimal digits, as GET /v1/reputation lists "
                            "them, found %s",
                            HASH_DIGITS, rn_excerpt(params->hash).text);
    else
        return !params->rule.data || rn_admin_find_rule(c, params->rule);
    return false;
}

void rn_admin_lift(struct rn_http_context *c)
{
    struct ration *r = c->front->limiter;
    struct rn_admin_params params;
    uint32_t count = 0;
    uint64_t hash = 0;
    int code;

    if (!rn_admin_read(c, &params, RN_ADMIN_ATTRIBUTES | RN_ADMIN_RULE | RN_ADMIN_HASH) ||
        !check_lift(c, &params, &hash))
        return;
    if (params.given & RN_ADMIN_HASH) {
        code = ration_reputation_lift_hash(r, params.rule.data, params.rule.len, hash, RATION_NOW);
        count = code == 0;
        code = code == RATION_EGONE ? 0 : code;
    } else {
        struct ration_request request = rn_admin_request(c);

        code = ration_reputation_lift(r, &request, params.rule.data, params.rule.len, RATION_NOW,
                                      &count);
    }
    if (code == RATION_EUNMATCHED && !params.rule.data) {
        rn_front_http_error(c, 400, "unmatched",
                            "no rule with escalate applies to these attributes; give all that it "
                            "looks at, as in a request, or \"rule\", to hear which one is missing");
        return;
    }
    if (code != 0) {
        rn_admin_fail_state(c, code, params.rule);
        return;
    }
    rn_admin_log(c, "ban.lift",
                 RN_LOG_TEXT("rule", (params.rule.data ? params.rule : RN_SLICE("all"))),
                 params.given & RN_ADMIN_HASH ? RN_LOG_TEXT("hash", params.hash)
                                              : RN_LOG_TEXT("client", rn_admin_client(c)),
                 RN_LOG_NUMBER("lifted", count));
    struct rn_members m = rn_admin_begin(c);

    rn_members_u64(&m, "lifted", count);
    rn_admin_end(c, &m, 200);
}

/* --- log lines ------------------------------------------------------------------------------- */

struct begun {
    struct rn_front *front;
    const struct rn_reputation_event *event;
};

/* The key of a rule with `key: ip` is an address, which is no secret; of other keys it is not known
 * here which part is which attribute. */
static int log_begun(void *arg, const struct ration_rule_info *info)
{
    const struct begun *begun = arg;
    const struct rn_reputation_event *e = begun->event;
    struct rn_slice rule = {info->name, info->name_len};
    struct rn_buf client = {0};

    if (rn_reputation_rule(begun->front->limiter, rule) != e->rule)
        return 0;
    rn_admin_put_value(&client, begun->front->log_keys, rn_slice_of(info->key),
                       (struct rn_slice){e->name, e->name_len});
    rn_log(RN_LOG_INFO, "ban.begin", RN_LOG_TEXT("rule", rule),
           RN_LOG_TEXT("client", rn_buf_slice(&client)), RN_LOG_NUMBER("level", e->level),
           RN_LOG_NUMBER("seconds", (e->age_ns + e->ends_in_ns + RN_SECOND_NS / 2) / RN_SECOND_NS));
    rn_buf_done(&client);
    return 1;
}

void rn_front_log_bans(struct rn_front *front)
{
    struct rn_reputation_event events[16];
    int64_t now_ns = ration_now(front->limiter);
    size_t count;

    while ((count = rn_reputation_recent(front->limiter, &front->bans_logged, events,
                                         RN_COUNT(events))) != 0)
        for (size_t i = 0; i < count; i++)
            if (events[i].level != 0 && now_ns - events[i].age_ns >= front->bans_since_ns)
                ration_rules_each(front->limiter, log_begun, &(struct begun){front, &events[i]});
}

/* --- metrics -------------------------------------------------------------------------------- */

void rn_admin_metrics_put_reputation(struct rn_buf *out, struct rn_front *front)
{
    static const char lost[] = "ration_reputation_lost_total";
    struct ration_reputation_totals totals;

    ration_reputation_totals(front->limiter, &totals);
    rn_metrics_put_gauge(out, "ration_reputation_records",
                         "Records of clients that rules with escalate or earn keep.",
                         totals.records);
    rn_metrics_put_gauge(out, "ration_reputation_capacity",
                         "Such records that there is room for; 0: no rule needs any.",
                         totals.capacity);
    rn_metrics_put_gauge(out, "ration_reputation_banned", "Clients that rules ban now.",
                         totals.banned);
    rn_metrics_begin(out, lost, RN_METRICS_COUNTER,
                     "Records that were forgotten for want of room, by what they held.");
    rn_metrics_put(out, lost, &RN_METRICS_LABEL("kind", RN_SLICE("counts")), 1, totals.lost_counts);
    rn_metrics_put(out, lost, &RN_METRICS_LABEL("kind", RN_SLICE("ban")), 1, totals.lost_bans);
    rn_metrics_put(out, lost, &RN_METRICS_LABEL("kind", RN_SLICE("earned")), 1, totals.lost_earned);
    rn_metrics_put_counter(out, "ration_reputation_earned_steps_total",
                           "Steps that clients have earned under rules with earn.", totals.steps);
    rn_metrics_put_counter(out, "ration_reputation_lost_steps_total",
                           "Times that clients have lost what they had earned.", totals.lost_steps);
}
