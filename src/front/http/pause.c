/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /v1/pause: POST pauses a key or a client, DELETE lifts the pause, GET tells how long it lasts.
 */
#include <ration/pause.h>

#include "base/clock.h"
#include "front/admin/admin_internal.h"
#include "rules/report/report.h"

struct pause {
    struct rn_params *client;  /* where attributes go */
    struct rn_slice key, rule; /* data NULL: not given */
    int64_t for_ns;
    unsigned given;
};

enum { GIVEN_KEY = 1, GIVEN_ATTRIBUTES = 2, GIVEN_RULE = 4, GIVEN_FOR = 8 };

/* --- reading -----------------------------------------------------------------------------------
 */

static int read_attributes(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    return rn_params_read_attributes(((struct pause *)into)->client, json, token);
}

static int read_for(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    int64_t *ns = &((struct pause *)into)->for_ns;
    struct ration_error error;

    if (token->kind == RN_JSON_STRING) {
        if (ration_pause_length(token->text.data, token->text.len, RATION_NOW, ns, &error) == 0)
            return 0;
        return rn_json_object_to(json, token->at, "\"for\": %s", error.text);
    }
    if (token->kind == RN_JSON_NUMBER && rn_json_seconds(token, ns) && *ns >= 0 &&
        *ns <= RATION_PAUSE_MAX_NS)
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"for\" must be seconds, up to 86400 (24 hours), or a text: 30s, or "
                             "a Retry-After header as it was received");
}

#define AT(field) offsetof(struct pause, field)

static const struct rn_param_member members[] = {
    {"key", GIVEN_KEY, RN_VALUE_TEXT, AT(key), NULL},
    {"attributes", GIVEN_ATTRIBUTES, RN_VALUE_OTHER, 0, read_attributes},
    {"rule", GIVEN_RULE, RN_VALUE_TEXT, AT(rule), NULL},
    {"for", GIVEN_FOR, RN_VALUE_OTHER, 0, read_for},
};

static bool read_body(struct rn_http_context *c, struct pause *p, unsigned allowed)
{
    struct rn_json json;

    if (!rn_front_http_read_object(c, &json))
        return false;
    if (rn_params_read_members(members, RN_COUNT(members), p, &json, allowed, &p->given) == 0 &&
        rn_json_next(&json).kind == RN_JSON_END)
        return true;
    rn_front_http_error(c, 400, "bad_request", "%s", json.error.text);
    return false;
}

/* key=… or attributes of the client, with rule=… */
static bool read_query(struct rn_http_context *c, struct pause *p)
{
    struct rn_slice rest = c->request->query, name, value;
    char *decoded = c->ws->names; /* a target is no longer than a head */
    bool bad = false;

    while (rn_http_query_next(&rest, &decoded, &name, &value, &bad)) {
        if (bad)
            return rn_admin_refuse_escape(c);
        if (rn_slice_is(name, "key")) {
            p->key = value;
            p->given |= GIVEN_KEY;
        } else if (rn_slice_is(name, "rule")) {
            p->rule = value;
            p->given |= GIVEN_RULE;
        } else if (name.len == 0) {
            rn_front_http_error(c, 400, "bad_request", "a parameter has no name");
            return false;
        } else if (rn_params_add(p->client, (char *)name.data, name.len, value) != 0) {
            rn_front_http_error(c, 400, "bad_request", "more than %d attributes",
                                RN_PARAMS_ATTRIBUTES_MAX);
            return false;
        } else {
            p->given |= GIVEN_ATTRIBUTES;
        }
    }
    return true;
}

/* False after answering. */
static bool check(struct rn_http_context *c, const struct pause *p, bool needs_for)
{
    bool key = p->given & GIVEN_KEY, attributes = p->given & GIVEN_ATTRIBUTES;

    if (key == attributes)
        rn_front_http_error(c, 400, "bad_request",
                            "give \"key\", as limits given with a call have it, or \"attributes\", "
                            "as in the requests of a client under rules%s",
                            key ? "; not both" : "");
    else if (key && (p->given & GIVEN_RULE))
        rn_front_http_error(c, 400, "bad_request",
                            "\"rule\" goes with \"attributes\": a key is paused under all limits "
                            "that come with a call");
    else if (needs_for && !(p->given & GIVEN_FOR))
        rn_front_http_error(c, 400, "bad_request",
                            "\"for\" is missing: seconds, or a text such as 30s; DELETE lifts a "
                            "pause");
    else
        return !p->rule.data || rn_admin_find_rule(c, p->rule);
    return false;
}

static bool read_pause(struct rn_http_context *c, struct pause *p, unsigned allowed)
{
    *p = (struct pause){.client = &c->ws->params};
    rn_params_init(p->client);
    bool posted = c->request->body.len != 0 || (allowed & GIVEN_FOR);

    return (posted ? read_body(c, p, allowed) : read_query(c, p)) &&
           check(c, p, allowed & GIVEN_FOR);
}

/* --- answering ---------------------------------------------------------------------------------
 */

static struct ration_pause_of target_of(const struct pause *p, const struct ration_request *request)
{
    if (p->key.data)
        return (struct ration_pause_of){.key = p->key.data, .key_len = p->key.len};
    return (struct ration_pause_of){
        .request = request, .rule = p->rule.data, .rule_len = p->rule.len};
}

static void fail(struct rn_http_context *c, int code, const struct pause *p)
{
    if (code == RATION_EUNMATCHED && !p->rule.data)
        rn_front_http_error(c, 400, "unmatched",
                            "no rule with a limit applies to these attributes; give all that it "
                            "looks at, as in a request, or \"rule\", to hear which one is missing");
    else if (code == RATION_EFULL)
        rn_front_http_error(c, 507, "full", "there is no room for another pause");
    else
        rn_admin_fail_state(c, code, p->rule);
}

/* Log first: the text is in ws->scratch, as the answer will be. */
static void log_change(struct rn_http_context *c, const struct pause *p, const char *event,
                       int64_t rest_ns)
{
    struct rn_buf *text = &c->ws->scratch;
    struct rn_slice client;

    if (p->key.data) {
        rn_buf_clear(text);
        rn_admin_put_value(text, c->front->log_keys, RN_SLICE("key"), p->key);
        client = rn_buf_slice(text);
    } else {
        client = rn_admin_client(c);
    }
    rn_admin_log(c, event, RN_LOG_TEXT(p->rule.data ? "rule" : NULL, p->rule),
                 RN_LOG_TEXT(p->key.data ? "key" : "client", client),
                 RN_LOG_NUMBER("seconds", (rest_ns + RN_SECOND_NS - 1) / RN_SECOND_NS));
}

static void answer(struct rn_http_context *c, int64_t rest_ns)
{
    struct rn_members m = rn_admin_begin(c);

    rn_members_bool(&m, "paused", rest_ns > 0);
    rn_members_seconds(&m, "rest", rest_ns);
    rn_admin_end(c, &m, 200);
}

void rn_front_http_pause(struct rn_http_context *c)
{
    struct pause p;
    int64_t rest_ns;

    if (!rn_admin_admit_change(c) ||
        !read_pause(c, &p, GIVEN_KEY | GIVEN_ATTRIBUTES | GIVEN_RULE | GIVEN_FOR))
        return;
    struct ration_request request = rn_admin_request(c);
    struct ration_pause_of of = target_of(&p, &request);
    int code = ration_pause(c->front->limiter, &of, p.for_ns, RATION_NOW, &rest_ns);

    if (code != 0) {
        fail(c, code, &p);
        return;
    }
    log_change(c, &p, "pause.set", rest_ns);
    answer(c, rest_ns);
}

void rn_front_http_get_pause(struct rn_http_context *c)
{
    struct pause p;
    int64_t rest_ns;

    if (!read_pause(c, &p, GIVEN_KEY | GIVEN_ATTRIBUTES | GIVEN_RULE))
        return;
    struct ration_request request = rn_admin_request(c);
    struct ration_pause_of of = target_of(&p, &request);
    int code = ration_pause_rest(c->front->limiter, &of, RATION_NOW, &rest_ns);

    if (code != 0)
        fail(c, code, &p);
    else
        answer(c, rest_ns);
}

void rn_front_http_lift_pause(struct rn_http_context *c)
{
    struct rn_members m;
    struct pause p;
    int64_t rest_ns;

    if (!rn_admin_admit_change(c) || !read_pause(c, &p, GIVEN_KEY | GIVEN_ATTRIBUTES | GIVEN_RULE))
        return;
    struct ration_request request = rn_admin_request(c);
    struct ration_pause_of of = target_of(&p, &request);
    int code = ration_pause_lift(c->front->limiter, &of, RATION_NOW, &rest_ns);

    if (code != 0) {
        fail(c, code, &p);
        return;
    }
    log_change(c, &p, "pause.lift", rest_ns);
    m = rn_admin_begin(c);
    rn_members_bool(&m, "lifted", rest_ns > 0);
    rn_members_seconds(&m, "rest", rest_ns);
    rn_admin_end(c, &m, 200);
}
