/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a TLS connection starts with: a certificate with its key, and the authorities to
 * trust. Immutable: a changed certificate is a new object, and connections keep the one
 * they began with. Any thread.
 */
#ifndef RN_NET_TLS_H
#define RN_NET_TLS_H

#include <stdbool.h>

#include <ration/error.h>

struct rn_tls;

/* Paths of PEM files. */
struct rn_tls_files {
    const char *cert;      /* the server's, then the intermediate ones */
    const char *key;       /* must not be encrypted */
    const char *client_ca; /* authorities of clients, which then need a certificate; NULL: none */
    bool only_13;          /* TLS 1.3 only; else also 1.2 */
};

/* Reads the files. RATION_EIO with `error` if they cannot be used, RATION_EINVAL
 * in a build without TLS. */
int rn_tls_new(const struct rn_tls_files *files, struct rn_tls **out, struct ration_error *error);

/* The client's side. Paths of PEM files. */
struct rn_tls_trust {
    const char *ca;         /* authorities of servers; NULL: those of this system */
    const char *cert, *key; /* sent to servers that ask; NULL: none */
    bool any_name;          /* verify the server's certificate but not its name */
    bool unverified;        /* verify nothing */
};

/* As rn_tls_new, for outgoing connections: net/dialler.h. */
int rn_tls_new_client(const struct rn_tls_trust *trust, struct rn_tls **out,
                      struct ration_error *error);

struct rn_tls *rn_tls_ref(struct rn_tls *tls);
/* NULL is fine. */
void rn_tls_unref(struct rn_tls *tls);

/* When the certificate expires: "2027-02-13T09:30:00Z". Valid as long as `tls`. */
const char *rn_tls_ends(const struct rn_tls *tls);
/* Whether it has expired or is not valid yet. */
bool rn_tls_is_outdated(const struct rn_tls *tls);

#endif
