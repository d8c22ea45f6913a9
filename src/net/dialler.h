/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that we begin. Once made they are connections like any other; only
 * the protocol sees to it that they are made again. They count in no cap, and a
 * drain neither waits for them nor ends them: they last as long as their loop.
 */
#ifndef RN_NET_DIALLER_H
#define RN_NET_DIALLER_H

#include "net/address.h"
#include "net/conn.h"
#include "net/tls.h"

/* Whom to call and what to say. Used by one loop, in its thread, and outlives its
 * connections. */
struct rn_dialler;

/* `name` stands in log lines. The protocol's message_ns is also how long an answer
 * is waited for (0: 10 s). NULL: out of memory. */
struct rn_dialler *rn_dialler_new(struct rn_loop *loop, const char *name,
                                  const struct rn_protocol *protocol, void *context);
void rn_dialler_free(struct rn_dialler *dialler);

/* Connections that begin from now on speak TLS, with a server of this name or IP address,
 * and are `opened` when the handshake is done. False: out of memory. */
bool rn_dialler_use_tls(struct rn_dialler *dialler, struct rn_tls *tls, const char *server);

/* Begins to connect, without waiting: `opened` follows, or `closed` alone. NULL with
 * errno if it has failed at once; then nothing follows. */
struct rn_conn *rn_dialler_connect(struct rn_dialler *dialler, const struct rn_address *to);

/* Ends one at once, with `closed`, but not from within a call of its protocol. What was
 * just appended is sent if the peer takes it without waiting. */
void rn_dialler_close(struct rn_conn *conn);

#endif
