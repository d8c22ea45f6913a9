/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses as nodes exchange them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/fleet/fleet_internal.h"

#define SECOND INT64_C(1000000000)
#define NAME "0000000000000abc"

static void expect_written(const struct rn_pause_event *event, int64_t now_ns, const char *text)
{
    struct rn_buf out = {0};

    rn_fleet_pause_write(&out, event, now_ns);
    rn_buf_put_char(&out, '\0');
    assert_false(out.failed);
    assert_string_equal(out.data, text);
    rn_buf_done(&out);
}

static void a_pause_is_sent_with_its_age_and_its_rest(void **state)
{
    struct rn_pause_event event = {
        .key = 0xabc, .at_ns = 100 * SECOND, .ends_ns = 160 * SECOND, .heard = false};

    (void)state;
    expect_written(&event, 102 * SECOND, NAME " 2000000 58000000");
    expect_written(&event, 99 * SECOND, NAME " 0 61000000");         /* the clock has stepped */
    expect_written(&event, 111 * SECOND, NAME " 12000000 49000000"); /* late: a little older */
    event.ends_ns = 0;
    expect_written(&event, 100 * SECOND, NAME " 0 0"); /* a lift lasts */
}

static void what_others_say_is_read(void **state)
{
    uint64_t key;
    int64_t rest_ns;

    (void)state;
    assert_true(rn_fleet_pause_read(RN_SLICE("0123456789abcdef 60000001"), &key, &rest_ns));
    assert_true(key == 0x0123456789abcdef);
    assert_int_equal(rest_ns, INT64_C(60000001000));
    assert_true(rn_fleet_pause_read(RN_SLICE(NAME " 0"), &key, &rest_ns));
    assert_int_equal(rest_ns, 0);
    assert_true(rn_fleet_pause_read(RN_SLICE(NAME " 86400000000"), &key, &rest_ns));
    assert_int_equal(rest_ns, RATION_PAUSE_MAX_NS);
}

static void what_is_malformed_pauses_nothing(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      NAME,
                                      NAME " ",
                                      NAME "  1",
                                      NAME " x",
                                      NAME " -1",
                                      NAME " 1 2",
                                      NAME " ? 1",
                                      "ABCDEFABCDEFABCD 1",
                                      "short 1",
                                      NAME "0 123",
                                      NAME " 1.5",
                                      NAME " 86400000001",
                                      NAME " 99999999999",
                                      NAME " 99999999999999999999999"};
    uint64_t key;
    int64_t rest_ns;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (rn_fleet_pause_read(rn_slice_of(bad[i]), &key, &rest_ns))
            fail_msg("\"%s\" was read", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_is_sent_with_its_age_and_its_rest),
        cmocka_unit_test(what_others_say_is_read),
        cmocka_unit_test(what_is_malformed_pauses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
