/* SPDX-License-Identifier: Apache-2.0 */
/* The client of an override, as its rule spells it; and faulty ones. */
#include "clients_fixture.h"

static const char many_keys[] =
    "limits:\n"
    "  - { name: pair, key: [user, ip], limit: 10 per hour }\n"
    "  - { name: either, key: api_key or ip, limit: 10 per hour }\n"
    "  - { name: all, key: none, limit: 10 per hour }\n"
    "  - { name: net, key: { ip: { ipv6: 56 } }, limit: 10 per hour }\n";

static void keys_of_several_parts_and_alternatives(void **state)
{
    struct ration *r = open_rules(many_keys);

    (void)state;
    set_limit(r, "pair", "ip=192.0.2.1 user=ann", "2 per hour"); /* in any order */
    assert_int_equal(left_of(r, "pair", "user=ann ip=192.0.2.1", T0), 2);
    assert_int_equal(left_of(r, "pair", "user=ann ip=192.0.2.2", T0), 10);
    set_limit(r, "either", "ip=192.0.2.1", "3 per hour");
    assert_int_equal(left_of(r, "either", "ip=192.0.2.1", T0), 3);
    /* A client that sends an address as its API key is another client. */
    assert_int_equal(left_of(r, "either", "api_key=192.0.2.1", T0), 10);
    set_limit(r, "all", "", "4 per hour");
    assert_int_equal(left_of(r, "all", "user=bob", T0), 4);
    delete_limit(r, "pair", "user=ann ip=192.0.2.1");
    assert_int_equal(left_of(r, "pair", "user=ann ip=192.0.2.1", T0), 10);
    ration_close(r);
}

static void addresses_are_cut_as_the_rule_cuts_them(void **state)
{
    struct ration *r = open_rules(many_keys);

    (void)state;
    set_limit(r, "either", "ip=2001:DB8::1", "3 per hour");
    assert_int_equal(left_of(r, "either", "ip=2001:db8::2", T0), 3);
    assert_int_equal(left_of(r, "either", "ip=2001:db8:0:1::2", T0), 10);
    set_limit(r, "either", "ip=2001:db8::/64", "4 per hour");
    assert_int_equal(left_of(r, "either", "ip=2001:db8::2", T0), 4);
    set_limit(r, "net", "ip=::ffff:192.0.2.1", "5 per hour");
    assert_int_equal(left_of(r, "net", "ip=192.0.2.1", T0), 5);
    assert_string_equal(overrides(r), "either ip=2001:db8::/64 4 per hour\n"
                                      "net ip=192.0.2.1 5 per hour\n");
    delete_limit(r, "either", "ip=2001:db8::7");
    assert_int_equal(left_of(r, "either", "ip=2001:db8::2", T0), 10);
    ration_close(r);
}

static void a_path_is_one_key_in_every_spelling(void **state)
{
    struct ration *r = open_rules(
        "paths: { case: ignore }\nlimits:\n  - { name: page, key: path, limit: 10 per hour }\n");

    (void)state;
    set_limit(r, "page", "path=/Pages/%31/", "3 per hour");
    assert_int_equal(left_of(r, "page", "path=/pages/1", T0), 3);
    assert_int_equal(left_of(r, "page", "path=/x/../PAGES//1", T0), 3);
    assert_int_equal(left_of(r, "page", "path=/pages/2", T0), 10);
    assert_string_equal(overrides(r), "page path=/pages/1 3 per hour\n");
    delete_limit(r, "page", "path=/pages//1");
    assert_int_equal(left_of(r, "page", "path=/pages/1", T0), 10);
    ration_close(r);
}

static void envoy_rules_have_overrides_too(void **state)
{
    struct ration *r = open_rules(shop);
    unsigned count = 0;

    (void)state;
    set_limit(r, "shop.user", "user=ann", "3 per hour");
    for (unsigned i = 0; i < 9; i++)
        count += decide_in_shop(r, "ann").decision.allowed;
    assert_int_equal(count, 3);
    ration_close(r);
}

static void mistakes_are_explained(void **state)
{
    static const struct {
        const char *rule, *words, *limit;
        int code;
        const char *says;
    } mistakes[] = {
        {"pear", "user=ann ip=192.0.2.1", "1 per hour", RATION_EINVAL,
         "there is no rule \"pear\"; load it first, or name another"},
        {"", "user=ann", "1 per hour", RATION_EINVAL,
         "an override names its rule, by at most 1024 bytes; give the name"},
        {"pair", "user=ann", "1 per hour", RATION_EINVAL,
         "rule \"pair\": its key needs \"ip\"; give one attribute for each part of its key"},
        {"either", "ip=192.0.2.1 api_key=x", "1 per hour", RATION_EINVAL,
         "rule \"either\": its key has no room for \"ip\"; give one attribute for each part of its "
         "key"},
        {"all", "user=ann", "1 per hour", RATION_EINVAL,
         "rule \"all\": its key has no room for \"user\"; give one attribute for each part of its "
         "key"},
        {"either", "ip=10.0.0.0/8", "1 per hour", RATION_EINVAL,
         "\"10.0.0.0/8\" where rule \"either\" counts by /32; write an address or such a network"},
        {"either", "ip=2001:db8::/32", "1 per hour", RATION_EINVAL,
         "\"2001:db8::/32\" where rule \"either\" counts by /64; write an address or such a "
         "network"},
        {"either", "ip=10.0.0.300", "1 per hour", RATION_EPARSE, NULL},
        {"either", "ip=", "1 per hour", RATION_EINVAL,
         "attribute \"ip\" has a value of 0 bytes; give it 1 to 1024"},
        {"either", "ip=192.0.2.1 ip=192.0.2.1", "1 per hour", RATION_EINVAL,
         "attribute \"ip\" is given twice; give it once"},
        {"either", "ip=192.0.2.1", "1 per fortnight", RATION_EPARSE, NULL},
        {"either", "ip=192.0.2.1", "10 per calendar day Mars/Olympus", RATION_EINVAL, NULL},
        {"either", "ip=192.0.2.1", "", RATION_EINVAL,
         "an override has a limit, of at most 255 bytes; write for example 1000 per minute"},
    };
    struct ration *r = open_rules(many_keys);

    (void)state;
    for (size_t i = 0; i < COUNT(mistakes); i++) {
        struct ration_error error;
        int code = try_set(r, mistakes[i].rule, mistakes[i].words, mistakes[i].limit, 0, &error);

        if (code != mistakes[i].code || error.text[0] == '\0' ||
            (mistakes[i].says && strcmp(error.text, mistakes[i].says) != 0))
            fail_msg("%zu: %d %s", i, code, error.text);
    }
    assert_string_equal(overrides(r), "");
    ration_close(r);
}

static void notes_and_expiries_have_bounds(void **state)
{
    struct ration *r = open_rules(by_user);
    struct words w;
    struct ration_override o = override_of("a", &w, "user=ann", "1 per hour");
    struct ration_error error;
    char note[201];

    (void)state;
    memset(note, 'x', sizeof note);
    o.note = note;
    o.note_len = sizeof note;
    assert_int_equal(ration_override_set(r, &o, &error), RATION_EINVAL);
    assert_string_equal(error.text, "a note of 201 bytes; write at most 200");
    o.note_len = 200;
    assert_int_equal(ration_override_set(r, &o, &error), 0);
    o.note = "a\nb";
    o.note_len = 3;
    assert_int_equal(ration_override_set(r, &o, &error), RATION_EINVAL);
    o.note = NULL;
    o.expires_ns = -1;
    assert_int_equal(ration_override_set(r, &o, &error), RATION_EINVAL);
    o.expires_ns = RATION_EXPIRY_MAX_NS + 1;
    assert_int_equal(ration_override_set(r, &o, &error), RATION_EINVAL);
    assert_non_null(strstr(error.text, "at most ten years"));
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_several_parts_and_alternatives),
        cmocka_unit_test(addresses_are_cut_as_the_rule_cuts_them),
        cmocka_unit_test(a_path_is_one_key_in_every_spelling),
        cmocka_unit_test(envoy_rules_have_overrides_too),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(notes_and_expiries_have_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
