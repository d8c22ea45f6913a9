/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the admin port's files: what they share. All of it runs in the
 * control thread.
 */
#ifndef RN_FRONT_ADMIN_INTERNAL_H
#define RN_FRONT_ADMIN_INTERNAL_H

#include "front/admin/params.h"
#include "front/http/conversation.h"
#include "net/log.h"
#include "wire/members.h"

/* admin_access.c: whether this caller may have an answer; else it has answered. */
bool rn_admin_admit(struct rn_http_context *c);
/* The same of a change, on whichever port that speaks HTTP. In any thread. */
bool rn_admin_admit_change(struct rn_http_context *c);

/* --- answers (admin.c) -------------------------------------------------------------------- */

/* An object in ws->scratch; the members follow, then rn_admin_end sends it. */
struct rn_members rn_admin_begin(struct rn_http_context *c);
void rn_admin_end(struct rn_http_context *c, struct rn_members *m, unsigned status);
/* The same with a line of header, such as an ETag. */
void rn_admin_end_with(struct rn_http_context *c, struct rn_members *m, unsigned status,
                       const char *header, struct rn_slice value);

/* The body's members into `change` and ws->params. False after answering. */
bool rn_admin_read(struct rn_http_context *c, struct rn_admin_params *params, unsigned members);
/* The query string's: attributes into ws->params, and what else is known into `change`. */
bool rn_admin_read_query(struct rn_http_context *c, struct rn_admin_params *params,
                         unsigned members);

/* The request of ws->params. */
struct ration_request rn_admin_request(const struct rn_http_context *c);

/* 404, with the name that was probably meant. */
void rn_admin_refuse_rule(struct rn_http_context *c, struct rn_slice rule);
/* Whether there is a rule of this name; else it has answered. */
bool rn_admin_know_rule(struct rn_http_context *c, struct rn_slice rule);

/* --- log lines (admin_log.c) -------------------------------------------------------------- */

/* A change is one line in the log: who made it, to whom, what.
 *
 *     rn_admin_log(c, "state.reset", RN_LOG_TEXT("rule", rule)); */
struct rn_author rn_admin_author(const struct rn_http_context *c);
#define rn_admin_log(c, event, ...)                                                                \
    rn_log(RN_LOG_INFO, event, RN_LOG_AUTHOR(rn_admin_author(c)), __VA_ARGS__)
/* The attributes of ws->params for a log line, as much of them as front->log_keys
 * lets: ip=192.0.2.7 api_key=sk_l... Lies in ws->scratch: log first, then answer. */
struct rn_slice rn_admin_client(struct rn_http_context *c);

/* --- the routes --------------------------------------------------------------------------- */

/* admin_status.c */
void rn_admin_health(struct rn_http_context *c);
void rn_admin_ready(struct rn_http_context *c);
void rn_admin_status(struct rn_http_context *c);
void rn_admin_top(struct rn_http_context *c);
void rn_admin_get_shadow(struct rn_http_context *c);
void rn_admin_put_shadow(struct rn_http_context *c);

/* metrics.c */
void rn_admin_metrics(struct rn_http_context *c);

/* admin_rules.c */
void rn_admin_get_rules(struct rn_http_context *c);
void rn_admin_put_rules(struct rn_http_context *c);
void rn_admin_delete_rules(struct rn_http_context *c);
void rn_admin_validate(struct rn_http_context *c);
void rn_admin_reload(struct rn_http_context *c);

/* admin_explain.c */
void rn_admin_explain(struct rn_http_context *c);
void rn_admin_get_state(struct rn_http_context *c);
/* The limits of `rule` (data NULL: of all rules that apply) as they are now: a
 * member "limits". False after answering: it does not apply, ... */
bool rn_admin_put_limits(struct rn_http_context *c, struct rn_members *m, struct rn_slice rule);
/* 400: the rule does not apply to ws->params, and why. */
void rn_admin_refuse_unmatched(struct rn_http_context *c, struct rn_slice rule);

/* admin_state.c */
void rn_admin_reset(struct rn_http_context *c);
void rn_admin_adjust(struct rn_http_context *c);

/* admin_lists.c */
struct ration_override;
void rn_admin_put_client_members(struct rn_members *m, const struct ration_override *o, bool ban);
void rn_admin_get_overrides(struct rn_http_context *c);
void rn_admin_get_bans(struct rn_http_context *c);

/* admin_clients.c */
void rn_admin_put_override(struct rn_http_context *c);
void rn_admin_delete_override(struct rn_http_context *c);
void rn_admin_put_ban(struct rn_http_context *c);
void rn_admin_delete_ban(struct rn_http_context *c);

#endif
