/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What parsers of bytes that arrive in pieces answer.
 */
#ifndef RN_WIRE_PARSE_H
#define RN_WIRE_PARSE_H

enum rn_parse {
    RN_PARSE_DONE, /* one message is complete */
    RN_PARSE_MORE, /* so far so good */
    RN_PARSE_BAD,  /* never again: answer and close */
};

#endif
