/* SPDX-License-Identifier: Apache-2.0 */
/* Connections counted per address, against a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/caps.h"

static struct rn_peer peer_of(const char *ip)
{
    struct rn_peer peer = {.port = 1};

    assert_int_equal(rn_ip_parse(ip, strlen(ip), &peer.ip, NULL), 0);
    return peer;
}

static void the_total_is_kept(void **state)
{
    struct rn_caps *caps = rn_caps_new(2, 0);
    struct rn_peer peer = peer_of("192.0.2.1");

    (void)state;
    assert_int_equal(rn_caps_take(caps, &peer), RN_CAPS_OK);
    assert_int_equal(rn_caps_take(caps, &peer), RN_CAPS_OK);
    assert_int_equal(rn_caps_take(caps, &peer), RN_CAPS_TOTAL);
    rn_caps_give_back(caps, &peer);
    assert_int_equal(rn_caps_take(caps, &peer), RN_CAPS_OK);
    rn_caps_free(caps);
}

static void an_ipv6_network_of_64_bits_counts_as_one(void **state)
{
    struct rn_caps *caps = rn_caps_new(10, 2);
    struct rn_peer a = peer_of("2001:db8::1"), b = peer_of("2001:db8::ffff:1"),
                   c = peer_of("2001:db8:0:1::1");

    (void)state;
    assert_int_equal(rn_caps_take(caps, &a), RN_CAPS_OK);
    assert_int_equal(rn_caps_take(caps, &b), RN_CAPS_OK);
    assert_int_equal(rn_caps_take(caps, &a), RN_CAPS_ADDRESS);
    assert_int_equal(rn_caps_take(caps, &c), RN_CAPS_OK);
    rn_caps_give_back(caps, &b);
    assert_int_equal(rn_caps_take(caps, &a), RN_CAPS_OK);
    rn_caps_free(caps);
}

static void unix_peers_are_only_part_of_the_total(void **state)
{
    struct rn_caps *caps = rn_caps_new(3, 1);
    struct rn_peer peer = {.local = true};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(rn_caps_take(caps, &peer), RN_CAPS_OK);
    assert_int_equal(rn_caps_take(caps, &peer), RN_CAPS_TOTAL);
    rn_caps_free(caps);
}

/* The table is as small as it gets, so that slots move. */
static void counts_are_those_of_a_plain_array(void **state)
{
    enum { TOTAL = 60, ADDRESSES = 50, EACH = 3 };
    struct rn_caps *caps = rn_caps_new(TOTAL, EACH);
    int counts[ADDRESSES] = {0}, total = 0;
    struct rn_peer peers[ADDRESSES];
    char ip[20];

    (void)state;
    for (int i = 0; i < ADDRESSES; i++) {
        snprintf(ip, sizeof ip, "192.0.2.%d", i);
        peers[i] = peer_of(ip);
    }
    srand(7);
    for (int step = 0; step < 200000; step++) {
        int i = rand() % ADDRESSES;
        if (rand() % 2 == 0) {
            enum rn_caps_answer right = total == TOTAL      ? RN_CAPS_TOTAL
                                        : counts[i] == EACH ? RN_CAPS_ADDRESS
                                                            : RN_CAPS_OK;
            assert_int_equal(rn_caps_take(caps, &peers[i]), right);
            counts[i] += right == RN_CAPS_OK;
            total += right == RN_CAPS_OK;
        } else if (counts[i] > 0) {
            rn_caps_give_back(caps, &peers[i]);
            counts[i]--;
            total--;
        }
    }
    rn_caps_free(caps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_total_is_kept),
        cmocka_unit_test(an_ipv6_network_of_64_bits_counts_as_one),
        cmocka_unit_test(unix_peers_are_only_part_of_the_total),
        cmocka_unit_test(counts_are_those_of_a_plain_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
