/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that cannot go on yet, for an answer or a turn is to come: it holds no
 * worker, and until it is resumed only the end of its connection matters.
 */
#include "nginx/module.h"

ngx_int_t rn_ngx_pause(struct rn_ngx_context *context)
{
    ngx_http_request_t *r = context->request;

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    return NGX_AGAIN;
}

void rn_ngx_resume(struct rn_ngx_context *context)
{
    ngx_http_request_t *r = context->request;
    ngx_connection_t *connection = r->connection;

    ngx_http_set_log_request(connection->log, r);
    if (ngx_handle_read_event(connection->read, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    } else {
        r->read_event_handler = ngx_http_block_reading;
        r->write_event_handler = ngx_http_core_run_phases;
        ngx_http_core_run_phases(r);
    }
    ngx_http_run_posted_requests(connection);
}
