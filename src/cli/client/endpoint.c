/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/output/output.h"
#include "rules/report/report.h"

const char *rn_endpoint_environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static const char *given_or(const char *given, const char *name)
{
    return given != NULL ? given : rn_endpoint_environment(name);
}

static const char *scheme_of(enum rn_daemon_address_protocol protocol, bool tls)
{
    if (protocol == RN_DAEMON_ADDRESS_RESP)
        return tls ? "rediss://" : "redis://";
    return tls ? "https://" : "http://";
}

bool rn_endpoint_init(struct rn_endpoint *endpoint, const struct rn_options *o, const char *source,
                      const char *text, enum rn_daemon_address_protocol protocol)
{
    struct rn_cli_tls_files files = {.ca = given_or(o->cacert, "RATION_CACERT"),
                                     .cert = given_or(o->cert, "RATION_CERT"),
                                     .key = given_or(o->key, "RATION_KEY")};
    const char *option = o->cacert != NULL ? "--cacert" : o->cert != NULL ? "--cert" : "--key";
    struct rn_daemon_address *address = &endpoint->address;
    char problem[RN_CLI_TLS_PROBLEM];

    *endpoint = (struct rn_endpoint){.tls_config = NULL};
    if (!rn_daemon_address_parse(text, address, problem))
        return rn_output_error("%s: %s", source, problem);
    if (address->protocol != RN_DAEMON_ADDRESS_ANY && address->protocol != protocol)
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
    const struct rn_daemon_address *a = &endpoint->address;
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
