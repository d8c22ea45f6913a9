/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/rulebook/reload.h"
#include "base/clock.h"
#include "net/log.h"
#include "net/systemd.h"
#include "rationd/rationd.h"

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

int rn_rationd_reload(void *arg, struct rn_author author, struct ration_report **report)
{
    struct rn_rationd *d = arg;
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
        rn_log(RN_LOG_WARN, "rules.files_overridden", RN_LOG_AUTHOR(author),
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
    struct rn_author author = {.by = rn_slice_of(by)};
    struct rn_rationd *d = arg;
    struct ration_report *report = NULL;

    rn_systemd_notify("RELOADING=1");
    if (rn_rationd_reload(d, author, &report) == 0)
        rn_front_note_rules(&d->front, author, RN_VERSION_FILES, 0);
    rn_front_log_report(report);
    ration_report_free(report);
    rn_systemd_notify("READY=1");
}

void rn_rationd_reload_if_due(struct rn_rationd *d)
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

void rn_rationd_hangup(void *arg)
{
    struct rn_rationd *d = arg;

    d->hangup_due = true;
    rn_rationd_reload_if_due(d);
}

void rn_rationd_files_changed(void *arg)
{
    struct rn_rationd *d = arg;

    d->reload_due = true;
    rn_rationd_reload_if_due(d);
}
