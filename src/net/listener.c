/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding, with no other process on the same address: two daemons side by side would
 * silently double every limit.
 *
 * TCP: the first socket is bound and listens without SO_REUSEPORT, which fails if any
 * other process listens there, whatever its options. Only then is the option set, and the
 * sockets of the other loops join.
 *
 * Sockets that the last process of this service has stored with systemd are used again. There
 * may be more or fewer of them than loops.
 *
 * Unix: under a lock on the directory. Otherwise two daemons that start at once could both
 * find the socket of a dead one and replace each other.
 */
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "net/systemd.h"

#define BACKLOG 4096 /* the kernel lowers it to net.core.somaxconn */
#define SOCKET_MODE 0660

static int fail_io(struct ration_error *error, const char *what, const struct rn_address *address,
                   int code)
{
    char text[RN_ADDRESS_TEXT];

    rn_address_write(address, text);
    return rn_error_set(error, RATION_EIO, 0, "cannot %s %s: %s%s", what, text,
                        code == EADDRINUSE ? "another process is listening there; stop it or "
                                             "choose another address"
                                           : strerror(code),
                        code == EACCES && address->to.any.sa_family != AF_UNIX
                            ? "; choose a port from 1024 on, grant CAP_NET_BIND_SERVICE, or let "
                              "systemd pass the socket"
                            : "");
}

static void set_option(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

static int open_socket(const struct rn_address *address)
{
    int family = address->to.any.sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (family != AF_UNIX)
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1); /* despite connections in TIME_WAIT */
    if (family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !address->everywhere);
    return fd;
}

static bool bind_and_listen(int fd, const struct rn_address *address)
{
    return bind(fd, &address->to.any, address->len) == 0 && listen(fd, BACKLOG) == 0;
}

static int listen_first(struct rn_socket *first, struct rn_address *address,
                        struct ration_error *error)
{
    first->fd = open_socket(address);
    if (first->fd < 0 && errno == EAFNOSUPPORT && address->everywhere) {
        /* A machine without IPv6: ":port" is IPv4. */
        struct sockaddr_in6 v6;
        memcpy(&v6, &address->to, sizeof v6);
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6.sin6_port};
        *address = (struct rn_address){.len = sizeof v4};
        memcpy(&address->to, &v4, sizeof v4);
        first->fd = open_socket(address);
    }
    if (first->fd < 0)
        return fail_io(error, "listen on", address, errno);
    if (!bind_and_listen(first->fd, address))
        return fail_io(error, "listen on", address, errno);
    bool everywhere = address->everywhere;
    address->len = sizeof address->to;
    if (getsockname(first->fd, &address->to.any, &address->len) != 0)
        return fail_io(error, "listen on", address, errno);
    address->everywhere = everywhere;
    set_option(first->fd, SOL_SOCKET, SO_REUSEPORT, 1);
    return 0;
}

static int listen_tcp(struct rn_listener *listener, size_t stored, struct rn_address *address,
                      struct ration_error *error)
{
    int failed = stored > 0 ? 0 : listen_first(&listener->sockets[0], address, error);

    for (size_t i = 0; failed == 0 && i < listener->count; i++) {
        struct rn_socket *socket = &listener->sockets[i];

        if (i > 0 && i >= stored) {
            socket->fd = open_socket(address);
            if (socket->fd >= 0)
                set_option(socket->fd, SOL_SOCKET, SO_REUSEPORT, 1);
            if (socket->fd < 0 || !bind_and_listen(socket->fd, address))
                return fail_io(error, "listen on", address, errno);
        }
        socket->is_tcp = true;
        socket->address = *address;
    }
    return failed;
}

/* Removes the socket of a daemon that has ended. */
static int clear_path(const struct rn_address *address, struct ration_error *error)
{
    const char *path = address->to.un.sun_path;
    struct stat is;

    if (lstat(path, &is) != 0)
        return 0;
    if (!S_ISSOCK(is.st_mode))
        return rn_error_set(error, RATION_EIO, 0,
                            "cannot listen on unix:%s: there is a file that is not a socket; "
                            "remove it or choose another path",
                            path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool dead =
        fd >= 0 && connect(fd, &address->to.any, address->len) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    if (!dead)
        return fail_io(error, "listen on", address, EADDRINUSE);
    return unlink(path) == 0 ? 0 : fail_io(error, "replace", address, errno);
}

static void own_path(struct rn_socket *socket, const struct rn_address *address,
                     const struct stat *is)
{
    socket->unlinks = true;
    socket->device = is->st_dev;
    socket->inode = is->st_ino;
    socket->address = *address;
}

/* Goes on without a lock if the directory cannot be locked. No client can connect before
 * listen(2), so the mode is right from the start. */
static int listen_unix(struct rn_socket *socket, const struct rn_address *address,
                       struct ration_error *error)
{
    const char *path = address->to.un.sun_path, *slash = strrchr(path, '/');
    char *directory =
        slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    int lock = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, failed;
    struct stat is;

    free(directory);
    if (lock >= 0)
        flock(lock, LOCK_EX);
    failed = clear_path(address, error);
    if (failed == 0 &&
        ((socket->fd = open_socket(address)) < 0 ||
         bind(socket->fd, &address->to.any, address->len) != 0 || chmod(path, SOCKET_MODE) != 0 ||
         lstat(path, &is) != 0 || listen(socket->fd, BACKLOG) != 0))
        failed = fail_io(error, "listen on", address, errno);
    if (failed == 0)
        own_path(socket, address, &is);
    if (lock >= 0)
        close(lock);
    return failed;
}

/* Whether a stored socket listens on this address, and clients reach it there. */
static bool listens_on(struct rn_socket *socket, const struct rn_address *address)
{
    char stored[RN_ADDRESS_TEXT], wanted[RN_ADDRESS_TEXT];
    int v6_only = 0;
    socklen_t len = sizeof v6_only;
    struct stat is;

    rn_address_write(&socket->address, stored);
    rn_address_write(address, wanted);
    if (strcmp(stored, wanted) != 0)
        return false;
    if (address->to.any.sa_family == AF_INET6)
        return getsockopt(socket->fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, &len) == 0 &&
               (v6_only != 0) == !address->everywhere;
    if (address->to.any.sa_family != AF_UNIX)
        return true;
    if (lstat(address->to.un.sun_path, &is) != 0 || !S_ISSOCK(is.st_mode))
        return false;
    own_path(socket, address, &is);
    return true;
}

int rn_listener_open(struct rn_listener *listener, const char *text, unsigned loops,
                     struct ration_error *error)
{
    struct rn_address address;
    int failed = rn_address_parse(text, &address, error);

    if (failed != 0)
        return failed;
    if (listener->count > 0 && !listens_on(&listener->sockets[0], &address)) {
        rn_systemd_drop_stored(listener->name);
        listener->count = 0;
    }
    size_t stored = listener->count;
    listener->shared = address.to.any.sa_family == AF_UNIX;
    size_t count = listener->shared ? 1 : stored > loops ? stored : loops;
    void *sockets = realloc(listener->sockets, count * sizeof *listener->sockets);
    if (!sockets)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    listener->sockets = sockets;
    listener->count = count;
    for (size_t i = 0; i < count; i++) {
        if (i >= stored)
            listener->sockets[i] = (struct rn_socket){.fd = -1};
        listener->sockets[i].users = listener->shared ? loops : 1;
    }
    if (!listener->shared)
        failed = listen_tcp(listener, stored, &address, error);
    else if (stored == 0)
        failed = listen_unix(&listener->sockets[0], &address, error);
    rn_address_write(&address, listener->address);
    return failed;
}

static void close_socket(struct rn_socket *socket)
{
    const char *path = socket->address.to.un.sun_path;
    struct stat is;

    /* The path may name another process's socket by now. */
    if (socket->unlinks && !socket->stored && lstat(path, &is) == 0 &&
        is.st_dev == socket->device && is.st_ino == socket->inode)
        unlink(path);
    if (socket->fd >= 0)
        close(socket->fd);
    socket->fd = -1;
}

void rn_listener_release_socket(struct rn_socket *socket)
{
    if (atomic_fetch_sub_explicit(&socket->users, 1, memory_order_acq_rel) == 1)
        close_socket(socket);
}

void rn_listener_done(struct rn_listener *listener)
{
    for (size_t i = 0; i < listener->count; i++)
        if (atomic_load_explicit(&listener->sockets[i].users, memory_order_acquire) > 0)
            close_socket(&listener->sockets[i]);
    free(listener->sockets);
    free(listener->tallies);
    free(listener->name);
}
