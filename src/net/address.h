/* SPDX-License-Identifier: Apache-2.0 */
/* Where to listen, and who has come: addresses as people write and read them. */
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

/* host:port, :port, [v6]:port or unix:PATH. Of a name that has several addresses
 * the first is taken. RATION_EPARSE with `error` filled otherwise. */
int rn_address_parse(const char *text, struct rn_address *out, struct ration_error *error);

/* Whether rn_address_parse would have to ask for the address of a name, and wait. */
bool rn_address_is_name(const char *text);

/* "192.0.2.7:80", "[::1]:80", "unix:/run/x"; a unix socket without a name is "unix". */
#define RN_ADDRESS_TEXT (sizeof "unix:" + sizeof((struct sockaddr_un *)0)->sun_path)
void rn_address_write(const struct rn_address *address, char out[RN_ADDRESS_TEXT]);

/* IPv4 mapped into IPv6 is that IPv4 address. */
void rn_address_peer(const struct rn_address *address, struct rn_peer *peer);

#endif
