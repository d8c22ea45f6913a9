/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and networks. The oracle for what is an address is inet_pton; the
 * oracle for sets is a loop. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/ip.h"

#define EXAMPLES "write for example 192.0.2.1 or 2001:db8::1"

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static struct rn_ip ip_of(const char *text)
{
    struct rn_ip ip = {.bits = 0};
    struct ration_error error;

    if (rn_ip_parse(text, strlen(text), &ip, &error) != 0)
        fail_msg("%s: %s", text, error.text);
    return ip;
}

static struct rn_cidr cidr_of(const char *text)
{
    struct rn_cidr cidr = {.prefix = 0};
    struct ration_error error;

    if (rn_cidr_parse(text, strlen(text), &cidr, &error) != 0)
        fail_msg("%s: %s", text, error.text);
    return cidr;
}

static void assert_canonical(const char *text, const char *expected)
{
    struct rn_ip ip = ip_of(text);
    char out[RN_IP_TEXT];

    assert_int_equal(rn_ip_write(&ip, out), strlen(expected));
    assert_string_equal(out, expected);
}

static void assert_not_ip(const char *text, const char *why)
{
    struct rn_ip ip = {.bits = 7};
    struct ration_error error;
    char expected[240];

    snprintf(expected, sizeof expected, "\"%s\" is not an IP address (%s); " EXAMPLES, text, why);
    assert_int_equal(rn_ip_parse(text, strlen(text), &ip, &error), RATION_EPARSE);
    assert_string_equal(error.text, expected);
    assert_int_equal(ip.bits, 7);
    assert_int_equal(rn_ip_parse(text, strlen(text), &ip, NULL), RATION_EPARSE);
}

static void addresses_are_written_in_one_way(void **state)
{
    (void)state;
    assert_canonical("192.0.2.1", "192.0.2.1");
    assert_canonical("255.255.255.255", "255.255.255.255");
    assert_canonical("0.0.0.0", "0.0.0.0");
    assert_canonical("::", "::");
    assert_canonical("::1", "::1");
    assert_canonical("1::", "1::");
    assert_canonical("2001:DB8:0:0:0:0:0:1", "2001:db8::1");
    assert_canonical("2001:0db8::0001", "2001:db8::1");
    /* RFC 5952: 4.2.2 one group is not shortened, 4.2.3 the longest run, then the first. */
    assert_canonical("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1");
    assert_canonical("2001:0:0:1:0:0:0:1", "2001:0:0:1::1");
    assert_canonical("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1");
    assert_canonical("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0");
    assert_canonical("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8");
    assert_canonical("64:ff9b::192.0.2.33", "64:ff9b::c000:221");
    assert_canonical("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",
                     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

static void ipv4_written_as_ipv6_is_ipv4(void **state)
{
    (void)state;
    assert_canonical("::ffff:192.0.2.1", "192.0.2.1");
    assert_canonical("::FFFF:c000:201", "192.0.2.1");
    assert_canonical("0:0:0:0:0:ffff:c000:0201", "192.0.2.1");
    assert_canonical("::192.0.2.1", "::c000:201");
}

static void what_could_be_misread_is_refused(void **state)
{
    (void)state;
    assert_not_ip("010.0.0.1", "a part that begins with 0");
    assert_not_ip("1.2.3.00", "a part that begins with 0");
    assert_not_ip("10.1", "IPv4 has four parts");
    assert_not_ip("3232235777", "a part above 255");
    assert_not_ip("1.2.3.256", "a part above 255");
    assert_not_ip("0x7f.0.0.1", "IPv4 has four parts");
    assert_not_ip("1.2.3.4.5", "more than an address");
    assert_not_ip("1.2.3.", "a part that is not a number");
    assert_not_ip("localhost", "a part that is not a number");
    assert_not_ip("1.2.3.4:80", "more than an address");
    assert_not_ip("fe80::1%eth0", "a zone means nothing to other machines");
    assert_not_ip("1::2::3", "\"::\" twice");
    assert_not_ip(":::", "an empty group");
    assert_not_ip("::1:", "an empty group");
    assert_not_ip(":1::", "an empty group");
    assert_not_ip("1:2:3:4:5:6:7", "fewer than eight groups");
    assert_not_ip("1:2:3:4:5:6:7:8:9", "more than eight groups");
    assert_not_ip("1:2:3:4:5:6:7:1.2.3.4", "more than eight groups");
    assert_not_ip("1:2:3:4::5:6:7:8", "\"::\" that stands for nothing");
    assert_not_ip("::12345", "a group of more than four digits");
    assert_not_ip("::g", "a character that is not allowed");
    assert_not_ip("::1/64", "a character that is not allowed");
    assert_not_ip("::1.2.3.04", "a part that begins with 0");
}

static void an_empty_text_is_no_address(void **state)
{
    struct ration_error error;
    struct rn_ip ip;

    (void)state;
    assert_int_equal(rn_ip_parse("", 0, &ip, &error), RATION_EPARSE);
    assert_string_equal(error.text, "nothing is not an IP address (there is nothing); " EXAMPLES);
    assert_int_equal(rn_ip_parse(NULL, 0, &ip, NULL), RATION_EPARSE);
    assert_int_equal(rn_ip_parse_host("  ", 2, &ip, NULL), RATION_EPARSE);
    assert_int_equal(rn_ip_parse_host(NULL, 0, &ip, NULL), RATION_EPARSE);
    assert_int_equal(rn_cidr_parse(NULL, 0, &(struct rn_cidr){0}, NULL), RATION_EPARSE);
    assert_int_equal(rn_ip_parse("1.2.3.4\0", 8, &ip, NULL), RATION_EPARSE);
}

/* What inet_pton makes of it, in our form. */
static bool oracle(const char *text, struct rn_ip *ip)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    uint8_t bytes[16] = {0};

    *ip = (struct rn_ip){.bits = 32};
    if (strchr(text, ':') == NULL)
        return inet_pton(AF_INET, text, ip->bytes) == 1;
    if (inet_pton(AF_INET6, text, bytes) != 1)
        return false;
    if (memcmp(bytes, mapped, 12) == 0) {
        memcpy(ip->bytes, bytes + 12, 4);
    } else {
        ip->bits = 128;
        memcpy(ip->bytes, bytes, 16);
    }
    return true;
}

/* Random pieces of addresses: some make one, most do not. */
static void random_text(uint64_t *seed, char *out, size_t size)
{
    static const char *const pieces[] = {"0",   "1",     "ffff", "::",      ":",       ":",  ":",
                                         ".",   ".",     "255",  "256",     "1.2.3.4", "01", "a",
                                         "db8", "12345", "g",    "::ffff:", "0:0:"};
    size_t count = 1 + next_random(seed) % 16;

    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *piece = pieces[next_random(seed) % (sizeof pieces / sizeof pieces[0])];
        if (strlen(out) + strlen(piece) < size)
            strcat(out, piece);
    }
}

static void we_read_what_inet_pton_reads(void **state)
{
    uint64_t seed = 11;
    unsigned good = 0;

    (void)state;
    for (int i = 0; i < 500000; i++) {
        struct rn_ip ours, theirs;
        char text[128];
        random_text(&seed, text, sizeof text);
        bool accepted = rn_ip_parse(text, strlen(text), &ours, NULL) == 0;
        if (accepted != oracle(text, &theirs) || (accepted && !rn_ip_equal(&ours, &theirs)))
            fail_msg("%s is read differently", text);
        good += accepted;
    }
    assert_true(good > 1000);
}

static void what_is_written_reads_back_and_is_what_inet_ntop_writes(void **state)
{
    uint64_t seed = 12;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct rn_ip back, ip = {.bits = next_random(&seed) % 4 == 0 ? 32 : 128};
        uint64_t zeros = next_random(&seed);
        for (size_t j = 0; j < ip.bits / 8U; j++)
            if ((zeros >> (j / 2) & 1) != 0)
                ip.bytes[j] = (uint8_t)next_random(&seed);
        char ours[RN_IP_TEXT], theirs[INET6_ADDRSTRLEN];
        size_t len = rn_ip_write(&ip, ours);
        inet_ntop(ip.bits == 32 ? AF_INET : AF_INET6, ip.bytes, theirs, sizeof theirs);
#ifdef __GLIBC__ /* musl shortens the last of two equal runs of zeros, against RFC 5952 */
        /* inet_ntop writes ::a.b.c.d for what is all zero but the end. */
        if (strchr(theirs, ':') == NULL || strchr(theirs, '.') == NULL)
            assert_string_equal(ours, theirs);
#endif
        assert_int_equal(len, strlen(ours));
        assert_int_equal(rn_ip_parse(ours, len, &back, NULL), 0);
        if (strncmp(theirs, "::ffff:", 7) != 0)
            assert_true(rn_ip_equal(&ip, &back));
    }
}

static void assert_host(const char *text, const char *expected)
{
    char out[RN_IP_TEXT];
    struct rn_ip ip;

    if (rn_ip_parse_host(text, strlen(text), &ip, NULL) != 0)
        fail_msg("%s is refused", text);
    rn_ip_write(&ip, out);
    assert_string_equal(out, expected);
}

static void a_host_may_have_brackets_and_a_port(void **state)
{
    static const char *const bad[] = {
        "[192.0.2.1]",   "[::1",       "::1]",        "[::1]80",          "[::1]:",  "[::1]:65536",
        "[::1]:-1",      "192.0.2.1:", "192.0.2.1:x", "192.0.2.1:000080", "unknown", "_hidden",
        "192.0.2.1 x",   "[]",         "[",           "[::1%1]",          ":80",     "\"::1\"",
        "192.0.2.1:80:", "[[::1]]",
    };

    (void)state;
    assert_host("192.0.2.1", "192.0.2.1");
    assert_host(" 192.0.2.1\t", "192.0.2.1");
    assert_host("192.0.2.1:8080", "192.0.2.1");
    assert_host("192.0.2.1:0", "192.0.2.1");
    assert_host("2001:db8::1", "2001:db8::1");
    assert_host("[2001:db8::1]", "2001:db8::1");
    assert_host(" [2001:db8::1]:65535 ", "2001:db8::1");
    assert_host("[::ffff:192.0.2.1]:1", "192.0.2.1");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rn_ip ip;
        if (rn_ip_parse_host(bad[i], strlen(bad[i]), &ip, NULL) == 0)
            fail_msg("%s is accepted", bad[i]);
    }
}

static void masking_clears_what_is_behind_the_prefix(void **state)
{
    struct rn_ip ip = ip_of("255.255.255.255"), six = ip_of("2001:db8:ffff:ffff::1");
    char out[RN_IP_TEXT];

    (void)state;
    for (unsigned prefix = 0; prefix <= 32; prefix++) {
        struct rn_ip masked = rn_ip_mask(ip, prefix);
        uint32_t expected = prefix == 0 ? 0 : UINT32_MAX << (32 - prefix), value;
        memcpy(&value, masked.bytes, 4);
        assert_int_equal(ntohl(value), expected);
    }
    six = rn_ip_mask(six, 50);
    rn_ip_write(&six, out);
    assert_string_equal(out, "2001:db8:ffff:c000::");
    six = rn_ip_mask(six, 0);
    rn_ip_write(&six, out);
    assert_string_equal(out, "::");
    assert_true(rn_ip_equal(&ip, &(struct rn_ip){.bytes = {255, 255, 255, 255}, .bits = 32}));
    ip = rn_ip_mask(ip, 200);
    assert_int_equal(ip.bytes[3], 255);
}

static void assert_cidr(const char *text, const char *expected)
{
    struct rn_cidr cidr = cidr_of(text);
    char out[RN_CIDR_TEXT];

    assert_int_equal(rn_cidr_write(&cidr, out), strlen(expected));
    assert_string_equal(out, expected);
}

static void assert_not_cidr(const char *text, const char *message)
{
    struct rn_cidr cidr = {.prefix = 77};
    struct ration_error error;

    assert_int_equal(rn_cidr_parse(text, strlen(text), &cidr, &error), RATION_EPARSE);
    assert_string_equal(error.text, message);
    assert_int_equal(cidr.prefix, 77);
}

static void a_network_is_an_address_and_a_prefix(void **state)
{
    (void)state;
    assert_cidr("10.0.0.0/8", "10.0.0.0/8");
    assert_cidr("0.0.0.0/0", "0.0.0.0/0");
    assert_cidr("192.0.2.1", "192.0.2.1/32");
    assert_cidr("2001:DB8::/32", "2001:db8::/32");
    assert_cidr("::1", "::1/128");
    assert_cidr("::ffff:10.0.0.0/104", "10.0.0.0/8");
    assert_cidr("::ffff:0:0/96", "0.0.0.0/0");
}

static void a_network_that_is_none_is_explained(void **state)
{
    (void)state;
    assert_not_cidr("10.1.2.3/8",
                    "\"10.1.2.3/8\" has bits set after its prefix; did you mean 10.0.0.0/8?");
    assert_not_cidr("2001:db8::1/64", "\"2001:db8::1/64\" has bits set after its prefix; did you "
                                      "mean 2001:db8::/64?");
    assert_not_cidr("10.0.0.0/33", "expected a number from 0 to 32 after the slash, found \"33\"");
    assert_not_cidr("10.0.0.0/", "expected a number from 0 to 32 after the slash, found nothing");
    assert_not_cidr("10.0.0.0/08", "expected a number from 0 to 32 after the slash, found \"08\"");
    assert_not_cidr("::/129", "expected a number from 0 to 128 after the slash, found \"129\"");
    assert_not_cidr("::/-1", "expected a number from 0 to 128 after the slash, found \"-1\"");
    assert_not_cidr("10.0.0.0/255.0.0.0",
                    "expected a number from 0 to 32 after the slash, found \"255.0.0.0\"");
    assert_not_cidr("::ffff:10.0.0.0/8",
                    "an IPv4 address written as IPv6 needs a prefix from 96 to 128, found 8; write "
                    "the network as IPv4");
    assert_not_cidr("10/8", "\"10\" is not an IP address (IPv4 has four parts); " EXAMPLES);
}

static void families_do_not_contain_each_other(void **state)
{
    struct rn_cidr four = cidr_of("0.0.0.0/0"), six = cidr_of("::/0"),
                   small = cidr_of("10.8.0.0/13");
    struct rn_ip a = ip_of("10.15.255.255"), b = ip_of("10.16.0.0"), c = ip_of("::1");

    (void)state;
    assert_true(rn_cidr_contains(&four, &a));
    assert_false(rn_cidr_contains(&four, &c));
    assert_true(rn_cidr_contains(&six, &c));
    assert_false(rn_cidr_contains(&six, &a));
    assert_true(rn_cidr_contains(&small, &a));
    assert_false(rn_cidr_contains(&small, &b));
}

/* Few distinct bits, so that networks nest and collide. */
static struct rn_ip random_ip(uint64_t *seed)
{
    struct rn_ip ip = {.bits = next_random(seed) % 2 == 0 ? 32 : 128};

    for (size_t i = 0; i < ip.bits / 8U; i++)
        if (next_random(seed) % 4 == 0)
            ip.bytes[i] = (uint8_t)(next_random(seed) % 4 << next_random(seed) % 7);
    return ip;
}

static void a_set_contains_what_one_of_its_networks_does(void **state)
{
    uint64_t seed = 13;
    unsigned found = 0, missed = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct rn_cidr items[40], sorted[40];
        size_t count = next_random(&seed) % 41;
        for (size_t i = 0; i < count; i++) {
            struct rn_ip ip = random_ip(&seed);
            items[i].prefix = (uint8_t)(ip.bits - next_random(&seed) % (ip.bits / 2));
            items[i].network = rn_ip_mask(ip, items[i].prefix);
        }
        memcpy(sorted, items, sizeof sorted);
        struct rn_cidr_set set = rn_cidr_set_build(sorted, count);
        assert_true(set.count <= count);
        for (int i = 0; i < 40; i++) {
            struct rn_ip ip = random_ip(&seed);
            bool expected = false;
            for (size_t j = 0; j < count; j++)
                expected = expected || rn_cidr_contains(&items[j], &ip);
            assert_int_equal(rn_cidr_set_contains(&set, &ip), expected);
            found += expected;
            missed += !expected;
        }
    }
    assert_true(found > 1000 && missed > 1000);
}

static void a_set_drops_what_lies_inside_another(void **state)
{
    struct rn_cidr items[] = {cidr_of("10.1.0.0/16"), cidr_of("::1"),        cidr_of("10.0.0.0/8"),
                              cidr_of("10.0.0.0/8"),  cidr_of("10.255.0.1"), cidr_of("9.0.0.0/8")};
    struct rn_cidr_set set = rn_cidr_set_build(items, 6);
    struct rn_cidr_set empty = rn_cidr_set_build(NULL, 0);
    struct rn_ip ip = ip_of("10.200.0.1");

    (void)state;
    assert_int_equal(set.count, 3);
    assert_true(rn_cidr_set_contains(&set, &ip));
    assert_false(rn_cidr_set_contains(&empty, &ip));
}

int main(void)
{
    const struct CMUnitTest ip[] = {
        cmocka_unit_test(addresses_are_written_in_one_way),
        cmocka_unit_test(ipv4_written_as_ipv6_is_ipv4),
        cmocka_unit_test(what_could_be_misread_is_refused),
        cmocka_unit_test(an_empty_text_is_no_address),
        cmocka_unit_test(we_read_what_inet_pton_reads),
        cmocka_unit_test(what_is_written_reads_back_and_is_what_inet_ntop_writes),
        cmocka_unit_test(a_host_may_have_brackets_and_a_port),
        cmocka_unit_test(masking_clears_what_is_behind_the_prefix),
        cmocka_unit_test(a_network_is_an_address_and_a_prefix),
        cmocka_unit_test(a_network_that_is_none_is_explained),
        cmocka_unit_test(families_do_not_contain_each_other),
        cmocka_unit_test(a_set_contains_what_one_of_its_networks_does),
        cmocka_unit_test(a_set_drops_what_lies_inside_another),
    };

    return cmocka_run_group_tests(ip, NULL, NULL);
}
