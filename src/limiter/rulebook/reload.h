/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing the rules of a limiter.
 */
#ifndef RN_LIMITER_RULEBOOK_RELOAD_H
#define RN_LIMITER_RULEBOOK_RELOAD_H

#include "limiter/rulebook/book.h"
#include "rules/print/trial.h"

struct ration;
struct rn_report;
struct ration_report;

/* ration_open, with the table divided for rules that are installed next. */
int rn_limiter_open(const struct ration_options *options, const struct rn_ruleset *ruleset,
                    struct ration **out, struct ration_error *error);

/* From now on wall time is the time that is given with each decision: for a limiter that decides on
 * the time of a log. Call it before the first decision. */
void rn_limiter_detach_clock(struct ration *r);

/* How many live keys fit, whatever their limits, before any is evicted. */
uint64_t rn_limiter_capacity(const struct ration *r);

/* Whether the section server: of the rules in force has secrets of the daemon. */
bool rn_limiter_has_secrets(struct ration *r);

/* Sets it for the limits given at open and these rules (may be NULL). */
void rn_limiter_set_capacity(struct ration *r, const struct rn_ruleset *ruleset);

/* Whether these files could be installed; reports what is wrong with them and changes nothing. 0,
 * RATION_EPARSE or RATION_ENOMEM; the report is as of ration_rules_load. */
int rn_reload_try(struct ration *r, const char *const *paths, size_t count,
                  struct ration_report **report);

/* ration_rules_validate; on success *count is the number of rules. */
int rn_reload_validate(const char *name, struct rn_slice text, struct ration_report **report,
                       uint32_t *count);

/* Makes rules of which those of the text that are new or differ are on trial, beside those in
 * force; see rules/print/trial.h. Changes nothing. 0; RATION_EPARSE: the report says what is wrong;
 * or RATION_ENOMEM. */
int rn_reload_make_trial(struct ration *r, const char *name, struct rn_slice text,
                         struct rn_slice ended, struct rn_trial *trial,
                         struct ration_report **report);
/* The rules in force without those of a trial. 0 or RATION_ENOMEM. */
int rn_reload_without_trial(struct ration *r, struct rn_slice ended, struct rn_buf *text);

/* Installs a ruleset at a time of the caller's and takes it, also if that fails: then `error` says
 * why, and the current rules stay. May wait. On success error->text may hold a notice. */
int rn_reload_install(struct ration *r, struct rn_ruleset *ruleset, int64_t now_ns,
                      struct ration_error *error);

#endif
