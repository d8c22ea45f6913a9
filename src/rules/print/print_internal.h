/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by print.c, reputation.c, rule.c and signals.c. */
#ifndef RN_RULES_PRINT_PRINT_INTERNAL_H
#define RN_RULES_PRINT_PRINT_INTERNAL_H

#include "rules/print/print.h"

struct rn_printer {
    const struct rn_ruleset *ruleset;
    rn_print_sink *sink;
    void *context;
};

/* At most 511 bytes at once, so never for text from a file. */
void rn_print(struct rn_printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rn_print_quoted(struct rn_printer *p, struct rn_slice text);
/* A length of time behind the text `before`. */
void rn_print_span(struct rn_printer *p, const char *before, int64_t ns);
void rn_print_attribute(struct rn_printer *p, uint16_t number);
/* {"path": {pattern: ["/a/b"]}}: conditions on one attribute stand together. */
void rn_print_conditions(struct rn_printer *p, const struct rn_condition *conditions,
                         uint32_t count);

/* mode and apply_to_envoy. */
void rn_print_mode(struct rn_printer *p);
void rn_print_server(struct rn_printer *p);
void rn_print_paths(struct rn_printer *p);
/* The line of one attribute in its section; nothing if a request has it under its name. */
void rn_print_attribute_line(struct rn_printer *p, uint16_t number);
/* allow: or deny: */
void rn_print_lists(struct rn_printer *p, bool deny);

/* --- signals.c ---------------------------------------------------------------- */

/* The line of one signal in its section. */
void rn_print_signal_line(struct rn_printer *p, const struct rn_signal *signal);
void rn_print_signals(struct rn_printer *p);
void rn_print_adapt(struct rn_printer *p, const struct rn_rule *rule);

/* --- reputation.c -------------------------------------------------------------- */

void rn_print_reputation(struct rn_printer *p, const struct rn_rule *rule);

/* --- rule.c ------------------------------------------------------------------- */

void rn_print_rule(struct rn_printer *p, const struct rn_rule *rule);

#endif
