/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the parameters of a request to its answer: at once, after a delay, or when its turn in line
 * has come.
 */
#include "front/admin/admin_internal.h"
#include "wire/answer.h"

/* --- answers ------------------------------------------------------------------------------------
 */

/* Media types are not ranked: a caller either accepts problems or does not. */
static bool wants_problem(const struct rn_http_request *request)
{
    static const char type[] = "application/problem+json";
    struct rn_slice accept = rn_http_find(request, "accept");

    return accept.data && memmem(accept.data, accept.len, type, sizeof type - 1);
}

void rn_front_http_fail(struct rn_http_context *c, int code, unsigned status,
                        const struct ration_error *error)
{
    if (code == RATION_EINVAL) {
        rn_front_http_error(c, 400, "bad_request", "%s", error->text);
        return;
    }
    rn_front_count(&c->ws->counts->failed[RN_FRONT_HTTP], 1);
    rn_front_http_error(c, status, "store", "no decision could be made: %s", error->text);
}

static void write_decision(struct rn_front *front, struct rn_front_workspace *ws,
                           struct rn_buf *out, const struct rn_decision *d, int64_t held_ns,
                           const struct rn_decision_format *format)
{
    int64_t now_ns = held_ns > 0 ? RATION_NOW : d->at_ns;
    struct rn_answer_extra extra = {
        .wall_ns = ration_wall(front->limiter, now_ns), .held_ns = held_ns, .ad_hoc = d->by_limit};
    bool allowed = d->outcome.decision.allowed;
    struct rn_buf *body = &ws->scratch;

    if (d->lease_ticket[0])
        extra.lease = rn_slice_of(d->lease_ticket);
    if (d->charge_ticket[0])
        extra.charge = rn_slice_of(d->charge_ticket);
    rn_buf_clear(body);
    if (!format->empty || !allowed) {
        rn_answer_put_body(body, &d->outcome, &extra, format->problem);
        rn_buf_put_char(body, '\n');
    }
    rn_http_put_status(out, allowed               ? 200
                            : format->deny_status ? format->deny_status
                                                  : d->outcome.status);
    rn_answer_put_headers(out, &d->outcome, &extra);
    if (!allowed && format->deny_status) {
        rn_buf_put_literal(out, "X-Ration-Status: ");
        rn_buf_put_u64(out, d->outcome.status);
        rn_buf_put_literal(out, "\r\n");
    }
    if (format->empty && extra.charge.data) /* so that a proxy can pass it on */
        rn_http_put_header(out, "X-Ration-Charge", extra.charge);
    rn_http_put_body(out, format->keep_alive, format->head,
                     body->len == 0                ? NULL
                     : format->problem && !allowed ? "application/problem+json"
                                                   : "application/json",
                     rn_buf_slice(body));
}

static void write_delayed(struct rn_delayed_reply *delayed, const struct rn_decision *decision)
{
    struct rn_front *front = rn_conn_context(delayed->conn);
    struct rn_front_workspace *ws = &rn_front_loop(front, delayed->conn)->ws;

    if (rn_conn_draining(delayed->conn) && !rn_conn_has_input(delayed->conn))
        delayed->format.keep_alive = RN_HTTP_CLOSE;
    write_decision(front, ws, rn_conn_out(delayed->conn), decision, delayed->delay_ns,
                   &delayed->format);
    if (!delayed->format.keep_alive)
        rn_conn_close(delayed->conn);
}

/* Now or after `delay_ns`. */
static void put_decision(struct rn_http_context *c, const struct rn_decision *decision,
                         int64_t delay_ns, struct rn_decision_format *format)
{
    struct rn_http_state *state = rn_conn_state(c->conn);

    format->keep_alive = c->keep_alive;
    format->head = c->head;
    if (delay_ns > 0 && rn_delayed_reply_start(&state->delayed, c->conn, decision, delay_ns, format,
                                               write_delayed)) {
        c->keep_alive = RN_HTTP_KEEP; /* write_delayed closes the connection if it must be */
        if (decision->outcome.waited_ns == 0) /* else it was counted when it began to wait */
            rn_front_count(&c->ws->counts->delayed, 1);
        return;
    }
    write_decision(c->front, c->ws, c->out, decision, 0, format);
}

/* --- deciding -------------------------------------------------------------------------------- */

/* What rn_decision_make has answered. */
static void put_answer(struct rn_http_context *c, enum rn_verb verb, int code,
                       const struct ration_error *error, struct rn_decision_format *format)
{
    const struct rn_decision *decision = &c->ws->decision;

    if (format->no_5xx && (code != 0 || decision->outcome.status >= 500))
        format->deny_status = 403;
    if (code != 0)
        rn_front_http_fail(c, code, format->deny_status ? format->deny_status : 503, error);
    else
        put_decision(c, decision,
                     verb == RN_CHECK ? rn_decision_reply_delay_ns(&c->ws->params, decision) : 0,
                     format);
}

static void answer_held(struct rn_held_request *held, struct rn_front_workspace *ws, int code,
                        const struct ration_error *error)
{
    const struct rn_http_state *state = rn_conn_state(held->conn);
    struct rn_http_context c = {.front = rn_conn_context(held->conn),
                                .port = state->port,
                                .ws = ws,
                                .conn = held->conn,
                                .out = &held->out,
                                .keep_alive = held->format.keep_alive,
                                .head = held->format.head};

    if (rn_conn_draining(held->conn) && !rn_conn_has_input(held->conn))
        c.keep_alive = RN_HTTP_CLOSE;
    put_answer(&c, held->verb, code, error, &held->format);
    held->format.keep_alive = c.keep_alive;
}

static void end_held(struct rn_held_request *held)
{
    struct rn_http_state *state = rn_conn_state(held->conn);

    state->held = NULL;
    if (held->gone)
        return;
    if (held->out.len > 0)
        rn_buf_put(rn_conn_out(held->conn), held->out.data, held->out.len);
    if (held->out.failed || !held->format.keep_alive)
        rn_conn_close(held->conn);
    else if (!state->delayed)
        rn_conn_resume(held->conn);
}

static const struct rn_held_calls held_calls = {answer_held, end_held};

void rn_front_http_decide(struct rn_http_context *c, enum rn_verb verb,
                          struct rn_decision_format format)
{
    struct rn_http_state *state = rn_conn_state(c->conn);
    struct rn_held_request *held;
    struct ration_error error;

    if (c->ws->params.credit && !rn_admin_admit_change(c))
        return;
    int code = rn_held_request_decide(c->conn, c->ws, verb, &held, &error);

    format.problem = (code == RATION_EWAITS || !c->ws->decision.outcome.decision.allowed) &&
                     wants_problem(c->request);
    if (code != RATION_EWAITS) {
        put_answer(c, verb, code, &error, &format);
        return;
    }
    held->format = format;
    held->format.keep_alive = c->keep_alive;
    held->format.head = c->head;
    if (!rn_held_request_start(held, c->conn, &c->ws->params, &held_calls, &error)) {
        put_answer(c, verb, RATION_ENOMEM, &error, &format);
        return;
    }
    c->keep_alive = RN_HTTP_KEEP; /* end_held closes the connection if it must be */
    state->held = held;
    rn_conn_pause(c->conn);
}
