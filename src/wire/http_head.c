/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request, line by line. A line is understood as soon as it has
 * ended, so that what is no HTTP is refused before the head is complete.
 */
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "wire/http_internal.h"

static inline bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* The first control byte at `at` or behind, or `end`. */
static inline size_t find_control(const char *data, size_t at, size_t end)
{
#ifdef __SSE2__
    for (; end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(data + at));
        __m128i below_space = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        __m128i deletes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
        unsigned marks = (unsigned)_mm_movemask_epi8(_mm_or_si128(below_space, deletes));

        if (marks != 0)
            return at + (size_t)__builtin_ctz(marks);
    }
#endif
    while (at < end && !is_control(data[at]))
        at++;
    return at;
}

static enum rn_parse refuse_control(char c, struct rn_http_error *error)
{
    if (c == '\n')
        return rn_http_refuse(error, 400, "a line ends with LF alone: it must end with CR LF");
    return rn_http_refuse(error, 400, "control byte in the head");
}

/* The head is too long, or may still become complete. */
static enum rn_parse lack(struct rn_http_parser *parser, size_t len, struct rn_http_error *error)
{
    if (len < RN_HTTP_HEAD_MAX) {
        parser->need = len + 1;
        return RN_PARSE_MORE;
    }
    if (parser->line == 0)
        return rn_http_refuse(error, 414, "the target is longer than 8192 bytes");
    return rn_http_refuse(error, 431, "the head is longer than 16384 bytes");
}

/* What stands at parser->seen, if it is no CR LF: a tab, which is fine, or the end of
 * what there is, or what nobody may send. */
static enum rn_parse heed_control(struct rn_http_parser *parser, const char *data, size_t len,
                                  size_t end, struct rn_http_error *error)
{
    size_t at = parser->seen;

    if (at == end || (data[at] == '\r' && at + 1 == end))
        return lack(parser, len, error);
    if (data[at] == '\t')
        return RN_PARSE_DONE;
    if (data[at] != '\r')
        return refuse_control(data[at], error);
    return rn_http_refuse(error, 400, "CR without LF in the head");
}

enum rn_parse rn_http_head_read(struct rn_http_parser *parser, const char *data, size_t len,
                                struct rn_http_request *request, struct rn_http_error *error)
{
    size_t end = len < RN_HTTP_HEAD_MAX ? len : RN_HTTP_HEAD_MAX;
    size_t at = parser->seen, begin = parser->line;
    enum rn_parse answer;

    for (;;) {
        at = parser->seen = find_control(data, at, end);
        if (end - at < 2 || memcmp(data + at, "\r\n", 2) != 0) {
            answer = heed_control(parser, data, len, end, error);
            if (answer != RN_PARSE_DONE)
                return answer;
            at++;
            continue;
        }
        if (at == begin && at != 0) {
            parser->seen = parser->head_bytes = at + 2;
            return RN_PARSE_DONE;
        }
        struct rn_slice line = {data + begin, at - begin};

        answer = begin == 0 ? rn_http_request_line(parser, line, request, error)
                            : rn_http_header_line(parser, line, request, error);
        if (answer != RN_PARSE_DONE)
            return answer;
        begin = parser->line = at += 2;
    }
}
