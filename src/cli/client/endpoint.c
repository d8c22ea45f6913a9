/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output/output.h"
#include "rules/report.h"

#define HANDSHAKE_MS 5000 /* for each word of it */

const char *rn_reach_environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

static const char *given_or(const char *given, const char *name)
{
    return given != NULL ? given : rn_reach_environment(name);
}

static const char *scheme_of(enum rn_daemon_address_speech speech, bool tls)
{
    if (speech == RN_DAEMON_ADDRESS_RESP)
        return tls ? "rediss://" : "redis://";
    return tls ? "https://" : "http://";
}

/* What is for TLS, where none is spoken, is a mistake worth telling. */
static bool check_plain(const struct rn_reach *reach, const struct rn_options *o,
                        enum rn_daemon_address_speech speech)
{
    const char *option = o->cacert != NULL ? "--cacert"
                         : o->cert != NULL ? "--cert"
                         : o->key != NULL  ? "--key"
                                           : NULL;

    if (option == NULL)
        return true;
    rn_complain("%s is for TLS; write the address as %s%s", option, scheme_of(speech, true),
                reach->address.host[0] != '\0' ? reach->address.text : "HOST:PORT");
    return false;
}

static bool read_trust(struct rn_reach *reach, const struct rn_options *o)
{
    struct rn_trust_files files = {.ca = given_or(o->cacert, "RATION_CACERT"),
                                   .cert = given_or(o->cert, "RATION_CERT"),
                                   .key = given_or(o->key, "RATION_KEY")};
    char problem[RN_TRUST_PROBLEM];

    if (files.key != NULL && files.cert == NULL) {
        rn_complain("a key alone shows nothing; --cert FILE names its certificate");
        return false;
    }
    if (files.key == NULL)
        files.key = files.cert; /* both may be in one file */
    reach->trust = rn_trust_new(&files, problem);
    if (reach->trust == NULL)
        rn_complain("%s", problem);
    return reach->trust != NULL;
}

bool rn_reach_init(struct rn_reach *reach, const struct rn_options *o, const char *source,
                   const char *text, enum rn_daemon_address_speech speech)
{
    char problem[RN_DAEMON_ADDRESS_PROBLEM];
    struct rn_daemon_address *address = &reach->address;

    *reach = (struct rn_reach){.trust = NULL};
    if (!rn_daemon_address_parse(text, address, problem)) {
        rn_complain("%s: %s", source, problem);
        return false;
    }
    if (address->speech != RN_DAEMON_ADDRESS_ANY && address->speech != speech) {
        rn_complain("%s: found %s, expected %s or %s", source, rn_excerpt(rn_slice_of(text)).text,
                    scheme_of(speech, false), scheme_of(speech, true));
        return false;
    }
    return address->tls ? read_trust(reach, o) : check_plain(reach, o, speech);
}

void rn_reach_done(struct rn_reach *reach)
{
    rn_trust_free(reach->trust);
    reach->trust = NULL;
}

/* --- connecting -------------------------------------------------------------------- */

/* The handshake. NULL: done; else what is wrong. */
static const char *secure(const struct rn_reach *reach, struct rn_line *line)
{
    line->tunnel = rn_tunnel_new(reach->trust, line->fd, reach->address.host);
    if (line->tunnel == NULL)
        return "out of memory";
    while (rn_tunnel_begin(line->tunnel) != 0) {
        struct pollfd fd = {.fd = line->fd, .events = rn_tunnel_wants(line->tunnel)};

        if (errno != EAGAIN)
            return rn_tunnel_problem(line->tunnel);
        if (poll(&fd, 1, HANDSHAKE_MS) == 0)
            return "it does not answer; does it speak TLS?";
    }
    return NULL;
}

static const char *connect_line(const struct rn_reach *reach, struct rn_line *line)
{
    const struct rn_daemon_address *a = &reach->address;
    int one = 1;

    line->fd = socket(a->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line->fd < 0 || connect(line->fd, (const struct sockaddr *)&a->socket, a->len) != 0)
        return strerror(errno);
    if (a->socket.ss_family != AF_UNIX)
        setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return reach->trust != NULL ? secure(reach, line) : NULL;
}

bool rn_reach_connect(const struct rn_reach *reach, struct rn_line *line,
                      char problem[RN_REACH_PROBLEM])
{
    const char *why;

    *line = (struct rn_line){.fd = -1};
    why = connect_line(reach, line);
    if (why == NULL)
        return true;
    snprintf(problem, RN_REACH_PROBLEM, "cannot connect to %s: %s", reach->address.text, why);
    rn_line_close(line);
    return false;
}
