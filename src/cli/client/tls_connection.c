/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL's own socket BIO writes without MSG_NOSIGNAL, so that a closed connection would end
 * the program by SIGPIPE. This file has its own BIO.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdlib.h>

#include "cli/client/tls_internal.h"

/* --- to and from the socket -------------------------------------------------------- */

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
        rn_cli_tls_error_explain(t->ssl, t->config, t->host, t->problem);
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
