/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside net: TLS of one connection. What came from the socket goes in and plain
 * bytes come out; plain output becomes records before it is sent. TLS never
 * touches the socket: whatever holds for bytes on their way (keeping them,
 * deadlines, limits) is the same with and without it.
 *
 * One thread: that of the connection's loop.
 */
#ifndef RN_NET_TLS_CONN_H
#define RN_NET_TLS_CONN_H

#include "net/loop.h"
#include "net/tls.h"

/* Room for the plain bytes of one read, and of a record of which the read brought
 * the end. */
#define RN_DECRYPTED_BYTES (RN_READ_BYTES + ((size_t)17 << 10))

/* Makes conn->tls, with the server's current certificate. False: out of memory. */
bool rn_tls_conn_new(struct rn_conn *conn);
/* The same for a connection that we began: to the server of this name or IP address. */
bool rn_tls_conn_new_client(struct rn_conn *conn, struct rn_tls *tls, const char *server);
/* We speak first. */
void rn_tls_conn_begin_handshake(struct rn_conn *conn);
/* NULL is fine. */
void rn_tls_conn_free(struct rn_tls_conn *tls_conn);

/* Takes what came from the socket; returns how many plain bytes there are now in
 * loop->decrypted. What TLS itself has to say is sent. The end of the handshake opens
 * the connection, the end of the peer's output ends it, and a failure begins to
 * close it. */
size_t rn_tls_conn_decrypt(struct rn_conn *conn, const char *data, size_t len);

/* A record of which a part has come counts as a message begun: to be asked when the
 * protocol has seen what came with it. */
void rn_tls_conn_note_partial_record(struct rn_conn *conn);

/* Turns the loop's output, which is this connection's, into records. */
void rn_tls_conn_encrypt(struct rn_conn *conn);

/* Nothing more will be sent: tells the peer, once. */
void rn_tls_conn_shutdown(struct rn_conn *conn);

#endif
