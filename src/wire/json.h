/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict reader of JSON (RFC 8259), which returns one token at a time and allocates nothing, and
 * a writer.
 *
 * The reader also refuses text that is not UTF-8, lone surrogates, NUL in a string, more than
 * RN_JSON_DEPTH levels, and anything after the value. It does not notice names that an object has
 * twice; the caller does.
 */
#ifndef RN_WIRE_JSON_H
#define RN_WIRE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <ration/error.h>

#include "base/buf.h"
#include "base/slice.h"

#define RN_JSON_DEPTH 16

enum rn_json_kind {
    RN_JSON_BAD,    /* see rn_json.error; all later tokens are BAD, too */
    RN_JSON_END,    /* end of the object or array, or of the whole text */
    RN_JSON_OBJECT, /* its members follow, then END */
    RN_JSON_ARRAY,
    RN_JSON_STRING,
    RN_JSON_NUMBER,
    RN_JSON_TRUE,
    RN_JSON_FALSE,
    RN_JSON_NULL,
};

struct rn_json_token {
    enum rn_json_kind kind;
    struct rn_slice name; /* if it is a member of an object */
    struct rn_slice text; /* STRING: unescaped; NUMBER, TRUE, FALSE, NULL: as written */
    size_t at, name_at;   /* offsets of the value and of its name */
};

struct rn_json {
    char *text, *at, *end; /* private from here on, but `error` */
    size_t line_breaks;    /* how many unescaping has put into the text */
    uint32_t objects;      /* bit n: level n + 1 is an object, not an array */
    uint8_t depth;
    bool begun;                /* the innermost level has a member, or the text its value */
    struct ration_error error; /* after BAD: position and message; else code 0 */
};

/* Strings are unescaped in place: the text must be writable and live as long as the tokens. */
void rn_json_init(struct rn_json *json, char *text, size_t len);
enum rn_json_kind rn_json_read(struct rn_json *json, struct rn_json_token *token);
static inline struct rn_json_token rn_json_next(struct rn_json *json)
{
    struct rn_json_token token;

    rn_json_read(json, &token);
    return token;
}
/* Reports an error at a token (its `at` or `name_at`): all later tokens are BAD. Only the first
 * error is kept. It gets the code RATION_EINVAL, line and column (in bytes), and its text begins
 * with "column C: ", or "line L column C: " if the JSON has several lines. Returns
 * RATION_EINVAL. */
int rn_json_object_to(struct rn_json *json, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The value of a token; false: not a number, a fraction or an exponent, or out of range. */
bool rn_json_u64(const struct rn_json_token *token, uint64_t *value);
bool rn_json_i64(const struct rn_json_token *token, int64_t *value);
/* Seconds (12, 0.25, 1e-3) as ns, rounded to the nearest; false: not a number, below 0 or above
 * 2^62 ns. */
bool rn_json_seconds(const struct rn_json_token *token, int64_t *ns);

/* Writes a string in quotes; bytes that are not UTF-8 become U+FFFD. */
void rn_json_put_string(struct rn_buf *out, struct rn_slice text);
/* At most three digits after the point, rounded up: 0.6, 12, 59.999. Below 0: 0. */
void rn_json_put_seconds(struct rn_buf *out, int64_t ns);

#endif
