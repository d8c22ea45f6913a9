/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin port: its routes, and what their files share. It runs in the
 * control thread, so what takes its time delays no decision.
 */
#include "front/admin/admin_internal.h"

#include "rules/report/report.h"

#define BODY_MAX (8 * 1024 * 1024) /* of rules */

/* --- answers ------------------------------------------------------------------------------ */

struct rn_members rn_admin_begin(struct rn_exchange *x)
{
    struct rn_members m = {.out = &x->desk->scratch};

    rn_buf_clear(m.out);
    rn_members_open(&m, NULL, '{');
    return m;
}

void rn_admin_end_with(struct rn_exchange *x, struct rn_members *m, unsigned status,
                       const char *header, struct rn_slice value)
{
    rn_members_close(m, '}');
    rn_buf_put_char(m->out, '\n');
    if (m->out->failed) {
        rn_exchange_error(x, 503, "memory", "out of memory");
        return;
    }
    rn_http_put_status(x->out, status);
    if (header)
        rn_http_put_header(x->out, header, value);
    rn_http_put_body(x->out, x->keep_alive, x->head, "application/json", rn_buf_slice(m->out));
}

void rn_admin_end(struct rn_exchange *x, struct rn_members *m, unsigned status)
{
    rn_admin_end_with(x, m, status, NULL, (struct rn_slice){0});
}

/* --- what is asked ------------------------------------------------------------------------- */

bool rn_admin_read(struct rn_exchange *x, struct rn_admin_params *params, unsigned members)
{
    struct rn_params *client = &x->desk->params;
    struct rn_json json;

    *params = (struct rn_admin_params){0};
    rn_params_init(client);
    if (!rn_exchange_object(x, &json))
        return false;
    if (rn_admin_params_read(params, client, &json, members) == 0 &&
        rn_json_next(&json).kind == RN_JSON_END)
        return true;
    rn_exchange_error(x, 400, "bad_request", "%s", json.error.text);
    return false;
}

bool rn_admin_read_query(struct rn_exchange *x, struct rn_admin_params *params, unsigned members)
{
    struct rn_slice rest = x->request->query, name, value;
    struct rn_params *client = &x->desk->params;
    char *decoded = x->desk->names; /* a target is no longer than a head */
    struct ration_error error;
    bool bad = false;

    *params = (struct rn_admin_params){0};
    rn_params_init(client);
    while (rn_http_query_next(&rest, &decoded, &name, &value, &bad)) {
        if (bad) {
            rn_exchange_error(
                x, 400, "bad_request",
                "the query string has a %% that two hexadecimal digits do not follow");
            return false;
        }
        if (rn_admin_params_read_one(params, client, name, value, members, &error) != 0) {
            rn_exchange_error(x, 400, "bad_request", "%s", error.text);
            return false;
        }
    }
    return true;
}

struct ration_request rn_admin_request(const struct rn_exchange *x)
{
    const struct rn_params *client = &x->desk->params;

    return (struct ration_request){
        .attributes = client->attributes, .count = client->attribute_count, .cost = client->cost};
}

/* --- rules that are named ------------------------------------------------------------------ */

struct search {
    struct rn_slice rule;
    bool found;
    char meant[RATION_NAME_SIZE]; /* empty: nothing is near */
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

static struct search search_rule(struct rn_exchange *x, struct rn_slice rule)
{
    struct search search = {.rule = rule};

    ration_rules_each(x->front->limiter, look, &search);
    return search;
}

void rn_admin_refuse_rule(struct rn_exchange *x, struct rn_slice rule)
{
    struct search search = search_rule(x, rule);

    if (search.meant[0])
        rn_exchange_error(x, 404, "no_rule", "there is no rule %s; did you mean %s?",
                          rn_excerpt(rule).text, rn_excerpt(rn_slice_of(search.meant)).text);
    else
        rn_exchange_error(x, 404, "no_rule", "there is no rule %s; GET /v1/rules lists them",
                          rn_excerpt(rule).text);
}

bool rn_admin_know_rule(struct rn_exchange *x, struct rn_slice rule)
{
    struct search search = search_rule(x, rule);

    if (!search.found)
        rn_admin_refuse_rule(x, rule);
    return search.found;
}

/* --- the port -------------------------------------------------------------------------------- */

static const struct rn_route routes[] = {
    {RN_GET, "/healthz", rn_admin_health},
    {RN_GET, "/readyz", rn_admin_ready},
    {RN_GET, "/metrics", rn_admin_metrics},
    {RN_GET, "/v1/status", rn_admin_status},
    {RN_GET, "/v1/rules", rn_admin_get_rules},
    {RN_PUT, "/v1/rules", rn_admin_put_rules},
    {RN_DELETE, "/v1/rules", rn_admin_delete_rules},
    {RN_POST, "/v1/rules/validate", rn_admin_validate},
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
    {RN_GET, "/v1/top", rn_admin_top},
    {RN_GET, "/v1/shadow", rn_admin_get_shadow},
    {RN_PUT, "/v1/shadow", rn_admin_put_shadow},
};

static const struct rn_site site = {.name = RN_FRONT_ADMIN,
                                    .routes = routes,
                                    .route_count = sizeof routes / sizeof *routes,
                                    .body_max = BODY_MAX,
                                    .admit = rn_admin_admit};

static size_t talk(struct rn_conversation *talker, char *data, size_t len)
{
    return rn_exchange_talk(talker, data, len, &site);
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    return rn_await_run(conn, NULL, talk, data, len);
}

static void limited(struct rn_conn *conn, enum rn_conn_limit why)
{
    rn_exchange_limited(conn, why, &site);
}

const struct rn_protocol rn_admin_protocol = {
    .name = "admin",
    .alpn = "http/1.1",
    .state_bytes = sizeof(struct rn_http_state),
    .idle_ns = INT64_C(75000000000),
    .message_ns = INT64_C(30000000000), /* rules may be long */
    .message_max = RN_HTTP_BYTES_MAX(BODY_MAX),
    .received = received,
    .limited = limited,
    .closed = rn_exchange_closed,
};
