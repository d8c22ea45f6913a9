/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was decided, for logs and maps:
 *
 *   $ration_verdict     allowed, delayed, refused, shadow, shadow_delayed or error
 *   $ration_rule        that decided
 *   $ration_remaining   units left of its limit
 *   $ration_delay       seconds, such as 0.250
 *   $ration_waited      seconds in line before the decision
 *   $ration_ban_level   of the ban by which a rule with `escalate` refused, from 1 on
 *   $ration_source      where it was decided: rationd or zone
 *   $ration_rate_status, $ration_concurrency_status
 *                       what limits of that kind said, in the words of nginx's own modules
 *
 * Empty if there is no such value, for instance before the decision.
 */
#include "nginx/module.h"
#include "wire/format.h"

/* Copies the text into the pool. */
static ngx_int_t give(ngx_http_request_t *r, ngx_http_variable_value_t *v, struct rn_slice text)
{
    ngx_str_t copy = rn_ngx_copy(r->pool, text.data, text.len);

    if (!copy.data)
        return NGX_ERROR;
    v->data = copy.data;
    v->len = (unsigned)text.len & 0x0fffffff; /* the width of the field */
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    return NGX_OK;
}

static ngx_int_t give_nothing(ngx_http_variable_value_t *v)
{
    v->not_found = 1;
    return NGX_OK;
}

static ngx_int_t get_verdict(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
    static const char *const words[] = {
        [RN_NGX_ALLOWED] = "allowed",
        [RN_NGX_DELAYED] = "delayed",
        [RN_NGX_REFUSED] = "refused",
        [RN_NGX_SHADOWED] = "shadow",
        [RN_NGX_SHADOW_DELAYED] = "shadow_delayed",
        [RN_NGX_FAILED] = "error",
    };
    const struct rn_ngx_context *context = rn_ngx_context_find(r);

    (void)data;
    return context ? give(r, v, rn_slice_of(words[context->verdict])) : give_nothing(v);
}

static ngx_int_t get_rule(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
    const struct rn_ngx_context *context = rn_ngx_context_find(r);

    (void)data;
    return context && context->rule[0] != '\0' ? give(r, v, rn_slice_of(context->rule))
                                               : give_nothing(v);
}

static ngx_int_t get_remaining(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
    const struct rn_ngx_context *context = rn_ngx_context_find(r);
    char text[RN_FORMAT_U64_MAX];

    (void)data;
    if (!context || !context->counted)
        return give_nothing(v);
    return give(r, v,
                (struct rn_slice){text, (size_t)(rn_format_u64(text, context->remaining) - text)});
}

static ngx_int_t get_ban_level(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
    const struct rn_ngx_context *context = rn_ngx_context_find(r);
    char text[RN_FORMAT_U64_MAX];

    (void)data;
    if (!context || context->ban_level == 0)
        return give_nothing(v);
    return give(r, v,
                (struct rn_slice){text, (size_t)(rn_format_u64(text, context->ban_level) - text)});
}

/* `data`: whether that in line. */
static ngx_int_t get_time(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
    const struct rn_ngx_context *context = rn_ngx_context_find(r);
    u_char text[NGX_INT64_LEN + 5];
    ngx_msec_t ms;

    if (!context)
        return give_nothing(v);
    ms = rn_ngx_milliseconds(data ? context->waited_ns : context->delay_ns);
    u_char *end = ngx_snprintf(text, sizeof text, "%M.%03M", ms / 1000, ms % 1000);

    return give(r, v, (struct rn_slice){(char *)text, (size_t)(end - text)});
}

static ngx_int_t get_source(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
    const struct rn_ngx_context *context = rn_ngx_context_find(r);

    (void)data;
    if (!context || context->verdict == RN_NGX_FAILED)
        return give_nothing(v);
    return give(r, v, rn_slice_of(context->question == RN_NGX_ANSWERED ? "rationd" : "zone"));
}

/* `data`: whether of places. */
static ngx_int_t get_status(ngx_http_request_t *r, ngx_http_variable_value_t *v, uintptr_t data)
{
    static const char *const words[] = {
        [RN_NGX_STATUS_PASSED] = "PASSED",
        [RN_NGX_STATUS_DELAYED_DRY_RUN] = "DELAYED_DRY_RUN",
        [RN_NGX_STATUS_REJECTED_DRY_RUN] = "REJECTED_DRY_RUN",
        [RN_NGX_STATUS_DELAYED] = "DELAYED",
        [RN_NGX_STATUS_REJECTED] = "REJECTED",
    };
    const struct rn_ngx_context *context = rn_ngx_context_find(r);
    enum rn_ngx_status status = RN_NGX_STATUS_NONE;

    if (context)
        status = data ? context->concurrency_status : context->rate_status;
    return status == RN_NGX_STATUS_NONE ? give_nothing(v) : give(r, v, rn_slice_of(words[status]));
}

ngx_int_t rn_ngx_variables_add(ngx_conf_t *cf)
{
    static struct {
        ngx_str_t name;
        ngx_http_get_variable_pt get;
        uintptr_t data;
    } all[] = {
        {ngx_string("ration_verdict"), get_verdict, 0},
        {ngx_string("ration_rule"), get_rule, 0},
        {ngx_string("ration_remaining"), get_remaining, 0},
        {ngx_string("ration_delay"), get_time, false},
        {ngx_string("ration_waited"), get_time, true},
        {ngx_string("ration_ban_level"), get_ban_level, 0},
        {ngx_string("ration_source"), get_source, 0},
        {ngx_string("ration_rate_status"), get_status, false},
        {ngx_string("ration_concurrency_status"), get_status, true},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ngx_http_variable_t *variable =
            ngx_http_add_variable(cf, &all[i].name, NGX_HTTP_VAR_NOCACHEABLE);

        if (!variable)
            return NGX_ERROR;
        variable->get_handler = all[i].get;
        variable->data = all[i].data;
    }
    return NGX_OK;
}
