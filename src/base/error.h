/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling a struct ration_error. A good message says what was found and what would be right.
 */
#ifndef RN_BASE_ERROR_H
#define RN_BASE_ERROR_H

#include <ration/error.h>

/* Fills `error` (may be NULL) and returns `code`. A text that does not fit is cut. Line and
 * column become 0: readers of files set them. */
int rn_error_set(struct ration_error *error, int code, size_t pos, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Input quoted for a message: in double quotes, with all but printable ASCII escaped, and
 * cut if long. */
struct rn_quote {
    char text[40];
};

/* The word that begins at text[pos], up to white space. At the end of the text the word
 * nothing, without quotes. */
struct rn_quote rn_error_quote(const char *text, size_t len, size_t pos);

#endif
