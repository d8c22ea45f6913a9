/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC port: HTTP/2 by nghttp2, with prior knowledge or, over TLS, by ALPN. All answers to
 * what one read has brought leave in one write.
 */
#include "front/grpc/grpc_internal.h"

#include "base/clock.h"

#define CALLS_MAX 1000                 /* at once, of a connection */
#define HEAD_MAX (16 * 1024)           /* bytes of headers, as reported to the peer */
#define BUFFERED_MAX ((size_t)1 << 20) /* of incomplete messages, of a connection */
#define RESETS_BURST 1000              /* streams that a peer may reset, */
#define RESETS_RATE 200                /* and how many more in a second */
#define CONTINUATIONS_MAX 8            /* frames of one list of headers */

/* --- requests ----------------------------------------------------------------------- */

/* The message of a call, which must be the only one. data NULL after refusing it. */
static struct rn_slice find_message(struct rn_grpc_call *call)
{
    const unsigned char *p = (const unsigned char *)call->in.data;
    struct rn_slice none = {NULL, 0};

    if (call->in.failed) {
        rn_grpc_fail(call, RN_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return none;
    }
    if (call->in.len < RN_GRPC_PREFIX) {
        rn_grpc_fail(call, RN_GRPC_INTERNAL, "a call without a message");
        return none;
    }
    if (p[0] != 0) {
        rn_grpc_fail(call, RN_GRPC_UNIMPLEMENTED, "compressed messages are not understood");
        return none;
    }
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];

    if (len != call->in.len - RN_GRPC_PREFIX) {
        rn_grpc_fail(call, RN_GRPC_INTERNAL, "a call has one message, and the whole of it");
        return none;
    }
    return rn_grpc_message(call);
}

static void answer_call(struct rn_grpc_call *call)
{
    struct rn_slice message = find_message(call);
    int64_t took_ns = rn_grpc_now(call->on) - call->begun_ns;

    if (!message.data)
        return;
    if (call->timeout_ns != 0 && took_ns >= call->timeout_ns - 1) /* a timeout of 0 is 1 here */
        rn_grpc_fail(call, RN_GRPC_DEADLINE_EXCEEDED, "the deadline passed before the request");
    else
        call->method->answer(call, message);
}

/* Refuses a call that its headers are enough to refuse. */
static void check_headers(struct rn_grpc_call *call)
{
    if (!call->post)
        rn_grpc_refuse(call, "405");
    else if (!call->typed)
        rn_grpc_refuse(call, "415");
    else if (!call->method)
        rn_grpc_fail(call, RN_GRPC_UNIMPLEMENTED, "there is no such method here");
    else if (call->bad_timeout)
        rn_grpc_fail(call, RN_GRPC_INTERNAL, "grpc-timeout must be digits and a unit, as 20m");
}

/* --- callbacks of nghttp2 ------------------------------------------------------------- */

static struct rn_grpc_call *call_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct rn_grpc_conn *c = arg;
    struct rn_grpc_call *call;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    call = rn_grpc_call_new(c, frame->hd.stream_id);
    if (!call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct rn_grpc_call *call = call_of(session, frame->hd.stream_id);

    (void)flags;
    (void)arg;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST || !call)
        return 0;
    return rn_grpc_read_header(call, (struct rn_slice){(const char *)name, name_len},
                               (struct rn_slice){(const char *)value, value_len})
               ? 0
               : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *arg)
{
    struct rn_grpc_call *call = call_of(session, id);
    struct rn_grpc_conn *c = arg;

    (void)flags;
    if (!call || call->answered)
        return 0;
    if (call->in.len + len > RN_GRPC_PREFIX + RN_RLS_MESSAGE_MAX) {
        rn_grpc_fail(call, RN_GRPC_RESOURCE_EXHAUSTED, "a message of more than 64 KiB");
    } else if (c->buffered + len > BUFFERED_MAX) {
        rn_grpc_fail(call, RN_GRPC_RESOURCE_EXHAUSTED, "too many messages at once");
    } else {
        c->buffered += len;
        rn_buf_put(&call->in, data, len);
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct rn_grpc_conn *c = arg;
    struct rn_grpc_call *call;

    c->greeted = true;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    call = call_of(session, frame->hd.stream_id);
    if (!call)
        return 0;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        c->buffered -= call->in.len;
        call->complete = true;
    }
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        check_headers(call);
    if (call->complete && !call->answered)
        answer_call(call);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    struct rn_grpc_call *call = call_of(session, id);

    (void)error;
    (void)arg;
    if (call)
        rn_grpc_call_free(call);
    return 0;
}

/* --- sessions ----------------------------------------------------------------------- */

static nghttp2_session *new_session(struct rn_grpc_conn *c)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_session *session = NULL;
    nghttp2_option *option = NULL;

    if (nghttp2_option_new(&option) == 0 && nghttp2_session_callbacks_new(&callbacks) == 0) {
        nghttp2_option_set_no_closed_streams(option, 1);
#ifdef RN_NGHTTP2_RESET_LIMIT
        nghttp2_option_set_stream_reset_rate_limit(option, RESETS_BURST, RESETS_RATE);
#endif
#ifdef RN_NGHTTP2_CONTINUATIONS
        nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
#endif
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        if (nghttp2_session_server_new2(&session, callbacks, c, option) != 0)
            session = NULL;
    }
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return session;
}

/* Closes the connection if the session has ended. */
void rn_grpc_flush(struct rn_grpc_conn *c)
{
    struct rn_buf *out = rn_conn_out(c->conn);
    const uint8_t *data;
    ssize_t len;

    while ((len = nghttp2_session_mem_send(c->session, &data)) > 0)
        rn_buf_put(out, data, (size_t)len);
    if (c->buffered != c->reported) {
        c->reported = c->buffered;
        rn_conn_set_buffered(c->conn, c->reported);
    }
    if (len < 0 || (c->phase == RN_GRPC_GONE && c->call_count == 0) ||
        (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session)))
        rn_conn_close(c->conn);
}

/* --- the conversation --------------------------------------------------------------- */

static void opened(struct rn_conn *conn)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, CALLS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_MAX},
    };
    struct rn_grpc_conn *c = rn_conn_state(conn);

    c->conn = conn;
    c->front = rn_conn_context(conn);
    c->loop = rn_front_loop(c->front, conn);
    c->session = new_session(c);
    if (!c->session || nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, 2) != 0) {
        rn_conn_close(conn);
        return;
    }
    rn_grpc_start_timer(c); /* nothing is sent before the peer has shown its protocol */
}

static void refuse_protocol(struct rn_grpc_conn *c)
{
    static const char text[] = "this port speaks gRPC: HTTP/2 with prior knowledge\n";

    rn_buf_putf(rn_conn_out(c->conn),
                "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n\r\n%s",
                sizeof text - 1, text);
    rn_front_count(&c->loop->counts.bad[RN_FRONT_GRPC], 1);
    rn_conn_close(c->conn);
}

void rn_grpc_count_answered(struct rn_grpc_conn *c, int64_t began_ns)
{
    struct rn_front_counts *counts = &c->loop->counts;

    rn_front_count(&counts->requests[RN_FRONT_GRPC], c->answered);
    rn_metrics_histogram_add_many(&counts->latency[RN_FRONT_GRPC],
                                  rn_clock_read_ns(CLOCK_MONOTONIC) - began_ns, c->answered);
    c->answered = 0;
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    struct rn_grpc_conn *c = rn_conn_state(conn);
    int64_t began_ns = rn_clock_read_ns(CLOCK_MONOTONIC);

    c->receiving = true;
    ssize_t used = nghttp2_session_mem_recv(c->session, (const uint8_t *)data, len);
    c->receiving = false;
    if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
        refuse_protocol(c);
        return len;
    }
    rn_grpc_flush(c);
    if (used < 0)
        rn_conn_close(conn);
    if (c->call_count != 0)
        rn_grpc_set_slow(c);
    rn_grpc_set_timer(c);
    rn_grpc_count_answered(c, began_ns);
    return len;
}

static bool drains(struct rn_conn *conn)
{
    struct rn_grpc_conn *c = rn_conn_state(conn);

    if (c->phase == RN_GRPC_OPEN) {
        rn_grpc_leave(c);
        rn_grpc_flush(c);
        rn_grpc_set_timer(c);
    }
    return c->phase == RN_GRPC_GONE && c->call_count == 0;
}

/* Neither calls that are not complete nor watches keep the connection open. */
static bool quiet(struct rn_conn *conn)
{
    const struct rn_grpc_conn *c = rn_conn_state(conn);

    for (const struct rn_grpc_call *call = c->calls; call; call = call->next)
        if (call->complete && !call->watching)
            return false;
    return true;
}

/* Clients send calls again elsewhere that GOAWAY says were not processed. */
static void closing(struct rn_conn *conn, enum rn_conn_close_reason why)
{
    struct rn_grpc_conn *c = rn_conn_state(conn);

    if (why != RN_CONN_CROWDED && why != RN_CONN_SWAMPED)
        return;
    nghttp2_submit_goaway(
        c->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(c->session),
        why == RN_CONN_SWAMPED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_NO_ERROR, NULL, 0);
    rn_grpc_flush(c);
}

static void before_sleep(struct rn_conn *conn)
{
    rn_grpc_flush(rn_conn_state(conn));
}

static void closed(struct rn_conn *conn)
{
    struct rn_grpc_conn *c = rn_conn_state(conn);

    rn_timer_cancel(rn_conn_wheel(conn), &c->timer);
    while (c->calls) {
        c->calls->deciding = false; /* its end would not come any more */
        rn_grpc_call_free(c->calls);
    }
    nghttp2_session_del(c->session);
    c->session = NULL;
}

/* Everything that arrives is consumed, so net sees no message begin or end. */
const struct rn_protocol rn_grpc_protocol = {
    .name = "grpc",
    .alpn = "h2",
    .state_bytes = sizeof(struct rn_grpc_conn),
    .message_max = RN_RLS_MESSAGE_MAX,
    .opened = opened,
    .received = received,
    .drains = drains,
    .quiet = quiet,
    .closing = closing,
    .closed = closed,
    .before_sleep = before_sleep,
};
