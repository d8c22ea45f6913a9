/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS between two buffers. OpenSSL reads from the bytes of the last recv, which it
 * is given to the end before the protocol sees anything, and writes into a buffer
 * of the loop, which is sent or kept like any other output. So it never has to
 * wait in the middle of something, and between two calls it holds at most one
 * record that is not complete.
 */
#include "net/seal.h"

#include <assert.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "net/log.h"
#include "net/server_inner.h"
#include "net/tls_inner.h"

struct rn_seal {
    struct rn_tls *tls;
    SSL *ssl;
    struct rn_conn *conn;
    const char *data; /* what came from the socket and has not been taken */
    size_t len;
    bool ended; /* the peer has been told */
    char *certificate;
};

/* --- the pipe ------------------------------------------------------------------------- */

static int pipe_read(BIO *bio, char *to, int len)
{
    struct rn_seal *seal = BIO_get_data(bio);
    size_t n = (size_t)len < seal->len ? (size_t)len : seal->len;

    BIO_clear_retry_flags(bio);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(to, seal->data, n);
    seal->data += n;
    seal->len -= n;
    return (int)n;
}

static int pipe_write(BIO *bio, const char *data, int len)
{
    struct rn_seal *seal = BIO_get_data(bio);

    rn_buf_put(&seal->conn->loop->sealed, data, (size_t)len);
    return len; /* what is missing then is noticed by who sends it */
}

static long pipe_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int pipe_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *rn_seal_pipe(void)
{
    BIO_METHOD *pipe = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "ration");

    if (pipe) {
        BIO_meth_set_read(pipe, pipe_read);
        BIO_meth_set_write(pipe, pipe_write);
        BIO_meth_set_ctrl(pipe, pipe_control);
        BIO_meth_set_create(pipe, pipe_create);
    }
    return pipe;
}

/* --- beginning and end ---------------------------------------------------------------- */

/* The listener speaks one protocol: who offers others only is turned away
 * (RFC 7301, section 3.2). */
int rn_seal_choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *unused)
{
    const struct rn_seal *seal = SSL_get_app_data(ssl);
    const char *ours = seal->conn->protocol->alpn;

    (void)unused;
    if (!ours)
        return SSL_TLSEXT_ERR_NOACK;
    for (unsigned i = 0; i < in_len; i += 1u + in[i]) {
        if (in[i] == strlen(ours) && i + 1u + in[i] <= in_len &&
            memcmp(in + i + 1, ours, in[i]) == 0) {
            *out = in + i + 1;
            *out_len = in[i];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static struct rn_tls *current_tls(struct rn_server *server)
{
    pthread_mutex_lock(&server->tls_lock);
    struct rn_tls *tls = rn_tls_ref(server->tls);
    pthread_mutex_unlock(&server->tls_lock);
    return tls;
}

/* Takes the reference to `tls` over. */
static struct rn_seal *make_seal(struct rn_conn *conn, struct rn_tls *tls)
{
    struct rn_loop *loop = conn->loop;
    struct rn_seal *seal = calloc(1, sizeof *seal);

    if (!loop->plain)
        loop->plain = malloc(RN_PLAIN_BYTES);
    if (!seal || !loop->plain) {
        free(seal);
        rn_tls_unref(tls);
        return NULL;
    }
    seal->conn = conn;
    seal->tls = tls;
    seal->ssl = SSL_new(seal->tls->context);
    BIO *bio = BIO_new(seal->tls->pipe);
    if (!seal->ssl || !bio) {
        BIO_free(bio);
        rn_seal_free(seal);
        return NULL;
    }
    BIO_set_data(bio, seal);
    SSL_set_bio(seal->ssl, bio, bio);
    SSL_set_app_data(seal->ssl, seal);
    return seal;
}

bool rn_seal_new(struct rn_conn *conn)
{
    conn->seal = make_seal(conn, current_tls(conn->loop->server));
    if (conn->seal)
        SSL_set_accept_state(conn->seal->ssl);
    return conn->seal != NULL;
}

/* Whom we expect; a name is also told, an address is not (RFC 6066, section 3). */
static bool expect_server(SSL *ssl, const char *server, bool any_name)
{
    struct rn_ip ip;
    bool is_ip = rn_ip_parse(server, strlen(server), &ip, NULL) == 0;

    if (!is_ip && SSL_set_tlsext_host_name(ssl, server) != 1)
        return false;
    if (any_name)
        return true;
    return is_ip ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server) == 1
                 : SSL_set1_host(ssl, server) == 1;
}

bool rn_seal_new_client(struct rn_conn *conn, struct rn_tls *tls, const char *server)
{
    struct rn_seal *seal = make_seal(conn, rn_tls_ref(tls));

    if (seal && !expect_server(seal->ssl, server, tls->any_name)) {
        rn_seal_free(seal);
        seal = NULL;
    }
    if (seal)
        SSL_set_connect_state(seal->ssl);
    conn->seal = seal;
    return seal != NULL;
}

void rn_seal_begin(struct rn_conn *conn)
{
    ERR_clear_error();
    SSL_do_handshake(conn->seal->ssl); /* cannot end here: it waits for the server */
    rn_flush_sealed(conn);
}

void rn_seal_free(struct rn_seal *seal)
{
    if (!seal)
        return;
    SSL_free(seal->ssl);
    rn_tls_unref(seal->tls);
    free(seal->certificate);
    free(seal);
}

void rn_seal_end(struct rn_conn *conn)
{
    struct rn_seal *seal = conn->seal;

    if (seal->ended || !conn->opened)
        return;
    seal->ended = true;
    ERR_clear_error();
    SSL_shutdown(seal->ssl);
    rn_flush_sealed(conn);
}

/* --- input ---------------------------------------------------------------------------- */

/* OpenSSL says nothing to who does not speak TLS at all. */
static bool is_plain_text(unsigned long code)
{
    int reason = ERR_GET_REASON(code);

    return ERR_GET_LIB(code) == ERR_LIB_SSL &&
           (reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST ||
            reason == SSL_R_WRONG_VERSION_NUMBER);
}

static const char *reason_of(const struct rn_seal *seal, unsigned long code)
{
    long verdict = SSL_get_verify_result(seal->ssl);
    const char *reason = ERR_reason_error_string(code);

    if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK)
        return X509_verify_cert_error_string(verdict);
    return reason ? reason : "unknown";
}

/* The peer may go on sending: its input is read for a while, so that it gets to
 * read the alert. */
static void fail(struct rn_conn *conn)
{
    static const char unexpected_message[] = {21, 3, 1, 0, 2, 2, 10}; /* a fatal alert */
    struct rn_buf *sealed = &conn->loop->sealed;
    unsigned long code = ERR_peek_error();
    bool plain = !conn->opened && sealed->len == 0 && is_plain_text(code);

    if (plain)
        rn_buf_put(sealed, unexpected_message, sizeof unexpected_message);
    rn_log(RN_LOG_INFO, "tls.failed", RN_LOG_TEXT("listener", rn_slice_of(conn->listener->name)),
           RN_LOG_TEXT("peer", rn_slice_of(conn->peer.text)),
           RN_LOG_TEXT("reason", !plain          ? rn_slice_of(reason_of(conn->seal, code))
                                 : conn->dialled ? RN_SLICE("the server does not speak TLS")
                                                 : RN_SLICE("the client does not speak TLS")));
    conn->seal->ended = true; /* nothing may follow */
    conn->closing = conn->unread = true;
    conn->held = false;
    rn_buf_clear(&conn->in);
}

static void establish(struct rn_conn *conn)
{
    struct rn_seal *seal = conn->seal;
    const X509 *cert = SSL_get0_peer_certificate(seal->ssl);

    if (cert && SSL_get_verify_result(seal->ssl) == X509_V_OK) {
        conn->peer.certificate = seal->certificate = rn_tls_name(cert);
        conn->broken |= !seal->certificate;
    }
    conn->begun_ns = 0;
    rn_conn_open(conn);
}

size_t rn_seal_open(struct rn_conn *conn, const char *data, size_t len)
{
    struct rn_seal *seal = conn->seal;
    size_t got = 0, n;

    seal->data = data;
    seal->len = len;
    conn->greeted = true;
    ERR_clear_error();
    while (SSL_read_ex(seal->ssl, conn->loop->plain + got, RN_PLAIN_BYTES - got, &n) == 1) {
        got += n;
        assert(got < RN_PLAIN_BYTES);
    }
    int outcome = SSL_get_error(seal->ssl, 0);
    if (outcome == SSL_ERROR_ZERO_RETURN)
        conn->ended = true;
    else if (outcome != SSL_ERROR_WANT_READ)
        fail(conn);
    rn_flush_sealed(conn);
    if (conn->closing || conn->broken)
        return 0;
    if (!conn->opened && SSL_is_init_finished(seal->ssl))
        establish(conn);
    return got;
}

void rn_seal_note_begin(struct rn_conn *conn)
{
    const SSL *ssl = conn->seal->ssl;
    bool part = SSL_has_pending(ssl) || strcmp(SSL_rstate_string(ssl), "RB") == 0;

    if (!conn->opened || conn->in.len > 0)
        return;
    if (!part)
        conn->begun_ns = 0;
    else if (conn->begun_ns == 0)
        conn->begun_ns = conn->loop->wheel.now_ns;
}

/* --- output --------------------------------------------------------------------------- */

void rn_seal_wrap(struct rn_conn *conn)
{
    struct rn_loop *loop = conn->loop;
    struct rn_buf plain = loop->out;
    size_t n;

    if (plain.len == 0)
        return;
    conn->broken |= plain.failed;
    ERR_clear_error();
    if (!conn->seal->ended) /* else nobody may be told anything any more */
        conn->broken |= SSL_write_ex(conn->seal->ssl, plain.data, plain.len, &n) != 1;
    rn_buf_clear(&plain);
    loop->out = loop->sealed;
    loop->sealed = plain;
}
