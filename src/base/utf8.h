/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 (RFC 3629): strict decoding, and text that is safe to show on a terminal. */
#ifndef RN_BASE_UTF8_H
#define RN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Returns the length of the character at text[0], 1 to 4 bytes, and sets its code point.
 * 0: it is not UTF-8; so are overlong forms, surrogates, code points above U+10FFFF and
 * characters cut off by `len`, which must not be 0. */
size_t rn_utf8_decode(const char *text, size_t len, uint32_t *point);

/* Safe to show on a terminal: not a control character, a line or paragraph separator, or
 * a character that changes the direction of writing. */
bool rn_utf8_is_printable(uint32_t point);

/* Whether the byte is the first of a character, in valid UTF-8. */
static inline bool rn_utf8_is_start(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* Appends the text with bytes that are not printable as \xNN, and a backslash before
 * quotes and backslashes. */
void rn_utf8_escape(struct rn_buf *out, struct rn_slice text);
/* The same between quotes. */
void rn_utf8_escape_quoted(struct rn_buf *out, struct rn_slice text);
/* For text of several lines: line feeds, quotes and backslashes stay as they are. */
void rn_utf8_escape_lines(struct rn_buf *out, struct rn_slice text);

#endif
