/* SPDX-License-Identifier: Apache-2.0 */
/* Usage as nodes publish it: what is written is read as the same, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "redis/fleet/fleet_internal.h"

#define FILE_ID "0123456789abcdef"
#define ROW FILE_ID "00000000000000ff"

static struct ration_usage november(void)
{
    return (struct ration_usage){.rule = "team api",
                                 .rule_len = 8,
                                 .start_s = 1793491200,
                                 .end_s = 1796083200,
                                 .period = "2026-11",
                                 .zone = "Europe/Rome"};
}

static bool read_group(const struct ration_usage *usage, const char *number,
                       struct rn_fleet_usage_group *group, struct rn_buf *text)
{
    char id[17];

    snprintf(id, sizeof id, "%016llx", (unsigned long long)rn_fleet_usage_group_id(usage));
    rn_buf_clear(text);
    rn_buf_putf(text, "%s ", number);
    rn_fleet_usage_group_write(text, usage, 3);
    return rn_fleet_usage_group_read(rn_slice_of(id), rn_buf_slice(text), group);
}

static void a_group_is_read_as_it_was_written(void **state)
{
    struct ration_usage usage = november();
    struct rn_fleet_usage_group group;
    struct rn_buf text = {0};

    (void)state;
    assert_true(read_group(&usage, "7 99", &group, &text));
    assert_int_equal(group.number, 7);
    assert_true(rn_slice_is((struct rn_slice){group.usage.rule, group.usage.rule_len}, "team api"));
    assert_int_equal(group.usage.start_s, usage.start_s);
    assert_int_equal(group.usage.end_s, usage.end_s);
    assert_string_equal(group.usage.period, "2026-11");
    assert_string_equal(group.usage.zone, "Europe/Rome");
    /* UTC has two names. */
    usage.zone[0] = '\0';
    assert_true(read_group(&usage, "7 99", &group, &text));
    assert_string_equal(group.usage.zone, "");
    uint64_t id = group.id;

    memcpy(usage.zone, "UTC", 4);
    assert_true(read_group(&usage, "7 99", &group, &text));
    assert_string_equal(group.usage.zone, "");
    assert_true(group.id == id);
    assert_false(read_group(&usage, "0 99", &group, &text));
    assert_false(read_group(&usage, "4294967296 99", &group, &text));
    assert_false(read_group(&usage, "7", &group, &text));
    usage.end_s = usage.start_s;
    assert_false(read_group(&usage, "7 99", &group, &text));
    rn_buf_done(&text);
}

static void a_group_under_a_name_of_another_is_refused(void **state)
{
    struct ration_usage usage = november();
    struct rn_fleet_usage_group group;

    (void)state;
    assert_false(rn_fleet_usage_group_read(
        RN_SLICE(FILE_ID), RN_SLICE("1 9 1793491200 1796083200 3 2026-11 UTC api"), &group));
    uint64_t id = rn_fleet_usage_group_id(&usage);

    usage.rule_len = 4;
    assert_true(rn_fleet_usage_group_id(&usage) != id);
    usage = november();
    usage.start_s++;
    assert_true(rn_fleet_usage_group_id(&usage) != id);
    usage = november();
    usage.zone[0] = '\0';
    assert_true(rn_fleet_usage_group_id(&usage) != id);
}

static void keys_have_the_tag_of_the_fleet(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    rn_fleet_usage_key_write(&out, 0xab, RN_FLEET_USAGE_BUCKETS);
    assert_true(rn_slice_is(rn_buf_slice(&out), "ration:{fleet}:usage:00000000000000ab"));
    rn_buf_clear(&out);
    rn_fleet_usage_key_write(&out, 0xab, 4095);
    assert_true(rn_slice_is(rn_buf_slice(&out), "ration:{fleet}:usage:00000000000000ab:fff"));
    rn_buf_done(&out);
}

static void a_file_has_a_host_and_a_last_report(void **state)
{
    static const char *const bad[] = {
        "",           "1 2 3",      "1 2 3 ",       "x 2 3 web",
        "1 -2 3 web", "1 2 3 we b", "1 2 3 we\x01", "99999999999999999999 0 3 web"};
    struct rn_fleet_usage_file file;

    (void)state;
    assert_true(rn_fleet_usage_file_read(RN_SLICE(FILE_ID),
                                         RN_SLICE("1800000000 17 1900000000 web-1"), &file));
    assert_string_equal(file.name, "web-1/" FILE_ID);
    assert_int_equal(file.seen_s, 1800000000);
    assert_int_equal(file.unpublished, 17);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(rn_fleet_usage_file_read(RN_SLICE(FILE_ID), rn_slice_of(bad[i]), &file));
    assert_false(rn_fleet_usage_file_read(RN_SLICE("short"), RN_SLICE("1 2 3 web"), &file));
}

static void rows_are_read_exactly(void **state)
{
    struct rn_fleet_usage_row row;

    (void)state;
    assert_true(rn_fleet_usage_row_read(
        RN_SLICE(ROW "c192.0.2.7 /x"),
        RN_SLICE("5 -9223372036854775808 18446744073709551615 9223372036854775807"), &row));
    assert_true(rn_slice_is(row.client, "192.0.2.7 /x") && !row.other);
    assert_true(row.admitted == INT64_MIN && row.refused == UINT64_MAX &&
                row.corrected == INT64_MAX);
    assert_true(rn_fleet_usage_row_read(RN_SLICE(ROW "o"), RN_SLICE("5 1 2 -3"), &row));
    assert_true(row.other && row.client.len == 0 && row.corrected == -3);
    assert_true(rn_fleet_usage_row_read(RN_SLICE(ROW "c"), RN_SLICE("5 0 0 0"), &row));
    assert_true(!row.other && row.client.len == 0);
}

static void malformed_rows_are_refused(void **state)
{
    static const char *const values[] = {
        "",         "5",         "5 1",       "5 1 2",     "5 1 2 3 4", "5 1 2 3 ",
        "x 1 2 3",  "5 - 2 3",   "5 1 -2 3",  "5 1 2 --3", "5 1.5 2 3", " 5 1 2 3",
        "5 1  2 3", "5 1 2 3\n", "5 nan 2 3", "5 1 2 +3",  "-5 1 2 3",  "5 0x10 2 3"};
    static const char *const fields[] = {"",
                                         ROW,
                                         "c",
                                         "short c",
                                         FILE_ID "cann",
                                         ROW "x",
                                         ROW "oname",
                                         ROW "C",
                                         FILE_ID "0123456789ABCDEFcann"};
    struct rn_fleet_usage_row row;
    char field[33 + RATION_USAGE_CLIENT_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (rn_fleet_usage_row_read(RN_SLICE(ROW "cann"), rn_slice_of(values[i]), &row))
            fail_msg("\"%s\" was read", values[i]);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (rn_fleet_usage_row_read(rn_slice_of(fields[i]), RN_SLICE("5 1 2 3"), &row))
            fail_msg("\"%s\" was read", fields[i]);
    assert_false(
        rn_fleet_usage_row_read(RN_SLICE(ROW "cann"), RN_SLICE("5 9223372036854775808 2 3"), &row));
    assert_false(rn_fleet_usage_row_read(RN_SLICE(ROW "cann"),
                                         RN_SLICE("5 1 18446744073709551616 3"), &row));
    memset(field, 'x', sizeof field);
    memcpy(field, ROW "c", 33);
    assert_true(rn_fleet_usage_row_read((struct rn_slice){field, 33 + RATION_USAGE_CLIENT_MAX},
                                        RN_SLICE("5 1 2 3"), &row));
    assert_false(rn_fleet_usage_row_read((struct rn_slice){field, 34 + RATION_USAGE_CLIENT_MAX},
                                         RN_SLICE("5 1 2 3"), &row));
}

static void add(struct rn_fleet_usage_rows *rows, const char *client, bool other, int64_t admitted)
{
    struct rn_slice name = rn_slice_of(client);
    struct rn_fleet_usage_row row = {.client = name,
                                     .other = other,
                                     .hash = rn_fleet_usage_hash(name, other),
                                     .admitted = admitted,
                                     .refused = 1,
                                     .corrected = -admitted};

    assert_int_equal(rn_fleet_usage_rows_add(rows, &row), 0);
}

static void rows_of_several_files_are_added_up(void **state)
{
    struct rn_fleet_usage_rows rows = {0};
    int64_t most = INT64_C(1) << 62, sum = 0;
    char name[16];

    (void)state;
    rn_fleet_usage_rows_add_up(&rows);
    assert_int_equal(rows.count, 0);
    for (int file = 0; file < 3; file++) {
        for (int i = 0; i < 1000; i++) {
            snprintf(name, sizeof name, "client%d", i);
            add(&rows, name, false, i == 7 && file < 2 ? most - 1 : i);
        }
        add(&rows, "", true, 5);
        add(&rows, "", false, 9);
    }
    rn_fleet_usage_rows_add_up(&rows);
    assert_int_equal(rows.count, 1002);
    for (size_t i = 0; i < rows.count; i++) {
        struct rn_fleet_usage_row row = rn_fleet_usage_rows_at(&rows, i);

        assert_true(i == 0 || rows.list[i - 1].hash <= row.hash);
        assert_int_equal(row.refused, 3);
        assert_true(row.corrected == -row.admitted || rn_slice_is(row.client, "client7"));
        if (row.other || row.client.len == 0)
            assert_int_equal(row.admitted, row.other ? 15 : 27);
        else if (rn_slice_is(row.client, "client7"))
            assert_true(row.admitted == INT64_MAX && row.corrected == INT64_MIN);
        else
            sum += row.admitted;
    }
    assert_int_equal(sum, 3 * (999 * 1000 / 2 - 7));
    rn_fleet_usage_rows_clear(&rows);
    add(&rows, "again", false, 1);
    rn_fleet_usage_rows_add_up(&rows);
    assert_int_equal(rows.count, 1);
    assert_true(rn_slice_is(rn_fleet_usage_rows_at(&rows, 0).client, "again"));
    rn_fleet_usage_rows_done(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_read_as_it_was_written),
        cmocka_unit_test(a_group_under_a_name_of_another_is_refused),
        cmocka_unit_test(keys_have_the_tag_of_the_fleet),
        cmocka_unit_test(a_file_has_a_host_and_a_last_report),
        cmocka_unit_test(rows_are_read_exactly),
        cmocka_unit_test(malformed_rows_are_refused),
        cmocka_unit_test(rows_of_several_files_are_added_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
