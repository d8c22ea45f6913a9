/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON text as a tree. A member that is missing or of another type reads as empty, so that
 * answers of newer daemons do no harm.
 */
#ifndef RN_CLI_CLIENT_JSON_H
#define RN_CLI_CLIENT_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "wire/json.h"

struct rn_cli_json {
    enum rn_json_kind kind;    /* OBJECT, ARRAY, STRING, ... */
    struct rn_slice name;      /* name of a member of an object */
    struct rn_slice text;      /* value, unless it is an object or array */
    struct rn_cli_json *first; /* first member or element */
    struct rn_cli_json *next;
};

/* NULL: not JSON, or out of memory; `error` (may be NULL) says which. The tree lives in the arena;
 * its strings point into `text`, which is modified. */
struct rn_cli_json *rn_cli_json_parse(struct rn_arena *arena, char *text, size_t len,
                                      struct ration_error *error);

/* The member of that name; NULL if there is none, or `object` is NULL or not an object. */
const struct rn_cli_json *rn_cli_json_get(const struct rn_cli_json *object, const char *name);
/* The first element of a member that is an array; ->next is the next one. */
const struct rn_cli_json *rn_cli_json_list(const struct rn_cli_json *object, const char *name);

/* The text of a member; data is NULL if it is not a string. */
struct rn_slice rn_cli_json_text(const struct rn_cli_json *object, const char *name);
bool rn_cli_json_is_true(const struct rn_cli_json *object, const char *name);
/* False, and *n unchanged: not a number that fits. */
bool rn_cli_json_u64(const struct rn_cli_json *object, const char *name, uint64_t *n);
bool rn_cli_json_i64(const struct rn_cli_json *object, const char *name, int64_t *n);
/* RATION_NEVER for null; 0 if it is missing. */
int64_t rn_cli_json_seconds(const struct rn_cli_json *object, const char *name);
/* A part of 1, such as 0.5, in whole percent. 0 if it is missing. */
int rn_cli_json_percent(const struct rn_cli_json *object, const char *name);

/* Writes the tree as JSON. */
void rn_cli_json_write(struct rn_buf *out, const struct rn_cli_json *value);

#endif
