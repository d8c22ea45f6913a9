/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of paper: front's own code runs on bytes from memory, without room net. What the
 * kernel and the event loop take is left to bench_server.py.
 */
#ifndef BENCH_PAPER_H
#define BENCH_PAPER_H

#include <ration/rules.h>

#include "base/buf.h"
#include "base/slice.h"

struct rn_front;
struct rn_protocol;

/* Instructions from bytes to bytes of one wake-up in which `bytes` arrive, the mean of `repeat`.
 * `bytes` must be whole commands that are answered at once. */
double paper_steps(struct rn_front *front, const struct rn_protocol *protocol,
                   struct rn_slice bytes, unsigned repeat);

/* Append one command. Values must be free of quotes and backslashes. */
void paper_put_resp_check(struct rn_buf *bytes, const struct ration_request *request);
void paper_put_http_check(struct rn_buf *bytes, const struct ration_request *request);
void paper_put_http_post(struct rn_buf *bytes, const char *path, const char *body);

#endif
