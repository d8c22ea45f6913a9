/* SPDX-License-Identifier: Apache-2.0 */
/* Reads strings of JSON that have escapes, and writes strings. */
#include <string.h>

#include "base/utf8.h"
#include "wire/format.h"
#include "wire/json_internal.h"
#include "wire/parse.h"

const bool rn_json_plain[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* control characters */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* */
    1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* not the quote */
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* 0 to 9 */
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* A to O */
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, /* P to Z, not the backslash */
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* a to o */
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* p to z, DEL */
};

/* --- reading ----------------------------------------------------------------------------- */

/* A string while it is unescaped: bytes read at `from` are written at `to`, which never overtakes
 * `from`, since no escape is shorter than its character. */
struct unescaping {
    struct rn_json *json;
    char *from, *end, *to;
};

static size_t offset_of(const struct unescaping *u, const char *p)
{
    return (size_t)(p - u->json->text);
}

static bool expected_at(const struct unescaping *u, const char *p, const char *what)
{
    bool at_quote = p < u->end && *p == '"';

    rn_json_object_to(u->json, offset_of(u, p), "expected %s, found %s", what,
                      at_quote ? "the end of the string" : rn_json_found(u->json, p).text);
    return false;
}

/* The value of \uXXXX; `p` is at the backslash. */
static bool read_unit(const struct unescaping *u, const char *p, uint32_t *unit)
{
    *unit = 0;
    for (int i = 2; i < 6; i++) {
        int digit = p + i < u->end ? rn_parse_hex_digit(p[i]) : -1;

        if (digit < 0)
            return expected_at(u, p + i, "four hexadecimal digits after \\u");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return true;
}

static void put_point(struct unescaping *u, uint32_t point)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    int size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;

    u->json->line_breaks += point == '\n';
    for (int i = size - 1; i > 0; i--, point >>= 6)
        u->to[i] = (char)(0x80 | (point & 0x3f));
    u->to[0] = (char)(lead[size == 1 ? 0 : size] | point);
    u->to += size;
}

static bool is_low(uint32_t unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

static bool object_to_half(const struct unescaping *u, uint32_t unit)
{
    rn_json_object_to(u->json, offset_of(u, u->from),
                      "\\u%04x is one half of a surrogate pair; expected %s it", unit,
                      is_low(unit) ? "\\ud800 to \\udbff before" : "\\udc00 to \\udfff after");
    return false;
}

static bool unescape_unicode(struct unescaping *u)
{
    uint32_t point, low;

    if (!read_unit(u, u->from, &point))
        return false;
    if (point == 0) {
        rn_json_object_to(u->json, offset_of(u, u->from),
                          "expected a string without NUL, found \\u0000");
        return false;
    }
    if (point < 0xd800 || point > 0xdfff) {
        u->from += 6;
        put_point(u, point);
        return true;
    }
    const char *second = u->from + 6;

    if (is_low(point) || u->end - second < 2 || second[0] != '\\' || second[1] != 'u')
        return object_to_half(u, point);
    if (!read_unit(u, second, &low))
        return false;
    if (!is_low(low))
        return object_to_half(u, point);
    u->from += 12;
    put_point(u, 0x10000 + ((point - 0xd800) << 10 | (low - 0xdc00)));
    return true;
}

static bool object_to_control(const struct unescaping *u)
{
    unsigned char c = (unsigned char)*u->from;
    size_t at = offset_of(u, u->from);

    if (c == '\n')
        rn_json_object_to(u->json, at, "found a line break in a string; write it as \\n");
    else if (c == '\t')
        rn_json_object_to(u->json, at, "found a tab in a string; write it as \\t");
    else if (c == '\0')
        rn_json_object_to(u->json, at, "found a NUL in a string, where none may be");
    else
        rn_json_object_to(u->json, at,
                          "found the control character 0x%02x in a string; write it as \\u%04x", c,
                          c);
    return false;
}

/* Plain bytes, or one character of several bytes. */
static bool copy(struct unescaping *u)
{
    size_t size = (size_t)(rn_json_pass_plain(u->from, u->end) - u->from);
    uint32_t point;

    if (size == 0 && (unsigned char)*u->from < 0x80)
        return object_to_control(u);
    if (size == 0)
        size = rn_utf8_decode(u->from, (size_t)(u->end - u->from), &point);
    if (size == 0) {
        rn_json_object_to(u->json, offset_of(u, u->from), "expected UTF-8, found the byte 0x%02x",
                          (unsigned char)*u->from);
        return false;
    }
    if (u->to != u->from)
        memmove(u->to, u->from, size);
    u->from += size;
    u->to += size;
    return true;
}

char *rn_json_read_special(struct rn_json *json, char *at, size_t plain, struct rn_slice *out)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char *begin = at + 1;
    struct unescaping u = {json, begin + plain, json->end, begin + plain};

    while (u.from < u.end && *u.from != '"') {
        char c = u.end - u.from > 1 ? u.from[1] : '\0';
        const char *letter = c != '\0' ? strchr(letters, c) : NULL;

        if (*u.from != '\\') {
            if (!copy(&u))
                return NULL;
        } else if (c == 'u') {
            if (!unescape_unicode(&u))
                return NULL;
        } else if (letter) {
            u.from += 2;
            put_point(&u, (uint32_t)meanings[letter - letters]);
        } else {
            expected_at(&u, u.from + 1, "one of \" \\ / b f n r t u after the backslash");
            return NULL;
        }
    }
    if (u.from == u.end) {
        rn_json_object_to(json, (size_t)(at - json->text),
                          "expected '\"' at the end of this string, found none");
        return NULL;
    }
    *out = (struct rn_slice){begin, (size_t)(u.to - begin)};
    return u.from + 1;
}

/* --- writing ------------------------------------------------------------------------------- */

/* Writes a string that has something to escape; `p` is at the first such byte. */
static void put_with_escapes(struct rn_buf *out, const char *run, const char *p, const char *end)
{
    static const char letters[] = "btn\0fr", digits[] = "0123456789abcdef";

    rn_buf_put_char(out, '"');
    for (; p < end; p = rn_json_pass_plain(p, end)) {
        uint32_t point;
        size_t size = rn_utf8_decode(p, (size_t)(end - p), &point);
        unsigned char c = (unsigned char)*p;

        if (size > 1) {
            p += size;
            continue;
        }
        rn_buf_put(out, run, (size_t)(p - run));
        if (size == 0)
            rn_buf_put_literal(out, "\xef\xbf\xbd");
        else if (c >= '\b' && c <= '\r' && c != '\v')
            rn_buf_put(out, (char[]){'\\', letters[c - '\b']}, 2);
        else if (c < ' ')
            rn_buf_put(out, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
        else
            rn_buf_put(out, (char[]){'\\', (char)c}, 2);
        run = ++p;
    }
    rn_buf_put(out, run, (size_t)(end - run));
    rn_buf_put_char(out, '"');
}

void rn_json_put_string(struct rn_buf *out, struct rn_slice text)
{
    const char *begin = text.len ? text.data : "", *end = begin + text.len;
    const char *special = rn_json_pass_plain(begin, end);
    char *to;

    if (special < end) {
        put_with_escapes(out, begin, special, end);
    } else if ((to = rn_buf_reserve(out, text.len + 2))) {
        *to++ = '"';
        to = rn_format_bytes(to, begin, text.len);
        *to++ = '"';
        rn_format_done(out, to);
    }
}
