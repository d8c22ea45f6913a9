/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads answers of a server under load, each byte once.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/bench/request_writer.h"

#define HEAD_MAX 16384 /* bytes of an HTTP head, or of a line of RESP */
#define ABSURD (UINT64_C(1) << 40)

/* --- RESP -------------------------------------------------------------------------- */

/* Digits before `end`. A negative number (null) reads as 0. A huge number reads as one that is
 * huge, but small enough that a sum with it does not overflow. */
static uint64_t read_number(const char *at, const char *end)
{
    uint64_t n = 0;

    if (at < end && *at == '-')
        return 0;
    for (; at < end && *at >= '0' && *at <= '9' && n < ABSURD; at++)
        n = n * 10 + (uint64_t)(*at - '0');
    return n;
}

/* What one value says about the whole answer. An error is an error. CL.THROTTLE answers a list
 * of numbers: the first is 0 if allowed. Our commands answer pairs (allowed, 1, ...). */
static enum rn_bench_result classify(const struct rn_bench_request *s,
                                     const struct rn_bench_response *r, const char *line)
{
    if (r->index == 0 && line[0] == '-')
        return RN_BENCH_ERROR;
    if (s->command == RN_BENCH_PING)
        return RN_BENCH_ALLOWED;
    if (r->index == 1 && line[0] == ':' && s->command == RN_BENCH_THROTTLE)
        return line[1] == '0' ? RN_BENCH_ALLOWED : RN_BENCH_REFUSED;
    if (r->index == 2 && line[0] == ':' && s->command != RN_BENCH_THROTTLE)
        return line[1] == '1' ? RN_BENCH_ALLOWED : RN_BENCH_REFUSED;
    return RN_BENCH_MORE;
}

/* Reads one value; of a list, only its head. Returns its bytes; 0: not complete. */
static size_t take_value(const struct rn_bench_request *s, struct rn_bench_response *r,
                         const char *at, size_t len)
{
    const char *end = memchr(at, '\r', len);
    size_t bytes = end == NULL ? 0 : (size_t)(end - at) + 2;
    uint64_t number;

    if (end == NULL || bytes > len)
        return 0;
    number = at[0] == '$' || at[0] == '*' || at[0] == '%' ? read_number(at + 1, end) : 0;
    if (at[0] == '$' && at[1] != '-') {
        bytes += number + 2;
        if (bytes > len)
            return 0;
    }
    if (r->result == RN_BENCH_MORE)
        r->result = classify(s, r, at);
    r->left += at[0] == '*' ? number : at[0] == '%' ? 2 * number : 0;
    r->left--;
    r->index++;
    return bytes;
}

static enum rn_bench_result read_resp(const struct rn_bench_request *s, struct rn_bench_response *r,
                                      const char *data, size_t len, size_t *used)
{
    enum rn_bench_result result;

    if (r->index == 0)
        r->left = 1;
    for (*used = 0; *used < len && r->left > 0;) {
        size_t taken;

        if (data[*used] == 0 || strchr("+-:$*%_#,(", data[*used]) == NULL || r->left > HEAD_MAX)
            return RN_BENCH_FOREIGN;
        taken = take_value(s, r, data + *used, len - *used);
        if (taken == 0)
            return len - *used > HEAD_MAX ? RN_BENCH_FOREIGN : RN_BENCH_MORE;
        *used += taken;
    }
    if (r->left > 0)
        return RN_BENCH_MORE;
    result = r->result == RN_BENCH_MORE ? RN_BENCH_ERROR : r->result;
    *r = (struct rn_bench_response){.left = 0};
    return result;
}

/* --- HTTP -------------------------------------------------------------------------- */

/* The value of Content-Length; SIZE_MAX: none. */
static size_t find_length(const char *head, size_t len)
{
    const char *at = head, *end = head + len;

    while ((at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        at++;
        if (end - at > 15 && strncasecmp(at, "content-length:", 15) == 0)
            return (size_t)read_number(at + 15 + strspn(at + 15, " "), end);
    }
    return SIZE_MAX;
}

static enum rn_bench_result read_head(struct rn_bench_response *r, const char *data, size_t len,
                                      size_t *used)
{
    const char *end = memmem(data, len, "\r\n\r\n", 4);
    size_t head = end == NULL ? 0 : (size_t)(end - data) + 4;
    size_t body = head == 0 ? SIZE_MAX : find_length(data, head);

    if (memcmp(data, "HTTP/1.1 ", len < 9 ? len : 9) != 0 || len > HEAD_MAX + head)
        return RN_BENCH_FOREIGN;
    if (head == 0)
        return RN_BENCH_MORE;
    if (head < 16 || body == SIZE_MAX)
        return RN_BENCH_FOREIGN;
    r->result = data[9] == '2' ? RN_BENCH_ALLOWED : RN_BENCH_ERROR;
    r->left = body;
    r->in_body = true;
    *used = head;
    return RN_BENCH_MORE;
}

/* A rule may refuse with any status; the body of a refusal starts with `refusal`. */
static enum rn_bench_result read_http(struct rn_bench_response *r, const char *data, size_t len,
                                      size_t *used)
{
    static const char refusal[] = "{\"allowed\":false";
    enum rn_bench_result result;
    size_t body;

    *used = 0;
    if (!r->in_body) {
        result = read_head(r, data, len, used);
        if (result != RN_BENCH_MORE || !r->in_body)
            return result;
    }
    if (len - *used < r->left)
        return RN_BENCH_MORE;
    body = (size_t)r->left;
    if (r->result == RN_BENCH_ERROR && body >= sizeof refusal &&
        memcmp(data + *used, refusal, sizeof refusal - 1) == 0)
        r->result = RN_BENCH_REFUSED;
    *used += body;
    result = r->result;
    *r = (struct rn_bench_response){.left = 0};
    return result;
}

enum rn_bench_result rn_bench_response_read(const struct rn_bench_request *s,
                                            struct rn_bench_response *r, const char *data,
                                            size_t len, size_t *used)
{
    *used = 0;
    if (len == 0)
        return RN_BENCH_MORE;
    return s->http ? read_http(r, data, len, used) : read_resp(s, r, data, len, used);
}
