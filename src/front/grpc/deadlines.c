/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The deadlines of a gRPC connection, all by one timer: slow calls, and the end.
 *
 * A connection that is old, or whose server stops, ends in two steps, so that no call is lost.
 * First the peer is asked to begin no more calls; those that it has begun meanwhile are
 * answered. A moment later GOAWAY names the last call that is answered.
 */
#include "base/clock.h"
#include "front/grpc/grpc_internal.h"

#define MESSAGE_NS (5 * RN_SECOND_NS) /* for a request to arrive */
#define STALL_NS (30 * RN_SECOND_NS)  /* for an answer to be taken */
#define NOTICE_NS (RN_SECOND_NS / 10) /* between the two steps */
#define GRACE_NS                                                                                   \
    (10 * RN_SECOND_NS) /* for calls to end after the second; again while any                      \
                           waits for its answer, 60 s at most */

void rn_grpc_set_timer(struct rn_grpc_conn *c)
{
    int64_t at_ns = c->slow_ns != 0 && c->slow_ns < c->leave_ns ? c->slow_ns : c->leave_ns;

    if (at_ns == INT64_MAX)
        rn_timer_cancel(rn_conn_wheel(c->conn), &c->timer);
    else if (!rn_timer_is_set(&c->timer) || c->timer.at_ns != at_ns)
        rn_timer_set(rn_conn_wheel(c->conn), &c->timer, at_ns);
}

static bool has_waiting_calls(const struct rn_grpc_conn *c)
{
    for (const struct rn_grpc_call *call = c->calls; call; call = call->next)
        if (call->complete && !call->answered)
            return true;
    return false;
}

void rn_grpc_leave(struct rn_grpc_conn *c)
{
    int64_t now_ns = rn_grpc_now(c);

    switch (c->phase) {
    case RN_GRPC_OPEN:
        for (struct rn_grpc_call *call = c->calls; call; call = call->next)
            if (call->watching)
                rn_grpc_end_watch(call);
        nghttp2_submit_shutdown_notice(c->session);
        c->phase = RN_GRPC_LEAVING;
        c->leave_ns = now_ns + NOTICE_NS;
        break;
    case RN_GRPC_LEAVING:
        nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR,
                              NULL, 0);
        c->phase = RN_GRPC_GONE;
        c->leave_ns = now_ns + GRACE_NS;
        break;
    case RN_GRPC_GONE:
        if (has_waiting_calls(c)) {
            c->leave_ns = now_ns + GRACE_NS;
            break;
        }
        c->leave_ns = INT64_MAX;
        rn_conn_close(c->conn);
        break;
    }
}

/* When a call will have taken too long: its request to arrive, or its peer to take the answer. A
 * call that waits, or is watching, has no deadline yet. */
static int64_t due_of(const struct rn_grpc_call *call, int64_t now_ns)
{
    if (!call->complete)
        return call->begun_ns + MESSAGE_NS;
    return call->answered && !call->watching ? call->begun_ns + RN_REPLY_DELAY_MAX_NS + STALL_NS
                                             : now_ns + STALL_NS;
}

/* Resets slow calls, and closes the connection of a peer that sends nothing. */
static void cut_slow(struct rn_grpc_conn *c)
{
    int64_t now_ns = rn_grpc_now(c), next_ns = 0;

    if (!c->greeted)
        rn_conn_close(c->conn);
    for (struct rn_grpc_call *call = c->calls; call; call = call->next) {
        int64_t due_ns = due_of(call, now_ns);

        if (due_ns <= now_ns)
            nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, call->id, NGHTTP2_CANCEL);
        else if (next_ns == 0 || due_ns < next_ns)
            next_ns = due_ns;
    }
    c->slow_ns = next_ns;
}

static void fire(struct rn_timer *timer)
{
    struct rn_grpc_conn *c = (struct rn_grpc_conn *)(void *)timer; /* its first member */
    int64_t now_ns = rn_grpc_now(c);

    if (c->slow_ns != 0 && c->slow_ns <= now_ns)
        cut_slow(c);
    if (c->leave_ns <= now_ns)
        rn_grpc_leave(c);
    rn_grpc_flush(c);
    rn_grpc_set_timer(c);
}

/* Up to a tenth more or less, so that clients of a restart do not all come back at once. */
static int64_t age_at(const struct rn_grpc_conn *c)
{
    int64_t age_ns = c->front->grpc_age_ns, spread_ns = age_ns / 10;
    uint64_t random = ((uint64_t)(uintptr_t)c ^ (uint64_t)rn_clock_read_ns(CLOCK_MONOTONIC)) *
                      UINT64_C(0x9E3779B97F4A7C15);

    if (age_ns <= 0)
        return INT64_MAX;
    return rn_grpc_now(c) + age_ns - spread_ns + (int64_t)(random % (2 * (uint64_t)spread_ns + 1));
}

void rn_grpc_set_slow(struct rn_grpc_conn *c)
{
    if (c->slow_ns == 0)
        c->slow_ns = rn_grpc_now(c) + MESSAGE_NS;
}

void rn_grpc_start_timer(struct rn_grpc_conn *c)
{
    c->timer.fire = fire;
    c->leave_ns = age_at(c);
    rn_grpc_set_slow(c);
    rn_grpc_set_timer(c);
}
