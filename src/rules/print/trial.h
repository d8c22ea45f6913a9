/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules on trial: those of a candidate that the rules in force lack, or have otherwise, beside the
 * rules in force. A rule `api` is tried as `api.trial`, in shadow mode, without what reaches beyond
 * its own counters: escalate, earn and usage. So it has counters of its own, and changes nothing
 * for a client.
 */
#ifndef RN_RULES_PRINT_TRIAL_H
#define RN_RULES_PRINT_TRIAL_H

#include "base/buf.h"
#include "rules/ruleset.h"

#define RN_TRIAL_SUFFIX ".trial"

/* Sections of the candidate that differ and are not tried. */
enum rn_trial_section {
    RN_TRIAL_MODE = 1, /* and apply_to_envoy */
    RN_TRIAL_PATHS = 2,
    RN_TRIAL_ATTRIBUTES = 4,
    RN_TRIAL_SIGNALS = 8,
    RN_TRIAL_LISTS = 16,
};

/* Names are behind each other, with a newline behind each. */
struct rn_trial {
    struct rn_buf text;             /* the rules in force and those on trial, as a file */
    struct rn_buf added;            /* the rules on trial: api.trial */
    struct rn_buf changed, removed; /* rules in force that the candidate has otherwise; lacks */
    unsigned differs;               /* RN_TRIAL_* */
};

/* Fills a zeroed `trial`. `ended` has the names of an earlier trial, each with a newline: those
 * rules are left out of `base` and of the candidate. Rules that cannot be tried are errors in the
 * report. False: there are such rules, or memory ran out. */
bool rn_trial_make(const struct rn_ruleset *base, const struct rn_ruleset *candidate,
                   struct rn_slice ended, struct rn_report *report, struct rn_trial *trial);
/* The rules in force without those of a trial, as a file. False: out of memory. */
bool rn_trial_end(const struct rn_ruleset *base, struct rn_slice ended, struct rn_buf *text);
void rn_trial_done(struct rn_trial *trial);

#endif
