/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the three files that see OpenSSL: tls_config.c, tls_connection.c, tls_error.c.
 */
#ifndef RN_CLI_CLIENT_TLS_INTERNAL_H
#define RN_CLI_CLIENT_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "cli/client/tls.h"

struct rn_cli_tls_config {
    SSL_CTX *context;
    struct rn_cli_tls_files files;
};

/* After a failed call of OpenSSL, while its errors are still queued: "its certificate has
 * expired: 2026-11-01T00:00:00Z". `host` is the name that the certificate should have. */
void rn_cli_tls_error_explain(const SSL *ssl, const struct rn_cli_tls_config *config,
                              const char *host, char problem[RN_CLI_TLS_PROBLEM]);

#endif
