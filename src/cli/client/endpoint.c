/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output/output.h"
#include "rules/report/report.h"

#define HANDSHAKE_MS 5000 /* for each message of the handshake */

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

/* TLS options with a plain-text address are a mistake. */
static bool check_plain(const struct rn_endpoint *endpoint, const struct rn_options *o,
                        enum rn_daemon_address_protocol protocol)
{
    const char *option = o->cacert != NULL ? "--cacert"
                         : o->cert != NULL ? "--cert"
                         : o->key != NULL  ? "--key"
                                           : NULL;

    if (option == NULL)
        return true;
    rn_output_error("%s is for TLS; write the address as %s%s", option, scheme_of(protocol, true),
                    endpoint->address.host[0] != '\0' ? endpoint->address.text : "HOST:PORT");
    return false;
}

static bool read_tls_files(struct rn_endpoint *endpoint, const struct rn_options *o)
{
    struct rn_cli_tls_files files = {.ca = given_or(o->cacert, "RATION_CACERT"),
                                     .cert = given_or(o->cert, "RATION_CERT"),
                                     .key = given_or(o->key, "RATION_KEY")};
    char problem[RN_CLI_TLS_PROBLEM];

    if (files.key != NULL && files.cert == NULL) {
        rn_output_error("--key needs a certificate, too; --cert FILE names it");
        return false;
    }
    if (files.key == NULL)
        files.key = files.cert; /* both may be in one file */
    endpoint->tls_config = rn_cli_tls_config_new(&files, problem);
    if (endpoint->tls_config == NULL)
        rn_output_error("%s", problem);
    return endpoint->tls_config != NULL;
}

bool rn_endpoint_init(struct rn_endpoint *endpoint, const struct rn_options *o, const char *source,
                      const char *text, enum rn_daemon_address_protocol protocol)
{
    char problem[RN_DAEMON_ADDRESS_PROBLEM];
    struct rn_daemon_address *address = &endpoint->address;

    *endpoint = (struct rn_endpoint){.tls_config = NULL};
    if (!rn_daemon_address_parse(text, address, problem)) {
        rn_output_error("%s: %s", source, problem);
        return false;
    }
    if (address->protocol != RN_DAEMON_ADDRESS_ANY && address->protocol != protocol) {
        rn_output_error("%s: found %s, expected %s or %s", source,
                        rn_excerpt(rn_slice_of(text)).text, scheme_of(protocol, false),
                        scheme_of(protocol, true));
        return false;
    }
    return address->tls ? read_tls_files(endpoint, o) : check_plain(endpoint, o, protocol);
}

void rn_endpoint_done(struct rn_endpoint *endpoint)
{
    rn_cli_tls_config_free(endpoint->tls_config);
    endpoint->tls_config = NULL;
}

/* --- connecting -------------------------------------------------------------------- */

/* Opens the socket and does the TLS handshake. NULL: done; else the problem. */
static const char *open_stream(const struct rn_endpoint *endpoint, struct rn_stream *stream)
{
    const struct rn_daemon_address *a = &endpoint->address;
    int one = 1;

    stream->fd = socket(a->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (stream->fd < 0 || connect(stream->fd, (const struct sockaddr *)&a->socket, a->len) != 0)
        return strerror(errno);
    if (a->socket.ss_family != AF_UNIX)
        setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (endpoint->tls_config == NULL)
        return NULL;
    stream->tls = rn_cli_tls_new(endpoint->tls_config, stream->fd, endpoint->address.host);
    if (stream->tls == NULL)
        return "out of memory";
    while (rn_cli_tls_begin(stream->tls) != 0) {
        struct pollfd fd = {.fd = stream->fd, .events = rn_cli_tls_wants(stream->tls)};

        if (errno != EAGAIN)
            return rn_cli_tls_problem(stream->tls);
        if (poll(&fd, 1, HANDSHAKE_MS) == 0)
            return "it does not answer; does it speak TLS?";
    }
    return NULL;
}

bool rn_endpoint_connect(const struct rn_endpoint *endpoint, struct rn_stream *stream,
                         char problem[RN_ENDPOINT_PROBLEM])
{
    const char *why;

    *stream = (struct rn_stream){.fd = -1};
    why = open_stream(endpoint, stream);
    if (why == NULL)
        return true;
    snprintf(problem, RN_ENDPOINT_PROBLEM, "cannot connect to %s: %s", endpoint->address.text, why);
    rn_stream_close(stream);
    return false;
}
