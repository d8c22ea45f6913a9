/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of one thread. All its timers share one timer of libuv, which is set before the
 * loop sleeps to the next time that the wheel has work. A loop without timers sleeps until
 * there is input.
 */
#include "net/loop.h"

#include <stdlib.h>
#include <string.h>

#include "net/server.h"

static void on_timer(uv_timer_t *timer)
{
    struct rn_loop *loop = timer->data;

    loop->armed_ns = INT64_MAX;
    rn_wheel_advance(&loop->wheel, (int64_t)uv_now(&loop->uv) * RN_WHEEL_TICK_NS);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct rn_loop *loop = prepare->data;
    int64_t next_ns;

    rn_loop_update(loop);
    while (loop->touched) {
        struct rn_conn *conn = loop->touched;
        loop->touched = conn->next_touched;
        conn->touched = false;
        rn_conn_settle(conn);
    }
    next_ns = rn_wheel_next_ns(&loop->wheel);
    if (next_ns < loop->armed_ns) { /* a later time is left alone: it fires once for nothing */
        int64_t wait_ms = next_ns / RN_WHEEL_TICK_NS - (int64_t)uv_now(&loop->uv);

        loop->armed_ns = next_ns;
        uv_timer_start(&loop->timer, on_timer, wait_ms > 0 ? (uint64_t)wait_ms : 0, 0);
    }
}

static void on_wake(uv_async_t *wake)
{
    struct rn_loop *loop = wake->data;

    rn_loop_update(loop);
    loop->woken(loop);
    if (loop->wake_call)
        loop->wake_call(loop->wake_arg);
}

int rn_loop_init(struct rn_loop *loop, struct rn_server *server, unsigned index)
{
    memset(loop, 0, offsetof(struct rn_loop, input));
    int failed = uv_loop_init(&loop->uv);
    if (failed != 0)
        return failed;
    failed = uv_async_init(&loop->uv, &loop->wake, on_wake);
    if (failed != 0) {
        uv_loop_close(&loop->uv);
        return failed;
    }
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_timer_init(&loop->uv, &loop->timer);
    loop->wake.data = loop->prepare.data = loop->timer.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    rn_wheel_init(&loop->wheel, (int64_t)uv_now(&loop->uv) * RN_WHEEL_TICK_NS);
    loop->armed_ns = INT64_MAX;
    loop->server = server;
    loop->index = index;
    return 0;
}

void rn_loop_run(struct rn_loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

struct patience {
    struct rn_timer timer; /* first */
    bool over;
};

static void end_patience(struct rn_timer *timer)
{
    ((struct patience *)timer)->over = true;
}

void rn_loop_run_while(struct rn_loop *loop, bool (*is_busy)(const void *arg), const void *arg,
                       int64_t most_ns)
{
    struct patience patience = {.timer = {.fire = end_patience}};

    rn_loop_update(loop);
    rn_timer_set(&loop->wheel, &patience.timer, loop->wheel.now_ns + most_ns);
    while (!patience.over && is_busy(arg))
        uv_run(&loop->uv, UV_RUN_ONCE);
    rn_timer_cancel(&loop->wheel, &patience.timer);
}

void rn_loop_wake(struct rn_loop *loop)
{
    uv_async_send(&loop->wake);
}

void rn_loop_on_wake(struct rn_loop *loop, void (*call)(void *arg), void *arg)
{
    loop->wake_call = call;
    loop->wake_arg = arg;
}

void rn_loop_drain(struct rn_loop *loop)
{
    if (loop->draining)
        return;
    rn_accept_close_all(loop);
    loop->draining = true;
    for (struct rn_conn *conn = loop->conns, *next; conn; conn = next) {
        next = conn->next;
        if (conn->outgoing)
            continue;                    /* requests still being answered may need it */
        rn_conn_input_read(conn, false); /* a request that has arrived is answered */
        rn_conn_settle(conn);
    }
    if (loop->accepted == 0)
        uv_stop(&loop->uv);
}

void rn_loop_cut(struct rn_loop *loop)
{
    for (struct rn_conn *conn = loop->conns, *next; conn; conn = next) {
        next = conn->next;
        if (!conn->outgoing)
            rn_conn_cut(conn);
    }
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void rn_loop_done(struct rn_loop *loop)
{
    rn_accept_close_all(loop);
    while (loop->conns) {
        loop->conns->refs = 0; /* their owners have ended */
        rn_conn_cut(loop->conns);
    }
    uv_walk(&loop->uv, close_handle, NULL);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0)
        ;
    uv_loop_close(&loop->uv);
    rn_buf_done(&loop->out);
    rn_buf_done(&loop->tls_records);
    free(loop->decrypted);
}

unsigned rn_loop_index(const struct rn_loop *loop)
{
    return loop->index;
}

struct rn_wheel *rn_loop_wheel(struct rn_loop *loop)
{
    return &loop->wheel;
}
