/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis protocol, the server's side: commands in (arrays of bulk strings, or
 * inline), replies of RESP2 and RESP3 out. Nothing is allocated or copied.
 */
#ifndef RN_WIRE_RESP_H
#define RN_WIRE_RESP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "wire/parse.h"

#define RN_RESP_ARGS_MAX 320             /* of a command */
#define RN_RESP_ATTRIBUTES_MAX 128       /* of a request that rules decide about */
#define RN_RESP_BULK_MAX (64 * 1024)     /* bytes of an argument */
#define RN_RESP_INLINE_MAX (16 * 1024)   /* bytes of an inline command */
#define RN_RESP_COMMAND_MAX (256 * 1024) /* bytes of a command in all */

/* One command; the arguments point into the data. */
struct rn_resp_command {
    uint32_t argc;       /* 0: an empty line or array, to be skipped */
    char error_text[28]; /* private: room for an error that quotes a byte */
    size_t bytes;        /* how long it is on the wire */
    struct rn_slice argv[RN_RESP_ARGS_MAX];
};

/* `len` bytes from the beginning of a command. MORE sets command->bytes to how
 * many bytes there must be before it is worth asking again: more than `len`. BAD
 * sets *error to what to say after "-ERR Protocol error: "; the text lives as
 * long as the command. Only DONE gives arguments. Inline arguments may be quoted
 * as redis-cli does: then they are unquoted in place, so data is writable.
 *
 * A length is digits without a sign, leading zeros or spaces, the line ends with
 * CR LF, and so does a bulk string; Redis does not look at all of these bytes. */
enum rn_parse rn_resp_parse(char *data, size_t len, struct rn_resp_command *command,
                            const char **error);

/* A command that is said over and over in the same words but for its first argument:
 * what stands before and behind that. Zeroed is none. */
struct rn_resp_refrain {
    uint8_t before_len, behind_len; /* before_len 0: there is none */
    char before[30], behind[64];
};

/* The refrain of a command that was read from `data`. None if that is inline, has no
 * arguments or longer ones. */
void rn_resp_keep_refrain(struct rn_resp_refrain *refrain, const char *data,
                          const struct rn_resp_command *command);
/* If `data` begins with that command around another argument, all of it, then
 * rn_resp_parse would say DONE, and this is how long it is. 0: it is to be parsed. */
size_t rn_resp_pass_refrain(const struct rn_resp_refrain *refrain, char *data, size_t len,
                            struct rn_slice *argument);

/* Replies. `version` is 2 or 3. */

/* +text: without CR and LF. */
void rn_resp_put_simple(struct rn_buf *out, const char *text);
/* -CODE text: CR, LF and NUL in the text become spaces. */
void rn_resp_put_error(struct rn_buf *out, const char *code, struct rn_slice text);
void rn_resp_put_integer(struct rn_buf *out, int64_t n);
void rn_resp_put_bulk(struct rn_buf *out, struct rn_slice text);
void rn_resp_put_null(struct rn_buf *out, int version);
void rn_resp_put_array(struct rn_buf *out, size_t count);
/* Of `pairs` pairs: RESP2 an array of twice as many. */
void rn_resp_put_map(struct rn_buf *out, int version, size_t pairs);

#endif
