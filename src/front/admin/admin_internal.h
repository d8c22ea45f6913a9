/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the admin port: what its files share. All of it runs in the control thread.
 */
#ifndef RN_FRONT_ADMIN_INTERNAL_H
#define RN_FRONT_ADMIN_INTERNAL_H

#include "front/admin/params.h"
#include "front/http/conversation.h"
#include "net/log.h"
#include "wire/members.h"

/* access.c: whether this caller may use the port. False after answering. */
bool rn_admin_admit(struct rn_http_context *c);
/* The same for a change, on any port that speaks HTTP. In any thread. */
bool rn_admin_admit_change(struct rn_http_context *c);

/* --- reading and answering (routes.c) ------------------------------------------------------ */

/* Begins an object in ws->scratch. The members follow, then rn_admin_end sends it. */
struct rn_members rn_admin_begin(struct rn_http_context *c);
void rn_admin_end(struct rn_http_context *c, struct rn_members *m, unsigned status);
/* The same with a header, such as an ETag. */
void rn_admin_end_with(struct rn_http_context *c, struct rn_members *m, unsigned status,
                       const char *header, struct rn_slice value);

/* Reads the body into `params`, and attributes and cost into ws->params. False after answering. */
bool rn_admin_read(struct rn_http_context *c, struct rn_admin_params *params, unsigned allowed);
/* The same for the query string. */
bool rn_admin_read_query(struct rn_http_context *c, struct rn_admin_params *params,
                         unsigned allowed);
/* Answers that an escape in the query string is wrong. Returns false. */
bool rn_admin_refuse_escape(struct rn_http_context *c);

/* The request of ws->params. */
struct ration_request rn_admin_request(const struct rn_http_context *c);

/* Whether there is a rule of this name. False after answering 404, with the name that was
 * probably meant. */
bool rn_admin_find_rule(struct rn_http_context *c, struct rn_slice rule);

/* --- log lines (audit_log.c) ---------------------------------------------------------------- */

/* A change is one line in the log: its author, its client, what changed.
 *
 *     rn_admin_log(c, "state.reset", RN_LOG_TEXT("rule", rule)); */
struct rn_author rn_admin_author(const struct rn_http_context *c);
#define rn_admin_log(c, event, ...)                                                                \
    rn_log(RN_LOG_INFO, event, RN_LOG_AUTHOR(rn_admin_author(c)), __VA_ARGS__)
/* The same for a change that must not be left out of the log. */
#define rn_admin_log_record(c, event, ...)                                                         \
    rn_log(RN_LOG_RECORD, event, RN_LOG_AUTHOR(rn_admin_author(c)), __VA_ARGS__)
/* The attributes of ws->params for a log line, as much of them as front->log_keys allows:
 * ip=192.0.2.7 api_key=sk_l... The text is in ws->scratch: log first, then answer. */
struct rn_slice rn_admin_client(struct rn_http_context *c);
/* As much of one value as `keys` allows. */
void rn_admin_put_value(struct rn_buf *out, enum rn_log_keys keys, struct rn_slice name,
                        struct rn_slice value);

/* --- the routes --------------------------------------------------------------------------- */

/* status.c */
void rn_admin_health(struct rn_http_context *c);
void rn_admin_ready(struct rn_http_context *c);
void rn_admin_status(struct rn_http_context *c);
void rn_admin_top(struct rn_http_context *c);
void rn_admin_get_shadow(struct rn_http_context *c);
void rn_admin_put_shadow(struct rn_http_context *c);

/* metrics.c, and a part of the page in metrics_rules.c */
void rn_admin_metrics(struct rn_http_context *c);
void rn_admin_metrics_put_rules(struct rn_buf *out, struct rn_front *front);

/* rules.c */
void rn_admin_get_rules(struct rn_http_context *c);
void rn_admin_put_rules(struct rn_http_context *c);
void rn_admin_delete_rules(struct rn_http_context *c);
void rn_admin_validate(struct rn_http_context *c);
void rn_admin_reload(struct rn_http_context *c);

/* state.c */
void rn_admin_explain(struct rn_http_context *c);
void rn_admin_get_state(struct rn_http_context *c);
void rn_admin_reset(struct rn_http_context *c);
void rn_admin_adjust(struct rn_http_context *c);
/* Answers why the state of a client under `rule` (data NULL: all that apply) could not be changed.
 */
void rn_admin_fail_state(struct rn_http_context *c, int code, struct rn_slice rule);

/* signals.c */
void rn_admin_put_signal(struct rn_http_context *c);
void rn_admin_get_signals(struct rn_http_context *c);
void rn_admin_metrics_put_signals(struct rn_buf *out, struct rn_front *front);

/* usage.c */
void rn_admin_get_usage(struct rn_http_context *c);
void rn_admin_metrics_put_usage(struct rn_buf *out, struct rn_front *front);

/* corrections.c */
void rn_admin_correct_usage(struct rn_http_context *c);
/* Whether a rule counts usage. False after answering that there is no such rule, or that this one
 * does not. */
bool rn_admin_usage_rule(struct rn_http_context *c, struct rn_slice rule);
/* Answers with the error of a question about usage. */
void rn_admin_usage_fail(struct rn_http_context *c, int code, struct rn_slice rule,
                         const struct ration_error *error);

/* reputation.c */
void rn_admin_get_reputation(struct rn_http_context *c);
void rn_admin_lift(struct rn_http_context *c);
/* A member `key`, of any bytes. Readers of JSON refuse a NUL: it is written as U+FFFD, as are bytes
 * that are not UTF-8. */
void rn_admin_put_key(struct rn_members *m, struct rn_slice key);
/* A member `banned_for`, if the rule bans the client with this hash. */
void rn_admin_put_ban_of(struct rn_members *m, struct ration *r, struct rn_slice rule,
                         uint64_t hash);
void rn_admin_metrics_put_reputation(struct rn_buf *out, struct rn_front *front);

/* clients.c */
void rn_admin_get_overrides(struct rn_http_context *c);
void rn_admin_put_override(struct rn_http_context *c);
void rn_admin_delete_override(struct rn_http_context *c);
void rn_admin_get_bans(struct rn_http_context *c);
void rn_admin_put_ban(struct rn_http_context *c);
void rn_admin_delete_ban(struct rn_http_context *c);

#endif
