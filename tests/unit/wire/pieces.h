/* SPDX-License-Identifier: Apache-2.0 */
/* Input of a parser that comes in pieces of any size: what is read must not depend on them. */
#ifndef RN_TESTS_WIRE_PIECES_H
#define RN_TESTS_WIRE_PIECES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "wire/parse.h"

/* One look at what there is of a message, which tells, as text, what it has found. `bytes` is
 * how many the message was said to have at least; how many it has, or has at least. */
typedef enum rn_parse look_at(const char *data, size_t len, size_t *bytes, struct rn_buf *told);

static inline size_t roll(size_t below)
{
    static uint64_t dice = 88172645463325252u;

    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (size_t)(dice % below);
}

/* Everything that can be read of the input when it comes in pieces of up to `piece` bytes:
 * one message after another, and what ended it. */
static inline void read_in_pieces(look_at *look, struct rn_slice input, size_t piece,
                                  struct rn_buf *told)
{
    size_t start = 0, there = 0, bytes = 0;

    rn_buf_clear(told);
    for (;;) {
        enum rn_parse answer = look(input.data + start, there - start, &bytes, told);

        if (answer == RN_PARSE_BAD)
            break;
        if (answer == RN_PARSE_DONE) {
            start += bytes;
            bytes = 0;
            continue;
        }
        if (there == input.len) {
            if (start < input.len)
                rn_buf_put_literal(told, "...\n");
            break;
        }
        there += 1 + roll(piece);
        there = there < input.len ? there : input.len;
    }
    rn_buf_put_char(told, '\0');
}

/* The same text, whatever the pieces. From `large` bytes on, small ones would take too long. */
static inline void expect_in_pieces(void (*read)(struct rn_slice input, size_t piece,
                                                 struct rn_buf *told),
                                    struct rn_slice input, size_t large, const char *expected)
{
    const size_t pieces[] = {input.len + 1, 1, 2, 3, 7, 20, 100, 1000};
    struct rn_buf told = {0};

    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (input.len > large && pieces[i] < 100)
            continue;
        read(input, pieces[i], &told);
        assert_string_equal(told.data, expected);
    }
    rn_buf_done(&told);
}

#endif
