/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net: the outcome of a connection that we began. */
#ifndef RN_NET_DIAL_INTERNAL_H
#define RN_NET_DIAL_INTERNAL_H

#include "net/loop.h"

/* The socket has become writable: it is connected, or `broken` is set. */
void rn_dial_answered(struct rn_conn *conn);

#endif
