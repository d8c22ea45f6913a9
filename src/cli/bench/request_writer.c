/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request template. While it is built, the digits of a key are control characters that
 * occur nowhere else. find_marks() then records where they are.
 */
#include "cli/bench/request_writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include <ration/limit.h>

#include "base/clock.h"
#include "cli/output/output.h"
#include "rules/report/report.h"
#include "wire/json.h"

#define DIGIT_MARK 016 /* this control character and the next nine stand for digits */
#define KEY "key:\16\17\20\21\22\23\24\25\26\27"
/* Six digits, in parts that need no leading zeros: a million addresses. */
#define IP "10.1\22\23.1\24\25.1\26\27"

/* --- parts ------------------------------------------------------------------------- */

static void put_word(struct rn_buf *out, struct rn_slice word)
{
    rn_buf_putf(out, "$%zu\r\n", word.len);
    rn_buf_put_slice(out, word);
    rn_buf_put_literal(out, "\r\n");
}

static void put_words(struct rn_buf *out, size_t count, ...)
{
    va_list args;

    rn_buf_putf(out, "*%zu\r\n", count);
    va_start(args, count);
    for (size_t i = 0; i < count; i++)
        put_word(out, rn_slice_of(va_arg(args, const char *)));
    va_end(args);
}

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

static struct rn_slice name_of(const struct ration_attribute *a)
{
    return (struct rn_slice){a->name, a->name_len};
}

/* --- RESP -------------------------------------------------------------------------- */

static void put_resp_check(struct rn_buf *out, const struct ration_attribute *attributes,
                           size_t count)
{
    struct rn_buf value = {0};

    rn_buf_putf(out, "*%zu\r\n", 1 + 2 * count);
    put_word(out, RN_SLICE("RATION.CHECK"));
    for (size_t i = 0; i < count; i++) {
        rn_buf_clear(&value);
        put_value(&value, (struct rn_slice){attributes[i].value, attributes[i].value_len});
        put_word(out, name_of(&attributes[i]));
        put_word(out, rn_buf_slice(&value));
    }
    rn_buf_done(&value);
}

/* CL.THROTTLE key max_burst count period: max_burst is the bucket size less one, the period is
 * in whole seconds. */
static bool put_resp_throttle(struct rn_buf *out, const struct ration_limit *limit)
{
    char burst[24], amount[24], period[24];

    if (limit->algorithm != RATION_TOKEN_BUCKET || limit->period_ns % RN_SECOND_NS != 0 ||
        limit->amount == 0) {
        rn_output_error("--limit: CL.THROTTLE takes a rate per whole seconds such as \"100 per "
                        "minute\"; --command take takes any limit");
        return false;
    }
    snprintf(burst, sizeof burst, "%" PRIu64,
             (limit->burst != 0 ? limit->burst : limit->amount) - 1);
    snprintf(amount, sizeof amount, "%" PRIu64, limit->amount);
    snprintf(period, sizeof period, "%" PRId64, limit->period_ns / RN_SECOND_NS);
    put_words(out, 5, "CL.THROTTLE", KEY, burst, amount, period);
    return true;
}

/* --- HTTP -------------------------------------------------------------------------- */

static void put_http_body(struct rn_buf *body, enum rn_bench_command command, const char *limit,
                          const struct ration_attribute *attributes, size_t count)
{
    struct rn_buf value = {0};

    if (command != RN_BENCH_CHECK) {
        rn_buf_put_literal(body, "{\"key\":\"" KEY "\",\"limit\":");
        rn_json_put_string(body, rn_slice_of(limit));
        rn_buf_put_char(body, '}');
        return;
    }
    rn_buf_put_literal(body, "{\"attributes\":{");
    for (size_t i = 0; i < count; i++) {
        rn_buf_clear(&value);
        rn_json_put_string(&value, (struct rn_slice){attributes[i].value, attributes[i].value_len});
        rn_buf_put(body, ",", i > 0);
        rn_json_put_string(body, name_of(&attributes[i]));
        rn_buf_put_char(body, ':');
        put_value(body, rn_buf_slice(&value));
    }
    rn_buf_put_literal(body, "}}");
    rn_buf_done(&value);
}

static void put_http(struct rn_bench_request *s, const char *host, const char *limit,
                     const struct ration_attribute *attributes, size_t count)
{
    struct rn_buf body = {0};

    if (s->command == RN_BENCH_PING) {
        rn_buf_putf(&s->request, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", host);
        return;
    }
    put_http_body(&body, s->command, limit, attributes, count);
    rn_buf_putf(&s->request, "POST /v1/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %zu\r\n\r\n",
                s->command == RN_BENCH_CHECK ? "check" : "throttle", host, body.len);
    rn_buf_put_slice(&s->request, rn_buf_slice(&body));
    s->request.failed |= body.failed;
    rn_buf_done(&body);
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
    rn_output_error("--command: found %s, expected throttle, check, take or ping%s%s%s",
                    rn_excerpt(rn_slice_of(text)).text, meant != NULL ? "; did you mean " : "",
                    meant != NULL ? meant : "", meant != NULL ? "?" : "");
    return false;
}

/* Records the positions of the control characters that stand for digits. */
static bool find_marks(struct rn_bench_request *s)
{
    for (size_t i = 0; i < s->request.len; i++) {
        unsigned digit = (unsigned char)s->request.data[i] - (unsigned)DIGIT_MARK;

        if (digit >= RN_BENCH_DIGITS)
            continue;
        if (s->mark_count == RN_BENCH_PLACES) {
            rn_output_error("{key} and {ip} are used too often; use them less");
            return false;
        }
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
    const struct ration_attribute *attributes = o->attribute_count > 0 ? o->attributes : usual;
    size_t count = o->attribute_count > 0 ? o->attribute_count : 2;
    const char *text = o->limit != NULL ? o->limit : "100 per minute";
    struct ration_limit limit;
    struct ration_error error;

    *s = (struct rn_bench_request){.http = http};
    if (!read_command(o->load != NULL ? o->load : "throttle", &s->command))
        return false;
    if (ration_limit_parse(text, strlen(text), &limit, &error) != 0) {
        rn_output_error("--limit: %s", error.text);
        return false;
    }
    if (http)
        put_http(s, host, text, attributes, count);
    else if (s->command == RN_BENCH_PING)
        put_words(&s->request, 1, "PING");
    else if (s->command == RN_BENCH_TAKE)
        put_words(&s->request, 3, "RATION.TAKE", KEY, text);
    else if (s->command == RN_BENCH_CHECK)
        put_resp_check(&s->request, attributes, count);
    else if (!put_resp_throttle(&s->request, &limit))
        return false;
    if (s->request.failed)
        rn_output_error("out of memory");
    return !s->request.failed && find_marks(s);
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
