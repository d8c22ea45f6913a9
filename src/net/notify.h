/* SPDX-License-Identifier: Apache-2.0 */
/* Telling the service manager how things stand: sd_notify(3), without the library. */
#ifndef RN_NET_NOTIFY_H
#define RN_NET_NOTIFY_H

#include <stdbool.h>

/* Sends "READY=1", "STOPPING=1", "RELOADING=1", "STATUS=…" or several of them, a
 * line each, to $NOTIFY_SOCKET. RELOADING=1 gets the MONOTONIC_USEC that has to
 * go with it. False: nobody asked to be told, or they do not listen. */
bool rn_notify(const char *state);

#endif
