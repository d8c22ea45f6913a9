/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of the Redis protocol. Each reserves its bytes once and writes them there.
 */
#include "wire/resp.h"

#include "wire/resp_pen.h"

static void put_count(struct rn_buf *out, char type, uint64_t n)
{
    char *at = rn_buf_reserve(out, RN_RESP_PEN_MAX);

    if (at)
        rn_pen_done(out, rn_resp_pen_head(at, type, n));
}

void rn_resp_put_simple(struct rn_buf *out, const char *text)
{
    size_t len = strlen(text);
    char *at = rn_buf_reserve(out, len + 3);

    if (!at)
        return;
    *at++ = '+';
    memcpy(at, text, len);
    rn_pen_done(out, rn_resp_pen_crlf(at + len));
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
    rn_pen_done(out, rn_resp_pen_crlf(at));
}

void rn_resp_put_integer(struct rn_buf *out, int64_t n)
{
    char *at = rn_buf_reserve(out, RN_RESP_PEN_MAX);

    if (at)
        rn_pen_done(out, rn_resp_pen_integer(at, n));
}

void rn_resp_put_bulk(struct rn_buf *out, struct rn_slice text)
{
    char *at = rn_buf_reserve(out, RN_RESP_PEN_MAX + text.len + 2);

    if (!at)
        return;
    at = rn_resp_pen_head(at, '$', text.len);
    if (text.len > 0)
        memcpy(at, text.data, text.len);
    rn_pen_done(out, rn_resp_pen_crlf(at + text.len));
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
    char text[RN_RESP_PEN_MAX];
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
    rn_pen_done(out, rn_resp_pen_crlf(at + len));
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
