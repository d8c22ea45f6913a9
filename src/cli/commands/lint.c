/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration lint`: errors and warnings about rules files.
 */
#include "rules/lint/lint.h"

#include <inttypes.h>

#include "cli/offline.h"
#include "cli/output/output.h"
#include "cli/output/pretty.h"

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

static void put_summary(const struct rn_output *out, const struct rn_offline *s)
{
    uint32_t errors = s->report.count[RN_ERROR], warnings = s->report.count[RN_WARNING];

    if (errors != 0) {
        rn_output_put(out, RN_BAD, "%" PRIu32 " error%s", errors, plural(errors));
        if (warnings != 0)
            rn_output_put(out, RN_PLAIN, ", %" PRIu32 " warning%s", warnings, plural(warnings));
        rn_output_put(out, RN_PLAIN, "\n");
        return;
    }
    rn_output_put(out, warnings == 0 ? RN_GOOD : RN_ODD, "ok");
    rn_output_put(out, RN_PLAIN, ": %" PRIu32 " rule%s, %" PRIu32 " limit%s, ",
                  s->ruleset->rule_count, plural(s->ruleset->rule_count), s->ruleset->limit_count,
                  plural(s->ruleset->limit_count));
    if (warnings == 0)
        rn_output_put(out, RN_PLAIN, "no warnings\n");
    else
        rn_output_put(out, RN_PLAIN, "%" PRIu32 " warning%s\n", warnings, plural(warnings));
}

static void put_json(const struct rn_offline *s)
{
    const struct rn_report *report = &s->report;
    struct rn_pretty json = RN_PRETTY_TO(stdout);

    rn_pretty_open(&json, NULL, '{');
    rn_pretty_uint(&json, "errors", report->count[RN_ERROR]);
    rn_pretty_uint(&json, "warnings", report->count[RN_WARNING]);
    if (s->ruleset != NULL) {
        rn_pretty_uint(&json, "rules", s->ruleset->rule_count);
        rn_pretty_uint(&json, "limits", s->ruleset->limit_count);
    }
    rn_pretty_open(&json, "diagnostics", '[');
    for (uint32_t i = 0; i < report->kept_count; i++) {
        const struct rn_diagnostic *d = &report->kept[i];

        rn_pretty_open(&json, NULL, '{');
        rn_pretty_text(&json, "severity",
                       rn_slice_of(d->severity == RN_ERROR ? "error" : "warning"));
        if (d->at.file < report->file_count)
            rn_pretty_text(&json, "file", report->files[d->at.file].name);
        else
            rn_pretty_null(&json, "file");
        rn_pretty_uint(&json, "line", d->at.line);
        rn_pretty_uint(&json, "column", d->at.column);
        rn_pretty_text(&json, "message", rn_slice_of(d->message));
        rn_pretty_close(&json, '}');
    }
    rn_pretty_close(&json, ']');
    rn_pretty_close(&json, '}');
}

int rn_command_lint(const struct rn_options *options)
{
    struct rn_output out = rn_output_to(stdout, options);
    struct rn_offline offline;
    int status = RN_EXIT_ERROR;

    if (rn_offline_load(&offline, options))
        rn_lint_ruleset(offline.ruleset, &offline.report);
    if (offline.ruleset != NULL || offline.report.count[RN_ERROR] != 0) {
        if (options->json) {
            put_json(&offline);
        } else {
            rn_output_report(&out, &offline.report);
            put_summary(&out, &offline);
        }
        if (offline.report.count[RN_ERROR] == 0)
            status = options->strict && offline.report.count[RN_WARNING] != 0 ? RN_EXIT_REFUSED
                                                                              : RN_EXIT_OK;
    }
    rn_offline_done(&offline);
    return status;
}
