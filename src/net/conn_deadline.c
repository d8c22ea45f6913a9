/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All deadlines of a connection share one timer. An earlier deadline moves the timer at
 * once; a later one does not: the timer fires too early and is set again. So traffic costs
 * one comparison.
 */
#include "base/clock.h"
#include "net/log.h"
#include "net/loop.h"

#define STALL_NS (30 * RN_SECOND_NS)
#define LINGER_NS (2 * RN_SECOND_NS)
#define LINGER_DRAINING_NS (RN_SECOND_NS / 2) /* clients may be waiting for the next process */
#define HANDSHAKE_NS (10 * RN_SECOND_NS)

enum reason { NONE, LINGER, STALL, SLOW, IDLE };

struct due {
    int64_t at_ns;
    enum reason reason;
};

static struct due sooner(struct due a, int64_t at_ns, enum reason reason)
{
    return at_ns < a.at_ns ? (struct due){at_ns, reason} : a;
}

/* How long a message or a handshake may take. 0: any time. */
static int64_t patience_ns(const struct rn_conn *conn)
{
    int64_t message_ns = conn->protocol->message_ns;

    return conn->life == RN_LIFE_OPEN || message_ns > 0 ? message_ns : HANDSHAKE_NS;
}

static struct due find_due(const struct rn_conn *conn)
{
    const struct rn_protocol *protocol = conn->protocol;
    struct due due = {INT64_MAX, NONE};

    if (conn->life == RN_LIFE_LINGERING)
        return sooner(due,
                      conn->progress_ns + (conn->loop->draining ? LINGER_DRAINING_NS : LINGER_NS),
                      LINGER);
    if (rn_conn_unsent(conn) > 0)
        due = sooner(due,
                     conn->progress_ns + (protocol->stall_ns > 0 ? protocol->stall_ns : STALL_NS),
                     STALL);
    if (conn->input != RN_CONN_READING || conn->output_full || conn->life >= RN_LIFE_CLOSING)
        return due;
    if (conn->begun_ns != 0 && patience_ns(conn) > 0)
        due = sooner(due, conn->begun_ns + patience_ns(conn), SLOW);
    if (conn->begun_ns == 0 && protocol->idle_ns > 0)
        due = sooner(due, conn->active_ns + protocol->idle_ns, IDLE);
    return due;
}

void rn_conn_deadline_update(struct rn_conn *conn)
{
    int64_t at_ns = find_due(conn).at_ns;

    if (at_ns != INT64_MAX && (!rn_timer_is_set(&conn->deadline) || at_ns < conn->deadline.at_ns))
        rn_timer_set(&conn->loop->wheel, &conn->deadline, at_ns);
}

void rn_conn_deadline_fire(struct rn_timer *timer)
{
    struct rn_conn *conn = (struct rn_conn *)((char *)timer - offsetof(struct rn_conn, deadline));
    struct due due = find_due(conn);

    if (due.at_ns <= conn->loop->wheel.now_ns) {
        if (due.reason == STALL || due.reason == SLOW) {
            rn_tally_add(&conn->tally->timed_out, 1);
            rn_log(RN_LOG_INFO,
                   due.reason == STALL                ? "conn.stalled"
                   : conn->life == RN_LIFE_OPEN       ? "conn.slow"
                   : conn->life == RN_LIFE_CONNECTING ? "dial.slow"
                                                      : "tls.slow",
                   RN_LOG_TEXT("listener", rn_slice_of(conn->listener->name)),
                   RN_LOG_TEXT("peer", rn_slice_of(conn->peer.text)),
                   RN_LOG_NUMBER("unread", conn->in.len),
                   RN_LOG_NUMBER("unsent", rn_conn_unsent(conn)));
        }
        if (due.reason == STALL || due.reason == LINGER)
            rn_conn_break(conn);
        else
            rn_conn_close_because(conn, due.reason == SLOW ? RN_CONN_TOO_SLOW : RN_CONN_IDLE);
    }
    rn_conn_settle(conn);
}
