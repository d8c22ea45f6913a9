/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection.
 *
 *     outgoing           accepted
 *        |                  |
 *        v       TLS        v
 *    CONNECTING -------> HANDSHAKE          without TLS passed at once
 *        |                  |
 *        | without TLS      | finished
 *        v                  v
 *        +----------------> OPEN            the protocol reads and writes
 *                           |
 *                           v               also from the states above:
 *                        CLOSING            rn_conn_close, a limit, a TLS failure;
 *                           |               output that waits is still sent
 *                           v
 *                        LINGERING          accepted ones: all is sent and the peer may
 *                           |               still send: its input is thrown away
 *                           v
 *     from all above --> BROKEN             nothing can be sent or read; waits for the
 *                           |               last reference
 *                           v
 *     from all above --> CLOSED             the socket is closed, the memory freed soon
 *
 * A connection only ever moves down.
 */
#ifndef RN_NET_CONN_LIFE_H
#define RN_NET_CONN_LIFE_H

#include <stdbool.h>

/* In the order of the diagram: `life < RN_LIFE_CLOSING` is one that may read. */
enum rn_conn_life {
    RN_LIFE_CONNECTING,
    RN_LIFE_HANDSHAKE,
    RN_LIFE_OPEN,
    RN_LIFE_CLOSING,
    RN_LIFE_LINGERING,
    RN_LIFE_BROKEN,
    RN_LIFE_CLOSED,
};

/* Whether a connection may go from one to another. */
static inline bool rn_conn_life_allows(enum rn_conn_life from, enum rn_conn_life to)
{
    switch (to) {
    case RN_LIFE_CONNECTING:
        return false;
    case RN_LIFE_HANDSHAKE:
        return from == RN_LIFE_CONNECTING;
    case RN_LIFE_OPEN:
        return from == RN_LIFE_CONNECTING || from == RN_LIFE_HANDSHAKE;
    case RN_LIFE_CLOSING:
        return from < RN_LIFE_CLOSING;
    case RN_LIFE_LINGERING:
        return from == RN_LIFE_CLOSING;
    case RN_LIFE_BROKEN:
        return from < RN_LIFE_BROKEN;
    case RN_LIFE_CLOSED:
        return from < RN_LIFE_CLOSED;
    }
    return false;
}

#endif
