/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions as HTTP answers, at once or when they have been held.
 */
#include "front/exchange.h"
#include "wire/answer.h"

static unsigned status_of(const struct ration_outcome *out, const struct rn_telling *how)
{
    if (out->decision.allowed)
        return 200;
    return how->deny_status ? how->deny_status : out->status;
}

/* An answer without a body tells it this way, so that a proxy can pass it on. */
static void put_charge(struct rn_buf *out, const struct rn_answer_extra *extra)
{
    if (!extra->charge.data)
        return;
    rn_buf_put_literal(out, "X-Ration-Charge: ");
    rn_buf_put_slice(out, extra->charge);
    rn_buf_put_literal(out, "\r\n");
}

static void put_mark(struct rn_buf *out, const struct ration_outcome *outcome,
                     const struct rn_telling *how)
{
    if (outcome->decision.allowed || how->deny_status == 0)
        return;
    rn_buf_put_literal(out, "X-Ration-Status: ");
    rn_buf_put_u64(out, outcome->status);
    rn_buf_put_literal(out, "\r\n");
}

static void write_answer(struct rn_front *front, struct rn_desk *desk, struct rn_buf *out,
                         const struct rn_decided *d, int64_t held_ns, const struct rn_telling *how)
{
    int64_t now_ns = held_ns > 0 ? RATION_NOW : d->at_ns;
    struct rn_answer_extra extra = {
        .wall_ns = ration_wall(front->limiter, now_ns), .held_ns = held_ns, .ad_hoc = d->by_limit};
    bool allowed = d->outcome.decision.allowed;
    struct rn_buf *body = &desk->scratch;

    if (d->ticket[0])
        extra.lease = rn_slice_of(d->ticket);
    if (d->due[0])
        extra.charge = rn_slice_of(d->due);
    rn_buf_clear(body);
    if (!how->empty || !allowed) {
        rn_answer_put_body(body, &d->outcome, &extra, how->problem);
        rn_buf_put_char(body, '\n');
    }
    rn_http_put_status(out, status_of(&d->outcome, how));
    rn_answer_put_headers(out, &d->outcome, &extra);
    put_mark(out, &d->outcome, how);
    if (how->empty)
        put_charge(out, &extra);
    rn_http_put_body(out, how->keep_alive, how->head,
                     how->problem && !allowed ? "application/problem+json" : "application/json",
                     rn_buf_slice(body));
}

static void tell_held(struct rn_held *held)
{
    struct rn_front *front = rn_conn_context(held->conn);
    struct rn_desk *desk = &rn_front_loop(front, held->conn)->desk;

    if (rn_conn_draining(held->conn) && !rn_conn_has_input(held->conn))
        held->telling.keep_alive = RN_HTTP_CLOSE;
    write_answer(front, desk, rn_conn_out(held->conn), &held->decided, held->hold_ns,
                 &held->telling);
    if (!held->telling.keep_alive)
        rn_conn_close(held->conn);
}

void rn_exchange_tell(struct rn_exchange *x, struct rn_decided *decided, int64_t hold_ns,
                      struct rn_telling *how)
{
    struct rn_http_state *state = rn_conn_state(x->conn);

    how->keep_alive = x->keep_alive;
    how->head = x->head;
    if (hold_ns > 0 && rn_held_begin(&state->held, x->conn, decided, hold_ns, how, tell_held)) {
        x->keep_alive = RN_HTTP_KEEP; /* closed by tell_held if at all */
        rn_front_count(&x->desk->counts->held, 1);
        return;
    }
    write_answer(x->front, x->desk, x->out, decided, 0, how);
}

void rn_exchange_closed(struct rn_conn *conn)
{
    struct rn_http_state *state = rn_conn_state(conn);

    rn_held_drop(state->held);
    state->held = NULL;
}
