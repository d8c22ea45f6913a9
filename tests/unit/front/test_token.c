/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "front/token.h"

static struct rn_token_guard guard;
static struct rn_token tokens[2];

static struct rn_peer peer_at(const char *address)
{
    struct rn_peer peer = {.local = false};

    assert_int_equal(rn_ip_parse(address, strlen(address), &peer.ip, NULL), 0);
    return peer;
}

#define NOBODY ((struct rn_slice){0})

static enum rn_token_answer try(const char *address, const char *given, int64_t now_ns)
{
    struct rn_peer peer = peer_at(address);
    struct rn_token_shown shown = {0};

    return rn_token_try(&guard, &peer, &shown, NOBODY, rn_slice_of(given), now_ns);
}

static int begin(void **state)
{
    (void)state;
    memset(&guard, 0, sizeof guard);
    tokens[0] =
        (struct rn_token){.name = "admin", .scope = RN_SCOPE_ADMIN, .text = strdup("open-sesame")};
    tokens[1] = (struct rn_token){
        .name = "scraper", .scope = RN_SCOPE_METRICS, .text = strdup("open-barley")};
    guard.tokens = tokens;
    guard.token_count = 2;
    return rn_token_guard_init(&guard) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    rn_token_guard_done(&guard);
    free(tokens[0].text);
    free(tokens[1].text);
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
    for (int i = 0; i < 100; i++) /* a right one does not count */
        assert_int_equal(try("192.0.2.1", "open-sesame", now_ns), RN_TOKEN_RIGHT);
    assert_int_equal(try("192.0.2.1", "wrong", now_ns), RN_TOKEN_WRONG);
}

static void no_address_pays_for_the_guesses_of_another(void **state)
{
    struct rn_peer known = peer_at("192.0.2.1");
    struct rn_token_shown shown = {.token = &tokens[0]};
    char address[32];

    (void)state;
    for (int i = 0; i < 11; i++)
        try("192.0.2.1", "wrong", RN_SECOND_NS);
    assert_int_equal(try("192.0.2.1", "open-sesame", RN_SECOND_NS), RN_TOKEN_LATER);
    assert_int_equal(
        rn_token_try(&guard, &known, &shown, NOBODY, RN_SLICE("open-sesame"), RN_SECOND_NS),
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

static void a_name_must_be_that_of_the_token(void **state)
{
    struct rn_peer peer = peer_at("192.0.2.1");
    struct {
        struct rn_slice name, given;
        const struct rn_token *token;
    } tries[] = {
        {NOBODY, RN_SLICE("open-barley"), &tokens[1]},
        {RN_SLICE("default"), RN_SLICE("open-sesame"), &tokens[0]},
        {RN_SLICE("scraper"), RN_SLICE("open-barley"), &tokens[1]},
        {RN_SLICE("scraper"), RN_SLICE("open-sesame"), NULL},
        {RN_SLICE("admin"), RN_SLICE("open-barley"), NULL},
        {RN_SLICE("nobody"), RN_SLICE("open-barley"), NULL},
        {RN_SLICE(""), RN_SLICE("open-barley"), NULL},
        {RN_SLICE("admin"), RN_SLICE(""), NULL},
        {RN_SLICE("admin"), RN_SLICE("open-sesameopen-sesame"), NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct rn_token_shown shown = {0};
        enum rn_token_answer answer =
            rn_token_try(&guard, &peer, &shown, tries[i].name, tries[i].given, RN_SECOND_NS);

        assert_int_equal(answer, tries[i].token ? RN_TOKEN_RIGHT : RN_TOKEN_WRONG);
        assert_ptr_equal(rn_token_of(&shown), tries[i].token);
    }
}

static void a_token_that_was_replaced_must_be_shown_again(void **state)
{
    struct rn_peer peer = peer_at("192.0.2.1");
    struct rn_token_shown shown = {0};

    (void)state;
    rn_token_try(&guard, &peer, &shown, NOBODY, RN_SLICE("open-barley"), RN_SECOND_NS);
    assert_false(rn_token_replace(&guard, &tokens[1], strdup("open-barley")));
    assert_false(rn_token_replace(&guard, &tokens[1], strdup("open-sesame"))); /* another's */
    assert_ptr_equal(rn_token_of(&shown), &tokens[1]);
    assert_true(rn_token_replace(&guard, &tokens[1], strdup("open-rye")));
    assert_null(rn_token_of(&shown));
    assert_null(rn_token_find(&guard, RN_SLICE("open-barley")));
    assert_int_equal(try("192.0.2.1", "open-barley", RN_SECOND_NS), RN_TOKEN_WRONG);
    assert_int_equal(try("192.0.2.1", "open-rye", RN_SECOND_NS), RN_TOKEN_RIGHT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ten_wrong_ones_then_one_a_second, begin, end),
        cmocka_unit_test_setup_teardown(no_address_pays_for_the_guesses_of_another, begin, end),
        cmocka_unit_test_setup_teardown(a_network_of_ipv6_is_one_address, begin, end),
        cmocka_unit_test_setup_teardown(a_name_must_be_that_of_the_token, begin, end),
        cmocka_unit_test_setup_teardown(a_token_that_was_replaced_must_be_shown_again, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
