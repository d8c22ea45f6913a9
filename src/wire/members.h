/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON objects and arrays member by member, with names, quotes and commas.
 *
 *     struct rn_members m = {.out = out};
 *     rn_members_open(&m, NULL, '{');
 *     rn_members_text(&m, "rule", name);
 *     rn_members_close(&m, '}');
 *
 * A name is a constant that needs no escaping; it is NULL inside an array and for the outermost
 * value.
 */
#ifndef RN_WIRE_MEMBERS_H
#define RN_WIRE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct rn_members {
    struct rn_buf *out;
    bool begun; /* the innermost array or object has a member: a comma comes next */
};

void rn_members_open(struct rn_members *m, const char *name, char bracket); /* '{' or '[' */
void rn_members_close(struct rn_members *m, char bracket);                  /* '}' or ']' */

/* Bytes that are not UTF-8 become U+FFFD. */
void rn_members_text(struct rn_members *m, const char *name, struct rn_slice text);
void rn_members_u64(struct rn_members *m, const char *name, uint64_t value);
void rn_members_bool(struct rn_members *m, const char *name, bool value);
void rn_members_null(struct rn_members *m, const char *name);
/* As rn_json_put_seconds; null for RATION_NEVER. */
void rn_members_seconds(struct rn_members *m, const char *name, int64_t ns);

/* For a name that is not a constant: it is escaped. */
void rn_members_text_named(struct rn_members *m, struct rn_slice name, struct rn_slice text);
/* Writes only the name; the caller writes one value after it. */
void rn_members_name(struct rn_members *m, const char *name);

#endif
