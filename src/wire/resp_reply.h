/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of the Redis protocol: parses replies of RESP2, and pushes (`>`), without
 * allocating or copying.
 * Clients write commands with rn_resp_put_array and rn_resp_put_bulk.
 */
#ifndef RN_WIRE_RESP_REPLY_H
#define RN_WIRE_RESP_REPLY_H

#include <stdint.h>

#include "base/slice.h"
#include "wire/parse.h"

#define RN_RESP_REPLY_BYTES_MAX (64 * 1024) /* of one whole reply */
#define RN_RESP_REPLY_DEPTH_MAX 8           /* arrays within arrays */

enum rn_resp_reply_kind {
    RN_RESP_REPLY_SIMPLE,
    RN_RESP_REPLY_ERROR,
    RN_RESP_REPLY_INTEGER,
    RN_RESP_REPLY_BULK,
    RN_RESP_REPLY_NULL,
    RN_RESP_REPLY_ARRAY, /* its members follow as values */
    RN_RESP_REPLY_PUSH,  /* the same, and it answers no command */
};

struct rn_resp_reply {
    enum rn_resp_reply_kind kind;
    struct rn_slice text; /* SIMPLE, ERROR, BULK: points into the data */
    int64_t number;       /* INTEGER; ARRAY, PUSH: the number of members */
};

/* Parses the value that begins at data[*at]; DONE moves *at after it. Strict: numbers without
 * spaces, plus signs or leading zeros, lines that end with CR LF. */
enum rn_parse rn_resp_reply_next(const char *data, size_t len, size_t *at,
                                 struct rn_resp_reply *value);

/* Moves *at after a value and all of its members. Also BAD if they nest too deep or are too
 * long. */
enum rn_parse rn_resp_reply_skip(const char *data, size_t len, size_t *at);

#endif
