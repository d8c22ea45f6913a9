/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides that are listed, and many of them. */
#include "clients_fixture.h"

/* --- lists ------------------------------------------------------------------------------------ */

static int delete_seen(void *arg, const struct ration_override *o)
{
    assert_int_equal(ration_override_delete(arg, o, NULL), 0);
    return o->rule[0] == 'b';
}

static void lists_are_in_order_and_may_be_changed_meanwhile(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: a, key: user, limit: 10 per hour }\n"
                                  "  - { name: b, key: user, limit: 10 per hour }\n");
    unsigned count = 0;

    (void)state;
    set_limit(r, "a", "user=z", "1 per hour");
    set_limit(r, "b", "user=y", "2 per hour");
    set_limit(r, "a", "user=x", "3 per hour");
    set_limit(r, "a", "user=z", "4 per hour");
    assert_string_equal(overrides(r), "b user=y 2 per hour\n"
                                      "a user=x 3 per hour\n"
                                      "a user=z 4 per hour\n");
    assert_int_equal(ration_override_each(r, "a", 1, count_override, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(ration_override_each(r, NULL, 0, delete_seen, r), 0);
    assert_int_equal(count_overrides(r), 2); /* it stopped at b */
    ration_close(r);
}

/* --- pages ------------------------------------------------------------------------------------ */

#define LISTED 600

struct seen {
    uint64_t ids[2 * LISTED];
    size_t count;
};

static int see_id(void *arg, const struct ration_override *o)
{
    struct seen *seen = arg;

    assert_true(seen->count < sizeof seen->ids / sizeof *seen->ids);
    seen->ids[seen->count++] = o->sequence;
    return 0;
}

static void set_number(struct ration *r, const char *rule, unsigned number)
{
    char words[32];

    snprintf(words, sizeof words, "user=%u", number);
    set_limit(r, rule, words, "3 per hour");
}

/* Of two rules, in an order that no table has; some are set twice. */
static struct ration *open_listed(void)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: a, key: user, limit: 10 per hour }\n"
                                  "  - { name: b, key: user, limit: 10 per hour }\n");

    for (unsigned i = 0; i < LISTED; i++)
        set_number(r, i % 3 ? "a" : "b", i * 7919 % LISTED);
    for (unsigned i = 0; i < LISTED; i += 5)
        set_number(r, "a", i);
    return r;
}

static void a_page_is_a_part_of_the_whole_list(void **state)
{
    static const size_t limits[] = {0, 1, 2, 7, 100, LISTED - 1, 2 * LISTED};
    struct ration *r = open_listed();
    const char *rules[] = {NULL, "a", "b", "none"};
    uint64_t last = r->clients.sequence;

    (void)state;
    for (size_t rule = 0; rule < 4; rule++) {
        struct seen whole = {.count = 0};

        assert_int_equal(
            ration_override_each(r, rules[rule], rule ? strlen(rules[rule]) : 0, see_id, &whole),
            0);
        for (uint64_t after = 0; after <= last + 1; after += 13) {
            size_t first = 0;

            while (first < whole.count && whole.ids[first] <= after)
                first++;
            for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
                struct ration_listing listing = {.rule = rules[rule],
                                                 .rule_len = rule ? strlen(rules[rule]) : 0,
                                                 .after = after,
                                                 .limit = limits[i]};
                size_t rest = whole.count - first;
                size_t expected = limits[i] != 0 && limits[i] < rest ? limits[i] : rest;
                struct seen page = {.count = 0};

                assert_int_equal(ration_override_list(r, &listing, see_id, &page), 0);
                assert_int_equal(page.count, expected);
                assert_memory_equal(page.ids, whole.ids + first, expected * sizeof *page.ids);
            }
        }
    }
    ration_close(r);
}

static int see_user(void *arg, const struct ration_override *o)
{
    unsigned *met = arg;

    met[strtoul(o->attributes[0].value, NULL, 10)]++;
    met[LISTED] = (unsigned)o->sequence;
    return 0;
}

static void pages_list_each_remaining_entry_once(void **state)
{
    struct ration *r = open_rules(by_user);
    struct ration_listing listing = {.limit = 10};
    unsigned met[LISTED + 1] = {0};
    char words[32];

    (void)state;
    for (unsigned i = 0; i < LISTED; i++)
        set_number(r, "a", i);
    for (unsigned page = 0; page < LISTED; page++) {
        met[LISTED] = 0;
        assert_int_equal(ration_override_list(r, &listing, see_user, met), 0);
        if (met[LISTED] == 0)
            break;
        listing.after = met[LISTED];
        snprintf(words, sizeof words, "user=%u", page * 7 % (LISTED / 2)); /* behind and before */
        try_delete(r, "a", words);
        if (page % 3 == 0)
            set_number(r, "a", page * 7 % (LISTED / 2));
    }
    for (unsigned i = LISTED / 2; i < LISTED; i++)
        assert_int_equal(met[i], 1);
    ration_close(r);
}

static void an_entry_is_found_as_the_list_shows_it(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: a, key: ip, limit: 10 per hour }\n");
    struct ration_error error;
    struct seen whole = {.count = 0};
    struct words w;

    (void)state;
    set_limit(r, "a", "ip=2001:db8::1", "1 per hour");
    set_limit(r, "a", "ip=192.0.2.7", "1 per hour");
    ration_override_each(r, NULL, 0, see_id, &whole);
    struct ration_override o = override_of("a", &w, "ip=2001:DB8:0::1", NULL);

    assert_int_equal(ration_override_find(r, &o, &error), 0);
    assert_int_equal(o.sequence, whole.ids[0]);
    assert_true(o.active);
    rules_at(r, "limits: []", T0);
    o = override_of("a", &w, "ip=192.0.2.7", NULL);
    assert_int_equal(ration_override_find(r, &o, &error), 0);
    assert_int_equal(o.sequence, whole.ids[1]);
    assert_false(o.active);
    o = override_of("a", &w, "ip=192.0.2.8", NULL);
    assert_int_equal(ration_override_find(r, &o, &error), RATION_EGONE);
    assert_string_equal(error.text, "there is no override of rule \"a\" for such a client");
    ration_close(r);
}

static void what_has_expired_is_not_counted(void **state)
{
    struct ration *r = open_rules(by_user);
    uint64_t overrides_there, bans_there;

    (void)state;
    set_limit(r, "a", "user=ann", "3 per hour");
    assert_int_equal(try_set(r, "a", "user=bob", "3 per hour", SECOND, NULL), 0); /* of T0 */
    ban(r, "user=eve");
    ration_clients_count(r, &overrides_there, &bans_there);
    assert_int_equal(overrides_there, count_overrides(r));
    assert_int_equal(overrides_there, 1);
    assert_int_equal(bans_there, 1);
    assert_int_equal(ration_clients_refresh(r, NULL), 0);
    ration_clients_count(r, &overrides_there, &bans_there);
    assert_int_equal(overrides_there, 1);
    ration_close(r);
}

/* --- thousands
 * ----------------------------------------------------------------------------------------- */

/* How many slots a look-up of the hash touches. */
static unsigned steps_of(const struct rn_map *map, uint64_t hash)
{
    const struct rn_map_table *t = map->table;
    unsigned steps = 1;

    for (uint64_t i = hash; t->slots[i & t->mask].item && t->slots[i & t->mask].hash != hash; i++)
        steps++;
    return steps;
}

static void a_hundred_thousand_are_found_in_a_step_or_two(void **state)
{
    const unsigned many = 100000;
    struct ration *r = open_rules(by_user);
    uint64_t hash = 88172645463325252u, sum = 0;
    char words[32], limit[32];

    (void)state;
    for (unsigned i = 0; i < many; i++) {
        snprintf(words, sizeof words, "user=%u", i);
        snprintf(limit, sizeof limit, "%u per hour", 20 + i % 100);
        set_limit(r, "a", words, limit);
    }
    for (unsigned i = 0; i < many; i += 997) {
        snprintf(words, sizeof words, "user=%u", i);
        assert_int_equal(look(r, words, T0).decision.verdict.limit, 20 + i % 100);
    }
    assert_int_equal(look(r, "user=ann", T0).decision.verdict.limit, 10);
    assert_int_equal(count_overrides(r), many);
    const struct rn_client_index *index = r->shelf.book->client_index;

    assert_int_equal(index->plans.live, 100); /* limits are shared */
    for (unsigned i = 0; i < 10000; i++) {
        hash ^= hash << 13, hash ^= hash >> 7, hash ^= hash << 17;
        unsigned steps = steps_of(&index->overrides, hash);

        assert_true(steps < 200);
        sum += steps;
    }
    assert_true(sum < 4 * 10000);
    rules_at(r, by_user_window, T0);
    assert_int_equal(look(r, "user=99999", T0).decision.verdict.limit, 20 + 99999 % 100);
    ration_close(r);
}

static void there_is_a_most(void **state)
{
    struct ration *r = open_rules(by_user);
    struct ration_error error;
    uint32_t live;

    (void)state;
    set_limit(r, "a", "user=ann", "3 per hour");
    live = r->clients.overrides.live;
    r->clients.overrides.live = RATION_OVERRIDES_MAX;
    assert_int_equal(try_set(r, "a", "user=bob", "3 per hour", 0, &error), RATION_EFULL);
    assert_string_equal(error.text, "250000 overrides are set, which is the most; delete some");
    assert_int_equal(try_set(r, "a", "user=ann", "4 per hour", 0, &error), 0); /* replaces */
    r->clients.overrides.live = live;
    ration_close(r);
}

/* What is replaced is freed while the book stays: its client index is renewed. */
static void ten_thousand_changes_leave_nothing_behind(void **state)
{
    struct ration *r = open_rules(by_user);
    char limit[32];

    (void)state;
    for (unsigned i = 1; i <= 10000; i++) {
        snprintf(limit, sizeof limit, "%u per hour", i);
        set_limit(r, "a", "user=ann", limit);
        assert_int_equal(look(r, "user=ann", T0).decision.verdict.limit, i);
    }
    const struct rn_client_index *index = r->shelf.book->client_index;

    assert_true(index->limbo_count <= 1100);
    assert_true(index->plans.live <= 1100);
    assert_int_equal(ration_rules_version(r), 1);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_in_order_and_may_be_changed_meanwhile),
        cmocka_unit_test(a_page_is_a_part_of_the_whole_list),
        cmocka_unit_test(pages_list_each_remaining_entry_once),
        cmocka_unit_test(an_entry_is_found_as_the_list_shows_it),
        cmocka_unit_test(what_has_expired_is_not_counted),
        cmocka_unit_test(a_hundred_thousand_are_found_in_a_step_or_two),
        cmocka_unit_test(there_is_a_most),
        cmocka_unit_test(ten_thousand_changes_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
