/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to a Prometheus server, GET /api/v1/query, and its answer: one number. HTTP/1.0, so
 * that the answer ends with the connection.
 */
#ifndef RN_WIRE_PROMETHEUS_H
#define RN_WIRE_PROMETHEUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

#define RN_PROMETHEUS_ANSWER_MAX (64 * 1024)
#define RN_PROMETHEUS_PROBLEM 200

struct rn_prometheus_query {
    struct rn_slice host; /* an IPv6 address without brackets */
    uint16_t port;
    struct rn_slice path; /* before /api/v1/query */
    struct rn_slice query;
};

void rn_prometheus_put_query(struct rn_buf *out, const struct rn_prometheus_query *query);

/* Reads a whole answer, which it changes. False: `problem` says what is wrong, in a sentence
 * without a full stop. Text of the server in it is escaped and cut. */
bool rn_prometheus_read(char *answer, size_t len, double *value,
                        char problem[RN_PROMETHEUS_PROBLEM]);

#endif
