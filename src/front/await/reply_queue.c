/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/reply_queue.h"

#include <stdlib.h>

#include "front/await/delayed_reply.h"
#include "front/front.h"

#define SPARE_MAX 1024
#define KEPT_BYTES 4096 /* larger buffers are freed */

/* --- memory ------------------------------------------------------------------------------- */

static struct rn_front_loop *loop_of(const struct rn_reply_queue *r)
{
    return rn_front_loop(rn_conn_context(r->conn), r->conn);
}

bool rn_reply_queue_have_room(struct rn_reply_queue *r)
{
    struct rn_front_loop *loop = loop_of(r);

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

/* The first one. */
static void remove_first(struct rn_reply_queue *r)
{
    struct rn_front_loop *loop = loop_of(r);
    struct rn_queued_reply *reply = r->first;

    r->first = reply->next;
    if (!r->first)
        r->end = &r->first;
    r->count--;
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

void rn_reply_queue_init(struct rn_reply_queue *r, struct rn_conn *conn)
{
    *r = (struct rn_reply_queue){.conn = conn};
    r->end = &r->first;
}

static void reverse(struct rn_reply_queue *r)
{
    struct rn_queued_reply *done = NULL;

    while (r->first) {
        struct rn_queued_reply *reply = r->first;

        r->first = reply->next;
        reply->next = done;
        done = reply;
    }
    r->first = done;
}

/* The last first: in a queue, only what is last can be given back. */
void rn_reply_queue_drop(struct rn_reply_queue *r)
{
    reverse(r);
    while (r->first) {
        rn_delayed_reply_drop(r->first->held);
        remove_first(r);
    }
}

/* --- in order ------------------------------------------------------------------------------ */

static void move(struct rn_buf *to, struct rn_buf *from)
{
    if (from->len > 0)
        rn_buf_put(to, from->data, from->len);
    to->failed |= from->failed;
    rn_buf_clear(from);
}

struct rn_queued_reply *rn_reply_queue_add(struct rn_reply_queue *r, struct rn_buf *out)
{
    struct rn_front_loop *loop = loop_of(r);
    struct rn_queued_reply *reply;

    if (!rn_reply_queue_have_room(r))
        return NULL;
    reply = loop->spare_replies;
    loop->spare_replies = reply->next;
    loop->spare_reply_count--;
    *reply = (struct rn_queued_reply){.of = r, .out = reply->out, .open = true};
    *r->end = reply;
    r->end = &reply->next;
    r->count++;
    r->open++;
    move(&reply->out, out);
    rn_conn_call_before_sleep(r->conn);
    return reply;
}

void rn_reply_queue_complete(struct rn_queued_reply *reply)
{
    reply->open = false;
    reply->of->open--;
    rn_conn_call_before_sleep(reply->of->conn);
}

void rn_reply_queue_finish(struct rn_queued_reply *reply, struct rn_buf *out)
{
    move(&reply->out, out);
    if (!reply->held)
        rn_reply_queue_complete(reply);
}

void rn_reply_queue_append(struct rn_reply_queue *r, struct rn_buf *out)
{
    struct rn_queued_reply *reply;

    if (out->len == 0 && !out->failed)
        return;
    if (!r->first)
        move(rn_conn_out(r->conn), out);
    else if ((reply = rn_reply_queue_add(r, out)))
        rn_reply_queue_complete(reply);
    else
        rn_conn_close(r->conn);
    rn_buf_clear(out);
}

void rn_reply_queue_flush(struct rn_reply_queue *r)
{
    while (r->first) {
        bool open = r->first->open;

        move(rn_conn_out(r->conn), &r->first->out);
        if (open)
            return;
        remove_first(r);
    }
}

/* --- how many ------------------------------------------------------------------------------ */

static size_t count_bytes(const struct rn_reply_queue *r)
{
    size_t bytes = 0;

    for (const struct rn_queued_reply *reply = r->first; reply; reply = reply->next)
        bytes += reply->out.len;
    return bytes;
}

static bool must_stop(const struct rn_reply_queue *r, uint32_t max)
{
    return r->held > 0 || (r->alone && r->open > 0) || r->count >= max ||
           count_bytes(r) > RN_CONN_FULL_BYTES;
}

bool rn_reply_queue_pause(struct rn_reply_queue *r)
{
    rn_reply_queue_flush(r);
    r->stopped = must_stop(r, RN_REPLY_QUEUE_MAX);
    if (r->stopped)
        rn_conn_pause(r->conn);
    return r->stopped;
}

/* Not for each of many: what has arrived and waits is moved in memory whenever some of it
 * is done with. */
void rn_reply_queue_resume(struct rn_reply_queue *r)
{
    if (!r->stopped)
        return;
    rn_reply_queue_flush(r);
    r->stopped = must_stop(r, RN_REPLY_QUEUE_MAX / 2);
    if (!r->stopped)
        rn_conn_resume(r->conn);
}
