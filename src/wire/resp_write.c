/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes replies of the Redis protocol. Each function reserves room once.
 */
#include "wire/resp.h"

#include "wire/resp_format.h"

static void put_count(struct rn_buf *out, char type, uint64_t n)
{
    char *at = rn_buf_reserve(out, RN_RESP_FORMAT_MAX);

    if (at)
        rn_format_done(out, rn_resp_format_head(at, type, n));
}

void rn_resp_put_simple(struct rn_buf *out, const char *text)
{
    size_t len = strlen(text);
    char *at = rn_buf_reserve(out, len + 3);

    if (!at)
        return;
    *at++ = '+';
    memcpy(at, text, len);
    rn_format_done(out, rn_resp_format_crlf(at + len));
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
    rn_format_done(out, rn_resp_format_crlf(at));
}

void rn_resp_put_integer(struct rn_buf *out, int64_t n)
{
    char *at = rn_buf_reserve(out, RN_RESP_FORMAT_MAX);

    if (at)
        rn_format_done(out, rn_resp_format_integer(at, n));
}

void rn_resp_put_bulk(struct rn_buf *out, struct rn_slice text)
{
    char *at = rn_buf_reserve(out, RN_RESP_FORMAT_MAX + text.len);

    if (at)
        rn_format_done(out, rn_resp_format_bulk(at, text));
}

void rn_resp_put_null(struct rn_buf *out, int version)
{
    char *at = rn_buf_reserve(out, RN_RESP_FORMAT_MAX);

    if (at)
        rn_format_done(out, rn_resp_format_null(at, version));
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
