/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on, to connect to, and of peers: parsing and formatting. */
#ifndef RN_NET_ADDRESS_H
#define RN_NET_ADDRESS_H

#include <sys/socket.h>
#include <sys/un.h>

#include <ration/error.h>

#include "net/conn.h"

struct rn_address {
    union {
        struct sockaddr any;
        struct sockaddr_un un;
        struct sockaddr_storage storage;
    } to;
    socklen_t len;
    bool everywhere; /* ":port": IPv6 and IPv4 by one socket */
};

/* host:port, :port, [v6]:port or unix:PATH. Takes the first address of a name.
 * RATION_EPARSE with `error` otherwise. */
int rn_address_parse(const char *text, struct rn_address *out, struct ration_error *error);

/* Whether rn_address_parse would have to resolve a name, and block. */
bool rn_address_is_name(const char *text);

/* "192.0.2.7:80", "[::1]:80", "unix:/run/x"; "unix" for a unix socket without a name. */
#define RN_ADDRESS_TEXT (sizeof "unix:" + sizeof((struct sockaddr_un *)0)->sun_path)
void rn_address_write(const struct rn_address *address, char out[RN_ADDRESS_TEXT]);

/* An IPv4-mapped IPv6 address becomes the IPv4 address. */
void rn_address_peer(const struct rn_address *address, struct rn_peer *peer);

#endif
