/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Corrections of what a client is billed. What was counted stays; a correction stands beside it,
 * and its note is in the log.
 */
#include <inttypes.h>
#include <stdio.h>

#include "front/admin/admin_internal.h"
#include "rules/report/report.h"
#include "wire/export.h"

struct rule_search {
    struct rn_slice rule;
    bool usage;                /* whether it counts usage */
    char key[RATION_KEY_TEXT]; /* by which attributes */
};

static int look(void *arg, const struct ration_rule_info *info)
{
    struct rule_search *search = arg;

    if (!rn_slice_equal(search->rule, (struct rn_slice){info->name, info->name_len}))
        return 0;
    search->usage = info->usage;
    memcpy(search->key, info->key, sizeof search->key);
    return 1;
}

bool rn_admin_usage_rule(struct rn_http_context *c, struct rn_slice rule)
{
    struct rule_search search = {.rule = rule};

    if (!rn_admin_find_rule(c, rule))
        return false;
    ration_rules_each(c->front->limiter, look, &search);
    if (!search.usage)
        rn_front_http_error(c, 400, "bad_request",
                            "rule %s keeps no usage; write usage: true in it",
                            rn_excerpt(rule).text);
    return search.usage;
}

void rn_admin_usage_fail(struct rn_http_context *c, int code, struct rn_slice rule,
                         const struct ration_error *error)
{
    const char *text = error->text[0] ? error->text : ration_error_text(code);

    if (code == RATION_ENORULE && !rn_admin_usage_rule(c, rule))
        return;
    if (code == RATION_EINVAL || code == RATION_EPARSE || code == RATION_ENORULE)
        rn_front_http_error(c, 400, "bad_request", "%s", text);
    else if (code == RATION_EFULL)
        rn_front_http_error(c, 507, "full", "%s", text);
    else
        rn_front_http_error(c, 503, "store", "%s", text);
}

#define NOTE_MAX 500 /* bytes: a longer value would be cut in the log */

struct correction {
    struct rn_slice rule, client, client_hex, period, note; /* data NULL: not given */
    int64_t units;
    unsigned given;
};

enum { GIVEN_RULE = 1, GIVEN_CLIENT = 2, GIVEN_PERIOD = 4, GIVEN_UNITS = 8, GIVEN_NOTE = 16 };

static int read_units(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    int64_t *units = &((struct correction *)into)->units;

    if (rn_json_i64(token, units) && *units != 0)
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"units\" must be a whole number other than 0: above 0 to bill more, "
                             "below 0 to bill less");
}

#define AT(field) offsetof(struct correction, field)

static const struct rn_param_member members[] = {
    {"rule", GIVEN_RULE, RN_VALUE_TEXT, AT(rule), NULL},
    {"client", GIVEN_CLIENT, RN_VALUE_TEXT, AT(client), NULL},
    {"client_hex", GIVEN_CLIENT, RN_VALUE_TEXT, AT(client_hex), NULL},
    {"period", GIVEN_PERIOD, RN_VALUE_TEXT, AT(period), NULL},
    {"units", GIVEN_UNITS, RN_VALUE_OTHER, 0, read_units},
    {"note", GIVEN_NOTE, RN_VALUE_TEXT, AT(note), NULL},
};

/* Reads a correction; `client` keeps the bytes of client_hex. False after answering. */
static bool read_correction(struct rn_http_context *c, struct correction *p, struct rn_buf *client)
{
    static const char *const missing[] = {
        "\"rule\" is missing: the name of the rule that counted",
        "\"client\" is missing, as GET /v1/usage names it",
        "\"period\" is missing; write one such as \"2026-11\", \"current\" or \"last\"",
        "\"units\" are missing: above 0 to bill more, below 0 to bill less",
    };
    struct rn_json json;

    *p = (struct correction){0};
    if (!rn_front_http_read_object(c, &json))
        return false;
    if (rn_params_read_members(members, RN_COUNT(members), p, &json, ~0u, &p->given) != 0 ||
        rn_json_next(&json).kind != RN_JSON_END) {
        rn_front_http_error(c, 400, "bad_request", "%s", json.error.text);
        return false;
    }
    for (unsigned i = 0; i < RN_COUNT(missing); i++)
        if (!(p->given & 1u << i)) {
            rn_front_http_error(c, 400, "bad_request", "%s", missing[i]);
            return false;
        }
    if (p->client_hex.data && (p->client.data || !rn_export_unhex(client, p->client_hex))) {
        rn_front_http_error(c, 400, "bad_request",
                            "\"client_hex\" must be two hexadecimal digits for each byte of the "
                            "name, in the place of \"client\"");
        return false;
    }
    if (p->note.len > NOTE_MAX) {
        rn_front_http_error(c, 400, "bad_request",
                            "\"note\" has %zu bytes; the log has room for %d", p->note.len,
                            NOTE_MAX);
        return false;
    }
    if (p->client_hex.data)
        p->client = (struct rn_slice){client->len != 0 ? client->data : "", client->len};
    return true;
}

/* As much of the client as the log may have: an address is no secret, a key may be one. The period
 * is that of the row: `last` would mean another one to a reader of the log. */
static void log_correction(struct rn_http_context *c, const struct correction *p,
                           struct rn_slice period)
{
    struct rn_params *client = &c->ws->params;
    struct rule_search search = {.rule = p->rule, .key = "client"}; /* if the rule is gone */
    char units[24];

    ration_rules_each(c->front->limiter, look, &search);
    rn_params_init(client);
    client->attribute_count = 1;
    client->attributes[0] =
        (struct ration_attribute){search.key, strlen(search.key), p->client.data, p->client.len};
    snprintf(units, sizeof units, "%" PRId64, p->units);
    rn_admin_log_record(c, "usage.correct", RN_LOG_TEXT("rule", p->rule),
                        RN_LOG_TEXT(p->client.len != 0 ? "client" : NULL, rn_admin_client(c)),
                        RN_LOG_TEXT("period", period), RN_LOG_TEXT("units", rn_slice_of(units)),
                        RN_LOG_TEXT(p->note.len != 0 ? "note" : NULL, p->note));
}

static int copy_period(void *arg, const struct ration_usage *usage)
{
    memcpy(arg, usage->period, sizeof usage->period);
    return 1;
}

static int put_corrected(void *arg, const struct ration_usage *usage)
{
    rn_export_json(arg, usage);
    return 1;
}

void rn_admin_correct_usage(struct rn_http_context *c)
{
    struct ration *r = c->front->limiter;
    struct ration_error error = {0};
    struct rn_buf client = {0};
    struct correction p;
    uint64_t next;

    if (read_correction(c, &p, &client)) {
        struct ration_usage_query q = {.rule = p.rule.data,
                                       .rule_len = p.rule.len,
                                       .client = p.client.data,
                                       .client_len = p.client.len,
                                       .period = p.period.data,
                                       .period_len = p.period.len,
                                       .limit = 1,
                                       .at_s = ration_wall(r, ration_now(r)) / 1000000000};
        int code = ration_usage_correct(r, &q, p.units, &error);
        if (code != 0) {
            rn_admin_usage_fail(c, code, p.rule, &error);
        } else {
            char period[RATION_PERIOD_TEXT] = "";

            ration_usage_each(r, &q, copy_period, period, &next, &error);
            log_correction(c, &p, rn_slice_of(period));
            struct rn_members m = rn_admin_begin(c);

            ration_usage_each(r, &q, put_corrected, &m, &next, &error);
            if (c->front->fleet.usage_each) /* other nodes may have more of this client */
                rn_members_text(&m, "scope", RN_SLICE("node"));
            rn_admin_end(c, &m, 200);
        }
    }
    rn_buf_done(&client);
}
