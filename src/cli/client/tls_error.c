/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/tls_internal.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

struct failure {
    const SSL *ssl;
    const struct rn_cli_tls_files *files;
    const char *host;
    char *problem;
};

#define EXPLAIN(c, ...) (void)snprintf((c)->problem, RN_CLI_TLS_PROBLEM, __VA_ARGS__)

/* --- its certificate --------------------------------------------------------------- */

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

static void explain_time(const struct failure *c, const ASN1_TIME *time, const char *what)
{
    char text[32] = "?";
    struct tm parts;

    if (ASN1_TIME_to_tm(time, &parts) == 1)
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    EXPLAIN(c, "its certificate %s %s", what, text);
}

static void explain_certificate(const struct failure *c, long why)
{
    const STACK_OF(X509) *chain =
        SSL_get0_verified_chain(c->ssl); /* as far as OpenSSL verified it */
    const X509 *own = sk_X509_value(chain, 0), *expired = own;
    char names[200];

    for (int i = 0; i < sk_X509_num(chain); i++)
        if (X509_cmp_current_time(X509_get0_notAfter(sk_X509_value(chain, i))) < 0)
            expired = sk_X509_value(chain, i);

    switch (own == NULL ? X509_V_ERR_UNSPECIFIED : why) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        write_names(own, names, sizeof names);
        EXPLAIN(c, "its certificate is not for %s, but for %s", c->host, names);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        explain_time(c, X509_get0_notAfter(expired), "has expired:");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        explain_time(c, X509_get0_notBefore(own), "is not valid before");
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        if (c->files->ca != NULL)
            EXPLAIN(c, "its certificate is not from the authorities in %s", c->files->ca);
        else
            EXPLAIN(c, "its certificate is from no authority that this system knows; --cacert "
                       "FILE names another");
        break;
    default:
        EXPLAIN(c, "its certificate is not trusted: %s", X509_verify_cert_error_string(why));
    }
}

/* --- what it says ------------------------------------------------------------------ */

static void explain_reason(const struct failure *c, unsigned long error)
{
    const char *reason = ERR_reason_error_string(error);

    reason = reason != NULL ? reason : "the handshake failed";
    switch (ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        EXPLAIN(c, "it does not speak TLS; leave out https:// or rediss://");
        break;
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        EXPLAIN(c, "it closed the connection; does it speak TLS?");
        break;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        EXPLAIN(c, "it speaks other versions of TLS than 1.2 and 1.3");
        break;
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE: /* the same alert in TLS 1.2 */
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        if (c->files->cert == NULL)
            EXPLAIN(c, "it wants to see a certificate; --cert FILE and --key FILE show one");
        else
            EXPLAIN(c, "it does not accept the certificate in %s (%s)", c->files->cert, reason);
        break;
    default:
        EXPLAIN(c, "%s", reason);
    }
}

void rn_cli_tls_error_explain(const SSL *ssl, const struct rn_cli_tls_config *config,
                              const char *host, char problem[RN_CLI_TLS_PROBLEM])
{
    struct failure c = {.ssl = ssl, .files = &config->files, .host = host, .problem = problem};
    long verified = SSL_get_verify_result(ssl);
    unsigned long error = ERR_peek_error();

    if (verified != X509_V_OK)
        explain_certificate(&c, verified);
    else if (error != 0)
        explain_reason(&c, error);
    else
        EXPLAIN(&c, "it closed the connection; does it speak TLS?");
}
