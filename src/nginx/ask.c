/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking rationd about a request: one command, one reply, and a deadline that starts when
 * the handler first sees the request. Without a decision by then, or without a connection,
 * the rules of this nginx decide by on_store_failure. The reply may also be that the request
 * stands in line (rationd_line.c).
 */
#include "nginx/link.h"
#include "nginx/module.h"
#include "wire/format.h"
#include "wire/parsed_decision.h"
#include "wire/resp.h"

#define WORDS_BESIDE 5 /* RATION.CHECK LEASE FULL LINE id, or WAIT return in place of the last */

/* LEASE: take places with the same command. LINE: tell later, if the request must wait in line;
 * nginx itself delays the request, as with WAIT return. */
static void write_command(struct rn_buf *out, const struct ration_request *request,
                          const struct rn_ngx_link *link)
{
    char id[RN_FORMAT_U64_MAX];

    rn_buf_clear(out);
    rn_resp_put_array(out, WORDS_BESIDE + 2 * request->count + request->shadow);
    rn_resp_put_bulk(out, RN_SLICE("RATION.CHECK"));
    for (size_t i = 0; i < request->count; i++) {
        const struct ration_attribute *a = &request->attributes[i];

        rn_resp_put_bulk(out, (struct rn_slice){a->name, a->name_len});
        rn_resp_put_bulk(out, (struct rn_slice){a->value, a->value_len});
    }
    rn_buf_put_literal(out, "$5\r\nLEASE\r\n$4\r\nFULL\r\n");
    if (link->without_lines) {
        rn_buf_put_literal(out, "$4\r\nWAIT\r\n$6\r\nreturn\r\n");
    } else {
        rn_buf_put_literal(out, "$4\r\nLINE\r\n");
        rn_resp_put_bulk(out, (struct rn_slice){id, (size_t)(rn_format_u64(id, link->next) - id)});
    }
    if (request->shadow)
        rn_resp_put_bulk(out, RN_SLICE("SHADOW"));
}

/* Whether rationd accepts the command: nginx takes more and longer headers. */
static bool is_acceptable(const struct ration_request *request, const struct rn_buf *command)
{
    if (request->count > RN_RESP_ATTRIBUTES_MAX || command->len > RN_RESP_COMMAND_MAX)
        return false;
    for (size_t i = 0; i < request->count; i++)
        if (request->attributes[i].name_len > RN_RESP_BULK_MAX ||
            request->attributes[i].value_len > RN_RESP_BULK_MAX)
            return false;
    return true;
}

/* --- replies ------------------------------------------------------------------------------ */

void rn_ngx_ask_done(struct rn_ngx_context *context, enum rn_ngx_question question)
{
    rn_ngx_context_stop(context);
    context->question = question;
    rn_ngx_resume(context);
}

enum reply_kind { NO_REPLY, ERROR, DECISION, GARBAGE };

/* Logs the first error of a connection. */
static enum reply_kind read_reply(struct rn_ngx_link *link, struct rn_slice reply,
                                  struct rn_parsed_decision *parsed)
{
    if (!reply.data)
        return NO_REPLY;
    if (reply.data[0] != '-')
        return rn_parsed_decision_read(reply, parsed) ? DECISION : GARBAGE;
    if (!link->logged_error) {
        ngx_log_error(NGX_LOG_WARN, link->log, 0,
                      "ration: rationd at \"%V\" could not decide: %*s; then rules decide by "
                      "on_store_failure",
                      &link->server->name, reply.len - 3, reply.data + 1);
    }
    link->logged_error = true;
    return ERROR;
}

bool rn_ngx_ask_answer(struct rn_ngx_context *context, struct rn_slice reply)
{
    struct rn_ngx_link *link = context->link;
    struct rn_parsed_decision parsed = {.outcome = &link->worker->outcome};
    enum reply_kind kind = read_reply(link, reply, &parsed);

    if (kind == DECISION && rn_ngx_lease_hold(context, link, &parsed) == NGX_OK &&
        rn_ngx_ticket_keep(context, link, parsed.charge, &context->charge) == NGX_OK &&
        rn_ngx_ticket_keep(context, link, parsed.turn, &context->turn) == NGX_OK) {
        rn_ngx_link_kept(link);
        rn_ngx_ask_done(context, RN_NGX_ANSWERED);
    } else {
        rn_ngx_ask_done(context, RN_NGX_UNANSWERED);
    }
    return kind != GARBAGE;
}

static bool on_reply(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    struct rn_ngx_context *context = arg;
    uint64_t id, max_ms;

    if (!reply.data || !rn_parsed_decision_read_wait(reply, &id, &max_ms))
        return rn_ngx_ask_answer(context, reply);
    rn_ngx_link_kept(link);
    if (rn_ngx_rationd_line_begin(context, id, max_ms) != NGX_OK) {
        rn_ngx_rationd_line_leave(link, id);
        rn_ngx_ask_done(context, RN_NGX_UNANSWERED);
    }
    return true;
}

/* After the deadline the rules of this nginx have decided, and both have charged: only places
 * are given back. If the client has gone, its turn in a queue is, too. */
static bool discard(struct rn_ngx_link *link, struct rn_slice reply, bool client_gone)
{
    struct rn_parsed_decision parsed = {.outcome = &link->worker->outcome};
    enum reply_kind kind;
    uint64_t id, max_ms;

    if (reply.data && rn_parsed_decision_read_wait(reply, &id, &max_ms)) {
        rn_ngx_rationd_line_leave(link, id);
        return true;
    }
    kind = read_reply(link, reply, &parsed);
    if (kind == DECISION && parsed.lease.data)
        rn_ngx_lease_release(link, parsed.lease);
    if (kind == DECISION && parsed.turn.data && client_gone)
        rn_ngx_delay_leave(link, parsed.turn);
    return kind != GARBAGE;
}

static bool on_late_reply(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    (void)arg;
    return discard(link, reply, false);
}

static bool on_unwanted_reply(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    (void)arg;
    return discard(link, reply, true);
}

bool rn_ngx_ask_discard(struct rn_ngx_link *link, struct rn_slice reply)
{
    return discard(link, reply, true);
}

static void on_deadline(ngx_event_t *event)
{
    struct rn_ngx_context *context = event->data;
    struct rn_ngx_link *link = context->link;

    rn_ngx_link_forget(link, context->number, on_late_reply);
    rn_ngx_ask_done(context, RN_NGX_UNANSWERED);
    rn_ngx_link_missed(link);
}

/* --- the question --------------------------------------------------------------------------- */

static ngx_int_t send_command(struct rn_ngx_context *context, struct rn_ngx_link *link,
                              ngx_msec_t timeout_ms)
{
    uint64_t number =
        rn_ngx_link_send(link, rn_buf_slice(&context->worker->command), on_reply, context);
    ngx_int_t code;

    if (number == 0)
        return NGX_DECLINED;
    code = rn_ngx_pause(context);
    if (code != NGX_AGAIN) {
        rn_ngx_link_forget(link, number, on_unwanted_reply);
        return code;
    }
    context->link = link;
    context->number = number;
    context->question = RN_NGX_ASKED;
    rn_ngx_context_time(context, on_deadline);
    ngx_add_timer(&context->timer, timeout_ms);
    return NGX_AGAIN;
}

ngx_int_t rn_ngx_ask(struct rn_ngx_context *context)
{
    const struct rn_ngx_location *location = rn_ngx_location_of(context->request);
    struct rn_ngx_link *link = rn_ngx_server_pick(location->server);
    struct rn_buf *command = &context->worker->command;
    struct ration_request request;

    context->question = RN_NGX_UNANSWERED;
    if (!link ||
        rn_ngx_attributes_read(context->request, context->worker, true, &request) != NGX_OK)
        return NGX_DECLINED;
    write_command(command, &request, link);
    if (command->failed) {
        rn_buf_done(command);
        return NGX_DECLINED;
    }
    if (is_acceptable(&request, command))
        return send_command(context, link, location->timeout_ms);
    if (request.shadow)
        return NGX_DECLINED;
    ngx_log_error(NGX_LOG_INFO, context->request->connection->log, 0,
                  "ration: more headers than rationd takes");
    return NGX_HTTP_REQUEST_HEADER_TOO_LARGE;
}

void rn_ngx_ask_end(struct rn_ngx_context *context)
{
    rn_ngx_link_forget(context->link, context->number, on_unwanted_reply);
}
