/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket activation: file descriptors from 3 on, $LISTEN_FDS of them, meant for
 * the process $LISTEN_PID, named by $LISTEN_FDNAMES with colons between. Several
 * may have one name: IPv4 and IPv6, say.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "net/listener.h"

#define FIRST_FD 3

/* The number in the variable; 0 if there is none. */
static unsigned long read_number(const char *variable)
{
    const char *text = getenv(variable);

    return text ? strtoul(text, NULL, 10) : 0;
}

static size_t count_passed(void)
{
    return read_number("LISTEN_PID") == (unsigned long)getpid() ? read_number("LISTEN_FDS") : 0;
}

/* Whether the i-th name is this one. */
static bool is_named(const char *names, size_t i, const char *name)
{
    for (; i > 0 && names; i--)
        names = (names = strchr(names, ':')) ? names + 1 : NULL;
    size_t len = strlen(name);
    return names && strncmp(names, name, len) == 0 && (names[len] == ':' || names[len] == '\0');
}

static int adopt(struct rn_listener *listener, int fd, unsigned loops, struct ration_error *error)
{
    struct rn_socket *socket = &listener->sockets[listener->count];
    int listens = 0, type = 0;
    socklen_t len = sizeof listens;

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || !listens ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM)
        return rn_error_set(error, RATION_EIO, 0,
                            "file descriptor %d, passed as \"%s\" by the service manager, is not "
                            "a stream socket that listens; use ListenStream= and Accept=no",
                            fd, listener->name);
    *socket =
        (struct rn_socket){.fd = fd, .users = loops, .address.len = sizeof socket->address.to};
    getsockname(fd, &socket->address.to.any, &socket->address.len);
    socket->is_tcp = socket->address.to.any.sa_family != AF_UNIX;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    listener->count++;
    return 0;
}

int rn_activation_take(struct rn_listener *listener, unsigned loops, bool *taken,
                       struct ration_error *error)
{
    const char *names = getenv("LISTEN_FDNAMES");
    size_t passed = names ? count_passed() : 0;
    int failed = 0;

    *taken = false;
    for (size_t i = 0; i < passed && failed == 0; i++) {
        if (!is_named(names, i, listener->name))
            continue;
        void *more = realloc(listener->sockets, (listener->count + 1) * sizeof(struct rn_socket));
        if (!more)
            return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
        listener->sockets = more;
        failed = adopt(listener, FIRST_FD + (int)i, loops, error);
        *taken = true;
    }
    if (listener->count > 0)
        rn_address_write(&listener->sockets[0].address, listener->address);
    listener->shared = *taken;
    return failed;
}
