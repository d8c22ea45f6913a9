/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom `ration` believes over TLS, and who it says it is. Servers are verified,
 * always: there is no way around it.
 */
#ifndef RN_CLI_CLIENT_TLS_CONFIG_H
#define RN_CLI_CLIENT_TLS_CONFIG_H

struct rn_trust;
struct ssl_ctx_st;

/* Paths of PEM files. */
struct rn_trust_files {
    const char *ca;         /* who vouches for servers; NULL: whom this system believes */
    const char *cert, *key; /* for servers that ask for a certificate; NULL: none */
};

/* Reads the files, whose paths stay the caller's and in place. NULL: `problem` says why they
 * cannot be used. Any thread may use it afterwards. */
#define RN_TRUST_PROBLEM 400
struct rn_trust *rn_trust_new(const struct rn_trust_files *files, char problem[RN_TRUST_PROBLEM]);
/* NULL is fine. */
void rn_trust_free(struct rn_trust *trust);

/* For tunnel.c. */
struct ssl_ctx_st *rn_trust_context(const struct rn_trust *trust);
const struct rn_trust_files *rn_trust_files(const struct rn_trust *trust);

#endif
