/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RESP port: commands are answered in order. Consecutive commands that bring their limit
 * are hashed, fetched and charged together, and all answers to what one read has brought leave
 * in one write.
 *
 * A decision that has to wait for a shared store is overtaken: another fiber goes on with
 * the rest of the conversation, up to the first command that is no such decision. That one is
 * a barrier: it begins when all before it have been answered. With many conversations at a
 * time that gains nothing (fiber_pool.h), and each waits where it is.
 *
 *   CHECK a   waits ──────┐ fiber 1
 *   CHECK b   waits ──────┤ fiber 2
 *   RESET                 └ waits ───┐ fiber 3
 *   CHECK c                          └ waits ── fiber 4
 */
#include "front/resp/resp_internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/hints.h"
#include "base/number.h"
#include "net/log.h"
#include "rules/report/report.h"

/* --- errors ------------------------------------------------------------------------------ */

void rn_front_resp_fail(struct rn_resp_context *c, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rn_front_resp_flush_batch(c); /* answers come in order */
    rn_front_count(&c->ws->counts->bad[RN_FRONT_RESP], 1);
    rn_resp_put_error(c->out, "ERR", rn_slice_of(text));
}

void rn_front_resp_fail_usage(struct rn_resp_context *c)
{
    const struct rn_resp_entry *entry = rn_front_resp_find(c->argv[0]);

    rn_front_resp_fail(c, "usage: %s %s", entry->name, entry->usage);
}

bool rn_front_resp_is(struct rn_slice word, const char *capitals)
{
    size_t len = strlen(capitals);

    if (word.len != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((word.data[i] >= 'a' && word.data[i] <= 'z' ? word.data[i] & ~0x20 : word.data[i]) !=
            capitals[i])
            return false;
    return true;
}

bool rn_front_resp_number(struct rn_resp_context *c, struct rn_slice text, const char *what,
                          int64_t *n)
{
    bool negative = text.len > 0 && text.data[0] == '-', whole = text.len > negative;
    bool large = text.len - negative > 18;
    uint64_t magnitude = 0;

    for (size_t i = negative; i < text.len && whole; i++) {
        unsigned digit = (unsigned char)text.data[i] - (unsigned)'0';

        whole = digit <= 9;
        magnitude = large ? 0 : magnitude * 10 + digit;
    }
    if (whole && !large) {
        *n = negative ? -(int64_t)magnitude : (int64_t)magnitude;
        return true;
    }
    if (whole)
        rn_front_resp_fail(c, "%s must have at most 18 digits, found %s", what,
                           rn_excerpt(text).text);
    else
        rn_front_resp_fail(c, "%s must be a whole number, found %s", what, rn_excerpt(text).text);
    return false;
}

bool rn_front_resp_cost(struct rn_resp_context *c, struct rn_slice text, const char *what,
                        uint64_t *n)
{
    struct rn_json_token number = {.kind = RN_JSON_NUMBER, .text = text};

    if (text.len > 0 && rn_json_u64(&number, n))
        return true;
    rn_front_resp_fail(c, "%s must be a whole number, 0 or more, found %s", what,
                       rn_excerpt(text).text);
    return false;
}

/* --- one command --------------------------------------------------------------------------- */

/* A token that was shown counts, even where none is needed. */
bool rn_front_resp_may_change(struct rn_resp_context *c)
{
    const struct rn_token *token = rn_token_of(&c->state->shown);
    char text[160];

    if (token ? token->scope == RN_SCOPE_ADMIN
              : c->front->trust_local && rn_conn_peer(c->conn)->local)
        return true;
    if (token) {
        snprintf(text, sizeof text, "this needs a token of scope admin; %s has scope %s",
                 token->name, rn_token_scope_name(token->scope));
        rn_resp_put_error(c->out, "NOPERM", rn_slice_of(text));
    } else {
        rn_resp_put_error(c->out, "NOAUTH", RN_SLICE("Authentication required."));
    }
    return false;
}

/* Most commands are the same as the one before. */
static const struct rn_resp_entry *find_entry(struct rn_front_workspace *ws, struct rn_slice name)
{
    if (name.len == ws->last_name_len && rn_slice_repeats(name.data, ws->last_name, name.len))
        return ws->last_entry;
    const struct rn_resp_entry *entry = rn_front_resp_find(name);

    if (entry && name.len <= sizeof ws->last_name) {
        memcpy(ws->last_name, name.data, name.len);
        ws->last_name_len = (uint8_t)name.len;
        ws->last_entry = entry;
    }
    return entry;
}

/* A line rather than an array. (Unquoted in place, a line may begin with a star, too, but
 * then its first word does, and that is no command.) */
static bool is_inline(const struct rn_resp_context *c)
{
    return c->data[0] != '*';
}

/* A web page, or a server that is made to send a request, puts commands into another protocol:
 * HTTP, or RTSP, SMTP, FTP, whose first line is no command either. Nothing after that line
 * is read. */
static void refuse_unknown(struct rn_resp_context *c)
{
    struct rn_slice first = c->argv[0], last = c->argv[c->argc - 1];

    /* The line "POST / HTTP/1.1", or a header such as "Host: a". */
    if (is_inline(c) && (rn_slice_starts_with(last, RN_SLICE("HTTP/")) ||
                         (first.len > 1 && first.data[first.len - 1] == ':'))) {
        rn_front_resp_fail(c, "Protocol error: this port speaks the Redis protocol, not HTTP");
        rn_front_count(&c->ws->counts->resp_http, 1);
        rn_log(RN_LOG_WARN, "resp.http",
               RN_LOG_TEXT("peer", rn_slice_of(rn_conn_peer(c->conn)->text)),
               RN_LOG_TEXT("notice", RN_SLICE("closed: an HTTP request, not a command")));
    } else {
        rn_front_resp_fail(c, "unknown command %s; RATION.HELP lists what there is",
                           rn_excerpt(first).text);
    }
    if (is_inline(c)) {
        c->ended = true;
        rn_conn_close(c->conn);
    }
}

static void answer(struct rn_resp_context *c, const struct rn_resp_entry *entry)
{
    if (!(entry && (entry->flags & RN_RESP_JOINS))) {
        rn_front_resp_flush_batch(c);
        rn_front_set_deadline(c->front, c->conn);
    }
    if (!entry)
        refuse_unknown(c);
    else if (c->argc < entry->argc_min || c->argc > entry->argc_max)
        rn_front_resp_fail_usage(c);
    else if (is_inline(c) && !(entry->flags & RN_RESP_INLINE))
        rn_front_resp_fail(
            c,
            "%s changes state, which no inline command may; send it as an array of bulk "
            "strings, as clients do",
            entry->name);
    else if (!(entry->flags & RN_RESP_NEEDS_ADMIN) || rn_front_resp_may_change(c))
        entry->answer(c);
}

/* --- the conversation ------------------------------------------------------------------------ */

/* Lets nothing of the rest begin before all commands so far have been answered. */
static void wait_for_others(struct rn_resp_context *c)
{
    c->state->queue.barrier = c->state->queue.more = true;
    c->ended = true;
}

/* Whether a command may begin that might have to wait. One that may be overtaken is copied
 * to the workspace: the input goes away then. */
RN_ASIDE static bool may_begin(struct rn_resp_context *c, const struct rn_resp_entry *entry)
{
    struct rn_conversation *conversation = c->conversation;
    struct rn_resp_command *command = &c->ws->command;
    struct rn_buf *copy = &c->ws->body;

    if (entry && (entry->flags & RN_RESP_DECIDES)) {
        rn_front_resp_flush_batch(c);
        if (rn_await_may_split(conversation)) {
            c->ended =
                conversation
                    ->has_waited; /* a new fiber begins it, which need not wait for the rest */
            rn_buf_clear(copy);
            if (!c->ended)
                rn_buf_put(copy, c->data, command->bytes);
            if (!c->ended && !copy->failed && rn_reply_queue_have_room(&c->state->queue)) {
                for (uint32_t i = 0; i < command->argc; i++)
                    command->argv[i].data = copy->data + (command->argv[i].data - c->data);
                conversation->rest = c->data + command->bytes;
            }
        }
    }
    if (conversation->behind && !conversation->rest)
        wait_for_others(c);
    return !c->ended;
}

/* Reads and answers one command. Returns its length; 0: it is not complete, or nothing is
 * answered any more. */
static size_t answer_next(struct rn_resp_context *c, char *data, size_t len, uint64_t *count)
{
    struct rn_conversation *conversation = c->conversation;
    struct rn_resp_command *command = &c->ws->command;
    const struct rn_resp_entry *entry;
    const char *error;

    switch (rn_resp_parse(data, len, command, &error)) {
    case RN_PARSE_MORE:
        if (conversation->behind && len >= RN_RESP_COMMAND_MAX)
            wait_for_others(c); /* then net refuses it */
        return 0;
    case RN_PARSE_BAD:
        if (conversation->behind) {
            wait_for_others(c);
            return 0;
        }
        rn_front_resp_fail(c, "Protocol error: %s", error);
        c->ended = true;
        rn_conn_close(c->conn);
        return 0; /* the rest is unread: net lets the peer finish and read why */
    case RN_PARSE_DONE:
        break;
    }
    if (command->argc == 0)
        return command->bytes;
    c->data = data;
    c->argc = command->argc;
    c->argv = command->argv;
    entry = find_entry(c->ws, c->argv[0]);
    if (conversation->on_fiber && !may_begin(c, entry))
        return 0;
    answer(c, entry);
    conversation->rest = NULL;
    c->ended |= conversation->reply != NULL;
    ++*count;
    return command->bytes;
}

static size_t run(struct rn_conversation *conversation, char *data, size_t len)
{
    struct rn_front_counts *counts = conversation->ws->counts;
    struct rn_resp_context c = {.front = rn_conn_context(conversation->conn),
                                .conversation = conversation,
                                .ws = conversation->ws,
                                .conn = conversation->conn,
                                .state = rn_conn_state(conversation->conn),
                                .out = conversation->out};
    int64_t began_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    size_t done = 0, bytes;
    uint64_t count = 0;

    if (conversation->behind)
        c.ws->template.before_len =
            0; /* no templates: a command that joins must wait for those before it */
    /* The connection had at most RN_CONN_FULL_BYTES of unsent output, too, when it was read. */
    while (done < len && c.state->queue.delayed == 0 && !c.ended &&
           c.out->len <= RN_CONN_FULL_BYTES) {
        bytes = rn_front_resp_join_again(&c, data + done, len - done, &count);
        if (bytes == 0 && (bytes = answer_next(&c, data + done, len - done, &count)) == 0)
            break;
        done += bytes;
    }
    if (conversation->behind && c.out->len > RN_CONN_FULL_BYTES)
        wait_for_others(&c);
    rn_front_resp_flush_batch(&c);
    conversation->paused = c.state->queue.delayed > 0;
    rn_front_count(&counts->requests[RN_FRONT_RESP], count);
    rn_metrics_histogram_add_many(&counts->latency[RN_FRONT_RESP],
                                  rn_clock_read_ns(CLOCK_MONOTONIC) - began_ns, count);
    return done;
}

RN_ASIDE static size_t run_on_fibers(struct rn_conn *conn, char *data, size_t len)
{
    struct rn_resp_state *state = rn_conn_state(conn);
    struct rn_reply_queue *queue = &state->queue;
    size_t used = 0, now;

    do {
        if (queue->first && rn_reply_queue_pause(queue))
            break;
        queue->barrier = queue->more = false;
        now = rn_await_run(conn, queue, run, data + used, len - used);
        if (now == RN_CONN_PENDING)
            return now;
        used += now;
    } while (queue->more && used < len);
    return used;
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    const struct rn_front *front = rn_conn_context(conn);

    if (front->patience_ns > 0)
        return run_on_fibers(conn, data, len);
    return run(&(struct rn_conversation){.conn = conn,
                                         .ws = &rn_front_loop(front, conn)->ws,
                                         .out = rn_conn_out(conn)},
               data, len);
}

static void opened(struct rn_conn *conn)
{
    struct rn_resp_state *state = rn_conn_state(conn);

    rn_reply_queue_init(&state->queue, conn);
    state->version = 2;
}

static void before_sleep(struct rn_conn *conn)
{
    struct rn_resp_state *state = rn_conn_state(conn);

    rn_reply_queue_flush(&state->queue);
}

static bool drains(struct rn_conn *conn)
{
    const struct rn_resp_state *state = rn_conn_state(conn);

    return !state->queue.first && (!state->line || state->line->count == 0);
}

static void closing(struct rn_conn *conn, enum rn_conn_close_reason why)
{
    before_sleep(conn); /* answers come in order */
    if (why == RN_CONN_TOO_LONG)
        rn_resp_put_error(rn_conn_out(conn), "ERR", RN_SLICE("Protocol error: too big a command"));
    else if (why == RN_CONN_TOO_SLOW)
        rn_resp_put_error(rn_conn_out(conn), "ERR",
                          RN_SLICE("Protocol error: a command took too long to arrive"));
    else if (why == RN_CONN_SWAMPED)
        rn_resp_put_error(rn_conn_out(conn), "ERR",
                          RN_SLICE("too many commands are arriving that are not complete; send it "
                                   "again"));
}

static void closed(struct rn_conn *conn)
{
    struct rn_resp_state *state = rn_conn_state(conn);

    rn_reply_queue_drop(&state->queue);
    rn_front_resp_line_drop(state);
}

/* No idle_ns: clients keep connections open for days and send nothing. */
const struct rn_protocol rn_resp_protocol = {
    .name = "resp",
    .state_bytes = sizeof(struct rn_resp_state),
    .message_ns = INT64_C(5000000000),
    .message_max = RN_RESP_COMMAND_MAX,
    .opened = opened,
    .received = received,
    .closing = closing,
    .drains = drains,
    .quiet = drains,
    .before_sleep = before_sleep,
    .closed = closed,
};
