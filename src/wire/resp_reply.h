/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis protocol, the client's side: replies of RESP2 in. (Commands are written
 * as arrays of bulk strings: rn_resp_put_array, rn_resp_put_bulk.) Nothing is
 * allocated or copied.
 */
#ifndef RN_WIRE_RESP_REPLY_H
#define RN_WIRE_RESP_REPLY_H

#include <stdint.h>

#include "base/slice.h"
#include "wire/parse.h"

#define RN_RESP_REPLY_BYTES_MAX (64 * 1024) /* of one reply in all */
#define RN_RESP_REPLY_DEPTH_MAX 8           /* arrays within arrays */

enum rn_resp_reply_kind {
    RN_RESP_REPLY_SIMPLE,
    RN_RESP_REPLY_ERROR,
    RN_RESP_REPLY_INTEGER,
    RN_RESP_REPLY_BULK,
    RN_RESP_REPLY_NULL,
    RN_RESP_REPLY_ARRAY, /* its members follow, as values of their own */
};

struct rn_resp_reply {
    enum rn_resp_reply_kind kind;
    struct rn_slice text; /* SIMPLE, ERROR, BULK: in the data */
    int64_t number;       /* INTEGER; ARRAY: how many members */
};

/* The value that begins at data[*at]; DONE moves *at behind it. Strict: numbers
 * without spaces, plus signs or leading zeros, lines that end with CR LF. */
enum rn_parse rn_resp_reply_next(const char *data, size_t len, size_t *at,
                                 struct rn_resp_reply *value);

/* Moves *at behind a value and all of its members. BAD also if they nest too deep or
 * are too long. */
enum rn_parse rn_resp_reply_skip(const char *data, size_t len, size_t *at);

#endif
