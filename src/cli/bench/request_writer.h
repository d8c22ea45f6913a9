/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a load generator says to a server, and how it understands the answers:
 * RESP or HTTP/1.1. Requests are one template in which the digits of a key are
 * replaced; answers are only counted and classified, never kept.
 */
#ifndef RN_CLI_BENCH_REQUEST_WRITER_H
#define RN_CLI_BENCH_REQUEST_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/options.h"

enum rn_bench_command { RN_BENCH_THROTTLE, RN_BENCH_CHECK, RN_BENCH_TAKE, RN_BENCH_PING };

#define RN_BENCH_DIGITS 10 /* of a key */
#define RN_BENCH_PLACES 64 /* places of digits in a request */

struct rn_bench_request {
    bool http;
    enum rn_bench_command load;
    struct rn_buf request; /* the template */
    struct {
        uint32_t at;    /* in the template */
        uint32_t digit; /* which, from the left */
    } marks[RN_BENCH_PLACES];
    uint32_t mark_count;
};

/* From --command, --limit, --keys and the attributes; `host` is for HTTP. False
 * after saying on stderr what is wrong. rn_bench_request_done in any case. */
bool rn_bench_request_init(struct rn_bench_request *request, const struct rn_options *options,
                           bool http, const char *host);
void rn_bench_request_done(struct rn_bench_request *request);

/* Writes one request for key number `key`, request->request.len bytes. */
void rn_bench_request_write(const struct rn_bench_request *request, uint64_t key, char *out);

/* --- answers ----------------------------------------------------------------- */

enum rn_bench_result {
    RN_BENCH_MORE,    /* the answer is not complete */
    RN_BENCH_ALLOWED, /* or simply answered */
    RN_BENCH_REFUSED,
    RN_BENCH_ERROR,  /* the server objects */
    RN_BENCH_FOREIGN /* this is no answer of such a server: give up */
};

/* What is remembered within one answer. Zeroed is ready. */
struct rn_bench_response {
    uint64_t left;                /* RESP: values that are still to come. HTTP: bytes of the body */
    uint32_t index;               /* RESP: how many values have come */
    enum rn_bench_result verdict; /* MORE: not known yet */
    bool in_body;                 /* HTTP */
};

/* Takes bytes from the front and sets *used to how many; the rest must be given
 * again with what follows. */
enum rn_bench_result rn_bench_response_read(const struct rn_bench_request *request,
                                            struct rn_bench_response *listener, const char *data,
                                            size_t len, size_t *used);

#endif
