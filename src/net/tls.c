/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading certificates, and the settings of all TLS connections: 1.2 with forward secrecy
 * and authenticated ciphers, or 1.3; no compression, no renegotiation; buffers only while
 * a record is incomplete.
 */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "net/tls_internal.h"

#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

/* --- reading the files -------------------------------------------------------------- */

/* OpenSSL's first error is the cause, its last one the most general. */
static int fail_file(struct ration_error *error, const char *path, const char *expected)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    return rn_error_set(error, RATION_EIO, 0, "%s is not %s (%s)", path, expected,
                        reason ? reason : "unreadable");
}

static int check_readable(const char *path, struct ration_error *error)
{
    char problem[RN_FILE_PROBLEM];
    int fd = rn_file_open(path, problem);

    if (fd < 0)
        return rn_error_set(error, RATION_EIO, 0, "cannot read %s: %s", path, problem);
    close(fd);
    return 0;
}

/* Without this OpenSSL would ask for a password on the terminal. */
static int refuse_password(char *to, int size, int writing, void *asked)
{
    (void)to, (void)size, (void)writing;
    *(bool *)asked = true;
    return 0;
}

static int read_pair(SSL_CTX *context, const char *cert, const char *key,
                     struct ration_error *error)
{
    int failed = check_readable(cert, error), ok;
    bool asked = false, mismatch;

    if (failed == 0)
        failed = check_readable(key, error);
    if (failed != 0)
        return failed;
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        return fail_file(error, cert, "a certificate in PEM");
    SSL_CTX_set_default_passwd_cb(context, refuse_password);
    SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
    ok = SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    SSL_CTX_set_default_passwd_cb(context, NULL);
    if (asked)
        return rn_error_set(error, RATION_EIO, 0,
                            "%s is encrypted, and a daemon cannot ask for its password; store "
                            "the key unencrypted, readable only by the daemon's user",
                            key);
    mismatch = ok == 1 ? SSL_CTX_check_private_key(context) != 1
                       : ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_X509 &&
                             ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH;
    if (mismatch)
        return rn_error_set(error, RATION_EIO, 0, "%s is not the key of the certificate in %s", key,
                            cert);
    return ok == 1 ? 0 : fail_file(error, key, "a private key in PEM");
}

/* Every connection verifies its client: a resumed session would outlive a certificate that
 * has expired. */
static int read_authorities(SSL_CTX *context, const char *path, struct ration_error *error)
{
    int failed = check_readable(path, error);

    if (failed != 0)
        return failed;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);
    if (!names || SSL_CTX_load_verify_file(context, path) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return fail_file(error, path, "a file of certificates in PEM");
    }
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context, 0);
    return 0;
}

/* --- the context -------------------------------------------------------------------- */

static struct rn_tls *make_tls(const SSL_METHOD *method, int least_version)
{
    struct rn_tls *tls = calloc(1, sizeof *tls);

    if (!tls)
        return NULL;
    atomic_init(&tls->users, 1);
    tls->context = SSL_CTX_new(method);
    tls->pipe = rn_tls_conn_new_bio_method();
    if (tls->context && tls->pipe &&
        SSL_CTX_set_min_proto_version(tls->context, least_version) == 1 &&
        SSL_CTX_set_cipher_list(tls->context, CIPHERS_12) == 1) {
        SSL_CTX_set_options(tls->context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
        SSL_CTX_set_mode(tls->context, SSL_MODE_RELEASE_BUFFERS);
        /* Tickets need no cache. */
        SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
        return tls;
    }
    rn_tls_unref(tls);
    return NULL;
}

int rn_tls_new(const struct rn_tls_files *files, struct rn_tls **out, struct ration_error *error)
{
    static const unsigned char session[] = "ration";
    struct tm end;
    int failed;

    ERR_clear_error();
    struct rn_tls *tls =
        make_tls(TLS_server_method(), files->only_13 ? TLS1_3_VERSION : TLS1_2_VERSION);
    if (!tls || SSL_CTX_set_session_id_context(tls->context, session, sizeof session - 1) != 1)
        failed = rn_error_set(error, RATION_ENOMEM, 0, "cannot set up TLS: out of memory");
    else
        failed = read_pair(tls->context, files->cert, files->key, error);
    if (failed == 0) {
        SSL_CTX_set_num_tickets(tls->context, 1);
        SSL_CTX_set_alpn_select_cb(tls->context, rn_tls_conn_select_alpn, NULL);
    }
    if (failed == 0 && files->client_ca)
        failed = read_authorities(tls->context, files->client_ca, error);
    ERR_clear_error();
    if (failed != 0) {
        rn_tls_unref(tls);
        return failed;
    }
    const X509 *cert = SSL_CTX_get0_certificate(tls->context);
    tls->outdated = X509_cmp_current_time(X509_get0_notBefore(cert)) > 0 ||
                    X509_cmp_current_time(X509_get0_notAfter(cert)) < 0;
    if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) == 1)
        strftime(tls->ends, sizeof tls->ends, "%Y-%m-%dT%H:%M:%SZ", &end);
    *out = tls;
    return 0;
}

int rn_tls_new_client(const struct rn_tls_trust *trust, struct rn_tls **out,
                      struct ration_error *error)
{
    const char *ca = trust->ca;
    int failed = 0;

    ERR_clear_error();
    struct rn_tls *tls = make_tls(TLS_client_method(), TLS1_2_VERSION);
    if (!tls)
        return rn_error_set(error, RATION_ENOMEM, 0, "cannot set up TLS: out of memory");
    tls->any_name = trust->any_name || trust->unverified;
    if (!trust->unverified) {
        SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
        failed = ca ? check_readable(ca, error) : 0;
        if (!ca && SSL_CTX_set_default_verify_paths(tls->context) != 1)
            failed = rn_error_set(
                error, RATION_EIO, 0,
                "cannot read the certificate authorities of this system; name a file of them");
        else if (ca && failed == 0 && SSL_CTX_load_verify_file(tls->context, ca) != 1)
            failed = fail_file(error, ca, "a file of certificates in PEM");
    }
    if (failed == 0 && trust->cert)
        failed = read_pair(tls->context, trust->cert, trust->key, error);
    ERR_clear_error();
    if (failed != 0) {
        rn_tls_unref(tls);
        return failed;
    }
    *out = tls;
    return 0;
}

struct rn_tls *rn_tls_ref(struct rn_tls *tls)
{
    atomic_fetch_add_explicit(&tls->users, 1, memory_order_relaxed);
    return tls;
}

void rn_tls_unref(struct rn_tls *tls)
{
    if (!tls || atomic_fetch_sub_explicit(&tls->users, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->pipe);
    free(tls);
}

const char *rn_tls_ends(const struct rn_tls *tls)
{
    return tls->ends;
}

bool rn_tls_is_outdated(const struct rn_tls *tls)
{
    return tls->outdated;
}
