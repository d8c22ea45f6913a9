/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the JSON reader share. Offsets are into json->text. */
#ifndef RN_WIRE_JSON_OWN_H
#define RN_WIRE_JSON_OWN_H

#include "wire/json.h"

/* Whether a byte stands for itself in a string: ASCII, but for control characters,
 * the quote and the backslash. */
extern const bool rn_json_plain[256];

/* The first byte that is not plain, or `end`. */
static inline const char *rn_json_pass_plain(const char *p, const char *end)
{
    const unsigned char *at = (const unsigned char *)p, *stop = (const unsigned char *)end;

    for (; stop - at >= 4; at += 4) {
        if (!rn_json_plain[at[0]])
            return (const char *)at;
        if (!rn_json_plain[at[1]])
            return (const char *)at + 1;
        if (!rn_json_plain[at[2]])
            return (const char *)at + 2;
        if (!rn_json_plain[at[3]])
            return (const char *)at + 3;
    }
    while (at < stop && rn_json_plain[*at])
        at++;
    return (const char *)at;
}

/* What stands at an offset, in words: `the end of the text`, `','`, `a string`. */
struct rn_json_found {
    char text[48];
};
struct rn_json_found rn_json_found(const struct rn_json *json, size_t at);

/* json->at is on the opening quote, then behind the closing one. False: BAD. */
bool rn_json_read_string(struct rn_json *json, struct rn_slice *out);
/* json->at is on a digit or a minus, then behind the number. False: BAD. */
bool rn_json_read_number(struct rn_json *json, struct rn_slice *out);

#endif
