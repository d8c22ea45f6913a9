/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of calls. It is reused with its buffers, so that a call allocates nothing.
 */
#include <stdlib.h>

#include "front/grpc/grpc_internal.h"

#define SPARE_MAX 1024
#define KEPT_BYTES 4096 /* larger buffers are freed */

static void empty(struct rn_buf *buf)
{
    rn_buf_clear(buf);
    if (buf->size > KEPT_BYTES || buf->failed)
        rn_buf_done(buf);
}

struct rn_grpc_call *rn_grpc_call_new(struct rn_grpc_conn *c, int32_t id)
{
    struct rn_grpc_call *call = c->loop->spare_calls;
    struct rn_buf in = {0}, out = {0};

    if (call) {
        c->loop->spare_calls = call->next;
        c->loop->spare_count--;
        in = call->in;
        out = call->out;
    } else {
        call = malloc(sizeof *call);
        if (!call)
            return NULL;
    }
    *call = (struct rn_grpc_call){.on = c,
                                  .id = id,
                                  .begun_ns = rn_grpc_now(c),
                                  .next = c->calls,
                                  .link = &c->calls,
                                  .in = in,
                                  .out = out};
    if (call->next)
        call->next->link = &call->next;
    c->calls = call;
    c->call_count++;
    return call;
}

void rn_grpc_call_discard(struct rn_grpc_call *call)
{
    rn_buf_done(&call->in);
    rn_buf_done(&call->out);
    free(call);
}

static void give_back(void *arg, struct rn_front_workspace *ws)
{
    struct rn_grpc_delayed *delayed = arg;

    (void)ws;
    (void)ration_descriptors_give_back(delayed->limiter, &delayed->outcome, RATION_NOW);
}

void rn_grpc_call_free(struct rn_grpc_call *call)
{
    struct rn_grpc_conn *c = call->on;
    struct rn_front_loop *loop = c->loop;

    if (call->deciding) {
        call->cancelled = true;
        return;
    }
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    c->call_count--;
    c->buffered -= call->complete ? 0 : call->in.len;
    rn_timer_cancel(rn_conn_wheel(c->conn), &call->timer);
    call->on = NULL;
    if (rn_entrusted_leave(&call->seat) || rn_entrusted_state(&call->seat) == RN_ENTRUSTED_DECIDED)
        return; /* freed elsewhere, or later */
    ration_waiter_leave(&call->seat.waiter);
    if (call->delayed)
        rn_await_run_task(c->conn, &(struct rn_await_task){give_back, free, call->delayed, true});
    if (loop->spare_count == SPARE_MAX) {
        rn_grpc_call_discard(call);
        return;
    }
    empty(&call->in);
    empty(&call->out);
    call->next = loop->spare_calls;
    loop->spare_calls = call;
    loop->spare_count++;
}

void rn_grpc_free_spares(struct rn_front_loop *loop)
{
    while (loop->spare_calls) {
        struct rn_grpc_call *call = loop->spare_calls;

        loop->spare_calls = call->next;
        rn_grpc_call_discard(call);
    }
}
