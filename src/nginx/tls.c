/* SPDX-License-Identifier: Apache-2.0 */
#include "nginx/tls.h"

#include <arpa/inet.h>

#if (NGX_SSL)

#define VERIFY_DEPTH 5 /* certificates between rationd's and its authority */
#define POOL_BYTES 512

/* An nginx without TLS has none of these and must still load the module. They come from
 * nginx, never from a library that we link: a process must not have two copies of OpenSSL. */
#pragma weak ngx_ssl_create
#pragma weak ngx_ssl_cleanup_ctx
#pragma weak ngx_ssl_trusted_certificate
#pragma weak ngx_ssl_certificate
#pragma weak ngx_ssl_create_connection
#pragma weak ngx_ssl_handshake
#pragma weak ngx_ssl_shutdown
#pragma weak SSL_ctrl
#pragma weak SSL_get0_param
#pragma weak SSL_get_verify_result
#pragma weak X509_VERIFY_PARAM_set1_host
#pragma weak X509_VERIFY_PARAM_set1_ip_asc
#pragma weak X509_verify_cert_error_string

struct rn_ngx_tls {
    ngx_ssl_t ssl;
    char *name;      /* terminated */
    bool is_address; /* the name is an IP address */
};

/* --- configuration ------------------------------------------------------------------------- */

static ngx_int_t refuse(ngx_conf_t *cf, const char *what)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s", what);
    return NGX_ERROR;
}

static ngx_int_t check(ngx_conf_t *cf, const struct rn_ngx_tls_given *given)
{
    bool has_tls = ngx_ssl_create && ngx_ssl_cleanup_ctx && ngx_ssl_trusted_certificate &&
                   ngx_ssl_certificate && ngx_ssl_create_connection && ngx_ssl_handshake &&
                   ngx_ssl_shutdown && SSL_ctrl && SSL_get0_param && SSL_get_verify_result &&
                   X509_VERIFY_PARAM_set1_host && X509_VERIFY_PARAM_set1_ip_asc &&
                   X509_verify_cert_error_string;

    if (!has_tls)
        return refuse(cf, "this nginx was built without TLS (--with-http_ssl_module): it cannot "
                          "ask a server by tls://");
    if (given->trusted.len == 0)
        return refuse(cf, "\"ration_server tls://...\" needs ssl_trusted_certificate=FILE: the "
                          "authority that has signed the certificate of rationd");
    if ((given->certificate.len == 0) != (given->key.len == 0))
        return refuse(cf, "\"ssl_certificate=\" and \"ssl_certificate_key=\" go together");
    return NGX_OK;
}

struct rn_ngx_tls *rn_ngx_tls_new(ngx_conf_t *cf, const struct rn_ngx_tls_given *given)
{
    struct rn_ngx_tls *tls = ngx_pcalloc(cf->pool, sizeof *tls);
    struct rn_ngx_tls_given files = *given; /* whose names become absolute */
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(cf->pool, 0);
    unsigned char address[sizeof(struct in6_addr)];

    if (!tls || !cleanup || check(cf, given) != NGX_OK)
        return NULL;
    tls->name = ngx_pnalloc(cf->pool, given->name.len + 1);
    if (!tls->name)
        return NULL;
    ngx_memcpy(tls->name, given->name.data, given->name.len);
    tls->name[given->name.len] = '\0';
    tls->is_address =
        inet_pton(AF_INET, tls->name, address) == 1 || inet_pton(AF_INET6, tls->name, address) == 1;
    tls->ssl.log = cf->log;
    if (ngx_ssl_create(&tls->ssl, NGX_SSL_TLSv1_2 | NGX_SSL_TLSv1_3, NULL) != NGX_OK)
        return NULL;
    cleanup->handler = ngx_ssl_cleanup_ctx;
    cleanup->data = &tls->ssl;
    /* nginx logs what OpenSSL found; we add the directive. */
    if (ngx_ssl_trusted_certificate(cf, &tls->ssl, &files.trusted, VERIFY_DEPTH) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"ssl_trusted_certificate=%V\" cannot be used",
                           &files.trusted);
        return NULL;
    }
    if (files.certificate.len != 0 &&
        ngx_ssl_certificate(cf, &tls->ssl, &files.certificate, &files.key, NULL) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"ssl_certificate=%V\" cannot be used with \"ssl_certificate_key=%V\"",
                           &files.certificate, &files.key);
        return NULL;
    }
    return tls;
}

/* --- connections ------------------------------------------------------------------------- */

void rn_ngx_tls_begin(struct rn_ngx_tls *tls, ngx_connection_t *c, ngx_connection_handler_pt done)
{
    X509_VERIFY_PARAM *param;
    SSL *ssl;

    c->pool = ngx_create_pool(POOL_BYTES, c->log);
    if (!c->pool || ngx_ssl_create_connection(&tls->ssl, c, NGX_SSL_CLIENT) != NGX_OK) {
        done(c);
        return;
    }
    ssl = c->ssl->connection;
    param = SSL_get0_param(ssl);
    /* The buffer of a write that is tried again may have moved and grown. */
    (void)SSL_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_ENABLE_PARTIAL_WRITE);
    if (tls->is_address ? X509_VERIFY_PARAM_set1_ip_asc(param, tls->name) != 1
                        : X509_VERIFY_PARAM_set1_host(param, tls->name, 0) != 1 ||
                              SSL_set_tlsext_host_name(ssl, tls->name) != 1) {
        done(c);
        return;
    }
    c->ssl->handler = done;
    if (ngx_ssl_handshake(c) != NGX_AGAIN)
        done(c);
}

bool rn_ngx_tls_failed(const struct rn_ngx_tls *tls, ngx_connection_t *c,
                       char why[RN_NGX_TLS_FAULT_SIZE])
{
    u_char *at = (u_char *)why, *end = at + RN_NGX_TLS_FAULT_SIZE - 1;
    long result;

    if (!c->ssl || !c->ssl->handshaked) {
        *ngx_slprintf(at, end, "%s", c->ssl ? "does not agree on TLS" : "cannot be asked by TLS") =
            '\0';
        return true;
    }
    result = SSL_get_verify_result(c->ssl->connection);
    if (result == X509_V_OK)
        return false;
    *ngx_slprintf(at, end, "shows a certificate that is not trusted for \"%s\" (%s)", tls->name,
                  X509_verify_cert_error_string(result)) = '\0';
    return true;
}

void rn_ngx_tls_close(ngx_connection_t *c)
{
    ngx_pool_t *pool = c->pool;

    if (c->ssl) { /* says goodbye if that needs no waiting */
        c->ssl->no_wait_shutdown = 1;
        c->ssl->no_send_shutdown = !c->write->ready;
        if (ngx_ssl_shutdown(c) == NGX_AGAIN) {
            c->timedout = 1;
            (void)ngx_ssl_shutdown(c);
        }
    }
    ngx_close_connection(c);
    if (pool)
        ngx_destroy_pool(pool);
}

#else /* built against an nginx without TLS */

struct rn_ngx_tls *rn_ngx_tls_new(ngx_conf_t *cf, const struct rn_ngx_tls_given *given)
{
    (void)given;
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "this module was built for an nginx without TLS: it cannot ask a server "
                       "by tls://");
    return NULL;
}

void rn_ngx_tls_begin(struct rn_ngx_tls *tls, ngx_connection_t *c, ngx_connection_handler_pt done)
{
    (void)tls;
    done(c);
}

bool rn_ngx_tls_failed(const struct rn_ngx_tls *tls, ngx_connection_t *c,
                       char why[RN_NGX_TLS_FAULT_SIZE])
{
    (void)tls;
    (void)c;
    why[0] = '\0';
    return true;
}

void rn_ngx_tls_close(ngx_connection_t *c)
{
    ngx_close_connection(c);
}

#endif
