/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on, and peers, as text. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/address.h"

static void assert_reads(const char *text, const char *written)
{
    struct rn_address address;
    struct ration_error error = {0};
    char out[RN_ADDRESS_TEXT];

    if (rn_address_parse(text, &address, &error) != 0)
        fail_msg("%s: %s", text, error.text);
    rn_address_write(&address, out);
    assert_string_equal(out, written);
}

static void assert_refused(const char *text, const char *message)
{
    struct rn_address address;
    struct ration_error error = {0};

    assert_int_equal(rn_address_parse(text, &address, &error), RATION_EPARSE);
    assert_string_equal(error.text, message);
    assert_int_equal(rn_address_parse(text, &address, NULL), RATION_EPARSE);
}

static void addresses_are_read_and_written(void **state)
{
    (void)state;
    assert_reads("127.0.0.1:8080", "127.0.0.1:8080");
    assert_reads("192.0.2.7:0", "192.0.2.7:0");
    assert_reads("[::1]:65535", "[::1]:65535");
    assert_reads("[2001:DB8:0::1]:80", "[2001:db8::1]:80");
    assert_reads("[::ffff:192.0.2.7]:80", "192.0.2.7:80");
    assert_reads(":80", "[::]:80");
    assert_reads("unix:/run/ration.sock", "unix:/run/ration.sock");
    assert_reads("unix:relative:with:colons", "unix:relative:with:colons");
}

static void names_are_looked_up(void **state)
{
    struct rn_address address;
    struct rn_peer peer;

    (void)state;
    assert_int_equal(rn_address_parse("localhost:80", &address, NULL), 0);
    rn_address_peer(&address, &peer);
    assert_true(peer.local);
    assert_int_equal(peer.port, 80);
}

static void only_names_have_to_be_looked_up(void **state)
{
    static const char *const names[] = {"localhost:1", "a.example:2", "1.2.3.example:3"};
    static const char *const others[] = {"127.0.0.1:1", "[::1]:1", ":1", "unix:/run/x"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(rn_address_is_name(names[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(rn_address_is_name(others[i]));
}

static void only_a_port_alone_means_everywhere(void **state)
{
    struct rn_address address;

    (void)state;
    assert_int_equal(rn_address_parse(":80", &address, NULL), 0);
    assert_true(address.everywhere);
    assert_int_equal(rn_address_parse("[::]:80", &address, NULL), 0);
    assert_false(address.everywhere);
}

#define WRITE "write host:port, :port, [v6]:port or unix:PATH"

static void other_texts_are_refused_with_advice(void **state)
{
    (void)state;
    assert_refused("", "nothing has no port; " WRITE);
    assert_refused("8080",
                   "\"8080\" is a port only; write :8080 for all addresses, or 127.0.0.1:8080");
    assert_refused("127.0.0.1", "\"127.0.0.1\" has no port; " WRITE);
    assert_refused("[::1]", "\"[::1]\" has no port; " WRITE);
    assert_refused("127.0.0.1:", "nothing is not a port from 0 to 65535; " WRITE);
    assert_refused("127.0.0.1:65536", "\"65536\" is not a port from 0 to 65535; " WRITE);
    assert_refused("127.0.0.1:99999999999",
                   "\"99999999999\" is not a port from 0 to 65535; " WRITE);
    assert_refused("127.0.0.1:+80", "\"+80\" is not a port from 0 to 65535; " WRITE);
    assert_refused("127.0.0.1:http", "\"http\" is not a port from 0 to 65535; " WRITE);
    assert_refused("::1:80", "\"::1:80\": an IPv6 address stands in brackets; write for example "
                             "[::1]:80");
    assert_refused("[::1:80", "\"[::1:80\" is not [v6]:port; " WRITE);
    assert_refused("[127.0.0.1]:80", "\"[127.0.0.1]:80\" is not [v6]:port; " WRITE);
    assert_refused("127.0.0.256:80",
                   "\"127.0.0.256\" is not an IP address (a part above 255); write for example "
                   "192.0.2.1 or 2001:db8::1");
    assert_refused("127.1:80", "\"127.1\" is not an IP address (IPv4 has four parts); write for "
                               "example 192.0.2.1 or 2001:db8::1");
    assert_refused("unix:", "\"unix:\" lacks a path; write unix:PATH");
}

static void a_long_path_is_refused_with_its_length(void **state)
{
    char text[200] = "unix:", message[300];

    (void)state;
    memset(text + 5, 'p', 107);
    assert_reads(text, text);
    text[112] = 'p';
    snprintf(message, sizeof message,
             "the path of a unix socket has at most 107 bytes, this one has 108: "
             "\"ppppppppppppppppppppppppppppppp...\"");
    assert_refused(text, message);
}

static struct rn_peer peer_of(const char *text)
{
    struct rn_address address;
    struct rn_peer peer;

    assert_int_equal(rn_address_parse(text, &address, NULL), 0);
    rn_address_peer(&address, &peer);
    return peer;
}

static void peers_know_whether_they_are_local(void **state)
{
    (void)state;
    assert_true(peer_of("127.8.9.1:1").local);
    assert_true(peer_of("[::1]:1").local);
    assert_true(peer_of("unix:/x").local);
    assert_false(peer_of("128.0.0.1:1").local);
    assert_false(peer_of("[::2]:1").local);
    assert_false(peer_of("[1::1]:1").local);
}

static void an_ipv4_peer_of_a_double_socket_is_ipv4(void **state)
{
    struct rn_address address = {.len = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(99)};
    struct rn_peer peer;

    (void)state;
    memcpy(v6.sin6_addr.s6_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
    memcpy(&address.to, &v6, sizeof v6);
    rn_address_peer(&address, &peer);
    assert_int_equal(peer.ip.bits, 32);
    assert_true(peer.local);
    assert_string_equal(peer.text, "127.0.0.1:99");
}

static void the_longest_peer_fits(void **state)
{
    (void)state;
    assert_string_equal(peer_of("[1111:2222:3333:4444:5555:6666:7777:8888]:65535").text,
                        "[1111:2222:3333:4444:5555:6666:7777:8888]:65535");
}

static void a_client_of_a_unix_socket_has_no_name(void **state)
{
    struct rn_address address = {.len = sizeof(sa_family_t), .to.any.sa_family = AF_UNIX};
    struct rn_peer peer;
    char out[RN_ADDRESS_TEXT];

    (void)state;
    rn_address_peer(&address, &peer);
    assert_string_equal(peer.text, "unix");
    assert_int_equal(peer.ip.bits, 0);
    rn_address_write(&address, out);
    assert_string_equal(out, "unix");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_and_written),
        cmocka_unit_test(names_are_looked_up),
        cmocka_unit_test(only_names_have_to_be_looked_up),
        cmocka_unit_test(only_a_port_alone_means_everywhere),
        cmocka_unit_test(other_texts_are_refused_with_advice),
        cmocka_unit_test(a_long_path_is_refused_with_its_length),
        cmocka_unit_test(peers_know_whether_they_are_local),
        cmocka_unit_test(an_ipv4_peer_of_a_double_socket_is_ipv4),
        cmocka_unit_test(the_longest_peer_fits),
        cmocka_unit_test(a_client_of_a_unix_socket_has_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
