/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rationd: reads rules and settings, opens the limiter, listens, and reloads on request. front/
 * has the protocols, net/ the sockets.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ration/clients.h>
#include <ration/wait.h>

#include "base/clock.h"
#include "front/front.h"
#include "limiter/effect/effect.h"
#include "limiter/rulebook/book.h"
#include "limiter/rulebook/reload.h"
#include "limiter/signals/signals.h"
#include "net/log.h"
#include "net/systemd.h"
#include "rationd/options_internal.h"
#include "rationd/rationd.h"
#include "redis/codec.h"

#define EXIT_USAGE 2
#define REDIS_FILES 64 /* file descriptors reserved for connections to a cluster */
#define DRAIN_NS (INT64_C(10) * RN_SECOND_NS)

/* --- rules --------------------------------------------------------------------------------- */

static void print_report(void *context, const char *text, size_t len)
{
    (void)context;
    fwrite(text, 1, len, stderr);
}

/* Reads rules and settings. NULL after an error message. */
static struct rn_ruleset *read_rules(struct rn_rationd_options *o, uint32_t *file_count)
{
    struct rn_report report;
    struct rn_ruleset *ruleset;
    bool good;

    rn_report_init(&report);
    ruleset = o->config_count
                  ? rn_ruleset_load(o->configs, o->config_count, &report)
                  : rn_ruleset_parse(RN_SLICE("rationd"), RN_SLICE("limits: []"), &report);
    *file_count = o->config_count ? report.file_count : 0;
    good = ruleset && rn_rationd_options_resolve(o, ruleset) &&
           (!o->shares || rn_ruleset_fits(ruleset, rn_codec_fault, &report)) &&
           rn_usage_fits(ruleset, o->state != NULL, &report);
    if (o->config_count)
        rn_report_write(&report, print_report, NULL);
    if (!ruleset && report.count[RN_ERROR] == 0) /* out of memory for the report, too */
        rn_rationd_fail("out of memory while reading the rules");
    rn_report_done(&report);
    if (!good)
        rn_ruleset_free(ruleset);
    return good ? ruleset : NULL;
}

static void stopping(void *arg)
{
    struct rn_rationd *d = arg;

    rn_membership_leave(&d->membership);
    rn_front_end_streams(&d->front);
    rn_log(RN_LOG_INFO, "daemon.stopping", RN_LOG_NUMBER("drain_seconds", DRAIN_NS / RN_SECOND_NS));
    rn_systemd_notify("STOPPING=1");
}

static bool may_end(void *arg)
{
    return rn_membership_finish(&((struct rn_rationd *)arg)->membership);
}

static void worker_begins(void *arg, struct rn_loop *loop)
{
    struct rn_rationd *d = arg;

    if (d->options.shares)
        rn_shared_store_begin(&d->shared, loop);
    rn_await_turns_start(&d->front.loops[rn_loop_index(loop)].turns, &d->front, loop);
}

static void worker_ends(void *arg, struct rn_loop *loop)
{
    struct rn_rationd *d = arg;

    rn_await_turns_stop(&d->front.loops[rn_loop_index(loop)].turns);
    if (d->options.shares)
        rn_shared_store_end(&d->shared, loop);
}

static void log_database(void *arg, const struct ration_database *database)
{
    struct rn_slice path = rn_slice_of(database->path);

    (void)arg;
    if (database->problem[0] != '\0')
        rn_log(RN_LOG_ERROR, "database.refused", RN_LOG_TEXT("database", path),
               RN_LOG_TEXT("error", rn_slice_of(database->problem)),
               RN_LOG_TEXT("kept", RN_SLICE("what was loaded from it before")));
    else
        rn_log(RN_LOG_INFO, "database.loaded", RN_LOG_TEXT("database", path),
               RN_LOG_TEXT("type", rn_slice_of(database->title)),
               RN_LOG_NUMBER("networks", database->networks));
}

static void log_factor(void *arg, struct rn_slice rule, unsigned from, unsigned to,
                       struct rn_slice signal, const char *value)
{
    (void)arg;
    rn_log(to < from ? RN_LOG_WARN : RN_LOG_INFO, "factor.changed", RN_LOG_TEXT("rule", rule),
           RN_LOG_NUMBER("from_percent", from), RN_LOG_NUMBER("to_percent", to),
           RN_LOG_TEXT("signal", signal), RN_LOG_TEXT("value", rn_slice_of(value)));
}

/* No news of requests is usual at night. */
static void log_stale(void *arg, const struct rn_signal *signal, bool stale)
{
    bool usual = signal->source == RN_SIGNAL_LATENCY || signal->source == RN_SIGNAL_STATUS;

    (void)arg;
    rn_log(stale && !usual ? RN_LOG_WARN : RN_LOG_INFO, stale ? "signal.stale" : "signal.known",
           RN_LOG_TEXT("signal", signal->name));
}

/* Warns once for each set of rules. */
static void check_scopes(struct rn_rationd *d)
{
    struct rn_pin pin = rn_pin_take_counted(&d->limiter->shelf);

    for (uint32_t i = 0; pin.book != NULL && d->scopes_checked != pin.book->version + 1 &&
                         i < pin.book->ruleset->rule_count;
         i++)
        if (pin.book->ruleset->rules[i].adapt.has_fleet)
            rn_log(RN_LOG_WARN, "rules.no_fleet",
                   RN_LOG_TEXT("rule", pin.book->ruleset->rules[i].name),
                   RN_LOG_TEXT("advice", RN_SLICE("scope: fleet needs Redis, so this rule follows "
                                                  "this node only and has no surplus; set "
                                                  "--redis, or write scope: node")));
    d->scopes_checked = pin.book != NULL ? pin.book->version + 1 : 0;
    rn_pin_drop(&pin);
}

/* Says once that usage has no room for more clients. */
static void check_usage(struct rn_rationd *d)
{
    struct ration_usage_totals totals;

    ration_usage_totals(d->limiter, &totals);
    if (!totals.open)
        return;
    if (totals.other > d->usage_other && !d->usage_full) {
        d->usage_full = true;
        rn_log(RN_LOG_WARN, "usage.full", RN_LOG_NUMBER("entries", totals.entries),
               RN_LOG_NUMBER("capacity", totals.capacity),
               RN_LOG_TEXT("advice", RN_SLICE("clients without room are counted together, as "
                                              "other; give usage more memory: --usage-memory")));
    }
    d->usage_other = totals.other;
}

/* Looks at signals, samples decisions, logs bans that rules have begun, does reloads that had to
 * wait, reads databases whose files have changed, and overrides and bans that another process has
 * changed. */
static void tick(void *arg, int64_t now_ns)
{
    struct rn_rationd *d = arg;
    struct ration_error error;

    (void)now_ns;
    rn_signals_tick(d->limiter, &(struct rn_signals_events){NULL, log_factor, log_stale},
                    RATION_NOW);
    rn_poller_tick(&d->poller);
    rn_front_sample(&d->front);
    check_usage(d);
    rn_front_log_bans(&d->front);
    if (!d->options.shares)
        check_scopes(d);
    if (rn_await_control_is_busy(&d->front))
        return;
    rn_rationd_reload_if_due(d);
    rn_membership_count_nodes(&d->membership);
    ration_databases_refresh(d->limiter, log_database, NULL);
    if (ration_clients_refresh(d->limiter, &error) != 0)
        rn_log(RN_LOG_ERROR, "clients.refresh_failed",
               RN_LOG_TEXT("error", rn_slice_of(error.text)));
    else if (error.text[0])
        rn_log(RN_LOG_WARN, "state.notice", RN_LOG_TEXT("text", rn_slice_of(error.text)));
}

static bool listen_on(struct rn_rationd *d, const char *name, enum rn_rationd_setting setting,
                      enum rn_server_where where, const struct rn_protocol *protocol)
{
    const char *address = d->options.values[setting];
    char given[RN_SOURCE_MAX];
    struct ration_error error;

    if (strcmp(address, "none") == 0)
        return true;
    if (rn_server_listen(d->server, name, address, where, protocol, &d->front, &error) != 0)
        return rn_rationd_fail("%s %s: %s",
                               rn_rationd_options_given_as(&d->options, setting, given), address,
                               error.text);
    if (d->options.secure[setting])
        rn_server_tls_enable(d->server, name);
    return true;
}

/* The state file, for the signal handler. */
static const char *state_path;

/* Prints the reason, then lets the signal kill the daemon: it fires again with the default action.
 * Other threads that get it wait for that. Going on without counters would admit everything again.
 */
static void on_bus_error(int number)
{
    static const char before[] = "rationd: SIGBUS: the state file \"",
                      after[] = "\" was cut short, or its disk failed, while in use; its counters "
                                "are lost: stop all its users, move it away and start again\n";
    static int printed;

    while (__atomic_exchange_n(&printed, 1, __ATOMIC_RELAXED) != 0)
        pause();
    (void)!write(STDERR_FILENO, before, sizeof before - 1);
    (void)!write(STDERR_FILENO, state_path, strlen(state_path));
    (void)!write(STDERR_FILENO, after, sizeof after - 1);
    signal(number, SIG_DFL);
}

/* Files beside the state are named after the real file, not after a symlink to it, so that every
 * name of the state finds them. */
static bool follow_state_link(struct rn_rationd_options *options)
{
    char *real = realpath(options->state, NULL);
    int len = real ? snprintf(options->state_path, sizeof options->state_path, "%s", real) : -1;

    free(real);
    options->state = options->state_path;
    if (len >= 0 && (size_t)len < sizeof options->state_path)
        return true;
    return rn_rationd_fail("--state: the file has gone, or its path is longer than %zu bytes",
                           sizeof options->state_path - 1);
}

static bool open_limiter(struct rn_rationd *d, struct rn_ruleset *ruleset)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t wanted = d->options.memory_bytes;
    struct ration_error error;

    if (rn_limiter_open(&(struct ration_options){.state_path = d->options.state,
                                                 .memory_bytes = d->options.memory_bytes,
                                                 .usage_bytes = d->options.usage_bytes},
                        ruleset, &d->limiter, &error) != 0) {
        rn_rationd_fail("%s", error.text);
        goto failed;
    }
    ration_waiting_set_most(d->limiter, d->options.waiting);
    rn_effect_watch(d->limiter);
    if (d->options.state && !follow_state_link(&d->options))
        goto failed;
    if (wanted > machine) /* the kernel grants memory as keys arrive */
        rn_log(
            RN_LOG_WARN, "memory.large", RN_LOG_NUMBER("memory_mib", wanted >> 20),
            RN_LOG_NUMBER("machine_mib", machine >> 20),
            RN_LOG_TEXT("advice", RN_SLICE("--memory is more than the machine has; give less, or "
                                           "rationd may be killed when it fills")));
    state_path = d->options.state;
    if (state_path)
        signal(SIGBUS, on_bus_error);
    if (error.text[0])
        rn_log(RN_LOG_WARN, "state.notice", RN_LOG_TEXT("text", rn_slice_of(error.text)));
    if (d->options.shares && !rn_shared_store_open(&d->shared, &d->options, d->limiter))
        goto failed;
    if (rn_reload_install(d->limiter, ruleset, ration_now(d->limiter), &error) != 0) {
        rn_rationd_fail("%s", error.text);
        return false; /* the limiter has the ruleset */
    }
    if (error.text[0])
        rn_log(RN_LOG_WARN, "state.notice", RN_LOG_TEXT("text", rn_slice_of(error.text)));
    return true;
failed:
    rn_ruleset_free(ruleset);
    return false;
}

/* Passes the settings to the protocols. */
static void configure_front(struct rn_rationd *d)
{
    const struct rn_rationd_options *o = &d->options;

    d->front.guard.tokens = o->tokens;
    d->front.guard.token_count = o->token_count;
    d->front.trust_local = o->trust_local;
    d->front.drain_ns = DRAIN_NS;
    d->front.rules_loaded_ns = d->front.started_ns;
    d->front.publishes = o->publish != 0;
    d->front.log_keys = o->log_keys;
    d->front.grpc_age_ns = o->grpc_max_age * RN_SECOND_NS;
    d->front.rls = (struct rn_rls_extra){o->rls_headers, o->rls_metadata, o->rls_quota_mode};
    d->front.daemon = (struct rn_front_daemon){
        .arg = d, .reload = rn_rationd_reload, .files = o->configs, .file_count = o->config_count};
    d->poller = (struct rn_poller){.loop = rn_server_control(d->server), .limiter = d->limiter};
    d->front.queries = (struct rn_front_queries){&d->poller, rn_poller_put_metrics};
    if (!o->shares)
        return;
    /* Timers fire up to two milliseconds late (net/timer.h). Giving up one millisecond early keeps
     * answers within one millisecond of the deadline. */
    d->front.patience_ns = o->redis_deadline_ns - RN_SECOND_NS / 1000;
    if (d->front.patience_ns <= 0)
        d->front.patience_ns = o->redis_deadline_ns;
    d->front.store =
        (struct rn_front_store){&d->shared, rn_shared_store_is_up, rn_shared_store_put_metrics};
}

/* What was passed for no listener. */
static void settle_passed(const struct rn_rationd *d)
{
    static const enum rn_rationd_setting listeners[] = {RN_SET_HTTP, RN_SET_RESP, RN_SET_GRPC,
                                                        RN_SET_ADMIN};
    const char *names[sizeof listeners / sizeof *listeners];
    size_t count = 0;

    for (size_t i = 0; i < sizeof listeners / sizeof *listeners; i++)
        if (strcmp(d->options.values[listeners[i]], "none") != 0)
            names[count++] = rn_rationd_specs[listeners[i]].name;
    rn_systemd_settle_rest(names, count);
}

static bool open_server(struct rn_rationd *d)
{
    struct rn_server_options options = {.workers = d->options.workers,
                                        .connections_max = d->options.connections,
                                        .per_address_max = d->options.per_address,
                                        .input_max = d->options.input_bytes,
                                        .drain_ns = DRAIN_NS,
                                        .may_pend = d->options.shares,
                                        .accept_later = d->options.shares};
    struct ration_error error;

    if (d->options.shares)
        options.other_files = REDIS_FILES;
    if (rn_server_new(&options, &d->server, &error) != 0)
        return rn_rationd_fail("%s", error.text);
    if (rn_front_init(&d->front, d->limiter, d->server) != 0)
        return rn_rationd_fail("out of memory");
    configure_front(d);
    if (d->options.shares && !rn_shared_store_prepare(&d->shared, rn_server_workers(d->server)))
        return false;
    if (d->options.tls.cert && rn_server_tls_load(d->server, &d->options.tls, &error) != 0)
        return rn_rationd_fail("--tls-cert %s: %s", d->options.tls.cert, error.text);
    settle_passed(d);
    return listen_on(d, "http", RN_SET_HTTP, RN_ON_WORKERS, &rn_http_protocol) &&
           listen_on(d, "resp", RN_SET_RESP, RN_ON_WORKERS, &rn_resp_protocol) &&
           listen_on(d, "grpc", RN_SET_GRPC, RN_ON_WORKERS, &rn_grpc_protocol) &&
           listen_on(d, "admin", RN_SET_ADMIN, RN_ON_CONTROL, &rn_admin_protocol);
}

static int serve(struct rn_rationd *d)
{
    struct rn_server_calls calls = {.arg = d,
                                    .ready = rn_rationd_ready,
                                    .hangup = rn_rationd_hangup,
                                    .stopping = stopping,
                                    .tick = tick,
                                    .may_end = may_end,
                                    .worker_begins = worker_begins,
                                    .worker_ends = worker_ends};
    struct ration_error error;
    int code;

    if (!d->options.shares)
        rn_membership_begin_alone(&d->membership, &d->options, &d->front);
    if (d->options.config_count &&
        rn_server_watch(d->server, d->options.configs, d->options.config_count,
                        rn_rationd_files_changed, d) != 0)
        rn_log(RN_LOG_WARN, "rules.unwatched",
               RN_LOG_TEXT("advice", RN_SLICE("send SIGHUP after a change")));
    code = rn_server_run(d->server, &calls, &error);
    if (d->options.shares)
        rn_shared_store_end(&d->shared, rn_server_control(d->server));
    rn_poller_done(&d->poller);
    rn_membership_end(&d->membership);
    if (code == 0)
        return EXIT_SUCCESS;
    rn_rationd_fail("%s", error.text);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static struct rn_rationd d = {.usage_other = UINT64_MAX};
    struct rn_ruleset *ruleset;
    struct rlimit limit;
    int status = EXIT_USAGE;

    if (argc > 1 && strcmp(argv[1], "__complete") == 0) { /* asked by completions/ */
        rn_rationd_complete(argc - 2, argv + 2);
        return EXIT_SUCCESS;
    }
    if (!rn_rationd_options_read(&d.options, argc, argv))
        return EXIT_USAGE;
    if (d.options.help || d.options.version) {
        if (d.options.help)
            rn_rationd_options_put_help();
        else
            printf("rationd %s\n", ration_version());
        return EXIT_SUCCESS;
    }
    ruleset = read_rules(&d.options, &d.file_count);
    if (!ruleset)
        return EXIT_USAGE;
    if (d.options.check) {
        rn_ruleset_free(ruleset);
        printf("rationd: rules and settings are in order\n");
        return EXIT_SUCCESS;
    }
    /* Each connection needs a file descriptor: raise the limit as far as the system allows. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (open_limiter(&d, ruleset) && open_server(&d))
        status = serve(&d);
    if (d.server)
        rn_server_free(d.server);
    rn_front_done(&d.front);
    rn_shared_store_close(&d.shared);
    ration_close(d.limiter);
    return status;
}
