/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/reply_queue.h"

#include <stdlib.h>

#include "front/await/delayed_reply.h"
#include "front/await/held_request.h"
#include "front/front.h"

#define SPARE_MAX 1024
#define KEPT_BYTES 4096 /* larger buffers are freed */

static struct rn_front_loop *loop_of(const struct rn_reply_queue *q)
{
    return rn_front_loop(rn_conn_context(q->conn), q->conn);
}

bool rn_reply_queue_have_room(struct rn_reply_queue *q)
{
    struct rn_front_loop *loop = loop_of(q);

    if (loop->spare_replies)
        return true;
    loop->spare_replies = calloc(1, sizeof *loop->spare_replies);
    loop->spare_reply_count = loop->spare_replies != NULL;
    return loop->spare_replies != NULL;
}

static void free_reply(struct rn_queued_reply *reply)
{
    rn_buf_done(&reply->out);
    free(reply);
}

static void remove_first(struct rn_reply_queue *q)
{
    struct rn_front_loop *loop = loop_of(q);
    struct rn_queued_reply *reply = q->first;

    q->first = reply->next;
    if (!q->first)
        q->end = &q->first;
    q->count--;
    if (loop->spare_reply_count == SPARE_MAX || reply->out.size > KEPT_BYTES) {
        free_reply(reply);
        return;
    }
    rn_buf_clear(&reply->out);
    reply->next = loop->spare_replies;
    loop->spare_replies = reply;
    loop->spare_reply_count++;
}

void rn_reply_queue_free_spares(struct rn_front_loop *loop)
{
    while (loop->spare_replies) {
        struct rn_queued_reply *reply = loop->spare_replies;

        loop->spare_replies = reply->next;
        free_reply(reply);
    }
}

void rn_reply_queue_init(struct rn_reply_queue *q, struct rn_conn *conn)
{
    *q = (struct rn_reply_queue){.conn = conn};
    q->end = &q->first;
}

/* Begins with the last reply: only the last place of a leaky bucket's queue can be given back. */
void rn_reply_queue_drop(struct rn_reply_queue *q)
{
    struct rn_queued_reply *reversed = NULL;

    while (q->first) {
        struct rn_queued_reply *reply = q->first;

        q->first = reply->next;
        reply->next = reversed;
        reversed = reply;
    }
    q->first = reversed;
    while (q->first) {
        rn_delayed_reply_drop(q->first->delayed);
        rn_held_request_drop(q->first->held);
        remove_first(q);
    }
}

static void move(struct rn_buf *to, struct rn_buf *from)
{
    if (from->len > 0)
        rn_buf_put(to, from->data, from->len);
    to->failed |= from->failed;
    rn_buf_clear(from);
}

struct rn_queued_reply *rn_reply_queue_add(struct rn_reply_queue *q, struct rn_buf *out)
{
    struct rn_front_loop *loop = loop_of(q);
    struct rn_queued_reply *reply;

    if (!rn_reply_queue_have_room(q))
        return NULL;
    reply = loop->spare_replies;
    loop->spare_replies = reply->next;
    loop->spare_reply_count--;
    *reply = (struct rn_queued_reply){.queue = q, .out = reply->out, .incomplete = true};
    *q->end = reply;
    q->end = &reply->next;
    q->count++;
    q->incomplete++;
    move(&reply->out, out);
    rn_conn_call_before_sleep(q->conn);
    return reply;
}

void rn_reply_queue_complete(struct rn_queued_reply *reply)
{
    reply->incomplete = false;
    reply->queue->incomplete--;
    rn_conn_call_before_sleep(reply->queue->conn);
}

void rn_reply_queue_finish(struct rn_queued_reply *reply, struct rn_buf *out)
{
    move(&reply->out, out);
    if (!reply->delayed && !reply->held)
        rn_reply_queue_complete(reply);
}

void rn_reply_queue_append(struct rn_reply_queue *q, struct rn_buf *out)
{
    struct rn_queued_reply *reply;

    if (out->len == 0 && !out->failed)
        return;
    if (!q->first)
        move(rn_conn_out(q->conn), out);
    else if ((reply = rn_reply_queue_add(q, out)))
        rn_reply_queue_complete(reply);
    else
        rn_conn_close(q->conn);
    rn_buf_clear(out);
}

void rn_reply_queue_flush(struct rn_reply_queue *q)
{
    while (q->first) {
        bool incomplete = q->first->incomplete;

        move(rn_conn_out(q->conn), &q->first->out);
        if (incomplete)
            return;
        remove_first(q);
    }
}

static bool must_pause(const struct rn_reply_queue *q, uint32_t max)
{
    size_t bytes = 0;

    for (const struct rn_queued_reply *reply = q->first; reply; reply = reply->next)
        bytes += reply->out.len;
    return q->delayed > 0 || (q->barrier && q->incomplete > 0) || q->count >= max ||
           bytes > RN_CONN_FULL_BYTES;
}

bool rn_reply_queue_pause(struct rn_reply_queue *q)
{
    rn_reply_queue_flush(q);
    q->paused = must_pause(q, RN_REPLY_QUEUE_MAX);
    if (q->paused)
        rn_conn_pause(q->conn);
    return q->paused;
}

/* Not for each reply of many: net moves the input that waits whenever some of it is used. */
void rn_reply_queue_resume(struct rn_reply_queue *q)
{
    if (!q->paused)
        return;
    rn_reply_queue_flush(q);
    q->paused = must_pause(q, RN_REPLY_QUEUE_MAX / 2);
    if (!q->paused)
        rn_conn_resume(q->conn);
}
