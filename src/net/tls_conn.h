/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside net: TLS of one connection. Bytes from the socket are decrypted for the protocol,
 * and its output is encrypted before it is sent. TLS never touches the socket: buffering,
 * deadlines and limits are the same with and without it.
 *
 * Belongs to the thread of the connection's loop.
 */
#ifndef RN_NET_TLS_CONN_H
#define RN_NET_TLS_CONN_H

#include "net/loop.h"
#include "net/tls.h"

/* Room for the decrypted bytes of one read, and of a record that the read completes. */
#define RN_DECRYPTED_BYTES (RN_READ_BYTES + ((size_t)17 << 10))

/* Sets conn->tls, with the server's current certificate. False: out of memory. */
bool rn_tls_conn_new(struct rn_conn *conn);
/* The same for an outgoing connection, to the server of this name or IP address. */
bool rn_tls_conn_new_client(struct rn_conn *conn, struct rn_tls *tls, const char *server);
/* Outgoing connections: sends the first message. */
void rn_tls_conn_begin_handshake(struct rn_conn *conn);
/* NULL is fine. */
void rn_tls_conn_free(struct rn_tls_conn *tls_conn);

/* Decrypts bytes from the socket into loop->decrypted and returns how many those are.
 * Sends TLS's own messages. Opens the connection at the end of the handshake, notes the
 * end of the peer's output, and begins to close after a failure. */
size_t rn_tls_conn_decrypt(struct rn_conn *conn, const char *data, size_t len);

/* An incomplete record counts as the beginning of a message. Call after the protocol has
 * seen the bytes before it. */
void rn_tls_conn_note_partial_record(struct rn_conn *conn);

/* Encrypts the loop's output, which is this connection's, in place. */
void rn_tls_conn_encrypt(struct rn_conn *conn);

/* Tells the peer that nothing more will be sent. Repeating it does nothing. */
void rn_tls_conn_shutdown(struct rn_conn *conn);

#endif
