/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "wire/resp_reply.h"

/* A copy without a byte to spare, so that the sanitizer sees a read behind it. */
static enum rn_parse pass(const char *text, size_t len, size_t *at)
{
    char *copy = malloc(len > 0 ? len : 1);
    enum rn_parse answer;

    memcpy(copy, text, len);
    *at = 0;
    answer = rn_resp_reply_skip(copy, len, at);
    free(copy);
    return answer;
}

static enum rn_parse pass_text(const char *text)
{
    size_t at;

    return pass(text, strlen(text), &at);
}

static struct rn_resp_reply one(const char *text)
{
    struct rn_resp_reply value = {.number = 0};
    size_t at = 0;

    assert_int_equal(rn_resp_reply_next(text, strlen(text), &at, &value), RN_PARSE_DONE);
    assert_int_equal(at, strlen(text));
    return value;
}

static void each_kind_is_read(void **state)
{
    (void)state;
    assert_int_equal(one("+OK\r\n").kind, RN_RESP_REPLY_SIMPLE);
    assert_true(rn_slice_is(one("+OK\r\n").text, "OK"));
    assert_int_equal(one("-ERR no\r\n").kind, RN_RESP_REPLY_ERROR);
    assert_true(rn_slice_is(one("-ERR no\r\n").text, "ERR no"));
    assert_int_equal(one(":-12\r\n").kind, RN_RESP_REPLY_INTEGER);
    assert_int_equal(one(":-12\r\n").number, -12);
    assert_int_equal(one(":999999999999999999\r\n").number, INT64_C(999999999999999999));
    assert_true(rn_slice_is(one("$3\r\na\r\n\r\n").text, "a\r\n"));
    assert_int_equal(one("$0\r\n\r\n").text.len, 0);
    assert_int_equal(one("$-1\r\n").kind, RN_RESP_REPLY_NULL);
    assert_int_equal(one("*7\r\n").kind, RN_RESP_REPLY_ARRAY);
    assert_int_equal(one("*7\r\n").number, 7);
    assert_int_equal(one(">2\r\n").kind, RN_RESP_REPLY_PUSH);
    assert_int_equal(one(">2\r\n").number, 2);
}

static const char *const whole[] = {
    "+PONG\r\n",
    "*0\r\n",
    "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
    "$5\r\na\r\nbc\r\n",
    "*3\r\n*0\r\n$-1\r\n*2\r\n+a\r\n-b\r\n",
    ">2\r\n$1\r\na\r\n*1\r\n-b\r\n",
};

static void a_reply_in_pieces_is_waited_for_and_never_read_too_far(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        size_t len = strlen(whole[i]), at;

        for (size_t have = 0; have < len; have++) {
            assert_int_equal(pass(whole[i], have, &at), RN_PARSE_MORE);
            assert_int_equal(at, 0);
        }
        assert_int_equal(pass(whole[i], len, &at), RN_PARSE_DONE);
        assert_int_equal(at, len);
    }
}

static void what_follows_a_reply_is_left_alone(void **state)
{
    size_t at;

    (void)state;
    assert_int_equal(pass(":1\r\n?", 5, &at), RN_PARSE_DONE);
    assert_int_equal(at, 4);
}

static void a_bad_reply_is_refused_at_once(void **state)
{
    static const char *const bad[] = {
        "?",
        "HTTP/1.1 200 OK\r\n",
        ":\r\n",
        ":+1\r\n",
        ":01\r\n",
        ":-0\r\n",
        ": 1\r\n",
        ":1 \r\n",
        ":1\n",
        ":1\rx",
        "+a\nb\r\n",
        "$-2\r\n",
        "$1\r\nab",
        "$1\r\nabc",
        "*-1\r\n",
        "*65537\r\n",
        ">-1\r\n",
        ">65537\r\n",
        "$65537\r\n",
        "*1\r\n?",
        ":1000000000000000000\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (pass_text(bad[i]) != RN_PARSE_BAD && strcmp(bad[i], "$1\r\nab") != 0)
            fail_msg("taken for a reply: %s", bad[i]);
    assert_int_equal(pass_text("$1\r\nab"), RN_PARSE_MORE); /* until the line's end is there */
}

static void endless_and_deep_replies_are_refused(void **state)
{
    struct rn_buf text = {0};
    size_t at;

    (void)state;
    for (int i = 0; i <= RN_RESP_REPLY_DEPTH_MAX; i++)
        rn_buf_put_literal(&text, "*1\r\n");
    assert_int_equal(pass(text.data, text.len, &at), RN_PARSE_BAD);
    assert_int_equal(pass(text.data, text.len - 4, &at), RN_PARSE_MORE);
    rn_buf_clear(&text);
    while (text.len <= RN_RESP_REPLY_BYTES_MAX)
        rn_buf_put_char(&text, '+');
    assert_int_equal(pass(text.data, RN_RESP_REPLY_BYTES_MAX, &at), RN_PARSE_MORE);
    assert_int_equal(pass(text.data, text.len, &at), RN_PARSE_BAD);
    rn_buf_clear(&text);
    rn_buf_put_literal(&text, "*40000\r\n");
    while (text.len <= RN_RESP_REPLY_BYTES_MAX)
        rn_buf_put_literal(&text, "+\r\n");
    assert_int_equal(pass(text.data, text.len, &at), RN_PARSE_BAD);
    rn_buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_is_read),
        cmocka_unit_test(a_reply_in_pieces_is_waited_for_and_never_read_too_far),
        cmocka_unit_test(what_follows_a_reply_is_left_alone),
        cmocka_unit_test(a_bad_reply_is_refused_at_once),
        cmocka_unit_test(endless_and_deep_replies_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
