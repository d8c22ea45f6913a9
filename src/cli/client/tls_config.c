/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same versions and ciphers as rationd (net/tls.c): TLS 1.3, and 1.2 with forward secrecy
 * and authenticated ciphers.
 */
#include "cli/client/tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

static bool is_readable(const char *option, const char *path, char problem[RN_CLI_TLS_PROBLEM])
{
    char why[RN_FILE_PROBLEM];
    int fd = rn_file_open(path, why);

    if (fd < 0) {
        snprintf(problem, RN_CLI_TLS_PROBLEM, "%s: %s cannot be opened: %s", option, path, why);
        return false;
    }
    close(fd);
    return true;
}

/* The first error in OpenSSL's queue is the cause. */
static bool refuse(const char *option, const char *path, const char *expected,
                   char problem[RN_CLI_TLS_PROBLEM])
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    snprintf(problem, RN_CLI_TLS_PROBLEM, "%s: %s is not %s (%s)", option, path, expected,
             reason != NULL ? reason : "unreadable");
    return false;
}

static bool read_pair(SSL_CTX *context, const char *cert, const char *key,
                      char problem[RN_CLI_TLS_PROBLEM])
{
    if (!is_readable("--cert", cert, problem) || !is_readable("--key", key, problem))
        return false;
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        return refuse("--cert", cert, "a certificate in PEM", problem);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1)
        return true;
    if (ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH) {
        snprintf(problem, RN_CLI_TLS_PROBLEM, "--key: %s is not the key of the certificate in %s",
                 key, cert);
        return false;
    }
    return refuse("--key", key, "a private key in PEM", problem);
}

struct rn_cli_tls_config *rn_cli_tls_config_new(const struct rn_cli_tls_files *files,
                                                char problem[RN_CLI_TLS_PROBLEM])
{
    struct rn_cli_tls_config *config = calloc(1, sizeof *config);
    const char *ca = files->ca;
    bool ok;

    ERR_clear_error();
    snprintf(problem, RN_CLI_TLS_PROBLEM, "out of memory");
    if (config == NULL)
        return NULL;
    config->files = *files;
    config->context = SSL_CTX_new(TLS_client_method());
    if (config->context != NULL) {
        SSL_CTX_set_verify(config->context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_options(config->context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
        SSL_CTX_set_mode(config->context,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    ok = config->context != NULL &&
         SSL_CTX_set_min_proto_version(config->context, TLS1_2_VERSION) == 1 &&
         SSL_CTX_set_cipher_list(config->context, CIPHERS_12) == 1 &&
         (ca == NULL || is_readable("--cacert", ca, problem)) &&
         (ca == NULL || SSL_CTX_load_verify_file(config->context, ca) == 1 ||
          refuse("--cacert", ca, "a file of certificates in PEM", problem)) &&
         (files->cert == NULL || read_pair(config->context, files->cert, files->key, problem));
    if (ok && ca == NULL) /* without system certificates, no server is trusted */
        SSL_CTX_set_default_verify_paths(config->context);
    ERR_clear_error();
    if (ok)
        return config;
    rn_cli_tls_config_free(config);
    return NULL;
}

void rn_cli_tls_config_free(struct rn_cli_tls_config *config)
{
    if (config == NULL)
        return;
    SSL_CTX_free(config->context);
    free(config);
}
