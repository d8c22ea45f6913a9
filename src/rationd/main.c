/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rationd: reads rules and settings, opens the limiter, listens, and reloads on request. front/
 * has the protocols, net/ the sockets.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ration/clients.h>

#include "base/clock.h"
#include "front/front.h"
#include "limiter/rulebook/reload.h"
#include "net/log.h"
#include "net/systemd.h"
#include "rationd/membership.h"
#include "rationd/options.h"
#include "rationd/secrets.h"
#include "rationd/shared_store.h"
#include "redis/codec.h"

#define EXIT_USAGE 2
#define REDIS_WAIT_NS RN_SECOND_NS
#define HISTORY_WAIT_NS (2 * RN_SECOND_NS)
#define REDIS_LOOK_NS (RN_SECOND_NS / 500)
#define REDIS_FILES 64 /* file descriptors reserved for connections to a cluster */
#define DRAIN_NS (INT64_C(10) * RN_SECOND_NS)

struct daemon {
    struct rn_rationd_options options;
    struct ration *limiter;
    struct rn_server *server;
    struct rn_front front;
    struct rn_shared_store shared;   /* if options.shares */
    struct rn_membership membership; /* if options.shares */
    struct rn_timer ready_timer;     /* runs until Redis is reached */
    int64_t ready_by_ns;
    bool accepting; /* the workers accept clients */
    bool hangup_due, reload_due;
    uint32_t file_count; /* rules files at the start */
};

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
           (!o->shares || rn_ruleset_fits(ruleset, rn_codec_fault, &report));
    if (o->config_count)
        rn_report_write(&report, print_report, NULL);
    if (!ruleset && report.count[RN_ERROR] == 0) /* out of memory for the report, too */
        fprintf(stderr, "rationd: out of memory while reading the rules\n");
    rn_report_done(&report);
    if (!good)
        rn_ruleset_free(ruleset);
    return good ? ruleset : NULL;
}

static int log_team(void *arg, const struct ration_team_info *info)
{
    (void)arg;
    if (info->kept)
        rn_log(RN_LOG_ERROR, "rules.team_kept",
               RN_LOG_TEXT("team", ((struct rn_slice){info->name, info->name_len})),
               RN_LOG_NUMBER("errors", info->errors),
               RN_LOG_TEXT("kept", RN_SLICE("the former rules of this team")));
    return 0;
}

static int reload(void *arg, struct rn_author author, struct ration_report **report)
{
    struct daemon *d = arg;
    const struct rn_rationd_options *o = &d->options;
    bool beaten = d->front.rules_from_api && rn_membership_has_rules(&d->membership);
    int code =
        !o->config_count
            ? beaten ? 0 : ration_rules_parse(d->limiter, "rationd", "limits: []", 10, report)
        : beaten ? rn_reload_try(d->limiter, o->configs, o->config_count, report)
                 : ration_rules_load(d->limiter, o->configs, o->config_count, report);

    rn_secrets_reload_tokens(&d->front.guard);
    d->front.reloads++;
    d->front.reload_failed = code != 0;
    if (code == 0 && beaten) {
        rn_log(RN_LOG_WARN, "rules.beaten", RN_LOG_AUTHOR(author),
               RN_LOG_TEXT("meaning", RN_SLICE("the files are in order, and not in force: an "
                                               "operator has set other rules")),
               RN_LOG_TEXT("advice", RN_SLICE("ration rules delete goes back to the files")));
    } else if (code == 0) {
        d->front.rules_from_api = false;
        d->front.rules_loaded_ns = rn_clock_read_ns(CLOCK_REALTIME);
        rn_log(RN_LOG_INFO, "rules.reload",
               RN_LOG_NUMBER("version", ration_rules_version(d->limiter)),
               RN_LOG_NUMBER("capacity", rn_limiter_capacity(d->limiter)), RN_LOG_AUTHOR(author));
        ration_teams_each(d->limiter, log_team, NULL);
    } else {
        d->front.reloads_failed++;
        rn_log(RN_LOG_ERROR, "rules.refused",
               RN_LOG_NUMBER("errors", *report ? ration_report_errors(*report) : 0),
               RN_LOG_AUTHOR(author), RN_LOG_TEXT("kept", RN_SLICE("the former rules")));
    }
    return code;
}

/* Reloads and logs the errors. */
static void reload_and_log(void *arg, const char *by)
{
    struct ration_report *report = NULL;

    rn_systemd_notify("RELOADING=1");
    reload(arg, (struct rn_author){.by = rn_slice_of(by)}, &report);
    rn_front_log_report(report);
    ration_report_free(report);
    rn_systemd_notify("READY=1");
}

/* Rules are not replaced while somebody waits for Redis in this thread, who may read
 * them and could not go on: see front/await/fiber_pool.h. */
static void reload_if_due(struct daemon *d)
{
    if (rn_await_control_is_busy(&d->front))
        return;
    if (d->hangup_due) {
        rn_server_tls_reload(d->server);
        reload_and_log(d, "SIGHUP");
    } else if (d->reload_due) {
        reload_and_log(d, "files");
    }
    d->hangup_due = d->reload_due = false;
}

static void hangup(void *arg)
{
    struct daemon *d = arg;

    d->hangup_due = true;
    reload_if_due(d);
}

static void files_changed(void *arg)
{
    struct daemon *d = arg;

    d->reload_due = true;
    reload_if_due(d);
}

/* --- start ----------------------------------------------------------------------------------- */

struct rule_count {
    uint64_t all, native;
    uint64_t for_envoy, native_for_envoy; /* rules that apply to Envoy's requests */
};

static int count_rule(void *arg, const struct ration_rule_info *info)
{
    struct rule_count *count = arg;

    count->all++;
    count->native += !info->envoy;
    count->for_envoy += info->for_envoy;
    count->native_for_envoy += info->for_envoy && !info->envoy;
    return 0;
}

static const char *address_of(const struct daemon *d, const char *name)
{
    const char *address = rn_server_address(d->server, name);

    return address ? address : "none";
}

static void warn_not_for_envoy(const struct rule_count *count)
{
    bool some = count->native_for_envoy != 0;

    rn_log(
        RN_LOG_WARN, "rules.not_for_envoy",
        RN_LOG_NUMBER("native", count->native - count->native_for_envoy),
        RN_LOG_TEXT("meaning", some ? RN_SLICE("rules with charge_on or concurrent do not apply to "
                                               "requests of Envoy's protocol")
                                    : RN_SLICE("native rules do not apply to requests of Envoy's "
                                               "protocol")),
        RN_LOG_TEXT("advice", some ? RN_SLICE("add rules without these for such requests")
                                   : RN_SLICE("write apply_to_envoy: true in a file of native "
                                              "rules, or descriptors")));
}

/* Prints the line that scripts wait for, whatever the log level; as JSON if the log is JSON. */
static void say_ready(struct daemon *d)
{
    const char *http = address_of(d, "http"), *resp = address_of(d, "resp"),
               *grpc = address_of(d, "grpc"), *admin = address_of(d, "admin");
    struct rule_count count = {0};

    d->front.starting = false;
    ration_rules_each(d->limiter, count_rule, &count);
    uint64_t rules = count.all;

    if (d->options.log_format == RN_LOG_JSON) {
        rn_log_setup(RN_LOG_INFO, d->options.log_format);
        rn_log(RN_LOG_INFO, "daemon.ready", RN_LOG_TEXT("http", rn_slice_of(http)),
               RN_LOG_TEXT("resp", rn_slice_of(resp)), RN_LOG_TEXT("grpc", rn_slice_of(grpc)),
               RN_LOG_TEXT("admin", rn_slice_of(admin)), RN_LOG_NUMBER("rules", rules),
               RN_LOG_NUMBER("files", d->file_count),
               RN_LOG_NUMBER("capacity", rn_limiter_capacity(d->limiter)));
        rn_log_setup(d->options.log_level, d->options.log_format);
    } else {
        fprintf(stderr,
                "rationd: ready http=%s resp=%s grpc=%s admin=%s rules=%" PRIu64 " files=%" PRIu32
                " capacity=%" PRIu64 "\n",
                http, resp, grpc, admin, rules, d->file_count, rn_limiter_capacity(d->limiter));
        fflush(stderr);
    }
    if (d->front.rules_from_api)
        rn_log(RN_LOG_WARN, "rules.from_api",
               RN_LOG_TEXT("meaning", RN_SLICE("rules that an operator has set are in force, "
                                               "not those of the files")),
               RN_LOG_TEXT("advice", RN_SLICE("ration rules delete goes back to the files")));
    if (rules == 0)
        rn_log(RN_LOG_WARN, "rules.none",
               RN_LOG_TEXT("meaning", RN_SLICE("every request is allowed")),
               RN_LOG_TEXT("advice", RN_SLICE("name a file of rules with --config")));
    if (count.for_envoy != 0 && count.native_for_envoy != count.native)
        warn_not_for_envoy(&count);
    rn_systemd_notify("READY=1");
}

static void look_for_redis(struct rn_timer *timer)
{
    struct daemon *d = (struct daemon *)((char *)timer - offsetof(struct daemon, ready_timer));
    struct rn_wheel *wheel = rn_loop_wheel(rn_server_control(d->server));
    int64_t now_ns = rn_wheel_now(wheel);
    bool up = rn_shared_store_is_up(&d->shared);
    int64_t by_ns =
        d->ready_by_ns + rn_membership_wait_ns(&d->membership) + (up ? HISTORY_WAIT_NS : 0);
    bool joined = up && rn_membership_is_synced(&d->membership);
    bool known = joined && rn_shared_store_is_whole(&d->shared);

    if (!d->accepting && (joined || now_ns >= d->ready_by_ns)) {
        d->accepting = true;
        rn_server_accept(d->server);
    }
    if (now_ns < by_ns && !known) {
        rn_timer_set(wheel, timer, now_ns + REDIS_LOOK_NS);
        return;
    }
    if (!up)
        rn_log(RN_LOG_WARN, "redis.unreached",
               RN_LOG_TEXT("meanwhile", RN_SLICE("on_store_failure of each rule")));
    say_ready(d);
}

/* Without Redis the daemon is ready now. With Redis it is ready when all loops are connected, the
 * changes of other nodes are in force and leased limits start full, or after a timeout: then
 * on_store_failure decides, with the rules and clients kept in files. Connections are not accepted
 * until Redis is reached, so that on_store_failure does not decide merely because Redis is still
 * being connected. */
static void ready(void *arg)
{
    struct daemon *d = arg;
    struct rn_loop *loop = rn_server_control(d->server);

    if (!d->options.shares) {
        say_ready(d);
        return;
    }
    d->front.starting = true;
    rn_shared_store_begin(&d->shared, loop);
    rn_membership_begin(&d->membership, &d->shared, &d->front);
    d->ready_by_ns = rn_wheel_now(rn_loop_wheel(loop)) + REDIS_WAIT_NS;
    d->ready_timer.fire = look_for_redis;
    look_for_redis(&d->ready_timer);
}

static void stopping(void *arg)
{
    struct daemon *d = arg;

    rn_membership_leave(&d->membership);
    rn_log(RN_LOG_INFO, "daemon.stopping", RN_LOG_NUMBER("drain_seconds", DRAIN_NS / RN_SECOND_NS));
    rn_systemd_notify("STOPPING=1");
}

static void worker_begins(void *arg, struct rn_loop *loop)
{
    struct daemon *d = arg;

    if (d->options.shares)
        rn_shared_store_begin(&d->shared, loop);
}

static void worker_ends(void *arg, struct rn_loop *loop)
{
    struct daemon *d = arg;

    if (d->options.shares)
        rn_shared_store_end(&d->shared, loop);
}

/* Does reloads that had to wait, and reads overrides and bans that another process has changed. */
static void tick(void *arg, int64_t now_ns)
{
    struct daemon *d = arg;
    struct ration_error error;

    (void)now_ns;
    if (rn_await_control_is_busy(&d->front))
        return;
    reload_if_due(d);
    rn_membership_count_nodes(&d->membership);
    if (ration_clients_refresh(d->limiter, &error) != 0)
        rn_log(RN_LOG_ERROR, "clients.refresh", RN_LOG_TEXT("error", rn_slice_of(error.text)));
    else if (error.text[0])
        rn_log(RN_LOG_WARN, "state.notice", RN_LOG_TEXT("text", rn_slice_of(error.text)));
}

static bool listen_on(struct daemon *d, const char *name, enum rn_rationd_setting setting,
                      enum rn_server_where where, const struct rn_protocol *protocol)
{
    const char *address = d->options.values[setting];
    struct ration_error error;

    if (strcmp(address, "none") == 0)
        return true;
    if (rn_server_listen(d->server, name, address, where, protocol, &d->front, &error) != 0) {
        fprintf(stderr, "rationd: --%s %s: %s\n", name, address, error.text);
        return false;
    }
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
    static int told;

    while (__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED) != 0)
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
    fprintf(stderr, "rationd: --state: the file has gone, or its path is longer than %zu bytes\n",
            sizeof options->state_path - 1);
    return false;
}

/* The kernel grants memory as keys arrive: a table that is too large starts well, and much later
 * the process is killed. */
static void warn_of_size(uint64_t bytes)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    if (bytes > machine)
        rn_log(
            RN_LOG_WARN, "memory.large", RN_LOG_NUMBER("memory_mib", bytes >> 20),
            RN_LOG_NUMBER("machine_mib", machine >> 20),
            RN_LOG_TEXT("advice", RN_SLICE("--memory is more than the machine has; give less, or "
                                           "rationd may be killed when it fills")));
}

static bool open_limiter(struct daemon *d, struct rn_ruleset *ruleset)
{
    struct ration_error error;

    if (rn_limiter_open(&(struct ration_options){.state_path = d->options.state,
                                                 .memory_bytes = d->options.memory_bytes},
                        ruleset, &d->limiter, &error) != 0) {
        fprintf(stderr, "rationd: %s\n", error.text);
        rn_ruleset_free(ruleset);
        return false;
    }
    if (d->options.state && !follow_state_link(&d->options)) {
        rn_ruleset_free(ruleset);
        return false;
    }
    warn_of_size(d->options.memory_bytes);
    state_path = d->options.state;
    if (state_path)
        signal(SIGBUS, on_bus_error);
    if (error.text[0])
        rn_log(RN_LOG_WARN, "state.notice", RN_LOG_TEXT("text", rn_slice_of(error.text)));
    if (d->options.shares && !rn_shared_store_open(&d->shared, &d->options, d->limiter)) {
        rn_ruleset_free(ruleset);
        return false;
    }
    if (rn_reload_install(d->limiter, ruleset, ration_now(d->limiter)) == 0)
        return true;
    fprintf(stderr, "rationd: out of memory\n");
    return false;
}

/* Passes the settings to the protocols. */
static void configure_front(struct daemon *d)
{
    const struct rn_rationd_options *o = &d->options;

    d->front.guard.tokens = o->tokens;
    d->front.guard.token_count = o->token_count;
    d->front.trust_local = o->trust_local;
    d->front.rules_loaded_ns = d->front.started_ns;
    d->front.log_keys = o->log_keys;
    d->front.grpc_age_ns = o->grpc_max_age * RN_SECOND_NS;
    d->front.rls = (struct rn_rls_extra){o->rls_headers, o->rls_metadata, o->rls_quota_mode};
    d->front.daemon = (struct rn_front_daemon){
        .arg = d, .reload = reload, .files = o->configs, .file_count = o->config_count};
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

static bool open_server(struct daemon *d)
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
    if (rn_server_new(&options, &d->server, &error) != 0) {
        fprintf(stderr, "rationd: %s\n", error.text);
        return false;
    }
    if (rn_front_init(&d->front, d->limiter, d->server) != 0) {
        fprintf(stderr, "rationd: out of memory\n");
        return false;
    }
    configure_front(d);
    if (d->options.shares && !rn_shared_store_prepare(&d->shared, rn_server_workers(d->server)))
        return false;
    if (d->options.tls.cert && rn_server_tls_load(d->server, &d->options.tls, &error) != 0) {
        fprintf(stderr, "rationd: --tls-cert %s: %s\n", d->options.tls.cert, error.text);
        return false;
    }
    return listen_on(d, "http", RN_SET_HTTP, RN_ON_WORKERS, &rn_http_protocol) &&
           listen_on(d, "resp", RN_SET_RESP, RN_ON_WORKERS, &rn_resp_protocol) &&
           listen_on(d, "grpc", RN_SET_GRPC, RN_ON_WORKERS, &rn_grpc_protocol) &&
           listen_on(d, "admin", RN_SET_ADMIN, RN_ON_CONTROL, &rn_admin_protocol);
}

static int serve(struct daemon *d)
{
    struct rn_server_calls calls = {.arg = d,
                                    .ready = ready,
                                    .hangup = hangup,
                                    .stopping = stopping,
                                    .tick = tick,
                                    .worker_begins = worker_begins,
                                    .worker_ends = worker_ends};
    struct ration_error error;
    int code;

    if (d->options.config_count && rn_server_watch(d->server, d->options.configs,
                                                   d->options.config_count, files_changed, d) != 0)
        rn_log(RN_LOG_WARN, "rules.unwatched",
               RN_LOG_TEXT("advice", RN_SLICE("send SIGHUP after a change")));
    code = rn_server_run(d->server, &calls, &error);
    if (d->options.shares)
        rn_shared_store_end(&d->shared, rn_server_control(d->server));
    rn_membership_end(&d->membership);
    if (code == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "rationd: %s\n", error.text);
    return EXIT_FAILURE;
}

static int start(struct daemon *d)
{
    struct rn_ruleset *ruleset = read_rules(&d->options, &d->file_count);
    struct rlimit limit;

    if (!ruleset)
        return EXIT_USAGE;
    if (d->options.check) {
        rn_ruleset_free(ruleset);
        printf("rationd: rules and settings are in order\n");
        return EXIT_SUCCESS;
    }
    /* Each connection needs a file descriptor: raise the limit as far as the system allows. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (!open_limiter(d, ruleset) || !open_server(d))
        return EXIT_USAGE;
    if (!d->options.shares)
        rn_membership_begin_alone(&d->membership, &d->options, &d->front);
    return serve(d);
}

int main(int argc, char **argv)
{
    static struct daemon d;
    int status;

    if (!rn_rationd_options_read(&d.options, argc, argv))
        return EXIT_USAGE;
    if (d.options.help || d.options.version) {
        if (d.options.help)
            fputs(rn_rationd_options_help, stdout);
        else
            printf("rationd %s\n", ration_version());
        return EXIT_SUCCESS;
    }
    status = start(&d);
    if (d.server)
        rn_server_free(d.server);
    rn_front_done(&d.front);
    rn_shared_store_close(&d.shared);
    ration_close(d.limiter);
    return status;
}
