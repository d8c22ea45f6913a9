/* SPDX-License-Identifier: Apache-2.0 */
/* Quotes text from a file for a message, as plain ASCII. Declared in report.h. */
#include <stdio.h>
#include <string.h>

#include "rules/report/report.h"

struct rn_excerpt rn_excerpt(struct rn_slice text)
{
    struct rn_excerpt out = {"nothing"};
    const size_t room = sizeof out.text - sizeof "\\xff...\""; /* the longest that may follow */
    size_t at = 0;

    if (text.len == 0)
        return out;
    out.text[at++] = '"';
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (at > room) {
            memcpy(out.text + at, "...", 3);
            at += 3;
            break;
        }
        if (c == '"' || c == '\\')
            out.text[at++] = '\\';
        if (c >= ' ' && c <= '~')
            out.text[at++] = (char)c;
        else
            at += (size_t)snprintf(out.text + at, sizeof out.text - at, "\\x%02x", c);
    }
    out.text[at++] = '"';
    out.text[at] = '\0';
    return out;
}
