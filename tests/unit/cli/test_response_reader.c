/* SPDX-License-Identifier: Apache-2.0 */
/* Answers under load, in pieces of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/bench/request_writer.h"

#define MOST 8

/* Gives the text in pieces of `piece` bytes, keeping those that were not taken, as a
 * connection does. Returns how many answers there were. */
static size_t read_all(const struct rn_bench_request *request, const char *text, size_t piece,
                       enum rn_bench_result results[MOST])
{
    size_t len = strlen(text), from = 0, count = 0;

    for (size_t given = 0; given < len;) {
        given = given + piece < len ? given + piece : len;
        while (from < given) {
            size_t used;
            enum rn_bench_result result =
                rn_bench_response_read(request, text + from, given - from, &used);

            from += used;
            if (result == RN_BENCH_MORE)
                break;
            assert_true(count < MOST);
            results[count++] = result;
            if (result == RN_BENCH_FOREIGN)
                return count;
        }
    }
    assert_int_equal(from, len);
    return count;
}

static void expect(const struct rn_bench_request *request, const char *text,
                   const enum rn_bench_result *wanted, size_t count)
{
    enum rn_bench_result results[MOST];

    for (size_t piece = 1; piece <= strlen(text); piece++) {
        assert_int_equal(read_all(request, text, piece, results), count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(results[i], wanted[i]);
    }
}

static const enum rn_bench_result yes_no_error[] = {RN_BENCH_ALLOWED, RN_BENCH_REFUSED,
                                                    RN_BENCH_ERROR};

static void the_first_number_of_cl_throttle_is_the_decision(void **state)
{
    struct rn_bench_request request = {.command = RN_BENCH_THROTTLE};

    (void)state;
    expect(&request,
           "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n"
           "*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:2\r\n"
           "-ERR unknown command\r\n",
           yes_no_error, 3);
}

static void the_value_of_allowed_is_the_decision(void **state)
{
    struct rn_bench_request request = {.command = RN_BENCH_TAKE};

    (void)state;
    expect(&request,
           "*8\r\n$7\r\nallowed\r\n:1\r\n$4\r\nrule\r\n$-1\r\n$11\r\nreset_after\r\n$3\r\n0.6\r\n"
           "$6\r\nlimits\r\n*1\r\n*2\r\n$5\r\nlimit\r\n:0\r\n"
           "*4\r\n$7\r\nallowed\r\n:0\r\n$4\r\nrule\r\n$4\r\n\r\n:1\r\n"
           "-NOAUTH Authentication required.\r\n",
           yes_no_error, 3);
}

static void http_status_and_body_are_the_decision(void **state)
{
    struct rn_bench_request request = {.http = true, .command = RN_BENCH_CHECK};

    (void)state;
    expect(&request,
           "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n"
           "{\"allowed\":true}"
           "HTTP/1.1 403 Forbidden\r\ncontent-length:   20\r\nX: y\r\n\r\n{\"allowed\":false,..}"
           "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}",
           yes_no_error, 3);
}

static void an_empty_body_completes_an_answer(void **state)
{
    struct rn_bench_request request = {.http = true, .command = RN_BENCH_PING};

    (void)state;
    expect(&request, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", yes_no_error, 1);
}

static void another_protocol_is_recognised(void **state)
{
    static const enum rn_bench_result foreign[] = {RN_BENCH_FOREIGN};
    struct rn_bench_request http = {.http = true}, resp = {.command = RN_BENCH_PING};

    (void)state;
    expect(&http, "-ERR unknown command\r\n", foreign, 1);
    expect(&resp, "HTTP/1.1 400 Bad Request\r\n", foreign, 1);
}

/* Each head ends where its memory does, so that a read beyond it is seen. */
static void a_length_that_is_no_number_is_not_http(void **state)
{
    static const char *const lengths[] = {"", " ", "-1", "+2", "x", "99999999999999999999"};
    struct rn_bench_request http = {.http = true};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char *text = NULL;
        int len = asprintf(&text, "HTTP/1.1 200 OK\r\nContent-Length:%s\r\n\r\n", lengths[i]);
        char *exact = malloc((size_t)len);
        size_t used;

        memcpy(exact, text, (size_t)len);
        assert_int_equal(rn_bench_response_read(&http, exact, (size_t)len, &used),
                         RN_BENCH_FOREIGN);
        free(exact);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_number_of_cl_throttle_is_the_decision),
        cmocka_unit_test(the_value_of_allowed_is_the_decision),
        cmocka_unit_test(http_status_and_body_are_the_decision),
        cmocka_unit_test(an_empty_body_completes_an_answer),
        cmocka_unit_test(another_protocol_is_recognised),
        cmocka_unit_test(a_length_that_is_no_number_is_not_http),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
