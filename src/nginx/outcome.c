/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How admitted requests ended, for signals about their rules (`source: latency` and `status`). The
 * time is that of the upstream if there was one: a slow client is not a slow service.
 */
#include <ration/signals.h>

#include "nginx/module.h"

struct rn_ngx_outcome {
    uint32_t count;
    char rules[][RATION_NAME_SIZE];
};

struct rn_ngx_outcome *rn_ngx_outcome_note(struct rn_ngx_context *context,
                                           const struct ration_outcome *outcome)
{
    struct rn_ngx_outcome *noted = ngx_palloc(
        context->request->pool, sizeof *noted + outcome->listed * sizeof noted->rules[0]);

    if (!noted)
        return NULL;
    noted->count = 0;
    for (uint32_t i = 0; i < outcome->listed; i++) {
        const char *rule = outcome->limits[i].rule;

        /* The limits of one rule stand together. */
        if (noted->count == 0 || strcmp(noted->rules[noted->count - 1], rule) != 0)
            memcpy(noted->rules[noted->count++], rule, sizeof noted->rules[0]);
    }
    return noted;
}

static int64_t duration_ns(ngx_http_request_t *r)
{
    const ngx_time_t *now = ngx_timeofday();
    int64_t ms = (now->sec - r->start_sec) * 1000 + (int64_t)now->msec - (int64_t)r->start_msec;

    if (r->upstream_states && r->upstream_states->nelts != 0) {
        const ngx_http_upstream_state_t *states = r->upstream_states->elts;

        ms = 0;
        for (ngx_uint_t i = 0; i < r->upstream_states->nelts; i++)
            if (states[i].response_time != (ngx_msec_t)-1)
                ms += (int64_t)states[i].response_time;
    }
    return (ms > 0 ? ms : 0) * 1000000;
}

void rn_ngx_outcome_tell(struct rn_ngx_context *context, const struct rn_ngx_outcome *noted,
                         ngx_uint_t status)
{
    int64_t took_ns = duration_ns(context->request);

    for (uint32_t i = 0; i < noted->count; i++)
        (void)ration_signal_outcome(context->worker->limiter, noted->rules[i],
                                    strlen(noted->rules[i]), (unsigned)status, took_ns, RATION_NOW);
}
