/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Percent-escapes text for names of rules and metrics: printable ASCII stays, except %;
 * other bytes become %4A. Different texts stay different.
 */
#ifndef RN_RULES_PRINTABLE_H
#define RN_RULES_PRINTABLE_H

#include "base/slice.h"

#define RN_PRINTABLE_MAX 3 /* bytes that one byte takes at most */

/* `out` has room for RN_PRINTABLE_MAX times the text. Returns the length. */
static inline size_t rn_printable_write(char *out, struct rn_slice text)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.data[i];

        if (byte >= ' ' && byte <= '~' && byte != '%') {
            out[len++] = (char)byte;
        } else {
            out[len++] = '%';
            out[len++] = digits[byte >> 4];
            out[len++] = digits[byte & 15];
        }
    }
    return len;
}

#endif
