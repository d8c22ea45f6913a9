/* SPDX-License-Identifier: Apache-2.0 */
/* Syntax errors of a rules file, in words for its author. */
#ifndef RN_RULES_YAML_SYNTAX_H
#define RN_RULES_YAML_SYNTAX_H

#include <stdbool.h>

#include "rules/report/report.h"

/* An error in libyaml's words; `context` (what it was doing) may
 * be NULL. */
struct rn_syntax_fault {
    const char *problem, *context;
    struct rn_place at;
    struct rn_place begun; /* where the construct began; line 0: unknown */
};

/* Reports it as an error. */
void rn_syntax_report(struct rn_report *report, const struct rn_syntax_fault *fault);

/* Whether the text of a file is UTF-8 without control characters; reports the first bad byte. Call
 * this first: libyaml reports such a place as a byte offset only. */
bool rn_syntax_check_text(struct rn_report *report, uint32_t file);

#endif
