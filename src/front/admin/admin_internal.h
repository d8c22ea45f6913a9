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
bool rn_admin_admit(struct rn_exchange *x);
/* The same of a change, on whichever port that speaks HTTP. In any thread. */
bool rn_admin_admit_change(struct rn_exchange *x);

/* --- answers (admin.c) -------------------------------------------------------------------- */

/* An object in desk->scratch; the members follow, then rn_admin_end sends it. */
struct rn_members rn_admin_begin(struct rn_exchange *x);
void rn_admin_end(struct rn_exchange *x, struct rn_members *m, unsigned status);
/* The same with a line of header, such as an ETag. */
void rn_admin_end_with(struct rn_exchange *x, struct rn_members *m, unsigned status,
                       const char *header, struct rn_slice value);

/* The body's members into `change` and desk->params. False after answering. */
bool rn_admin_read(struct rn_exchange *x, struct rn_admin_params *params, unsigned members);
/* The query string's: attributes into desk->params, and what else is known into `change`. */
bool rn_admin_read_query(struct rn_exchange *x, struct rn_admin_params *params, unsigned members);

/* The request of desk->params. */
struct ration_request rn_admin_request(const struct rn_exchange *x);

/* 404, with the name that was probably meant. */
void rn_admin_refuse_rule(struct rn_exchange *x, struct rn_slice rule);
/* Whether there is a rule of this name; else it has answered. */
bool rn_admin_know_rule(struct rn_exchange *x, struct rn_slice rule);

/* --- log lines (admin_log.c) -------------------------------------------------------------- */

/* A change is one line in the log: who made it, to whom, what.
 *
 *     rn_admin_log(x, "state.reset", RN_LOG_TEXT("rule", rule)); */
struct rn_author rn_admin_author(const struct rn_exchange *x);
#define rn_admin_log(x, event, ...)                                                                \
    rn_log(RN_LOG_INFO, event, RN_LOG_AUTHOR(rn_admin_author(x)), __VA_ARGS__)
/* The attributes of desk->params for a log line, as much of them as front->log_keys
 * lets: ip=192.0.2.7 api_key=sk_l... Lies in desk->scratch: log first, then answer. */
struct rn_slice rn_admin_client(struct rn_exchange *x);

/* --- the routes --------------------------------------------------------------------------- */

/* admin_status.c */
void rn_admin_health(struct rn_exchange *x);
void rn_admin_ready(struct rn_exchange *x);
void rn_admin_status(struct rn_exchange *x);
void rn_admin_top(struct rn_exchange *x);
void rn_admin_get_shadow(struct rn_exchange *x);
void rn_admin_put_shadow(struct rn_exchange *x);

/* metrics.c */
void rn_admin_metrics(struct rn_exchange *x);

/* admin_rules.c */
void rn_admin_get_rules(struct rn_exchange *x);
void rn_admin_put_rules(struct rn_exchange *x);
void rn_admin_delete_rules(struct rn_exchange *x);
void rn_admin_validate(struct rn_exchange *x);
void rn_admin_reload(struct rn_exchange *x);

/* admin_explain.c */
void rn_admin_explain(struct rn_exchange *x);
void rn_admin_get_state(struct rn_exchange *x);
/* The limits of `rule` (data NULL: of all rules that apply) as they are now: a
 * member "limits". False after answering: it does not apply, ... */
bool rn_admin_put_limits(struct rn_exchange *x, struct rn_members *m, struct rn_slice rule);
/* 400: the rule does not apply to desk->params, and why. */
void rn_admin_refuse_unmatched(struct rn_exchange *x, struct rn_slice rule);

/* admin_state.c */
void rn_admin_reset(struct rn_exchange *x);
void rn_admin_adjust(struct rn_exchange *x);

/* admin_lists.c */
struct ration_override;
void rn_admin_put_client_members(struct rn_members *m, const struct ration_override *o, bool ban);
void rn_admin_get_overrides(struct rn_exchange *x);
void rn_admin_get_bans(struct rn_exchange *x);

/* admin_clients.c */
void rn_admin_put_override(struct rn_exchange *x);
void rn_admin_delete_override(struct rn_exchange *x);
void rn_admin_put_ban(struct rn_exchange *x);
void rn_admin_delete_ban(struct rn_exchange *x);

#endif
