/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/fiber_pool.h"

#include <stdlib.h>

#include "base/fiber.h"
#include "front/await/reply_queue.h"
#include "front/front.h"

/* What a decision needs at most, with room for sanitizers. */
#define STACK_BYTES ((size_t)1 << 20)
#define RING_MIN 64

struct rn_pool_fiber {
    struct rn_pool_fiber *next;
    struct rn_fiber *fiber;
    struct rn_fiber_pool *pool;
    struct rn_conn *conn;
    struct rn_await_task task;

    /* Of rn_await_run. */
    rn_await_handler *handler;
    struct rn_conversation conversation;
    struct rn_buf out;
    char *data;
    size_t len, used;

    struct rn_front_workspace ws;
};

/* --- the pool ----------------------------------------------------------------------------- */

/* NULL: all are taken, or there is no memory for another. */
static struct rn_pool_fiber *take_fiber(const struct rn_front *front, struct rn_front_loop *loop)
{
    bool control = loop == &front->loops[front->loop_count - 1];
    struct rn_fiber_pool *pool = &loop->pool;
    struct rn_pool_fiber *f = pool->spare;

    if (f) {
        pool->spare = f->next;
    } else if (pool->made < (control ? 1 : RN_FIBERS_OF_WORKER) && (f = calloc(1, sizeof *f))) {
        f->fiber = rn_fiber_new(STACK_BYTES);
        if (!f->fiber) {
            free(f);
            return NULL;
        }
        f->pool = pool;
        f->ws.counts = &loop->counts;
        pool->made++;
    }
    pool->taken += f != NULL;
    return f;
}

static void return_fiber(struct rn_pool_fiber *f)
{
    f->next = f->pool->spare;
    f->pool->spare = f;
    f->pool->taken--;
}

/* Holds the connection, if any. False: out of memory, or no fiber would ever be returned. */
static bool enqueue(struct rn_fiber_pool *pool, struct rn_pool_waiter waiter)
{
    if (pool->taken == 0)
        return false;
    if (pool->waiting == pool->size) {
        size_t size = pool->size ? 2 * pool->size : RING_MIN;
        struct rn_pool_waiter *ring = malloc(size * sizeof *ring);

        if (!ring)
            return false;
        for (size_t i = 0; i < pool->waiting; i++)
            ring[i] = pool->ring[(pool->first + i) & (pool->size - 1)];
        free(pool->ring);
        pool->ring = ring;
        pool->first = 0;
        pool->size = size;
    }
    pool->ring[(pool->first + pool->waiting++) & (pool->size - 1)] = waiter;
    if (waiter.conn)
        rn_conn_ref(waiter.conn);
    return true;
}

static void start_task(struct rn_pool_fiber *f, struct rn_conn *conn,
                       const struct rn_await_task *task);

/* A waiter may not need a fiber any more, or return it at once; then the next one has it. Fibers
 * that are returned meanwhile call this again and find it at work. */
static void start_waiters(struct rn_fiber_pool *pool)
{
    if (pool->starting)
        return;
    pool->starting = true;
    while (pool->waiting > 0 && pool->spare) {
        struct rn_pool_waiter waiter = pool->ring[pool->first];

        pool->first = (pool->first + 1) & (pool->size - 1);
        pool->waiting--;
        if (waiter.task.run) {
            struct rn_pool_fiber *f = pool->spare;

            pool->spare = f->next;
            pool->taken++;
            start_task(f, waiter.conn, &waiter.task);
        } else {
            rn_conn_resume(waiter.conn);
        }
        if (waiter.conn)
            rn_conn_unref(waiter.conn);
    }
    pool->starting = false;
}

void rn_await_pool_done(struct rn_fiber_pool *pool)
{
    while (pool->spare) {
        struct rn_pool_fiber *f = pool->spare;

        pool->spare = f->next;
        rn_front_workspace_done(&f->ws);
        rn_buf_done(&f->out);
        rn_fiber_free(f->fiber);
        free(f);
    }
    free(pool->ring);
    pool->ring = NULL;
}

/* --- conversations ------------------------------------------------------------------------ */

static void run_handler(void *arg)
{
    struct rn_pool_fiber *f = arg;

    f->used = f->handler(&f->conversation, f->data, f->len);
}

static void put_out(struct rn_pool_fiber *f)
{
    if (f->conversation.queue) {
        rn_reply_queue_append(f->conversation.queue, &f->out);
        return;
    }
    if (f->out.len > 0)
        rn_buf_put(rn_conn_out(f->conn), f->out.data, f->out.len);
    if (f->out.failed)
        rn_conn_close(f->conn);
    rn_buf_clear(&f->out);
}

static void leave_conversation(struct rn_pool_fiber *f)
{
    struct rn_reply_queue *queue = f->conversation.queue;

    if (!queue || --queue->fibers == 0)
        f->pool->conversations--;
    return_fiber(f);
}

bool rn_await_may_split(const struct rn_conversation *conversation)
{
    const struct rn_front *front = rn_conn_context(conversation->conn);
    uint32_t conversations = rn_front_loop(front, conversation->conn)->pool.conversations;

    return (conversation->queue->fibers + 1) * conversations <= RN_FIBERS_SHARED;
}

/* Waiters come first: this connection may have more input than others. */
static void handler_ended(void *arg)
{
    struct rn_pool_fiber *f = arg;
    struct rn_fiber_pool *pool = f->pool;
    struct rn_conversation conversation = f->conversation;

    if (conversation.reply) {
        rn_reply_queue_finish(conversation.reply, &f->out);
    } else {
        put_out(f);
        rn_conn_consumed(f->conn, f->used);
    }
    leave_conversation(f);
    start_waiters(pool);
    if (conversation.reply)
        rn_reply_queue_resume(conversation.queue);
    else if (!conversation.paused)
        rn_conn_resume(conversation.conn);
    rn_conn_unref(conversation.conn);
}

static size_t start_handler(struct rn_pool_fiber *f, struct rn_conn *conn,
                            struct rn_reply_queue *queue, char *data)
{
    struct rn_conversation *conversation = &f->conversation;

    *conversation = (struct rn_conversation){.conn = conn,
                                             .ws = &f->ws,
                                             .out = &f->out,
                                             .queue = queue,
                                             .behind = queue && queue->incomplete > 0,
                                             .on_fiber = true};
    f->conn = conn;
    f->data = data;
    if (!queue || queue->fibers++ == 0)
        f->pool->conversations++;
    if (rn_fiber_run(f->fiber, run_handler, handler_ended, f)) {
        put_out(f);
        leave_conversation(f);
        return f->used;
    }
    rn_conn_ref(conn); /* it waits */
    if (conversation->rest)
        conversation->reply = rn_reply_queue_add(queue, &f->out);
    if (!conversation->reply) {
        conversation->has_waited = true;
        rn_conn_pause(conn);
        return RN_CONN_PENDING;
    }
    queue->more = true;
    return (size_t)(conversation->rest - data);
}

size_t rn_await_run(struct rn_conn *conn, struct rn_reply_queue *queue, rn_await_handler *handler,
                    char *data, size_t len)
{
    struct rn_front *front = rn_conn_context(conn);
    struct rn_front_loop *loop = rn_front_loop(front, conn);
    struct rn_pool_fiber *f = take_fiber(front, loop);

    if (f) {
        f->handler = handler;
        f->len = len;
        return start_handler(f, conn, queue, data);
    }
    if (enqueue(&loop->pool, (struct rn_pool_waiter){.conn = conn})) {
        rn_conn_pause(conn);
        return 0;
    }
    if (queue && queue->incomplete > 0) { /* there is no memory to wait in */
        queue->barrier = true;
        (void)rn_reply_queue_pause(queue);
        return 0;
    }
    return handler(
        &(struct rn_conversation){
            .conn = conn, .ws = &loop->ws, .out = rn_conn_out(conn), .queue = queue},
        data, len);
}

/* --- tasks --------------------------------------------------------------------------------- */

static void run_task(void *arg)
{
    struct rn_pool_fiber *f = arg;

    f->task.run(f->task.arg, &f->ws);
}

static void task_ended(void *arg)
{
    struct rn_pool_fiber *f = arg;
    struct rn_conn *conn = f->conn;
    struct rn_await_task task = f->task;

    return_fiber(f);
    task.ended(task.arg);
    if (conn)
        rn_conn_unref(conn);
    start_waiters(f->pool);
}

static void start_task(struct rn_pool_fiber *f, struct rn_conn *conn,
                       const struct rn_await_task *task)
{
    f->conn = conn;
    f->task = *task;
    if (conn)
        rn_conn_ref(conn);
    if (rn_fiber_run(f->fiber, run_task, task_ended, f))
        task_ended(f);
}

static void run_in(const struct rn_front *front, struct rn_front_loop *loop, struct rn_conn *held,
                   const struct rn_await_task *task)
{
    struct rn_pool_fiber *f = front->patience_ns > 0 ? take_fiber(front, loop) : NULL;

    if (f) {
        start_task(f, held, task);
    } else if (front->patience_ns == 0 ||
               !enqueue(&loop->pool, (struct rn_pool_waiter){held, *task})) {
        task->run(task->arg, &loop->ws);
        task->ended(task->arg);
    }
}

void rn_await_run_task(struct rn_conn *conn, const struct rn_await_task *task)
{
    const struct rn_front *front = rn_conn_context(conn);

    run_in(front, rn_front_loop(front, conn), task->detached ? NULL : conn, task);
}

void rn_await_run_in_loop(struct rn_await_turns *turns, const struct rn_await_task *task)
{
    run_in(turns->front, &turns->front->loops[rn_loop_index(turns->loop)], NULL, task);
}

bool rn_await_control_is_busy(const struct rn_front *front)
{
    return front->loops[front->loop_count - 1].pool.taken > 0;
}
