/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration replay`: what rules would have done, by access logs.
 */
#include <stdlib.h>

#include "cli/output/output.h"
#include "cli/replay/summary.h"

static bool show(struct rn_run *run)
{
    const struct rn_options *o = run->options;
    bool to_stdout = run->decisions == stdout;

    if (o->html != NULL && !rn_summary_page(run, o->html))
        return false;
    if (o->json)
        rn_summary_json(run);
    else if (!to_stdout && (o->html == NULL || o->html[0] != '-'))
        rn_summary_text(run);
    return true;
}

/* Logs without requests are no error; logs in which nothing is one are of another kind. */
static bool found_requests(const struct rn_run *run)
{
    return run->requests + run->outside + run->reorder.late != 0 || rn_run_faulty(run) == 0 ||
           rn_output_error("no line of %s could be read as a request",
                           run->feeds.count == 1 ? "this log" : "these logs");
}

int rn_command_replay(const struct rn_options *options)
{
    struct rn_run *run = calloc(1, sizeof *run);
    int status = RN_EXIT_ERROR;

    if (run == NULL) {
        rn_output_error("out of memory");
        return status;
    }
    if (rn_run_open(run, options, NULL) && rn_run_all(run) && show(run) && found_requests(run))
        status = RN_EXIT_OK;
    rn_run_done(run);
    free(run);
    return status;
}
