/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd offers a daemon, without its library: sockets and status messages. */
#ifndef RN_NET_SYSTEMD_H
#define RN_NET_SYSTEMD_H

#include <stdbool.h>

#include <ration/error.h>

struct rn_listener;

/* Sockets that systemd passes under the listener's name take the place of its address;
 * *taken says whether there are any. */
int rn_systemd_take_sockets(struct rn_listener *listener, unsigned loops, bool *taken,
                            struct ration_error *error);

/* Sends "READY=1", "STOPPING=1", "RELOADING=1", "STATUS=…" or several of them, one per
 * line, to $NOTIFY_SOCKET: sd_notify(3). Adds the MONOTONIC_USEC that RELOADING=1 needs.
 * False: there is no such socket, or no process reads it. */
bool rn_systemd_notify(const char *state);

#endif
