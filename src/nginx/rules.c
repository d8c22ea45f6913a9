/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules are read while nginx reads its configuration, so that `nginx -t` checks them and
 * a reload with a bad file keeps the old configuration. Workers use what was read then, even
 * if the file changes afterwards.
 */
#include "nginx/module.h"
#include "rules/report/report.h"
#include "rules/ruleset.h"

static void free_ruleset(void *data)
{
    struct rn_ngx_main *main = data;

    rn_ruleset_free(main->ruleset);
    main->ruleset = NULL;
}

/* One line for each error; nginx adds the file and line of the directive. */
static void log_report(ngx_conf_t *cf, const struct rn_report *report)
{
    for (uint32_t i = 0; i < report->kept_count; i++) {
        const struct rn_diagnostic *d = &report->kept[i];
        ngx_uint_t level = d->severity == RN_ERROR ? NGX_LOG_EMERG : NGX_LOG_WARN;
        struct rn_slice file =
            d->at.file < report->file_count ? report->files[d->at.file].name : RN_SLICE("rules");

        if (d->at.line != 0)
            ngx_conf_log_error(level, cf, 0, "%*s:%uD:%uD: %s", file.len, file.data, d->at.line,
                               d->at.column, d->message);
        else
            ngx_conf_log_error(level, cf, 0, "%*s: %s", file.len, file.data, d->message);
    }
    if (report->count[RN_ERROR] > RN_REPORT_KEPT)
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "and %uD more errors",
                           report->count[RN_ERROR] - RN_REPORT_KEPT);
}

char *rn_ngx_rules_read(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    struct rn_ngx_main *main = conf;
    ngx_str_t *words = cf->args->elts;
    ngx_pool_cleanup_t *cleanup;
    struct rn_report *report;

    (void)command;
    if (main->rule_files.nelts != 0)
        return "is duplicate: name all files in one";
    cleanup = ngx_pool_cleanup_add(cf->cycle->pool, 0);
    if (!cleanup)
        return NGX_CONF_ERROR;
    cleanup->handler = free_ruleset;
    cleanup->data = main;
    for (ngx_uint_t i = 1; i < cf->args->nelts; i++) {
        char **file = ngx_array_push(&main->rule_files);

        if (!file || ngx_conf_full_name(cf->cycle, &words[i], 1) != NGX_OK)
            return NGX_CONF_ERROR;
        *file = (char *)words[i].data; /* nginx terminates it */
    }
    report = malloc(sizeof *report); /* too large for the stack */
    if (!report)
        return NGX_CONF_ERROR;
    rn_report_init(report);
    main->ruleset =
        rn_ruleset_load((const char *const *)main->rule_files.elts, main->rule_files.nelts, report);
    log_report(cf, report);
    if (!main->ruleset && report->count[RN_ERROR] == 0)
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "out of memory while reading the rules");
    rn_report_done(report);
    free(report);
    return main->ruleset ? NGX_CONF_OK : NGX_CONF_ERROR;
}
