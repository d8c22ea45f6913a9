/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for `ration` as a client. The server's certificate is always verified; no option
 * turns that off.
 */
#ifndef RN_CLI_CLIENT_TLS_H
#define RN_CLI_CLIENT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RN_CLI_TLS_PROBLEM 400

/* Paths of PEM files. */
struct rn_cli_tls_files {
    const char *ca;         /* certificates to trust; NULL: those that the system trusts */
    const char *cert, *key; /* for servers that ask for a certificate; NULL: none */
};

struct rn_cli_tls_config;

/* Reads the files. Their paths must stay in place. NULL: `problem` says which file cannot be
 * used, and why. Any thread may use the result. */
struct rn_cli_tls_config *rn_cli_tls_config_new(const struct rn_cli_tls_files *files,
                                                char problem[RN_CLI_TLS_PROBLEM]);
/* NULL is fine. */
void rn_cli_tls_config_free(struct rn_cli_tls_config *config);

/* --- a connection ---------------------------------------------------------------------- */

/* TLS over a socket that the caller owns. Never waits: a call that cannot finish returns
 * EAGAIN, and `wants` says what to poll for. One thread at a time. */
struct rn_cli_tls {
    short wants; /* after EAGAIN: POLLIN or POLLOUT */
    /* After EPROTO: what is wrong with the server, such as "its certificate has expired", and
     * what may help. */
    char problem[RN_CLI_TLS_PROBLEM];

    struct ssl_st *ssl; /* private from here on */
    struct bio_method_st *method;
    int fd;
    const struct rn_cli_tls_config *config;
    const char *host;
    bool begun;
};

/* `fd` is connected. The server's certificate must be for `host`, a name or an address.
 * Borrows config and host. NULL: out of memory. */
struct rn_cli_tls *rn_cli_tls_new(const struct rn_cli_tls_config *config, int fd, const char *host);
/* Sends close_notify if that does not block. NULL is fine. */
void rn_cli_tls_free(struct rn_cli_tls *tls);

/* The handshake: 0 when it is done; -1 with errno EAGAIN or EPROTO. */
int rn_cli_tls_begin(struct rn_cli_tls *tls);
/* As send() and recv(); or -1 with errno EPROTO. */
ssize_t rn_cli_tls_send(struct rn_cli_tls *tls, const void *data, size_t len);
ssize_t rn_cli_tls_receive(struct rn_cli_tls *tls, void *data, size_t size);

/* Whether decrypted bytes are waiting, which poll() does not report. */
bool rn_cli_tls_has_more(const struct rn_cli_tls *tls);

#endif
