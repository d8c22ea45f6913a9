/* SPDX-License-Identifier: Apache-2.0 */
/* Answers under load, in pieces of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/bench/request_writer.h"

#define MOST 8

/* Gives the text in pieces of `piece` bytes, keeping what was not taken, as a
 * connection does. Returns how many answers there were. */
static size_t hear(const struct rn_bench_request *speech, const char *text, size_t piece,
                   enum rn_bench_result heard[MOST])
{
    struct rn_bench_response listener = {0};
    size_t len = strlen(text), from = 0, count = 0;

    for (size_t given = 0; given < len;) {
        given = given + piece < len ? given + piece : len;
        while (from < given) {
            size_t used;
            enum rn_bench_result what =
                rn_bench_response_read(speech, &listener, text + from, given - from, &used);

            from += used;
            if (what == RN_BENCH_MORE)
                break;
            assert_true(count < MOST);
            heard[count++] = what;
            if (what == RN_BENCH_FOREIGN)
                return count;
        }
    }
    assert_int_equal(from, len);
    return count;
}

static void expect(const struct rn_bench_request *speech, const char *text, const enum rn_bench_result *wanted,
                   size_t count)
{
    enum rn_bench_result heard[MOST];

    for (size_t piece = 1; piece <= strlen(text); piece++) {
        assert_int_equal(hear(speech, text, piece, heard), count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(heard[i], wanted[i]);
    }
}

static const enum rn_bench_result yes_no_error[] = {RN_BENCH_ALLOWED, RN_BENCH_REFUSED, RN_BENCH_ERROR};

static void cl_throttle_is_told_by_the_first_number(void **state)
{
    struct rn_bench_request speech = {.load = RN_BENCH_THROTTLE};

    (void)state;
    expect(&speech,
           "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n"
           "*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:2\r\n"
           "-ERR unknown command\r\n",
           yes_no_error, 3);
}

static void decisions_are_told_by_the_value_of_allowed(void **state)
{
    struct rn_bench_request speech = {.load = RN_BENCH_TAKE};

    (void)state;
    expect(&speech,
           "*8\r\n$7\r\nallowed\r\n:1\r\n$4\r\nrule\r\n$-1\r\n$11\r\nreset_after\r\n$3\r\n0.6\r\n"
           "$6\r\nlimits\r\n*1\r\n*2\r\n$5\r\nlimit\r\n:0\r\n"
           "*4\r\n$7\r\nallowed\r\n:0\r\n$4\r\nrule\r\n$4\r\n\r\n:1\r\n"
           "-NOAUTH Authentication required.\r\n",
           yes_no_error, 3);
}

static void http_is_told_by_status_and_body(void **state)
{
    struct rn_bench_request speech = {.http = true, .load = RN_BENCH_CHECK};

    (void)state;
    expect(&speech,
           "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n"
           "{\"allowed\":true}"
           "HTTP/1.1 403 Forbidden\r\ncontent-length:   20\r\nX: y\r\n\r\n{\"allowed\":false,..}"
           "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}",
           yes_no_error, 3);
}

static void an_empty_body_ends_an_answer(void **state)
{
    struct rn_bench_request speech = {.http = true, .load = RN_BENCH_PING};

    (void)state;
    expect(&speech, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", yes_no_error, 1);
}

static void a_stranger_is_noticed(void **state)
{
    static const enum rn_bench_result foreign[] = {RN_BENCH_FOREIGN};
    struct rn_bench_request http = {.http = true}, resp = {.load = RN_BENCH_PING};

    (void)state;
    expect(&http, "-ERR unknown command\r\n", foreign, 1);
    expect(&resp, "HTTP/1.1 400 Bad Request\r\n", foreign, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cl_throttle_is_told_by_the_first_number),
        cmocka_unit_test(decisions_are_told_by_the_value_of_allowed),
        cmocka_unit_test(http_is_told_by_status_and_body),
        cmocka_unit_test(an_empty_body_ends_an_answer),
        cmocka_unit_test(a_stranger_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
