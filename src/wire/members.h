/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON objects and lists, member by member: names, quotes and commas
 * fall into place.
 *
 *     struct rn_members m = {.out = out};
 *     rn_members_open(&m, NULL, '{');
 *     rn_members_text(&m, "rule", name);
 *     rn_members_close(&m, '}');
 *
 * A name is ours and needs no escaping; it is NULL inside a list and for the
 * outermost value.
 */
#ifndef RN_WIRE_MEMBERS_H
#define RN_WIRE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct rn_members {
    struct rn_buf *out;
    bool begun; /* something stands in the innermost list or object: a comma is due */
};

void rn_members_open(struct rn_members *m, const char *name, char bracket); /* '{' or '[' */
void rn_members_close(struct rn_members *m, char bracket);                  /* '}' or ']' */

/* What is not UTF-8 becomes U+FFFD. */
void rn_members_text(struct rn_members *m, const char *name, struct rn_slice text);
void rn_members_u64(struct rn_members *m, const char *name, uint64_t value);
void rn_members_bool(struct rn_members *m, const char *name, bool value);
void rn_members_null(struct rn_members *m, const char *name);
/* As rn_json_put_seconds; null for RATION_NEVER. */
void rn_members_seconds(struct rn_members *m, const char *name, int64_t ns);

/* A name that is somebody's text. */
void rn_members_text_named(struct rn_members *m, struct rn_slice name, struct rn_slice text);
/* Only the name; the caller puts one value behind it. */
void rn_members_name(struct rn_members *m, const char *name);

#endif
