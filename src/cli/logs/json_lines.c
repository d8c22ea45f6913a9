/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of JSON, each an object: nginx with escape=json, Caddy, Traefik, Envoy, and others with
 * --map. Members are found by their names; those of one line are mostly those of the line before,
 * in the same order, so a name is mostly compared with one other.
 */
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "cli/logs/format.h"
#include "wire/json.h"

#define NO_PARENT 255
#define PATH_BYTES 256

/* Where a walk over a line is. */
struct level {
    uint32_t path_len; /* of the names of all objects around, with a dot behind */
    uint8_t parent;    /* the number of the member that this object is */
};

struct walk {
    struct rn_logs_reader *r;
    struct level levels[RN_JSON_DEPTH + 1];
    unsigned depth;
    uint32_t number; /* of the next member */
    char path[PATH_BYTES];
};

static bool has_name(const struct rn_logs_name *n, const struct walk *w, uint32_t prefix,
                     struct rn_slice name)
{
    return n->name.len == prefix + name.len && strncasecmp(n->name.data, w->path, prefix) == 0 &&
           strncasecmp(n->name.data + prefix, name.data, name.len) == 0;
}

/* Which slot a member belongs to, if any. */
static const struct rn_logs_learnt *look_up(struct walk *w, struct rn_slice name,
                                            struct rn_logs_learnt *unlearnt)
{
    struct rn_logs_reader *r = w->r;
    const struct level *level = &w->levels[w->depth];
    struct rn_logs_learnt *l = w->number < RN_LOGS_LEARNT - 1 ? &r->learnt[w->number] : unlearnt;

    if (w->number < r->learnt_count && l->len == name.len && name.len <= sizeof l->name &&
        l->parent == level->parent && memcmp(l->name, name.data, name.len) == 0)
        return l;
    *l = (struct rn_logs_learnt){.slot = RN_LOGS_NO_SLOT, .parent = level->parent};
    for (uint32_t i = 0; i < r->name_count; i++)
        if (has_name(&r->names[i], w, level->path_len, name)) {
            l->slot = r->names[i].slot;
            l->rank = r->names[i].rank;
            break;
        }
    l->len = name.len <= sizeof l->name ? (uint8_t)name.len : 255; /* never found again */
    memcpy(l->name, name.data, l->len != 255 ? name.len : 0);
    if (l != unlearnt && w->number >= r->learnt_count)
        r->learnt_count = w->number + 1;
    return l;
}

static void enter(struct walk *w, struct rn_slice name, bool is_array)
{
    const struct level *outer = &w->levels[w->depth];
    struct level *inner = &w->levels[++w->depth];

    *inner = *outer;
    if (name.data == NULL)
        return; /* the outermost object, or one in an array */
    inner->parent = w->number < RN_LOGS_LEARNT ? (uint8_t)w->number : NO_PARENT - 1;
    if (outer->path_len + name.len + 1 > PATH_BYTES || is_array)
        return;
    memcpy(w->path + outer->path_len, name.data, name.len);
    w->path[outer->path_len + name.len] = '.';
    inner->path_len = outer->path_len + (uint32_t)name.len + 1;
}

/* Servers pass on what clients send: bytes that are not UTF-8 become `_`, since JSON has none. */
static void mend(char *at, const char *end)
{
    uint32_t point;

    while (at < end) {
        size_t len = (unsigned char)*at < 0x80 ? 1 : rn_utf8_decode(at, (size_t)(end - at), &point);

        if (len == 0)
            *at = '_';
        at += len != 0 ? len : 1;
    }
}

static bool has_high_bytes(struct rn_slice text)
{
    uint64_t bits = 0;
    size_t i = 0;

    for (; i + 8 <= text.len; i += 8)
        bits |= rn_slice_load8(text.data + i);
    for (; i < text.len; i++)
        bits |= (unsigned char)text.data[i];
    return (bits & UINT64_C(0x8080808080808080)) != 0;
}

static bool split_json(struct rn_logs_reader *r, struct rn_slice line)
{
    struct walk w = {.r = r};
    struct rn_logs_learnt unlearnt;
    char *text = (char *)(uintptr_t)line.data; /* ours to change: format.h */
    struct rn_json json;
    struct rn_json_token token;
    uint8_t array_slot = RN_LOGS_NO_SLOT, array_rank = 0;

    w.levels[0].parent = NO_PARENT;
    if (line.len == 0 || line.data[0] != '{')
        return false;
    for (uint32_t i = RN_LOGS_FIRST; i < r->slot_count; i++)
        r->values[i].data = NULL;
    memset(r->ranks, 255, r->slot_count);
    if (has_high_bytes(line))
        mend(text, text + line.len);
    rn_json_init(&json, text, line.len);
    while (rn_json_read(&json, &token) != RN_JSON_BAD) {
        uint8_t slot = array_slot, rank = array_rank;

        if (token.kind == RN_JSON_END) {
            array_slot = RN_LOGS_NO_SLOT;
            if (w.depth == 0)
                return true;
            w.depth--;
            continue;
        }
        if (token.name.data != NULL) {
            const struct rn_logs_learnt *l = look_up(&w, token.name, &unlearnt);

            slot = l->slot;
            rank = l->rank;
        }
        if (token.kind == RN_JSON_OBJECT || token.kind == RN_JSON_ARRAY) {
            enter(&w, token.name, token.kind == RN_JSON_ARRAY);
            array_slot = token.kind == RN_JSON_ARRAY ? slot : RN_LOGS_NO_SLOT;
            array_rank = rank;
        } else if (slot != RN_LOGS_NO_SLOT && rank < r->ranks[slot]) {
            rn_logs_keep(r, slot, token.text.data, token.text.data + token.text.len);
            if (token.kind == RN_JSON_NULL)
                r->values[slot].data = NULL;
            if (r->values[slot].data != NULL)
                r->ranks[slot] = rank;
        }
        w.number += token.name.data != NULL;
    }
    return false;
}

/* Whether a line has members that no other format has. */
static bool split_marked(struct rn_logs_reader *r, struct rn_slice line, const char *mark)
{
    return memmem(line.data, line.len, mark, strlen(mark)) != NULL && split_json(r, line);
}

static bool split_nginx(struct rn_logs_reader *r, struct rn_slice line)
{
    return split_marked(r, line, "\"remote_addr\"");
}

static const struct rn_logs_default nginx_defaults[] = {{"end", "msec"},
                                                        {"end", "time_iso8601"},
                                                        {"end", "time_local"},
                                                        {"end", "time"},
                                                        {"end", "timestamp"},
                                                        {"end", "@timestamp"},
                                                        {"request", "request"},
                                                        {"status", "status"},
                                                        {"ip", "remote_addr"},
                                                        {"user", "remote_user"},
                                                        {"method", "request_method"},
                                                        {"path", "request_uri"},
                                                        {"path", "uri"},
                                                        {"host", "host"},
                                                        {"host", "http_host"},
                                                        {"host", "server_name"},
                                                        {"duration", "request_time"},
                                                        {"header.referer", "referer"},
                                                        {"header.user-agent", "user_agent"},
                                                        {NULL, NULL}};

const struct rn_logs_format rn_logs_nginx_json = {
    .name = "nginx-json",
    .title = "nginx in JSON, members named as its variables",
    .times = "the time is when a request ended, less request_time if the log has it",
    .defaults = nginx_defaults,
    .header_prefix = "http_",
    .unit_ns = 1000000000,
    .split = split_nginx,
};

static bool split_caddy(struct rn_logs_reader *r, struct rn_slice line)
{
    return split_marked(r, line, "\"remote_ip\"");
}

static const struct rn_logs_default caddy_defaults[] = {{"end", "ts"},
                                                        {"status", "status"},
                                                        {"ip", "request.client_ip"},
                                                        {"ip", "request.remote_ip"},
                                                        {"user", "user_id"},
                                                        {"method", "request.method"},
                                                        {"path", "request.uri"},
                                                        {"host", "request.host"},
                                                        {"duration", "duration"},
                                                        {NULL, NULL}};

const struct rn_logs_format rn_logs_caddy = {
    .name = "caddy",
    .title = "Caddy in JSON",
    .times = "the time is when a request ended, less its duration",
    .defaults = caddy_defaults,
    .header_prefix = "request.headers.",
    .unit_ns = 1000000000,
    .split = split_caddy,
};

static bool split_traefik(struct rn_logs_reader *r, struct rn_slice line)
{
    return split_marked(r, line, "\"DownstreamStatus\"");
}

static const struct rn_logs_default traefik_defaults[] = {{"time", "StartUTC"},
                                                          {"time", "StartLocal"},
                                                          {"end", "time"},
                                                          {"status", "DownstreamStatus"},
                                                          {"ip", "ClientHost"},
                                                          {"user", "ClientUsername"},
                                                          {"method", "RequestMethod"},
                                                          {"path", "RequestPath"},
                                                          {"host", "RequestHost"},
                                                          {"duration", "Duration"},
                                                          {NULL, NULL}};

const struct rn_logs_format rn_logs_traefik = {
    .name = "traefik",
    .title = "Traefik in JSON",
    .times = "the time is when a request arrived (StartUTC)",
    .defaults = traefik_defaults,
    .header_prefix = "request_",
    .unit_ns = 1,
    .split = split_traefik,
};

static bool split_envoy(struct rn_logs_reader *r, struct rn_slice line)
{
    return split_marked(r, line, "\"response_code\"");
}

static const struct rn_logs_default envoy_defaults[] = {
    {"time", "start_time"},
    {"status", "response_code"},
    {"ip", "downstream_direct_remote_address"},
    {"ip", "downstream_remote_address"},
    {"method", "method"},
    {"path", "path"},
    {"path", "x_envoy_original_path"},
    {"host", "authority"},
    {"duration", "duration"},
    {"header.x-forwarded-for", "x_forwarded_for"},
    {"header.user-agent", "user_agent"},
    {NULL, NULL}};

const struct rn_logs_format rn_logs_envoy = {
    .name = "envoy",
    .title = "Envoy in JSON",
    .times = "the time is when a request arrived (start_time)",
    .defaults = envoy_defaults,
    .unit_ns = 1000000,
    .split = split_envoy,
};

static const struct rn_logs_default json_defaults[] = {{"time", "time"},
                                                       {"time", "timestamp"},
                                                       {"time", "ts"},
                                                       {"time", "@timestamp"},
                                                       {"status", "status"},
                                                       {"ip", "ip"},
                                                       {"ip", "client_ip"},
                                                       {"ip", "remote_addr"},
                                                       {"user", "user"},
                                                       {"user", "user_id"},
                                                       {"method", "method"},
                                                       {"path", "path"},
                                                       {"path", "uri"},
                                                       {"path", "url"},
                                                       {"host", "host"},
                                                       {"tier", "tier"},
                                                       {"api_key", "api_key"},
                                                       {"duration", "duration"},
                                                       {NULL, NULL}};

const struct rn_logs_format rn_logs_json = {
    .name = "json",
    .title = "JSON lines",
    .times = "the time is taken as when a request arrived; --map end=FIELD says when it ended",
    .defaults = json_defaults,
    .header_prefix = "header.",
    .unit_ns = 1000000000,
    .split = split_json,
};
