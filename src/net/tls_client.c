/* SPDX-License-Identifier: Apache-2.0 */
/* What our own connections believe, and what they show. */
#include <openssl/err.h>

#include "base/error.h"
#include "net/tls_internal.h"

static int read_trusted(SSL_CTX *context, const char *ca, struct ration_error *error)
{
    int failed = ca ? rn_tls_check_readable(ca, error) : 0;

    if (failed != 0)
        return failed;
    if (!ca && SSL_CTX_set_default_verify_paths(context) != 1)
        return rn_error_set(error, RATION_EIO, 0,
                            "the authorities of this system cannot be read; name a file of them");
    if (ca && SSL_CTX_load_verify_file(context, ca) != 1)
        return rn_tls_fail_file(error, ca, "a file of certificates in PEM");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    return 0;
}

int rn_tls_new_client(const struct rn_tls_trust *trust, struct rn_tls **out,
                      struct ration_error *error)
{
    int failed = 0;

    ERR_clear_error();
    struct rn_tls *tls = rn_tls_make(TLS_client_method(), TLS1_2_VERSION);
    if (!tls)
        return rn_error_set(error, RATION_ENOMEM, 0, "cannot set up TLS: out of memory");
    tls->any_name = trust->any_name || trust->anybody;
    if (!trust->anybody)
        failed = read_trusted(tls->context, trust->ca, error);
    if (failed == 0 && trust->cert)
        failed = rn_tls_read_pair(tls->context, trust->cert, trust->key, error);
    ERR_clear_error();
    if (failed != 0) {
        rn_tls_unref(tls);
        return failed;
    }
    *out = tls;
    return 0;
}
