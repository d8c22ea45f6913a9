/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that stand in line in this worker, since a limit refuses them for the moment. The
 * limiter keeps the order of the line and calls `turn`; the request is decided again then. While it
 * waits it has a waiter beside what nginx itself keeps, and holds no worker, no outcome and no
 * charge.
 */
#include "nginx/module.h"
#include "rules/ruleset.h"

#define LOOK_MS 250 /* at least so often while requests wait */

struct rn_ngx_waiter {
    struct ration_waiter waiter; /* first: `turn` gets a pointer to it */
    struct rn_ngx_context *context;
    ngx_queue_t others; /* of the worker */
};

/* --- the worker ------------------------------------------------------------------------------ */

/* nginx would keep a timer that is up to 300 ms late. */
static void arm(struct rn_ngx_worker *worker)
{
    int64_t wait_ns = ration_waiting_next(worker->waiting, ration_now(worker->limiter));
    ngx_msec_t ms = rn_ngx_milliseconds(wait_ns);

    if (worker->turns.timer_set)
        ngx_del_timer(&worker->turns);
    if (wait_ns != RATION_NEVER)
        ngx_add_timer(&worker->turns, ms < LOOK_MS ? ms : LOOK_MS);
}

static void run_turns(ngx_event_t *event)
{
    struct rn_ngx_worker *worker = event->data;

    ration_waiting_run(worker->waiting, ration_now(worker->limiter));
    arm(worker);
}

/* Somebody may have its turn: units or places came back. A worker has one thread, and the callers
 * are in the middle of something else. */
static void wake(void *arg)
{
    struct rn_ngx_worker *worker = arg;

    if (worker->turns.timer_set)
        ngx_del_timer(&worker->turns);
    ngx_add_timer(&worker->turns, 0);
}

ngx_int_t rn_ngx_lines_open(struct rn_ngx_worker *worker, const struct rn_ngx_main *main,
                            ngx_log_t *log)
{
    bool any = false;

    for (uint32_t i = 0; i < main->ruleset->rule_count; i++)
        any |= main->ruleset->rules[i].line_size != 0;
    if (!any)
        return NGX_OK;
    if (ration_waiting_new(worker->limiter, wake, worker, &worker->waiting) != 0)
        return NGX_ERROR;
    if (main->waiting != NGX_CONF_UNSET)
        ration_waiting_set_most(worker->limiter, (uint64_t)main->waiting);
    ngx_queue_init(&worker->in_line);
    worker->turns.handler = run_turns;
    worker->turns.data = worker;
    worker->turns.log = log;
    return NGX_OK;
}

void rn_ngx_lines_close(struct rn_ngx_worker *worker)
{
    /* A worker that is stopped at once ends no requests. */
    while (!ngx_queue_empty(&worker->in_line)) {
        struct rn_ngx_waiter *first =
            ngx_queue_data(ngx_queue_head(&worker->in_line), struct rn_ngx_waiter, others);

        rn_ngx_line_end(first->context);
    }
    if (worker->turns.timer_set)
        ngx_del_timer(&worker->turns);
    ration_waiting_free(worker->waiting);
    free(worker->spare);
}

void rn_ngx_lines_end_by(struct rn_ngx_worker *worker, ngx_msec_t ms)
{
    ration_waiting_end_by(worker->waiting, ration_now(worker->limiter) + (int64_t)ms * 1000000);
    arm(worker);
}

/* --- a request ------------------------------------------------------------------------------- */

/* The request may end in here, and its context with it. */
static void turn(struct ration_waiter *waiter)
{
    rn_ngx_resume(((struct rn_ngx_waiter *)waiter)->context);
}

/* Most requests never wait: they use the worker's spare waiter, one after the other. Those that
 * stood in line at rationd may wait as long as it would have let them, and no longer. */
void rn_ngx_line_allow(struct rn_ngx_context *context, struct ration_request *request)
{
    const struct rn_ngx_rationd_line *before = context->rationd_line;
    struct rn_ngx_worker *worker = context->worker;
    struct rn_ngx_waiter *w = context->waiter ? context->waiter : worker->spare;

    if (before && before->waited_ns >= before->most_ns)
        return;
    if (!w) {
        w = worker->spare = calloc(1, sizeof *w);
        if (!w)
            return;
        w->waiter.waiting = worker->waiting;
        w->waiter.turn = turn;
    }
    w->waiter.most_ns = before ? before->most_ns - before->waited_ns : 0;
    request->waiter = &w->waiter;
}

ngx_int_t rn_ngx_line_wait(struct rn_ngx_context *context)
{
    struct rn_ngx_worker *worker = context->worker;
    ngx_int_t code;

    if (!context->waiter) {
        context->waiter = worker->spare;
        context->waiter->context = context;
        worker->spare = NULL;
        ngx_queue_insert_tail(&worker->in_line, &context->waiter->others);
    }
    ngx_log_error(NGX_LOG_INFO, context->request->connection->log, 0, "ration: waits in line");
    code = rn_ngx_pause(context);
    if (code != NGX_AGAIN)
        rn_ngx_line_end(context);
    arm(worker);
    return code;
}

void rn_ngx_line_end(struct rn_ngx_context *context)
{
    ration_waiter_leave(&context->waiter->waiter);
    ngx_queue_remove(&context->waiter->others);
    free(context->waiter);
    context->waiter = NULL;
}
