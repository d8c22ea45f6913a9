/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate with its key, and whom to believe: what a TLS connection starts
 * with. Immutable; a changed certificate is another one, and connections keep
 * the one they have begun with. Any thread.
 */
#ifndef RN_NET_TLS_H
#define RN_NET_TLS_H

#include <stdbool.h>

#include <ration/error.h>

struct rn_tls;

/* Paths of PEM files. */
struct rn_tls_files {
    const char *cert;      /* the server's, then those between it and its authority */
    const char *key;       /* not encrypted */
    const char *client_ca; /* who vouches for clients, which then need a certificate; NULL: none */
    bool only_13;          /* TLS 1.3 only; else 1.2, too */
};

/* Reads the files. RATION_EIO with `error` if they cannot be used, RATION_EINVAL
 * in a build without TLS. */
int rn_tls_new(const struct rn_tls_files *files, struct rn_tls **out, struct ration_error *error);

/* The other side: whom a client believes, and who it is. Paths of PEM files. */
struct rn_tls_trust {
    const char *ca;         /* who vouches for servers; NULL: whom this system believes */
    const char *cert, *key; /* of the client, for servers that ask; NULL: none */
    bool any_name;          /* a server may have any name, if somebody vouches for it */
    bool anybody;           /* nobody needs to */
};

/* As rn_tls_new, for connections that we begin: net/dialler.h. */
int rn_tls_new_client(const struct rn_tls_trust *trust, struct rn_tls **out,
                      struct ration_error *error);

struct rn_tls *rn_tls_ref(struct rn_tls *tls);
/* NULL is fine. */
void rn_tls_unref(struct rn_tls *tls);

/* When the certificate ends: "2027-02-13T09:30:00Z". As long as `tls`. */
const char *rn_tls_ends(const struct rn_tls *tls);
/* Whether it has ended, or not begun. */
bool rn_tls_is_outdated(const struct rn_tls *tls);

#endif
