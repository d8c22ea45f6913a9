/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outgoing connections. Once connected they are like any other; reconnecting is up to the
 * protocol. They count in no quota, and a drain neither waits for them nor closes them: they
 * last as long as their loop.
 */
#ifndef RN_NET_DIALLER_H
#define RN_NET_DIALLER_H

#include "net/address.h"
#include "net/conn.h"
#include "net/tls.h"

/* The protocol of outgoing connections. Belongs to the thread of one loop, and must outlive
 * its connections. */
struct rn_dialler;

/* `name` is for log lines. The protocol's message_ns also limits connecting (0: 10 s).
 * NULL: out of memory. */
struct rn_dialler *rn_dialler_new(struct rn_loop *loop, const char *name,
                                  const struct rn_protocol *protocol, void *context);
void rn_dialler_free(struct rn_dialler *dialler);

/* Further connections use TLS, with a server of this name or IP address; `opened` is called
 * after the handshake. False: out of memory. */
bool rn_dialler_use_tls(struct rn_dialler *dialler, struct rn_tls *tls, const char *server);

/* Begins to connect, without blocking: `opened` follows, or only `closed`. NULL with errno:
 * it failed at once, and no callback follows. */
struct rn_conn *rn_dialler_connect(struct rn_dialler *dialler, const struct rn_address *to);

/* Closes at once and calls `closed`. Must not be called from within a callback of the
 * connection. Output is sent as far as the socket takes it now. */
void rn_dialler_close(struct rn_conn *conn);

#endif
