/* SPDX-License-Identifier: Apache-2.0 */
/* Bans: which clients are refused, until when, and that other clients are not affected. */
#include "clients_fixture.h"

static bool is_banned(struct ration *r, const char *words)
{
    struct ration_outcome out = look(r, words, T0);

    assert_true((out.kind == RATION_BY_BAN) == !out.decision.allowed);
    return out.kind == RATION_BY_BAN;
}

static void a_banned_client_is_refused_with_the_reason(void **state)
{
    struct ration *r = open_rules(by_user);
    struct ration_error error;
    struct ration_outcome out;
    struct ration_totals totals;

    (void)state;
    assert_int_equal(try_ban(r, "user=ann", "spam, see ticket 7", 10 * SECOND, &error), 0);
    out = decide(r, "user=ann ip=192.0.2.1", T0 + SECOND);
    assert_false(out.decision.allowed);
    assert_int_equal(out.kind, RATION_BY_BAN);
    assert_int_equal(out.status, 429);
    assert_string_equal(out.rule, "");
    assert_string_equal(out.message, "spam, see ticket 7");
    assert_int_equal(out.decision.verdict.retry_after_ns, 9 * SECOND);
    assert_int_equal(out.decision.verdict.remaining, 0);
    assert_int_equal(out.decision.decided_by, -1);
    assert_int_equal(out.limit_count, 0);
    /* Nothing was charged, and it counts as a refusal of no rule. */
    assert_int_equal(left_of(r, "a", "user=ann", T0 + 10 * SECOND), 10);
    ration_totals(r, &totals);
    assert_int_equal(totals.refused, 1);
    assert_int_equal(ration_rule_totals(r, "a", 1, &totals), 0);
    assert_int_equal(totals.refused, 0);
    assert_int_equal(rn_clients_refresh_at(r, T0 + 10 * SECOND, &error), 0);
    assert_int_equal(r->clients.bans.live, 0);
    ration_close(r);
}

static void a_ban_for_ever_lasts(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    ban(r, "user=ann");
    assert_int_equal(look(r, "user=ann", T0).decision.verdict.retry_after_ns, RATION_NEVER);
    assert_int_equal(look(r, "user=ann", T0 + (INT64_C(1) << 60)).kind, RATION_BY_BAN);
    assert_false(is_banned(r, "user=bob"));
    assert_false(is_banned(r, "name=ann"));
    assert_int_equal(unban(r, "user=ann"), 0);
    assert_int_equal(unban(r, "user=ann"), RATION_EGONE);
    assert_false(is_banned(r, "user=ann"));
    ration_close(r);
}

static void all_attributes_must_be_equal(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    ban(r, "user=ann country=it path=/x");
    assert_true(is_banned(r, "path=/x country=it other=1 user=ann"));
    assert_false(is_banned(r, "user=ann country=it"));
    assert_false(is_banned(r, "user=ann country=it path=/y"));
    assert_false(is_banned(r, "user=it country=ann path=/x"));
    /* Any order is the same ban. */
    ban(r, "path=/x user=ann country=it");
    assert_int_equal(r->clients.bans.live, 1);
    assert_int_equal(unban(r, "country=it path=/x user=ann"), 0);
    assert_false(is_banned(r, "user=ann country=it path=/x"));
    ration_close(r);
}

static void all_spellings_of_a_path_are_banned(void **state)
{
    static const char *const rules[] = {
        by_user, /* no rule looks at the path */
        "attributes: { item: { path: '/items/{item}/**' } }\n"
        "limits:\n  - { name: a, key: [path, item], limit: 10 per hour }\n"};
    struct ration_error error;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct ration *r = open_rules(rules[i]);

        ban(r, "path=/items/7/");
        ban(r, "path=/items/%37"); /* the same */
        assert_int_equal(r->clients.bans.live, 1);
        assert_true(is_banned(r, "path=/items/7"));
        assert_true(is_banned(r, "path=/items//%37?x"));
        assert_true(is_banned(r, "path=/x/../items/7"));
        assert_false(is_banned(r, "path=/items/8"));
        ration_close(r);
    }
    struct ration *r = open_rules(rules[1]);

    ban(r, "item=a%2Fb");
    assert_true(is_banned(r, "path=/items/a%2fb")); /* by its second reading */
    assert_false(is_banned(r, "path=/items/c%2fb"));
    assert_int_equal(try_ban(r, "path=/a%2F../b", "", 0, &error), RATION_EINVAL);
    assert_string_equal(error.text, "\"/a%2F../b\" can be read in too many ways; write the path as "
                                    "it is served");
    ration_close(r);
}

static bool is_banned_at(struct ration *r, const char *words, int64_t now_ns)
{
    return look(r, words, now_ns).kind == RATION_BY_BAN;
}

/* Two that are one to the rules: neither ends with the other. */
static void bans_that_meet_hold_each_by_itself(void **state)
{
    struct ration *r = open_rules("paths: {case: ignore}\n"
                                  "limits: [{name: a, key: user, limit: 9 per hour}]\n");
    struct ration_error error;

    (void)state;
    ban(r, "path=/p/secret");
    assert_int_equal(try_ban(r, "path=/P/Secret", "", 2 * SECOND, &error), 0);
    assert_true(is_banned_at(r, "path=/p/SECRET", T0));
    assert_true(is_banned_at(r, "path=/p/SECRET", T0 + 3 * SECOND));
    ban(r, "path=/P/SECRET");
    assert_int_equal(unban(r, "path=/p/secret"), 0);
    assert_true(is_banned_at(r, "path=/p/secret", T0));
    assert_int_equal(unban(r, "path=/P/SECRET"), 0);
    assert_true(is_banned_at(r, "path=/p/secret", T0)); /* the one of two seconds */
    assert_false(is_banned_at(r, "path=/p/secret", T0 + 3 * SECOND));
    ban(r, "path=/p/secret");
    assert_int_equal(try_ban(r, "path=/p/secret", "", SECOND, &error), 0); /* made shorter */
    assert_false(is_banned_at(r, "path=/p/secret", T0 + 3 * SECOND));
    ration_close(r);
}

static void networks_are_banned(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    ban(r, "ip=10.0.0.0/8");
    ban(r, "ip=192.0.2.0/25");
    ban(r, "ip=2001:db8::/33");
    ban(r, "ip=198.51.100.7");
    ban(r, "ip=203.0.113.0/24 user=ann");
    assert_true(is_banned(r, "ip=10.255.0.1"));
    assert_true(is_banned(r, "ip=::ffff:10.1.1.1"));
    assert_false(is_banned(r, "ip=11.0.0.1"));
    assert_true(is_banned(r, "ip=192.0.2.127"));
    assert_false(is_banned(r, "ip=192.0.2.128"));
    assert_true(is_banned(r, "ip=2001:db8:7fff::1"));
    assert_false(is_banned(r, "ip=2001:db8:8000::1"));
    assert_true(is_banned(r, "ip=198.51.100.7:4711"));
    assert_false(is_banned(r, "ip=198.51.100.8"));
    assert_true(is_banned(r, "ip=203.0.113.9 user=ann"));
    assert_false(is_banned(r, "ip=203.0.113.9 user=bob"));
    assert_false(is_banned(r, "ip=nonsense"));
    ration_close(r);
}

/* The address that counts is the client's, not the proxy's. */
static void clients_behind_trusted_proxies_are_found(void **state)
{
    struct ration *r = open_rules("attributes:\n"
                                  "  ip: { trusted_proxies: [10.0.0.0/8] }\n"
                                  "limits:\n  - { name: a, key: user, limit: 10 per hour }\n");

    (void)state;
    ban(r, "ip=192.0.2.7");
    assert_true(is_banned(r, "ip=10.0.0.1 header.x-forwarded-for=192.0.2.7"));
    assert_false(is_banned(r, "ip=10.0.0.1 header.x-forwarded-for=192.0.2.8"));
    assert_false(is_banned(r, "ip=192.0.2.8 header.x-forwarded-for=192.0.2.7"));
    ration_close(r);
}

static void lists_of_the_rules_come_first(void **state)
{
    struct ration *r = open_rules("allow:\n  - { user: ann }\n"
                                  "deny:\n  - { user: eve }\n"
                                  "limits:\n  - { name: a, key: user, limit: 10 per hour }\n");

    (void)state;
    ban(r, "user=ann");
    ban(r, "user=eve");
    ban(r, "user=bob");
    assert_int_equal(look(r, "user=ann", T0).kind, RATION_BY_ALLOW_LIST);
    assert_int_equal(look(r, "user=eve", T0).kind, RATION_BY_DENY_LIST);
    assert_int_equal(look(r, "user=bob", T0).kind, RATION_BY_BAN);
    ration_close(r);
}

static void in_shadow_mode_it_is_only_noted(void **state)
{
    struct ration *r = open_rules("mode: shadow\n"
                                  "limits:\n  - { name: a, key: user, limit: 10 per hour }\n");
    struct ration_outcome out;

    (void)state;
    ban(r, "user=ann");
    out = decide(r, "user=ann", T0);
    assert_true(out.decision.allowed);
    assert_true(out.shadow_refused);
    assert_int_equal(out.kind, RATION_BY_BAN);
    ration_close(r);
}

static void without_rules_bans_hold_too(void **state)
{
    struct ration *r = open_limits(NULL, 0);

    (void)state;
    ban(r, "ip=192.0.2.0/24");
    assert_true(is_banned(r, "ip=192.0.2.1"));
    assert_int_equal(look(r, "ip=198.51.100.1", T0).kind, RATION_BY_NO_RULE);
    assert_int_equal(ration_rules_version(r), 0);
    rules_at(r, by_user, T0);
    assert_int_equal(ration_rules_version(r), 1);
    assert_true(is_banned(r, "ip=192.0.2.1"));
    assert_int_equal(left_of(r, "a", "user=ann", T0), 10);
    ration_close(r);
}

static void descriptors_are_banned_by_their_entries(void **state)
{
    struct ration *r = open_rules(shop);

    (void)state;
    ban(r, "user=ann");
    assert_int_equal(decide_in_shop(r, "ann").kind, RATION_BY_BAN);
    assert_true(decide_in_shop(r, "bob").decision.allowed);
    ration_close(r);
}

static void of_several_bans_the_longest_speaks(void **state)
{
    struct ration *r = open_rules(by_user);
    struct ration_error error;

    (void)state;
    assert_int_equal(try_ban(r, "user=ann", "short", SECOND, &error), 0);
    assert_int_equal(try_ban(r, "ip=192.0.2.1", "long", MINUTE, &error), 0);
    assert_string_equal(look(r, "user=ann ip=192.0.2.1", T0).message, "long");
    assert_string_equal(look(r, "user=ann", T0).message, "short");
    ban(r, "country=xx");
    assert_int_equal(look(r, "user=ann country=xx", T0).decision.verdict.retry_after_ns,
                     RATION_NEVER);
    ration_close(r);
}

static void mistakes_are_explained(void **state)
{
    static const struct {
        const char *words, *reason;
        int code;
        const char *says;
    } mistakes[] = {
        {"", "", RATION_EINVAL,
         "a ban by 0 attributes; give it 1 to 4, all of which must be equal"},
        {"a=1 b=2 c=3 d=4 e=5", "", RATION_EINVAL,
         "a ban by 5 attributes; give it 1 to 4, all of which must be equal"},
        {"ip=10.0.0.1/8", "", RATION_EPARSE,
         "\"10.0.0.1/8\" has bits set after its prefix; did you mean 10.0.0.0/8?"},
        {"user=ann", "\xff", RATION_EINVAL,
         "a reason with a byte 0xff at 0, which is not plain text; write UTF-8 without control "
         "characters"},
    };
    struct ration *r = open_rules(by_user);

    (void)state;
    for (size_t i = 0; i < COUNT(mistakes); i++) {
        struct ration_error error;

        assert_int_equal(try_ban(r, mistakes[i].words, mistakes[i].reason, 0, &error),
                         mistakes[i].code);
        assert_string_equal(error.text, mistakes[i].says);
    }
    assert_int_equal(r->clients.bans.live, 0);
    ration_close(r);
}

static void kinds_have_a_most_and_are_given_back(void **state)
{
    struct ration *r = open_rules(by_user);
    struct ration_error error;
    char words[32];

    (void)state;
    for (unsigned i = 0; i < RATION_BAN_KINDS_MAX; i++) {
        snprintf(words, sizeof words, "name%u=x", i);
        ban(r, words);
    }
    assert_int_equal(try_ban(r, "user=ann", "", 0, &error), RATION_EFULL);
    assert_non_null(strstr(error.text, "bans of 64 kinds"));
    ban(r, "name7=another");
    for (unsigned i = 0; i < RATION_BAN_KINDS_MAX; i += 2) {
        snprintf(words, sizeof words, "name%u=x", i);
        assert_int_equal(unban(r, words), 0);
    }
    ban(r, "user=ann");
    assert_true(is_banned(r, "user=ann"));
    assert_true(is_banned(r, "name63=x"));
    assert_false(is_banned(r, "name62=x"));
    ration_close(r);
}

static void a_hundred_thousand_are_one_look_up(void **state)
{
    struct ration *r = open_rules(by_user);
    char words[32];

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        snprintf(words, sizeof words, "ip=10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        ban(r, words);
    }
    assert_true(is_banned(r, "ip=10.1.0.255"));
    assert_false(is_banned(r, "ip=10.2.0.0"));
    assert_int_equal(r->shelf.book->client_index->kind_count, 1);
    rules_at(r, by_user, T0);
    assert_true(is_banned(r, "ip=10.0.3.4"));
    ration_close(r);
}

static int see_ban(void *arg, const struct ration_ban *b)
{
    struct listing *l = arg;

    l->len += (size_t)snprintf(l->text + l->len, sizeof l->text - l->len, "%zu %.*s=%.*s %.*s;",
                               b->count, (int)b->attributes[0].name_len, b->attributes[0].name,
                               (int)b->attributes[0].value_len, b->attributes[0].value,
                               (int)b->reason_len, b->reason);
    l->count += b->active;
    return 0;
}

static void they_are_listed_as_they_are_compared(void **state)
{
    struct ration *r = open_rules(by_user);
    struct listing l = {.len = 0};

    (void)state;
    assert_int_equal(try_ban(r, "ip=2001:DB8::0", "b", 0, NULL), 0);
    assert_int_equal(try_ban(r, "ip=10.0.0.0/8", "a", 0, NULL), 0);
    assert_int_equal(try_ban(r, "ip=2001:db8::", "c", 0, NULL), 0);
    assert_int_equal(ration_ban_each(r, see_ban, &l), 0);
    assert_string_equal(l.text, "1 ip=10.0.0.0/8 a;1 ip=2001:db8:: c;");
    assert_int_equal(l.count, 2);
    ration_close(r);
}

static int see_sequence(void *arg, const struct ration_ban *ban)
{
    *(uint64_t *)arg = ban->sequence;
    return 0;
}

static void they_are_found_and_listed_page_by_page(void **state)
{
    struct ration *r = open_rules(by_user);
    struct ration_attribute ip = {"ip", 2, "192.0.2.0/24", 12};
    struct ration_ban found = {.attributes = &ip, .count = 1};
    struct ration_listing listing = {.limit = 1};
    uint64_t seen[4] = {0};

    (void)state;
    ban(r, "user=ann");
    ban(r, "ip=192.0.2.0/24");
    ban(r, "user=bob");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(ration_ban_list(r, &listing, see_sequence, &seen[i]), 0);
        listing.after = seen[i] ? seen[i] : listing.after;
    }
    assert_true(0 < seen[0] && seen[0] < seen[1] && seen[1] < seen[2]);
    assert_int_equal(seen[3], 0);
    assert_int_equal(ration_ban_find(r, &found, NULL), 0);
    assert_int_equal(found.sequence, seen[1]);
    assert_true(found.active);
    ip.value = "192.0.3.0/24";
    assert_int_equal(ration_ban_find(r, &found, NULL), RATION_EGONE);
    ration_close(r);
}

/* --- the filter --------------------------------------------------------------------------- */

/* In some spelling; few networks, so that many addresses are banned. */
static void random_address(char out[64])
{
    static const char *const forms[] = {"%u.%u.%u.%u", "%u.%u.%u.%u:80", "::ffff:%u.%u.%u.%u",
                                        "0:0:0:0:0:FFFF:%u.%u.%u.%u", "[::ffff:%u.%u.%u.%u]:80"};
    static const char *const longer[] = {"%x:%x::%x:%x", "%X:%x:0:0::%x:%x", "[%x:%x::%x:%x]:443",
                                         "%x:%x::%x:0:%x"};
    unsigned a = (unsigned)rand() % 4, b = (unsigned)rand() % 3, c = (unsigned)rand() % 3,
             d = (unsigned)rand() % 4;

    if (rand() % 2)
        snprintf(out, 64, forms[rand() % 5], a == 0 ? 0 : 9 * a, 100 * b, c, d);
    else
        snprintf(out, 64, longer[rand() % 4], a == 0 ? 0 : 0x2000 + a, b == 0 ? 0 : 0xdb7 + b, c,
                 d);
}

static void the_filter_lets_no_banned_address_through(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct ration *r = open_rules(by_user);
        struct rn_cidr bans[4];
        char text[64], words[96];
        int count = 1 + rand() % 4;

        for (int i = 0; i < count; i++) {
            random_address(text);
            assert_int_equal(rn_ip_parse_host(text, strlen(text), &bans[i].network, NULL), 0);
            bans[i].prefix = (uint8_t)(bans[i].network.bits - (unsigned)rand() % 4 * 8);
            if (rand() % 8 == 0)
                bans[i].prefix = (uint8_t)(rand() % 33);
            bans[i].network = rn_ip_mask(bans[i].network, bans[i].prefix);
            rn_cidr_write(&bans[i], text);
            snprintf(words, sizeof words, "ip=%s", text);
            ban(r, words);
        }
        for (int i = 0; i < 100; i++) {
            struct rn_ip ip;
            bool banned = false;

            random_address(text);
            assert_int_equal(rn_ip_parse_host(text, strlen(text), &ip, NULL), 0);
            for (int k = 0; k < count; k++)
                banned |= rn_cidr_contains(&bans[k], &ip);
            snprintf(words, sizeof words, "user=ann ip=%s", text);
            if ((decide(r, words, T0).kind == RATION_BY_BAN) != banned)
                fail_msg("%s", text);
        }
        ration_close(r);
    }
}

static void texts_of_any_length_are_banned(void **state)
{
    struct ration *r = open_rules(by_user);
    char words[64] = "user=";

    (void)state;
    for (size_t len = 1; len < 24; len++) {
        memset(words + 5, 'a', len);
        words[5 + len] = '\0';
        assert_false(is_banned(r, words));
        ban(r, words);
        assert_true(is_banned(r, words));
    }
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_banned_client_is_refused_with_the_reason),
        cmocka_unit_test(a_ban_for_ever_lasts),
        cmocka_unit_test(all_attributes_must_be_equal),
        cmocka_unit_test(all_spellings_of_a_path_are_banned),
        cmocka_unit_test(bans_that_meet_hold_each_by_itself),
        cmocka_unit_test(networks_are_banned),
        cmocka_unit_test(clients_behind_trusted_proxies_are_found),
        cmocka_unit_test(lists_of_the_rules_come_first),
        cmocka_unit_test(in_shadow_mode_it_is_only_noted),
        cmocka_unit_test(without_rules_bans_hold_too),
        cmocka_unit_test(descriptors_are_banned_by_their_entries),
        cmocka_unit_test(of_several_bans_the_longest_speaks),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(kinds_have_a_most_and_are_given_back),
        cmocka_unit_test(a_hundred_thousand_are_one_look_up),
        cmocka_unit_test(they_are_listed_as_they_are_compared),
        cmocka_unit_test(they_are_found_and_listed_page_by_page),
        cmocka_unit_test(the_filter_lets_no_banned_address_through),
        cmocka_unit_test(texts_of_any_length_are_banned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
