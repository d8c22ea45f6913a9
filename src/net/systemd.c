/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets: systemd passes $LISTEN_FDS file descriptors, from 3 on, to the process
 * $LISTEN_PID. $LISTEN_FDNAMES has their names, separated by colons; several may have the
 * same name, for instance one for IPv4 and one for IPv6. Those of a socket unit have the
 * name of a listener. Those that the last process of this service has stored
 * (FileDescriptorStoreMax=) have the same name after "stored-".
 */
#include "net/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/number.h"
#include "base/slice.h"
#include "net/listener.h"
#include "net/log.h"

#define FIRST_FD 3
#define STORED "stored-"
#define SEND_WAIT_S 1

/* 0: the variable is not set, or is no number. */
static uint64_t read_variable(const char *variable)
{
    const char *text = getenv(variable);
    size_t pos = 0;
    uint64_t n;

    return text && rn_number_parse(text, strlen(text), &pos, &n, NULL) == 0 && text[pos] == '\0'
               ? n
               : 0;
}

/* A walk over the descriptors that were passed to us, in their order. */
struct walk {
    int fd;
    struct rn_slice name;
    const char *rest; /* names of those that follow */
    uint64_t left;
};

static struct walk begin_walk(void)
{
    const char *names = getenv("LISTEN_FDNAMES");
    bool for_us = names && read_variable("LISTEN_PID") == (uint64_t)getpid();

    return (struct walk){
        .fd = FIRST_FD - 1, .rest = names, .left = for_us ? read_variable("LISTEN_FDS") : 0};
}

/* False: there are no more with a name. */
static bool walk_on(struct walk *walk)
{
    if (walk->left == 0 || !walk->rest || walk->fd == INT_MAX)
        return false;
    walk->fd++;
    walk->left--;
    walk->name = (struct rn_slice){walk->rest, strcspn(walk->rest, ":")};
    walk->rest = walk->rest[walk->name.len] == ':' ? walk->rest + walk->name.len + 1 : NULL;
    return true;
}

/* The same for those that are called `prefix` and `name`. */
static bool walk_on_to(struct walk *walk, const char *prefix, struct rn_slice name)
{
    size_t before = strlen(prefix);

    while (walk_on(walk))
        if (walk->name.len == before + name.len && strncmp(walk->name.data, prefix, before) == 0 &&
            memcmp(walk->name.data + before, name.data, name.len) == 0)
            return true;
    return false;
}

static bool listens(int fd)
{
    int listens = 0;
    socklen_t len = sizeof listens;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens;
}

/* Peers of another family would have no address, and count as local. */
static bool is_known_family(const struct rn_address *address)
{
    int family = address->to.any.sa_family;

    return family == AF_INET || family == AF_INET6 || family == AF_UNIX;
}

static int adopt(struct rn_listener *listener, int fd, unsigned loops, struct ration_error *error)
{
    struct rn_socket *socket = &listener->sockets[listener->count];
    int type = 0;
    socklen_t len = sizeof type;

    if (!listens(fd) || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 ||
        type != SOCK_STREAM)
        return rn_error_set(error, RATION_EIO, 0,
                            "file descriptor %d, passed as \"%s\" by the service manager, is not "
                            "a stream socket that listens; use ListenStream= and Accept=no",
                            fd, listener->name);
    *socket =
        (struct rn_socket){.fd = fd, .users = loops, .address.len = sizeof socket->address.to};
    getsockname(fd, &socket->address.to.any, &socket->address.len);
    if (!is_known_family(&socket->address))
        return rn_error_set(error, RATION_EIO, 0,
                            "file descriptor %d, passed as \"%s\" by the service manager, is a "
                            "socket of family %d; use ListenStream= with an IPv4 or IPv6 address "
                            "or a path",
                            fd, listener->name, socket->address.to.any.sa_family);
    socket->is_tcp = socket->address.to.any.sa_family != AF_UNIX;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    listener->count++;
    return 0;
}

static int adopt_all(struct rn_listener *listener, const char *prefix, unsigned loops,
                     struct ration_error *error)
{
    struct walk walk = begin_walk();
    int failed = 0;

    while (failed == 0 && walk_on_to(&walk, prefix, rn_slice_of(listener->name))) {
        void *more = realloc(listener->sockets, (listener->count + 1) * sizeof(struct rn_socket));

        if (!more)
            return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
        listener->sockets = more;
        failed = adopt(listener, walk.fd, loops, error);
    }
    if (listener->count > 0)
        rn_address_write(&listener->sockets[0].address, listener->address);
    return failed;
}

int rn_systemd_take_sockets(struct rn_listener *listener, unsigned loops, bool *taken,
                            struct ration_error *error)
{
    int failed = adopt_all(listener, "", loops, error);

    listener->passed = listener->shared = *taken = listener->count > 0;
    if (listener->passed) {
        rn_systemd_drop_stored(listener->name);
    } else if (failed == 0 && (failed = adopt_all(listener, STORED, 1, error)) == RATION_EIO) {
        /* They listen no more: the last process was dropping them when it was killed. */
        rn_systemd_drop_stored(listener->name);
        listener->count = 0;
        failed = 0;
    }
    for (size_t i = 0; i < listener->count; i++)
        listener->sockets[i].stored = !listener->passed;
    return failed;
}

/* Sends a state to $NOTIFY_SOCKET, with a file descriptor unless that is -1. A service manager that
 * is busy is waited for, one that hangs is not; WATCHDOG=1 waits for none, for it is repeated. */
static bool send_state(const char *text, size_t len, int fd)
{
    const char *target = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t path_len = target ? strlen(target) : 0;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {(char *)text, len};
    struct msghdr message = {.msg_name = &to,
                             .msg_namelen =
                                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_len),
                             .msg_iov = &part,
                             .msg_iovlen = 1};

    /* "/path", or "@name" in the abstract name space. */
    if (path_len == 0 || (target[0] != '/' && target[0] != '@') || path_len >= sizeof to.sun_path)
        return false;
    memcpy(to.sun_path, target, path_len);
    if (target[0] == '@')
        to.sun_path[0] = '\0';
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    int through = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (through < 0)
        return false;
    bool repeats = strncmp(text, "WATCHDOG=1", len) == 0;
    setsockopt(through, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){.tv_sec = SEND_WAIT_S},
               sizeof(struct timeval));
    ssize_t sent = sendmsg(through, &message, MSG_NOSIGNAL | (repeats ? MSG_DONTWAIT : 0));
    close(through);
    return sent > 0;
}

bool rn_systemd_notify(const char *state)
{
    char text[512];
    int len = snprintf(text, sizeof text, "%s", state);

    if (len >= 0 && (size_t)len < sizeof text && strncmp(state, "RELOADING=1", 11) == 0)
        len += snprintf(text + len, sizeof text - (size_t)len, "\nMONOTONIC_USEC=%lld",
                        (long long)(rn_clock_read_ns(CLOCK_MONOTONIC) / 1000));
    return len >= 0 && (size_t)len < sizeof text && send_state(text, (size_t)len, -1);
}

int64_t rn_systemd_watchdog_ns(void)
{
    uint64_t us = read_variable("WATCHDOG_USEC");
    bool for_us = !getenv("WATCHDOG_PID") || read_variable("WATCHDOG_PID") == (uint64_t)getpid();

    return for_us && us <= INT64_MAX / 1000 ? (int64_t)us * 1000 : 0;
}

/* --- the store ------------------------------------------------------------------------------- */

size_t rn_systemd_store_size(void)
{
    return getenv("NOTIFY_SOCKET") ? read_variable("FDSTORE") : 0;
}

/* FDPOLL=0: systemd must not drop a descriptor because of what poll(2) says of it. */
void rn_systemd_store_sockets(struct rn_listener *listener, size_t *room)
{
    char text[256];
    int len =
        snprintf(text, sizeof text, "FDSTORE=1\nFDPOLL=0\nFDNAME=" STORED "%s", listener->name);

    for (size_t i = 0; !listener->passed && i<listener->count && * room> 0; i++) {
        struct rn_socket *socket = &listener->sockets[i];

        socket->stored = socket->stored || send_state(text, (size_t)len, socket->fd);
        *room = socket->stored ? *room - 1 : 0; /* one that hangs is not waited for again */
    }
}

/* They listen no more from here on, though systemd closes its copies later: it may be busy, and
 * the new address may be in their way. */
static void drop_stored(struct rn_slice name)
{
    struct walk walk = begin_walk();
    char text[512];
    int len = snprintf(text, sizeof text, "FDSTOREREMOVE=1\nFDNAME=" STORED "%.*s", (int)name.len,
                       name.data);
    bool is_sent = false;

    while (walk_on_to(&walk, STORED, name)) {
        if (!is_sent && (size_t)len < sizeof text)
            send_state(text, (size_t)len, -1);
        is_sent = true;
        if (shutdown(walk.fd, SHUT_RDWR) == 0 || errno == ENOTCONN) /* else no socket */
            close(walk.fd);
    }
}

void rn_systemd_drop_stored(const char *name)
{
    drop_stored(rn_slice_of(name));
}

void rn_systemd_settle_rest(const char *const *names, size_t count)
{
    static const size_t before = sizeof STORED - 1;

    for (struct walk walk = begin_walk(); walk_on(&walk);) {
        bool stored = walk.name.len > before && memcmp(walk.name.data, STORED, before) == 0;
        struct rn_slice name = walk.name;
        bool taken = false;

        if (stored)
            name = (struct rn_slice){name.data + before, name.len - before};
        for (size_t i = 0; i < count; i++)
            taken |= rn_slice_is(name, names[i]);
        if (taken || (!stored && !listens(walk.fd)))
            continue;
        if (stored)
            drop_stored(name);
        else
            rn_log(RN_LOG_WARN, "socket.unused", RN_LOG_TEXT("name", name),
                   RN_LOG_NUMBER("descriptor", walk.fd),
                   RN_LOG_TEXT("meaning", RN_SLICE("clients that connect there get no answer")),
                   RN_LOG_TEXT("advice", RN_SLICE("write FileDescriptorName= http, resp, grpc or "
                                                  "admin in the socket unit, and an address, not "
                                                  "none, for this listener")));
    }
}
