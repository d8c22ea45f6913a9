/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration lint`: errors and warnings about rules files.
 */
#include "rules/lint/lint.h"

#include <inttypes.h>

#include "cli/offline.h"
#include "cli/output/output.h"

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

static void put_json(const struct rn_offline *s)
{
    const struct rn_report *report = &s->report;
    struct rn_buf text = {0};
    struct rn_members m = {.out = &text};

    rn_members_open(&m, NULL, '{');
    rn_members_u64(&m, "errors", report->count[RN_ERROR]);
    rn_members_u64(&m, "warnings", report->count[RN_WARNING]);
    if (s->ruleset != NULL) {
        rn_members_u64(&m, "rules", s->ruleset->rule_count);
        rn_members_u64(&m, "limits", s->ruleset->limit_count);
    }
    rn_members_open(&m, "diagnostics", '[');
    for (uint32_t i = 0; i < report->kept_count; i++) {
        const struct rn_diagnostic *d = &report->kept[i];

        rn_members_open(&m, NULL, '{');
        rn_members_text(&m, "severity",
                        d->severity == RN_ERROR ? RN_SLICE("error") : RN_SLICE("warning"));
        if (d->at.file < report->file_count)
            rn_members_text(&m, "file", report->files[d->at.file].name);
        else
            rn_members_null(&m, "file");
        rn_members_u64(&m, "line", d->at.line);
        rn_members_u64(&m, "column", d->at.column);
        rn_members_text(&m, "message", rn_slice_of(d->message));
        rn_members_close(&m, '}');
    }
    rn_members_close(&m, ']');
    rn_members_close(&m, '}');
    rn_output_json(&text);
}

int rn_command_lint(const struct rn_options *options)
{
    struct rn_output out = rn_output_to(stdout, options);
    struct rn_offline offline;
    uint32_t errors, warnings;
    int status = RN_EXIT_ERROR;

    if (rn_offline_load(&offline, options))
        rn_lint_ruleset(offline.ruleset, &offline.report);
    errors = offline.report.count[RN_ERROR];
    warnings = offline.report.count[RN_WARNING];
    if (errors == 0 && offline.ruleset != NULL)
        status = options->strict && warnings != 0 ? RN_EXIT_REFUSED : RN_EXIT_OK;
    if (options->json && (errors != 0 || offline.ruleset != NULL))
        put_json(&offline);
    if (!options->json)
        rn_output_report(&out, &offline.report);
    if (!options->json && errors != 0) {
        rn_output_put(&out, RN_BAD, "%" PRIu32 " error%s", errors, plural(errors));
        if (warnings != 0)
            rn_output_put(&out, RN_PLAIN, ", %" PRIu32 " warning%s", warnings, plural(warnings));
        rn_output_put(&out, RN_PLAIN, "\n");
    } else if (!options->json && offline.ruleset != NULL) {
        uint32_t rules = offline.ruleset->rule_count, limits = offline.ruleset->limit_count;

        rn_output_put(&out, warnings == 0 ? RN_GOOD : RN_ODD, "ok");
        rn_output_put(&out, RN_PLAIN, ": %" PRIu32 " rule%s, %" PRIu32 " limit%s, ", rules,
                      plural(rules), limits, plural(limits));
        if (warnings == 0)
            rn_output_put(&out, RN_PLAIN, "no warnings\n");
        else
            rn_output_put(&out, RN_PLAIN, "%" PRIu32 " warning%s\n", warnings, plural(warnings));
    }
    rn_offline_done(&offline);
    return status;
}
