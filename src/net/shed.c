/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load shedding: which connections to close when there are too many, or too much
 * incomplete input.
 *
 * Too many connections: the quietest go first. Idle ones may go at once; those that wait
 * for their peer (the rest of a message or handshake, or output that it does not read)
 * after a tenth of a second. A message that arrives byte by byte counts from its first
 * byte. A connection that is owed a reply stays. A connection that has just been accepted
 * may have its first message on the way: while it is the quietest, nothing is closed for a
 * hundredth of a second.
 *
 * Too much incomplete input: large messages go first, those of at least half the size of
 * the largest, the oldest first, until an eighth of the room is free. If that is not
 * enough, the next round starts from a smaller size, but not before all loops have had their part
 * in this one: the large messages may belong to a loop that has not looked yet. Honest messages are
 * usually small and complete at once.
 *
 * Each loop closes its own connections; other loops are asked to (server_run.c). A loop with few
 * connections must not close those that are in use while others have idle ones: each tells since
 * when its quietest has been quiet, and those with quieter ones go first.
 */
#include "net/conn_quota.h"
#include "net/log.h"
#include "net/server_internal.h"
#include "net/tls_conn.h"

#include "base/clock.h"

#define PICKED_MAX 256
#define SHARE 16 /* one in 16 of a loop's connections is closed at a time */
#define PATIENCE_NS (RN_SECOND_NS / 10)
#define FIRST_BYTE_NS (RN_SECOND_NS / 100)
#define IN_VAIN_NS (RN_SECOND_NS / 100)
#define ABOUT_NS (RN_SECOND_NS / 100) /* connections that are as quiet as each other, about */
#define ROUND_NS (RN_SECOND_NS / 10)  /* a loop that has not looked by then is busy: go on */

/* The oldest of the connections that were offered, sorted by age. */
struct picked {
    struct {
        struct rn_conn *conn;
        int64_t since_ns;
    } items[PICKED_MAX];
    unsigned count, max;
};

/* Among equals the one offered later counts as older: the loop's list begins with the
 * youngest. */
static void offer(struct picked *p, struct rn_conn *conn, int64_t since_ns)
{
    unsigned at = p->count;

    if (at == p->max && since_ns > p->items[at - 1].since_ns)
        return;
    if (at < p->max)
        p->count++;
    else
        at--;
    for (; at > 0 && p->items[at - 1].since_ns >= since_ns; at--)
        p->items[at] = p->items[at - 1];
    p->items[at].conn = conn;
    p->items[at].since_ns = since_ns;
}

/* We owe the peer nothing. */
static bool may_go(struct rn_conn *conn)
{
    return !conn->outgoing && conn->input == RN_CONN_READING && !conn->pending && !conn->busy &&
           conn->refs == 0 &&
           (!conn->known || !conn->protocol->quiet || conn->protocol->quiet(conn));
}

static bool waits_for_peer(const struct rn_conn *conn)
{
    return conn->life >= RN_LIFE_CLOSING || rn_conn_unsent(conn) > 0 ||
           (conn->life == RN_LIFE_OPEN ? conn->begun_ns != 0 : conn->heard);
}

/* --- connections ---------------------------------------------------------------------- */

/* When the last message was complete, or the incomplete one began. */
static int64_t quiet_since(const struct rn_conn *conn)
{
    return conn->begun_ns != 0 && conn->life < RN_LIFE_CLOSING ? conn->begun_ns : conn->active_ns;
}

/* The earliest time that other workers tell. */
static int64_t quietest_elsewhere(const struct rn_loop *loop)
{
    int64_t earliest_ns = INT64_MAX;

    for (unsigned i = 0; i < loop->server->options.workers; i++) {
        int64_t ns = atomic_load(&loop->server->quietest_ns[i]);

        if (i != loop->index && ns < earliest_ns)
            earliest_ns = ns;
    }
    return earliest_ns;
}

unsigned rn_shed_quiet(struct rn_loop *loop, bool any)
{
    int64_t now_ns = loop->wheel.now_ns;
    int64_t elsewhere_ns = any ? INT64_MAX : quietest_elsewhere(loop);
    unsigned wanted = (unsigned)(loop->accepted / SHARE) + 1, closed = 0, at = 0;
    struct picked picked = {.max = wanted < PICKED_MAX / 4 ? 4 * wanted : PICKED_MAX};

    if (now_ns < loop->in_vain_ns)
        return 0;
    for (struct rn_conn *conn = loop->conns; conn; conn = conn->next)
        if (may_go(conn) && (!waits_for_peer(conn) || now_ns - quiet_since(conn) >= PATIENCE_NS))
            offer(&picked, conn, quiet_since(conn));
    loop->defers = false;
    for (; at < picked.count && closed < wanted; at++) {
        struct rn_conn *conn = picked.items[at].conn;

        if (!waits_for_peer(conn) && rn_conn_has_input(conn))
            continue; /* its request has arrived */
        if (picked.items[at].since_ns - ABOUT_NS > elsewhere_ns) {
            loop->defers = closed == 0;
            break;
        }
        if (!conn->heard && now_ns - quiet_since(conn) < FIRST_BYTE_NS)
            break; /* it has just come, and the others were active since */
        rn_tally_add(&conn->tally->crowded, 1);
        if (conn->life == RN_LIFE_OPEN) {
            rn_conn_close_because(conn, RN_CONN_CROWDED);
            if (conn->tls)
                rn_tls_conn_shutdown(conn);
        }
        rn_conn_cut(conn);
        closed++;
    }
    /* Connections that come later were active later than now. */
    atomic_store(&loop->server->quietest_ns[loop->index],
                 at < picked.count ? picked.items[at].since_ns : now_ns);
    if (closed == 0)
        loop->in_vain_ns = now_ns + IN_VAIN_NS;
    else
        rn_log(RN_LOG_WARN, "conn.crowded", RN_LOG_NUMBER("closed", closed),
               RN_LOG_NUMBER("quiet_ms", (now_ns - picked.items[0].since_ns) / 1000000),
               RN_LOG_TEXT("notice", RN_SLICE("closed the quietest connections to make room")));
    return closed;
}

void rn_shed_ask_others(struct rn_loop *loop)
{
    atomic_store(&loop->server->crowded, true);
    rn_loop_wake(&loop->server->control);
}

/* --- incomplete input ------------------------------------------------------------------- */

/* Notes the size of a message that stays: the next round starts from half the largest. */
static void note_size(struct rn_server *server, size_t bytes)
{
    size_t largest = atomic_load_explicit(&server->largest, memory_order_relaxed);

    while (bytes > largest &&
           !atomic_compare_exchange_weak_explicit(&server->largest, &largest, bytes,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static void recount(struct rn_conn *conn, size_t bytes)
{
    atomic_fetch_add_explicit(&conn->loop->server->unfinished, bytes - conn->counted,
                              memory_order_relaxed);
    conn->counted = bytes;
}

static void end_from(struct rn_loop *loop, size_t bytes)
{
    struct picked picked = {.max = PICKED_MAX};
    size_t enough = loop->server->options.input_max - loop->server->options.input_max / 8;

    for (struct rn_conn *conn = loop->conns; conn; conn = conn->next) {
        if (conn->counted == 0 || conn->life >= RN_LIFE_CLOSING || !may_go(conn))
            continue;
        if (conn->counted >= bytes)
            offer(&picked, conn, conn->begun_ns);
        else
            note_size(loop->server, conn->counted);
    }
    for (unsigned i = 0; i < picked.count; i++) {
        struct rn_conn *conn = picked.items[i].conn;

        if (atomic_load_explicit(&loop->server->unfinished, memory_order_relaxed) <= enough) {
            note_size(loop->server, conn->counted);
            continue;
        }
        rn_log(RN_LOG_WARN, "conn.swamped",
               RN_LOG_TEXT("listener", rn_slice_of(conn->listener->name)),
               RN_LOG_TEXT("peer", rn_slice_of(conn->peer.text)),
               RN_LOG_NUMBER("unfinished", conn->counted),
               RN_LOG_TEXT("over", RN_SLICE("input_memory")));
        rn_tally_add(&conn->tally->swamped, 1);
        rn_conn_close_because(conn, RN_CONN_SWAMPED); /* the protocol may reply why */
        rn_conn_close(conn);                          /* settled before the loop sleeps */
        conn->unread = true;
        conn->buffered = 0;
        rn_buf_done(&conn->in);
        recount(conn, 0);
    }
}

/* False: another round is under way, or begins at this moment in another thread. */
static bool begin_round(struct rn_server *server, int64_t now_ns)
{
    size_t from = 0;

    if (atomic_compare_exchange_strong(&server->round_from, &from, SIZE_MAX)) {
        atomic_store(&server->round_ns, now_ns);
    } else {
        int64_t began_ns = atomic_load(&server->round_ns);

        if (from == SIZE_MAX || now_ns - began_ns < ROUND_NS ||
            !atomic_compare_exchange_strong(&server->round_ns, &began_ns, now_ns))
            return false;
    }
    atomic_store(&server->round_left, server->options.workers + 1); /* and the control loop */
    return true;
}

void rn_shed_count_input(struct rn_conn *conn, size_t bytes)
{
    struct rn_server *server = conn->loop->server;
    bool grows = bytes > conn->counted;

    if (bytes == conn->counted)
        return;
    recount(conn, bytes);
    if (!grows || server->options.input_max == 0)
        return;
    note_size(server, bytes);
    if (atomic_load_explicit(&server->unfinished, memory_order_relaxed) <=
        server->options.input_max)
        return;
    if (!begin_round(server, conn->loop->wheel.now_ns)) {
        size_t size = atomic_load(&server->round_from);

        if (size != 0) /* else it has just ended */
            end_from(conn->loop, size);
        return;
    }
    size_t from = atomic_exchange(&server->largest, 0) / 2;

    from = from > 0 ? from : 1;
    atomic_store(&server->round_from, from);
    end_from(conn->loop, from);
    atomic_store(&server->cut_from, from);
    rn_loop_wake(&server->control);
}

void rn_shed_as_asked(struct rn_loop *loop)
{
    size_t from = atomic_exchange(&loop->cut_from, 0);

    if (atomic_exchange(&loop->crowded, false) && rn_conn_quota_is_full(loop->server->quota))
        rn_shed_quiet(loop, false);
    if (from == 0)
        return;
    end_from(loop, from);
    if (atomic_fetch_sub(&loop->server->round_left, 1) == 1)
        atomic_store(&loop->server->round_from, 0);
}
