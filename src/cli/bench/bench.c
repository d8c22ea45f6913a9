/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration bench`: measures a daemon under load.
 */
#include "cli/bench/bench.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/output/output.h"

#define DEFAULT_RESP "127.0.0.1:6380"
#define DURATION_NS (5 * RN_SECOND_NS)
#define DURATION_MAX_NS (600 * RN_SECOND_NS)

/* --- the plan ---------------------------------------------------------------------- */

static uint64_t or_else(uint64_t value, uint64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

/* Finds the target and what to send. False after an error message. A machine that is not this one
 * must be allowed with --remote: a load test is also an attack. */
static bool prepare(struct rn_bench *b)
{
    const struct rn_options *o = b->options;
    bool http = o->http != NULL;
    const char *text = http ? o->http : o->resp, *source = http ? "--http" : "--resp";
    const struct rn_endpoint_address *address = &b->endpoint.address;

    if ((http && o->resp != NULL) || (o->duration_ns != 0 && o->requests != 0))
        return rn_output_error("give either %s, not both", http && o->resp != NULL
                                                               ? "--resp or --http"
                                                               : "--duration or --requests");
    if (text == NULL) {
        source = "RATION_RESP";
        text = rn_endpoint_environment(source);
    }
    if (text == NULL)
        text = DEFAULT_RESP;
    if (!rn_endpoint_init(&b->endpoint, o, source, text,
                          http ? RN_ENDPOINT_HTTP : RN_ENDPOINT_RESP))
        return false;
    if (!o->remote && !rn_endpoint_is_local(&b->endpoint))
        return rn_output_error("%s is not on this machine; --remote allows that, if its owner does",
                               text);
    b->plan = (struct rn_bench_plan){.endpoint = &b->endpoint,
                                     .request = &b->request,
                                     .pipeline = (uint32_t)or_else(o->pipeline, 16),
                                     .keys = or_else(o->keys, 10000),
                                     .done_fd = eventfd(0, EFD_CLOEXEC)};
    b->connections = (uint32_t)or_else(o->connections, 50);
    b->thread_count = (uint32_t)or_else(o->threads, 1);
    if (b->thread_count > b->connections)
        b->thread_count = b->connections;
    return rn_bench_request_init(
        &b->request, o, http, address->socket.ss_family == AF_UNIX ? "localhost" : address->text);
}

/* The share of thread number `i`. */
static uint64_t share(uint64_t all, uint32_t i, uint32_t count)
{
    return all / count + (i < all % count);
}

static bool make_thread(struct rn_bench *b, uint32_t i)
{
    const struct rn_options *o = b->options;
    struct rn_bench_thread *d = calloc(1, sizeof *d);

    if (d == NULL)
        return rn_output_error("out of memory");
    b->threads[i] = d;
    d->plan = &b->plan;
    d->connection_count = (uint32_t)share(b->connections, i, b->thread_count);
    d->requests = o->requests != 0 ? share(o->requests, i, b->thread_count) : UINT64_MAX;
    if (o->rate != 0)
        d->interval_ns = (double)RN_SECOND_NS * b->thread_count / (double)o->rate;
    d->seed = UINT64_C(0x9E3779B97F4A7C15) * (i + 1);
    d->epoll_fd = -1;
    if (rn_bench_thread_init(d))
        return true;
    return rn_output_error("%s", d->problem);
}

/* --- running ----------------------------------------------------------------------- */

/* Waits until all threads have ended. Ctrl-C ends them early; the report covers the time until
 * then. */
static void watch(struct rn_bench *b, int signal_fd)
{
    struct pollfd fds[2] = {{.fd = b->plan.done_fd, .events = POLLIN},
                            {.fd = signal_fd, .events = POLLIN}};
    bool show = isatty(STDERR_FILENO) && !b->options->json;
    int64_t next = b->plan.start_ns + RN_SECOND_NS;
    struct signalfd_siginfo signal; /* read, so that it is not pending when we unblock it */
    uint64_t ended = 0, before = 0;

    while (ended < b->thread_count) {
        int64_t now = rn_clock_read_ns(CLOCK_MONOTONIC);
        uint64_t more;

        if (now >= next) {
            uint64_t answered = 0, refused = 0;

            for (uint32_t i = 0; i < b->thread_count; i++) {
                answered += __atomic_load_n(&b->threads[i]->answered, __ATOMIC_RELAXED);
                refused += __atomic_load_n(&b->threads[i]->refused, __ATOMIC_RELAXED);
            }
            if (show)
                fprintf(stderr, "\r%3.0f s  %" PRIu64 " requests/s  %.1f %% refused\033[K",
                        (double)(now - b->plan.start_ns) / (double)RN_SECOND_NS, answered - before,
                        answered > 0 ? 100.0 * (double)refused / (double)answered : 0.0);
            before = answered;
            next += RN_SECOND_NS;
        }
        if (poll(fds, 2, next <= now ? 0 : (int)((next - now) / 1000000) + 1) <= 0)
            continue;
        if (fds[0].revents != 0 && read(b->plan.done_fd, &more, sizeof more) == sizeof more)
            ended += more;
        if (fds[1].revents != 0 && read(signal_fd, &signal, sizeof signal) > 0) {
            __atomic_store_n(&b->plan.stop, true, __ATOMIC_RELAXED);
            fds[1].fd = -1;
        }
    }
    if (show)
        fputs("\r\033[K", stderr);
}

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static bool run(struct rn_bench *b)
{
    const struct rn_options *o = b->options;
    int64_t length = o->requests != 0 ? DURATION_MAX_NS : o->duration_ns;
    pthread_t threads[RN_BENCH_THREADS];
    double cpu = cpu_seconds();
    sigset_t signals, before;
    uint32_t started = 0;
    int signal_fd;
    bool ok = true;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    b->plan.start_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    b->plan.end_ns = b->plan.start_ns + (length != 0 ? length : DURATION_NS);
    while (ok && started < b->thread_count) {
        ok = pthread_create(&threads[started], NULL, rn_bench_thread_run, b->threads[started]) == 0;
        started += ok;
    }
    if (ok) {
        watch(b, signal_fd);
    } else {
        rn_output_error("cannot start a thread");
        __atomic_store_n(&b->plan.stop, true, __ATOMIC_RELAXED);
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    b->cpu_seconds = cpu_seconds() - cpu;
    if (signal_fd >= 0)
        close(signal_fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

int rn_command_bench(const struct rn_options *options)
{
    struct rn_bench b = {.options = options, .plan.done_fd = -1};
    int status = RN_EXIT_ERROR;
    bool ready = prepare(&b);
    struct rlimit limit;

    /* Each connection needs a file descriptor. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (uint32_t i = 0; ready && i < b.thread_count; i++)
        ready = make_thread(&b, i);
    if (ready && run(&b))
        status = rn_bench_report(&b);
    for (uint32_t i = 0; i < b.thread_count; i++) {
        if (b.threads[i] != NULL)
            rn_bench_thread_done(b.threads[i]);
        free(b.threads[i]);
    }
    rn_bench_request_done(&b.request);
    rn_endpoint_done(&b.endpoint);
    if (b.plan.done_fd >= 0)
        close(b.plan.done_fd);
    return status;
}
