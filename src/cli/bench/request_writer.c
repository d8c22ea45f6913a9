/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request template. While it is built, the digits of a key are control characters that
 * occur nowhere else. find_marks() then records where they are.
 */
#include "cli/bench/request_writer.h"

#include <inttypes.h>
#include <string.h>

#include <ration/limit.h>

#include "base/clock.h"
#include "cli/output/output.h"
#include "rules/report/report.h"
#include "wire/json.h"
#include "wire/resp.h"

#define DIGIT_MARK 016 /* this control character and the next nine stand for digits */
#define KEY "key:\16\17\20\21\22\23\24\25\26\27"
/* Six digits, in parts that need no leading zeros: a million addresses. */
#define IP "10.1\22\23.1\24\25.1\26\27"

/* Replaces {key} and {ip} in an attribute by the digits of the key. */
static void put_value(struct rn_buf *out, struct rn_slice value)
{
    for (size_t i = 0; i < value.len;) {
        struct rn_slice rest = {value.data + i, value.len - i};

        if (rn_slice_starts_with(rest, RN_SLICE("{key}"))) {
            rn_buf_put_slice(out, RN_SLICE(KEY));
            i += 5;
        } else if (rn_slice_starts_with(rest, RN_SLICE("{ip}"))) {
            rn_buf_put_slice(out, RN_SLICE(IP));
            i += 4;
        } else {
            rn_buf_put_char(out, value.data[i++]);
        }
    }
}

/* What a request asks. */
struct question {
    enum rn_bench_command command;
    const char *text; /* the limit, */
    struct ration_limit limit;
    const struct ration_attribute *attributes; /* or attributes, for RN_BENCH_CHECK */
    size_t count;
};

static void put_number(struct rn_buf *out, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    rn_resp_put_bulk(out, rn_slice_of(text));
}

/* CL.THROTTLE key max_burst count period: max_burst is the bucket size less one, the period is
 * in whole seconds. False after an error message. */
static bool put_resp(struct rn_buf *out, const struct question *q)
{
    static const char *const names[] = {"CL.THROTTLE", "RATION.CHECK", "RATION.TAKE", "PING"};
    static const size_t words[] = {5, 1, 3, 1};
    const struct ration_limit *l = &q->limit;
    struct rn_buf value = {0};

    rn_resp_put_array(out, words[q->command] + 2 * q->count);
    rn_resp_put_bulk(out, rn_slice_of(names[q->command]));
    for (size_t i = 0; i < q->count; i++) {
        const struct ration_attribute *a = &q->attributes[i];

        rn_buf_clear(&value);
        put_value(&value, (struct rn_slice){a->value, a->value_len});
        rn_resp_put_bulk(out, (struct rn_slice){a->name, a->name_len});
        rn_resp_put_bulk(out, rn_buf_slice(&value));
    }
    rn_buf_done(&value);
    if (q->command == RN_BENCH_CHECK || q->command == RN_BENCH_PING)
        return true;
    rn_resp_put_bulk(out, RN_SLICE(KEY));
    if (q->command == RN_BENCH_TAKE) {
        rn_resp_put_bulk(out, rn_slice_of(q->text));
        return true;
    }
    if (l->algorithm != RATION_TOKEN_BUCKET || l->period_ns % RN_SECOND_NS != 0 || l->amount == 0)
        return rn_output_error(
            "--limit: CL.THROTTLE takes a rate per whole seconds such as \"100 per "
            "minute\"; --command take takes any limit");
    put_number(out, (l->burst != 0 ? l->burst : l->amount) - 1);
    put_number(out, l->amount);
    put_number(out, (uint64_t)(l->period_ns / RN_SECOND_NS));
    return true;
}

static void put_http(struct rn_buf *out, const struct question *q, const char *host)
{
    struct rn_buf body = {0}, value = {0};

    if (q->command == RN_BENCH_PING) {
        rn_buf_putf(out, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", host);
        return;
    }
    if (q->command == RN_BENCH_CHECK)
        rn_buf_put_literal(&body, "{\"attributes\":{");
    else
        rn_buf_put_literal(&body, "{\"key\":\"" KEY "\",\"limit\":");
    for (size_t i = 0; i < q->count; i++) {
        const struct ration_attribute *a = &q->attributes[i];

        rn_buf_clear(&value);
        rn_json_put_string(&value, (struct rn_slice){a->value, a->value_len});
        rn_buf_put(&body, ",", i > 0);
        rn_json_put_string(&body, (struct rn_slice){a->name, a->name_len});
        rn_buf_put_char(&body, ':');
        put_value(&body, rn_buf_slice(&value));
    }
    if (q->command == RN_BENCH_CHECK)
        rn_buf_put_char(&body, '}');
    else
        rn_json_put_string(&body, rn_slice_of(q->text));
    rn_buf_put_char(&body, '}');
    rn_buf_putf(out, "POST /v1/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\n\r\n",
                q->command == RN_BENCH_CHECK ? "check" : "throttle", host, body.len);
    rn_buf_put_slice(out, rn_buf_slice(&body));
    out->failed |= body.failed || value.failed;
    rn_buf_done(&body);
    rn_buf_done(&value);
}

/* --- all --------------------------------------------------------------------------- */

static bool read_command(const char *text, enum rn_bench_command *command)
{
    static const char *const names[] = {"throttle", "check", "take",
                                        "ping"}; /* enum rn_bench_command */

    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            *command = (enum rn_bench_command)i;
            return true;
        }
    }
    const char *meant = rn_suggest(rn_slice_of(text), names, 4);
    return rn_output_error("--command: found %s, expected throttle, check, take or ping%s%s%s",
                           rn_excerpt(rn_slice_of(text)).text,
                           meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "",
                           meant != NULL ? "?" : "");
}

/* Records the positions of the control characters that stand for digits. */
static bool find_marks(struct rn_bench_request *s)
{
    for (size_t i = 0; i < s->request.len; i++) {
        unsigned digit = (unsigned char)s->request.data[i] - (unsigned)DIGIT_MARK;

        if (digit >= RN_BENCH_DIGITS)
            continue;
        if (s->mark_count == RN_BENCH_PLACES)
            return rn_output_error("{key} and {ip} are used too often; use them less");
        s->marks[s->mark_count].at = (uint32_t)i;
        s->marks[s->mark_count++].digit = digit;
        s->request.data[i] = '0';
    }
    return true;
}

bool rn_bench_request_init(struct rn_bench_request *s, const struct rn_options *o, bool http,
                           const char *host)
{
    static const struct ration_attribute usual[] = {{"ip", 2, "{ip}", 4}, {"path", 4, "/", 1}};
    struct question q = {.text = o->limit != NULL ? o->limit : "100 per minute"};
    struct ration_error error;
    bool ok = true;

    *s = (struct rn_bench_request){.http = http};
    if (!read_command(o->load != NULL ? o->load : "throttle", &q.command))
        return false;
    if (ration_limit_parse(q.text, strlen(q.text), &q.limit, &error) != 0)
        return rn_output_error("--limit: %s", error.text);
    if (q.command == RN_BENCH_CHECK) {
        q.attributes = o->attribute_count > 0 ? o->attributes : usual;
        q.count = o->attribute_count > 0 ? o->attribute_count : 2;
    }
    s->command = q.command;
    if (http)
        put_http(&s->request, &q, host);
    else
        ok = put_resp(&s->request, &q);
    if (s->request.failed)
        rn_output_error("out of memory");
    return ok && !s->request.failed && find_marks(s);
}

void rn_bench_request_done(struct rn_bench_request *s)
{
    rn_buf_done(&s->request);
}

void rn_bench_request_write(const struct rn_bench_request *s, uint64_t key, char *out)
{
    char digits[RN_BENCH_DIGITS];

    memcpy(out, s->request.data, s->request.len);
    if (s->mark_count == 0)
        return;
    for (int i = RN_BENCH_DIGITS - 1; i >= 0; i--, key /= 10)
        digits[i] = (char)('0' + key % 10);
    for (uint32_t i = 0; i < s->mark_count; i++)
        out[s->marks[i].at] = digits[s->marks[i].digit];
}
