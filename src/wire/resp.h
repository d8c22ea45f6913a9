/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of the Redis protocol: parses commands (arrays of bulk strings, or inline) and
 * writes replies of RESP2 and RESP3. Parsing allocates and copies nothing.
 */
#ifndef RN_WIRE_RESP_H
#define RN_WIRE_RESP_H

#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "wire/parse.h"

#define RN_RESP_ARGS_MAX 320             /* arguments of a command */
#define RN_RESP_ATTRIBUTES_MAX 128       /* attributes of a request that rules decide */
#define RN_RESP_BULK_MAX (64 * 1024)     /* bytes of an argument */
#define RN_RESP_INLINE_MAX (16 * 1024)   /* bytes of an inline command */
#define RN_RESP_COMMAND_MAX (256 * 1024) /* bytes of a whole command */

/* One command; the arguments point into the data. */
struct rn_resp_command {
    uint32_t argc;       /* 0: an empty line or array; skip it */
    char error_text[28]; /* private: room for an error that quotes a byte */
    size_t bytes;        /* its length on the wire */
    struct rn_slice argv[RN_RESP_ARGS_MAX];
};

/* `data` has `len` bytes from the beginning of a command. MORE sets command->bytes to the number of
 * bytes at which to call again: more than `len`. BAD sets *error to the text after "-ERR Protocol
 * error: "; it lives as long as the command. Only DONE sets the arguments. Inline arguments may be
 * quoted as in redis-cli; they are unquoted in place, so data must be writable.
 *
 * Stricter than Redis: a length is digits without a sign, leading zeros or spaces, and lines and
 * bulk strings end with CR LF. */
enum rn_parse rn_resp_parse(char *data, size_t len, struct rn_resp_command *command,
                            const char **error);

/* The bytes before and after the first argument of a command. A client that sends the same command
 * again, with another first argument, is recognized without parsing. Zeroed is none. */
struct rn_resp_template {
    uint8_t before_len, behind_len; /* before_len 0: there is none */
    char before[30], behind[64];
};

/* Keeps the template of a command that was parsed from `data`. None if the command is inline, has
 * no arguments or is too long. */
void rn_resp_keep_template(struct rn_resp_template *template, const char *data,
                           const struct rn_resp_command *command);
/* The length of the command at `data` if it is complete and follows the template; rn_resp_parse
 * would return DONE. 0: call rn_resp_parse. */
size_t rn_resp_match_template(const struct rn_resp_template *template, char *data, size_t len,
                              struct rn_slice *argument);

/* Replies. `version` is 2 or 3. */

/* +text, which must not have CR or LF. */
void rn_resp_put_simple(struct rn_buf *out, const char *text);
/* -CODE text: CR, LF and NUL in the text become spaces. */
void rn_resp_put_error(struct rn_buf *out, const char *code, struct rn_slice text);
void rn_resp_put_integer(struct rn_buf *out, int64_t n);
void rn_resp_put_bulk(struct rn_buf *out, struct rn_slice text);
void rn_resp_put_null(struct rn_buf *out, int version);
void rn_resp_put_array(struct rn_buf *out, size_t count);
/* The head of a map; in RESP2 of an array with 2 * pairs elements. */
void rn_resp_put_map(struct rn_buf *out, int version, size_t pairs);

#endif
