/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Socket activation: systemd passes $LISTEN_FDS file descriptors, from 3 on, to the
 * process $LISTEN_PID. $LISTEN_FDNAMES has their names, separated by colons; several may
 * have the same name, for instance one for IPv4 and one for IPv6.
 */
#include "net/systemd.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/listener.h"

#define FIRST_FD 3

/* 0: the variable is not set. */
static unsigned long read_variable(const char *variable)
{
    const char *text = getenv(variable);

    return text ? strtoul(text, NULL, 10) : 0;
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

int rn_systemd_take_sockets(struct rn_listener *listener, unsigned loops, bool *taken,
                            struct ration_error *error)
{
    const char *names = getenv("LISTEN_FDNAMES");
    bool for_us = names && read_variable("LISTEN_PID") == (unsigned long)getpid();
    size_t passed = for_us ? read_variable("LISTEN_FDS") : 0;
    int failed = 0;

    *taken = false;
    for (size_t i = 0; i < passed && failed == 0 && names; i++) {
        struct rn_slice name = {names, strcspn(names, ":")};

        names = names[name.len] == ':' ? names + name.len + 1 : NULL;
        if (!rn_slice_is(name, listener->name))
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

bool rn_systemd_notify(const char *state)
{
    const char *target = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t path_len = target ? strlen(target) : 0;
    char text[512];
    int len = snprintf(text, sizeof text, "%s", state);

    /* "/path", or "@name" in the abstract name space. */
    if (path_len == 0 || (target[0] != '/' && target[0] != '@') || path_len >= sizeof to.sun_path ||
        len < 0 || (size_t)len >= sizeof text)
        return false;
    memcpy(to.sun_path, target, path_len);
    if (target[0] == '@')
        to.sun_path[0] = '\0';
    if (strncmp(state, "RELOADING=1", 11) == 0)
        len += snprintf(text + len, sizeof text - (size_t)len, "\nMONOTONIC_USEC=%lld",
                        (long long)(rn_clock_read_ns(CLOCK_MONOTONIC) / 1000));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    ssize_t sent =
        sendto(fd, text, strnlen(text, (size_t)len), MSG_NOSIGNAL, (const struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_len));
    close(fd);
    return sent > 0;
}
