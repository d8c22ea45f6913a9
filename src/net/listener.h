/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets, opened here or passed by systemd. Knows no loops. */
#ifndef RN_NET_LISTENER_H
#define RN_NET_LISTENER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <ration/error.h>

#include "net/address.h"

struct rn_conn_quota;

/* Used by one loop or several; the last one closes it. */
struct rn_socket {
    int fd;
    _Atomic unsigned users;
    bool is_tcp;
    bool unlinks; /* a unix socket whose file we remove */
    bool stored;  /* systemd has it, too, and passes it to the next process of this service */
    dev_t device;
    ino_t inode;
    struct rn_address address; /* with the real port */
};

/* Counters of one listener in one loop. Its thread writes them, any thread reads them. */
struct rn_tally {
    _Alignas(64) _Atomic uint64_t opened;
    _Atomic uint64_t closed, refused, timed_out, too_long, crowded, swamped, bytes_in, bytes_out;
};

static inline void rn_tally_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

struct rn_listener {
    struct rn_listener *next;
    char *name;
    const struct rn_protocol *protocol;
    void *context;
    /* That its connections count in; NULL: a dialler's, of outgoing connections. */
    struct rn_conn_quota *quota;
    bool on_control, secure; /* secure: TCP sockets speak TLS */
    char address[RN_ADDRESS_TEXT];
    struct rn_tally *tallies; /* one for each loop */
    size_t count;
    struct rn_socket *sockets;
    bool passed; /* by a socket unit of systemd */
    bool shared; /* all loops poll each socket; else each loop has its own */
};

/* `loops`: how many poll it. Uses the stored sockets that the listener has already, if they are
 * those of this address; else has systemd drop them. */
int rn_listener_open(struct rn_listener *listener, const char *address, unsigned loops,
                     struct ration_error *error);
/* Closes the sockets that still have users, and frees the memory. */
void rn_listener_done(struct rn_listener *listener);

/* The last user closes it. */
void rn_listener_release_socket(struct rn_socket *socket);

#endif
