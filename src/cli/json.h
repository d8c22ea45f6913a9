/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs read: one JSON value on a stream, indented. Names are ours and
 * need no escaping; inside a list they are NULL.
 */
#ifndef RN_CLI_JSON_H
#define RN_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/slice.h"

struct rn_json {
    FILE *file;
    int depth;
    bool first; /* nothing stands in the innermost list or object yet */
};

#define RN_JSON_TO(stream)                                                                         \
    (struct rn_json)                                                                               \
    {                                                                                              \
        .file = (stream), .first = true                                                            \
    }

void rn_json_open(struct rn_json *json, const char *name, char bracket); /* '{' or '[' */
void rn_json_close(struct rn_json *json, char bracket);                  /* '}' or ']' */
/* Bytes that are not UTF-8 become U+FFFD. */
void rn_json_text(struct rn_json *json, const char *name, struct rn_slice text);
void rn_json_uint(struct rn_json *json, const char *name, uint64_t value);
void rn_json_bool(struct rn_json *json, const char *name, bool value);
void rn_json_null(struct rn_json *json, const char *name);
/* Seconds as a decimal; null for RATION_NEVER. */
void rn_json_seconds(struct rn_json *json, const char *name, int64_t ns);

#endif
