/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the HTTP port's files: what they share.
 */
#ifndef RN_FRONT_HTTP_INTERNAL_H
#define RN_FRONT_HTTP_INTERNAL_H

#include "front/http/conversation.h"

/* Decides on ws->params and answers. */
void rn_front_http_decide(struct rn_http_context *c, enum rn_verb verb);
/* Answers that there is no decision: with 400 if what was asked is wrong, else with `status`. */
void rn_front_http_fail(struct rn_http_context *c, int code, unsigned status,
                        const struct ration_error *error);
bool rn_front_http_wants_problem(const struct rn_http_request *request);

/* auth.c */
void rn_front_http_auth(struct rn_http_context *c);

/* rls.c */
void rn_front_http_rls(struct rn_http_context *c);

/* lease.c */
void rn_front_http_reserve(struct rn_http_context *c);
void rn_front_http_commit(struct rn_http_context *c);
void rn_front_http_refund(struct rn_http_context *c);
void rn_front_http_acquire(struct rn_http_context *c);
void rn_front_http_renew(struct rn_http_context *c);
void rn_front_http_release(struct rn_http_context *c);
void rn_front_http_charge(struct rn_http_context *c);

#endif
