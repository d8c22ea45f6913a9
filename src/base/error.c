/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of error codes, from the table in ration/error.h, and messages. */
#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *ration_error_name(int code)
{
    switch (code) {
#define CASE_NAME(name, value, text)                                                               \
    case RATION_##name:                                                                            \
        return #name;
        RATION_ERRORS(CASE_NAME)
#undef CASE_NAME
    default:
        return "EUNKNOWN";
    }
}

const char *ration_error_text(int code)
{
    switch (code) {
#define CASE_TEXT(name, value, text)                                                               \
    case RATION_##name:                                                                            \
        return text;
        RATION_ERRORS(CASE_TEXT)
#undef CASE_TEXT
    default:
        return "unknown error";
    }
}

int rn_error_set(struct ration_error *error, int code, size_t pos, const char *format, ...)
{
    va_list args;

    if (error == NULL)
        return code;
    *error = (struct ration_error){.code = code, .pos = pos};
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

struct rn_quote rn_error_quote(const char *text, size_t len, size_t pos)
{
    struct rn_quote quote = {"nothing"};
    const size_t room = sizeof quote.text - sizeof "\\xff...\""; /* the longest that may follow */
    size_t at = 0;

    if (pos >= len)
        return quote;
    quote.text[at++] = '"';
    for (; pos < len && !memchr(" \t\n\v\f\r", text[pos], 6); pos++) {
        unsigned char c = (unsigned char)text[pos];
        if (at > room) {
            memcpy(quote.text + at, "...", 3);
            at += 3;
            break;
        }
        if (c == '"' || c == '\\')
            quote.text[at++] = '\\';
        if (c > ' ' && c <= '~')
            quote.text[at++] = (char)c;
        else
            at += (size_t)sprintf(quote.text + at, "\\x%02x", c);
    }
    quote.text[at++] = '"';
    quote.text[at] = '\0';
    return quote;
}
