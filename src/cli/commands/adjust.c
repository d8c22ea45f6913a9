/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration adjust`: charges a client more, gives some back, or sets what is left.
 */
#include "cli/client/daemon.h"
#include "cli/output/daemon_reply.h"

static int adjust(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    struct rn_output out = rn_output_to(stdout, o);
    const struct rn_cli_json *limits;

    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    rn_buf_put_literal(&d->body, ",\"rule\":");
    rn_json_put_string(&d->body, rn_slice_of(o->rule));
    rn_buf_putf(&d->body, ",\"%s\":%s}", o->add != NULL ? "add" : "remaining",
                o->add != NULL ? o->add : o->remaining);
    if (!rn_daemon_do(d,
                      &(struct rn_daemon_request){.method = "POST", .target = "/v1/state/adjust"}))
        return RN_EXIT_ERROR;
    limits = rn_cli_json_list(d->answer, "limits");
    if (o->json)
        rn_daemon_print(d);
    else if (limits == NULL)
        rn_output_put(&out, RN_PLAIN, "no limit applies, nothing was changed\n");
    else
        rn_daemon_reply_limits(&out, limits);
    return limits != NULL ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_adjust(const struct rn_options *options)
{
    if (options->rule == NULL) {
        rn_output_error("which rule? write for example ration adjust %s",
                        options->command->example);
        return RN_EXIT_ERROR;
    }
    if ((options->add == NULL) == (options->remaining == NULL)) {
        rn_output_error(
            "give either --add N, which charges N more (or gives back, if N is negative), "
            "or --remaining N, which sets what is left");
        return RN_EXIT_ERROR;
    }
    return rn_daemon_run(options, RN_PORT_ADMIN, adjust);
}
