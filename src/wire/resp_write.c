/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of the Redis protocol. Each reserves its bytes once and writes them there.
 */
#include "wire/resp.h"

#include "wire/pen.h"

#define HEAD_MAX 24 /* a type, a number of up to 20 digits with its sign, CR LF */

static char *put_crlf(char *at)
{
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

/* A type and a number: what most replies begin with. */
static char *put_head(char *at, char type, uint64_t n)
{
    *at++ = type;
    return put_crlf(rn_pen_u64(at, n));
}

static void put_count(struct rn_buf *out, char type, uint64_t n)
{
    char *at = rn_buf_reserve(out, HEAD_MAX);

    if (at)
        out->len = (size_t)(put_head(at, type, n) - out->data);
}

void rn_resp_put_simple(struct rn_buf *out, const char *text)
{
    size_t len = strlen(text);
    char *at = rn_buf_reserve(out, len + 3);

    if (!at)
        return;
    *at++ = '+';
    memcpy(at, text, len);
    out->len = (size_t)(put_crlf(at + len) - out->data);
}

void rn_resp_put_error(struct rn_buf *out, const char *code, struct rn_slice text)
{
    size_t code_len = strlen(code);
    char *at = rn_buf_reserve(out, code_len + text.len + 4);

    if (!at)
        return;
    *at++ = '-';
    memcpy(at, code, code_len);
    at += code_len;
    *at++ = ' ';
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        *at++ = c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    }
    out->len = (size_t)(put_crlf(at) - out->data);
}

/* Most are of one digit. */
static inline char *put_integer(char *at, int64_t n)
{
    *at++ = ':';
    if (n >= 0 && n < 10) {
        *at++ = (char)('0' + n);
        return put_crlf(at);
    }
    if (n == -1) { /* for "not at all" */
        memcpy(at, "-1\r\n", 4);
        return at + 4;
    }
    if (n < 0)
        *at++ = '-';
    return put_crlf(rn_pen_u64(at, n < 0 ? -(uint64_t)n : (uint64_t)n));
}

void rn_resp_put_integer(struct rn_buf *out, int64_t n)
{
    char *at = rn_buf_reserve(out, HEAD_MAX);

    if (at)
        out->len = (size_t)(put_integer(at, n) - out->data);
}

void rn_resp_put_integers(struct rn_buf *out, const int64_t *numbers, size_t count)
{
    char *at = rn_buf_reserve(out, HEAD_MAX * (count + 1));

    if (!at)
        return;
    at = put_head(at, '*', count);
    for (size_t i = 0; i < count; i++)
        at = put_integer(at, numbers[i]);
    out->len = (size_t)(at - out->data);
}

void rn_resp_put_bulk(struct rn_buf *out, struct rn_slice text)
{
    char *at = rn_buf_reserve(out, HEAD_MAX + text.len + 2);

    if (!at)
        return;
    at = put_head(at, '$', text.len);
    if (text.len > 0)
        memcpy(at, text.data, text.len);
    out->len = (size_t)(put_crlf(at + text.len) - out->data);
}

void rn_resp_put_null(struct rn_buf *out, int version)
{
    if (version >= 3)
        rn_buf_put_literal(out, "_\r\n");
    else
        rn_buf_put_literal(out, "$-1\r\n");
}

void rn_resp_put_bool(struct rn_buf *out, int version, bool value)
{
    if (version < 3)
        rn_resp_put_integer(out, value);
    else if (value)
        rn_buf_put_literal(out, "#t\r\n");
    else
        rn_buf_put_literal(out, "#f\r\n");
}

/* Whole seconds, and what is left as up to three digits without zeros at the end.
 * A division rounds towards zero, which is up for what is negative. */
static char *put_decimal(char *at, int64_t ns)
{
    int64_t ms = ns / 1000000 + (ns % 1000000 > 0);
    uint64_t size = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    unsigned part = (unsigned)(size % 1000);

    if (ms < 0)
        *at++ = '-';
    at = rn_pen_u64(at, size / 1000);
    if (part == 0)
        return at;
    *at++ = '.';
    for (unsigned unit = 100; part != 0; unit /= 10) {
        *at++ = (char)('0' + part / unit);
        part %= unit;
    }
    return at;
}

void rn_resp_put_seconds(struct rn_buf *out, int version, int64_t ns)
{
    char text[HEAD_MAX];
    size_t len = (size_t)(put_decimal(text, ns) - text);

    if (version < 3) {
        rn_resp_put_bulk(out, (struct rn_slice){text, len});
        return;
    }
    char *at = rn_buf_reserve(out, len + 3);

    if (!at)
        return;
    *at++ = ',';
    memcpy(at, text, len);
    out->len = (size_t)(put_crlf(at + len) - out->data);
}

void rn_resp_put_array(struct rn_buf *out, size_t count)
{
    put_count(out, '*', count);
}

void rn_resp_put_map(struct rn_buf *out, int version, size_t pairs)
{
    if (version >= 3)
        put_count(out, '%', pairs);
    else
        put_count(out, '*', pairs * 2);
}
