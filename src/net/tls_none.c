/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS in a build without OpenSSL: there are no certificates, and so nobody comes
 * as far as the other functions.
 */
#include "base/error.h"
#include "net/seal.h"
#include "net/tls.h"

int rn_tls_new(const struct rn_tls_files *files, struct rn_tls **out, struct ration_error *error)
{
    (void)files, (void)out;
    return rn_error_set(error, RATION_EINVAL, 0, "this build has no TLS");
}

int rn_tls_new_client(const struct rn_tls_trust *trust, struct rn_tls **out,
                      struct ration_error *error)
{
    (void)trust, (void)out;
    return rn_error_set(error, RATION_EINVAL, 0, "this build has no TLS");
}

struct rn_tls *rn_tls_ref(struct rn_tls *tls)
{
    return tls;
}

void rn_tls_unref(struct rn_tls *tls)
{
    (void)tls;
}

const char *rn_tls_ends(const struct rn_tls *tls)
{
    (void)tls;
    return "";
}

bool rn_tls_is_outdated(const struct rn_tls *tls)
{
    (void)tls;
    return false;
}

bool rn_seal_new(struct rn_conn *conn)
{
    (void)conn;
    return false;
}

bool rn_seal_new_client(struct rn_conn *conn, struct rn_tls *tls, const char *server)
{
    (void)conn, (void)tls, (void)server;
    return false;
}

void rn_seal_begin(struct rn_conn *conn)
{
    (void)conn;
}

void rn_seal_free(struct rn_seal *seal)
{
    (void)seal;
}

size_t rn_seal_open(struct rn_conn *conn, const char *data, size_t len)
{
    (void)conn, (void)data, (void)len;
    return 0;
}

void rn_seal_note_begin(struct rn_conn *conn)
{
    (void)conn;
}

void rn_seal_wrap(struct rn_conn *conn)
{
    (void)conn;
}

void rn_seal_end(struct rn_conn *conn)
{
    (void)conn;
}
