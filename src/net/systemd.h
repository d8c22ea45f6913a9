/* SPDX-License-Identifier: Apache-2.0 */
/* What systemd offers a daemon, without its library: sockets and status messages. */
#ifndef RN_NET_SYSTEMD_H
#define RN_NET_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

struct rn_listener;

/* Sockets of a socket unit, which systemd passes under the listener's name, take the place of its
 * address; *taken says whether there are any. Without them, those that the last process of this
 * service has stored are put into the listener, for rn_listener_open; if one of them listens no
 * more, all are dropped. */
int rn_systemd_take_sockets(struct rn_listener *listener, unsigned loops, bool *taken,
                            struct ration_error *error);

/* Stores the listener's sockets with systemd, which passes them to the next process of this
 * service: clients that connect during a restart wait for it. *room is how many more may be stored.
 */
void rn_systemd_store_sockets(struct rn_listener *listener, size_t *room);
/* How many sockets systemd stores for this service: $FDSTORE, or 0. */
size_t rn_systemd_store_size(void);
/* Ends the stored sockets of this name that were passed to us, and has systemd close its own. */
void rn_systemd_drop_stored(const char *name);
/* `names`: the listeners that there are. Drops stored sockets of others, such as of another
 * version, and warns of sockets of a socket unit that no listener takes. Call it before any
 * listens. */
void rn_systemd_settle_rest(const char *const *names, size_t count);

/* How often systemd wants a sign of life, or 0 if it does not: sd_watchdog_enabled(3). */
int64_t rn_systemd_watchdog_ns(void);

/* Sends "READY=1", "STOPPING=1", "RELOADING=1", "STATUS=…" or several of them, one per
 * line, to $NOTIFY_SOCKET: sd_notify(3). Adds the MONOTONIC_USEC that RELOADING=1 needs.
 * False: there is no such socket, or no process reads it. */
bool rn_systemd_notify(const char *state);

#endif
