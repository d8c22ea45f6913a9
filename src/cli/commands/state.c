/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration state`: how much a client has left in each limit that applies.
 */
#include "cli/client/daemon.h"
#include "cli/output/daemon_reply.h"

static void put_target(struct rn_buf *out, const struct rn_options *o)
{
    char sign = '?';

    rn_buf_put_literal(out, "/v1/state");
    if (o->rule != NULL) {
        rn_buf_put_literal(out, "?rule=");
        rn_cli_http_put_escaped(out, rn_slice_of(o->rule));
        sign = '&';
    }
    for (size_t i = 0; i < o->attribute_count; i++, sign = '&') {
        const struct ration_attribute *a = &o->attributes[i];

        rn_buf_put_char(out, sign);
        rn_cli_http_put_escaped(out, (struct rn_slice){a->name, a->name_len});
        rn_buf_put_char(out, '=');
        rn_cli_http_put_escaped(out, (struct rn_slice){a->value, a->value_len});
    }
    rn_buf_put_char(out, '\0');
}

static int show(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    struct rn_buf target = {0};
    const struct rn_cli_json *limits;
    bool ok = false;

    put_target(&target, d->options);
    if (target.failed)
        rn_output_error("out of memory");
    else
        ok = rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = target.data});
    rn_buf_done(&target);
    if (!ok)
        return RN_EXIT_ERROR;
    limits = rn_cli_json_list(d->answer, "limits");
    if (d->options->json)
        rn_daemon_print(d);
    else if (limits == NULL)
        rn_output_put(&out, RN_PLAIN, "no limit applies\n");
    else
        rn_daemon_reply_limits(&out, limits);
    return limits != NULL ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_state(const struct rn_options *options)
{
    return rn_daemon_run(options, RN_PORT_ADMIN, show);
}
