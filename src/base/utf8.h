/* SPDX-License-Identifier: Apache-2.0 */
/* One UTF-8 character at a time, strictly (RFC 3629). */
#ifndef RN_BASE_UTF8_H
#define RN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bytes the character at text[0] takes, 1 to 4, and its code point; 0
 * if what stands there is not UTF-8: also overlong forms, surrogates, code
 * points above U+10FFFF and characters cut off by `len`, which is not 0. */
size_t rn_utf8_decode(const char *text, size_t len, uint32_t *point);

/* A character that a terminal may be shown as it is: not a control character,
 * a line or paragraph separator, or one that changes the direction of writing. */
bool rn_utf8_is_printable(uint32_t point);

/* Whether the byte begins a character, in valid UTF-8. */
static inline bool rn_utf8_is_start(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

#endif
