/* SPDX-License-Identifier: Apache-2.0 */
/* Time zones: files of our own making for every form a file may have, the
 * system's for the places with a history, and bytes that mean harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/zone.h"

#define HOUR 3600

/* ---- files of our own */

struct file {
    unsigned char bytes[1024];
    size_t len;
};

static void add(struct file *f, const void *bytes, size_t len)
{
    memcpy(f->bytes + f->len, bytes, len);
    f->len += len;
}

static void add_number(struct file *f, int64_t value, int bytes)
{
    while (bytes-- > 0)
        f->bytes[f->len++] = (unsigned char)((uint64_t)value >> (8 * bytes));
}

/* What a block holds; types[i] is an offset. */
struct content {
    int64_t times[4];
    unsigned char indices[4];
    int32_t types[3];
    int time_count, type_count, leap_count;
};

static void add_block(struct file *f, char version, int time_bytes, struct content c)
{
    const int counts[] = {0, 0, c.leap_count, c.time_count, c.type_count, 4};

    add(f, "TZif", 4);
    add_number(f, version, 1);
    f->len += 15;
    for (int i = 0; i < 6; i++)
        add_number(f, counts[i], 4);
    for (int i = 0; i < c.time_count; i++)
        add_number(f, c.times[i], time_bytes);
    add(f, c.indices, (size_t)c.time_count);
    for (int i = 0; i < c.type_count; i++) {
        add_number(f, c.types[i], 4);
        add_number(f, 0, 2);
    }
    add(f, "LMT", 4);
    f->len += (size_t)(c.leap_count * (time_bytes + 4));
}

static struct file file_of(char version, struct content c, const char *footer)
{
    struct file f = {.len = 0};

    if (version != '\0')
        add_block(&f, version, 4, (struct content){.type_count = 1});
    add_block(&f, version, version == '\0' ? 4 : 8, c);
    add(&f, footer, strlen(footer));
    return f;
}

static struct rn_zone *parse(struct file f)
{
    struct ration_error error;
    struct rn_zone *zone = NULL;
    unsigned char *exact = malloc(f.len); /* so that a sanitizer sees its end */

    memcpy(exact, f.bytes, f.len);
    if (rn_zone_parse(exact, f.len, &zone, &error) != 0)
        fail_msg("%s", error.text);
    free(exact);
    return zone;
}

static struct rn_zone *from_rule(const char *rule)
{
    char footer[80];

    snprintf(footer, sizeof footer, "\n%s\n", rule);
    return parse(file_of('3', (struct content){.type_count = 1}, footer));
}

static void assert_damaged(struct file f, const char *text)
{
    struct ration_error error;
    struct rn_zone *zone = NULL;

    assert_int_equal(rn_zone_parse(f.bytes, f.len, &zone, &error), RATION_EPARSE);
    assert_string_equal(error.text, text);
    assert_int_equal(rn_zone_parse(f.bytes, f.len, &zone, NULL), RATION_EPARSE);
    assert_null(zone);
}

/* ---- the system's files */

static struct rn_zone *load(const char *name)
{
    struct ration_error error;
    struct rn_zone *zone = NULL;

    if (rn_zone_load(name, &zone, &error) != 0)
        fail_msg("%s", error.text);
    return zone;
}

static int64_t utc(int64_t year, int month, int day, int hour, int minute)
{
    return rn_civil_days((struct rn_civil){year, month, day}) * RN_DAY_S + hour * HOUR +
           minute * 60;
}

static int64_t begin_of(const struct rn_zone *zone, int64_t year, int month, int day)
{
    return rn_zone_local_to_unix(zone, (struct rn_civil){year, month, day});
}

/* ---- tests */

static void utc_needs_no_file(void **state)
{
    static const char *const names[] = {"UTC", ""};

    (void)state;
    setenv("TZDIR", "/nonexistent", 1);
    for (int i = 0; i < 2; i++) {
        struct rn_zone *zone = load(names[i]);

        assert_int_equal(rn_zone_offset_at(zone, 0), 0);
        assert_int_equal(rn_zone_offset_at(zone, INT64_MIN), 0);
        assert_int_equal(rn_zone_offset_at(zone, INT64_MAX), 0);
        assert_int_equal(begin_of(zone, 2026, 3, 1), 1772323200);
        rn_zone_free(zone);
    }
    unsetenv("TZDIR");
}

static void every_version_of_the_format_is_read(void **state)
{
    static const char versions[] = {'\0', '2', '3', '4'};
    const struct content two = {.times = {-100, 1000},
                                .indices = {1, 2},
                                .types = {60, 7200, -HOUR},
                                .time_count = 2,
                                .type_count = 3};

    (void)state;
    for (size_t i = 0; i < sizeof versions; i++) {
        struct rn_zone *zone = parse(file_of(versions[i], two, versions[i] ? "\n\n" : ""));

        assert_int_equal(rn_zone_offset_at(zone, -101), 60);
        assert_int_equal(rn_zone_offset_at(zone, -100), 7200);
        assert_int_equal(rn_zone_offset_at(zone, 999), 7200);
        assert_int_equal(rn_zone_offset_at(zone, 1000), -HOUR);
        assert_int_equal(rn_zone_offset_at(zone, INT64_MAX), -HOUR);
        rn_zone_free(zone);
    }
}

static void the_rule_follows_the_last_transition(void **state)
{
    const struct content one = {.times = {utc(2030, 1, 1, 0, 0)},
                                .indices = {1},
                                .types = {7 * HOUR, HOUR},
                                .time_count = 1,
                                .type_count = 2};
    struct rn_zone *zone = parse(file_of('2', one, "\nCET-1CEST,M3.5.0,M10.5.0/3\n"));

    (void)state;
    assert_int_equal(rn_zone_offset_at(zone, utc(2029, 7, 1, 0, 0)), 7 * HOUR);
    assert_int_equal(rn_zone_offset_at(zone, utc(2030, 3, 31, 0, 59)), HOUR);
    assert_int_equal(rn_zone_offset_at(zone, utc(2030, 3, 31, 1, 0)), 2 * HOUR);
    assert_int_equal(rn_zone_offset_at(zone, utc(2030, 10, 27, 1, 0) - 1), 2 * HOUR);
    assert_int_equal(rn_zone_offset_at(zone, utc(2030, 10, 27, 1, 0)), HOUR);
    rn_zone_free(zone);
}

static void damage_is_named(void **state)
{
    const struct content back = {.times = {5, 5}, .type_count = 1, .time_count = 2};
    struct file f = file_of('2', (struct content){.type_count = 1}, "\n\n");

    (void)state;
    for (size_t len = 0; len < f.len; len++) {
        struct file cut = f;
        struct rn_zone *zone = NULL;

        cut.len = len;
        assert_int_equal(rn_zone_parse(cut.bytes, cut.len, &zone, NULL), RATION_EPARSE);
    }
    assert_damaged((struct file){.bytes = "GIF89a", .len = 60}, "a time zone file that is not one");
    assert_damaged(file_of('2', (struct content){.type_count = 1}, "\nUTC0"),
                   "a time zone file that lacks the rule at its end");
    assert_damaged(file_of('2', (struct content){.type_count = 1}, "\nCET-1CEST\n"),
                   "a time zone file that ends with a rule that cannot be understood");
    assert_damaged(file_of('2', (struct content){.type_count = 0}, "\n\n"),
                   "a time zone file that names a kind of time that it does not have");
    assert_damaged(file_of('2', back, "\n\n"),
                   "a time zone file that has times that are not in order");
    assert_damaged(file_of('2', (struct content){.types = {26 * HOUR}, .type_count = 1}, "\n\n"),
                   "a time zone file that has an offset of 26 hours or more");
    assert_damaged(file_of('2', (struct content){.type_count = 1, .leap_count = 1}, "\n\n"),
                   "a time zone file that counts leap seconds, which Unix time does not");
    memset(f.bytes + 32, 0xff, 12); /* the counts of times, types and names */
    assert_damaged(f, "a time zone file that is cut short");
}

static void assert_not_loaded(const char *name, int code, const char *text)
{
    struct rn_zone *zone = NULL;
    struct ration_error error;

    assert_int_equal(rn_zone_load(name, &zone, &error), code);
    assert_string_equal(error.text, text);
    assert_int_equal(rn_zone_load(name, &zone, NULL), code);
    assert_null(zone);
}

static void names_do_not_lead_out_of_the_directory(void **state)
{
    static const char *const names[] = {"../etc/passwd",
                                        "/etc/localtime",
                                        "Europe/../UTC",
                                        "Europe//Rome",
                                        "Europe/",
                                        "Europe/R\303\263ma",
                                        "a b",
                                        ".",
                                        "%s"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rn_zone *zone = NULL;
        struct ration_error error;

        assert_int_equal(rn_zone_load(names[i], &zone, &error), RATION_EINVAL);
        assert_non_null(strstr(error.text, "is not the name of a time zone; write one such as"));
    }
}

static void what_cannot_be_loaded_is_explained(void **state)
{
    char directory[] = "/tmp/ration-zone-XXXXXX", path[64];

    (void)state;
    assert_not_loaded("Europe/Roma", RATION_EINVAL,
                      "unknown time zone \"Europe/Roma\"; write one of the tz database, letter "
                      "case included, such as Europe/Rome, America/New_York or UTC");
    assert_not_loaded("Europe", RATION_EPARSE,
                      "time zone \"Europe\": a time zone file that is not one");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/Fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    setenv("TZDIR", directory, 1);
    assert_not_loaded("Fifo", RATION_EPARSE,
                      "time zone \"Fifo\": a time zone file that is not one");
    unlink(path);
    rmdir(directory);
    setenv("TZDIR", "/nonexistent", 1);
    assert_not_loaded("Europe/Rome", RATION_EINVAL,
                      "no time zones in /nonexistent; install tzdata, set TZDIR, or use UTC");
    unsetenv("TZDIR");
}

static void midnight_in_ordinary_places(void **state)
{
    struct rn_zone *rome = load("Europe/Rome"), *kolkata = load("Asia/Kolkata");

    (void)state;
    assert_int_equal(begin_of(rome, 2026, 3, 1), utc(2026, 2, 28, 23, 0));
    assert_int_equal(begin_of(rome, 2026, 4, 1), utc(2026, 3, 31, 22, 0));
    assert_int_equal(begin_of(rome, 2050, 7, 1), utc(2050, 6, 30, 22, 0));
    assert_int_equal(begin_of(rome, 2050, 12, 1), utc(2050, 11, 30, 23, 0));
    assert_int_equal(begin_of(kolkata, 2026, 1, 1), utc(2025, 12, 31, 18, 30));
    assert_int_equal(begin_of(kolkata, 2090, 6, 1), utc(2090, 5, 31, 18, 30));
    rn_zone_free(rome);
    rn_zone_free(kolkata);
}

static void midnight_that_clocks_skip_is_the_moment_they_do(void **state)
{
    struct rn_zone *zone = load("America/Sao_Paulo");

    (void)state;
    assert_int_equal(begin_of(zone, 2018, 11, 3), utc(2018, 11, 3, 3, 0));
    assert_int_equal(begin_of(zone, 2018, 11, 4), utc(2018, 11, 4, 3, 0)); /* shows 01:00 */
    assert_int_equal(begin_of(zone, 2018, 11, 5), utc(2018, 11, 5, 2, 0));
    /* At midnight back to 23:00: the hour before it comes twice, midnight once. */
    assert_int_equal(begin_of(zone, 2018, 2, 17), utc(2018, 2, 17, 2, 0));
    assert_int_equal(begin_of(zone, 2018, 2, 18), utc(2018, 2, 18, 3, 0));
    rn_zone_free(zone);
}

static void midnight_that_comes_twice_is_the_first(void **state)
{
    /* At 00:30 back to 23:30. */
    struct rn_zone *zone = from_rule("AAA0BBB,M3.1.0,J300/0:30"), *havana = load("America/Havana");

    (void)state;
    assert_int_equal(begin_of(zone, 2027, 10, 27), utc(2027, 10, 26, 23, 0));
    assert_int_equal(begin_of(zone, 2027, 10, 28), utc(2027, 10, 28, 0, 0));
    /* Cuba: at 01:00 back to midnight. */
    assert_int_equal(begin_of(havana, 2025, 11, 2), utc(2025, 11, 2, 4, 0));
    assert_int_equal(begin_of(havana, 2025, 11, 3), utc(2025, 11, 3, 5, 0));
    rn_zone_free(zone);
    rn_zone_free(havana);
}

static void a_day_left_out_begins_with_the_next(void **state)
{
    struct rn_zone *zone = load("Pacific/Apia");

    (void)state;
    assert_int_equal(begin_of(zone, 2011, 12, 29), utc(2011, 12, 29, 10, 0));
    assert_int_equal(begin_of(zone, 2011, 12, 30), utc(2011, 12, 30, 10, 0));
    assert_int_equal(begin_of(zone, 2011, 12, 31), utc(2011, 12, 30, 10, 0));
    assert_int_equal(begin_of(zone, 2012, 1, 1), utc(2011, 12, 31, 10, 0));
    rn_zone_free(zone);
}

/* ---- hostile bytes */

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static bool try_bytes(const unsigned char *bytes, size_t len)
{
    struct rn_zone *zone;

    if (rn_zone_parse(bytes, len, &zone, NULL) != 0)
        return false;
    for (int64_t year = 1850; year < 2150; year += 29) {
        int64_t day = begin_of(zone, year, 10, 30), next = begin_of(zone, year, 10, 31);
        int32_t offset = rn_zone_offset_at(zone, day);

        assert_true(day <= next && labs(offset) < RN_ZONE_OFFSET_BOUND_S);
    }
    rn_zone_free(zone);
    return true;
}

static void no_change_of_bytes_does_harm(void **state)
{
    const struct content four = {.times = {-5, 100, 1000, 100000},
                                 .indices = {1, 0, 1, 2},
                                 .types = {0, HOUR, -HOUR},
                                 .time_count = 4,
                                 .type_count = 3};
    const struct file good = file_of('3', four, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    uint64_t seed = 20260101;
    unsigned accepted = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct file f = good;
        size_t len = next_random(&seed) % 8 ? f.len : next_random(&seed) % f.len;

        for (uint64_t n = next_random(&seed) % 4; n > 0; n--)
            f.bytes[next_random(&seed) % f.len] = (unsigned char)next_random(&seed);
        unsigned char *exact = malloc(len ? len : 1);
        memcpy(exact, f.bytes, len);
        accepted += try_bytes(exact, len);
        free(exact);
    }
    assert_in_range(accepted, 1000, 19000);
}

int main(void)
{
    const struct CMUnitTest zone[] = {
        cmocka_unit_test(utc_needs_no_file),
        cmocka_unit_test(every_version_of_the_format_is_read),
        cmocka_unit_test(the_rule_follows_the_last_transition),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(names_do_not_lead_out_of_the_directory),
        cmocka_unit_test(what_cannot_be_loaded_is_explained),
        cmocka_unit_test(midnight_in_ordinary_places),
        cmocka_unit_test(midnight_that_clocks_skip_is_the_moment_they_do),
        cmocka_unit_test(midnight_that_comes_twice_is_the_first),
        cmocka_unit_test(a_day_left_out_begins_with_the_next),
        cmocka_unit_test(no_change_of_bytes_does_harm),
    };

    return cmocka_run_group_tests(zone, NULL, NULL);
}
