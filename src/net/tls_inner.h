/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net: what tls.c has read, for seal.c. */
#ifndef RN_NET_TLS_INNER_H
#define RN_NET_TLS_INNER_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "net/tls.h"

struct rn_tls {
    _Atomic unsigned users;
    SSL_CTX *context;
    BIO_METHOD *pipe; /* seal.c's way to and from a connection's bytes */
    char ends[32];
    bool outdated;
};

/* tls_name.c: freed by the caller; NULL: out of memory. */
char *rn_tls_name(const X509 *cert);

/* seal.c */
BIO_METHOD *rn_seal_pipe(void);
int rn_seal_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *unused);

#endif
