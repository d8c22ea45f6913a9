/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin port: its routes, and what their files share. It runs in the control thread, so
 * slow requests delay no decision.
 */
#include "front/admin/admin_internal.h"

#include "front/http/static_documents.h"

#define BODY_MAX (8 * 1024 * 1024) /* of rules */

struct rn_members rn_admin_begin(struct rn_http_context *c)
{
    struct rn_members m = {.out = &c->ws->scratch};

    rn_buf_clear(m.out);
    rn_members_open(&m, NULL, '{');
    return m;
}

void rn_admin_end_with(struct rn_http_context *c, struct rn_members *m, unsigned status,
                       const char *header, struct rn_slice value)
{
    rn_members_close(m, '}');
    rn_buf_put_char(m->out, '\n');
    if (m->out->failed) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    rn_http_put_status(c->out, status);
    if (header)
        rn_http_put_header(c->out, header, value);
    rn_http_put_body(c->out, c->keep_alive, c->head, "application/json", rn_buf_slice(m->out));
}

void rn_admin_end(struct rn_http_context *c, struct rn_members *m, unsigned status)
{
    rn_admin_end_with(c, m, status, NULL, (struct rn_slice){0});
}

bool rn_admin_read(struct rn_http_context *c, struct rn_admin_params *params, unsigned allowed)
{
    struct rn_json json;

    *params = (struct rn_admin_params){.client = &c->ws->params};
    rn_params_init(params->client);
    if (!rn_front_http_read_object(c, &json))
        return false;
    if (rn_admin_params_read(params, &json, allowed) == 0 &&
        rn_json_next(&json).kind == RN_JSON_END)
        return true;
    rn_front_http_error(c, 400, "bad_request", "%s", json.error.text);
    return false;
}

bool rn_admin_refuse_escape(struct rn_http_context *c)
{
    rn_front_http_error(c, 400, "bad_request",
                        "the query string has a %% that two hexadecimal digits do not follow");
    return false;
}

bool rn_admin_read_query(struct rn_http_context *c, struct rn_admin_params *params,
                         unsigned allowed)
{
    struct rn_slice rest = c->request->query, name, value;
    char *decoded = c->ws->names; /* a target is no longer than a head */
    struct ration_error error;
    bool bad = false;

    *params = (struct rn_admin_params){.client = &c->ws->params};
    rn_params_init(params->client);
    while (rn_http_query_next(&rest, &decoded, &name, &value, &bad)) {
        if (bad)
            return rn_admin_refuse_escape(c);
        if (rn_admin_params_read_one(params, name, value, allowed, &error) != 0) {
            rn_front_http_error(c, 400, "bad_request", "%s", error.text);
            return false;
        }
    }
    return true;
}

struct ration_request rn_admin_request(const struct rn_http_context *c)
{
    const struct rn_params *client = &c->ws->params;

    return (struct ration_request){
        .attributes = client->attributes, .count = client->attribute_count, .cost = client->cost};
}

/* --- rules by name ------------------------------------------------------------------------- */

struct search {
    struct rn_slice rule;
    bool found;
    char meant[RATION_NAME_SIZE]; /* the first that is near; empty: none */
};

static int look(void *arg, const struct ration_rule_info *info)
{
    struct rn_slice name = {info->name, info->name_len};
    struct search *search = arg;
    char candidate[RATION_NAME_SIZE];
    const char *candidates[] = {candidate};

    search->found = rn_slice_equal(name, search->rule);
    rn_slice_copy(candidate, sizeof candidate, name);
    if (!search->meant[0] && rn_suggest(search->rule, candidates, 1))
        memcpy(search->meant, candidate, sizeof candidate);
    return search->found;
}

bool rn_admin_find_rule(struct rn_http_context *c, struct rn_slice rule)
{
    struct search search = {.rule = rule};

    ration_rules_each(c->front->limiter, look, &search);
    if (search.found)
        return true;
    if (search.meant[0])
        rn_front_http_error(c, 404, "no_rule", "there is no rule %s; did you mean %s?",
                            rn_excerpt(rule).text, rn_excerpt(rn_slice_of(search.meant)).text);
    else
        rn_front_http_error(c, 404, "no_rule", "there is no rule %s; GET /v1/rules lists them",
                            rn_excerpt(rule).text);
    return false;
}

/* --- the port -------------------------------------------------------------------------------- */

static void answer_openapi(struct rn_http_context *c)
{
    rn_static_documents_answer(c, RN_STATIC_DOCUMENT_OPENAPI_ADMIN);
}

static const struct rn_route routes[] = {
    {RN_GET, "/", rn_admin_get_page},
    {RN_GET, "/web/", rn_admin_get_page_file},
    {RN_GET, "/healthz", rn_admin_health},
    {RN_GET, "/readyz", rn_admin_ready},
    {RN_GET, "/metrics", rn_admin_metrics},
    {RN_GET, "/openapi.json", answer_openapi},
    {RN_GET, "/schema.json", rn_admin_get_schema},
    {RN_GET, "/v1/whoami", rn_admin_whoami},
    {RN_GET, "/v1/status", rn_admin_status},
    {RN_GET, "/v1/history", rn_admin_get_history},
    {RN_GET, "/v1/live", rn_admin_get_live},
    {RN_GET, "/v1/activity", rn_admin_get_activity},
    {RN_GET, "/v1/rules", rn_admin_get_rules},
    {RN_PUT, "/v1/rules", rn_admin_put_rules},
    {RN_DELETE, "/v1/rules", rn_admin_delete_rules},
    {RN_POST, "/v1/rules/validate", rn_admin_validate},
    {RN_GET, "/v1/rules/versions", rn_admin_get_versions},
    {RN_GET, "/v1/rules/versions/", rn_admin_get_version},
    {RN_POST, "/v1/rules/rollback", rn_admin_rollback},
    {RN_POST, "/v1/rules/trial", rn_admin_begin_trial},
    {RN_DELETE, "/v1/rules/trial", rn_admin_end_trial},
    {RN_POST, "/v1/rules/reload", rn_admin_reload},
    {RN_POST, "/v1/explain", rn_admin_explain},
    {RN_GET, "/v1/state", rn_admin_get_state},
    {RN_POST, "/v1/state/reset", rn_admin_reset},
    {RN_POST, "/v1/state/adjust", rn_admin_adjust},
    {RN_GET, "/v1/overrides", rn_admin_get_overrides},
    {RN_PUT, "/v1/overrides", rn_admin_put_override},
    {RN_DELETE, "/v1/overrides", rn_admin_delete_override},
    {RN_DELETE, "/v1/overrides/", rn_admin_delete_override},
    {RN_GET, "/v1/bans", rn_admin_get_bans},
    {RN_PUT, "/v1/bans", rn_admin_put_ban},
    {RN_DELETE, "/v1/bans", rn_admin_delete_ban},
    {RN_DELETE, "/v1/bans/", rn_admin_delete_ban},
    {RN_GET, "/v1/reputation", rn_admin_get_reputation},
    {RN_DELETE, "/v1/reputation", rn_admin_lift},
    {RN_POST, "/v1/pause", rn_front_http_pause},
    {RN_GET, "/v1/pause", rn_front_http_get_pause},
    {RN_DELETE, "/v1/pause", rn_front_http_lift_pause},
    {RN_GET, "/v1/signals", rn_admin_get_signals},
    {RN_PUT, "/v1/signals/", rn_admin_put_signal},
    {RN_GET, "/v1/usage", rn_admin_get_usage},
    {RN_POST, "/v1/usage", rn_admin_correct_usage},
    {RN_GET, "/v1/top", rn_admin_top},
    {RN_GET, "/v1/report", rn_admin_get_report},
    {RN_GET, "/v1/limits", rn_front_http_limits},
    {RN_GET, "/v1/shadow", rn_admin_get_shadow},
    {RN_PUT, "/v1/shadow", rn_admin_put_shadow},
};

static void opened(struct rn_conn *conn)
{
    static const struct rn_http_port port = {.protocol = RN_FRONT_ADMIN,
                                             .routes = routes,
                                             .route_count = sizeof routes / sizeof *routes,
                                             .body_max = BODY_MAX,
                                             .admit = rn_admin_admit};

    ((struct rn_http_state *)rn_conn_state(conn))->port = &port;
}

const struct rn_protocol rn_admin_protocol = {
    .name = "admin",
    .alpn = "http/1.1",
    .state_bytes = sizeof(struct rn_http_state),
    .idle_ns = INT64_C(75000000000),
    .message_ns = INT64_C(30000000000), /* rules may be long */
    .message_max = RN_HTTP_BYTES_MAX(BODY_MAX),
    .opened = opened,
    .received = rn_front_http_received,
    .closing = rn_front_http_closing,
    .closed = rn_front_http_closed,
};
