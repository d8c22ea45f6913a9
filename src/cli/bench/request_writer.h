/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the load generator and their answers, in RESP or HTTP/1.1. All requests come
 * from one template, in which only the digits of the key change. Answers are classified and
 * counted, never kept.
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
    enum rn_bench_command command;
    struct rn_buf request; /* template */
    struct {
        uint32_t at;    /* offset in the template */
        uint32_t digit; /* number of the digit, from the left */
    } marks[RN_BENCH_PLACES];
    uint32_t mark_count;
};

/* From --command, --limit, --keys and the attributes; `host` is for HTTP. False after an error
 * message on stderr. rn_bench_request_done in any case. */
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
    RN_BENCH_ERROR,  /* the server reports an error */
    RN_BENCH_FOREIGN /* not an answer of this protocol: give up */
};

/* Classifies the answer that starts at `data`. Sets *used to its bytes; 0 if it is not complete:
 * then give the same again, followed by what arrives next. */
enum rn_bench_result rn_bench_response_read(const struct rn_bench_request *request,
                                            const char *data, size_t len, size_t *used);

#endif
