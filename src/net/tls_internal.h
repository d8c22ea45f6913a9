/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net: what tls.c has read, for tls_conn.c. */
#ifndef RN_NET_TLS_INTERNAL_H
#define RN_NET_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "net/tls.h"

struct rn_tls {
    _Atomic unsigned users;
    SSL_CTX *context;
    BIO_METHOD *pipe; /* tls_conn.c's way to and from a connection's bytes */
    char ends[32];
    bool outdated;
    bool any_name; /* of a client: servers are not asked for theirs */
};

/* tls_name.c: freed by the caller; NULL: out of memory. */
char *rn_tls_name(const X509 *cert);

/* tls_conn.c */
BIO_METHOD *rn_tls_conn_new_bio_method(void);
int rn_tls_conn_select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                            const unsigned char *in, unsigned in_len, void *unused);

#endif
