/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON (RFC 8259), strictly: a reader that is asked for one token after the
 * other and allocates nothing, and a writer.
 *
 * Refused besides what is no JSON: text that is not UTF-8, lone surrogates, NUL
 * in a string, more than RN_JSON_DEPTH levels, anything behind the value. Names
 * that occur twice in an object are for whoever reads the object to refuse.
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
    RN_JSON_BAD,    /* and stays so; see the reader's error */
    RN_JSON_END,    /* of the object or array, or of the whole text */
    RN_JSON_OBJECT, /* tokens of its members follow, then END */
    RN_JSON_ARRAY,
    RN_JSON_STRING,
    RN_JSON_NUMBER,
    RN_JSON_TRUE,
    RN_JSON_FALSE,
    RN_JSON_NULL,
};

struct rn_json_token {
    enum rn_json_kind kind;
    struct rn_slice name; /* of a member of an object */
    struct rn_slice text; /* STRING: unescaped; NUMBER, TRUE, FALSE, NULL: as written */
    size_t at, name_at;   /* where it and its name stand */
};

struct rn_json {
    char *text, *at, *end; /* private from here on, but `error` */
    size_t line_breaks;    /* that unescaping has put into the text */
    uint32_t objects;      /* bit n: level n + 1 is an object, not an array */
    uint8_t depth;
    bool begun;                /* the innermost has had a member, the text its value */
    struct ration_error error; /* BAD: position and what was found; else code 0 */
};

/* Strings are unescaped in place: the text must be writable and lives as long as
 * the tokens. */
void rn_json_init(struct rn_json *json, char *text, size_t len);
enum rn_json_kind rn_json_read(struct rn_json *json, struct rn_json_token *token);
static inline struct rn_json_token rn_json_next(struct rn_json *json)
{
    struct rn_json_token token;

    rn_json_read(json, &token);
    return token;
}
/* Passes over the rest of the object or array that `token` began, up to and with
 * its END; nothing for others. False: BAD. */
bool rn_json_skip(struct rn_json *json, const struct rn_json_token *token);
/* The caller's own objection to a token (its `at`, or `name_at`): BAD from now on.
 * The first objection stands. The error gets the code RATION_EINVAL, line and
 * column (in bytes), and in front of its text "column C: ", or "line L column C: "
 * if the text has several lines. Returns RATION_EINVAL. */
int rn_json_object_to(struct rn_json *json, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Values of tokens; false: no number, a fraction or an exponent, or out of range. */
bool rn_json_u64(const struct rn_json_token *token, uint64_t *value);
bool rn_json_i64(const struct rn_json_token *token, int64_t *value);
/* Seconds (12, 0.25, 1e-3) as ns, rounded to the nearest; false: no number, below 0 or
 * beyond 2^62 ns. */
bool rn_json_seconds(const struct rn_json_token *token, int64_t *ns);

/* Writing: the caller puts the punctuation. A string in quotes; what is not UTF-8
 * becomes U+FFFD. */
void rn_json_put_string(struct rn_buf *out, struct rn_slice text);
/* At most three digits behind the point, rounded up: 0.6, 12, 59.999. Below 0: 0. */
void rn_json_put_seconds(struct rn_buf *out, int64_t ns);

#endif
