/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration shadow`: turns shadow mode on or off.
 */
#include "cli/client/daemon.h"
#include "cli/output/output.h"

/* `wanted` is "on" or "off"; NULL only asks. */
static int run(const struct rn_options *options, const char *wanted)
{
    struct rn_output out = rn_output_to(stdout, options);
    struct rn_daemon_request question = {.method = wanted != NULL ? "PUT" : "GET",
                                         .target = "/v1/shadow"};
    struct rn_daemon daemon;
    int status = RN_EXIT_ERROR;

    if (!rn_daemon_init(&daemon, options, RN_PORT_ADMIN))
        goto out;
    if (wanted != NULL)
        rn_buf_putf(&daemon.body, "{\"shadow\":%s}", wanted[1] == 'n' ? "true" : "false");
    if (!rn_daemon_do(&daemon, &question))
        goto out;
    status = RN_EXIT_OK;
    if (options->json)
        rn_daemon_print(&daemon);
    else if (rn_cli_json_is_true(daemon.answer, "shadow"))
        rn_output_put(&out, RN_ODD, "shadow mode is on: no request is refused\n");
    else
        rn_output_put(&out, RN_PLAIN, "shadow mode is off: limits are enforced\n");
out:
    rn_daemon_done(&daemon);
    return status;
}

int rn_command_shadow_on(const struct rn_options *options)
{
    return run(options, "on");
}

int rn_command_shadow_off(const struct rn_options *options)
{
    return run(options, "off");
}

int rn_command_shadow_status(const struct rn_options *options)
{
    return run(options, NULL);
}
