/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting. If there is no place, quiet connections are closed to make room, of
 * other loops, too: whoever comes waits for them. Those for whom there is none are
 * closed at once. Without file descriptors we stop asking for a while, since the
 * kernel would go on telling us that somebody waits.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/caps.h"
#include "net/log.h"
#include "net/loop.h"
#include "net/server_inner.h"

#define BATCH 64
#define PAUSE_NS INT64_C(100000000)
#define ROOM_NS INT64_C(20000000) /* until there may be room */

static void on_connection(uv_poll_t *poll, int status, int events);

static void resume(struct rn_timer *timer)
{
    struct rn_port *port = (struct rn_port *)((char *)timer - offsetof(struct rn_port, resume));

    uv_poll_start(&port->poll, UV_READABLE, on_connection);
}

static void pause_for(struct rn_port *port, int64_t ns)
{
    uv_poll_stop(&port->poll);
    rn_timer_set(&port->loop->wheel, &port->resume, port->loop->wheel.now_ns + ns);
}

static void pause_accepting(struct rn_port *port, int code)
{
    rn_log(RN_LOG_WARN, "accept.paused", RN_LOG_TEXT("listener", rn_slice_of(port->listener->name)),
           RN_LOG_TEXT("reason", rn_slice_of(strerror(code))), RN_LOG_NUMBER("ms", 100));
    pause_for(port, PAUSE_NS);
}

/* False: nobody waits, or room may be found in a moment, on other loops, too, and the next one
 * waits for it. */
static bool find_room(struct rn_port *port)
{
    struct pollfd next = {.fd = port->socket->fd, .events = POLLIN};

    if (rn_caps_are_taken(port->listener->caps) && poll(&next, 1, 0) != 1)
        return false;
    if (!rn_caps_are_taken(port->listener->caps) || rn_relief_make_room(port->loop) > 0) {
        port->waited = false;
        return true;
    }
    if (port->waited || port->loop->draining)
        return true; /* it will be refused */
    port->waited = true;
    if (!port->listener->on_control)
        rn_relief_ask(port->loop);
    pause_for(port, ROOM_NS);
    return false;
}

static void refuse(struct rn_port *port, const struct rn_peer *peer, enum rn_caps_answer why)
{
    static const char *const caps[] = {
        [RN_CAPS_TOTAL] = "connections_max", [RN_CAPS_ADDRESS] = "per_address_max"};

    rn_tally_add(&port->listener->tallies[port->loop->index].refused, 1);
    rn_log(RN_LOG_WARN, "conn.refused", RN_LOG_TEXT("listener", rn_slice_of(port->listener->name)),
           RN_LOG_TEXT("peer", rn_slice_of(peer->text)),
           RN_LOG_TEXT("over", rn_slice_of(caps[why])));
}

static void admit(struct rn_port *port, int fd, const struct rn_address *from)
{
    struct rn_peer peer;
    int on = 1;

    rn_address_peer(from, &peer);
    enum rn_caps_answer answer = rn_caps_take(port->listener->caps, &peer);
    if (answer != RN_CAPS_OK) {
        refuse(port, &peer, answer);
        close(fd);
        return;
    }
    if (port->socket->is_tcp)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    rn_conn_start(port, fd, &peer);
}

/* False: there is nothing more, or nothing can be done. */
static bool accept_one(struct rn_port *port)
{
    struct rn_address from = {.len = sizeof from.to};

    if (!find_room(port))
        return false;
    int fd = accept4(port->socket->fd, &from.to.any, &from.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        admit(port, fd, &from);
        return true;
    }
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM: {
        int code = errno;

        if (rn_relief_make_room(port->loop) > 0)
            return true;
        pause_accepting(port, code);
        return false;
    }
    case EAGAIN:
        return false;
    default:
        return true; /* one that was gone before we came: accept(2) */
    }
}

static void accept_batch(struct rn_port *port)
{
    for (int i = 0; i < BATCH && accept_one(port); i++)
        ;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct rn_port *port = poll->data;

    (void)status, (void)events;
    rn_loop_update(port->loop);
    accept_batch(port);
}

int rn_port_open(struct rn_loop *loop, struct rn_listener *listener, struct rn_socket *socket)
{
    struct rn_port *port = calloc(1, sizeof *port);
    int failed = port ? uv_poll_init(&loop->uv, &port->poll, socket->fd) : -ENOMEM;

    if (failed != 0) {
        free(port);
        return failed;
    }
    port->poll.data = port;
    port->listener = listener;
    port->socket = socket;
    port->loop = loop;
    port->resume.fire = resume;
    port->next = loop->ports;
    loop->ports = port;
    return loop->holds ? 0 : uv_poll_start(&port->poll, UV_READABLE, on_connection);
}

/* That polling a socket begins cannot fail: it was initialised. */
void rn_port_begin_all(struct rn_loop *loop)
{
    loop->holds = false;
    for (struct rn_port *port = loop->ports; port; port = port->next)
        uv_poll_start(&port->poll, UV_READABLE, on_connection);
}

static void free_port(uv_handle_t *handle)
{
    free(handle->data);
}

void rn_port_close_all(struct rn_loop *loop)
{
    for (struct rn_port *port = loop->ports, *next; port; port = next) {
        next = port->next;
        accept_batch(port);
        rn_timer_cancel(&loop->wheel, &port->resume);
        uv_close((uv_handle_t *)&port->poll, free_port);
        rn_socket_release(port->socket);
    }
    loop->ports = NULL;
}
