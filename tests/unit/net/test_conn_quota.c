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

#include "net/conn_quota.h"

static struct rn_peer peer_of(const char *ip)
{
    struct rn_peer peer = {.port = 1};

    assert_int_equal(rn_ip_parse(ip, strlen(ip), &peer.ip, NULL), 0);
    return peer;
}

static void the_total_is_kept(void **state)
{
    struct rn_conn_quota *quota = rn_conn_quota_new(2, 0);
    struct rn_peer peer = peer_of("192.0.2.1");

    (void)state;
    assert_int_equal(rn_conn_quota_take(quota, &peer), RN_CONN_QUOTA_OK);
    assert_int_equal(rn_conn_quota_take(quota, &peer), RN_CONN_QUOTA_OK);
    assert_int_equal(rn_conn_quota_take(quota, &peer), RN_CONN_QUOTA_TOTAL);
    rn_conn_quota_give_back(quota, &peer);
    assert_int_equal(rn_conn_quota_take(quota, &peer), RN_CONN_QUOTA_OK);
    rn_conn_quota_free(quota);
}

static void an_ipv6_network_of_64_bits_counts_as_one(void **state)
{
    struct rn_conn_quota *quota = rn_conn_quota_new(10, 2);
    struct rn_peer a = peer_of("2001:db8::1"), b = peer_of("2001:db8::ffff:1"),
                   c = peer_of("2001:db8:0:1::1");

    (void)state;
    assert_int_equal(rn_conn_quota_take(quota, &a), RN_CONN_QUOTA_OK);
    assert_int_equal(rn_conn_quota_take(quota, &b), RN_CONN_QUOTA_OK);
    assert_int_equal(rn_conn_quota_take(quota, &a), RN_CONN_QUOTA_ADDRESS);
    assert_int_equal(rn_conn_quota_take(quota, &c), RN_CONN_QUOTA_OK);
    rn_conn_quota_give_back(quota, &b);
    assert_int_equal(rn_conn_quota_take(quota, &a), RN_CONN_QUOTA_OK);
    rn_conn_quota_free(quota);
}

static void unix_peers_are_only_part_of_the_total(void **state)
{
    struct rn_conn_quota *quota = rn_conn_quota_new(3, 1);
    struct rn_peer peer = {.local = true};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(rn_conn_quota_take(quota, &peer), RN_CONN_QUOTA_OK);
    assert_int_equal(rn_conn_quota_take(quota, &peer), RN_CONN_QUOTA_TOTAL);
    rn_conn_quota_free(quota);
}

/* The table is as small as it gets, so that slots move. */
static void counts_are_those_of_a_plain_array(void **state)
{
    enum { TOTAL = 60, ADDRESSES = 50, EACH = 3 };
    struct rn_conn_quota *quota = rn_conn_quota_new(TOTAL, EACH);
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
            enum rn_conn_quota_answer right = total == TOTAL      ? RN_CONN_QUOTA_TOTAL
                                              : counts[i] == EACH ? RN_CONN_QUOTA_ADDRESS
                                                                  : RN_CONN_QUOTA_OK;
            assert_int_equal(rn_conn_quota_take(quota, &peers[i]), right);
            counts[i] += right == RN_CONN_QUOTA_OK;
            total += right == RN_CONN_QUOTA_OK;
        } else if (counts[i] > 0) {
            rn_conn_quota_give_back(quota, &peers[i]);
            counts[i]--;
            total--;
        }
    }
    rn_conn_quota_free(quota);
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
