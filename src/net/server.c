/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a server and reading its state. server_run.c runs it. */
#include "net/server.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "net/log.h"
#include "net/server_internal.h"
#include "net/systemd.h"

#define OWN_FILES 32            /* state, journal, rules, certificates and their readers */
#define FILES_OF_LOOP 8         /* listeners, libuv's own, a connection to Redis */
#define CONNECTIONS_MIN 16      /* even with fewer descriptors */
#define CONTROL_CONNECTIONS 160 /* of the control loop, some of which may stay for long */
#define FEW_FILES 1024          /* with fewer descriptors, it has */
#define CONTROL_CONNECTIONS_FEW 32
#define WORKERS_MAX 1024

static uint32_t count_control_connections(void)
{
    struct rlimit files;

    return getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FEW_FILES
               ? CONTROL_CONNECTIONS_FEW
               : CONTROL_CONNECTIONS;
}

/* To what the file descriptors allow. */
static void limit_connections(struct rn_server_options *options)
{
    rlim_t others = OWN_FILES + FILES_OF_LOOP * ((rlim_t)options->workers + 1) +
                    count_control_connections() + options->other_files;
    uint32_t most = CONNECTIONS_MIN, asked = options->connections_max;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= others + CONNECTIONS_MIN)
        most =
            files.rlim_cur - others < INT32_MAX ? (uint32_t)(files.rlim_cur - others) : INT32_MAX;
    if (asked == 0 || asked > most)
        options->connections_max = most;
    if (asked > most)
        rn_log(RN_LOG_WARN, "connections.lowered", RN_LOG_NUMBER("asked", asked),
               RN_LOG_NUMBER("to", most),
               RN_LOG_TEXT("advice", RN_SLICE("allow more file descriptors: ulimit -n, "
                                              "LimitNOFILE=")));
}

int rn_server_new(const struct rn_server_options *options, struct rn_server **out,
                  struct ration_error *error)
{
    if (options->workers > WORKERS_MAX)
        return rn_error_set(error, RATION_EINVAL, 0, "%u workers; %d are the most",
                            options->workers, WORKERS_MAX);
    struct rn_server *server = calloc(1, sizeof *server);
    if (!server)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    server->options = *options;
    if (server->options.workers == 0) {
        cpu_set_t set;

        server->options.workers = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0
                                      ? (unsigned)CPU_COUNT(&set)
                                      : 1;
    }
    limit_connections(&server->options);
    server->quota = rn_conn_quota_new(server->options.connections_max, options->per_address_max);
    server->control_max = count_control_connections();
    server->control_quota = rn_conn_quota_new(server->control_max, options->per_address_max);
    int failed = server->quota && server->control_quota
                     ? rn_loop_init(&server->control, server, server->options.workers)
                     : UV_ENOMEM;
    if (failed != 0) {
        rn_conn_quota_free(server->quota);
        rn_conn_quota_free(server->control_quota);
        free(server);
        return rn_error_set(error, RATION_EIO, 0, "cannot start: %s", uv_strerror(failed));
    }
    rn_watch_init(&server->watch, &server->control.uv);
    rn_watch_init(&server->tls_watch, &server->control.uv);
    pthread_mutex_init(&server->tls_lock, NULL);
    *out = server;
    return 0;
}

void rn_server_free(struct rn_server *server)
{
    if (!server)
        return;
    rn_watch_done(&server->watch);
    rn_watch_done(&server->tls_watch);
    rn_loop_done(&server->control);
    rn_server_tls_done(server);
    while (server->listeners) {
        struct rn_listener *listener = server->listeners;
        server->listeners = listener->next;
        rn_listener_done(listener);
        free(listener);
    }
    rn_conn_quota_free(server->quota);
    rn_conn_quota_free(server->control_quota);
    free(server);
}

int rn_server_listen(struct rn_server *server, const char *name, const char *address,
                     enum rn_server_where where, const struct rn_protocol *protocol, void *context,
                     struct ration_error *error)
{
    unsigned workers = server->options.workers, loops = where == RN_ON_CONTROL ? 1 : workers;
    struct rn_listener *listener = calloc(1, sizeof *listener), **last = &server->listeners;
    bool taken = false;
    int failed;

    if (!listener)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    listener->protocol = protocol;
    listener->context = context;
    listener->on_control = where == RN_ON_CONTROL;
    listener->quota = where == RN_ON_CONTROL ? server->control_quota : server->quota;
    listener->name = strdup(name);
    listener->tallies = aligned_alloc(64, (workers + 1) * sizeof *listener->tallies);
    if (listener->name && listener->tallies) {
        memset(listener->tallies, 0, (workers + 1) * sizeof *listener->tallies);
        failed = rn_systemd_take_sockets(listener, loops, &taken, error);
        if (failed == 0 && !taken)
            failed = rn_listener_open(listener, address, loops, error);
    } else {
        failed = rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    }
    if (failed != 0) {
        rn_listener_done(listener);
        free(listener);
        return failed;
    }
    while (*last)
        last = &(*last)->next;
    *last = listener;
    return 0;
}

static const struct rn_listener *find_listener(const struct rn_server *server, const char *name)
{
    const struct rn_listener *listener = server->listeners;

    while (listener && strcmp(listener->name, name) != 0)
        listener = listener->next;
    return listener;
}

const char *rn_server_address(const struct rn_server *server, const char *name)
{
    const struct rn_listener *listener = find_listener(server, name);

    return listener ? listener->address : NULL;
}

void rn_server_stop(struct rn_server *server)
{
    atomic_store(&server->asked, true);
    rn_loop_wake(&server->control);
}

bool rn_server_stopping(const struct rn_server *server)
{
    return atomic_load_explicit(&server->stopping, memory_order_relaxed);
}

unsigned rn_server_workers(const struct rn_server *server)
{
    return server->options.workers;
}

int rn_server_watch(struct rn_server *server, const char *const *paths, size_t count,
                    void (*changed)(void *arg), void *arg)
{
    return rn_watch_set(&server->watch, paths, count, changed, arg);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void rn_server_counts(const struct rn_server *server, const char *name,
                      struct rn_server_counts *counts)
{
    const struct rn_listener *listener = find_listener(server, name);

    *counts = (struct rn_server_counts){0};
    for (unsigned i = 0; listener && i <= server->options.workers; i++) {
        const struct rn_tally *tally = &listener->tallies[i];
        uint64_t closed = load(&tally->closed), opened = load(&tally->opened);
        counts->open += opened > closed ? opened - closed : 0;
        counts->accepted += opened;
        counts->refused += load(&tally->refused);
        counts->timed_out += load(&tally->timed_out);
        counts->too_long += load(&tally->too_long);
        counts->crowded += load(&tally->crowded);
        counts->swamped += load(&tally->swamped);
        counts->bytes_in += load(&tally->bytes_in);
        counts->bytes_out += load(&tally->bytes_out);
    }
}

uint64_t rn_server_unfinished(const struct rn_server *server)
{
    return atomic_load_explicit(&server->unfinished, memory_order_relaxed);
}

uint32_t rn_server_control_connections(const struct rn_server *server)
{
    return server->control_max;
}

struct rn_loop *rn_server_control(struct rn_server *server)
{
    return &server->control;
}
