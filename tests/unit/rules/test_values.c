/* SPDX-License-Identifier: Apache-2.0 */
/* What rules see of a request, and above all: whose address it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/match/forwarded.h"
#include "rules/match/match.h"

#define GIVEN_MAX 8

static struct rn_values values;
static const char *why = ""; /* of a table: said when it fails */

static struct rn_cidr trusted[] = {
    {{{10}, 32}, 8},
    {{{192, 0, 2, 1}, 32}, 32},
    {{{0x20, 0x01, 0x0d, 0xb8, 0xff}, 128}, 40},
};

/* name, value, name, value, ..., NULL */
static void resolve(struct rn_ruleset *ruleset, const char *const *pairs)
{
    struct ration_attribute given[GIVEN_MAX];
    struct ration_request request = {.attributes = given};

    for (; pairs[2 * request.count]; request.count++) {
        const char *const *pair = &pairs[2 * request.count];

        given[request.count] =
            (struct ration_attribute){pair[0], strlen(pair[0]), pair[1], strlen(pair[1])};
    }
    memset(&values, 0xee, sizeof values); /* a caller's scratch holds anything */
    assert_true(rn_match_index_build(ruleset));
    rn_values_resolve(ruleset, &request, &values);
}

static void assert_value(unsigned number, const char *expected)
{
    struct rn_slice v = values.value[number];

    if (!v.data != !expected)
        fail_msg("%s: found %s", why, v.data ? "a value" : "none");
    if (expected && !rn_slice_is(v, expected))
        fail_msg("%s: found %.*s, expected %s", why, (int)v.len, v.data, expected);
}

/* --- whose address ---------------------------------------------------------------- */

struct forwarded_case {
    const char *why, *peer, *header, *client;
};

static const struct forwarded_case list_cases[] = {
    {"no header", "10.0.0.1", NULL, "10.0.0.1"},
    {"one client", "10.0.0.1", "198.51.100.7", "198.51.100.7"},
    {"a peer that is no proxy may say what it likes", "198.51.100.7", "1.1.1.1", "198.51.100.7"},
    {"forged on the left", "10.0.0.1", "1.1.1.1, 198.51.100.7", "198.51.100.7"},
    {"forged proxies on the left", "10.0.0.1", "1.1.1.1, 10.0.0.9, 198.51.100.7", "198.51.100.7"},
    {"through three proxies", "10.0.0.1", "1.1.1.1, 198.51.100.7, 192.0.2.1, 10.9.9.9",
     "198.51.100.7"},
    {"only proxies: the farthest", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
    {"spaces and tabs", "10.0.0.1", " \t 1.1.1.1 ,\t198.51.100.7\t ", "198.51.100.7"},
    {"empty items", "10.0.0.1", "1.1.1.1,,, 198.51.100.7, ,10.0.0.2,,", "198.51.100.7"},
    {"nothing but commas", "10.0.0.1", ",,,,", "10.0.0.1"},
    {"an empty header", "10.0.0.1", "", "10.0.0.1"},
    {"a port", "10.0.0.1", "198.51.100.7:4711", "198.51.100.7"},
    {"IPv6", "10.0.0.1", "2001:DB8:0:0::7", "2001:db8::7"},
    {"IPv6 in brackets with a port", "10.0.0.1", "[2001:db8::7]:4711", "2001:db8::7"},
    {"an IPv6 proxy", "2001:db8:ff00::1", "198.51.100.7, 2001:db8:ff12::2", "198.51.100.7"},
    {"IPv4 written as IPv6", "10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"},
    {"a proxy written as IPv6", "::ffff:10.0.0.1", "198.51.100.7, ::ffff:10.0.0.2", "198.51.100.7"},
    {"unknown ends the walk", "10.0.0.1", "198.51.100.7, unknown, 10.0.0.2", "10.0.0.2"},
    {"garbage ends the walk", "10.0.0.1", "198.51.100.7, evil\"x, 10.0.0.2", "10.0.0.2"},
    {"not an address at once", "10.0.0.1", "client.example.com", "10.0.0.1"},
    {"octal is no address", "10.0.0.1", "0198.051.100.07", "10.0.0.1"},
    {"two addresses without a comma", "10.0.0.1", "1.1.1.1 198.51.100.7", "10.0.0.1"},
    {"quotes mean nothing here", "10.0.0.1", "\"1.1.1.1, 198.51.100.7", "198.51.100.7"},
    {"a peer with a port", "10.0.0.1:5000", "198.51.100.7", "198.51.100.7"},
    {"a peer that is no address stays as it is", "unix:", "198.51.100.7", "unix:"},
    {"an empty peer", "", "198.51.100.7", ""},
    {"no peer", NULL, "198.51.100.7", NULL},
};

static const struct forwarded_case rfc7239_cases[] = {
    {"one client", "10.0.0.1", "for=198.51.100.7", "198.51.100.7"},
    {"letter case of the name", "10.0.0.1", "For=198.51.100.7;Proto=https", "198.51.100.7"},
    {"among others", "10.0.0.1", "by=10.0.0.1; for=198.51.100.7 ;proto=https", "198.51.100.7"},
    {"quoted IPv6 with a port", "10.0.0.1", "for=\"[2001:db8::7]:4711\"", "2001:db8::7"},
    {"quoted IPv4 with a port", "10.0.0.1", "for=\"198.51.100.7:80\"", "198.51.100.7"},
    {"forged on the left", "10.0.0.1", "for=1.1.1.1, for=198.51.100.7", "198.51.100.7"},
    {"through proxies", "10.0.0.1", "for=1.1.1.1,for=198.51.100.7;by=x, for=10.0.0.2",
     "198.51.100.7"},
    {"a quote the client opens", "10.0.0.1", "for=\"1.1.1.1, for=198.51.100.7", "198.51.100.7"},
    {"a quote the client opens, before a quoted one", "10.0.0.1",
     "for=\"1.1.1.1, for=\"[2001:db8::7]\"", "2001:db8::7"},
    {"a comma in quotes", "10.0.0.1", "for=1.1.1.1;x=\"a, for=2.2.2.2\", for=10.0.0.2", "1.1.1.1"},
    {"an escaped quote in quotes", "10.0.0.1", "for=1.1.1.1;x=\"a\\\", for=2.2.2.2\"", "1.1.1.1"},
    {"unknown ends the walk", "10.0.0.1", "for=1.1.1.1, for=unknown, for=10.0.0.2", "10.0.0.2"},
    {"a hidden one ends it", "10.0.0.1", "for=1.1.1.1, for=_gazonk, for=10.0.0.2", "10.0.0.2"},
    {"an element without for ends it", "10.0.0.1", "for=1.1.1.1, by=10.0.0.2", "10.0.0.1"},
    {"one with two ends it", "10.0.0.1", "for=1.1.1.1;for=2.2.2.2", "10.0.0.1"},
    {"one with none that is named alike", "10.0.0.1", "xfor=1.1.1.1", "10.0.0.1"},
    {"spaces around = are not allowed", "10.0.0.1", "for = 1.1.1.1", "10.0.0.1"},
    {"a plain list is not this header", "10.0.0.1", "1.1.1.1", "10.0.0.1"},
    {"an escape within an address", "10.0.0.1", "for=\"1.1.1.\\1\"", "10.0.0.1"},
    {"a lone quote", "10.0.0.1", "for=\"", "10.0.0.1"},
    {"empty items", "10.0.0.1", ",, for=198.51.100.7 ,, for=10.0.0.2,", "198.51.100.7"},
};

static struct rn_ruleset behind_proxies(struct rn_attribute *ip, const struct rn_cidr_set *set,
                                        bool rfc7239)
{
    *ip = (struct rn_attribute){.name = RN_SLICE("ip"),
                                .source = RN_SOURCE_FORWARDED,
                                .is_ip = true,
                                .header =
                                    rfc7239 ? RN_SLICE("forwarded") : RN_SLICE("x-forwarded-for"),
                                .forwarded_rfc7239 = rfc7239};
    return (struct rn_ruleset){.attributes = ip, .attribute_count = 1, .trusted_proxies = set};
}

static void check_forwarded(const struct forwarded_case *c, bool rfc7239)
{
    struct rn_cidr_set set = rn_cidr_set_build(trusted, 3);
    struct rn_attribute ip;
    struct rn_ruleset ruleset = behind_proxies(&ip, &set, rfc7239);
    const char *pairs[6] = {NULL};
    unsigned n = 0;

    if (c->header) {
        pairs[n++] = rfc7239 ? "header.forwarded" : "header.x-forwarded-for";
        pairs[n++] = c->header;
    }
    if (c->peer) {
        pairs[n++] = "ip";
        pairs[n++] = c->peer;
    }
    resolve(&ruleset, pairs);
    why = c->why;
    assert_value(0, c->client);
    why = "";
    rn_arena_done(&ruleset.arena);
}

static void a_forwarded_list_is_read_from_the_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof list_cases / sizeof *list_cases; i++)
        check_forwarded(&list_cases[i], false);
}

static void rfc7239_is_read_from_the_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rfc7239_cases / sizeof *rfc7239_cases; i++)
        check_forwarded(&rfc7239_cases[i], true);
}

static void several_headers_are_one_list(void **state)
{
    struct rn_cidr_set set = rn_cidr_set_build(trusted, 3);
    struct rn_attribute ip;
    struct rn_ruleset ruleset = behind_proxies(&ip, &set, false);

    (void)state;
    resolve(&ruleset, (const char *[]){"header.x-forwarded-for", "1.1.1.1, 2.2.2.2", "ip",
                                       "10.0.0.1", "header.x-forwarded-for", "10.0.0.2",
                                       "header.x-forwarded-for", "", NULL});
    assert_value(0, "2.2.2.2");
    resolve(&ruleset, (const char *[]){"header.x-forwarded-for", "1.1.1.1", "ip", "10.0.0.1",
                                       "header.x-forwarded-for", "3.3.3.3", NULL});
    assert_value(0, "3.3.3.3");
    resolve(&ruleset, (const char *[]){"header.x-forwarded-for", "1.1.1.1", "ip", "10.0.0.1",
                                       "header.x-forwarded-for", "unknown", NULL});
    assert_value(0, "10.0.0.1");
    rn_arena_done(&ruleset.arena);
}

static void without_trusted_proxies_the_header_is_ignored(void **state)
{
    struct rn_cidr_set none = {NULL, 0};
    struct rn_attribute ip;
    struct rn_ruleset ruleset = behind_proxies(&ip, NULL, false);
    const char *const pairs[] = {"ip", "10.0.0.1", "header.x-forwarded-for", "1.1.1.1", NULL};

    (void)state;
    resolve(&ruleset, pairs);
    assert_value(0, "10.0.0.1");
    ruleset.trusted_proxies = &none;
    resolve(&ruleset, pairs);
    assert_value(0, "10.0.0.1");
    rn_arena_done(&ruleset.arena);
}

static char *repeat(const char *piece, size_t bytes, const char *end)
{
    size_t n = strlen(piece), count = bytes / n;
    char *text = malloc(count * n + strlen(end) + 1);

    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * n, piece, n);
    strcpy(text + count * n, end);
    return text;
}

/* 10 KB of anything: the answer is right, and the walk gives up after so many
 * hops (a megabyte of escaped quotes would show a quadratic scan). */
static void long_headers_take_bounded_work(void **state)
{
    static const struct {
        const char *piece, *end, *client;
        size_t bytes;
        bool rfc7239;
    } cases[] = {
        {"1.1.1.1, ", "198.51.100.7", "198.51.100.7", 10000, false},
        {"10.0.0.2,", "10.0.0.3", "10.0.0.2", 10000, false},
        {",", "198.51.100.7", "198.51.100.7", 10000, false},
        {",", "", "10.0.0.1", 10000, false},
        {"9", "", "10.0.0.1", 10000, false},
        {"\\\"", "", "10.0.0.1", 1000000, true},
        {"\"\",", ", for=198.51.100.7", "198.51.100.7", 10000, true},
        {"for=1.1.1.1;", "", "10.0.0.1", 10000, true},
        {"for=\"", ", for=198.51.100.7", "198.51.100.7", 10000, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *header = repeat(cases[i].piece, cases[i].bytes, cases[i].end);
        struct forwarded_case c = {cases[i].piece, "10.0.0.1", header, cases[i].client};

        check_forwarded(&c, cases[i].rfc7239);
        free(header);
    }
}

/* --- the others ---------------------------------------------------------------- */

static void attributes_are_found_by_name(void **state)
{
    const struct rn_attribute attributes[] = {
        {.name = RN_SLICE("user")},
        {.name = RN_SLICE("agent"), .source = RN_SOURCE_HEADER, .header = RN_SLICE("user-agent")},
        {.name = RN_SLICE("browser"), .source = RN_SOURCE_HEADER, .header = RN_SLICE("user-agent")},
        {.name = RN_SLICE("header.user-agent")},
        {.name = RN_SLICE("absent")},
        {.name = RN_SLICE("path")},
    };
    struct rn_ruleset ruleset = {.attributes = attributes, .attribute_count = 6};

    (void)state;
    resolve(&ruleset, (const char *[]){"user", "ann", "agent", "forged", "header.user-agent",
                                       "curl", "user", "bob", "absen", "x", "path", "/a?b", NULL});
    assert_value(0, "ann"); /* of two the first */
    assert_value(1, "curl");
    assert_value(2, "curl");
    assert_value(3, "curl");
    assert_value(4, NULL);
    assert_value(5, "/a");
    rn_arena_done(&ruleset.arena);
}

static void parameters_are_taken_from_the_path(void **state)
{
    const struct rn_attribute attributes[] = {
        {.name = RN_SLICE("user"),
         .source = RN_SOURCE_PATH,
         .pattern = RN_SLICE("/users/{user}/**"),
         .segment = 1},
        {.name = RN_SLICE("post"),
         .source = RN_SOURCE_PATH,
         .pattern = RN_SLICE("/users/{user}/posts/{post}"),
         .segment = 3},
    };
    struct rn_ruleset ruleset = {.attributes = attributes, .attribute_count = 2};

    (void)state;
    resolve(&ruleset, (const char *[]){"path", "/users//%34%32/posts/7/?x=/9", NULL});
    assert_value(0, "42");
    assert_value(1, "7");
    resolve(&ruleset, (const char *[]){"path", "/users/42", "user", "forged", NULL});
    assert_value(0, "42");
    assert_value(1, NULL);
    resolve(&ruleset, (const char *[]){"path", "/accounts/42", NULL});
    assert_value(0, NULL);
    resolve(&ruleset, (const char *[]){"path", "/users/a%2Fb/posts/7", NULL});
    assert_value(0, "a");
    assert_value(1, NULL);
    rn_values_read_as(&ruleset, &values, 1);
    assert_value(0, "a%2Fb");
    assert_value(1, "7");
    why = "any segment may be meant";
    resolve(&ruleset, (const char *[]){"path", "/x%2F..%2Fusers/42", NULL});
    assert_value(0, "%");
    resolve(&ruleset, (const char *[]){NULL});
    assert_value(0, NULL);
    rn_arena_done(&ruleset.arena);
}

static void addresses_become_canonical(void **state)
{
    const struct rn_attribute attributes[] = {
        {.name = RN_SLICE("ip"), .is_ip = true},
        {.name = RN_SLICE("real"),
         .source = RN_SOURCE_HEADER,
         .header = RN_SLICE("x-real-ip"),
         .is_ip = true},
    };
    struct rn_ruleset ruleset = {.attributes = attributes, .attribute_count = 2};

    (void)state;
    resolve(&ruleset,
            (const char *[]){"ip", "2001:0DB8::0:1", "header.x-real-ip", " 10.0.0.1 ", NULL});
    assert_value(0, "2001:db8::1");
    assert_int_equal(values.address[0].bits, 128);
    assert_value(1, "10.0.0.1");
    resolve(&ruleset, (const char *[]){"ip", "::ffff:10.0.0.1", "header.x-real-ip", "me", NULL});
    assert_value(0, "10.0.0.1");
    assert_value(1, "me");
    assert_int_equal(values.address[1].bits, 0);
    resolve(&ruleset, (const char *[]){"ip", "10.0.0.1:443", NULL});
    assert_value(0, "10.0.0.1");
    assert_value(1, NULL);
    assert_int_equal(values.address[1].bits, 0);
    rn_arena_done(&ruleset.arena);
}

static void as_many_attributes_as_there_may_be(void **state)
{
    static char names[RN_ATTRIBUTES_MAX][8];
    static struct rn_attribute attributes[RN_ATTRIBUTES_MAX];
    struct rn_ruleset ruleset = {.attributes = attributes, .attribute_count = RN_ATTRIBUTES_MAX};

    (void)state;
    for (unsigned i = 0; i < RN_ATTRIBUTES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "a%u", i);
        attributes[i].name = rn_slice_of(names[i]);
    }
    for (unsigned i = 0; i < RN_ATTRIBUTES_MAX; i += 37) {
        resolve(&ruleset, (const char *[]){names[i], "here", NULL});
        for (unsigned n = 0; n < RN_ATTRIBUTES_MAX; n++)
            assert_value(n, n == i ? "here" : NULL);
    }
    rn_arena_done(&ruleset.arena);
}

static void a_host_has_one_spelling(void **state)
{
    const struct rn_attribute attributes[] = {{.name = RN_SLICE("host")}};
    struct rn_ruleset ruleset = {.attributes = attributes, .attribute_count = 1};
    char endless[400];

    (void)state;
    resolve(&ruleset, (const char *[]){"host", "API.Example.com:8443", NULL});
    assert_value(0, "api.example.com");
    resolve(&ruleset, (const char *[]){"host", "api.example.com.", NULL});
    assert_value(0, "api.example.com");
    resolve(&ruleset, (const char *[]){"host", "[2001:DB8::1]:443", NULL});
    assert_value(0, "[2001:db8::1]");
    resolve(&ruleset, (const char *[]){"host", "[::1]", NULL});
    assert_value(0, "[::1]");
    resolve(&ruleset, (const char *[]){"host", ":80", NULL});
    assert_value(0, ":80");
    memset(endless, 'A', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    resolve(&ruleset, (const char *[]){"host", endless, NULL});
    assert_value(0, endless);
    rn_arena_done(&ruleset.arena);
}

/* A gateway may say whose host it is, whatever the request says besides. */
static void of_two_hosts_the_first_counts(void **state)
{
    const struct rn_attribute attributes[] = {{.name = RN_SLICE("host")}};
    struct rn_ruleset ruleset = {.attributes = attributes, .attribute_count = 1};

    (void)state;
    resolve(&ruleset, (const char *[]){"host", "API.example.com", "host", "other.invalid:1", NULL});
    assert_value(0, "api.example.com");
    rn_arena_done(&ruleset.arena);
}

/* A long number must not cost more the more rules compare it. */
static void a_number_is_read_once_for_all_conditions(void **state)
{
    const struct rn_attribute attributes[] = {{.name = RN_SLICE("size"), .is_number = true},
                                              {.name = RN_SLICE("age"), .is_number = true}};
    struct rn_ruleset ruleset = {.attributes = attributes, .attribute_count = 2};
    const struct rn_slice bound = RN_SLICE("500");
    struct rn_condition above = {.test = RN_TEST_ABOVE, .values = &bound, .value_count = 1};

    (void)state;
    resolve(&ruleset, (const char *[]){"size", "00501.5", "age", "old", NULL});
    assert_true(values.has_number[0]);
    assert_false(values.has_number[1]);
    values.value[0] = RN_SLICE("text that nobody reads again");
    assert_true(rn_condition_holds(&ruleset, &above, &values));
    above.attribute = 1;
    assert_false(rn_condition_holds(&ruleset, &above, &values));
    resolve(&ruleset, (const char *[]){"age", "501", NULL});
    assert_false(values.has_number[0]);
    assert_true(rn_condition_holds(&ruleset, &above, &values));
    rn_arena_done(&ruleset.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forwarded_list_is_read_from_the_right),
        cmocka_unit_test(rfc7239_is_read_from_the_right),
        cmocka_unit_test(several_headers_are_one_list),
        cmocka_unit_test(without_trusted_proxies_the_header_is_ignored),
        cmocka_unit_test(long_headers_take_bounded_work),
        cmocka_unit_test(attributes_are_found_by_name),
        cmocka_unit_test(parameters_are_taken_from_the_path),
        cmocka_unit_test(addresses_become_canonical),
        cmocka_unit_test(a_host_has_one_spelling),
        cmocka_unit_test(of_two_hosts_the_first_counts),
        cmocka_unit_test(a_number_is_read_once_for_all_conditions),
        cmocka_unit_test(as_many_attributes_as_there_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
