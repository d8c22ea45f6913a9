/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a Prometheus, and every answer that a server might give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/prometheus.h"

#define OK "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"
#define VECTOR(result)                                                                             \
    OK "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" result "]}}"
#define SERIES(value) "{\"metric\":{\"job\":\"a\"},\"value\":[1435781451.781,\"" value "\"]}"

/* NULL: understood, and the value is set. */
static const char *problem_of(const char *answer, double *value)
{
    static char problem[RN_PROMETHEUS_PROBLEM];
    char *copy = strdup(answer);
    bool ok = rn_prometheus_read(copy, strlen(answer), value, problem);

    free(copy);
    return ok ? NULL : problem;
}

static void expect_number(const char *answer, double expected)
{
    double value = -1;

    assert_null(problem_of(answer, &value));
    assert_true(value == expected);
}

static void expect_problem(const char *answer, const char *problem)
{
    double value = 0;
    const char *found = problem_of(answer, &value);

    assert_non_null(found);
    assert_string_equal(found, problem);
}

static void the_question_is_escaped(void **state)
{
    struct rn_buf out = {0};
    const struct rn_prometheus_query v6 = {RN_SLICE("::1"), 9090, RN_SLICE("/prom"),
                                           RN_SLICE("a{b=\"c d\"}+1\n")};

    (void)state;
    rn_prometheus_put_query(&out, &v6);
    rn_buf_put_char(&out, '\0');
    assert_string_equal(out.data,
                        "GET /prom/api/v1/query?query=a%7Bb%3D%22c%20d%22%7D%2B1%0A HTTP/1.0\r\n"
                        "Host: [::1]:9090\r\nUser-Agent: rationd\r\nAccept: application/json\r\n"
                        "Connection: close\r\n\r\n");
    rn_buf_done(&out);
}

static void vectors_of_one_and_scalars_are_numbers(void **state)
{
    (void)state;
    expect_number(VECTOR(SERIES("0.75")), 0.75);
    expect_number(VECTOR(SERIES("-3e2")), -300);
    expect_number(OK "{\"data\":{\"resultType\":\"scalar\",\"result\":[1.5,\"7\"]},\"status\":"
                     "\"success\",\"warnings\":[\"x\"]}",
                  7);
}

static void every_other_answer_has_its_sentence(void **state)
{
    static const char garbage[] = "the answer is not that of a Prometheus, or was cut off";

    (void)state;
    expect_problem("", "the connection was closed without an answer");
    expect_problem("hello", "the answer is not HTTP, or was cut off");
    expect_problem("HTTP/1.0 200 OK\r\nContent-Type", "the answer is not HTTP, or was cut off");
    expect_problem("SSH-2.0-OpenSSH_9.2p1 Debian\r\n\r\n",
                   "the answer is not HTTP, or was cut off");
    expect_problem(OK, garbage);
    expect_problem(OK "<html>", garbage);
    expect_problem(OK "{}x", garbage);
    expect_problem(OK "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{",
                   garbage);
    expect_problem(
        OK "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[7]}}", garbage);
    expect_problem(VECTOR(""), "the query yields nothing");
    expect_problem(VECTOR(SERIES("1") "," SERIES("2")),
                   "the query yields 2 values; write for example sum(...) or max(...)");
    expect_problem(VECTOR(SERIES("NaN")), "the query yields \"NaN\", which is not a number");
    expect_problem(VECTOR(SERIES("+Inf")), "the query yields \"+Inf\", which is not a number");
    expect_problem(VECTOR(SERIES("0x10")), "the query yields \"0x10\", which is not a number");
    expect_problem(OK "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[]}}",
                   "the query yields a \"matrix\"; write one that yields a number");
    expect_problem(
        "HTTP/1.1 400 Bad Request\r\n\r\n{\"status\":\"error\",\"errorType\":\"bad_data\","
        "\"error\":\"parse error: \\n unexpected end\"}",
        "Prometheus refuses the query: \"parse error: \\x0a unexpected end\"");
    expect_problem("HTTP/1.1 503 Service Unavailable\r\n\r\noops", "status 503");
    expect_problem("HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n",
                   "status 301: redirects are not followed; write the url it leads to");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_question_is_escaped),
        cmocka_unit_test(vectors_of_one_and_scalars_are_numbers),
        cmocka_unit_test(every_other_answer_has_its_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
