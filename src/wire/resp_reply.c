/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/resp_reply.h"

#define NUMBER_DIGITS_MAX 18 /* any such number fits 63 bits */

/* The line at `at` without its CR LF; *next is the offset of the next line. */
static enum rn_parse read_line(const char *data, size_t len, size_t at, struct rn_slice *line,
                               size_t *next)
{
    const char *start = data + at, *end = memchr(start, '\r', len - at);

    if (!end || (size_t)(end - data) + 1 == len)
        return memchr(start, '\n', len - at) ? RN_PARSE_BAD : RN_PARSE_MORE;
    *line = (struct rn_slice){start, (size_t)(end - start)};
    *next = (size_t)(end - data) + 2;
    return end[1] == '\n' && !memchr(start, '\n', line->len) ? RN_PARSE_DONE : RN_PARSE_BAD;
}

static enum rn_parse read_number(struct rn_slice line, int64_t *number)
{
    bool negative = line.len > 0 && line.data[0] == '-';
    size_t digits = line.len - negative;
    const char *text = line.data + negative;
    int64_t n = 0;

    if (digits == 0 || digits > NUMBER_DIGITS_MAX || (text[0] == '0' && line.len > 1))
        return RN_PARSE_BAD;
    for (size_t i = 0; i < digits; i++) {
        if (text[i] < '0' || text[i] > '9')
            return RN_PARSE_BAD;
        n = n * 10 + (text[i] - '0');
    }
    *number = negative ? -n : n;
    return RN_PARSE_DONE;
}

/* Reads `size` bytes at *at, and CR LF. */
static enum rn_parse read_bulk(const char *data, size_t len, size_t *at, int64_t size,
                               struct rn_resp_reply *value)
{
    size_t bytes = (size_t)size, have = len - *at;

    if (size == -1) {
        value->kind = RN_RESP_REPLY_NULL;
        return RN_PARSE_DONE;
    }
    if (size < 0 || size > RN_RESP_REPLY_BYTES_MAX)
        return RN_PARSE_BAD;
    if (have < bytes + 2)
        return RN_PARSE_MORE;
    value->kind = RN_RESP_REPLY_BULK;
    value->text = (struct rn_slice){data + *at, bytes};
    *at += bytes + 2;
    return memcmp(data + *at - 2, "\r\n", 2) == 0 ? RN_PARSE_DONE : RN_PARSE_BAD;
}

static enum rn_parse read_value(const char *data, size_t len, size_t *at, struct rn_slice line,
                                struct rn_resp_reply *value)
{
    char type = line.data[0];

    line = (struct rn_slice){line.data + 1, line.len - 1};
    value->text = line;
    if (type == '+' || type == '-') {
        value->kind = type == '+' ? RN_RESP_REPLY_SIMPLE : RN_RESP_REPLY_ERROR;
        return RN_PARSE_DONE;
    }
    if (read_number(line, &value->number) != RN_PARSE_DONE)
        return RN_PARSE_BAD;
    if (type == '$')
        return read_bulk(data, len, at, value->number, value);
    value->kind = type == ':'   ? RN_RESP_REPLY_INTEGER
                  : type == '*' ? RN_RESP_REPLY_ARRAY
                                : RN_RESP_REPLY_PUSH;
    return type == ':' || (value->number >= 0 && value->number <= RN_RESP_REPLY_BYTES_MAX)
               ? RN_PARSE_DONE
               : RN_PARSE_BAD;
}

enum rn_parse rn_resp_reply_next(const char *data, size_t len, size_t *at,
                                 struct rn_resp_reply *value)
{
    struct rn_slice line;
    size_t next = *at;
    enum rn_parse answer;

    if (*at == len)
        return RN_PARSE_MORE;
    if (!memchr("+-:$*>", data[*at], 6))
        return RN_PARSE_BAD;
    answer = read_line(data, len, *at, &line, &next);
    if (answer == RN_PARSE_DONE)
        answer = read_value(data, len, &next, line, value);
    if (answer == RN_PARSE_DONE)
        *at = next;
    return answer;
}

enum rn_parse rn_resp_reply_skip(const char *data, size_t len, size_t *at)
{
    int64_t left[RN_RESP_REPLY_DEPTH_MAX + 1] = {1}; /* members to come, by depth */
    size_t depth = 0, next = *at;
    struct rn_resp_reply value;

    for (;;) {
        while (left[depth] == 0) {
            if (depth-- == 0) {
                *at = next;
                return RN_PARSE_DONE;
            }
        }
        enum rn_parse answer = rn_resp_reply_next(data, len, &next, &value);

        if (answer == RN_PARSE_BAD ||
            (answer == RN_PARSE_MORE ? len : next) - *at > RN_RESP_REPLY_BYTES_MAX)
            return RN_PARSE_BAD;
        if (answer == RN_PARSE_MORE)
            return RN_PARSE_MORE;
        left[depth]--;
        if (value.kind != RN_RESP_REPLY_ARRAY && value.kind != RN_RESP_REPLY_PUSH)
            continue;
        if (++depth > RN_RESP_REPLY_DEPTH_MAX)
            return RN_PARSE_BAD;
        left[depth] = value.number;
    }
}
