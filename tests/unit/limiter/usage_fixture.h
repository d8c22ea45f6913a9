/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of usage share: a limiter with a state file, and rows as text. */
#ifndef RN_TESTS_LIMITER_USAGE_FIXTURE_H
#define RN_TESTS_LIMITER_USAGE_FIXTURE_H

#include "rules_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "limiter/usage/usage_file.h"

static char folder[160], state_path[200];

static inline int make_folder(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(folder, sizeof folder, "%s/ration-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(state_path, sizeof state_path, "%s/state", folder);
    return 0;
}

static inline int drop_folder(void **state)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char full[600];

    (void)state;
    while (dir && (entry = readdir(dir))) {
        snprintf(full, sizeof full, "%s/%s", folder, entry->d_name);
        unlink(full);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
    return 0;
}

#define USAGE_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

/* Without rules; the wall clock stands at T0. */
static inline struct ration *open_state(uint64_t usage_bytes)
{
    struct ration_options options = {
        .state_path = state_path, .memory_bytes = UINT64_C(4) << 20, .usage_bytes = usage_bytes};
    struct ration_error error;
    struct ration *r = NULL;

    if (ration_open(&options, &r, &error) != 0)
        fail_msg("%s", error.text);
    stopped_at(r, T0);
    return r;
}

static inline struct ration *open_usage(const char *text)
{
    struct ration *r = open_state(UINT64_C(1) << 20);

    rules_at(r, text, T0);
    return r;
}

/* Rows as text: "rule client period admitted/refused/corrected\n" each, sorted. */
struct rows {
    char lines[64][160];
    size_t count;
    int64_t admitted, refused;
};

static inline int add_row(void *arg, const struct ration_usage *u)
{
    struct rows *rows = arg;

    if (rows->count < COUNT(rows->lines))
        snprintf(rows->lines[rows->count], sizeof rows->lines[0], "%.*s %.*s %s %lld/%llu/%lld\n",
                 (int)u->rule_len, u->rule, u->other ? 7 : (int)u->client_len,
                 u->other ? "(other)" : u->client, u->period, (long long)u->admitted,
                 (unsigned long long)u->refused, (long long)u->corrected);
    rows->count++;
    rows->admitted += u->admitted;
    rows->refused += (int64_t)u->refused;
    return 0;
}

static inline int compare_lines(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline struct rows query_rows(struct ration *r, const struct ration_usage_query *q)
{
    struct rows rows = {0};
    struct ration_error error;
    uint64_t next = 1;

    if (ration_usage_each(r, q, add_row, &rows, &next, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(next, 0);
    qsort(rows.lines, rows.count < COUNT(rows.lines) ? rows.count : COUNT(rows.lines),
          sizeof rows.lines[0], compare_lines);
    return rows;
}

static inline struct rows all_rows(struct ration *r, int64_t now_ns)
{
    return query_rows(r, &(struct ration_usage_query){.at_s = now_ns / SECOND});
}

static inline void assert_rows(struct ration *r, int64_t now_ns, const char *expected)
{
    struct rows rows = all_rows(r, now_ns);
    char text[8192] = "";

    for (size_t i = 0; i < rows.count && i < COUNT(rows.lines); i++)
        strcat(text, rows.lines[i]);
    assert_string_equal(text, expected);
}

#endif
