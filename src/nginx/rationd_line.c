/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that stand in line at rationd: it has answered a question with WAIT, and announces the
 * decision later, between replies to other questions.
 *
 *   ASKED ──WAIT──> IN_LINE ──ration.turn──> ANSWERED
 *                      ├── deadline, connection lost ──> UNANSWERED
 *                      └── client gone: RATION.LEAVE
 *
 * A connection that ends takes all of its requests out of rationd's lines, uncharged. The rules of
 * this nginx decide about them then, in the order in which they were asked about.
 */
#include "nginx/link.h"
#include "nginx/module.h"
#include "wire/format.h"
#include "wire/parsed_decision.h"

#define IN_LINE_MAX_MS 3600000 /* of rules */

static struct rn_ngx_rationd_line *line_of(ngx_rbtree_node_t *node)
{
    return ngx_rbtree_data(node, struct rn_ngx_rationd_line, node);
}

void rn_ngx_rationd_line_init(struct rn_ngx_link *link)
{
    ngx_rbtree_init(&link->in_line, &link->nobody, ngx_rbtree_insert_value);
}

bool rn_ngx_rationd_line_known(struct rn_ngx_link *link, void *arg, struct rn_slice reply)
{
    (void)arg;
    if (reply.data)
        link->without_lines = reply.data[0] != ':';
    return true;
}

void rn_ngx_rationd_line_leave(struct rn_ngx_link *link, uint64_t id)
{
    char text[RN_FORMAT_U64_MAX];
    struct rn_slice digits = {text, (size_t)(rn_format_u64(text, id) - text)};
    struct rn_slice command =
        rn_ngx_ticket_command(link, RN_SLICE("RATION.LEAVE"), digits, (struct rn_slice){NULL, 0});

    if (command.len != 0) /* else rationd's announcement is discarded when it comes */
        (void)rn_ngx_link_send(link, command, NULL, NULL);
}

/* Its time in line at rationd is over, one way or the other. */
static void remove_from_tree(struct rn_ngx_context *context)
{
    struct rn_ngx_rationd_line *line = context->rationd_line;

    ngx_rbtree_delete(&context->link->in_line, &line->node);
    context->link->in_line_count--;
    rn_ngx_context_stop(context);
    line->waited_ns = ration_now(context->worker->limiter) - line->since_ns;
}

/* rationd should have announced something by now. */
static void on_deadline(ngx_event_t *event)
{
    struct rn_ngx_context *context = event->data;
    struct rn_ngx_link *link = context->link;

    rn_ngx_rationd_line_end(context);
    rn_ngx_ask_done(context, RN_NGX_UNANSWERED);
    rn_ngx_link_missed(link);
}

ngx_int_t rn_ngx_rationd_line_begin(struct rn_ngx_context *context, uint64_t id, uint64_t max_ms)
{
    ngx_msec_t timeout_ms = rn_ngx_location_of(context->request)->timeout_ms;
    struct rn_ngx_rationd_line *line = ngx_palloc(context->request->pool, sizeof *line);

    if (!line || id != context->number || max_ms > IN_LINE_MAX_MS)
        return NGX_ERROR;
    line->node.key = id;
    line->context = context;
    line->since_ns = ration_now(context->worker->limiter);
    line->most_ns = (int64_t)max_ms * 1000000;
    ngx_log_error(NGX_LOG_INFO, context->request->connection->log, 0,
                  "ration: waits in line at rationd");
    ngx_rbtree_insert(&context->link->in_line, &line->node);
    context->link->in_line_count++;
    context->rationd_line = line;
    context->question = RN_NGX_IN_LINE;
    rn_ngx_context_stop(context);
    rn_ngx_context_time(context, on_deadline);
    ngx_add_timer(&context->timer, (ngx_msec_t)max_ms + timeout_ms);
    return NGX_OK;
}

void rn_ngx_rationd_line_end(struct rn_ngx_context *context)
{
    remove_from_tree(context);
    rn_ngx_rationd_line_leave(context->link, context->number);
}

bool rn_ngx_rationd_line_turn(struct rn_ngx_link *link, struct rn_slice push)
{
    ngx_rbtree_node_t *at = link->in_line.root;
    struct rn_slice value;
    uint64_t id;

    if (!rn_parsed_decision_read_turn(push, &id, &value))
        return true; /* some other push, of a later rationd */
    while (at != &link->nobody && at->key != id)
        at = id < at->key ? at->left : at->right;
    if (at == &link->nobody)
        return rn_ngx_ask_discard(link, value); /* its client has gone, or its time was over */
    remove_from_tree(line_of(at)->context);
    return rn_ngx_ask_answer(line_of(at)->context, value);
}

/* Requests that end may end others with them. */
void rn_ngx_rationd_line_lost(struct rn_ngx_link *link)
{
    while (link->in_line.root != &link->nobody) {
        ngx_rbtree_node_t *first = ngx_rbtree_min(link->in_line.root, &link->nobody);
        struct rn_ngx_context *context = line_of(first)->context;

        remove_from_tree(context);
        rn_ngx_ask_done(context, RN_NGX_UNANSWERED);
    }
}

void rn_ngx_rationd_line_end_by(struct rn_ngx_link *link, ngx_msec_t ms)
{
    ngx_rbtree_node_t *at = link->in_line.root;

    if (at != &link->nobody)
        at = ngx_rbtree_min(at, &link->nobody);
    for (; at && at != &link->nobody; at = ngx_rbtree_next(&link->in_line, at)) {
        ngx_event_t *timer = &line_of(at)->context->timer;

        if ((ngx_msec_int_t)(timer->timer.key - ngx_current_msec - ms) <= 0)
            continue;
        ngx_del_timer(timer);
        ngx_add_timer(timer, ms);
        line_of(at)->most_ns = 0; /* not in a line of this worker, either */
    }
}
