/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: how they look, and how many there are. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/log_internal.h"

#define NOON (INT64_C(1794744000) * RN_SECOND_NS + 123456789)

static void assert_line_in(enum rn_log_format format, const struct rn_log_field *fields,
                           size_t count, const char *expected)
{
    struct rn_log_head head = {.wall_ns = NOON, .level = RN_LOG_INFO, .event = "test.event"};
    struct rn_buf out = {0};

    rn_log_line_write(&out, format, &head, fields, count);
    rn_buf_put_char(&out, '\0');
    assert_string_equal(out.data, expected);
    rn_buf_done(&out);
}

static void assert_line(const struct rn_log_field *fields, size_t count, const char *expected)
{
    assert_line_in(RN_LOG_LOGFMT, fields, count, expected);
}

#define HEAD "time=2026-11-15T12:00:00.123Z level=info event=test.event"
#define JSON_HEAD                                                                                  \
    "{\"time\":\"2026-11-15T12:00:00.123Z\",\"level\":\"info\",\"event\":\"test.event\""

static void a_line_has_time_level_event_and_pairs(void **state)
{
    struct rn_log_field fields[] = {RN_LOG_NUMBER("version", 4), RN_LOG_NUMBER("delta", -12),
                                    RN_LOG_TEXT("file", RN_SLICE("/etc/ration.yaml"))};

    (void)state;
    assert_line(fields, 3, HEAD " version=4 delta=-12 file=/etc/ration.yaml\n");
    assert_line(NULL, 0, HEAD "\n");
}

static void assert_value_of(const char *text, size_t len, const char *written)
{
    struct rn_log_field field = RN_LOG_TEXT("v", ((struct rn_slice){text, len}));
    char expected[2048];

    snprintf(expected, sizeof expected, HEAD " v=%s\n", written);
    assert_line(&field, 1, expected);
}

#define assert_value(text, written) assert_value_of(text, sizeof(text) - 1, written)

static void what_is_not_plain_is_quoted_and_escaped(void **state)
{
    (void)state;
    assert_value("plain/1.2:3,[x]", "plain/1.2:3,[x]");
    assert_value("", "\"\"");
    assert_value("two words", "\"two words\"");
    assert_value("a=b", "\"a=b\"");
    assert_value("say \"hi\" \\ there", "\"say \\\"hi\\\" \\\\ there\"");
    assert_value("line\nfeed\r\ttab", "\"line\\nfeed\\x0d\\x09tab\"");
    assert_value("\x1b[31mred\x7f\0end", "\"\\x1b[31mred\\x7f\\x00end\"");
    assert_value("caf\xc3\xa9", "\"caf\xc3\xa9\"");
    assert_value("cut\xc3", "\"cut\\xc3\"");
    assert_value("\xff\xc0\x80 overlong", "\"\\xff\\xc0\\x80 overlong\"");
    assert_value("turn\xe2\x80\xae"
                 "ed",
                 "\"turn\\xe2\\x80\\xaeed\"");
    assert_value("\xe2\x80\xa8", "\"\\xe2\\x80\\xa8\"");
}

static void a_line_of_json_has_the_same_pairs(void **state)
{
    struct rn_log_field fields[] = {RN_LOG_NUMBER("delta", -12),
                                    RN_LOG_TEXT("plain", RN_SLICE("caf\xc3\xa9 a=b")),
                                    RN_LOG_TEXT("odd", RN_SLICE("\"\\\n\x1b\x7f\xff\xe2\x80\xae")),
                                    RN_LOG_TEXT("none", RN_SLICE(""))};

    (void)state;
    assert_line_in(RN_LOG_JSON, fields, 4,
                   JSON_HEAD
                   ",\"delta\":-12,\"plain\":\"caf\xc3\xa9 a=b\","
                   "\"odd\":\"\\\"\\\\\\u000a\\u001b\\u007f\\\\xff\\u202e\",\"none\":\"\"}\n");
    assert_line_in(RN_LOG_JSON, NULL, 0, JSON_HEAD "}\n");
}

static void a_pair_without_a_name_is_left_out(void **state)
{
    struct rn_log_field fields[] = {RN_LOG_TEXT(NULL, RN_SLICE("x")), RN_LOG_NUMBER("n", 1)};

    (void)state;
    assert_line(fields, 2, HEAD " n=1\n");
    assert_line_in(RN_LOG_JSON, fields, 2, JSON_HEAD ",\"n\":1}\n");
}

static void a_long_value_is_cut(void **state)
{
    char text[2000], expected[RN_LOG_VALUE_MAX + 16] = "\"";

    (void)state;
    memset(text, 'a', sizeof text);
    memset(expected + 1, 'a', RN_LOG_VALUE_MAX);
    strcpy(expected + 1 + RN_LOG_VALUE_MAX, "...\"");
    assert_value_of(text, sizeof text, expected);
}

/* Whatever the bytes are, the line stays one line of printable text. */
static void no_byte_gets_out_of_its_value(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char text[3] = {'a', (char)byte, 'b'};
        struct rn_log_field field = RN_LOG_TEXT("v", ((struct rn_slice){text, 3}));
        struct rn_log_head head = {.wall_ns = NOON, .event = "e"};
        struct rn_buf out = {0};
        rn_log_line_write(&out, RN_LOG_LOGFMT, &head, &field, 1);
        for (size_t i = 0; i + 1 < out.len; i++)
            assert_true(out.data[i] >= ' ' && out.data[i] <= '~');
        assert_int_equal(out.data[out.len - 1], '\n');
        rn_buf_done(&out);
    }
}

static void ten_lines_a_second_then_a_count(void **state)
{
    struct rn_log_gate *gate = calloc(1, sizeof *gate);
    uint64_t suppressed = 99;

    (void)state;
    for (int i = 0; i < RN_LOG_BURST; i++) {
        assert_true(rn_log_line_admit(gate, "a", 1000 + i, &suppressed));
        assert_int_equal(suppressed, 0);
    }
    for (int i = 0; i < 17; i++)
        assert_false(rn_log_line_admit(gate, "a", 2000 + i, &suppressed));
    assert_true(rn_log_line_admit(gate, "b", 3000, &suppressed)); /* another's count */
    assert_false(rn_log_line_admit(gate, "a", RN_SECOND_NS + 999, &suppressed));
    assert_true(rn_log_line_admit(gate, "a", RN_SECOND_NS + 1000, &suppressed));
    assert_int_equal(suppressed, 18);
    assert_true(rn_log_line_admit(gate, "a", RN_SECOND_NS + 1001, &suppressed));
    assert_int_equal(suppressed, 0);
    free(gate);
}

static void any_number_of_events_is_limited(void **state)
{
    struct rn_log_gate *gate = calloc(1, sizeof *gate);
    static char names[4 * RN_LOG_EVENTS][16];
    uint64_t suppressed;
    int passed = 0;

    (void)state;
    for (int i = 0; i < 4 * RN_LOG_EVENTS; i++) {
        snprintf(names[i], sizeof names[i], "event.%d", i);
        passed += rn_log_line_admit(gate, names[i], 1, &suppressed);
    }
    assert_int_equal(passed, RN_LOG_EVENTS - 1 + RN_LOG_BURST);
    free(gate);
}

/* Whatever a function writes to stderr. */
static size_t catch_stderr(void (*writes)(void), char *out, size_t size)
{
    int fds[2], before = dup(STDERR_FILENO);

    assert_int_equal(pipe(fds), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    dup2(fds[1], STDERR_FILENO);
    writes();
    dup2(before, STDERR_FILENO);
    ssize_t len = read(fds[0], out, size - 1);
    close(fds[0]), close(fds[1]), close(before);
    out[len > 0 ? len : 0] = '\0';
    return len > 0 ? (size_t)len : 0;
}

static void log_levels(void)
{
    rn_log(RN_LOG_INFO, "written.info", RN_LOG_NUMBER("n", 1));
    rn_log(RN_LOG_DEBUG, "not.written", RN_LOG_NUMBER("n", 2));
    rn_log_setup(RN_LOG_ERROR, RN_LOG_JSON);
    rn_log(RN_LOG_WARN, "not.written", RN_LOG_NUMBER("n", 3));
    rn_log(RN_LOG_ERROR, "written.error", RN_LOG_NUMBER("n", 4), RN_LOG_NUMBER("m", 5));
    rn_log_setup(RN_LOG_INFO, RN_LOG_LOGFMT);
}

static void only_what_is_important_enough_is_written(void **state)
{
    char out[1000], *second;

    (void)state;
    catch_stderr(log_levels, out, sizeof out);
    assert_non_null(second = strchr(out, '\n'));
    *second++ = '\0';
    assert_string_equal(out + strlen("time=2026-11-15T12:00:00.123Z"),
                        " level=info event=written.info n=1");
    assert_string_equal(second + strlen("{\"time\":\"2026-11-15T12:00:00.123Z\""),
                        ",\"level\":\"error\",\"event\":\"written.error\",\"n\":4,\"m\":5}\n");
}

static void log_records(void)
{
    rn_log_setup(RN_LOG_ERROR, RN_LOG_LOGFMT);
    for (int i = 0; i < 3 * RN_LOG_BURST; i++)
        rn_log(RN_LOG_RECORD, "record", RN_LOG_NUMBER("n", i));
    rn_log_setup(RN_LOG_INFO, RN_LOG_LOGFMT);
}

static void every_record_is_written(void **state)
{
    static char out[65536];
    int lines = 0;

    (void)state;
    catch_stderr(log_records, out, sizeof out);
    for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        char wanted[64];

        snprintf(wanted, sizeof wanted, " level=info event=record n=%d", lines);
        assert_string_equal(line + strlen("time=2026-11-15T12:00:00.123Z"), wanted);
    }
    assert_int_equal(lines, 3 * RN_LOG_BURST);
}

static void *log_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        rn_log(RN_LOG_INFO, "many", RN_LOG_TEXT("text", RN_SLICE("of a certain length")));
    return NULL;
}

static void log_from_threads(void)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, log_many, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void lines_of_threads_do_not_mix(void **state)
{
    static char out[65536];
    int lines = 0;

    (void)state;
    catch_stderr(log_from_threads, out, sizeof out);
    for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"), lines++)
        assert_memory_equal(line + strlen("time=2026-11-15T12:00:00.123Z"),
                            " level=info event=many text=\"of a certain length\"", 48);
    assert_true(lines >= RN_LOG_BURST);
    assert_true(lines < 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_event_and_pairs),
        cmocka_unit_test(what_is_not_plain_is_quoted_and_escaped),
        cmocka_unit_test(a_line_of_json_has_the_same_pairs),
        cmocka_unit_test(a_pair_without_a_name_is_left_out),
        cmocka_unit_test(a_long_value_is_cut),
        cmocka_unit_test(no_byte_gets_out_of_its_value),
        cmocka_unit_test(ten_lines_a_second_then_a_count),
        cmocka_unit_test(any_number_of_events_is_limited),
        cmocka_unit_test(only_what_is_important_enough_is_written),
        cmocka_unit_test(every_record_is_written),
        cmocka_unit_test(lines_of_threads_do_not_mix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
