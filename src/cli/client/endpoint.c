/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/clock.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

#define HERE "127.0.0.1"

/* --- the address ------------------------------------------------------------------- */

static bool complain(const char *source, const char *text, const char *why)
{
    return rn_output_error("%s: %s is not an address: %s; write one such as 127.0.0.1:8080, :8080, "
                           "[::1]:8080 or unix:/run/ration.sock",
                           source, rn_excerpt(rn_slice_of(text)).text, why);
}

static bool look_up(const char *source, const char *text, const char *port,
                    struct rn_endpoint_address *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    int code = getaddrinfo(address->host, port, &hints, &found);

    if (code != 0)
        return complain(source, text, gai_strerror(code));
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        /* Prefer IPv4: daemons listen on 127.0.0.1 by default, and localhost often resolves to ::1
         * first. */
        if (address->len != 0 && a->ai_family != AF_INET)
            continue;
        memcpy(&address->socket, a->ai_addr, a->ai_addrlen);
        address->len = a->ai_addrlen;
        if (a->ai_family == AF_INET)
            break;
    }
    freeaddrinfo(found);
    return true;
}

/* Removes a scheme such as https://, and the / at the end of a URL. */
static void take_scheme(const char *text, struct rn_endpoint_address *address)
{
    static const struct {
        const char *name;
        enum rn_endpoint_protocol protocol;
        bool tls;
    } schemes[] = {{"http://", RN_ENDPOINT_HTTP, false},
                   {"https://", RN_ENDPOINT_HTTP, true},
                   {"redis://", RN_ENDPOINT_RESP, false},
                   {"rediss://", RN_ENDPOINT_RESP, true}};
    size_t len;

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strncmp(text, schemes[i].name, strlen(schemes[i].name)) != 0)
            continue;
        text += strlen(schemes[i].name);
        address->protocol = schemes[i].protocol;
        address->tls = schemes[i].tls;
    }
    len = strlen(text) - (address->protocol != RN_ENDPOINT_ANY && text[0] != '\0' &&
                          text[strlen(text) - 1] == '/');
    snprintf(address->text, sizeof address->text, "%s%.*s", text[0] == ':' ? HERE : "", (int)len,
             text);
}

/* False after an error message. */
static bool parse_address(const char *source, const char *given,
                          struct rn_endpoint_address *address)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&address->socket;
    const char *text = address->text, *path = text + 5, *colon;
    size_t len;

    *address = (struct rn_endpoint_address){.len = 0};
    if (strlen(given) >= RN_ENDPOINT_TEXT - sizeof HERE)
        return complain(source, given, "it is too long");
    take_scheme(given, address);
    if (strncmp(text, "unix:", 5) == 0) {
        if (address->tls)
            return complain(source, given, "unix sockets do not speak TLS");
        if (path[0] == '\0')
            return complain(source, text, "no path behind unix:");
        if (strlen(path) >= sizeof un->sun_path)
            return complain(source, text, "paths of sockets have at most 107 bytes");
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, path, strlen(path) + 1);
        address->len = sizeof *un;
        return true;
    }
    colon = strrchr(text, ':');
    if (colon == NULL)
        return complain(source, given, "it has no port");
    if (colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strlen(colon + 1) > 5 || strtoul(colon + 1, NULL, 10) > 65535 ||
        strtoul(colon + 1, NULL, 10) == 0)
        return complain(source, given, "a port is a number from 1 to 65535");
    len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']')
        snprintf(address->host, sizeof address->host, "%.*s", (int)len - 2, text + 1);
    else if (memchr(text, ':', len) == NULL)
        snprintf(address->host, sizeof address->host, "%.*s", (int)len, text);
    else
        return complain(source, given, "an IPv6 address must be in brackets");
    return look_up(source, given, colon + 1, address);
}

bool rn_endpoint_is_local(const struct rn_endpoint *endpoint)
{
    const struct sockaddr_storage *socket = &endpoint->address.socket;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)socket;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)socket;

    if (socket->ss_family == AF_INET)
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    if (socket->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
    return socket->ss_family == AF_UNIX;
}

/* --- with its TLS configuration ------------------------------------------------------ */

const char *rn_endpoint_environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static const char *given_or(const char *given, const char *name)
{
    return given != NULL ? given : rn_endpoint_environment(name);
}

static const char *scheme_of(enum rn_endpoint_protocol protocol, bool tls)
{
    if (protocol == RN_ENDPOINT_RESP)
        return tls ? "rediss://" : "redis://";
    return tls ? "https://" : "http://";
}

bool rn_endpoint_init(struct rn_endpoint *endpoint, const struct rn_options *o, const char *source,
                      const char *text, enum rn_endpoint_protocol protocol)
{
    struct rn_cli_tls_files files = {.ca = given_or(o->cacert, "RATION_CACERT"),
                                     .cert = given_or(o->cert, "RATION_CERT"),
                                     .key = given_or(o->key, "RATION_KEY")};
    const char *option = o->cacert != NULL ? "--cacert" : o->cert != NULL ? "--cert" : "--key";
    struct rn_endpoint_address *address = &endpoint->address;
    char problem[RN_CLI_TLS_PROBLEM];

    *endpoint = (struct rn_endpoint){.tls_config = NULL};
    if (!parse_address(source, text, address))
        return false;
    if (address->protocol != RN_ENDPOINT_ANY && address->protocol != protocol)
        return rn_output_error("%s: found %s, expected %s or %s", source,
                               rn_excerpt(rn_slice_of(text)).text, scheme_of(protocol, false),
                               scheme_of(protocol, true));
    if (!address->tls) { /* then options for TLS are a mistake */
        if (o->cacert == NULL && o->cert == NULL && o->key == NULL)
            return true;
        return rn_output_error("%s is for TLS; write the address as %s%s", option,
                               scheme_of(protocol, true),
                               address->host[0] != '\0' ? address->text : "HOST:PORT");
    }
    if (files.key != NULL && files.cert == NULL)
        return rn_output_error("--key needs a certificate, too; --cert FILE names it");
    if (files.key == NULL)
        files.key = files.cert; /* both may be in one file */
    endpoint->tls_config = rn_cli_tls_config_new(&files, problem);
    if (endpoint->tls_config == NULL)
        rn_output_error("%s", problem);
    return endpoint->tls_config != NULL;
}

void rn_endpoint_done(struct rn_endpoint *endpoint)
{
    rn_cli_tls_config_free(endpoint->tls_config);
    endpoint->tls_config = NULL;
}

/* --- connecting -------------------------------------------------------------------- */

bool rn_endpoint_wait(const struct rn_endpoint *endpoint, const struct rn_stream *stream,
                      short events, const struct rn_endpoint_deadline *until,
                      char problem[RN_ENDPOINT_PROBLEM])
{
    struct pollfd fds[2] = {{.fd = stream->fd, .events = events},
                            {.fd = until->wake_fd, .events = POLLIN}};
    int ready;

    do {
        int64_t left_ns = until->ns - rn_clock_read_ns(CLOCK_MONOTONIC);

        ready = poll(fds, 2, left_ns <= 0 ? 0 : (int)(left_ns / 1000000) + 1);
    } while (ready < 0 && errno == EINTR);
    if (ready > 0 && fds[1].revents == 0)
        return true;
    if (ready > 0)
        snprintf(problem, RN_ENDPOINT_PROBLEM, "interrupted");
    else
        snprintf(problem, RN_ENDPOINT_PROBLEM, "rationd at %s does not answer in time; %s",
                 endpoint->address.text, until->advice);
    return false;
}

bool rn_endpoint_fail(const struct rn_endpoint *endpoint, const struct rn_stream *stream,
                      char problem[RN_ENDPOINT_PROBLEM])
{
    const char *address = endpoint->address.text;

    if (errno == EPROTO && stream->tls != NULL)
        snprintf(problem, RN_ENDPOINT_PROBLEM, "no TLS with %s: %s", address, stream->tls->problem);
    else
        snprintf(problem, RN_ENDPOINT_PROBLEM, "the connection to %s broke: %s", address,
                 strerror(errno));
    return false;
}

bool rn_endpoint_connect(const struct rn_endpoint *endpoint, struct rn_stream *stream,
                         const struct rn_endpoint_deadline *until,
                         char problem[RN_ENDPOINT_PROBLEM], bool *unreachable)
{
    const struct rn_endpoint_address *a = &endpoint->address;
    int fd = socket(a->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0, one = 1;
    socklen_t len = sizeof error;
    bool ok = true;

    *stream = (struct rn_stream){.fd = fd};
    if (fd < 0 ||
        (connect(fd, (const struct sockaddr *)&a->socket, a->len) != 0 && errno != EINPROGRESS))
        error = errno;
    else if ((ok = rn_endpoint_wait(endpoint, stream, POLLOUT, until, problem)))
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    *unreachable = error != 0;
    if (error != 0) {
        const char *why = strerror(error);

        snprintf(problem, RN_ENDPOINT_PROBLEM, "cannot reach rationd at %s: %c%s", a->text,
                 why[0] >= 'A' && why[0] <= 'Z' ? why[0] | 0x20 : why[0], why + 1);
        ok = false;
    }
    if (ok && a->socket.ss_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (ok && endpoint->tls_config != NULL) {
        stream->tls = rn_cli_tls_new(endpoint->tls_config, fd, a->host);
        ok = stream->tls != NULL;
        if (!ok)
            snprintf(problem, RN_ENDPOINT_PROBLEM, "out of memory");
    }
    while (ok && stream->tls != NULL && rn_cli_tls_begin(stream->tls) != 0)
        ok = errno == EAGAIN
                 ? rn_endpoint_wait(endpoint, stream, stream->tls->wants, until, problem)
                 : rn_endpoint_fail(endpoint, stream, problem);
    if (!ok)
        rn_stream_close(stream);
    return ok;
}
