/* SPDX-License-Identifier: Apache-2.0 */
/* What the parsers share: the result of one whose input may arrive in pieces, and hex digits. */
#ifndef RN_WIRE_PARSE_H
#define RN_WIRE_PARSE_H

enum rn_parse {
    RN_PARSE_DONE, /* one message is complete */
    RN_PARSE_MORE, /* correct so far */
    RN_PARSE_BAD,  /* answer and close the connection */
};

/* The value of a hexadecimal digit of either case, or -1. */
static inline int rn_parse_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
