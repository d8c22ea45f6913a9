/* SPDX-License-Identifier: Apache-2.0 */
/* Automatic bans as nodes exchange them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/fleet/fleet_internal.h"

#define SECOND INT64_C(1000000000)
#define NAME "00000000000000010000000000000abc"

static void expect_written(const struct rn_reputation_event *event, const char *text)
{
    struct rn_buf out = {0};

    rn_fleet_ban_write(&out, event);
    rn_buf_put_char(&out, '\0');
    assert_false(out.failed);
    assert_string_equal(out.data, text);
    rn_buf_done(&out);
}

static void a_ban_is_sent_with_its_age_and_its_rest(void **state)
{
    struct rn_reputation_event event = {
        .rule = 1, .hash = 0xabc, .level = 3, .age_ns = 2 * SECOND, .ends_in_ns = 60 * SECOND};

    (void)state;
    expect_written(&event, NAME " 3 2000000 60000000");
    event.age_ns = -5; /* the clock has stepped */
    expect_written(&event, NAME " 3 0 60000000");
    event.hash |= 3; /* records do not keep these bits */
    expect_written(&event, NAME " 3 0 60000000");
    event.level = 0; /* a lift lasts */
    event.age_ns = 0;
    expect_written(&event, NAME " 0 0 0");
}

static void an_old_event_is_sent_as_a_little_older(void **state)
{
    struct rn_reputation_event event = {
        .rule = 1, .hash = 0xabc, .level = 1, .age_ns = 11 * SECOND, .ends_in_ns = SECOND};

    (void)state;
    expect_written(&event, NAME " 1 12000000 1000000");
}

static void what_others_say_is_read(void **state)
{
    struct rn_fleet_ban ban;

    (void)state;
    assert_true(rn_fleet_ban_read(RN_SLICE("ffffffffffffffff0123456789abcdef 31 60000001"), &ban));
    assert_true(ban.rule == UINT64_MAX && ban.hash == 0x0123456789abcdef);
    assert_int_equal(ban.level, 31);
    assert_int_equal(ban.rest_ns, INT64_C(60000001000));
    assert_true(rn_fleet_ban_read(RN_SLICE(NAME " 0 0"), &ban));
    assert_int_equal(ban.level, 0);
    assert_int_equal(ban.rest_ns, 0);
    assert_true(rn_fleet_ban_read(RN_SLICE(NAME " 1 31622400000000"), &ban)); /* 366 days */
}

static void what_is_malformed_bans_nobody(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        NAME,
        NAME " 1",
        NAME " 1 ",
        NAME "  1 5",
        NAME " 32 5",
        NAME " 99999999999999999999 5",
        NAME " 1 31622400000001",
        NAME " 1 99999999999999999999999",
        NAME " -1 5",
        NAME " 1 -5",
        NAME " 1 5 ",
        NAME " 1 5 6",
        NAME " 1 5x",
        NAME " 1\n5",
        NAME " 0 5", /* a lift has no rest, */
        NAME " 1 0", /* and a ban has one */
        "0000000000000001000000000000ABC0 1 5",
        "000000000000000100000000000000g0 1 5",
        "1 1 5",
        "0" NAME " 1 5",
    };
    struct rn_fleet_ban ban;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (rn_fleet_ban_read(rn_slice_of(bad[i]), &ban))
            fail_msg("\"%s\" was read", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ban_is_sent_with_its_age_and_its_rest),
        cmocka_unit_test(an_old_event_is_sent_as_a_little_older),
        cmocka_unit_test(what_others_say_is_read),
        cmocka_unit_test(what_is_malformed_bans_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
