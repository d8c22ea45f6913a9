/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies answers of a server under load, one complete answer at a time.
 */
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "cli/bench/request_writer.h"
#include "wire/resp_reply.h"

#define HEAD_MAX 16384 /* bytes of an HTTP head */

/* CL.THROTTLE answers a list of numbers: the first is 0 if allowed. Our commands answer pairs:
 * allowed, 1, ... */
static enum rn_bench_result read_resp(enum rn_bench_command command, const char *data, size_t len,
                                      size_t *used)
{
    int place = command == RN_BENCH_PING ? 0 : command == RN_BENCH_THROTTLE ? 1 : 2;
    enum rn_parse complete = rn_resp_reply_skip(data, len, used);
    struct rn_resp_reply value;
    size_t at = 0;

    if (complete != RN_PARSE_DONE)
        return complete == RN_PARSE_BAD ? RN_BENCH_FOREIGN : RN_BENCH_MORE;
    for (int i = 0; i <= place; i++)
        if (rn_resp_reply_next(data, *used, &at, &value) != RN_PARSE_DONE ||
            value.kind == RN_RESP_REPLY_ERROR)
            return RN_BENCH_ERROR;
    if (place == 0)
        return RN_BENCH_ALLOWED;
    if (value.kind != RN_RESP_REPLY_INTEGER)
        return RN_BENCH_ERROR;
    return value.number == (place == 1 ? 0 : 1) ? RN_BENCH_ALLOWED : RN_BENCH_REFUSED;
}

/* A rule may refuse with any status; the body of a refusal starts with `refusal`. */
static enum rn_bench_result read_http(const char *data, size_t len, size_t *used)
{
    static const char refusal[] = "{\"allowed\":false";
    const char *end = memmem(data, len, "\r\n\r\n", 4), *line = data;
    size_t head = end == NULL ? 0 : (size_t)(end - data) + 4, at;
    uint64_t body;

    if (memcmp(data, "HTTP/1.1 ", len < 9 ? len : 9) != 0 || (end == NULL && len > HEAD_MAX))
        return RN_BENCH_FOREIGN;
    if (end == NULL)
        return RN_BENCH_MORE;
    while (strncasecmp(line, "content-length:", 15) != 0)
        if ((line = (const char *)memchr(line, '\n', (size_t)(end + 2 - line)) + 1) == end + 2)
            return RN_BENCH_FOREIGN;
    at = (size_t)(line + 15 - data);
    while (at < head && data[at] == ' ')
        at++;
    if (rn_number_parse(data, head, &at, &body, NULL) != 0)
        return RN_BENCH_FOREIGN;
    if (len - head < body)
        return RN_BENCH_MORE;
    *used = head + body;
    if (data[9] == '2')
        return RN_BENCH_ALLOWED;
    return body >= sizeof refusal && memcmp(data + head, refusal, sizeof refusal - 1) == 0
               ? RN_BENCH_REFUSED
               : RN_BENCH_ERROR;
}

enum rn_bench_result rn_bench_response_read(const struct rn_bench_request *request,
                                            const char *data, size_t len, size_t *used)
{
    *used = 0;
    if (len == 0)
        return RN_BENCH_MORE;
    return request->http ? read_http(data, len, used)
                         : read_resp(request->command, data, len, used);
}
