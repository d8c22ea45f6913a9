/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net: what tls.c reads and tls_conn.c uses. */
#ifndef RN_NET_TLS_INTERNAL_H
#define RN_NET_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "net/tls.h"

struct rn_tls {
    _Atomic unsigned users;
    SSL_CTX *context;
    BIO_METHOD *pipe; /* between OpenSSL and the buffers of a connection */
    char ends[32];
    bool outdated;
    bool any_name; /* a client that does not check the server's name */
};

/* tls_conn.c */
BIO_METHOD *rn_tls_conn_new_bio_method(void);
int rn_tls_conn_select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                            const unsigned char *in, unsigned in_len, void *unused);

#endif
