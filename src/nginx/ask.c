/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that rationd decides about: one command, one reply, a deadline that counts
 * from the moment the handler saw the request. Without a decision by then, or if there
 * is nobody to ask, the rules of this nginx say what holds.
 */
#include "nginx/link.h"
#include "nginx/module.h"
#include "wire/resp.h"
#include "wire/told.h"

#define WORDS_BESIDE 5 /* RATION.CHECK WAIT return LEASE FULL */

static void put_word(struct rn_buf *out, const char *text, size_t len)
{
    rn_resp_put_bulk(out, (struct rn_slice){text, len});
}

/* Delays are told, never held; places are taken in the same trip. */
static void write_command(struct rn_buf *out, const struct ration_request *request)
{
    rn_buf_clear(out);
    rn_resp_put_array(out, WORDS_BESIDE + 2 * request->count + request->shadow);
    rn_resp_put_bulk(out, RN_SLICE("RATION.CHECK"));
    for (size_t i = 0; i < request->count; i++) {
        const struct ration_attribute *a = &request->attributes[i];

        put_word(out, a->name, a->name_len);
        put_word(out, a->value, a->value_len);
    }
    rn_buf_put_literal(out, "$4\r\nWAIT\r\n$6\r\nreturn\r\n$5\r\nLEASE\r\n$4\r\nFULL\r\n");
    if (request->shadow)
        rn_resp_put_bulk(out, RN_SLICE("SHADOW"));
}

/* Whether rationd would read it: a client may send as many headers as nginx takes. */
static bool can_be_said(const struct ration_request *request, const struct rn_buf *command)
{
    if (request->count > RN_RESP_ATTRIBUTES_MAX || command->len > RN_RESP_COMMAND_MAX)
        return false;
    for (size_t i = 0; i < request->count; i++)
        if (request->attributes[i].name_len > RN_RESP_BULK_MAX ||
            request->attributes[i].value_len > RN_RESP_BULK_MAX)
            return false;
    return true;
}

/* --- the end of it ------------------------------------------------------------------------ */

static void conclude(struct rn_ngx_context *context, enum rn_ngx_question question)
{
    rn_ngx_context_stop(context);
    context->question = question;
    rn_ngx_resume(context);
}

/* An error is an answer, but no decision. */
static void note_objection(struct rn_ngx_link *link, struct rn_slice reply)
{
    if (!link->told_objection) {
        ngx_log_error(NGX_LOG_WARN, link->log, 0,
                      "ration: rationd at \"%V\" could not decide: %*s; then rules decide by "
                      "on_store_failure",
                      &link->server->name, reply.len - 3, reply.data + 1);
    }
    link->told_objection = true;
}

static bool is_objection(struct rn_slice reply)
{
    return reply.data && reply.data[0] == '-';
}

/* Whether there is a decision, and which. */
static bool read_decision(struct rn_ngx_link *link, struct rn_slice reply, struct rn_told *told)
{
    if (is_objection(reply))
        note_objection(link, reply);
    return reply.data && !is_objection(reply) && rn_told_read(reply, told);
}

/* Whether there was no reply, or one that can be. */
static bool makes_sense(struct rn_slice reply, bool decided)
{
    return decided || is_objection(reply) || !reply.data;
}

static bool hear(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    struct rn_ngx_context *context = arg;
    struct rn_told told = {.outcome = &link->worker->outcome};
    bool decided = read_decision(link, reply, &told);

    if (decided && rn_ngx_lease_hold(context, link, &told) == NGX_OK &&
        rn_ngx_ticket_keep(context, link, told.charge, &context->charge) == NGX_OK &&
        rn_ngx_ticket_keep(context, link, told.turn, &context->turn) == NGX_OK) {
        rn_ngx_link_kept(link);
        conclude(context, RN_NGX_ANSWERED);
    } else {
        conclude(context, RN_NGX_UNANSWERED);
    }
    return makes_sense(reply, decided);
}

/* Nobody waits for what was decided: its places come free. Who has left a queue gives
 * back its turn, too. */
static bool hear_for_nobody(struct rn_ngx_link *link, struct rn_slice reply, bool left)
{
    struct rn_told told = {.outcome = &link->worker->outcome};
    bool decided = read_decision(link, reply, &told);

    if (decided && told.lease.data)
        rn_ngx_lease_release(link, told.lease);
    if (decided && told.turn.data && left)
        rn_ngx_delay_leave(link, told.turn);
    return makes_sense(reply, decided);
}

/* The rules of this nginx have decided: on doubt, both have charged. */
static bool hear_late(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    (void)arg;
    return hear_for_nobody(link, reply, false);
}

/* The client has gone away. */
static bool hear_gone(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    (void)arg;
    return hear_for_nobody(link, reply, true);
}

static void miss(ngx_event_t *event)
{
    struct rn_ngx_context *context = event->data;
    struct rn_ngx_link *link = context->link;

    rn_ngx_link_forget(link, context->number, hear_late);
    conclude(context, RN_NGX_UNANSWERED);
    rn_ngx_link_missed(link);
}

/* --- the beginning ------------------------------------------------------------------------- */

static void set_deadline(struct rn_ngx_context *context, ngx_msec_t timeout_ms)
{
    rn_ngx_context_time(context, miss);
    ngx_add_timer(&context->timer, timeout_ms);
}

static ngx_int_t send_command(struct rn_ngx_context *context, struct rn_ngx_link *link,
                              ngx_msec_t timeout_ms)
{
    uint64_t number =
        rn_ngx_link_send(link, rn_buf_slice(&context->worker->command), hear, context);
    ngx_int_t code;

    if (number == 0)
        return NGX_DECLINED;
    code = rn_ngx_pause(context);
    if (code != NGX_AGAIN) {
        rn_ngx_link_forget(link, number, hear_gone);
        return code;
    }
    context->link = link;
    context->number = number;
    context->question = RN_NGX_ASKED;
    set_deadline(context, timeout_ms);
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
    write_command(command, &request);
    if (command->failed) {
        rn_buf_done(command);
        return NGX_DECLINED;
    }
    if (can_be_said(&request, command))
        return send_command(context, link, location->timeout_ms);
    if (request.shadow)
        return NGX_DECLINED;
    ngx_log_error(NGX_LOG_INFO, context->request->connection->log, 0,
                  "ration: more headers than rationd takes");
    return NGX_HTTP_REQUEST_HEADER_TOO_LARGE;
}

void rn_ngx_ask_end(struct rn_ngx_context *context)
{
    rn_ngx_link_forget(context->link, context->number, hear_gone);
}
