/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of JSON: their form, their values as whole numbers and as seconds, and
 * seconds written. Nothing goes through floating point, so nothing is rounded but
 * what must be.
 */
#include "wire/format.h"
#include "wire/json_internal.h"

#define SECONDS_MAX_NS (INT64_C(1) << 62)
#define NS_DIGITS 9

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* --- form ---------------------------------------------------------------------------------- */

/* Where the digits end, of which there must be one; `after` is what they follow. */
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

static char *pass_whole(struct rn_json *json, char *p)
{
    p += *p == '-';
    if (p == json->end || *p != '0')
        return pass_digits(json, p, "the '-'");
    if (p + 1 == json->end || !is_digit(p[1]))
        return p + 1;
    rn_json_object_to(json, (size_t)(p - json->text),
                      "found a number with a 0 in front; leave it out");
    return NULL;
}

static char *pass_exponent(struct rn_json *json, char *p)
{
    p++;
    if (p < json->end && (*p == '+' || *p == '-'))
        p++;
    return pass_digits(json, p, "the exponent's e");
}

char *rn_json_read_number(struct rn_json *json, char *at, struct rn_slice *out)
{
    char *p = pass_whole(json, at);

    if (p && p < json->end && *p == '.')
        p = pass_digits(json, p + 1, "the '.'");
    if (p && p < json->end && (*p == 'e' || *p == 'E'))
        p = pass_exponent(json, p);
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
    return true;
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

/* A number without its sign: 0.DIGITS times ten to the `scale`, the first digit not
 * being 0. The digits may have one point among them. */
struct decimal {
    const char *digits, *end;
    int64_t scale;
};

/* Of a number that was found well-formed. An exponent of more than fifteen digits
 * means what one of fifteen does: texts are shorter than that. */
static int64_t parse_exponent(const char *p, const char *end)
{
    bool negative = p < end && *p == '-';
    int64_t n = 0;

    p += p < end && !is_digit(*p);
    for (; p < end; p++)
        if (n < INT64_C(100000000000000))
            n = n * 10 + (*p - '0');
    return negative ? -n : n;
}

static struct decimal parse_decimal(const char *p, const char *end)
{
    struct decimal d = {p, p, 0};
    bool behind_point = false;

    while (d.end < end && *d.end != 'e' && *d.end != 'E')
        d.end++;
    if (d.end < end)
        d.scale = parse_exponent(d.end + 1, end);
    for (; d.digits < d.end && (*d.digits == '0' || *d.digits == '.'); d.digits++) {
        d.scale -= behind_point && *d.digits == '0';
        behind_point |= *d.digits == '.';
    }
    if (!behind_point)
        for (p = d.digits; p < d.end && *p != '.'; p++)
            d.scale++;
    return d;
}

/* The digits before the point of digits times ten to the `scale`, and a half up.
 * Stays below 2^64: `scale` is at most 19. */
static uint64_t round_decimal(const struct decimal *d)
{
    const char *p = d->digits;
    uint64_t n = 0;

    for (int64_t left = d->scale; left >= 0; left--) {
        p += p < d->end && *p == '.';
        unsigned digit = p < d->end ? (unsigned)(*p++ - '0') : 0;

        if (left == 0)
            return n + (digit >= 5);
        n = n * 10 + digit;
    }
    return 0;
}

bool rn_json_seconds(const struct rn_json_token *token, int64_t *ns)
{
    const char *p = token->text.data;
    bool negative;
    uint64_t n;

    if (token->kind != RN_JSON_NUMBER)
        return false;
    negative = *p == '-';
    struct decimal d = parse_decimal(p + negative, p + token->text.len);

    d.scale += NS_DIGITS;
    if (d.digits == d.end) {
        *ns = 0;
        return true;
    }
    if (negative || d.scale > 19 || (n = round_decimal(&d)) > SECONDS_MAX_NS)
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
