/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of usage as CSV and JSON, with names that are hard to write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "wire/export.h"

#define TIMES "2026-11,2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,UTC,"
#define JSON_TIMES                                                                                 \
    "\"period\":\"2026-11\",\"start\":\"2026-11-01T00:00:00Z\",\"end\":\"2026-12-01T00:00:00Z\","  \
    "\"zone\":\"UTC\",\"admitted\":7,\"refused\":2,\"corrected\":0,\"units\":7}"

static struct ration_usage row_of(struct rn_slice client)
{
    return (struct ration_usage){.rule = "api",
                                 .rule_len = 3,
                                 .client = client.data,
                                 .client_len = client.len,
                                 .start_s = 1793491200,
                                 .end_s = 1796083200,
                                 .period = "2026-11",
                                 .admitted = 7,
                                 .refused = 2};
}

static void expect_csv(const struct ration_usage *usage, const char *text)
{
    struct rn_buf out = {0};

    rn_export_csv(&out, usage);
    assert_int_equal(out.len, strlen(text));
    assert_memory_equal(out.data, text, out.len);
    rn_buf_done(&out);
}

static void expect_json(struct rn_slice client, const char *text)
{
    struct ration_usage usage = row_of(client);
    struct rn_buf out = {0};
    struct rn_members m = {.out = &out};

    rn_members_open(&m, NULL, '{');
    rn_export_json(&m, &usage);
    rn_members_close(&m, '}');
    rn_buf_put_char(&out, '\0');
    assert_string_equal(out.data, text);
    rn_buf_done(&out);
}

static void csv_quotes_only_what_must_be_quoted(void **state)
{
    static const struct {
        struct rn_slice client;
        const char *field;
    } cases[] = {
        {RN_SLICE_INIT("ada"), "ada"},           {RN_SLICE_INIT(""), ""},
        {RN_SLICE_INIT("a,b"), "\"a,b\""},       {RN_SLICE_INIT("\"x\""), "\"\"\"x\"\"\""},
        {RN_SLICE_INIT("a\nb\r"), "\"a\nb\r\""}, {RN_SLICE_INIT(" a "), " a "},
        {RN_SLICE_INIT("=1+2"), "=1+2"},         {RN_SLICE_INIT("\xff\x1b"), "\xff\x1b"},
    };

    (void)state;
    for (size_t i = 0; i < RN_COUNT(cases); i++) {
        struct ration_usage usage = row_of(cases[i].client);
        char line[200];

        snprintf(line, sizeof line, "api,%s,false," TIMES "7,2,0,7\r\n", cases[i].field);
        expect_csv(&usage, line);
    }
}

static void other_is_told_from_a_client_of_that_name(void **state)
{
    struct ration_usage usage = row_of(RN_SLICE("other"));

    (void)state;
    expect_csv(&usage, "api,other,false," TIMES "7,2,0,7\r\n");
    usage.other = true;
    expect_csv(&usage, "api,,true," TIMES "7,2,0,7\r\n");
}

static void json_has_the_bytes_of_names_that_are_no_text(void **state)
{
    (void)state;
    expect_json(RN_SLICE("\xd7\xa9\n\""),
                "{\"rule\":\"api\",\"client\":\"\xd7\xa9\\n\\\"\",\"other\":false," JSON_TIMES);
    expect_json(RN_SLICE("a\xff"), "{\"rule\":\"api\",\"client\":\"a\xef\xbf\xbd\",\"client_hex\":"
                                   "\"61ff\",\"other\":false," JSON_TIMES);
    expect_json(RN_SLICE("a\0b"), "{\"rule\":\"api\",\"client\":\"a\xef\xbf\xbd"
                                  "b\",\"client_hex\":\"610062\",\"other\":false," JSON_TIMES);
}

static void bytes_come_back_from_their_digits(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    assert_true(rn_export_unhex(&out, RN_SLICE("61fF00")));
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.data, "a\xff\0", 3);
    assert_true(rn_export_unhex(&out, RN_SLICE("")));
    assert_false(rn_export_unhex(&out, RN_SLICE("6")));
    assert_false(rn_export_unhex(&out, RN_SLICE("6g")));
    rn_buf_done(&out);
}

static void units_are_what_was_admitted_and_corrected(void **state)
{
    struct ration_usage usage = row_of(RN_SLICE("ada"));

    (void)state;
    usage.corrected = -10;
    assert_int_equal(rn_export_units(&usage), -3);
    usage.corrected = INT64_MAX;
    assert_int_equal(rn_export_units(&usage), INT64_MAX);
    usage.admitted = -7;
    usage.corrected = INT64_MIN;
    assert_int_equal(rn_export_units(&usage), INT64_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_quotes_only_what_must_be_quoted),
        cmocka_unit_test(other_is_told_from_a_client_of_that_name),
        cmocka_unit_test(json_has_the_bytes_of_names_that_are_no_text),
        cmocka_unit_test(bytes_come_back_from_their_digits),
        cmocka_unit_test(units_are_what_was_admitted_and_corrected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
