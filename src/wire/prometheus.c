/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/prometheus.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "rules/report/report.h"
#include "wire/json.h"

/* --- the question ------------------------------------------------------------------------ */

static bool is_plain(char c)
{
    char lower = (char)(c | 0x20);

    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

void rn_prometheus_put_query(struct rn_buf *out, const struct rn_prometheus_query *query)
{
    bool is_v6 = memchr(query->host.data, ':', query->host.len) != NULL;

    rn_buf_put_literal(out, "GET ");
    rn_buf_put_slice(out, query->path);
    rn_buf_put_literal(out, "/api/v1/query?query=");
    for (size_t i = 0; i < query->query.len; i++) {
        char c = query->query.data[i];

        if (is_plain(c))
            rn_buf_put_char(out, c);
        else
            rn_buf_putf(out, "%%%02X", (unsigned char)c);
    }
    rn_buf_putf(out, " HTTP/1.0\r\nHost: %s%.*s%s:%u\r\n", is_v6 ? "[" : "", (int)query->host.len,
                query->host.data, is_v6 ? "]" : "", query->port);
    rn_buf_put_literal(out, "User-Agent: rationd\r\nAccept: application/json\r\n"
                            "Connection: close\r\n\r\n");
}

/* --- the answer ---------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static bool refuse(char problem[RN_PROMETHEUS_PROBLEM],
                                                         const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(problem, RN_PROMETHEUS_PROBLEM, format, arguments);
    va_end(arguments);
    return false;
}

/* What the members of the answer say. */
struct reading {
    struct rn_slice type;  /* resultType */
    struct rn_slice error; /* data NULL: none */
    struct rn_slice value; /* the first one; data NULL: none */
    uint32_t series;
    bool failed; /* "status" is not "success" */
};

/* Skips the rest of the object or list that `token` began, if it did. False: bad JSON. */
static bool skip(struct rn_json *json, const struct rn_json_token *token)
{
    enum rn_json_kind kind = token->kind;
    unsigned depth = kind == RN_JSON_OBJECT || kind == RN_JSON_ARRAY;

    while (depth > 0 && kind != RN_JSON_BAD) {
        kind = rn_json_next(json).kind;
        depth += kind == RN_JSON_OBJECT || kind == RN_JSON_ARRAY;
        depth -= kind == RN_JSON_END;
    }
    return kind != RN_JSON_BAD;
}

/* [time, "value"], after its beginning. */
static bool read_pair(struct rn_json *json, struct reading *r)
{
    struct rn_json_token time = rn_json_next(json), value;

    if (time.kind != RN_JSON_NUMBER)
        return false;
    value = rn_json_next(json);
    if (value.kind != RN_JSON_STRING || rn_json_next(json).kind != RN_JSON_END)
        return false;
    if (r->series++ == 0)
        r->value = value.text;
    return true;
}

/* A list of {"metric": {...}, "value": [time, "value"]}, or such a pair. */
static bool read_result(struct rn_json *json, struct reading *r)
{
    if (rn_slice_is(r->type, "scalar"))
        return read_pair(json, r);
    for (;;) {
        struct rn_json_token series = rn_json_next(json), member;

        if (series.kind == RN_JSON_END)
            return true;
        if (series.kind != RN_JSON_OBJECT)
            return false;
        while ((member = rn_json_next(json)).kind != RN_JSON_END) {
            bool is_value = rn_slice_is(member.name, "value") && member.kind == RN_JSON_ARRAY;

            if (member.kind == RN_JSON_BAD ||
                !(is_value ? read_pair(json, r) : skip(json, &member)))
                return false;
        }
    }
}

/* "data": the type comes before the result. */
static bool read_data(struct rn_json *json, struct reading *r)
{
    struct rn_json_token member;

    while ((member = rn_json_next(json)).kind != RN_JSON_END) {
        bool is_number = rn_slice_is(r->type, "vector") || rn_slice_is(r->type, "scalar");

        if (member.kind == RN_JSON_BAD)
            return false;
        if (rn_slice_is(member.name, "resultType") && member.kind == RN_JSON_STRING)
            r->type = member.text;
        else if (is_number && rn_slice_is(member.name, "result") && member.kind == RN_JSON_ARRAY) {
            if (!read_result(json, r))
                return false;
        } else if (!skip(json, &member)) {
            return false;
        }
    }
    return true;
}

static bool read_body(char *body, size_t len, struct reading *r)
{
    struct rn_json json;
    struct rn_json_token member;

    rn_json_init(&json, body, len);
    if (rn_json_next(&json).kind != RN_JSON_OBJECT)
        return false;
    while ((member = rn_json_next(&json)).kind != RN_JSON_END) {
        if (member.kind == RN_JSON_BAD)
            return false;
        if (rn_slice_is(member.name, "status"))
            r->failed = !rn_slice_is(member.text, "success");
        if (rn_slice_is(member.name, "error") && member.kind == RN_JSON_STRING)
            r->error = member.text;
        if (rn_slice_is(member.name, "data") && member.kind == RN_JSON_OBJECT) {
            if (!read_data(&json, r))
                return false;
        } else if (!skip(&json, &member)) {
            return false;
        }
    }
    return rn_json_next(&json).kind == RN_JSON_END;
}

/* The status and where the body begins; 0: this is no HTTP. */
static unsigned read_head(const char *answer, size_t len, size_t *body)
{
    const char *end = len < 16 ? NULL : memmem(answer, len, "\r\n\r\n", 4);
    unsigned status = 0;

    if (end == NULL || memcmp(answer, "HTTP/1.", 7) != 0 || answer[8] != ' ')
        return 0;
    for (int i = 9; i < 12; i++) {
        if (answer[i] < '0' || answer[i] > '9')
            return 0;
        status = status * 10 + (unsigned)(answer[i] - '0');
    }
    *body = (size_t)(end - answer) + 4;
    return status;
}

bool rn_prometheus_read(char *answer, size_t len, double *value,
                        char problem[RN_PROMETHEUS_PROBLEM])
{
    struct reading r = {.type = RN_SLICE("")};
    struct rn_decimal number;
    size_t body = 0;
    unsigned status = len == 0 ? 1 : read_head(answer, len, &body);
    char copy[64];

    if (len == 0)
        return refuse(problem, "the connection was closed without an answer");
    if (status == 0)
        return refuse(problem, "the answer is not HTTP, or was cut off");
    if (status >= 300 && status < 400)
        return refuse(problem, "status %u: redirects are not followed; write the url it leads to",
                      status);
    bool readable = read_body(answer + body, len - body, &r);

    if (readable && r.error.data != NULL)
        return refuse(problem, "Prometheus refuses the query: %s", rn_excerpt(r.error).text);
    if (status != 200)
        return refuse(problem, "status %u", status);
    if (!readable || r.failed)
        return refuse(problem, "the answer is not that of a Prometheus, or was cut off");
    if (!rn_slice_is(r.type, "vector") && !rn_slice_is(r.type, "scalar"))
        return refuse(problem, "the query yields a %s; write one that yields a number",
                      rn_excerpt(r.type).text);
    if (r.series == 0)
        return refuse(problem, "the query yields nothing");
    if (r.series > 1)
        return refuse(problem, "the query yields %u values; write for example sum(...) or max(...)",
                      r.series);
    if (r.value.len >= sizeof copy || !rn_decimal_parse(r.value, &number))
        return refuse(problem, "the query yields %s, which is not a number",
                      rn_excerpt(r.value).text);
    rn_slice_copy(copy, sizeof copy, r.value);
    *value = strtod(copy, NULL);
    return true;
}
