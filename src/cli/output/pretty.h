/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes one indented JSON value to a stream. Names are constants that need no escaping; inside
 * a list they are NULL.
 */
#ifndef RN_CLI_OUTPUT_PRETTY_H
#define RN_CLI_OUTPUT_PRETTY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/slice.h"

struct rn_pretty {
    FILE *file;
    int depth;
    bool first; /* the innermost list or object is empty so far */
};

#define RN_PRETTY_TO(stream)                                                                       \
    (struct rn_pretty)                                                                             \
    {                                                                                              \
        .file = (stream), .first = true                                                            \
    }

void rn_pretty_open(struct rn_pretty *json, const char *name, char bracket); /* '{' or '[' */
void rn_pretty_close(struct rn_pretty *json, char bracket);                  /* '}' or ']' */
/* Bytes that are not UTF-8 become U+FFFD. */
void rn_pretty_text(struct rn_pretty *json, const char *name, struct rn_slice text);
void rn_pretty_uint(struct rn_pretty *json, const char *name, uint64_t value);
/* Up to three decimals. */
void rn_pretty_number(struct rn_pretty *json, const char *name, double value);
void rn_pretty_bool(struct rn_pretty *json, const char *name, bool value);
void rn_pretty_null(struct rn_pretty *json, const char *name);
/* Seconds as a decimal; null for RATION_NEVER. */
void rn_pretty_seconds(struct rn_pretty *json, const char *name, int64_t ns);

#endif
