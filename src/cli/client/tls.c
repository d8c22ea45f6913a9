/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file of the CLI that sees OpenSSL. The same versions and ciphers as rationd
 * (net/tls.c): TLS 1.3, and 1.2 with forward secrecy and authenticated ciphers.
 */
#include "cli/client/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

struct rn_cli_tls_config {
    SSL_CTX *context;
    struct rn_cli_tls_files files;
};

/* --- configuration ----------------------------------------------------------------- */

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

/* --- what is wrong with a server ---------------------------------------------------- */

#define EXPLAIN(t, ...) (void)snprintf((t)->problem, sizeof(t)->problem, __VA_ARGS__)

/* "DNS:localhost, IP Address:127.0.0.1", in OpenSSL's words, which have no control characters. */
static void write_names(const X509 *cert, char *out, int size)
{
    int at = X509_get_ext_by_NID(cert, NID_subject_alt_name, -1), n = 0;
    BIO *text = BIO_new(BIO_s_mem());

    if (text != NULL && at >= 0 && X509V3_EXT_print(text, X509_get_ext(cert, at), 0, 0) == 1)
        n = BIO_read(text, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    if (n <= 0)
        snprintf(out, (size_t)size, "no name at all");
    BIO_free(text);
}

static void explain_time(struct rn_cli_tls *t, const ASN1_TIME *time, const char *what)
{
    char text[32] = "?";
    struct tm parts;

    if (ASN1_TIME_to_tm(time, &parts) == 1)
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    EXPLAIN(t, "its certificate %s %s", what, text);
}

static void explain_certificate(struct rn_cli_tls *t, long why)
{
    const STACK_OF(X509) *chain =
        SSL_get0_verified_chain(t->ssl); /* as far as OpenSSL verified it */
    const X509 *own = sk_X509_value(chain, 0), *expired = own;
    char names[200];

    for (int i = 0; i < sk_X509_num(chain); i++)
        if (X509_cmp_current_time(X509_get0_notAfter(sk_X509_value(chain, i))) < 0)
            expired = sk_X509_value(chain, i);

    switch (own == NULL ? X509_V_ERR_UNSPECIFIED : why) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        write_names(own, names, sizeof names);
        EXPLAIN(t, "its certificate is not for %s, but for %s", t->host, names);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        explain_time(t, X509_get0_notAfter(expired), "has expired:");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        explain_time(t, X509_get0_notBefore(own), "is not valid before");
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        if (t->config->files.ca != NULL)
            EXPLAIN(t, "its certificate is not from the authorities in %s", t->config->files.ca);
        else
            EXPLAIN(t, "its certificate is from no authority that this system knows; --cacert "
                       "FILE names another");
        break;
    default:
        EXPLAIN(t, "its certificate is not trusted: %s", X509_verify_cert_error_string(why));
    }
}

static void explain_reason(struct rn_cli_tls *t, unsigned long error)
{
    const char *reason = ERR_reason_error_string(error);

    reason = reason != NULL ? reason : "the handshake failed";
    switch (ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        EXPLAIN(t, "it does not speak TLS; leave out https:// or rediss://");
        break;
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        EXPLAIN(t, "it closed the connection; does it speak TLS?");
        break;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        EXPLAIN(t, "it speaks other versions of TLS than 1.2 and 1.3");
        break;
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE: /* the same alert in TLS 1.2 */
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        if (t->config->files.cert == NULL)
            EXPLAIN(t, "it wants to see a certificate; --cert FILE and --key FILE show one");
        else
            EXPLAIN(t, "it does not accept the certificate in %s (%s)", t->config->files.cert,
                    reason);
        break;
    default:
        EXPLAIN(t, "%s", reason);
    }
}

/* After a failed call of OpenSSL, while its errors are still queued: "its certificate has
 * expired: 2026-11-01T00:00:00Z". */
static void explain_failure(struct rn_cli_tls *t)
{
    long verified = SSL_get_verify_result(t->ssl);
    unsigned long error = ERR_peek_error();

    if (verified != X509_V_OK)
        explain_certificate(t, verified);
    else if (error != 0)
        explain_reason(t, error);
    else
        EXPLAIN(t, "it closed the connection; does it speak TLS?");
}

/* --- to and from the socket -------------------------------------------------------- */

/* OpenSSL's own socket BIO writes without MSG_NOSIGNAL, so that a closed connection would end
 * the program by SIGPIPE. */
static int bio_write(BIO *bio, const char *data, int len)
{
    const struct rn_cli_tls *t = BIO_get_data(bio);
    ssize_t n = send(t->fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)n;
}

static int bio_read(BIO *bio, char *data, int size)
{
    const struct rn_cli_tls *t = BIO_get_data(bio);
    ssize_t n = recv(t->fd, data, (size_t)size, MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return (int)n;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

/* --- beginning and end ------------------------------------------------------------- */

struct rn_cli_tls *rn_cli_tls_new(const struct rn_cli_tls_config *config, int fd, const char *host)
{
    struct rn_cli_tls *t = calloc(1, sizeof *t);
    unsigned char ip[16];
    BIO *bio = NULL;
    bool ok;

    if (t == NULL)
        return NULL;
    *t = (struct rn_cli_tls){.fd = fd, .config = config, .host = host};
    t->ssl = SSL_new(config->context);
    t->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "socket");
    if (t->ssl == NULL || t->method == NULL || BIO_meth_set_write(t->method, bio_write) != 1 ||
        BIO_meth_set_read(t->method, bio_read) != 1 ||
        BIO_meth_set_ctrl(t->method, bio_control) != 1 || (bio = BIO_new(t->method)) == NULL) {
        rn_cli_tls_free(t);
        return NULL;
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio); /* ssl now owns it */
    SSL_set_connect_state(t->ssl);
    /* The certificate must be for `host`. */
    if (inet_pton(AF_INET, host, ip) == 1 || inet_pton(AF_INET6, host, ip) == 1) {
        ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), host) == 1;
    } else {
        SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        ok = SSL_set1_host(t->ssl, host) == 1 && SSL_set_tlsext_host_name(t->ssl, host) == 1;
    }
    if (ok)
        return t;
    rn_cli_tls_free(t);
    return NULL;
}

void rn_cli_tls_free(struct rn_cli_tls *t)
{
    if (t == NULL)
        return;
    if (t->begun)
        SSL_shutdown(t->ssl);
    ERR_clear_error();
    SSL_free(t->ssl);
    BIO_meth_free(t->method);
    free(t);
}

/* --- bytes ------------------------------------------------------------------------- */

/* Returns -1 with errno, after a call that did not finish. */
static int fail(struct rn_cli_tls *t, int result)
{
    int error = SSL_get_error(t->ssl, result);

    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        t->wants = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        errno = EAGAIN;
        return -1;
    }
    if (!t->begun || error == SSL_ERROR_SSL)
        explain_failure(t);
    errno = !t->begun || error == SSL_ERROR_SSL ? EPROTO : ECONNRESET;
    t->begun = false; /* no close_notify after an error */
    return -1;
}

int rn_cli_tls_begin(struct rn_cli_tls *t)
{
    int done;

    ERR_clear_error();
    done = SSL_do_handshake(t->ssl);
    if (done != 1)
        return fail(t, done);
    t->begun = true;
    return 0;
}

ssize_t rn_cli_tls_send(struct rn_cli_tls *t, const void *data, size_t len)
{
    size_t sent;

    ERR_clear_error();
    return SSL_write_ex(t->ssl, data, len, &sent) == 1 ? (ssize_t)sent : fail(t, 0);
}

ssize_t rn_cli_tls_receive(struct rn_cli_tls *t, void *data, size_t size)
{
    size_t got;

    ERR_clear_error();
    if (SSL_read_ex(t->ssl, data, size, &got) == 1)
        return (ssize_t)got;
    /* Many servers close without close_notify. The length of an answer says whether it is complete.
     */
    if (SSL_get_error(t->ssl, 0) == SSL_ERROR_ZERO_RETURN ||
        ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return 0;
    return fail(t, 0);
}

bool rn_cli_tls_has_more(const struct rn_cli_tls *t)
{
    return SSL_pending(t->ssl) > 0;
}
