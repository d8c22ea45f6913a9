/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /json: Envoy's rate limit service for those who have no gRPC at hand. A
 * place in a queue is taken at once; nothing is held.
 */
#include "front/admin/admin_internal.h"
#include "front/http/http_internal.h"

static bool gives_back(const struct ration_descriptors *request)
{
    for (size_t i = 0; i < request->count; i++)
        if (request->asks[i].refund)
            return true;
    return false;
}

void rn_front_http_rls(struct rn_http_context *c)
{
    struct rn_rls_reader *reader = &c->ws->rls;
    struct ration_descriptors_outcome *outcome = &c->ws->rls_outcome;
    struct rn_slice body = c->request->body;
    struct rn_buf *out = &c->ws->scratch;
    struct ration_error error;
    int code = rn_rls_read_json(reader, (char *)body.data, body.len, &error);

    if (code != 0) {
        rn_front_http_error(c, 400, "bad_request", "%s", error.text);
        return;
    }
    if (gives_back(&reader->request) && !rn_admin_admit_change(c))
        return;
    rn_front_set_rls(c->front, reader);
    code = ration_decide_descriptors(c->front->limiter, &reader->request, RATION_NOW, outcome);
    if (code == RATION_EINVAL) {
        rn_front_http_error(c, 400, "bad_request", "more descriptors than can be decided");
    } else if (code != 0) {
        rn_front_count(&c->ws->counts->failed[RN_FRONT_HTTP], 1);
        rn_front_http_error(c, 500, "store", "no decision could be made: %s",
                            ration_error_text(code));
    } else {
        rn_buf_clear(out);
        rn_rls_write_json(out, reader, outcome, &c->front->rls);
        rn_buf_put_char(out, '\n');
        rn_front_http_json(c, outcome->allowed ? 200 : 429, rn_buf_slice(out));
    }
}
