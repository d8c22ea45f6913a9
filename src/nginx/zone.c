/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of counters: a state file, as libration, rationd and the command line use it.
 * All workers share it, those from before a reload included, and those of another master
 * during a binary upgrade.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ration/clients.h>

#include "limiter/clients/client_index.h"
#include "limiter/rulebook/reload.h"
#include "limiter/signals/signals.h"
#include "limiter/usage/usage_file.h"
#include "nginx/module.h"

#define REFRESH_MS 500
#define ANSWER_MS 1000 /* that those in line have for their answers, when a worker ends */

/* NULL: there is no http {}, or none of its locations is limited. */
static struct rn_ngx_main *main_of(ngx_cycle_t *cycle)
{
    struct rn_ngx_main *main = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_ration_module);

    return main && main->used ? main : NULL;
}

/* The size can change only while no process uses the file: not during a reload. */
static int open_table(const struct rn_ngx_main *main, ngx_log_t *log, struct ration **out)
{
    struct ration_options options = {.state_path = (const char *)main->state.data,
                                     .memory_bytes = main->bytes,
                                     .usage_bytes = main->usage_bytes};
    struct ration_error error;
    int code = rn_limiter_open(&options, main->ruleset, out, &error);

    if (code == RATION_EBUSY && options.memory_bytes != 0) {
        options.memory_bytes = 0;
        if (rn_limiter_open(&options, main->ruleset, out, NULL) == 0) {
            ngx_log_error(NGX_LOG_WARN, log, 0, "ration_zone keeps its old size for now: %s",
                          error.text);
            return 0;
        }
    }
    if (code != 0 || error.text[0] != '\0') {
        ngx_uint_t level = code != 0 ? NGX_LOG_EMERG : NGX_LOG_WARN;

        ngx_log_error(level, log, 0, "ration_zone: %s", error.text);
    }
    return code;
}

/* Of the usage file, if rules need one. False after logging why. */
static bool open_usage(const struct rn_ngx_main *main, ngx_log_t *log, struct ration *limiter)
{
    struct ration_error error;
    int code = rn_usage_open(limiter, main->ruleset, &error);

    if (code != 0 || error.text[0] != '\0') {
        ngx_uint_t level = code != 0 ? NGX_LOG_EMERG : NGX_LOG_WARN;

        ngx_log_error(level, log, 0, "ration_zone: %s", error.text);
    }
    return code == 0;
}

/* Workers cannot use a file of root. */
static void give_away(const char *path, ngx_cycle_t *cycle)
{
    ngx_core_conf_t *core = (ngx_core_conf_t *)ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (geteuid() == 0 && core->user != (ngx_uid_t)NGX_CONF_UNSET_UINT &&
        chown(path, core->user, core->group) != 0) {
        ngx_log_error(NGX_LOG_ERR, cycle->log, ngx_errno, "chown() \"%s\" failed", path);
    }
}

ngx_int_t rn_ngx_zone_prepare(ngx_cycle_t *cycle)
{
    struct rn_ngx_main *main = main_of(cycle);
    bool first = ngx_is_init_cycle(cycle->old_cycle);
    struct ration *limiter;
    struct stat st;

    if (!main || ngx_test_config)
        return NGX_OK;
    const char *state = (const char *)main->state.data;
    bool exists = stat(state, &st) == 0;
    char *usage = rn_usage_is_needed(main->ruleset) ? rn_usage_file_path(state) : NULL;
    bool lacks_usage = usage && stat(usage, &st) != 0, failed;

    if (exists && !first && !lacks_usage) {
        free(usage);
        return NGX_OK; /* workers log what is wrong with it */
    }
    if (open_table(main, cycle->log, &limiter) != 0) {
        free(usage);
        return first ? NGX_ERROR : NGX_OK;
    }
    failed = !open_usage(main, cycle->log, limiter);
    rn_limiter_set_capacity(limiter, main->ruleset);
    ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0, "ration_zone: room for %uL live keys",
                  rn_limiter_capacity(limiter));
    ration_close(limiter);
    if (!exists)
        give_away(state, cycle);
    if (lacks_usage && !failed)
        give_away(usage, cycle);
    free(usage);
    return failed && first ? NGX_ERROR : NGX_OK;
}

/* --- workers -------------------------------------------------------------------------------- */

static void log_database(void *arg, const struct ration_database *database)
{
    ngx_log_t *log = arg;

    if (database->problem[0] != '\0') {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "ration: cannot use \"%s\": %s; what was loaded from it before stays in use",
                      database->path, database->problem);
    } else {
        ngx_log_error(NGX_LOG_NOTICE, log, 0, "ration: loaded \"%s\": %uL networks", database->path,
                      database->networks);
    }
}

static void log_factor(void *log, struct rn_slice rule, unsigned from, unsigned to,
                       struct rn_slice signal, const char *value)
{
    ngx_uint_t level = to < from ? NGX_LOG_WARN : NGX_LOG_NOTICE;

    ngx_log_error(level, (ngx_log_t *)log, 0,
                  "ration: factor of \"%*s\" from %ud%% to %ud%%, as signal \"%*s\" is %s",
                  rule.len, rule.data, from, to, signal.len, signal.data, value);
}

static void log_stale(void *log, const struct rn_signal *signal, bool stale)
{
    ngx_log_error(NGX_LOG_NOTICE, (ngx_log_t *)log, 0, "ration: signal \"%*s\" is %s",
                  signal->name.len, signal->name.data, stale ? "stale" : "known");
}

/* After worker_shutdown_timeout nginx closes all connections, answered or not. The worker may have
 * begun to end up to REFRESH_MS ago. */
static void finish_lines(const struct rn_ngx_main *main)
{
    const ngx_core_conf_t *core =
        (ngx_core_conf_t *)ngx_get_conf(ngx_cycle->conf_ctx, ngx_core_module);
    ngx_msec_t timeout_ms = core->shutdown_timeout, early_ms = REFRESH_MS + ANSWER_MS;

    if (timeout_ms == 0)
        return;
    timeout_ms = timeout_ms > early_ms ? timeout_ms - early_ms : 0;
    rn_ngx_servers_end_by(main, timeout_ms);
    if (main->worker->waiting)
        rn_ngx_lines_end_by(main->worker, timeout_ms);
}

static void refresh(ngx_event_t *event)
{
    struct rn_ngx_worker *worker = event->data;
    struct ration_error error;
    bool failed = ration_clients_refresh(worker->limiter, &error) != 0;

    if (failed && !worker->refresh_failed) { /* logged once until it works again */
        ngx_log_error(NGX_LOG_ERR, event->log, 0, "ration: %s", error.text);
    } else if (!failed && error.text[0] != '\0') {
        ngx_log_error(NGX_LOG_WARN, event->log, 0, "ration: %s", error.text);
    }
    worker->refresh_failed = failed;
    ration_databases_refresh(worker->limiter, log_database, event->log);
    worker->banning = rn_ban_any(worker->limiter);
    rn_signals_tick(worker->limiter, &(struct rn_signals_events){event->log, log_factor, log_stale},
                    RATION_NOW);
    if (ngx_exiting && !worker->ending) {
        worker->ending = true;
        finish_lines(main_of((ngx_cycle_t *)ngx_cycle));
    }
    ngx_add_timer(event, REFRESH_MS);
}

/* Logs why, then the worker dies: SA_RESETHAND lets the signal kill it when it comes again.
 * nginx's own handlers log in the same way. The next worker finds the file unusable. */
static void on_bus_error(int signal)
{
    const struct rn_ngx_main *main = main_of((ngx_cycle_t *)ngx_cycle);

    (void)signal;
    ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                  "ration: SIGBUS: the state file \"%s\" was cut short, or its disk failed, "
                  "while in use",
                  main ? (const char *)main->state.data : "");
}

/* Without the file a worker counts for itself: better than no limits or no service. */
static struct ration *open_limiter(const struct rn_ngx_main *main, ngx_log_t *log)
{
    struct ration *limiter = NULL;

    if (open_table(main, log, &limiter) == 0)
        return limiter;
    if (rn_limiter_open(&(struct ration_options){.memory_bytes = main->bytes}, main->ruleset,
                        &limiter, NULL) != 0)
        return NULL;
    ngx_log_error(NGX_LOG_EMERG, log, 0,
                  "ration: this worker counts in private memory, and so admits as much as "
                  "all others together; repair the state file and reload");
    return limiter;
}

ngx_int_t rn_ngx_zone_open(ngx_cycle_t *cycle)
{
    struct sigaction old, new = {.sa_handler = on_bus_error, .sa_flags = (int)SA_RESETHAND};
    struct rn_ngx_main *main = main_of(cycle);
    struct rn_ngx_worker *worker;

    if (!main || ngx_process == NGX_PROCESS_HELPER)
        return NGX_OK;
    worker = ngx_pcalloc(cycle->pool, sizeof *worker);
    if (!worker)
        return NGX_ERROR;
    worker->needed = rn_ngx_attributes_needed(main->ruleset, cycle->pool);
    for (uint32_t i = 0; i < main->ruleset->signal_count; i++)
        worker->observes |= main->ruleset->signals[i].of != NULL;
    worker->limiter = worker->needed ? open_limiter(main, cycle->log) : NULL;
    if (!worker->limiter || rn_ngx_lines_open(worker, main, cycle->log) != NGX_OK)
        return NGX_ERROR;
    if (!open_usage(main, cycle->log, worker->limiter)) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "ration: this worker does not count usage; repair the usage file and reload");
        rn_usage_forgo(worker->limiter);
    }
    struct ration_error error;
    int code =
        rn_reload_install(worker->limiter, main->ruleset, ration_now(worker->limiter), &error);

    main->ruleset = NULL; /* taken in any case */
    if (code != 0) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0, "ration: %s", error.text);
        ration_close(worker->limiter);
        return NGX_ERROR;
    }
    if (sigaction(SIGBUS, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        (void)sigaction(SIGBUS, &new, NULL);
    worker->banning = rn_ban_any(worker->limiter);
    worker->refresh.handler = refresh;
    worker->refresh.data = worker;
    worker->refresh.log = cycle->log;
    worker->refresh.cancelable = 1;
    ngx_add_timer(&worker->refresh, REFRESH_MS);
    main->worker = worker;
    return rn_ngx_servers_open(main, cycle);
}

void rn_ngx_zone_close(ngx_cycle_t *cycle)
{
    struct rn_ngx_main *main = main_of(cycle);
    struct rn_ngx_worker *worker = main ? main->worker : NULL;

    if (!worker)
        return;
    main->worker = NULL;
    rn_ngx_servers_close(main);
    if (worker->waiting)
        rn_ngx_lines_close(worker);
    ration_close(worker->limiter);
    rn_buf_done(&worker->text);
    rn_buf_done(&worker->names);
    rn_buf_done(&worker->command);
    free(worker->attributes);
}
