/* SPDX-License-Identifier: Apache-2.0 */
#include "net/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define EXAMPLES "write host:port, :port, [v6]:port or unix:PATH"

static int parse_unix(const char *path, struct rn_address *out, struct ration_error *error)
{
    size_t len = strlen(path);

    if (len == 0)
        return rn_error_set(error, RATION_EPARSE, 0, "\"unix:\" lacks a path; write unix:PATH");
    if (len >= sizeof out->to.un.sun_path)
        return rn_error_set(error, RATION_EPARSE, 0,
                            "the path of a unix socket has at most %zu bytes, this one has %zu: %s",
                            sizeof out->to.un.sun_path - 1, len, rn_error_quote(path, len, 0).text);
    *out = (struct rn_address){.len = sizeof out->to.un};
    out->to.un.sun_family = AF_UNIX;
    memcpy(out->to.un.sun_path, path, len + 1);
    return 0;
}

static int parse_host(const char *text, size_t len, struct rn_ip *ip, struct ration_error *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *found;
    struct rn_address first = {0};
    struct rn_peer peer;
    char name[256];

    if (text[0] == '[')
        return text[len - 1] == ']' && memchr(text, ':', len)
                   ? rn_ip_parse(text + 1, len - 2, ip, error)
                   : rn_error_set(error, RATION_EPARSE, 0, "%s is not [v6]:port; " EXAMPLES,
                                  rn_error_quote(text, strlen(text), 0).text);
    if (memchr(text, ':', len))
        return rn_error_set(error, RATION_EPARSE, 0,
                            "%s: an IPv6 address stands in brackets; write for example [::1]:80",
                            rn_error_quote(text, strlen(text), 0).text);
    if (len > 0 && strspn(text, "0123456789.") >= len)
        return rn_ip_parse(text, len, ip, error);
    if (len >= sizeof name)
        return rn_error_set(error, RATION_EPARSE, 0, "%s is too long for the name of a host",
                            rn_error_quote(text, len, 0).text);
    memcpy(name, text, len);
    name[len] = '\0';
    int failed = getaddrinfo(name, NULL, &hints, &found);
    if (failed != 0)
        return rn_error_set(error, RATION_EPARSE, 0, "%s has no address: %s; " EXAMPLES,
                            rn_error_quote(name, len, 0).text, gai_strerror(failed));
    memcpy(&first.to, found->ai_addr, found->ai_addrlen);
    first.len = found->ai_addrlen;
    freeaddrinfo(found);
    rn_address_peer(&first, &peer);
    *ip = peer.ip;
    return 0;
}

bool rn_address_is_name(const char *text)
{
    size_t host = strcspn(text, ":");

    return text[0] != '[' && strncmp(text, "unix:", 5) != 0 && strspn(text, "0123456789.") < host;
}

int rn_address_parse(const char *text, struct rn_address *out, struct ration_error *error)
{
    struct rn_ip ip = {.bits = 128};
    const char *colon = strrchr(text, ':');
    unsigned port = 0;
    size_t digits = 0;

    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, out, error);
    if (text[0] != '\0' && strspn(text, "0123456789") == strlen(text))
        return rn_error_set(error, RATION_EPARSE, 0,
                            "%s is a port only; write :%s for all addresses, or 127.0.0.1:%s",
                            rn_error_quote(text, strlen(text), 0).text, text, text);
    if (!colon || strchr(colon, ']'))
        return rn_error_set(error, RATION_EPARSE, 0, "%s has no port; " EXAMPLES,
                            rn_error_quote(text, strlen(text), 0).text);
    /* Digits only: no sign, no service name. */
    for (const char *at = colon + 1; at[digits] >= '0' && at[digits] <= '9' && digits < 6; digits++)
        port = port * 10 + (unsigned)(at[digits] - '0');
    if (digits == 0 || colon[1 + digits] != '\0' || port > 65535)
        return rn_error_set(error, RATION_EPARSE, (size_t)(colon + 1 - text),
                            "%s is not a port from 0 to 65535; " EXAMPLES,
                            rn_error_quote(colon + 1, strlen(colon + 1), 0).text);
    int failed = colon == text ? 0 : parse_host(text, (size_t)(colon - text), &ip, error);
    if (failed != 0)
        return failed;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};

    memcpy(&v4.sin_addr, ip.bytes, 4);
    memcpy(&v6.sin6_addr, ip.bytes, 16);
    *out = (struct rn_address){.len = ip.bits == 32 ? sizeof v4 : sizeof v6,
                               .everywhere = colon == text};
    memcpy(&out->to, ip.bits == 32 ? (void *)&v4 : (void *)&v6, out->len);
    return 0;
}

void rn_address_peer(const struct rn_address *address, struct rn_peer *peer)
{
    static const uint8_t loopback[16] = {[15] = 1}, mapped[12] = {[10] = 0xff, [11] = 0xff};
    char ip[RN_IP_TEXT];
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    *peer = (struct rn_peer){.local = true, .text = "unix"};
    if (address->to.any.sa_family == AF_INET) {
        memcpy(&v4, &address->to, sizeof v4);
        peer->ip.bits = 32;
        memcpy(peer->ip.bytes, &v4.sin_addr, 4);
        peer->port = ntohs(v4.sin_port);
    } else if (address->to.any.sa_family == AF_INET6) {
        memcpy(&v6, &address->to, sizeof v6);
        bool is_v4 = memcmp(&v6.sin6_addr, mapped, sizeof mapped) == 0;
        peer->ip.bits = is_v4 ? 32 : 128;
        memcpy(peer->ip.bytes, (char *)&v6.sin6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
        peer->port = ntohs(v6.sin6_port);
    } else {
        return;
    }
    peer->local =
        peer->ip.bits == 32 ? peer->ip.bytes[0] == 127 : memcmp(peer->ip.bytes, loopback, 16) == 0;
    rn_ip_write(&peer->ip, ip);
    snprintf(peer->text, sizeof peer->text, peer->ip.bits == 32 ? "%s:%u" : "[%s]:%u", ip,
             (unsigned)peer->port);
}

void rn_address_write(const struct rn_address *address, char out[RN_ADDRESS_TEXT])
{
    struct rn_peer peer;
    const char *path = address->to.un.sun_path;

    if (address->to.any.sa_family == AF_UNIX && path[0] != '\0') {
        snprintf(out, RN_ADDRESS_TEXT, "unix:%.*s", (int)sizeof address->to.un.sun_path, path);
        return;
    }
    rn_address_peer(address, &peer);
    snprintf(out, RN_ADDRESS_TEXT, "%s", peer.text);
}
