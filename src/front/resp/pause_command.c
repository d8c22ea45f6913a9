/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RATION.PAUSE: pauses a key or a client, lifts the pause, or tells how long it lasts. The reply is
 * the rest in milliseconds, rounded up.
 */
#include <ration/pause.h>

#include "front/resp/resp_internal.h"
#include "rules/report/report.h"

static void answer(struct rn_resp_context *c, int code, int64_t rest_ns, struct rn_slice rule)
{
    if (code == 0)
        rn_resp_put_integer(c->out, (rest_ns + 999999) / 1000000);
    else if (code == RATION_ENORULE)
        rn_front_resp_fail(c, "there is no rule %s", rn_excerpt(rule).text);
    else if (code == RATION_EUNMATCHED && rule.data)
        rn_front_resp_fail(c, "rule %s does not apply to these attributes, or has no limit",
                           rn_excerpt(rule).text);
    else if (code == RATION_EUNMATCHED)
        rn_front_resp_fail(c, "no rule with a limit applies to these attributes");
    else if (code == RATION_EFULL)
        rn_resp_put_error(c->out, "STORE", RN_SLICE("there is no room for another pause"));
    else
        rn_resp_put_error(c->out, "STORE", rn_slice_of(ration_error_text(code)));
}

/* `length` data NULL: only looks. */
static void run(struct rn_resp_context *c, const struct ration_pause_of *of, struct rn_slice length)
{
    struct ration *r = c->front->limiter;
    struct rn_slice rule = {of->rule, of->rule_len};
    struct ration_error error;
    int64_t for_ns, rest_ns = 0;
    int code;

    if (length.data && !rn_front_resp_may_change(c))
        return;
    if (!length.data) {
        code = ration_pause_rest(r, of, RATION_NOW, &rest_ns);
    } else if (rn_front_resp_is(length, "LIFT")) {
        code = ration_pause_lift(r, of, RATION_NOW, &rest_ns);
    } else if (ration_pause_length(length.data, length.len, RATION_NOW, &for_ns, &error) == 0) {
        code = ration_pause(r, of, for_ns, RATION_NOW, &rest_ns);
    } else {
        rn_front_resp_fail(c, "%s; LIFT ends a pause", error.text);
        return;
    }
    answer(c, code, rest_ns, rule);
}

/* RULES attribute value ... [FOR length | LIFT] [RULE name] */
static void pause_client(struct rn_resp_context *c)
{
    struct rn_params *params = &c->ws->params;
    struct rn_slice length = {0}, rule = {0};

    rn_params_init(params);
    for (uint32_t at = 2; at < c->argc; at += 2) {
        struct rn_slice name = c->argv[at];

        if (rn_slice_is(name, "LIFT") && !length.data) {
            length = name;
            at--;
            continue;
        }
        if (at + 1 == c->argc || name.len == 0) {
            rn_front_resp_fail_usage(c);
            return;
        }
        if (rn_slice_is(name, "FOR") && !length.data) {
            length = c->argv[at + 1];
        } else if (rn_slice_is(name, "RULE") && !rule.data) {
            rule = c->argv[at + 1];
        } else if (rn_params_add(params, (char *)name.data, name.len, c->argv[at + 1]) != 0) {
            rn_front_resp_fail(c, "more than %d attributes", RN_PARAMS_ATTRIBUTES_MAX);
            return;
        }
    }
    struct ration_request request = {.attributes = params->attributes,
                                     .count = params->attribute_count};

    if (request.count == 0)
        rn_front_resp_fail_usage(c);
    else
        run(c,
            &(struct ration_pause_of){.request = &request, .rule = rule.data, .rule_len = rule.len},
            length);
}

void rn_front_resp_pause(struct rn_resp_context *c)
{
    if (rn_slice_is(c->argv[1], "RULES") && c->argc > 3)
        pause_client(c);
    else if (c->argc > 3)
        rn_front_resp_fail_usage(c);
    else
        run(c, &(struct ration_pause_of){.key = c->argv[1].data, .key_len = c->argv[1].len},
            c->argc > 2 ? c->argv[2] : (struct rn_slice){0});
}
