/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS in a build without OpenSSL. Loading a certificate fails, so nothing calls the other
 * functions.
 */
#include "base/error.h"
#include "net/tls.h"
#include "net/tls_conn.h"

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

bool rn_tls_conn_new(struct rn_conn *conn)
{
    (void)conn;
    return false;
}

bool rn_tls_conn_new_client(struct rn_conn *conn, struct rn_tls *tls, const char *server)
{
    (void)conn, (void)tls, (void)server;
    return false;
}

void rn_tls_conn_begin_handshake(struct rn_conn *conn)
{
    (void)conn;
}

void rn_tls_conn_free(struct rn_tls_conn *tls_conn)
{
    (void)tls_conn;
}

size_t rn_tls_conn_decrypt(struct rn_conn *conn, const char *data, size_t len)
{
    (void)conn, (void)data, (void)len;
    return 0;
}

void rn_tls_conn_note_partial_record(struct rn_conn *conn)
{
    (void)conn;
}

void rn_tls_conn_encrypt(struct rn_conn *conn)
{
    (void)conn;
}

void rn_tls_conn_shutdown(struct rn_conn *conn)
{
    (void)conn;
}
