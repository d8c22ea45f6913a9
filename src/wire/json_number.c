/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads numbers of JSON, as integers and as seconds, and writes seconds. Without floating point,
 * so that nothing is rounded needlessly.
 */
#include "wire/format.h"
#include "wire/json_internal.h"

#define SECONDS_MAX_NS (INT64_C(1) << 62)
#define NS_DIGITS 9

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* --- syntax -------------------------------------------------------------------------------- */

/* Where the digits end; there must be one. `after` names what comes before them. */
static char *pass_digits(struct rn_json *json, char *at, const char *after)
{
    char *p = at;

    while (p < json->end && is_digit(*p))
        p++;
    if (p > at)
        return p;
    rn_json_object_to(json, (size_t)(at - json->text), "expected a digit after %s, found %s", after,
                      rn_json_found(json, at).text);
    return NULL;
}

char *rn_json_read_number(struct rn_json *json, char *at, struct rn_slice *out)
{
    char *p = at + (*at == '-');

    if (p == json->end || *p != '0') {
        p = pass_digits(json, p, "the '-'");
    } else if (++p < json->end && is_digit(*p)) {
        rn_json_object_to(json, (size_t)(p - 1 - json->text),
                          "found a number with a 0 in front; leave it out");
        return NULL;
    }
    if (p && p < json->end && *p == '.')
        p = pass_digits(json, p + 1, "the '.'");
    if (p && p < json->end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < json->end && (*p == '+' || *p == '-');
        p = pass_digits(json, p, "the exponent's e");
    }
    if (p)
        *out = (struct rn_slice){at, (size_t)(p - at)};
    return p;
}

/* --- values -------------------------------------------------------------------------------- */

static bool parse_digits(struct rn_slice text, uint64_t *value)
{
    uint64_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        uint64_t digit = (uint64_t)(text.data[i] - '0');

        if (!is_digit(text.data[i]) || n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *value = n;
    return text.len != 0;
}

bool rn_json_u64(const struct rn_json_token *token, uint64_t *value)
{
    return token->kind == RN_JSON_NUMBER && parse_digits(token->text, value);
}

bool rn_json_i64(const struct rn_json_token *token, int64_t *value)
{
    struct rn_slice digits = token->text;
    uint64_t n;

    if (token->kind != RN_JSON_NUMBER)
        return false;
    bool negative = digits.data[0] == '-';

    digits.data += negative;
    digits.len -= negative;
    if (!parse_digits(digits, &n) || n > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

/* A number without its sign: 0.DIGITS times ten to the `scale`, where the first digit is not 0.
 * There may be a point among the digits. */
struct decimal {
    const char *digits, *end;
    int64_t scale;
};

/* Parses a number that is well-formed. More than fifteen digits of an exponent are not read: no
 * text is long enough for them to matter. */
static struct decimal parse_decimal(const char *p, const char *end)
{
    struct decimal d = {p, p, 0};
    bool after_point = false;

    while (d.end < end && *d.end != 'e' && *d.end != 'E')
        d.end++;
    if (d.end < end) {
        const char *at = d.end + 1;
        bool negative = *at == '-';

        for (at += !is_digit(*at); at < end; at++)
            if (d.scale < INT64_C(100000000000000))
                d.scale = d.scale * 10 + (*at - '0');
        d.scale = negative ? -d.scale : d.scale;
    }
    for (; d.digits < d.end && (*d.digits == '0' || *d.digits == '.'); d.digits++) {
        d.scale -= after_point && *d.digits == '0';
        after_point |= *d.digits == '.';
    }
    if (!after_point)
        for (p = d.digits; p < d.end && *p != '.'; p++)
            d.scale++;
    return d;
}

bool rn_json_seconds(const struct rn_json_token *token, int64_t *ns)
{
    const char *p = token->text.data;
    unsigned digit = 0;
    uint64_t n = 0;

    if (token->kind != RN_JSON_NUMBER)
        return false;
    bool negative = *p == '-';
    struct decimal d = parse_decimal(p + negative, p + token->text.len);

    d.scale += NS_DIGITS;
    if (d.digits == d.end) {
        *ns = 0;
        return true;
    }
    if (negative || d.scale > 19)
        return false;
    p = d.digits;
    for (int64_t left = d.scale; left >= 0; left--) { /* below 10^19, so below 2^64 */
        p += p < d.end && *p == '.';
        digit = p < d.end ? (unsigned)(*p++ - '0') : 0;
        if (left > 0)
            n = n * 10 + digit;
    }
    n += digit >= 5; /* the first digit after the point */
    if (n > SECONDS_MAX_NS)
        return false;
    *ns = (int64_t)n;
    return true;
}

/* --- writing ------------------------------------------------------------------------------- */

void rn_json_put_seconds(struct rn_buf *out, int64_t ns)
{
    char *to = rn_buf_reserve(out, RN_FORMAT_SECONDS_MAX);

    if (to)
        rn_format_done(out, rn_format_seconds(to, ns));
}
