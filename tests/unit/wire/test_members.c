/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and lists, member by member. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ration/ration.h>

#include "wire/json.h"
#include "wire/members.h"

static void expect(struct rn_buf *out, const char *text)
{
    rn_buf_put_char(out, '\0');
    assert_false(out->failed);
    assert_string_equal(out->data, text);
    rn_buf_done(out);
}

static void commas_stand_between_and_nowhere_else(void **state)
{
    struct rn_buf out = {0};
    struct rn_members m = {.out = &out};

    (void)state;
    rn_members_open(&m, NULL, '{');
    rn_members_open(&m, "empty", '[');
    rn_members_close(&m, ']');
    rn_members_open(&m, "list", '[');
    rn_members_u64(&m, NULL, 1);
    rn_members_open(&m, NULL, '{');
    rn_members_close(&m, '}');
    rn_members_open(&m, NULL, '{');
    rn_members_bool(&m, "a", true);
    rn_members_bool(&m, "b", false);
    rn_members_close(&m, '}');
    rn_members_null(&m, NULL);
    rn_members_close(&m, ']');
    rn_members_name(&m, "own");
    rn_buf_put_literal(&out, "[7]");
    rn_members_u64(&m, "last", UINT64_MAX);
    rn_members_close(&m, '}');
    expect(&out, "{\"empty\":[],\"list\":[1,{},{\"a\":true,\"b\":false},null],\"own\":[7],"
                 "\"last\":18446744073709551615}");
}

static void text_is_escaped_also_in_names(void **state)
{
    struct rn_buf out = {0};
    struct rn_members m = {.out = &out};

    (void)state;
    rn_members_open(&m, NULL, '{');
    rn_members_text(&m, "a", RN_SLICE("\"\n\\"));
    rn_members_text_named(&m, RN_SLICE("x\"y"), RN_SLICE("\xff"));
    rn_members_close(&m, '}');
    expect(&out, "{\"a\":\"\\\"\\n\\\\\",\"x\\\"y\":\"\xef\xbf\xbd\"}");
}

static void a_time_that_never_comes_is_null(void **state)
{
    struct rn_buf out = {0};
    struct rn_members m = {.out = &out};

    (void)state;
    rn_members_open(&m, NULL, '[');
    rn_members_seconds(&m, NULL, 600000000);
    rn_members_seconds(&m, NULL, RATION_NEVER);
    rn_members_seconds(&m, NULL, 0);
    rn_members_close(&m, ']');
    expect(&out, "[0.6,null,0]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_between_and_nowhere_else),
        cmocka_unit_test(text_is_escaped_also_in_names),
        cmocka_unit_test(a_time_that_never_comes_is_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
