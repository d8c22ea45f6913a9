/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP client: one request at a time on one connection, each with a deadline. Prints nothing;
 * `problem` has the error.
 */
#ifndef RN_CLI_CLIENT_HTTP_H
#define RN_CLI_CLIENT_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/client/endpoint.h"

#define RN_CLI_HTTP_BODY_MAX (64 << 20)

struct rn_cli_http {
    const struct rn_endpoint *endpoint; /* Borrowed */
    const char *token;                  /* NULL: none. Borrowed */
    int64_t timeout_ns;                 /* for a whole request, including the connect */
    struct rn_endpoint_deadline until;  /* wake_fd may be set */

    bool unreachable;                  /* the last request failed: no server listens there */
    char problem[RN_ENDPOINT_PROBLEM]; /* of the last failed request: a sentence without newline */

    struct rn_stream stream; /* private from here on */
    struct rn_buf out, in;
};

struct rn_cli_http_request {
    const char *method, *target;
    struct rn_slice body; /* data NULL: none */
    const char *accept;   /* a media type; NULL: JSON */
    const char *if_match; /* a version; NULL: any */
};

struct rn_cli_http_response {
    unsigned status;
    char type[64]; /* Content-Type, cut to fit; empty: none */
    char *body;    /* valid until the next request; writable */
    size_t body_len;
};

/* Fill in the endpoint before the first request. */
void rn_cli_http_init(struct rn_cli_http *http);
void rn_cli_http_done(struct rn_cli_http *http);
bool rn_cli_http_ask(struct rn_cli_http *http, const struct rn_cli_http_request *request,
                     struct rn_cli_http_response *answer);
/* Writes `problem`. Returns false. */
bool rn_cli_http_fail(struct rn_cli_http *http, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Escapes a name or value of a query: everything but letters, digits and - . _ ~ as %41. */
void rn_cli_http_put_escaped(struct rn_buf *out, struct rn_slice text);

#endif
