/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/delayed_reply.h"

#include <stdlib.h>

#include "base/clock.h"
#include "front/front.h"

static void fire(struct rn_timer *timer)
{
    struct rn_delayed_reply *delayed = (struct rn_delayed_reply *)(void *)timer; /* first member */
    struct rn_conn *conn = delayed->conn;
    struct rn_decision *decision = &rn_front_loop(rn_conn_context(conn), conn)->ws.decision;

    *delayed->slot = NULL;
    rn_decision_unpack(decision, delayed->decision);
    delayed->write(delayed, decision);
    free(delayed);
    rn_conn_resume(conn);
}

bool rn_delayed_reply_start(struct rn_delayed_reply **slot, struct rn_conn *conn,
                            const struct rn_decision *decision, int64_t delay_ns,
                            const struct rn_decision_format *format,
                            void (*write)(struct rn_delayed_reply *delayed,
                                          const struct rn_decision *decision))
{
    struct rn_delayed_reply *delayed = malloc(sizeof *delayed + rn_decision_packed_bytes(decision));
    const struct rn_front *front = rn_conn_context(conn);

    if (!delayed)
        return false;
    *delayed = (struct rn_delayed_reply){.timer = {.fire = fire},
                                         .conn = conn,
                                         .limiter = front->limiter,
                                         .slot = slot,
                                         .delay_ns = delay_ns,
                                         .format = *format,
                                         .write = write};
    rn_decision_pack(decision, delayed->decision);
    *slot = delayed;
    rn_conn_pause(conn);
    /* The wheel's time is that of when this round began, which may be a while ago. */
    rn_timer_set(rn_conn_wheel(conn), &delayed->timer,
                 rn_clock_read_ns(CLOCK_MONOTONIC) + delay_ns);
    return true;
}

static void give_back(void *arg, struct rn_front_workspace *ws)
{
    struct rn_delayed_reply *delayed = arg;

    rn_decision_unpack(&ws->decision, delayed->decision);
    rn_decision_give_back(delayed->limiter, &ws->decision);
}

void rn_delayed_reply_drop(struct rn_delayed_reply *delayed)
{
    if (!delayed)
        return;
    rn_timer_cancel(rn_conn_wheel(delayed->conn), &delayed->timer);
    rn_await_run_task(delayed->conn, &(struct rn_await_task){give_back, free, delayed, true});
}
