/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the head of a request line by line. A line is parsed as soon as it has ended, so that
 * anything but HTTP is refused before the head is complete.
 */
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "wire/http_internal.h"

/* The offset of the first control byte from `at` on; `end` if there is none. */
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
    while (at < end && (unsigned char)data[at] >= 0x20 && data[at] != 0x7f)
        at++;
    return at;
}

/* Handles a byte at parser->seen that does not begin CR LF: a tab, the end of the data, or a byte
 * that no client may send. */
static enum rn_parse heed_control(struct rn_http_parser *parser, const char *data, size_t len,
                                  size_t end, struct rn_http_error *error)
{
    size_t at = parser->seen;

    if (at == end || (data[at] == '\r' && at + 1 == end)) {
        parser->need = len + 1;
        if (len < RN_HTTP_HEAD_MAX)
            return RN_PARSE_MORE;
        return parser->line == 0
                   ? rn_http_refuse(error, 414, "the target is longer than 8192 bytes")
                   : rn_http_refuse(error, 431, "the head is longer than 16384 bytes");
    }
    if (data[at] == '\t')
        return RN_PARSE_DONE;
    if (data[at] == '\n')
        return rn_http_refuse(error, 400, "a line ends with LF alone: it must end with CR LF");
    return rn_http_refuse(
        error, 400, data[at] == '\r' ? "CR without LF in the head" : "control byte in the head");
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
