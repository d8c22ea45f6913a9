/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE_MIN 256

void rn_buf_init(struct rn_buf *buf)
{
    *buf = (struct rn_buf){0};
}

void rn_buf_done(struct rn_buf *buf)
{
    free(buf->data);
    rn_buf_init(buf);
}

void rn_buf_clear(struct rn_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
}

char *rn_buf_grow(struct rn_buf *buf, size_t more)
{
    size_t size = buf->size < SIZE_MIN ? SIZE_MIN : buf->size;
    char *larger = NULL;

    while (size - buf->len < more && size <= SIZE_MAX / 2)
        size *= 2;
    if (size - buf->len >= more)
        larger = realloc(buf->data, size);
    if (!larger) {
        buf->failed = true;
        return NULL;
    }
    buf->data = larger;
    buf->size = size;
    return buf->data + buf->len;
}

void rn_buf_put(struct rn_buf *buf, const void *data, size_t len)
{
    char *to;

    if (len == 0 || !(to = rn_buf_reserve(buf, len)))
        return;
    memcpy(to, data, len);
    buf->len += len;
}

void rn_buf_put_u64(struct rn_buf *buf, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + n % 10);
    while ((n /= 10) != 0);
    rn_buf_put(buf, digits + at, sizeof digits - at);
}

void rn_buf_put_i64(struct rn_buf *buf, int64_t n)
{
    if (n < 0)
        rn_buf_put_char(buf, '-');
    rn_buf_put_u64(buf, n < 0 ? -(uint64_t)n : (uint64_t)n);
}

void rn_buf_putf(struct rn_buf *buf, const char *format, ...)
{
    va_list args;
    char *to = rn_buf_reserve(buf, 128);
    int len;

    if (!to)
        return;
    va_start(args, format);
    len = vsnprintf(to, buf->size - buf->len, format, args);
    va_end(args);
    if (len > 0 && (size_t)len >= buf->size - buf->len) {
        if (!(to = rn_buf_reserve(buf, (size_t)len + 1)))
            return;
        va_start(args, format);
        len = vsnprintf(to, buf->size - buf->len, format, args);
        va_end(args);
    }
    if (len > 0)
        buf->len += (size_t)len;
}

void rn_buf_drop(struct rn_buf *buf, size_t n)
{
    buf->len -= n;
    if (buf->len != 0)
        memmove(buf->data, buf->data + n, buf->len);
}
