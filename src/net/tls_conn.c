/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS between two buffers. OpenSSL gets all bytes of the last recv before the protocol
 * sees any, and writes into a buffer of the loop, which is sent or kept like any other
 * output. So it never waits in the middle of a call, and between calls it holds at most
 * one incomplete record.
 */
#include "net/tls_conn.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "net/log.h"
#include "net/server_internal.h"
#include "net/tls_internal.h"

/* A name that does not fit is left out: half of it could be another client's. */
#define NAMES_MAX_BYTES 1024

struct rn_tls_conn {
    struct rn_tls *tls;
    SSL *ssl;
    struct rn_conn *conn;
    const char *data; /* from the socket, not read by OpenSSL yet */
    size_t len;
    bool ended; /* close_notify or an alert was sent: nothing may follow */
    char *certificate;
};

/* --- the BIO ------------------------------------------------------------------------ */

static int pipe_read(BIO *bio, char *to, int len)
{
    struct rn_tls_conn *tls_conn = BIO_get_data(bio);
    size_t n = (size_t)len < tls_conn->len ? (size_t)len : tls_conn->len;

    BIO_clear_retry_flags(bio);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(to, tls_conn->data, n);
    tls_conn->data += n;
    tls_conn->len -= n;
    return (int)n;
}

static int pipe_write(BIO *bio, const char *data, int len)
{
    struct rn_tls_conn *tls_conn = BIO_get_data(bio);

    rn_buf_put(&tls_conn->conn->loop->tls_records, data, (size_t)len);
    return len; /* the sender notices if the buffer has failed */
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

BIO_METHOD *rn_tls_conn_new_bio_method(void)
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

/* --- creation and end --------------------------------------------------------------- */

/* The listener speaks one protocol; clients that offer only others are refused
 * (RFC 7301, section 3.2). */
int rn_tls_conn_select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                            const unsigned char *in, unsigned in_len, void *unused)
{
    const struct rn_tls_conn *tls_conn = SSL_get_app_data(ssl);
    const char *ours = tls_conn->conn->protocol->alpn;

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

/* Takes over the reference to `tls`. */
static struct rn_tls_conn *make_tls_conn(struct rn_conn *conn, struct rn_tls *tls)
{
    struct rn_loop *loop = conn->loop;
    struct rn_tls_conn *tls_conn = calloc(1, sizeof *tls_conn);

    if (!loop->decrypted)
        loop->decrypted = malloc(RN_DECRYPTED_BYTES);
    if (!tls_conn || !loop->decrypted) {
        free(tls_conn);
        rn_tls_unref(tls);
        return NULL;
    }
    tls_conn->conn = conn;
    tls_conn->tls = tls;
    tls_conn->ssl = SSL_new(tls_conn->tls->context);
    BIO *bio = BIO_new(tls_conn->tls->pipe);
    if (!tls_conn->ssl || !bio) {
        BIO_free(bio);
        rn_tls_conn_free(tls_conn);
        return NULL;
    }
    BIO_set_data(bio, tls_conn);
    SSL_set_bio(tls_conn->ssl, bio, bio);
    SSL_set_app_data(tls_conn->ssl, tls_conn);
    return tls_conn;
}

bool rn_tls_conn_new(struct rn_conn *conn)
{
    struct rn_server *server = conn->loop->server;

    pthread_mutex_lock(&server->tls_lock);
    struct rn_tls *tls = rn_tls_ref(server->tls);
    pthread_mutex_unlock(&server->tls_lock);
    conn->tls = make_tls_conn(conn, tls);
    if (conn->tls)
        SSL_set_accept_state(conn->tls->ssl);
    return conn->tls != NULL;
}

/* The server's certificate must be for this name or address. A name is also sent, an
 * address is not (RFC 6066, section 3). */
bool rn_tls_conn_new_client(struct rn_conn *conn, struct rn_tls *tls, const char *server)
{
    struct rn_tls_conn *tls_conn = make_tls_conn(conn, rn_tls_ref(tls));
    SSL *ssl = tls_conn ? tls_conn->ssl : NULL;
    struct rn_ip ip;
    bool is_ip = rn_ip_parse(server, strlen(server), &ip, NULL) == 0;
    bool ok = ssl && (is_ip || SSL_set_tlsext_host_name(ssl, server) == 1);

    if (ok && !tls->any_name)
        ok = is_ip ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server) == 1
                   : SSL_set1_host(ssl, server) == 1;
    if (!ok) {
        rn_tls_conn_free(tls_conn);
        return false;
    }
    SSL_set_connect_state(ssl);
    conn->tls = tls_conn;
    return true;
}

void rn_tls_conn_begin_handshake(struct rn_conn *conn)
{
    ERR_clear_error();
    SSL_do_handshake(conn->tls->ssl); /* never completes here: it waits for the server */
    rn_conn_output_flush_tls(conn);
}

void rn_tls_conn_free(struct rn_tls_conn *tls_conn)
{
    if (!tls_conn)
        return;
    SSL_free(tls_conn->ssl);
    rn_tls_unref(tls_conn->tls);
    free(tls_conn->certificate);
    free(tls_conn);
}

void rn_tls_conn_shutdown(struct rn_conn *conn)
{
    struct rn_tls_conn *tls_conn = conn->tls;

    if (tls_conn->ended || !SSL_is_init_finished(tls_conn->ssl))
        return;
    tls_conn->ended = true;
    ERR_clear_error();
    SSL_shutdown(tls_conn->ssl);
    rn_conn_output_flush_tls(conn);
}

/* --- the names in a client certificate ------------------------------------------------ */

/* Escapes bytes that could make one name look like two. */
static void put_name(struct rn_buf *out, const char *kind, const ASN1_STRING *string)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *text = ASN1_STRING_get0_data(string);
    size_t before = out->len;

    rn_buf_putf(out, "%s%s:", before > 0 ? "," : "", kind);
    for (int i = 0; i < ASN1_STRING_length(string); i++) {
        unsigned char c = text[i];
        if (c > ' ' && c < 127 && c != ',' && c != '\\')
            rn_buf_put_char(out, (char)c);
        else
            rn_buf_put(out, (char[]){'\\', 'x', digits[c >> 4], digits[c & 15]}, 4);
    }
    if (out->len > NAMES_MAX_BYTES)
        out->len = before;
}

static void put_common_name(struct rn_buf *out, const X509 *cert)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    unsigned char *text = NULL;

    if (at < 0)
        return;
    const ASN1_STRING *name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    int len = ASN1_STRING_to_UTF8(&text, name); /* some encodings have two bytes per letter */
    if (len < 0)
        return;
    ASN1_STRING *utf8 = ASN1_STRING_new();
    if (utf8 && ASN1_STRING_set(utf8, text, len) == 1)
        put_name(out, "CN", utf8);
    else
        out->failed = true;
    ASN1_STRING_free(utf8);
    OPENSSL_free(text);
}

/* The names as text: "CN:alice,DNS:alice.example". The caller frees it. NULL: out of memory. */
static char *names_of(const X509 *cert)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    struct rn_buf out;

    rn_buf_init(&out);
    put_common_name(&out, cert);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        if (type == GEN_DNS)
            put_name(&out, "DNS", value);
        else if (type == GEN_URI)
            put_name(&out, "URI", value);
        else if (type == GEN_EMAIL)
            put_name(&out, "EMAIL", value);
    }
    GENERAL_NAMES_free(names);
    rn_buf_put_char(&out, '\0');
    if (!out.failed)
        return out.data;
    rn_buf_done(&out);
    return NULL;
}

/* --- input ---------------------------------------------------------------------------- */

/* OpenSSL sends nothing to a peer that does not speak TLS: we send the alert ourselves. The
 * peer may keep sending: lingering reads its input, so that it gets the alert. */
static void fail(struct rn_conn *conn)
{
    static const char unexpected_message[] = {21, 3, 1, 0, 2, 2, 10}; /* a fatal alert */
    struct rn_buf *records = &conn->loop->tls_records;
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    const char *why = ERR_reason_error_string(code);
    long verified = SSL_get_verify_result(conn->tls->ssl);
    bool plain = conn->life < RN_LIFE_OPEN && records->len == 0 &&
                 ERR_GET_LIB(code) == ERR_LIB_SSL &&
                 (reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST ||
                  reason == SSL_R_WRONG_VERSION_NUMBER);

    if (plain) {
        why = conn->outgoing ? "the server does not speak TLS" : "the client does not speak TLS";
        rn_buf_put(records, unexpected_message, sizeof unexpected_message);
    } else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
        why = X509_verify_cert_error_string(verified);
    }
    rn_log(RN_LOG_INFO, "tls.failed", RN_LOG_TEXT("listener", rn_slice_of(conn->listener->name)),
           RN_LOG_TEXT("peer", rn_slice_of(conn->peer.text)),
           RN_LOG_TEXT("reason", rn_slice_of(why ? why : "unknown")));
    conn->tls->ended = true;
    rn_buf_clear(&conn->in);
    rn_conn_close(conn);
    conn->unread = true;
}

size_t rn_tls_conn_decrypt(struct rn_conn *conn, const char *data, size_t len)
{
    struct rn_tls_conn *tls_conn = conn->tls;
    size_t got = 0, n;

    tls_conn->data = data;
    tls_conn->len = len;
    ERR_clear_error();
    while (SSL_read_ex(tls_conn->ssl, conn->loop->decrypted + got, RN_DECRYPTED_BYTES - got, &n) ==
           1) {
        got += n;
        assert(got < RN_DECRYPTED_BYTES);
    }
    int outcome = SSL_get_error(tls_conn->ssl, 0);
    if (outcome == SSL_ERROR_ZERO_RETURN)
        conn->ended = true;
    else if (outcome != SSL_ERROR_WANT_READ)
        fail(conn);
    rn_conn_output_flush_tls(conn);
    if (conn->life >= RN_LIFE_CLOSING)
        return 0;
    if (conn->life == RN_LIFE_OPEN || !SSL_is_init_finished(tls_conn->ssl))
        return got;
    const X509 *cert = SSL_get0_peer_certificate(tls_conn->ssl);
    if (cert && SSL_get_verify_result(tls_conn->ssl) == X509_V_OK) {
        conn->peer.certificate = tls_conn->certificate = names_of(cert);
        if (!tls_conn->certificate) {
            rn_conn_break(conn);
            return got;
        }
    }
    conn->begun_ns = 0;
    rn_conn_open(conn);
    return got;
}

void rn_tls_conn_note_partial_record(struct rn_conn *conn)
{
    const SSL *ssl = conn->tls->ssl;
    bool part = SSL_has_pending(ssl) || strcmp(SSL_rstate_string(ssl), "RB") == 0;

    if (conn->life < RN_LIFE_OPEN || conn->in.len > 0)
        return;
    if (!part)
        conn->begun_ns = 0;
    else if (conn->begun_ns == 0)
        conn->begun_ns = conn->loop->wheel.now_ns;
}

/* --- output --------------------------------------------------------------------------- */

void rn_tls_conn_encrypt(struct rn_conn *conn)
{
    struct rn_loop *loop = conn->loop;
    struct rn_buf plain = loop->out;
    size_t n;

    if (plain.len == 0)
        return;
    ERR_clear_error();
    if (plain.failed || (!conn->tls->ended && /* else nothing may follow */
                         SSL_write_ex(conn->tls->ssl, plain.data, plain.len, &n) != 1))
        rn_conn_break(conn);
    rn_buf_clear(&plain);
    loop->out = loop->tls_records;
    loop->tls_records = plain;
}
