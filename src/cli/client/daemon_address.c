/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/daemon_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/report/report.h"

#define HERE "127.0.0.1"

static bool complain(const char *text, const char *why, char problem[RN_DAEMON_ADDRESS_PROBLEM])
{
    snprintf(problem, RN_DAEMON_ADDRESS_PROBLEM,
             "%s is no address%s%s; write one such as 127.0.0.1:8080, :8080, [::1]:8080 or "
             "unix:/run/ration.sock",
             rn_excerpt(rn_slice_of(text)).text, why[0] == '\0' ? "" : ": ", why);
    return false;
}

static bool look_up(const char *text, const char *port, struct rn_daemon_address *address,
                    char problem[RN_DAEMON_ADDRESS_PROBLEM])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    int code = getaddrinfo(address->host, port, &hints, &found);

    if (code != 0)
        return complain(text, gai_strerror(code), problem);
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
static void take_scheme(const char *text, struct rn_daemon_address *address)
{
    static const struct {
        const char *name;
        enum rn_daemon_address_protocol protocol;
        bool tls;
    } schemes[] = {{"http://", RN_DAEMON_ADDRESS_HTTP, false},
                   {"https://", RN_DAEMON_ADDRESS_HTTP, true},
                   {"redis://", RN_DAEMON_ADDRESS_RESP, false},
                   {"rediss://", RN_DAEMON_ADDRESS_RESP, true}};
    size_t len;

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strncmp(text, schemes[i].name, strlen(schemes[i].name)) != 0)
            continue;
        text += strlen(schemes[i].name);
        address->protocol = schemes[i].protocol;
        address->tls = schemes[i].tls;
    }
    len = strlen(text) - (address->protocol != RN_DAEMON_ADDRESS_ANY && text[0] != '\0' &&
                          text[strlen(text) - 1] == '/');
    snprintf(address->text, sizeof address->text, "%s%.*s", text[0] == ':' ? HERE : "", (int)len,
             text);
}

bool rn_daemon_address_parse(const char *given, struct rn_daemon_address *address,
                             char problem[RN_DAEMON_ADDRESS_PROBLEM])
{
    struct sockaddr_un *un = (struct sockaddr_un *)&address->socket;
    const char *text = address->text, *path = text + 5, *colon;
    size_t len;

    *address = (struct rn_daemon_address){.len = 0};
    if (strlen(given) >= RN_DAEMON_ADDRESS_TEXT - sizeof HERE)
        return complain(given, "it is too long", problem);
    take_scheme(given, address);
    if (strncmp(text, "unix:", 5) == 0) {
        if (address->tls)
            return complain(given, "unix sockets do not speak TLS", problem);
        if (path[0] == '\0')
            return complain(text, "no path behind unix:", problem);
        if (strlen(path) >= sizeof un->sun_path)
            return complain(text, "paths of sockets have at most 107 bytes", problem);
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, path, strlen(path) + 1);
        address->len = sizeof *un;
        return true;
    }
    colon = strrchr(text, ':');
    if (colon == NULL)
        return complain(given, "it has no port", problem);
    if (colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strlen(colon + 1) > 5 || strtoul(colon + 1, NULL, 10) > 65535 ||
        strtoul(colon + 1, NULL, 10) == 0)
        return complain(given, "a port is a number from 1 to 65535", problem);
    len = (size_t)(colon - text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']')
        snprintf(address->host, sizeof address->host, "%.*s", (int)len - 2, text + 1);
    else if (memchr(text, ':', len) == NULL)
        snprintf(address->host, sizeof address->host, "%.*s", (int)len, text);
    else
        return complain(given, "an IPv6 address must be in brackets", problem);
    return look_up(given, colon + 1, address, problem);
}

bool rn_daemon_address_is_local(const struct rn_daemon_address *address)
{
    const struct sockaddr *any = (const struct sockaddr *)&address->socket;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->socket;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->socket;

    if (any->sa_family == AF_INET)
        return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
    if (any->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
    return any->sa_family == AF_UNIX;
}
