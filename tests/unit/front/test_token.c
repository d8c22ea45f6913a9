/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "front/token.h"

#define TOKEN RN_SLICE("open-sesame")

static struct rn_token_guard guard;

static struct rn_peer peer_at(const char *address)
{
    struct rn_peer peer = {.local = false};

    assert_int_equal(rn_ip_parse(address, strlen(address), &peer.ip, NULL), 0);
    return peer;
}

static enum rn_token_answer try(const char *address, const char *given, int64_t now_ns)
{
    struct rn_peer peer = peer_at(address);

    return rn_token_try(&guard, &peer, false, TOKEN, rn_slice_of(given), now_ns);
}

static int begin(void **state)
{
    (void)state;
    memset(&guard, 0, sizeof guard);
    return rn_token_guard_init(&guard) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    rn_token_guard_done(&guard);
    return 0;
}

static void ten_wrong_ones_then_one_a_second(void **state)
{
    int64_t now_ns = 1000 * RN_SECOND_NS;

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(try("192.0.2.1", "wrong", now_ns), RN_TOKEN_WRONG);
    assert_int_equal(try("192.0.2.1", "wrong", now_ns), RN_TOKEN_LATER);
    assert_int_equal(try("192.0.2.1", "open-sesame", now_ns), RN_TOKEN_LATER);
    now_ns += RN_SECOND_NS;
    assert_int_equal(try("192.0.2.1", "wrong", now_ns), RN_TOKEN_WRONG);
    assert_int_equal(try("192.0.2.1", "wrong", now_ns), RN_TOKEN_LATER);
    now_ns += RN_SECOND_NS;
    for (int i = 0; i < 100; i++) /* a right one costs nothing */
        assert_int_equal(try("192.0.2.1", "open-sesame", now_ns), RN_TOKEN_RIGHT);
    assert_int_equal(try("192.0.2.1", "wrong", now_ns), RN_TOKEN_WRONG);
}

static void nobody_answers_for_the_guesses_of_others(void **state)
{
    struct rn_peer known = peer_at("192.0.2.1");
    char address[32];

    (void)state;
    for (int i = 0; i < 11; i++)
        try("192.0.2.1", "wrong", RN_SECOND_NS);
    assert_int_equal(try("192.0.2.1", "open-sesame", RN_SECOND_NS), RN_TOKEN_LATER);
    assert_int_equal(
        rn_token_try(&guard, &known, true, TOKEN, RN_SLICE("open-sesame"), RN_SECOND_NS),
        RN_TOKEN_RIGHT);
    for (int i = 0; i < 5000; i++) {
        snprintf(address, sizeof address, "10.1.%d.%d", i / 250, i % 250);
        assert_int_equal(try(address, "wrong", RN_SECOND_NS), RN_TOKEN_WRONG);
    }
}

static void a_network_of_ipv6_is_one_address(void **state)
{
    char address[32];

    (void)state;
    for (int i = 0; i < 10; i++) {
        snprintf(address, sizeof address, "2001:db8::%x", i);
        assert_int_equal(try(address, "wrong", RN_SECOND_NS), RN_TOKEN_WRONG);
    }
    assert_int_equal(try("2001:db8::ff", "wrong", RN_SECOND_NS), RN_TOKEN_LATER);
    assert_int_equal(try("2001:db8:0:1::1", "wrong", RN_SECOND_NS), RN_TOKEN_WRONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ten_wrong_ones_then_one_a_second, begin, end),
        cmocka_unit_test_setup_teardown(nobody_answers_for_the_guesses_of_others, begin, end),
        cmocka_unit_test_setup_teardown(a_network_of_ipv6_is_one_address, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
