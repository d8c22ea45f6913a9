/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the parameters of a command to its reply: at once, after a delay, or when its turn in line
 * has come. While a reply is held nothing that follows is answered. A gateway, which sends the
 * requests of many clients over one connection, gives an id (LINE) instead: it is told at once that
 * the request waits, and the decision is pushed.
 *
 *   RATION.CHECK user ann FULL LINE 7      *3 WAIT 7 5000
 *   RATION.CHECK user bob FULL LINE 8      the decision
 *                                          >3 ration.turn 7 the decision
 */
#include "front/resp/resp_internal.h"

#include <stdlib.h>

#include "base/error.h"
#include "rules/report/report.h"

#define ID_MAX (INT64_C(1) << 53) /* numbers of JSON and of Lua hold it */

/* --- delays --------------------------------------------------------------------------------- */

static void write_delayed(struct rn_delayed_reply *delayed, const struct rn_decision *decision)
{
    struct rn_queued_reply *reply =
        (struct rn_queued_reply *)(void *)delayed->slot; /* first member */

    rn_front_resp_put_decision(&reply->out, &delayed->format, decision, delayed->delay_ns);
    reply->queue->delayed--;
    rn_reply_queue_complete(reply);
    rn_reply_queue_flush(reply->queue);
}

/* The place of the reply to a command among those of the connection. NULL: out of memory. */
static struct rn_queued_reply *queue_reply(struct rn_resp_context *c)
{
    struct rn_queued_reply *reply = c->conversation->reply;

    return reply ? reply : rn_reply_queue_add(&c->state->queue, c->out);
}

/* False: out of memory; answer at once. */
static bool delay_reply(struct rn_resp_context *c, int64_t delay_ns,
                        const struct rn_decision_format *format)
{
    struct rn_queued_reply *reply = queue_reply(c);

    if (!reply)
        return false;
    if (rn_delayed_reply_start(&reply->delayed, c->conn, &c->ws->decision, delay_ns, format,
                               write_delayed)) {
        c->state->queue.delayed++;
        if (c->ws->decision.outcome.waited_ns == 0) /* else it was counted when it began to wait */
            rn_front_count(&c->ws->counts->delayed, 1);
        return true;
    }
    if (!c->conversation->reply)
        rn_reply_queue_complete(reply);
    return false;
}

/* --- the reply ------------------------------------------------------------------------------ */

/* What rn_decision_make has answered. */
static void put_reply(struct rn_resp_context *c, enum rn_verb verb, int code,
                      const struct ration_error *error, const struct rn_decision_format *format)
{
    const struct rn_decision *d = &c->ws->decision;
    int64_t delay_ns;

    if (code == RATION_EINVAL) {
        rn_front_resp_fail(c, "%s", error->text);
        return;
    }
    if (code != 0) {
        rn_front_count(&c->ws->counts->failed[RN_FRONT_RESP], 1);
        rn_resp_put_error(c->out, "STORE", rn_slice_of(error->text));
        return;
    }
    delay_ns = verb == RN_CHECK ? rn_decision_reply_delay_ns(&c->ws->params, d) : 0;
    if (delay_ns <= 0 || !delay_reply(c, delay_ns, format))
        rn_front_resp_put_decision(c->out, format, d, 0);
}

/* Answers a request whose turn has come, to held->out. */
static void answer_held(struct rn_held_request *held, struct rn_front_workspace *ws, int code,
                        const struct ration_error *error)
{
    struct rn_conversation conversation = {
        .conn = held->conn, .ws = ws, .out = &held->out, .reply = held->reply};
    struct rn_resp_context c = {.front = rn_conn_context(held->conn),
                                .conversation = &conversation,
                                .ws = ws,
                                .conn = held->conn,
                                .state = rn_conn_state(held->conn),
                                .out = &held->out};

    put_reply(&c, held->verb, code, error, &held->format);
}

/* --- a reply that is held -------------------------------------------------------------------- */

static void end_held(struct rn_held_request *held)
{
    struct rn_queued_reply *reply = held->reply;
    struct rn_reply_queue *queue = reply->queue;

    reply->held = NULL;
    queue->delayed--; /* one that is delayed now was counted again */
    if (held->gone)
        return;
    rn_reply_queue_finish(reply, &held->out);
    rn_reply_queue_flush(queue);
    if (queue->delayed == 0)
        rn_conn_resume(held->conn);
}

static const struct rn_held_calls held_calls = {answer_held, end_held};

/* False: out of memory, and the request has left the line. */
static bool hold_reply(struct rn_resp_context *c, struct rn_held_request *held,
                       struct ration_error *error)
{
    struct rn_queued_reply *reply = queue_reply(c);

    if (!reply) {
        held->conn = c->conn;
        rn_held_request_drop(held);
        rn_error_set(error, RATION_ENOMEM, 0, "%s", ration_error_text(RATION_ENOMEM));
        return false;
    }
    if (!rn_held_request_start(held, c->conn, &c->ws->params, &held_calls, error)) {
        if (!c->conversation->reply)
            rn_reply_queue_complete(reply);
        return false;
    }
    held->reply = reply;
    reply->held = held;
    c->state->queue.delayed++;
    rn_conn_pause(c->conn);
    return true;
}

/* --- gateways ------------------------------------------------------------------------------- */

bool rn_front_resp_line_id(struct rn_resp_context *c, struct rn_slice text, uint64_t *id)
{
    int64_t number;

    if (!rn_front_resp_number(c, text, "the id of a line", &number))
        return false;
    *id = (uint64_t)number;
    if (number >= 0 && number <= ID_MAX)
        return true;
    rn_front_resp_fail(c, "the id of a line must be from 0 to 2^53, found %s",
                       rn_excerpt(text).text);
    return false;
}

static struct rn_held_request **bucket_of(struct rn_resp_line *line, uint64_t id)
{
    return &line->buckets[(id ^ id >> 10 ^ id >> 20) & (RN_RESP_LINE_BUCKETS - 1)];
}

static struct rn_held_request *find_in_line(const struct rn_resp_state *state, uint64_t id)
{
    struct rn_held_request *held = state->line ? *bucket_of(state->line, id) : NULL;

    while (held && held->id != id)
        held = held->next;
    return held;
}

static void remove_from_line(struct rn_resp_state *state, struct rn_held_request *held)
{
    *held->link = held->next;
    if (held->next)
        held->next->link = held->link;
    state->line->count--;
}

static void push_decision(struct rn_held_request *held, struct rn_front_workspace *ws, int code,
                          const struct ration_error *error)
{
    rn_buf_putf(&held->out, ">3\r\n$11\r\nration.turn\r\n:%llu\r\n", (unsigned long long)held->id);
    answer_held(held, ws, code, error);
}

static void end_in_line(struct rn_held_request *held)
{
    struct rn_resp_state *state = rn_conn_state(held->conn);

    remove_from_line(state, held);
    if (!held->gone)
        rn_reply_queue_append(&state->queue, &held->out);
}

static const struct rn_held_calls line_calls = {push_decision, end_in_line};

/* Whether the connection may have one more request in line. */
static bool has_room_in_line(struct rn_resp_state *state)
{
    if (!state->line)
        state->line = calloc(1, sizeof *state->line);
    return state->line && state->line->count < RN_RESP_LINE_MAX;
}

static void stand_in_line(struct rn_resp_context *c, struct rn_held_request *held)
{
    struct rn_held_request **bucket = bucket_of(c->state->line, c->ws->params.line_id);

    held->id = c->ws->params.line_id;
    held->next = *bucket;
    held->link = bucket;
    if (held->next)
        held->next->link = &held->next;
    *bucket = held;
    c->state->line->count++;
    rn_resp_put_array(c->out, 3);
    rn_resp_put_bulk(c->out, RN_SLICE("WAIT"));
    rn_resp_put_integer(c->out, (int64_t)held->id);
    rn_resp_put_integer(c->out, (held->rest_ns + 999999) / 1000000);
}

void rn_front_resp_leave(struct rn_resp_context *c)
{
    struct rn_held_request *held;
    uint64_t id;

    if (!rn_front_resp_line_id(c, c->argv[1], &id))
        return;
    held = find_in_line(c->state, id);
    if (held && rn_held_request_has_turn(held))
        held = NULL; /* the push is on its way */
    if (held) {
        remove_from_line(c->state, held);
        rn_held_request_drop(held);
    }
    rn_resp_put_integer(c->out, held != NULL);
}

void rn_front_resp_line_drop(struct rn_resp_state *state)
{
    for (uint32_t i = 0; state->line && state->line->count > 0; i++)
        while (state->line->buckets[i]) {
            struct rn_held_request *held = state->line->buckets[i];

            remove_from_line(state, held);
            rn_held_request_drop(held);
        }
    free(state->line);
    state->line = NULL;
}

/* --- both ------------------------------------------------------------------------------------- */

void rn_front_resp_decide(struct rn_resp_context *c, enum rn_verb verb)
{
    struct rn_params *params = &c->ws->params;
    struct rn_decision_format format = {.version = c->state->version, .full = params->full};
    struct rn_held_request *held;
    struct ration_error error;
    int code;

    if (params->line && find_in_line(c->state, params->line_id)) {
        rn_front_resp_fail(c, "LINE %llu stands in line already; give each request its own id",
                           (unsigned long long)params->line_id);
        return;
    }
    if (params->line && !has_room_in_line(c->state))
        params->wait = RN_WAIT_RETURN; /* too many wait: refused, as by a full line */
    code = rn_held_request_decide(c->conn, c->ws, verb, &held, &error);
    if (code != RATION_EWAITS) {
        put_reply(c, verb, code, &error, &format);
        return;
    }
    held->format = format;
    if (!params->line ? hold_reply(c, held, &error)
                      : rn_held_request_start(held, c->conn, params, &line_calls, &error)) {
        if (params->line)
            stand_in_line(c, held);
        return;
    }
    put_reply(c, verb, RATION_ENOMEM, &error, &format);
}
