/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting. When all places are taken, quiet connections are closed to make room, on
 * other loops, too, and the next client waits for that. If there is still no room, it is
 * closed at once. Without file descriptors we stop polling for a while: the kernel would
 * keep reporting the client that waits.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn_quota.h"
#include "net/log.h"
#include "net/loop.h"

#define BATCH 64
#define PAUSE_NS INT64_C(100000000)
#define ROOM_NS INT64_C(20000000) /* until other loops may have made room */
#define WAITS_MAX 50              /* for loops that have quieter connections: a second */

static void on_connection(uv_poll_t *poll, int status, int events);

static void resume(struct rn_timer *timer)
{
    struct rn_acceptor *acceptor =
        (struct rn_acceptor *)((char *)timer - offsetof(struct rn_acceptor, resume));

    uv_poll_start(&acceptor->poll, UV_READABLE, on_connection);
}

static void pause_for(struct rn_acceptor *acceptor, int64_t ns)
{
    uv_poll_stop(&acceptor->poll);
    rn_timer_set(&acceptor->loop->wheel, &acceptor->resume, acceptor->loop->wheel.now_ns + ns);
}

/* False: no client waits, or the next client waits until other loops have made room. */
static bool find_room(struct rn_acceptor *acceptor)
{
    struct pollfd next = {.fd = acceptor->socket->fd, .events = POLLIN};
    bool alone = acceptor->listener->on_control, last = acceptor->waits >= WAITS_MAX;

    if (rn_conn_quota_is_full(acceptor->listener->quota) && poll(&next, 1, 0) != 1)
        return false;
    if (!rn_conn_quota_is_full(acceptor->listener->quota) ||
        rn_shed_quiet(acceptor->loop, alone || last) > 0) {
        acceptor->waits = 0;
        return true;
    }
    if (last || acceptor->loop->draining || (acceptor->waits > 0 && !acceptor->loop->defers))
        return true; /* it will be refused */
    acceptor->waits++;
    if (!alone)
        rn_shed_ask_others(acceptor->loop);
    pause_for(acceptor, ROOM_NS);
    return false;
}

static void admit(struct rn_acceptor *acceptor, int fd, const struct rn_address *from)
{
    static const char *const over[] = {
        [RN_CONN_QUOTA_TOTAL] = "connections_max", [RN_CONN_QUOTA_ADDRESS] = "per_address_max"};
    struct rn_peer peer;
    int on = 1;

    rn_address_peer(from, &peer);
    enum rn_conn_quota_answer answer = rn_conn_quota_take(acceptor->listener->quota, &peer);
    if (answer != RN_CONN_QUOTA_OK) {
        rn_tally_add(&acceptor->listener->tallies[acceptor->loop->index].refused, 1);
        rn_log(RN_LOG_WARN, "conn.refused",
               RN_LOG_TEXT("listener", rn_slice_of(acceptor->listener->name)),
               RN_LOG_TEXT("peer", rn_slice_of(peer.text)),
               RN_LOG_TEXT("over", rn_slice_of(over[answer])));
        close(fd);
        return;
    }
    if (acceptor->socket->is_tcp)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    rn_conn_start(acceptor, fd, &peer);
}

/* False: no client is left, or accepting pauses. */
static bool accept_one(struct rn_acceptor *acceptor)
{
    struct rn_address from = {.len = sizeof from.to};

    if (!find_room(acceptor))
        return false;
    int fd = accept4(acceptor->socket->fd, &from.to.any, &from.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        admit(acceptor, fd, &from);
        return true;
    }
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM: {
        int code = errno;

        if (rn_shed_quiet(acceptor->loop, true) > 0)
            return true;
        rn_log(RN_LOG_WARN, "accept.paused",
               RN_LOG_TEXT("listener", rn_slice_of(acceptor->listener->name)),
               RN_LOG_TEXT("reason", rn_slice_of(strerror(code))), RN_LOG_NUMBER("ms", 100));
        pause_for(acceptor, PAUSE_NS);
        return false;
    }
    case EAGAIN:
        return false;
    default:
        return true; /* the client has left already: accept(2) */
    }
}

static void accept_batch(struct rn_acceptor *acceptor)
{
    for (int i = 0; i < BATCH && accept_one(acceptor); i++)
        ;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct rn_acceptor *acceptor = poll->data;

    (void)status, (void)events;
    rn_loop_update(acceptor->loop);
    accept_batch(acceptor);
}

int rn_accept_open(struct rn_loop *loop, struct rn_listener *listener, struct rn_socket *socket)
{
    struct rn_acceptor *acceptor = calloc(1, sizeof *acceptor);
    int failed = acceptor ? uv_poll_init(&loop->uv, &acceptor->poll, socket->fd) : -ENOMEM;

    if (failed != 0) {
        free(acceptor);
        return failed;
    }
    acceptor->poll.data = acceptor;
    acceptor->listener = listener;
    acceptor->socket = socket;
    acceptor->loop = loop;
    acceptor->resume.fire = resume;
    acceptor->next = loop->acceptors;
    loop->acceptors = acceptor;
    return loop->accept_later ? 0 : uv_poll_start(&acceptor->poll, UV_READABLE, on_connection);
}

void rn_accept_start_all(struct rn_loop *loop)
{
    loop->accept_later = false;
    for (struct rn_acceptor *acceptor = loop->acceptors; acceptor; acceptor = acceptor->next)
        uv_poll_start(&acceptor->poll, UV_READABLE, on_connection);
}

static void free_acceptor(uv_handle_t *handle)
{
    free(handle->data);
}

void rn_accept_close_all(struct rn_loop *loop)
{
    for (struct rn_acceptor *acceptor = loop->acceptors, *next; acceptor; acceptor = next) {
        next = acceptor->next;
        if (!acceptor->socket->stored) /* else they are for the next process */
            accept_batch(acceptor);
        rn_timer_cancel(&loop->wheel, &acceptor->resume);
        uv_close((uv_handle_t *)&acceptor->poll, free_acceptor);
        rn_listener_release_socket(acceptor->socket);
    }
    loop->acceptors = NULL;
}
