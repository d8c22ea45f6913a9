/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that clients of Redis send before any others, and expect to be answered.
 */
#include "base/clock.h"
#include "front/resp/resp_internal.h"
#include "net/log.h"
#include "rules/report/report.h"

/* For clients that decide by version which commands to send. */
#define REDIS_VERSION "7.0.0"

void rn_front_resp_ping(struct rn_resp_context *c)
{
    if (c->argc == 2)
        rn_resp_put_bulk(c->out, c->argv[1]);
    else
        rn_resp_put_simple(c->out, "PONG");
}

void rn_front_resp_echo(struct rn_resp_context *c)
{
    rn_resp_put_bulk(c->out, c->argv[1]);
}

/* --- tokens ---------------------------------------------------------------------------- */

/* A client may go on without a token; only a wrong one is an error. */
static bool authenticate(struct rn_resp_context *c, struct rn_slice name, struct rn_slice token)
{
    if (c->front->guard.token_count == 0) {
        rn_front_resp_fail(c, "no token is set, so AUTH has nothing to compare; start rationd with "
                              "admin_token or tokens in its server section");
        return false;
    }
    enum rn_token_answer answer =
        rn_token_try(&c->front->guard, rn_conn_peer(c->conn), &c->state->shown, name, token,
                     rn_clock_read_ns(CLOCK_MONOTONIC));

    if (answer == RN_TOKEN_RIGHT)
        return true;
    rn_front_count(&c->ws->counts->wrong_tokens[RN_FRONT_RESP], 1);
    rn_log(RN_LOG_WARN, "auth.wrong", RN_LOG_TEXT("peer", rn_slice_of(rn_conn_peer(c->conn)->text)),
           RN_LOG_TEXT("listener", RN_SLICE("resp")));
    if (answer == RN_TOKEN_WRONG)
        rn_resp_put_error(c->out, "WRONGPASS", RN_SLICE("invalid user and token pair"));
    else
        rn_front_resp_fail(c, "too many wrong tokens from this address; try again in a second");
    return false;
}

void rn_front_resp_auth(struct rn_resp_context *c)
{
    struct rn_slice name = c->argc == 3 ? c->argv[1] : (struct rn_slice){0};

    if (authenticate(c, name, c->argv[c->argc - 1]))
        rn_resp_put_simple(c->out, "OK");
}

static void put_pair(struct rn_buf *out, const char *name, const char *value)
{
    rn_resp_put_bulk(out, rn_slice_of(name));
    rn_resp_put_bulk(out, rn_slice_of(value));
}

/* The options of HELLO, from argv[2] on. False after answering. */
static bool read_hello(struct rn_resp_context *c)
{
    for (uint32_t i = 2; i < c->argc;) {
        if (rn_front_resp_is(c->argv[i], "AUTH") && i + 2 < c->argc) {
            if (!authenticate(c, c->argv[i + 1], c->argv[i + 2]))
                return false;
            i += 3;
        } else if (rn_front_resp_is(c->argv[i], "SETNAME") && i + 1 < c->argc) {
            i += 2;
        } else {
            rn_front_resp_fail_usage(c);
            return false;
        }
    }
    return true;
}

void rn_front_resp_hello(struct rn_resp_context *c)
{
    struct rn_buf *out = c->out;

    if (c->argc > 1) {
        if (!rn_slice_is(c->argv[1], "2") && !rn_slice_is(c->argv[1], "3")) {
            rn_resp_put_error(c->out, "NOPROTO", RN_SLICE("unsupported protocol version"));
            return;
        }
        if (!read_hello(c))
            return;
        c->state->version = (uint8_t)(c->argv[1].data[0] - '0');
    }
    rn_resp_put_map(out, c->state->version, 7);
    put_pair(out, "server", "ration");
    put_pair(out, "version", ration_version());
    rn_resp_put_bulk(out, RN_SLICE("proto"));
    rn_resp_put_integer(out, c->state->version);
    rn_resp_put_bulk(out, RN_SLICE("id"));
    rn_resp_put_integer(out, rn_conn_peer(c->conn)->port);
    put_pair(out, "mode", "standalone");
    put_pair(out, "role", "master");
    rn_resp_put_bulk(out, RN_SLICE("modules"));
    rn_resp_put_array(out, 0);
}

void rn_front_resp_select(struct rn_resp_context *c)
{
    if (rn_slice_is(c->argv[1], "0"))
        rn_resp_put_simple(c->out, "OK");
    else
        rn_front_resp_fail(c, "DB index is out of range: there is only 0");
}

void rn_front_resp_quit(struct rn_resp_context *c)
{
    rn_resp_put_simple(c->out, "OK");
    c->ended = true;
    rn_conn_close(c->conn);
}

void rn_front_resp_reset(struct rn_resp_context *c)
{
    c->state->version = 2;
    c->state->shown = (struct rn_token_shown){0};
    rn_resp_put_simple(c->out, "RESET");
}

void rn_front_resp_client(struct rn_resp_context *c)
{
    static const char *const accepted[] = {"SETNAME", "SETINFO", "NO-EVICT", "NO-TOUCH"};
    struct rn_slice what = c->argv[1];

    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        if (rn_front_resp_is(what, accepted[i])) {
            rn_resp_put_simple(c->out, "OK");
            return;
        }
    }
    if (rn_front_resp_is(what, "ID"))
        rn_resp_put_integer(c->out, rn_conn_peer(c->conn)->port);
    else if (rn_front_resp_is(what, "GETNAME"))
        rn_resp_put_null(c->out, c->state->version);
    else if (rn_front_resp_is(what, "INFO") || rn_front_resp_is(what, "LIST"))
        rn_resp_put_bulk(c->out, rn_slice_of(rn_conn_peer(c->conn)->text));
    else
        rn_front_resp_fail(
            c,
            "unknown subcommand %s; known: ID, INFO, LIST, GETNAME, SETNAME, SETINFO, "
            "NO-EVICT, NO-TOUCH",
            rn_excerpt(what).text);
}

/* --- the server ----------------------------------------------------------------------------- */

void rn_front_resp_info(struct rn_resp_context *c)
{
    struct rn_buf *text = &c->ws->scratch;
    struct ration_totals totals;
    int64_t up_ns = rn_clock_read_ns(CLOCK_REALTIME) - c->front->started_ns;

    ration_totals(c->front->limiter, &totals);
    rn_buf_clear(text);
    rn_buf_putf(text,
                "# Server\r\nredis_version:" REDIS_VERSION "\r\nration_version:%s\r\n"
                "redis_mode:standalone\r\nuptime_in_seconds:%lld\r\n"
                "# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n",
                ration_version(), (long long)(up_ns / RN_SECOND_NS));
    rn_buf_putf(text, "# Stats\r\nallowed:%llu\r\nrefused:%llu\r\nerrors:%llu\r\n",
                (unsigned long long)totals.allowed, (unsigned long long)totals.refused,
                (unsigned long long)totals.errors);
    rn_resp_put_bulk(c->out, rn_buf_slice(text));
}

static struct rn_slice lower_name(struct rn_resp_context *c, const struct rn_resp_entry *e)
{
    rn_buf_clear(&c->ws->scratch);
    for (const char *p = e->name; *p; p++)
        rn_buf_put_char(&c->ws->scratch, *p >= 'A' && *p <= 'Z' ? (char)(*p | 0x20) : *p);
    return rn_buf_slice(&c->ws->scratch);
}

/* name, arity, flags, first key, last key, step. */
static void put_entry(struct rn_resp_context *c, const struct rn_resp_entry *e)
{
    bool fixed = e->argc_min == e->argc_max, key = (e->flags & RN_RESP_JOINS) != 0;

    rn_resp_put_array(c->out, 6);
    rn_resp_put_bulk(c->out, lower_name(c, e));
    rn_resp_put_integer(c->out, fixed ? (int64_t)e->argc_min : -(int64_t)e->argc_min);
    rn_resp_put_array(c->out, 1);
    rn_resp_put_simple(c->out, key ? "write" : "fast");
    for (int i = 0; i < 3; i++)
        rn_resp_put_integer(c->out, key);
}

static void put_docs(struct rn_resp_context *c, const struct rn_resp_entry *e)
{
    rn_resp_put_bulk(c->out, lower_name(c, e));
    rn_resp_put_map(c->out, c->state->version, 2);
    put_pair(c->out, "summary", e->summary);
    put_pair(c->out, "group", "generic");
}

/* COMMAND INFO and DOCS: for the named commands, or for all. */
static void put_named(struct rn_resp_context *c, bool docs)
{
    const struct rn_resp_entry *e;
    size_t known = c->argc == 2 ? rn_resp_entry_count : 0;

    for (uint32_t i = 2; i < c->argc; i++)
        known += rn_front_resp_find(c->argv[i]) != NULL;
    if (docs)
        rn_resp_put_map(c->out, c->state->version, known);
    else
        rn_resp_put_array(c->out, c->argc == 2 ? known : c->argc - 2);
    for (size_t i = 0; c->argc == 2 && i < rn_resp_entry_count; i++)
        docs ? put_docs(c, &rn_resp_entries[i]) : put_entry(c, &rn_resp_entries[i]);
    for (uint32_t i = 2; i < c->argc; i++) {
        if ((e = rn_front_resp_find(c->argv[i])))
            docs ? put_docs(c, e) : put_entry(c, e);
        else if (!docs)
            rn_resp_put_null(c->out, c->state->version);
    }
}

void rn_front_resp_command(struct rn_resp_context *c)
{
    if (c->argc == 1) {
        rn_resp_put_array(c->out, rn_resp_entry_count);
        for (size_t i = 0; i < rn_resp_entry_count; i++)
            put_entry(c, &rn_resp_entries[i]);
    } else if (rn_front_resp_is(c->argv[1], "COUNT")) {
        rn_resp_put_integer(c->out, (int64_t)rn_resp_entry_count);
    } else if (rn_front_resp_is(c->argv[1], "LIST")) {
        rn_resp_put_array(c->out, rn_resp_entry_count);
        for (size_t i = 0; i < rn_resp_entry_count; i++)
            rn_resp_put_bulk(c->out, lower_name(c, &rn_resp_entries[i]));
    } else if (rn_front_resp_is(c->argv[1], "INFO") || rn_front_resp_is(c->argv[1], "DOCS")) {
        put_named(c, rn_front_resp_is(c->argv[1], "DOCS"));
    } else {
        rn_front_resp_fail(c, "unknown subcommand %s; known: COUNT, LIST, INFO, DOCS",
                           rn_excerpt(c->argv[1]).text);
    }
}

/* redis-benchmark asks for these two. */
void rn_front_resp_config(struct rn_resp_context *c)
{
    bool save = false, appendonly = false;

    if (!rn_front_resp_is(c->argv[1], "GET")) {
        rn_front_resp_fail(c, "CONFIG only answers GET; settings are in the rules file");
        return;
    }
    for (uint32_t i = 2; i < c->argc; i++) {
        save |= rn_front_resp_is(c->argv[i], "SAVE");
        appendonly |= rn_front_resp_is(c->argv[i], "APPENDONLY");
    }
    rn_resp_put_map(c->out, c->state->version, (size_t)save + appendonly);
    if (save)
        put_pair(c->out, "save", "");
    if (appendonly)
        put_pair(c->out, "appendonly", "no");
}
