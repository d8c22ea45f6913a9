/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS on connections to rationd, by nginx's own functions and the OpenSSL that nginx has.
 * The server is always verified: otherwise another host could decide in its place and read
 * the requests.
 */
#ifndef RN_NGINX_TLS_H
#define RN_NGINX_TLS_H

#include <ngx_config.h>

#include <ngx_core.h>
#include <ngx_event.h>

#include <stdbool.h>

#define RN_NGX_TLS_FAULT_SIZE 256

struct rn_ngx_tls;

/* The parameters of the directive; empty: not given. */
struct rn_ngx_tls_given {
    ngx_str_t trusted; /* file of the authorities to trust */
    ngx_str_t name;    /* that the certificate must have: a DNS name or an address */
    ngx_str_t certificate, key;
};

/* In the pool of the configuration. NULL after logging what is wrong, or that this nginx
 * has no TLS. */
struct rn_ngx_tls *rn_ngx_tls_new(ngx_conf_t *cf, const struct rn_ngx_tls_given *given);

/* Begins the handshake of a new connection. `done` is called when it is over, now or later;
 * it may close the connection. */
void rn_ngx_tls_begin(struct rn_ngx_tls *tls, ngx_connection_t *connection,
                      ngx_connection_handler_pt done);
/* Afterwards: whether it failed, and why. Then nothing may be sent. */
bool rn_ngx_tls_failed(const struct rn_ngx_tls *tls, ngx_connection_t *connection,
                       char why[RN_NGX_TLS_FAULT_SIZE]);
/* Closes a connection, also one without TLS. */
void rn_ngx_tls_close(ngx_connection_t *connection);

#endif
