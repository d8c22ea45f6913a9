/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, sockets and signals: N workers with a loop each, and a control loop in the
 * caller's thread, for work that may take long.
 *
 *   rn_server_new, rn_server_listen (each address), rn_server_run
 *
 * Each worker has its own TCP socket for an address (SO_REUSEPORT), but a second daemon on
 * the same address is an error. Unix sockets and those passed by systemd (LISTEN_FDS) are
 * shared by the loops. Where systemd has a store for it ($FDSTORE), sockets stay open from one
 * process of the service to the next. If systemd watches ($WATCHDOG_USEC), it hears from us only
 * while all loops run.
 */
#ifndef RN_NET_SERVER_H
#define RN_NET_SERVER_H

#include <ration/error.h>

#include "net/conn.h"
#include "net/tls.h"

struct rn_server;

struct rn_server_options {
    unsigned workers;         /* 0: one for each processor this process may use */
    uint32_t connections_max; /* on workers; 0: as many as file descriptors allow. The control
                                 loop has its own places */
    uint32_t other_files;     /* descriptors to reserve for the caller */
    size_t input_max;         /* bytes of incomplete messages of all connections; 0: no limit */
    uint32_t per_address_max; /* from one address (IPv6: /64); 0: no limit. Not for unix sockets */
    int64_t drain_ns;         /* how long a stop waits for connections to end */
    bool may_pend;            /* protocols may return RN_CONN_PENDING */
    bool accept_later;        /* workers do not accept before rn_server_accept: clients wait */
};

enum rn_server_where { RN_ON_WORKERS, RN_ON_CONTROL };

int rn_server_new(const struct rn_server_options *options, struct rn_server **out,
                  struct ration_error *error);
void rn_server_free(struct rn_server *server);

/* `address` is host:port, :port (all addresses), [v6]:port or unix:PATH; port 0 picks a free
 * one. A socket that systemd passes under `name` ("http") takes the place of the address.
 * The protocol must outlive the server. Only before rn_server_run. */
int rn_server_listen(struct rn_server *server, const char *name, const char *address,
                     enum rn_server_where where, const struct rn_protocol *protocol, void *context,
                     struct ration_error *error);
/* The address in use, with the real port: "127.0.0.1:8080", "unix:/run/x". NULL: no such name. */
const char *rn_server_address(const struct rn_server *server, const char *name);

/* Loads the certificate for listeners that use TLS, and reloads it when its files change.
 * Once, before rn_server_run. */
int rn_server_tls_load(struct rn_server *server, const struct rn_tls_files *files,
                       struct ration_error *error);
/* The listener of this name, which must exist, uses TLS on its TCP sockets; not on unix
 * sockets. After rn_server_tls_load, before rn_server_run. */
void rn_server_tls_enable(struct rn_server *server, const char *name);
/* Reads the files again, for new connections, and logs it. False: they cannot be used, and
 * the former certificate stays. Control thread. */
bool rn_server_tls_reload(struct rn_server *server);

/* Callbacks, in the control thread. */
struct rn_server_calls {
    void *arg;
    void (*ready)(void *arg);    /* all listeners are open */
    void (*hangup)(void *arg);   /* SIGHUP */
    void (*stopping)(void *arg); /* SIGTERM or SIGINT, or rn_server_stop: the drain begins */
    void (*tick)(void *arg, int64_t now_ns); /* every 100 ms */
    /* Workers have ended: whether the control loop may, too. NULL: it may. Asked again with each
     * tick, unless the drain is cut short. */
    bool (*may_end)(void *arg);

    /* For each worker, in its own thread: before it accepts, and when its connections have
     * ended. Create and free diallers here. */
    void (*worker_begins)(void *arg, struct rn_loop *loop);
    void (*worker_ends)(void *arg, struct rn_loop *loop);
};

/* Starts the workers. Returns after a stop, when all connections have ended or drain_ns has
 * passed: 0, or a code with `error`. */
int rn_server_run(struct rn_server *server, const struct rn_server_calls *calls,
                  struct ration_error *error);
/* With accept_later, workers begin to accept. Any thread, after `ready`. */
void rn_server_accept(struct rn_server *server);
/* Any thread. A second SIGTERM during the drain ends it at once. */
void rn_server_stop(struct rn_server *server);
bool rn_server_stopping(const struct rn_server *server);
unsigned rn_server_workers(const struct rn_server *server);

/* Calls `changed` in the control thread when one of the files or directories changes, also
 * behind symlinks, also by rename or a swapped symlink; 100 ms after the last change, at
 * most once in 200 ms. Replaces an earlier watch. */
int rn_server_watch(struct rn_server *server, const char *const *paths, size_t count,
                    void (*changed)(void *arg), void *arg);

struct rn_server_counts {
    uint64_t open, accepted, refused; /* refused: over a quota */
    uint64_t timed_out, too_long;     /* closed for being too slow, too large */
    uint64_t crowded, swamped;        /* closed for RN_CONN_CROWDED, RN_CONN_SWAMPED */
    uint64_t bytes_in, bytes_out;
};
/* Of the listener of this name, summed over all loops. Any thread. */
void rn_server_counts(const struct rn_server *server, const char *name,
                      struct rn_server_counts *counts);

/* Bytes that count towards input_max now. Any thread. */
uint64_t rn_server_unfinished(const struct rn_server *server);

/* How many connections the control loop may have. */
uint32_t rn_server_control_connections(const struct rn_server *server);
/* The control loop. */
struct rn_loop *rn_server_control(struct rn_server *server);
/* 0 to workers - 1, or `workers` for the control loop. */
unsigned rn_loop_index(const struct rn_loop *loop);
/* For timers in the loop's thread. */
struct rn_wheel *rn_loop_wheel(struct rn_loop *loop);
/* Any thread: the loop calls what rn_loop_on_wake has set, soon. It may do so at other times. */
void rn_loop_wake(struct rn_loop *loop);
/* In the loop's thread; NULL: nothing is called any more. */
void rn_loop_on_wake(struct rn_loop *loop, void (*call)(void *arg), void *arg);
/* From worker_ends, or after rn_server_run for the control loop: goes on with outgoing connections
 * and timers until `is_busy` is false, for `most_ns` at most. */
void rn_loop_run_while(struct rn_loop *loop, bool (*is_busy)(const void *arg), const void *arg,
                       int64_t most_ns);

#endif
