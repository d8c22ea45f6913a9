/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration reset`: forgets the counters of a client.
 */
#include <inttypes.h>

#include "cli/client/daemon.h"
#include "cli/output/output.h"

static int reset(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    uint64_t count = 0;

    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    if (d->options->rule != NULL) {
        rn_buf_put_literal(&d->body, ",\"rule\":");
        rn_json_put_string(&d->body, rn_slice_of(d->options->rule));
    }
    rn_buf_put_char(&d->body, '}');
    if (!rn_daemon_do(d,
                      &(struct rn_daemon_request){.method = "POST", .target = "/v1/state/reset"}))
        return RN_EXIT_ERROR;
    rn_cli_json_u64(d->answer, "reset", &count);
    if (d->options->json)
        rn_daemon_print(d);
    else if (count == 0)
        rn_output_put(&out, RN_PLAIN, "no limit applies, nothing was reset\n");
    else
        rn_output_put(&out, RN_PLAIN, "%" PRIu64 " limit%s reset\n", count, count == 1 ? "" : "s");
    return count > 0 ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_reset(const struct rn_options *options)
{
    if (options->attribute_count > 0 || options->rule != NULL)
        return rn_daemon_run(options, RN_PORT_ADMIN, reset);
    rn_output_error(
        "which client? write for example ration reset ip=192.0.2.7, or --rule NAME for a rule that "
        "has one counter for all");
    return RN_EXIT_ERROR;
}
