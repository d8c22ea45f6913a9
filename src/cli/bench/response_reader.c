/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of servers under load. Bytes are looked at once, as they come.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/bench/request_writer.h"

#define HEAD_MAX 16384 /* bytes of an HTTP head, or of a line of RESP */
#define ABSURD (UINT64_C(1) << 40)

/* --- RESP -------------------------------------------------------------------------- */

/* Digits up to CR LF; `end` is the CR. Something negative (null) is 0; something absurd is large,
 * and never so large that a sum with it would overflow. */
static uint64_t read_number(const char *at, const char *end)
{
    uint64_t n = 0;

    if (at < end && *at == '-')
        return 0;
    for (; at < end && *at >= '0' && *at <= '9' && n < ABSURD; at++)
        n = n * 10 + (uint64_t)(*at - '0');
    return n;
}

/* What one value says about the whole answer: an error as such; else of a list of numbers
 * (CL.THROTTLE) the first, which is 0 if allowed; of pairs (allowed, 1, ...) the second. */
static enum rn_bench_result judge(const struct rn_bench_request *s,
                                  const struct rn_bench_response *l, const char *line)
{
    if (l->index == 0 && line[0] == '-')
        return RN_BENCH_ERROR;
    if (s->load == RN_BENCH_PING)
        return RN_BENCH_ALLOWED;
    if (l->index == 1 && line[0] == ':' && s->load == RN_BENCH_THROTTLE)
        return line[1] == '0' ? RN_BENCH_ALLOWED : RN_BENCH_REFUSED;
    if (l->index == 2 && line[0] == ':' && s->load != RN_BENCH_THROTTLE)
        return line[1] == '1' ? RN_BENCH_ALLOWED : RN_BENCH_REFUSED;
    return RN_BENCH_MORE;
}

/* One value, a list without its members. How many bytes; 0: not complete. */
static size_t take_value(const struct rn_bench_request *s, struct rn_bench_response *l,
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
    if (l->verdict == RN_BENCH_MORE)
        l->verdict = judge(s, l, at);
    l->left += at[0] == '*' ? number : at[0] == '%' ? 2 * number : 0;
    l->left--;
    l->index++;
    return bytes;
}

static enum rn_bench_result hear_resp(const struct rn_bench_request *s, struct rn_bench_response *l,
                                      const char *data, size_t len, size_t *used)
{
    enum rn_bench_result verdict;

    if (l->index == 0)
        l->left = 1;
    for (*used = 0; *used < len && l->left > 0;) {
        size_t taken;

        if (data[*used] == 0 || strchr("+-:$*%_#,(", data[*used]) == NULL || l->left > HEAD_MAX)
            return RN_BENCH_FOREIGN;
        taken = take_value(s, l, data + *used, len - *used);
        if (taken == 0)
            return len - *used > HEAD_MAX ? RN_BENCH_FOREIGN : RN_BENCH_MORE;
        *used += taken;
    }
    if (l->left > 0)
        return RN_BENCH_MORE;
    verdict = l->verdict == RN_BENCH_MORE ? RN_BENCH_ERROR : l->verdict;
    *l = (struct rn_bench_response){.left = 0};
    return verdict;
}

/* --- HTTP -------------------------------------------------------------------------- */

/* The number behind Content-Length; SIZE_MAX: there is none. */
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

static enum rn_bench_result hear_head(struct rn_bench_response *l, const char *data, size_t len,
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
    l->verdict = data[9] == '2' ? RN_BENCH_ALLOWED : RN_BENCH_ERROR;
    l->left = body;
    l->in_body = true;
    *used = head;
    return RN_BENCH_MORE;
}

/* A rule may refuse with any status; its body says so first. */
static enum rn_bench_result hear_http(struct rn_bench_response *l, const char *data, size_t len,
                                      size_t *used)
{
    static const char refusal[] = "{\"allowed\":false";
    enum rn_bench_result verdict;
    size_t body;

    *used = 0;
    if (!l->in_body) {
        verdict = hear_head(l, data, len, used);
        if (verdict != RN_BENCH_MORE || !l->in_body)
            return verdict;
    }
    if (len - *used < l->left)
        return RN_BENCH_MORE;
    body = (size_t)l->left;
    if (l->verdict == RN_BENCH_ERROR && body >= sizeof refusal &&
        memcmp(data + *used, refusal, sizeof refusal - 1) == 0)
        l->verdict = RN_BENCH_REFUSED;
    *used += body;
    verdict = l->verdict;
    *l = (struct rn_bench_response){.left = 0};
    return verdict;
}

enum rn_bench_result rn_bench_response_read(const struct rn_bench_request *s,
                                            struct rn_bench_response *l, const char *data,
                                            size_t len, size_t *used)
{
    *used = 0;
    if (len == 0)
        return RN_BENCH_MORE;
    return s->http ? hear_http(l, data, len, used) : hear_resp(s, l, data, len, used);
}
