/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that grow at the end. A buffer that cannot grow keeps its bytes and sets `failed`,
 * so a writer checks once, at the end.
 */
#ifndef RN_BASE_BUF_H
#define RN_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct rn_buf {
    char *data;
    size_t len, size;
    bool failed; /* out of memory: something is missing */
};

/* A zeroed struct is initialised, too. */
void rn_buf_init(struct rn_buf *buf);
/* Frees the memory; the buffer is as after rn_buf_init. */
void rn_buf_done(struct rn_buf *buf);
/* Empties it and keeps the memory. */
void rn_buf_clear(struct rn_buf *buf);

/* The slow path of rn_buf_reserve. */
char *rn_buf_grow(struct rn_buf *buf, size_t more);

/* Room for `more` bytes behind `len`: write there, then add to `len`. NULL: out of memory,
 * and `failed` is set. */
static inline char *rn_buf_reserve(struct rn_buf *buf, size_t more)
{
    return buf->size - buf->len >= more && buf->data ? buf->data + buf->len
                                                     : rn_buf_grow(buf, more);
}

void rn_buf_put(struct rn_buf *buf, const void *data, size_t len);
void rn_buf_put_u64(struct rn_buf *buf, uint64_t n);
void rn_buf_put_i64(struct rn_buf *buf, int64_t n);
void rn_buf_putf(struct rn_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Removes the first n bytes. */
void rn_buf_drop(struct rn_buf *buf, size_t n);

static inline void rn_buf_put_slice(struct rn_buf *buf, struct rn_slice text)
{
    rn_buf_put(buf, text.data, text.len);
}

#define rn_buf_put_literal(buf, literal) rn_buf_put(buf, "" literal, sizeof(literal) - 1)

static inline void rn_buf_put_char(struct rn_buf *buf, char c)
{
    char *to = rn_buf_reserve(buf, 1);

    if (to) {
        *to = c;
        buf->len++;
    }
}

static inline struct rn_slice rn_buf_slice(const struct rn_buf *buf)
{
    return (struct rn_slice){buf->data, buf->len};
}

#endif
