/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a parser whose input may arrive in pieces.
 */
#ifndef RN_WIRE_PARSE_H
#define RN_WIRE_PARSE_H

enum rn_parse {
    RN_PARSE_DONE, /* one message is complete */
    RN_PARSE_MORE, /* correct so far */
    RN_PARSE_BAD,  /* answer and close the connection */
};

#endif
