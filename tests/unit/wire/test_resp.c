/* SPDX-License-Identifier: Apache-2.0 */
#include "pieces.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire/resp.h"
#include "wire/resp_format.h"

/* --- a connection, and what it has read, as text ---------------------------- */

static struct rn_resp_command command;

static void tell_command(struct rn_buf *told)
{
    rn_buf_putf(told, "%u", command.argc);
    for (uint32_t i = 0; i < command.argc; i++) {
        rn_buf_put_literal(told, " <");
        rn_buf_put_slice(told, command.argv[i]);
        rn_buf_put_literal(told, ">");
    }
    rn_buf_put_literal(told, "\n");
}

/* One look at what there is of a command. The copy has no byte to spare, so that
 * the sanitizer sees a read behind it. */
static enum rn_parse look(const char *data, size_t len, size_t *bytes, struct rn_buf *told)
{
    const char *error = NULL;
    char *copy = malloc(len > 0 ? len : 1);
    enum rn_parse answer;

    memcpy(copy, data, len);
    answer = rn_resp_parse(copy, len, &command, &error);
    if (answer == RN_PARSE_DONE) {
        assert_in_range(command.bytes, *bytes, len);
        tell_command(told);
    } else if (answer == RN_PARSE_BAD) {
        rn_buf_putf(told, "! %s\n", error);
    } else {
        assert_true(command.bytes > len);
    }
    *bytes = command.bytes;
    free(copy);
    return answer;
}

/* Commands, one in a line. Never asks for more bytes than a command has. */
static void read_all(struct rn_slice input, size_t piece, struct rn_buf *told)
{
    read_in_pieces(look, input, piece, told);
}

static void expect_bytes(const char *data, size_t len, const char *expected)
{
    expect_in_pieces(read_all, (struct rn_slice){data, len}, 20000, expected);
}

#define expect(input, expected) expect_bytes("" input, sizeof(input) - 1, expected)

/* --- arrays ----------------------------------------------------------------- */

static void a_command_is_an_array_of_bulk_strings(void **state)
{
    (void)state;
    expect("*5\r\n$11\r\nCL.THROTTLE\r\n$4\r\nuser\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
           "5 <CL.THROTTLE> <user> <15> <30> <60>\n");
    expect("*1\r\n$4\r\nPING\r\n", "1 <PING>\n");
    expect("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "2 <ECHO> <>\n");
    expect("*10\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n"
           "$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n",
           "10 <0> <1> <2> <3> <4> <5> <6> <7> <8> <9>\n");
}

static void arguments_may_be_any_bytes(void **state)
{
    (void)state;
    expect("*2\r\n$2\r\n\r\n\r\n$6\r\n*1\r\n$1\r\n", "2 <\r\n> <*1\r\n$1>\n");
    expect("*1\r\n$3\r\n\xff\xfe\x80\r\n", "1 <\xff\xfe\x80>\n");
}

static void commands_follow_one_another(void **state)
{
    (void)state;
    expect("*1\r\n$4\r\nPING\r\n*1\r\n$1\r\na\r\nPING\r\n*2\r\n$1\r\nb\r\n$1\r\nc\r\n*1\r\n$",
           "1 <PING>\n1 <a>\n1 <PING>\n2 <b> <c>\n...\n");
}

static void empty_arrays_are_skipped(void **state)
{
    (void)state;
    expect("*0\r\n*-1\r\n*-2147483648\r\n*1\r\n$1\r\na\r\n", "0\n0\n0\n1 <a>\n");
}

static void bad_counts_are_refused(void **state)
{
    (void)state;
    expect("*\r\n", "! invalid multibulk length\n");
    expect("*x\r\n", "! invalid multibulk length\n");
    expect("*1x\r\n", "! invalid multibulk length\n");
    expect("*+1\r\n$1\r\na\r\n", "! invalid multibulk length\n");
    expect("*01\r\n$1\r\na\r\n", "! invalid multibulk length\n");
    expect("*00\r\n", "! invalid multibulk length\n");
    expect("*-0\r\n", "! invalid multibulk length\n");
    expect("*-\r\n", "! invalid multibulk length\n");
    expect("*--1\r\n", "! invalid multibulk length\n");
    expect("* 1\r\n$1\r\na\r\n", "! invalid multibulk length\n");
    expect("*1 \r\n$1\r\na\r\n", "! invalid multibulk length\n");
    expect("*1\n$1\r\na\r\n", "! invalid multibulk length\n");
    expect("*1\rX$1\r\na\r\n", "! invalid multibulk length\n");
    expect("*1\r\r\n$1\r\na\r\n", "! invalid multibulk length\n");
    expect("*321\r\n", "! invalid multibulk length\n");
    expect("*4294967297\r\n$1\r\na\r\n", "! invalid multibulk length\n");
    expect("*9999999999999999999\r\n", "! invalid multibulk length\n");
    expect("*18446744073709551617\r\n$1\r\na\r\n", "! invalid multibulk length\n");
}

static void bad_lengths_are_refused(void **state)
{
    (void)state;
    expect("*1\r\n$\r\n", "! invalid bulk length\n");
    expect("*1\r\n$-1\r\n", "! invalid bulk length\n");
    expect("*1\r\n$+1\r\na\r\n", "! invalid bulk length\n");
    expect("*1\r\n$01\r\na\r\n", "! invalid bulk length\n");
    expect("*1\r\n$00\r\n\r\n", "! invalid bulk length\n");
    expect("*1\r\n$ 1\r\na\r\n", "! invalid bulk length\n");
    expect("*1\r\n$1 \r\na\r\n", "! invalid bulk length\n");
    expect("*1\r\n$a\r\na\r\n", "! invalid bulk length\n");
    expect("*1\r\n$1\na\r\n", "! invalid bulk length\n");
    expect("*1\r\n$1\r\ra\r\n", "! invalid bulk length\n");
    expect("*1\r\n$65537\r\n", "! invalid bulk length\n");
    expect("*2\r\n$1\r\na\r\n$18446744073709551617\r\n", "! invalid bulk length\n");
    expect("*1\r\n$9223372036854775807\r\n", "! invalid bulk length\n");
}

static void only_bulk_strings_are_arguments(void **state)
{
    (void)state;
    expect("*1\r\n:1\r\n", "! expected '$', got ':'\n");
    expect("*2\r\n$1\r\na\r\nb", "! expected '$', got 'b'\n");
    expect("*1\r\n*1\r\n$1\r\na\r\n", "! expected '$', got '*'\n");
    expect("*1\r\n\r\n$1\r\na\r\n", "! expected '$', got '\r'\n");
}

static void bulk_strings_end_with_cr_lf(void **state)
{
    (void)state;
    expect("*1\r\n$1\r\nab\r\n", "! expected CR LF after a bulk string\n");
    expect("*1\r\n$1\r\na\n\n", "! expected CR LF after a bulk string\n");
    expect("*1\r\n$1\r\na\rb", "! expected CR LF after a bulk string\n");
    expect("*1\r\n$0\r\na\r\n", "! expected CR LF after a bulk string\n");
    expect("*1\r\n$12\r\nabcdefghijkl\n\r\n", "! expected CR LF after a bulk string\n");
}

/* `count` arguments of `size` bytes each, and what to expect of them. */
static void expect_arguments(unsigned count, size_t size, const char *fault)
{
    struct rn_buf input = {0}, expected = {0};
    char *text = malloc(size + 1);

    memset(text, 'x', size);
    text[size] = '\0';
    rn_buf_putf(&input, "*%u\r\n", count);
    rn_buf_putf(&expected, "%u", count);
    for (unsigned i = 0; i < count; i++) {
        rn_buf_putf(&input, "$%zu\r\n%s\r\n", size, text);
        rn_buf_putf(&expected, " <%s>", text);
    }
    rn_buf_put_literal(&expected, "\n\0");
    expect_bytes(input.data, input.len, fault ? fault : expected.data);
    rn_buf_done(&input);
    rn_buf_done(&expected);
    free(text);
}

static void limits_are_what_the_header_says(void **state)
{
    (void)state;
    expect_arguments(RN_RESP_ARGS_MAX, 1, NULL);
    expect_arguments(RN_RESP_ARGS_MAX, 0, NULL);
    expect_arguments(RN_RESP_ARGS_MAX + 1, 1, "! invalid multibulk length\n");
    expect_arguments(1, RN_RESP_BULK_MAX, NULL);
    expect_arguments(1, RN_RESP_BULK_MAX + 1, "! invalid bulk length\n");
    expect_arguments(3, RN_RESP_BULK_MAX, NULL);
    expect_arguments(4, RN_RESP_BULK_MAX, "! too big command\n");
    for (size_t size = 9; size < 1100; size = size * 3 + 1)
        expect_arguments(12, size, NULL);
    expect_arguments(2, 99, NULL);
    expect_arguments(2, 100, NULL);
}

static void the_longest_command_is_of_the_size_the_header_says(void **state)
{
    const size_t shorter = 4 + 3 * (8 + RN_RESP_BULK_MAX + 2);
    size_t last = RN_RESP_COMMAND_MAX - shorter - 10; /* $65506 CR LF ... CR LF */

    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct rn_buf input = {0};
        char *text = calloc(1, RN_RESP_BULK_MAX + 1);

        rn_buf_put_literal(&input, "*4\r\n");
        for (int i = 0; i < 4; i++) {
            size_t size = i < 3 ? RN_RESP_BULK_MAX : last + more;

            rn_buf_putf(&input, "$%zu\r\n", size);
            rn_buf_put(&input, text, size);
            rn_buf_put_literal(&input, "\r\n");
        }
        const char *error = "none";

        assert_int_equal(input.len, RN_RESP_COMMAND_MAX + more);
        assert_int_equal(rn_resp_parse(input.data, input.len, &command, &error),
                         more ? RN_PARSE_BAD : RN_PARSE_DONE);
        if (more)
            assert_string_equal(error, "too big command");
        rn_buf_done(&input);
        free(text);
    }
}

/* --- inline commands ---------------------------------------------------------- */

static void a_line_is_a_command(void **state)
{
    (void)state;
    expect("PING\r\n", "1 <PING>\n");
    expect("PING\n", "1 <PING>\n");
    expect("  CL.THROTTLE  user\t15 30 60  \r\n", "5 <CL.THROTTLE> <user> <15> <30> <60>\n");
    expect("a\rb\r\n", "2 <a> <b>\n");
    expect("PIN", "...\n");
}

static void empty_lines_are_skipped(void **state)
{
    (void)state;
    expect("\r\n\n \t \r\nPING\r\n", "0\n0\n0\n1 <PING>\n");
}

static void words_may_be_quoted(void **state)
{
    (void)state;
    expect("a \"b c\" 'd e'\r\n", "3 <a> <b c> <d e>\n");
    expect("a \"\" ''\r\n", "3 <a> <> <>\n");
    expect("\"\\x41\\n\\r\\t\\b\\a\\\\\\\"\\q\"\r\n", "1 <A\n\r\t\b\a\\\"q>\n");
    expect("\"\\xzz \\x4\"\r\n", "1 <xzz x4>\n");
    expect("'it\\'s \\n'\r\n", "1 <it's \\n>\n");
    expect("pre\"fix ed\" z\r\n", "2 <prefix ed> <z>\n");
    expect("\"\\xfF\"\r\n", "1 <\xff>\n");
}

static void unbalanced_quotes_are_refused(void **state)
{
    (void)state;
    expect("a \"b\r\n", "! unbalanced quotes in request\n");
    expect("a 'b\r\n", "! unbalanced quotes in request\n");
    expect("a \"b\"c\r\n", "! unbalanced quotes in request\n");
    expect("a 'b'c\r\n", "! unbalanced quotes in request\n");
    expect("a \"b\\\"\r\n", "! unbalanced quotes in request\n");
    expect("\"\\\n", "! unbalanced quotes in request\n");
}

static void long_lines_are_refused(void **state)
{
    char *line = malloc(RN_RESP_INLINE_MAX + 1);
    struct rn_buf expected = {0};

    (void)state;
    memset(line, 'x', RN_RESP_INLINE_MAX);
    line[RN_RESP_INLINE_MAX] = '\n';
    expect_bytes(line, RN_RESP_INLINE_MAX, "! too big inline request\n");
    expect_bytes(line, RN_RESP_INLINE_MAX + 1, "! too big inline request\n");
    rn_buf_putf(&expected, "1 <%.*s>\n", RN_RESP_INLINE_MAX - 1, line);
    expect_bytes(line + 1, RN_RESP_INLINE_MAX, expected.data);
    rn_buf_done(&expected);
    free(line);
}

static void lines_of_too_many_words_are_refused(void **state)
{
    char line[2 * (RN_RESP_ARGS_MAX + 1)];
    struct rn_buf expected = {0};

    (void)state;
    for (size_t i = 0; i < sizeof line; i++)
        line[i] = i % 2 ? ' ' : 'w';
    line[sizeof line - 1] = '\n';
    expect_bytes(line, sizeof line, "! too many arguments in inline request\n");
    rn_buf_putf(&expected, "%d", RN_RESP_ARGS_MAX);
    for (int i = 0; i < RN_RESP_ARGS_MAX; i++)
        rn_buf_put_literal(&expected, " <w>");
    rn_buf_put_literal(&expected, "\n\0");
    expect_bytes(line + 2, sizeof line - 2, expected.data);
    rn_buf_done(&expected);
}

/* --- again ------------------------------------------------------------------------- */

/* Bytes that `data` is passed with after `said` was read; the argument goes to `argument`. */
static size_t say_again(const char *said, const char *data, size_t len, struct rn_slice *argument)
{
    struct rn_resp_template template = {.before_len = 1};
    char first[256];
    static char second[256];
    const char *error;

    strcpy(first, said);
    memcpy(second, data, len);
    assert_int_equal(rn_resp_parse(first, strlen(first), &command, &error), RN_PARSE_DONE);
    rn_resp_keep_template(&template, first, &command);
    return rn_resp_match_template(&template, second, len, argument);
}

#define SAID "*4\r\n$4\r\nTAKE\r\n$5\r\nalice\r\n$3\r\n100\r\n$2\r\n60\r\n"

static void a_repeated_command_matches_the_template(void **state)
{
    static const char bob[] = "*4\r\n$4\r\nTAKE\r\n$3\r\nbob\r\n$3\r\n100\r\n$2\r\n60\r\n";
    static const char twelve[] =
        "*4\r\n$4\r\nTAKE\r\n$12\r\nbob\r\n$3\r\n100\r\n$3\r\n100\r\n$2\r\n60\r\n";
    struct rn_slice argument;

    (void)state;
    assert_int_equal(say_again(SAID, bob, sizeof bob - 1, &argument), sizeof bob - 1);
    assert_true(rn_slice_is(argument, "bob"));
    assert_int_equal(say_again(SAID, twelve, sizeof twelve - 1, &argument), sizeof twelve - 1);
    assert_true(rn_slice_is(argument, "bob\r\n$3\r\n100"));
    for (size_t len = 0; len < sizeof bob - 1; len++)
        assert_int_equal(say_again(SAID, bob, len, &argument), 0);
}

/* Whatever byte is another one: what is passed is what would be parsed. */
static void a_different_command_does_not_match(void **state)
{
    size_t len = sizeof SAID - 1, same = 0;

    (void)state;
    for (size_t at = 0; at < len; at++) {
        for (int byte = 0; byte < 256; byte++) {
            struct rn_slice argument;
            char data[] = SAID;
            const char *error;

            data[at] = (char)byte;
            size_t bytes = say_again(SAID, data, len, &argument);

            if (bytes == 0)
                continue;
            same++;
            assert_int_equal(bytes, len);
            assert_int_equal(rn_resp_parse(data, len, &command, &error), RN_PARSE_DONE);
            assert_int_equal(command.argc, 4);
            assert_true(rn_slice_equal(command.argv[1], argument));
            assert_true(rn_slice_is(command.argv[0], "TAKE"));
            assert_true(rn_slice_is(command.argv[2], "100"));
            assert_true(rn_slice_is(command.argv[3], "60"));
        }
    }
    assert_int_equal(same, len + 5 * 255); /* as it was, and each byte of the argument */
}

static void inline_commands_have_no_template(void **state)
{
    static const char *const said[] = {"TAKE alice\r\n", "\"*4\" alice\r\n",
                                       "*1\r\n$4\r\nTAKE\r\n"};
    struct rn_slice argument;

    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        assert_int_equal(say_again(said[i], said[i], strlen(said[i]), &argument), 0);
}

/* --- replies -------------------------------------------------------------------- */

static void expect_reply(struct rn_buf *out, const char *expected)
{
    rn_buf_put_char(out, '\0');
    assert_false(out->failed);
    assert_string_equal(out->data, expected);
    rn_buf_clear(out);
}

static void simple_replies_are_as_the_protocol_says(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    rn_resp_put_simple(&out, "OK");
    rn_resp_put_bulk(&out, RN_SLICE("a\r\nb"));
    rn_resp_put_bulk(&out, (struct rn_slice){0});
    expect_reply(&out, "+OK\r\n$4\r\na\r\nb\r\n$0\r\n\r\n");
    for (int version = 2; version <= 3; version++) {
        rn_resp_put_null(&out, version);
        rn_resp_put_array(&out, 12);
        rn_resp_put_map(&out, version, 6);
        expect_reply(&out, version == 2 ? "$-1\r\n*12\r\n*12\r\n" : "_\r\n*12\r\n%6\r\n");
    }
    rn_buf_done(&out);
}

static void pieces_of_replies_are_as_the_protocol_says(void **state)
{
    char out[6 * RN_RESP_FORMAT_MAX];

    (void)state;
    for (int version = 2; version <= 3; version++) {
        char *to = RN_RESP_FORMAT_NAME(out, 4, "rule");

        to = rn_resp_format_null(to, version);
        to = rn_resp_format_bool(to, version, true);
        to = rn_resp_format_bool(to, version, false);
        to = rn_resp_format_bulk(to, RN_SLICE("a\r\nb"));
        *to = '\0';
        assert_string_equal(out, version == 2 ? "$4\r\nrule\r\n$-1\r\n:1\r\n:0\r\n$4\r\na\r\nb\r\n"
                                              : "$4\r\nrule\r\n_\r\n#t\r\n#f\r\n$4\r\na\r\nb\r\n");
    }
}

static void integers_are_written_in_full(void **state)
{
    const int64_t numbers[] = {0, 1, 9, 10, 99, 100, -1, -10, 1234567890123, INT64_MAX, INT64_MIN};
    struct rn_buf out = {0};

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char expected[32];

        snprintf(expected, sizeof expected, ":%lld\r\n", (long long)numbers[i]);
        rn_resp_put_integer(&out, numbers[i]);
        expect_reply(&out, expected);
    }
    rn_buf_done(&out);
}

static void an_error_stays_on_its_line(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    rn_resp_put_error(&out, "ERR", RN_SLICE("unknown command 'a\r\n+OK\r\n\0'"));
    assert_memory_equal(out.data, "-ERR unknown command 'a  +OK   '\r\n", out.len);
    assert_int_equal(out.len, 34);
    rn_buf_done(&out);
}

static void expect_seconds(int64_t ns, const char *text)
{
    char out[RN_RESP_FORMAT_MAX], expected[64];

    *rn_resp_format_seconds(out, 3, ns) = '\0';
    snprintf(expected, sizeof expected, ",%s\r\n", text);
    assert_string_equal(out, expected);
    *rn_resp_format_seconds(out, 2, ns) = '\0';
    snprintf(expected, sizeof expected, "$%zu\r\n%s\r\n", strlen(text), text);
    assert_string_equal(out, expected);
}

static void seconds_are_decimals_rounded_up(void **state)
{
    (void)state;
    expect_seconds(0, "0");
    expect_seconds(1, "0.001");
    expect_seconds(1000000, "0.001");
    expect_seconds(1000001, "0.002");
    expect_seconds(10000000, "0.01");
    expect_seconds(100000000, "0.1");
    expect_seconds(500000000, "0.5");
    expect_seconds(999000001, "1");
    expect_seconds(1000000000, "1");
    expect_seconds(12025000000, "12.025");
    expect_seconds(60000000000, "60");
    expect_seconds(86400100000000, "86400.1");
    expect_seconds(INT64_MAX, "9223372036.855");
    expect_seconds(-1, "0");
    expect_seconds(INT64_MIN, "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_an_array_of_bulk_strings),
        cmocka_unit_test(arguments_may_be_any_bytes),
        cmocka_unit_test(commands_follow_one_another),
        cmocka_unit_test(empty_arrays_are_skipped),
        cmocka_unit_test(bad_counts_are_refused),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(only_bulk_strings_are_arguments),
        cmocka_unit_test(bulk_strings_end_with_cr_lf),
        cmocka_unit_test(limits_are_what_the_header_says),
        cmocka_unit_test(the_longest_command_is_of_the_size_the_header_says),
        cmocka_unit_test(a_line_is_a_command),
        cmocka_unit_test(empty_lines_are_skipped),
        cmocka_unit_test(words_may_be_quoted),
        cmocka_unit_test(unbalanced_quotes_are_refused),
        cmocka_unit_test(long_lines_are_refused),
        cmocka_unit_test(lines_of_too_many_words_are_refused),
        cmocka_unit_test(a_repeated_command_matches_the_template),
        cmocka_unit_test(a_different_command_does_not_match),
        cmocka_unit_test(inline_commands_have_no_template),
        cmocka_unit_test(simple_replies_are_as_the_protocol_says),
        cmocka_unit_test(pieces_of_replies_are_as_the_protocol_says),
        cmocka_unit_test(integers_are_written_in_full),
        cmocka_unit_test(an_error_stays_on_its_line),
        cmocka_unit_test(seconds_are_decimals_rounded_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
