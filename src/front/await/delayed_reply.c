/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/delayed_reply.h"

#include <stdlib.h>

#include "base/clock.h"
#include "front/front.h"

static void fire(struct rn_timer *timer)
{
    struct rn_delayed_reply *held = (struct rn_delayed_reply *)(void *)timer; /* its first member */
    struct rn_conn *conn = held->conn;

    *held->slot = NULL;
    held->tell(held);
    free(held);
    rn_conn_resume(conn);
}

bool rn_delayed_reply_start(struct rn_delayed_reply **slot, struct rn_conn *conn,
                            const struct rn_decision *decided, int64_t hold_ns,
                            const struct rn_decision_format *telling,
                            void (*tell)(struct rn_delayed_reply *held))
{
    struct rn_delayed_reply *held = malloc(sizeof *held);
    struct rn_wheel *wheel = rn_conn_wheel(conn);
    const struct rn_front *front = rn_conn_context(conn);

    if (!held)
        return false;
    *held = (struct rn_delayed_reply){.timer = {.fire = fire},
                                      .conn = conn,
                                      .limiter = front->limiter,
                                      .slot = slot,
                                      .hold_ns = hold_ns,
                                      .decided = *decided,
                                      .telling = *telling,
                                      .tell = tell};
    *slot = held;
    rn_conn_pause(conn);
    /* The wheel's time is that of when this round began, which may be a while ago. */
    rn_timer_set(wheel, &held->timer, rn_clock_read_ns(CLOCK_MONOTONIC) + hold_ns);
    return true;
}

static void give_back(void *arg, struct rn_front_workspace *ws)
{
    struct rn_delayed_reply *held = arg;

    (void)ws;
    rn_decision_give_back(held->limiter, &held->decided);
}

void rn_delayed_reply_drop(struct rn_delayed_reply *held)
{
    if (!held)
        return;
    rn_timer_cancel(rn_conn_wheel(held->conn), &held->timer);
    rn_await_run_detached(held->conn, &(struct rn_await_task){give_back, free, held});
}
