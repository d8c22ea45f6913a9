/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the admin port: what its files share. All of it runs in the control thread.
 */
#ifndef RN_FRONT_ADMIN_INTERNAL_H
#define RN_FRONT_ADMIN_INTERNAL_H

#include "front/admin/params.h"
#include "front/http/conversation.h"
#include "net/log.h"
#include "rules/report/report.h"
#include "wire/members.h"

/* access.c: whether this caller may use the port. False after answering. */
bool rn_admin_admit(struct rn_http_context *c);
void rn_admin_whoami(struct rn_http_context *c);
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

/* dashboard.c */
void rn_admin_get_page(struct rn_http_context *c);
void rn_admin_get_page_file(struct rn_http_context *c);

/* status.c */
void rn_admin_health(struct rn_http_context *c);
void rn_admin_ready(struct rn_http_context *c);
void rn_admin_status(struct rn_http_context *c);
void rn_admin_top(struct rn_http_context *c);
/* A member `last`: when a key was refused last, if it is among the top keys. */
void rn_admin_put_last(struct rn_members *m, struct ration *r, uint64_t hash);
/* A time as 2026-11-19T12:00:00Z. */
void rn_admin_put_time(struct rn_members *m, const char *name, int64_t unix_ns);
void rn_admin_get_shadow(struct rn_http_context *c);
void rn_admin_put_shadow(struct rn_http_context *c);

/* metrics.c, and a part of the page in metrics_rules.c */
void rn_admin_metrics(struct rn_http_context *c);
/* `each`: also the metrics of single rules, here and below. */
void rn_admin_metrics_put_rules(struct rn_buf *out, struct rn_front *front, bool each);

/* overview.c */
void rn_admin_get_history(struct rn_http_context *c);
void rn_admin_get_activity(struct rn_http_context *c);

/* live.c */
void rn_admin_get_live(struct rn_http_context *c);
void rn_admin_metrics_put_live(struct rn_buf *out, const struct rn_front *front);

/* rules.c */
/* The members of a rule that say what it is. */
void rn_admin_put_rule_info(struct rn_members *m, const struct ration_rule_info *info);
void rn_admin_get_rules(struct rn_http_context *c);
void rn_admin_get_schema(struct rn_http_context *c);
void rn_admin_validate(struct rn_http_context *c);
/* False after answering that If-Match is for another version. */
bool rn_admin_rules_are_current(struct rn_http_context *c);
/* Whether the body has rules. False after answering. */
bool rn_admin_has_rules(struct rn_http_context *c);
/* ?name=FILE: the name of the text in messages; a longer one is cut. False after answering. */
#define RN_ADMIN_RULES_NAME 256
bool rn_admin_read_name(struct rn_http_context *c, char out[RN_ADMIN_RULES_NAME]);
/* Answers why rules are not in force: with the report, or that there is no memory. */
void rn_admin_answer_bad_rules(struct rn_http_context *c, int code,
                               const struct ration_report *report);
/* Begins the answer that rules are in force, and ends it with their ETag. */
struct rn_members rn_admin_begin_loaded(struct rn_http_context *c,
                                        const struct ration_report *report);
void rn_admin_end_loaded(struct rn_http_context *c, struct rn_members *m);

/* The rules in force for readers, who must see no secret. */
struct rn_rules_text {
    struct rn_slice text;
    char *printed;           /* for ration_text_free */
    struct rn_excerpt envoy; /* a file in Envoy's format, whose rules the text lacks; empty: none */
};
/* Whether rules in Envoy's format are in force; `file` is one that they come from. */
bool rn_admin_find_envoy(struct rn_front *front, struct rn_excerpt *file);
/* 0 or RATION_ENOMEM. */
int rn_admin_rules_text(struct rn_front *front, struct rn_rules_text *out);

/* rule_changes.c */
void rn_admin_put_rules(struct rn_http_context *c);
void rn_admin_delete_rules(struct rn_http_context *c);
void rn_admin_reload(struct rn_http_context *c);
/* A text that an operator puts in the place of the rules. */
struct rn_rules_change {
    const char *name; /* in messages */
    struct rn_slice text;
    enum rn_version_how how;
    uint64_t of;          /* the version that a rollback goes back to */
    struct rn_slice note; /* for the answer; may be empty */
    void (*put_more)(struct rn_members *m, void *arg); /* members of the answer; or NULL */
    void *arg;
};
/* Puts the text in force, keeps it, and answers. False: the former rules stay. */
bool rn_admin_change_rules(struct rn_http_context *c, const struct rn_rules_change *change);
/* Goes back to the files, on all nodes that share, and answers. False: the former rules stay. */
bool rn_admin_use_files(struct rn_http_context *c, enum rn_version_how how);

/* trial.c */
void rn_admin_begin_trial(struct rn_http_context *c);
void rn_admin_end_trial(struct rn_http_context *c);
/* True after answering that the text is that of a trial, and not as it was begun. */
bool rn_admin_refuse_changed_trial(struct rn_http_context *c, struct rn_slice text);
/* A member `trial`; null if no rules are on trial. */
void rn_admin_put_trial(struct rn_members *m, const struct rn_front *front);

/* versions.c */
void rn_admin_get_versions(struct rn_http_context *c);
void rn_admin_get_version(struct rn_http_context *c);
void rn_admin_rollback(struct rn_http_context *c);

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
void rn_admin_metrics_put_signals(struct rn_buf *out, struct rn_front *front, bool each);

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
/* A member, `key` or, as an element of a list, NULL, of any bytes. Readers of JSON refuse a NUL: it
 * is written as U+FFFD, as are bytes that are not UTF-8. */
void rn_admin_put_key(struct rn_members *m, const char *name, struct rn_slice key);
/* A member `banned_for`, if the rule bans the client with this hash. */
void rn_admin_put_ban_of(struct rn_members *m, struct ration *r, struct rn_slice rule,
                         uint64_t hash);
void rn_admin_metrics_put_reputation(struct rn_buf *out, struct rn_front *front);

/* report.c */
void rn_admin_get_report(struct rn_http_context *c);

/* clients.c */
void rn_admin_get_overrides(struct rn_http_context *c);
void rn_admin_put_override(struct rn_http_context *c);
void rn_admin_delete_override(struct rn_http_context *c);
void rn_admin_get_bans(struct rn_http_context *c);
void rn_admin_put_ban(struct rn_http_context *c);
void rn_admin_delete_ban(struct rn_http_context *c);

#endif
