/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader and writer: what they make of good texts, and what they say of
 * bad ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/json.h"

/* A text in memory of exactly its length, so that reading on is noticed. */
struct reading {
    struct rn_json json;
    char *text;
};

static void begin(struct reading *r, const char *text)
{
    size_t len = strlen(text);

    r->text = malloc(len ? len : 1);
    memcpy(r->text, text, len);
    rn_json_init(&r->json, r->text, len);
}

static void demand_slice(struct rn_slice found, const char *expected)
{
    if (!rn_slice_is(found, expected))
        fail_msg("%.*s, not %s", (int)found.len, found.data, expected);
}

static void demand_next(struct reading *r, enum rn_json_kind kind, const char *name,
                        const char *text)
{
    struct rn_json_token token = rn_json_next(&r->json);

    if (token.kind != kind)
        fail_msg("kind %d, not %d: %s", token.kind, kind, r->json.error.text);
    demand_slice(token.name, name);
    demand_slice(token.text, text);
}

static void a_check_body_is_a_row_of_tokens(void **state)
{
    struct reading r;

    (void)state;
    begin(&r,
          "{\"attributes\":{\"ip\":\"192.0.2.7\", \"n\" : -1.5e3},\r\n\t\"list\":[true,false,null,"
          "[]],\"cost\":1}");
    demand_next(&r, RN_JSON_OBJECT, "", "");
    demand_next(&r, RN_JSON_OBJECT, "attributes", "");
    demand_next(&r, RN_JSON_STRING, "ip", "192.0.2.7");
    demand_next(&r, RN_JSON_NUMBER, "n", "-1.5e3");
    demand_next(&r, RN_JSON_END, "", "");
    demand_next(&r, RN_JSON_ARRAY, "list", "");
    demand_next(&r, RN_JSON_TRUE, "", "true");
    demand_next(&r, RN_JSON_FALSE, "", "false");
    demand_next(&r, RN_JSON_NULL, "", "null");
    demand_next(&r, RN_JSON_ARRAY, "", "");
    demand_next(&r, RN_JSON_END, "", "");
    demand_next(&r, RN_JSON_END, "", "");
    demand_next(&r, RN_JSON_NUMBER, "cost", "1");
    demand_next(&r, RN_JSON_END, "", "");
    demand_next(&r, RN_JSON_END, "", "");
    demand_next(&r, RN_JSON_END, "", "");
    free(r.text);
}

static void tokens_know_where_they_and_their_names_stand(void **state)
{
    struct rn_json_token token;
    struct reading r;

    (void)state;
    begin(&r, "{ \"a\\n\" : 12 }");
    rn_json_next(&r.json);
    token = rn_json_next(&r.json);
    assert_int_equal(token.name_at, 2);
    assert_int_equal(token.at, 10);
    free(r.text);
}

static void every_escape_means_what_it_should(void **state)
{
    struct reading r;

    (void)state;
    begin(
        &r,
        "{\"\\u0041\\\"\":\"x\\\"\\\\\\/\\b\\f\\n\\r\\ty\\u00e9\\u20AC\\ud83d\\uDE00\\uffff z\"}");
    demand_next(&r, RN_JSON_OBJECT, "", "");
    demand_next(&r, RN_JSON_STRING, "A\"",
                "x\"\\/\b\f\n\r\ty\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbf z");
    demand_next(&r, RN_JSON_END, "", "");
    free(r.text);
}

/* --- mistakes -------------------------------------------------------------------------------- */

struct mistake {
    const char *text, *message;
};

static const struct mistake mistakes[] = {
    {"", "column 1: expected a value, found the end of the text"},
    {" \t", "column 3: expected a value, found the end of the text"},
    {"{", "column 2: expected a name in double quotes or '}', found the end of the text"},
    {"{\"a\"", "column 5: expected ':' after the name, found the end of the text"},
    {"{\"a\":", "column 6: expected a value, found the end of the text"},
    {"{\"a\":1", "column 7: expected ',' or '}' after the value, found the end of the text"},
    {"[1", "column 3: expected ',' or ']' after the value, found the end of the text"},
    {"{\"a\":\"abc", "column 6: expected '\"' at the end of this string, found none"},
    {"{\"a\",1}", "column 5: expected ':' after the name, found ','"},
    {"{\"a\":1,}", "column 8: expected a name in double quotes after the ',', found '}'"},
    {"{,}", "column 2: expected a name in double quotes or '}', found ','"},
    {"{a:1}", "column 2: expected a name in double quotes or '}', found \"a\""},
    {"{'a':1}", "column 2: expected a name in double quotes or '}', found a single quote"},
    {"{\"a\":1 \"b\":2}", "column 8: expected ',' or '}' after the value, found a string"},
    {"[1 2]", "column 4: expected ',' or ']' after the value, found a digit"},
    {"[1,]", "column 4: expected a value, found ']'"},
    {"[1}", "column 3: expected ',' or ']' after the value, found '}'"},
    {"{\"a\":1]", "column 7: expected ',' or '}' after the value, found ']'"},
    {"]", "column 1: expected a value, found ']'"},
    {"1 {", "column 3: expected nothing more after the value, found '{'"},
    {"{}\x01", "column 3: expected nothing more after the value, found the byte 0x01"},
    {"\xef\xbb\xbf{}", "column 1: expected a value, found the byte 0xef"},
    {"[tru]", "column 2: expected a value, found \"tru\""},
    {"[truth]", "column 2: expected a value, found \"truth\""},
    {"[NaN]", "column 2: expected a value, found \"NaN\""},
    {"[-Infinity]", "column 3: expected a digit after the '-', found \"Infinity\""},
    {"[01]", "column 2: found a number with a 0 in front; leave it out"},
    {"[-00]", "column 3: found a number with a 0 in front; leave it out"},
    {"[.5]", "column 2: expected a value, found '.'"},
    {"[+1]", "column 2: expected a value, found '+'"},
    {"[1.]", "column 4: expected a digit after the '.', found ']'"},
    {"[1e]", "column 4: expected a digit after the exponent's e, found ']'"},
    {"[1E-]", "column 5: expected a digit after the exponent's e, found ']'"},
    {"[0x10]", "column 3: expected ',' or ']' after the value, found \"x\""},
    {"\"\\x41\"", "column 3: expected one of \" \\ / b f n r t u after the backslash, found \"x\""},
    {"\"\\u12\"",
     "column 6: expected four hexadecimal digits after \\u, found the end of the string"},
    {"\"\\u12g4\"", "column 6: expected four hexadecimal digits after \\u, found \"g\""},
    {"\"\\u0000\"", "column 2: expected a string without NUL, found \\u0000"},
    {"\"\\ud83dx\"",
     "column 2: \\ud83d is one half of a surrogate pair; expected \\udc00 to \\udfff after it"},
    {"\"\\ud83d\\ud83d\"",
     "column 2: \\ud83d is one half of a surrogate pair; expected \\udc00 to \\udfff after it"},
    {"\"\\ude00\"",
     "column 2: \\ude00 is one half of a surrogate pair; expected \\ud800 to \\udbff before it"},
    {"\"a\tb\"", "column 3: found a tab in a string; write it as \\t"},
    {"\"a\nb\"", "line 1 column 3: found a line break in a string; write it as \\n"},
    {"\"a\x1b\"", "column 3: found the control character 0x1b in a string; write it as \\u001b"},
    {"\"\xff\"", "column 2: expected UTF-8, found the byte 0xff"},
    {"\"abc\xc3\"", "column 5: expected UTF-8, found the byte 0xc3"},
    {"\"\xed\xa0\x80\"", "column 2: expected UTF-8, found the byte 0xed"},
    {"\"\xc0\x80\"", "column 2: expected UTF-8, found the byte 0xc0"},
    {"{\"a\":1,\n\n  \"b\" 2}", "line 3 column 7: expected ':' after the name, found a digit"},
    {"{\"a\" 1}\n\n", "column 6: expected ':' after the name, found a digit"},
    {"{\"a\":\"\\n\" 1}", "column 11: expected ',' or '}' after the value, found a digit"},
    {"{\"a\":\"\\n\",\n1}",
     "byte 12: expected a name in double quotes after the ',', found a digit"},
    {"[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]",
     "column 17: expected at most 16 levels of objects and arrays, found one more"},
};

static enum rn_json_kind read_to_the_end(struct reading *r)
{
    enum rn_json_kind kind;

    do
        kind = rn_json_next(&r->json).kind;
    while (kind != RN_JSON_BAD && !(kind == RN_JSON_END && r->json.depth == 0));
    return kind == RN_JSON_BAD ? kind : rn_json_next(&r->json).kind;
}

static void mistakes_are_named_with_place_and_remedy(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct reading r;

        begin(&r, mistakes[i].text);
        assert_int_equal(read_to_the_end(&r), RN_JSON_BAD);
        assert_string_equal(r.json.error.text, mistakes[i].message);
        assert_int_equal(r.json.error.code, RATION_EINVAL);
        assert_int_equal(rn_json_next(&r.json).kind, RN_JSON_BAD);
        free(r.text);
    }
}

static void an_empty_text_is_refused(void **state)
{
    struct rn_json json;

    (void)state;
    rn_json_init(&json, NULL, 0);
    assert_int_equal(rn_json_next(&json).kind, RN_JSON_BAD);
    assert_string_equal(json.error.text, "column 1: expected a value, found the end of the text");
}

static void sixteen_levels_are_fine(void **state)
{
    struct reading r;

    (void)state;
    begin(&r, "[[{\"a\":[{\"b\":[[[[[[[[[[[]]]]]]]]]]]}]}]]");
    assert_int_equal(read_to_the_end(&r), RN_JSON_END);
    free(r.text);
}

static void an_error_of_the_caller_ends_the_reading(void **state)
{
    struct reading r;
    struct rn_json_token token;

    (void)state;
    begin(&r, "{\"cost\":-1}");
    rn_json_next(&r.json);
    token = rn_json_next(&r.json);
    assert_int_equal(rn_json_object_to(&r.json, token.at, "expected %s", "a count"), RATION_EINVAL);
    assert_string_equal(r.json.error.text, "column 9: expected a count");
    assert_int_equal(r.json.error.pos, 8);
    rn_json_object_to(&r.json, token.name_at, "something else");
    assert_string_equal(r.json.error.text, "column 9: expected a count");
    assert_int_equal(rn_json_next(&r.json).kind, RN_JSON_BAD);
    free(r.text);
}

/* --- values ---------------------------------------------------------------------------------- */

static struct rn_json_token number(const char *text)
{
    return (struct rn_json_token){.kind = RN_JSON_NUMBER, .text = rn_slice_of(text)};
}

static void whole_numbers_are_exact_to_their_edges(void **state)
{
    static const char *const not_u64[] = {"18446744073709551616",   "-1", "-0", "1.0", "1e2", "",
                                          "99999999999999999999999"};
    static const char *const not_i64[] = {"9223372036854775808", "-9223372036854775809", "0.0"};
    struct rn_json_token token = number("18446744073709551615");
    uint64_t u = 0;
    int64_t i = 0;

    (void)state;
    assert_true(rn_json_u64(&token, &u) && u == UINT64_MAX);
    token = number("0");
    assert_true(rn_json_u64(&token, &u) && u == 0);
    token = number("9223372036854775807");
    assert_true(rn_json_i64(&token, &i) && i == INT64_MAX);
    token = number("-9223372036854775808");
    assert_true(rn_json_i64(&token, &i) && i == INT64_MIN);
    token = number("-0");
    assert_true(rn_json_i64(&token, &i) && i == 0);
    for (size_t n = 0; n < sizeof not_u64 / sizeof not_u64[0]; n++) {
        token = number(not_u64[n]);
        assert_false(rn_json_u64(&token, &u));
    }
    for (size_t n = 0; n < sizeof not_i64 / sizeof not_i64[0]; n++) {
        token = number(not_i64[n]);
        assert_false(rn_json_i64(&token, &i));
    }
    token = (struct rn_json_token){.kind = RN_JSON_STRING, .text = RN_SLICE("12")};
    assert_false(rn_json_u64(&token, &u) || rn_json_i64(&token, &i) || rn_json_seconds(&token, &i));
}

static void seconds_are_rounded_to_the_nearest_nanosecond(void **state)
{
    static const struct {
        const char *text;
        int64_t ns; /* -1: refused */
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"-0.000e5", 0},
        {"12", 12000000000},
        {"0.1", 100000000},
        {"1.0005", 1000500000},
        {"1e2", 100000000000},
        {"2.5e-1", 250000000},
        {"12.5E+1", 125000000000},
        {"100e-2", 1000000000},
        {"0.0000000004", 0},
        {"0.0000000005", 1},
        {"0.00000000049999999999999999999", 0},
        {"1.0000000014999", 1000000001},
        {"1.0000000015", 1000000002},
        {"0.9999999999", 1000000000},
        {"0.00000000000000000000000000001e29", 1000000000},
        {"100000000000000000000000000e-26", 1000000000},
        {"4611686018.427387904", INT64_C(1) << 62},
        {"4611686018.427387905", -1},
        {"4611686018.4273879044999", INT64_C(1) << 62},
        {"1e-400", 0},
        {"1e400", -1},
        {"0e99999999999999999999", 0},
        {"1e99999999999999999999", -1},
        {"1e-99999999999999999999", 0},
        {"-1", -1},
        {"-1e-30", -1},
        {"99999999999", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rn_json_token token = number(cases[i].text);
        int64_t ns = -1;

        if (rn_json_seconds(&token, &ns) != (cases[i].ns >= 0) || ns != cases[i].ns)
            fail_msg("%s: %lld", cases[i].text, (long long)ns);
    }
}

/* --- writing --------------------------------------------------------------------------------- */

static void demand_written(struct rn_slice text, const char *expected)
{
    struct rn_buf out = {0};

    rn_json_put_string(&out, text);
    demand_slice(rn_buf_slice(&out), expected);
    rn_buf_done(&out);
}

static void strings_are_escaped_only_where_they_must_be(void **state)
{
    (void)state;
    demand_written((struct rn_slice){NULL, 0}, "\"\"");
    demand_written(RN_SLICE("plain /\x7f~"), "\"plain /\x7f~\"");
    demand_written(RN_SLICE("say \"\\\""), "\"say \\\"\\\\\\\"\"");
    demand_written(RN_SLICE("\0\x01\b\t\n\v\f\r\x1f"),
                   "\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f\"");
    demand_written(RN_SLICE("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x80\xa8"),
                   "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x80\xa8\"");
}

static void what_is_not_utf8_is_written_as_the_replacement(void **state)
{
    (void)state;
    demand_written(RN_SLICE("a\xff"), "\"a\xef\xbf\xbd\"");
    demand_written(RN_SLICE("\xc3"), "\"\xef\xbf\xbd\"");
    demand_written(RN_SLICE("\xed\xa0\x80z\xc3\xa9"),
                   "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xc3\xa9\"");
}

/* Bytes at every place of a string, so that the eight at a time are tried at all edges. */
static void a_special_byte_is_noticed_wherever_it_stands(void **state)
{
    static const unsigned char special[] = {0, 0x1f, '"', '\\', 0x80, 0xff};

    (void)state;
    for (size_t len = 1; len < 40; len++) {
        for (size_t i = 0; i < len * sizeof special; i++) {
            char *text = malloc(len);
            struct rn_buf out = {0};
            struct rn_json json;

            memset(text, i % 2 ? '!' : '[', len);
            text[i / sizeof special] = (char)special[i % sizeof special];
            rn_json_put_string(&out, (struct rn_slice){text, len});
            assert_true(out.len > len + 2);
            rn_json_init(&json, out.data, out.len);
            struct rn_json_token token = rn_json_next(&json);

            if (special[i % sizeof special] == '"' || special[i % sizeof special] == '\\')
                assert_memory_equal(token.text.data, text, len);
            rn_buf_done(&out);
            free(text);
        }
    }
}

static void seconds_are_written_rounded_up(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-5, "0"},
        {1, "0.001"},
        {600000000, "0.6"},
        {12000000000, "12"},
        {59999000000, "59.999"},
        {59999000001, "60"},
        {1050000000, "1.05"},
        {1005000000, "1.005"},
        {INT64_MAX, "9223372036.855"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rn_buf out = {0};

        rn_json_put_seconds(&out, cases[i].ns);
        demand_slice(rn_buf_slice(&out), cases[i].text);
        rn_buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_body_is_a_row_of_tokens),
        cmocka_unit_test(tokens_know_where_they_and_their_names_stand),
        cmocka_unit_test(every_escape_means_what_it_should),
        cmocka_unit_test(mistakes_are_named_with_place_and_remedy),
        cmocka_unit_test(an_empty_text_is_refused),
        cmocka_unit_test(sixteen_levels_are_fine),
        cmocka_unit_test(an_error_of_the_caller_ends_the_reading),
        cmocka_unit_test(whole_numbers_are_exact_to_their_edges),
        cmocka_unit_test(seconds_are_rounded_to_the_nearest_nanosecond),
        cmocka_unit_test(strings_are_escaped_only_where_they_must_be),
        cmocka_unit_test(what_is_not_utf8_is_written_as_the_replacement),
        cmocka_unit_test(a_special_byte_is_noticed_wherever_it_stands),
        cmocka_unit_test(seconds_are_written_rounded_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
