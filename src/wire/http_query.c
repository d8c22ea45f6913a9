/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries as HTML forms encode them: name=value&name=value, %XX, and + for a space.
 */
#include "wire/http.h"

/* Decodes to *out and advances it. Bad escapes stay as they are. */
static struct rn_slice decode(struct rn_slice text, char **out, bool *bad)
{
    struct rn_slice decoded = {*out, 0};
    char *to = *out;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            int high = text.len - i > 2 ? rn_parse_hex_digit(text.data[i + 1]) : -1;
            int low = text.len - i > 2 ? rn_parse_hex_digit(text.data[i + 2]) : -1;

            if (high >= 0 && low >= 0) {
                c = (char)(high << 4 | low);
                i += 2;
            } else {
                *bad = true;
            }
        }
        *to++ = c;
    }
    decoded.len = (size_t)(to - *out);
    *out = to;
    return decoded;
}

/* Cuts the text up to the separator off *text, with the separator, and returns it. */
static struct rn_slice cut(struct rn_slice *text, char separator, bool *found)
{
    const char *at = text->len > 0 ? memchr(text->data, separator, text->len) : NULL;
    struct rn_slice piece = *text;

    *found = at != NULL;
    if (!at) {
        *text = (struct rn_slice){0};
        return piece;
    }
    piece.len = (size_t)(at - text->data);
    text->data += piece.len + 1;
    text->len -= piece.len + 1;
    return piece;
}

bool rn_http_query_next(struct rn_slice *rest, char **out, struct rn_slice *name,
                        struct rn_slice *value, bool *bad)
{
    struct rn_slice pair = {0}, key;
    bool found;

    while (rest->len > 0 && pair.len == 0)
        pair = cut(rest, '&', &found);
    if (pair.len == 0)
        return false;
    key = cut(&pair, '=', &found);
    *name = decode(key, out, bad);
    *value = found ? decode(pair, out, bad) : (struct rn_slice){0};
    return true;
}
