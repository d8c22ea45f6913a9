/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration state`, `ration reset` and `ration adjust`: how much a client has left in each limit
 * that applies; forgets that, or changes it.
 */
#include <inttypes.h>

#include "cli/client/daemon.h"
#include "cli/output/daemon_reply.h"

/* Prints the limits of the answer. Returns the exit status. */
static int put_limits(const struct rn_daemon *d, const char *none)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    const struct rn_cli_json *limits = rn_cli_json_list(d->answer, "limits");

    if (d->options->json)
        rn_daemon_print(d);
    else if (limits == NULL)
        rn_output_put(&out, RN_PLAIN, "%s\n", none);
    else
        rn_daemon_reply_limits(&out, limits);
    return limits != NULL ? RN_EXIT_OK : RN_EXIT_REFUSED;
}

int rn_command_state(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;
    struct rn_buf target = {0};
    char sign = '?';
    bool ok = false;

    rn_buf_put_literal(&target, "/v1/state");
    if (o->rule != NULL) {
        rn_buf_put_literal(&target, "?rule=");
        rn_cli_http_put_escaped(&target, rn_slice_of(o->rule));
        sign = '&';
    }
    for (size_t i = 0; i < o->attribute_count; i++, sign = '&') {
        const struct ration_attribute *a = &o->attributes[i];

        rn_buf_put_char(&target, sign);
        rn_cli_http_put_escaped(&target, (struct rn_slice){a->name, a->name_len});
        rn_buf_put_char(&target, '=');
        rn_cli_http_put_escaped(&target, (struct rn_slice){a->value, a->value_len});
    }
    rn_buf_put_char(&target, '\0');
    if (target.failed)
        rn_output_error("out of memory");
    else
        ok = rn_daemon_do(d, &(struct rn_daemon_request){.method = "GET", .target = target.data});
    rn_buf_done(&target);
    if (!ok)
        return RN_EXIT_ERROR;
    struct rn_output out = rn_output_to(stdout, o);
    const struct rn_cli_json *of = rn_cli_json_list(d->answer, "reputation");
    int status = put_limits(d, "no limit applies");

    for (; of != NULL && !o->json; of = of->next) {
        struct rn_slice rule = rn_cli_json_text(of, "rule");
        char before[RATION_NAME_SIZE + 2];

        snprintf(before, sizeof before, "%.*s ", (int)rule.len, rule.data);
        rn_daemon_reply_reputation(&out, before, of);
    }
    for (of = rn_cli_json_list(d->answer, "paused"); of != NULL && !o->json; of = of->next) {
        struct rn_slice rule = rn_cli_json_text(of, "rule");
        char text[RN_TIME_TEXT];

        rn_output_put(&out, RN_DIM, "%.*s ", (int)rule.len, rule.data);
        rn_output_put(&out, RN_BAD, "paused for %s\n",
                      rn_output_time(rn_cli_json_seconds(of, "rest"), text));
    }
    return status;
}

/* `{"attributes":{...},"rule":"..."`: the caller ends the object. */
static void begin_body(struct rn_daemon *d)
{
    rn_buf_put_char(&d->body, '{');
    rn_daemon_put_attributes(d);
    if (d->options->rule != NULL) {
        rn_buf_put_literal(&d->body, ",\"rule\":");
        rn_json_put_string(&d->body, rn_slice_of(d->options->rule));
    }
}

int rn_command_reset(struct rn_daemon *d)
{
    struct rn_output out = rn_output_to(stdout, d->options);
    uint64_t count = 0;

    if (d->options->attribute_count == 0 && d->options->rule == NULL) {
        rn_output_error(
            "which client? write for example ration reset ip=192.0.2.7, or --rule NAME for a rule "
            "that has one counter for all");
        return RN_EXIT_ERROR;
    }
    begin_body(d);
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

int rn_command_adjust(struct rn_daemon *d)
{
    const struct rn_options *o = d->options;

    if (o->rule == NULL) {
        rn_output_error("which rule? write for example ration adjust %s", o->command->example);
        return RN_EXIT_ERROR;
    }
    if ((o->add == NULL) == (o->remaining == NULL)) {
        rn_output_error(
            "give either --add N, which charges N more (or gives back, if N is negative), "
            "or --remaining N, which sets what is left");
        return RN_EXIT_ERROR;
    }
    begin_body(d);
    rn_buf_putf(&d->body, ",\"%s\":%s}", o->add != NULL ? "add" : "remaining",
                o->add != NULL ? o->add : o->remaining);
    if (!rn_daemon_do(d,
                      &(struct rn_daemon_request){.method = "POST", .target = "/v1/state/adjust"}))
        return RN_EXIT_ERROR;
    return put_limits(d, "no limit applies, nothing was changed");
}
