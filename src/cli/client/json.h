/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON text as a tree, to be asked for what one needs of it. What is missing
 * or of another kind than expected reads as nothing: an answer of a newer
 * daemon, or of something else, never trips a reader.
 */
#ifndef RN_CLI_CLIENT_JSON_H
#define RN_CLI_CLIENT_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "wire/json.h"

struct rn_cli_json {
    enum rn_json_kind kind;    /* OBJECT, ARRAY, STRING, ... */
    struct rn_slice name;      /* as a member of an object */
    struct rn_slice text;      /* of what has no members */
    struct rn_cli_json *first; /* member, or element */
    struct rn_cli_json *next;
};

/* NULL: no JSON, or out of memory; then `error` (may be NULL) tells. The tree lives in the arena,
 * its texts in `text`, which is changed. */
struct rn_cli_json *rn_cli_json_parse(struct rn_arena *arena, char *text, size_t len,
                                      struct ration_error *error);

/* The member of that name; NULL if there is none, or `object` is no object, or NULL. */
const struct rn_cli_json *rn_cli_json_get(const struct rn_cli_json *object, const char *name);
/* The first element of a member that is an array; go on with ->next. */
const struct rn_cli_json *rn_cli_json_list(const struct rn_cli_json *object, const char *name);

/* Of members. Data is NULL if it is not a string. */
struct rn_slice rn_cli_json_text(const struct rn_cli_json *object, const char *name);
bool rn_cli_json_is_true(const struct rn_cli_json *object, const char *name);
/* False, and *n untouched: it is no number that fits. */
bool rn_cli_json_u64(const struct rn_cli_json *object, const char *name, uint64_t *n);
/* RATION_NEVER for null; 0 if it is missing. */
int64_t rn_cli_json_seconds(const struct rn_cli_json *object, const char *name);

/* As JSON again. */
void rn_cli_json_write(struct rn_buf *out, const struct rn_cli_json *value);

#endif
