/* SPDX-License-Identifier: Apache-2.0 */
/* The format of a shared change in Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/fleet/fleet_internal.h"

static struct rn_slice write(struct rn_buf *out, uint32_t kind, int64_t made, int64_t expires,
                             const char *text)
{
    rn_buf_clear(out);
    rn_fleet_item_write(out, &(struct rn_fleet_item){kind, made, expires, rn_slice_of(text)});
    assert_false(out->failed);
    return rn_buf_slice(out);
}

static void a_value_is_what_the_scripts_expect(void **state)
{
    struct rn_buf out = {0};
    struct rn_slice bytes = write(&out, RN_OVERRIDE_SET, 1800000000000001, 0, "text");

    (void)state;
    assert_true(rn_slice_is(bytes, "180000000000000110000000000000000text"));
    bytes = write(&out, RN_FLEET_RULES_DELETE, 1, 9007199254740991, "");
    assert_true(rn_slice_is(bytes, "000000000000000169007199254740991"));
    rn_buf_done(&out);
}

static void a_written_change_can_be_read(void **state)
{
    struct rn_buf out = {0};
    struct rn_fleet_item value;

    (void)state;
    assert_true(
        rn_fleet_item_read(write(&out, 4, 1800000000000001, 1900000000000002, "5 text"), &value));
    assert_int_equal(value.kind, 4);
    assert_int_equal(value.made_us, 1800000000000001);
    assert_int_equal(value.expires_us, 1900000000000002);
    assert_true(rn_slice_is(value.text, "5 text"));
    assert_true(rn_fleet_item_read(write(&out, 1, 0, 0, ""), &value));
    assert_int_equal(value.text.len, 0);
    rn_buf_done(&out);
}

static void anything_else_is_no_value(void **state)
{
    static const char *const others[] = {
        "",
        "18000000000000011000000000000000",
        "-80000000000000110000000000000000text",
        "1800000000000001x0000000000000000text",
        "18000000000000011000000000000000 text",
        "limits: []\nlimits: []\nlimits: []\nlimits: []\n",
    };
    struct rn_fleet_item value;

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(rn_fleet_item_read(rn_slice_of(others[i]), &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_what_the_scripts_expect),
        cmocka_unit_test(a_written_change_can_be_read),
        cmocka_unit_test(anything_else_is_no_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
