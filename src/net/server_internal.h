/* SPDX-License-Identifier: Apache-2.0 */
/* Inside net: the state that the loops of a server share. */
#ifndef RN_NET_SERVER_INTERNAL_H
#define RN_NET_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/conn_quota.h"
#include "net/loop.h"
#include "net/server.h"
#include "net/watch.h"

#define RN_TLS_PATHS 3 /* certificate, key, authorities of clients */

struct rn_worker {
    pthread_t thread;
    struct rn_loop loop;
};

struct rn_server {
    struct rn_server_options options;
    struct rn_conn_quota *quota,
        *control_quota;           /* for connections on workers; on the control loop */
    uint32_t control_max;         /* the total of the latter */
    _Atomic size_t unfinished;    /* bytes of incomplete input of all connections */
    _Atomic size_t largest;       /* at least that of the connection with the most */
    _Atomic bool crowded;         /* a worker asks the others to make room */
    _Atomic int64_t *quietest_ns; /* by loop: no connection that may be closed was quiet before;
                                     0: not known yet */
    _Atomic size_t cut_from;      /* see rn_loop */
    _Atomic size_t round_from;    /* the same, while loops are at it; 0: none is */
    _Atomic unsigned round_left;  /* loops that are not done */
    _Atomic int64_t round_ns;     /* when it began */
    struct rn_listener *listeners;
    struct rn_worker **workers; /* options.workers of them, while it runs */
    struct rn_loop control;
    const struct rn_server_calls *calls;
    uv_signal_t terminate, interrupt, hangup;
    uv_timer_t tick, deadline, watchdog;
    _Atomic unsigned silent; /* workers that have not given the sign of life that was asked for */
    struct rn_watch watch, tls_watch;
    pthread_mutex_t tls_lock; /* protects `tls`: the control thread writes it, all read it */
    struct rn_tls *tls;       /* NULL: no listener uses TLS */
    char *tls_paths[RN_TLS_PATHS];
    bool tls_only_13;
    _Atomic bool accepting;   /* rn_server_accept was called */
    _Atomic bool asked;       /* rn_server_stop was called */
    _Atomic bool stopping;    /* the drain has begun */
    _Atomic bool cutting;     /* the drain is over: close all connections */
    _Atomic unsigned running; /* workers */
};

/* server_tls.c */
void rn_server_tls_done(struct rn_server *server);

#endif
