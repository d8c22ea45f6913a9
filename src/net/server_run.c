/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a server: starting workers, signals, the watchdog, and stopping.
 *
 * A stop drains the workers first. The control loop accepts until they have ended, so that
 * health checks get an answer, and drains last.
 */
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/server_internal.h"
#include "net/systemd.h"

#define TICK_MS 100
#define WATCHDOG_PART 4 /* signs of life in the time that systemd waits for one */

static void wake_workers(struct rn_server *server)
{
    for (unsigned i = 0; i < server->options.workers; i++)
        if (server->workers[i])
            rn_loop_wake(&server->workers[i]->loop);
}

static void on_worker_woken(struct rn_loop *loop)
{
    if (atomic_exchange(&loop->asked_sign, false))
        atomic_fetch_sub(&loop->server->silent, 1);
    rn_shed_as_asked(loop);
    if (loop->accept_later && atomic_load(&loop->server->accepting))
        rn_accept_start_all(loop);
    if (atomic_load(&loop->server->stopping))
        rn_loop_drain(loop);
    if (atomic_load(&loop->server->cutting))
        rn_loop_cut(loop);
}

void rn_server_accept(struct rn_server *server)
{
    atomic_store(&server->accepting, true);
    wake_workers(server);
}

static void cut(struct rn_server *server)
{
    atomic_store(&server->cutting, true);
    wake_workers(server);
    rn_loop_wake(&server->control);
}

static void on_deadline(uv_timer_t *timer)
{
    cut(timer->data);
}

static void on_control_woken(struct rn_loop *loop)
{
    struct rn_server *server = loop->server;
    bool running = !atomic_load(&server->stopping);
    bool crowded = running && atomic_exchange(&server->crowded, false);
    size_t cut_from = running ? atomic_exchange(&server->cut_from, 0) : 0;

    /* A loop that needs other loops to shed asks the control loop, which knows them. */
    if (crowded || cut_from != 0) {
        atomic_store(&loop->cut_from, cut_from);
        rn_shed_as_asked(loop);
    }
    for (unsigned i = 0; (crowded || cut_from != 0) && i < server->options.workers; i++) {
        struct rn_loop *worker = &server->workers[i]->loop;

        if (crowded)
            atomic_store(&worker->crowded, true);
        if (cut_from != 0)
            atomic_store(&worker->cut_from, cut_from);
        rn_loop_wake(worker);
    }
    if (atomic_load(&server->asked) && !atomic_load(&server->stopping)) {
        int64_t drain_ms = server->options.drain_ns / 1000000;

        atomic_store(&server->stopping, true);
        if (server->calls->stopping)
            server->calls->stopping(server->calls->arg);
        wake_workers(server);
        uv_timer_start(&server->deadline, on_deadline, drain_ms > 0 ? (uint64_t)drain_ms : 0, 0);
    }
    if (atomic_load(&server->stopping) && atomic_load(&server->running) == 0 &&
        (atomic_load(&server->cutting) || !server->calls->may_end ||
         server->calls->may_end(server->calls->arg)))
        rn_loop_drain(loop);
    if (atomic_load(&server->cutting))
        rn_loop_cut(loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct rn_server *server = handle->data;

    if (number == SIGHUP) {
        if (server->calls->hangup)
            server->calls->hangup(server->calls->arg);
    } else if (atomic_load(&server->stopping)) {
        cut(server);
    } else {
        rn_server_stop(server);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct rn_server *server = timer->data;

    rn_loop_update(&server->control);
    server->calls->tick(server->calls->arg, rn_clock_read_ns(CLOCK_MONOTONIC));
    if (server->calls->may_end && atomic_load(&server->stopping))
        rn_loop_wake(&server->control);
}

/* Tells systemd that we live, unless a worker has been silent since the last time. */
static void on_watchdog(uv_timer_t *timer)
{
    struct rn_server *server = timer->data;

    if (atomic_load(&server->stopping) || atomic_load(&server->silent) != 0)
        return;
    rn_systemd_notify("WATCHDOG=1");
    atomic_store(&server->silent, server->options.workers);
    for (unsigned i = 0; i < server->options.workers; i++)
        atomic_store(&server->workers[i]->loop.asked_sign, true);
    wake_workers(server);
}

static void start_control(struct rn_server *server)
{
    uv_loop_t *uv = &server->control.uv;
    const struct {
        uv_signal_t *handle;
        int number;
    } signals[] = {
        {&server->terminate, SIGTERM}, {&server->interrupt, SIGINT}, {&server->hangup, SIGHUP}};

    server->control.woken = on_control_woken;
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        uv_signal_init(uv, signals[i].handle);
        signals[i].handle->data = server;
        uv_signal_start(signals[i].handle, on_signal, signals[i].number);
    }
    uv_timer_init(uv, &server->tick);
    uv_timer_init(uv, &server->deadline);
    uv_timer_init(uv, &server->watchdog);
    server->tick.data = server->deadline.data = server->watchdog.data = server;
    if (server->calls->tick)
        uv_timer_start(&server->tick, on_tick, TICK_MS, TICK_MS);
}

/* Accepts on the sockets that are for this loop. */
static int open_acceptors(struct rn_loop *loop, bool is_control)
{
    int failed = 0;

    for (struct rn_listener *l = loop->server->listeners; failed == 0 && l; l = l->next) {
        size_t loops = is_control ? 1 : loop->server->options.workers;
        size_t own = is_control ? 0 : loop->index;

        if (l->on_control != is_control)
            continue;
        for (size_t i = 0; failed == 0 && i < l->count; i++)
            if (l->shared || i % loops == own)
                failed = rn_accept_open(loop, l, &l->sockets[i]);
    }
    return failed;
}

static void *work(void *arg)
{
    struct rn_worker *worker = arg;
    struct rn_server *server = worker->loop.server;

    if (server->calls->worker_begins)
        server->calls->worker_begins(server->calls->arg, &worker->loop);
    rn_loop_run(&worker->loop);
    if (server->calls->worker_ends)
        server->calls->worker_ends(server->calls->arg, &worker->loop);
    atomic_fetch_sub(&server->running, 1);
    rn_loop_wake(&server->control);
    return NULL;
}

static int start_worker(struct rn_server *server, unsigned index)
{
    struct rn_worker *worker = malloc(sizeof *worker);
    int failed = worker ? rn_loop_init(&worker->loop, server, index) : UV_ENOMEM;

    if (failed != 0) {
        free(worker);
        return failed;
    }
    worker->loop.woken = on_worker_woken;
    worker->loop.accept_later = server->options.accept_later;
    failed = open_acceptors(&worker->loop, false);
    atomic_fetch_add(&server->running, 1);
    if (failed == 0) { /* signals go to the control thread */
        sigset_t all, before;

        sigfillset(&all);
        sigdelset(&all, SIGBUS); /* the thread raises it itself, and a handler may explain it */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        failed = -pthread_create(&worker->thread, NULL, work, worker);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (failed == 0) {
        server->workers[index] = worker;
        return 0;
    }
    atomic_fetch_sub(&server->running, 1);
    rn_loop_done(&worker->loop);
    free(worker);
    return failed;
}

int rn_server_run(struct rn_server *server, const struct rn_server_calls *calls,
                  struct ration_error *error)
{
    server->calls = calls;
    server->workers = calloc(server->options.workers, sizeof *server->workers);
    server->quietest_ns = calloc(server->options.workers + 1, sizeof *server->quietest_ns);
    if (!server->workers || !server->quietest_ns) {
        free(server->workers);
        free(server->quietest_ns);
        server->workers = NULL;
        server->quietest_ns = NULL;
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    }
    size_t room = rn_systemd_store_size();
    for (struct rn_listener *l = server->listeners; l; l = l->next)
        rn_systemd_store_sockets(l, &room);
    start_control(server);
    int failed = open_acceptors(&server->control, true);
    for (unsigned i = 0; failed == 0 && i < server->options.workers; i++)
        failed = start_worker(server, i);
    uint64_t watchdog_ms = (uint64_t)(rn_systemd_watchdog_ns() / WATCHDOG_PART / 1000000);
    if (failed == 0 && watchdog_ms > 0)
        uv_timer_start(&server->watchdog, on_watchdog, 0, watchdog_ms);
    if (failed == 0 && calls->ready)
        calls->ready(calls->arg);
    if (failed != 0) {
        atomic_store(&server->stopping, true);
        cut(server);
    } else {
        rn_loop_run(&server->control);
    }
    /* Workers wake each other: none is freed while another runs. */
    for (unsigned i = 0; i < server->options.workers; i++)
        if (server->workers[i])
            pthread_join(server->workers[i]->thread, NULL);
    for (unsigned i = 0; i < server->options.workers; i++) {
        struct rn_worker *worker = server->workers[i];

        if (!worker)
            continue;
        rn_loop_done(&worker->loop);
        free(worker);
    }
    free(server->workers);
    free(server->quietest_ns);
    server->workers = NULL;
    server->quietest_ns = NULL;
    uv_signal_stop(&server->terminate);
    uv_signal_stop(&server->interrupt);
    uv_signal_stop(&server->hangup);
    uv_timer_stop(&server->tick);
    uv_timer_stop(&server->deadline);
    uv_timer_stop(&server->watchdog);
    return failed == 0 ? 0
                       : rn_error_set(error, RATION_EIO, 0, "cannot start the workers: %s",
                                      uv_strerror(failed));
}
