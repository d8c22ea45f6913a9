/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides and bans between nodes that have nothing else in common. */
#include "clients_fixture.h"

#include "limiter/clients/replication.h"

static const char rules[] = "limits:\n  - { name: a, key: user, limit: 10 per hour }\n";
#define HOUR (60 * MINUTE)

static struct ration *open_node(void)
{
    struct ration *r = open_rules(rules);

    rn_replication_begin(r);
    return r;
}

static uint64_t limit_of(struct ration *r, const char *words)
{
    return look(r, words, T0).decision.verdict.limit;
}

static bool is_banned(struct ration *r, const char *words)
{
    return look(r, words, T0).kind == RATION_BY_BAN;
}

static void set_at(struct ration *r, const char *words, const char *limit, int64_t now_ns)
{
    struct words w;
    struct ration_override o = override_of("a", &w, words, limit);

    assert_int_equal(rn_clients_set(r, &o, false, now_ns, NULL), 0);
}

/* All that the node would tell, without telling it. */
static void collect(struct ration *r, struct rn_replication_batch *batch)
{
    struct rn_replication_walk walk = {.ended = false};

    assert_int_equal(rn_replication_batch_init(batch, 1000), 0);
    assert_int_equal(rn_replication_collect(r, &walk, SIZE_MAX, batch), 0);
    assert_true(walk.ended);
}

static size_t news_of(struct ration *r)
{
    struct rn_replication_batch batch;

    collect(r, &batch);
    rn_replication_batch_done(&batch);
    return batch.count;
}

static struct rn_replication_merged merge(struct ration *r, const struct rn_replication_item *items,
                                          size_t n)
{
    struct rn_replication_merged merged;
    struct ration_error error;

    if (rn_replication_merge(r, items, n, &merged, &error) != 0)
        fail_msg("%s", error.text);
    return merged;
}

/* One node's news reach the other, and the one knows it. */
static size_t tell(struct ration *from, struct ration *to)
{
    struct rn_replication_batch batch;

    collect(from, &batch);
    struct rn_replication_merged merged = merge(to, batch.items, batch.count);

    assert_int_equal(merged.refused, 0);
    assert_int_equal(rn_replication_acknowledge(from, &batch), 0);
    rn_replication_batch_done(&batch);
    return merged.taken;
}

/* Of the only override that there is. */
static uint64_t one_identity(struct ration *r)
{
    uint64_t at = 0;
    const struct rn_entry *e = rn_map_next(&r->clients.overrides, &at);

    assert_non_null(e);
    return e->identity;
}

static void what_one_node_sets_and_deletes_holds_on_the_other(void **state)
{
    struct ration *one = open_node(), *two = open_node();

    (void)state;
    set_limit(one, "a", "user=ann", "3 per hour");
    ban(one, "user=eve");
    assert_int_equal(tell(one, two), 2);
    assert_int_equal(limit_of(two, "user=ann"), 3);
    assert_true(is_banned(two, "user=eve"));
    assert_int_equal(news_of(one), 0);
    assert_int_equal(news_of(two), 0); /* it has it from one */
    delete_limit(two, "a", "user=ann");
    assert_int_equal(unban(two, "user=eve"), 0);
    assert_int_equal(tell(two, one), 2);
    assert_int_equal(limit_of(one, "user=ann"), 10);
    assert_false(is_banned(one, "user=eve"));
    ration_close(one);
    ration_close(two);
}

static void an_override_of_a_rule_that_comes_later_waits_for_it(void **state)
{
    struct ration *one = open_node(), *two = open_limits(NULL, 0);

    (void)state;
    rn_replication_begin(two);
    set_limit(one, "a", "user=ann", "3 per hour");
    assert_int_equal(tell(one, two), 1);
    assert_string_equal(overrides(two), "a user=ann 3 per hour inactive\n");
    rules_at(two, rules, T0);
    assert_int_equal(limit_of(two, "user=ann"), 3);
    ration_close(one);
    ration_close(two);
}

static void the_later_change_holds_whichever_comes_first(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        struct ration *early = open_node(), *late = open_node(), *other = open_node();

        set_at(early, "user=ann", "3 per hour", T0);
        set_at(late, "user=ann", "4 per hour", T0 + SECOND);
        tell(order ? early : late, other);
        tell(order ? late : early, other);
        assert_int_equal(limit_of(other, "user=ann"), 4);
        ration_close(early);
        ration_close(late);
        ration_close(other);
    }
}

static void a_deletion_is_not_undone_by_an_older_setting(void **state)
{
    struct ration *one = open_node(), *two = open_node();
    struct rn_replication_batch old;

    (void)state;
    set_at(one, "user=ann", "3 per hour", T0);
    collect(one, &old);
    tell(one, two);
    delete_limit(two, "a", "user=ann");
    assert_int_equal(merge(two, old.items, old.count).taken, 0);
    assert_int_equal(limit_of(two, "user=ann"), 10);
    rn_replication_batch_done(&old);
    ration_close(one);
    ration_close(two);
}

static void a_change_of_what_was_seen_holds_although_the_clock_is_behind(void **state)
{
    struct ration *ahead = open_node(), *behind = open_node();

    (void)state;
    set_at(ahead, "user=ann", "3 per hour", T0 + HOUR);
    tell(ahead, behind);
    set_at(behind, "user=ann", "4 per hour", T0);
    assert_int_equal(tell(behind, ahead), 1);
    assert_int_equal(limit_of(ahead, "user=ann"), 4);
    set_at(ahead, "user=ann", "5 per hour", T0 - HOUR);
    assert_int_equal(tell(ahead, behind), 1);
    assert_int_equal(limit_of(behind, "user=ann"), 5);
    ration_close(ahead);
    ration_close(behind);
}

static void an_expiry_is_the_same_instant_everywhere(void **state)
{
    struct ration *one = open_node(), *two = open_node();
    struct words w;
    struct ration_override o = override_of("a", &w, "user=ann", "3 per hour");

    (void)state;
    o.expires_ns = HOUR;
    assert_int_equal(ration_override_set(one, &o, NULL), 0);
    tell(one, two);
    int64_t now_ns = ration_now(two);

    assert_int_equal(look(two, "user=ann", now_ns + HOUR - MINUTE).decision.verdict.limit, 3);
    assert_int_equal(look(two, "user=ann", now_ns + HOUR + MINUTE).decision.verdict.limit, 10);
    ration_close(one);
    ration_close(two);
}

/* Clocks of nodes differ by as long as it takes to read one. */
static void wait_until_over(struct ration *r, int64_t expires_wall_ns)
{
    int64_t now_ns;

    do
        now_ns = rn_limiter_now(r, RATION_NOW);
    while (now_ns + rn_table_wall_offset(r->table, now_ns) < expires_wall_ns);
}

static void what_is_over_is_taken_only_in_the_place_of_something(void **state)
{
    struct ration *one = open_node(), *two = open_node(), *three = open_node();
    struct words w;
    struct ration_override o = override_of("a", &w, "user=ann", "3 per hour");

    (void)state;
    assert_int_equal(ration_override_set(one, &o, NULL), 0);
    tell(one, two);
    assert_int_equal(rn_replication_doubt(one, 0), 0);
    o.expires_ns = 1; /* expired before any look */
    assert_int_equal(ration_override_set(one, &o, NULL), 0);
    struct rn_entry *e = rn_clients_known(&one->clients, one_identity(one), false);
    struct rn_replication_item item = {
        .kind = RN_OVERRIDE_SET, .made_us = e->made_us, .payload = {e->payload, e->len}};
    struct rn_client client;

    assert_true(rn_client_read(item.payload, &client));
    rn_client_name(&client, item.name);
    wait_until_over(two, client.expires_wall_ns);
    wait_until_over(three, client.expires_wall_ns);
    assert_int_equal(merge(two, &item, 1).taken, 1);
    assert_int_equal(count_overrides(two), 0);
    assert_int_equal(merge(three, &item, 1).taken, 0);
    ration_close(one);
    ration_close(two);
    ration_close(three);
}

static void unshared_changes_and_deletions_survive_a_restart(void **state)
{
    struct ration *other = open_node();

    (void)state;
    remove_files();
    struct ration *r = open_state_rules(rules);

    rn_replication_begin(r);
    set_limit(r, "a", "user=ann", "3 per hour");
    set_limit(r, "a", "user=bob", "3 per hour");
    tell(r, other);
    delete_limit(r, "a", "user=ann");
    for (int i = 0; i < 200; i++) { /* the journal is rewritten meanwhile */
        ban(r, "user=eve");
        assert_int_equal(unban(r, "user=eve"), 0);
    }
    set_limit(r, "a", "user=bob", "4 per hour");
    ration_close(r);

    r = open_state_rules(rules);
    rn_replication_begin(r);
    refresh(r);
    assert_true(rn_replication_changes(r) > 0);
    tell(r, other);
    assert_int_equal(limit_of(other, "user=ann"), 10);
    assert_int_equal(limit_of(other, "user=bob"), 4);
    assert_int_equal(news_of(r), 0);
    ration_close(r);
    ration_close(other);
    remove_files();
}

static void changes_of_other_nodes_are_kept_and_not_sent_back(void **state)
{
    struct ration *other = open_node();
    char words[32];

    (void)state;
    remove_files();
    struct ration *r = open_state_rules(rules);

    rn_replication_begin(r);
    for (int i = 0; i < 300; i++) {
        snprintf(words, sizeof words, "user=u%d", i);
        set_limit(other, "a", words, "3 per hour");
    }
    assert_int_equal(tell(other, r), 300);
    assert_int_equal(news_of(r), 0);
    assert_int_equal(tell(other, r), 0);
    ration_close(r);
    r = open_state_rules(rules);
    assert_int_equal(limit_of(r, "user=u299"), 3);
    assert_int_equal(count_overrides(r), 300);
    ration_close(r);
    ration_close(other);
    remove_files();
}

static void changes_that_others_may_have_lost_are_sent_again(void **state)
{
    struct ration *one = open_node(), *two = open_node();

    (void)state;
    set_at(one, "user=ann", "3 per hour", T0);
    set_at(one, "user=bob", "3 per hour", T0 + HOUR);
    tell(one, two);
    assert_int_equal(rn_replication_doubt(one, T0 / 1000 + 1000000), 0);
    assert_int_equal(news_of(one), 1);
    assert_int_equal(rn_replication_doubt(one, 0), 0);
    assert_int_equal(news_of(one), 2);
    /* What they still have need not be sent. */
    assert_int_equal(rn_replication_doubt(two, 0), 0);
    assert_int_equal(tell(two, one), 0);
    assert_int_equal(news_of(one), 0);
    ration_close(one);
    ration_close(two);
}

static void what_is_no_change_is_refused_and_the_rest_is_taken(void **state)
{
    struct ration *one = open_node(), *two = open_node();
    struct rn_replication_batch batch;

    (void)state;
    set_limit(one, "a", "user=ann", "3 per hour");
    collect(one, &batch);
    struct rn_replication_item items[6];

    for (size_t i = 0; i < 6; i++)
        items[i] = batch.items[0];
    items[0].name[0] ^= 1; /* of another client */
    items[1].kind = RN_BAN_SET;
    items[2].kind = 99;
    items[3].payload.len--;
    items[4].payload = (struct rn_slice){"", 0};
    struct rn_replication_merged merged = merge(two, items, 6);

    assert_int_equal(merged.taken, 1);
    assert_int_equal(merged.refused, 5);
    assert_int_equal(limit_of(two, "user=ann"), 3);
    rn_replication_batch_done(&batch);
    ration_close(one);
    ration_close(two);
}

static void a_full_node_refuses_more_and_says_so(void **state)
{
    struct ration *one = open_node(), *two = open_node();
    struct rn_replication_batch batch;

    (void)state;
    set_limit(one, "a", "user=ann", "3 per hour");
    collect(one, &batch);
    uint32_t live = two->clients.overrides.live;

    two->clients.overrides.live = RATION_OVERRIDES_MAX;
    assert_int_equal(merge(two, batch.items, batch.count).refused, 1);
    two->clients.overrides.live = live;
    rn_replication_batch_done(&batch);
    ration_close(one);
    ration_close(two);
}

static void a_walk_in_small_steps_finds_everything_once(void **state)
{
    struct ration *one = open_node(), *two = open_node();
    struct rn_replication_walk walk = {.ended = false};
    struct rn_replication_batch batch;
    char words[32];
    size_t found = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(words, sizeof words, "user=u%d", i);
        set_limit(one, "a", words, "3 per hour");
        ban(one, words);
    }
    assert_int_equal(rn_replication_batch_init(&batch, 7), 0);
    while (!walk.ended) {
        assert_int_equal(rn_replication_collect(one, &walk, 200, &batch), 0);
        assert_true(batch.count <= 7 && batch.payloads.len < 200 + 100);
        found += merge(two, batch.items, batch.count).taken;
        assert_int_equal(rn_replication_acknowledge(one, &batch), 0);
    }
    assert_int_equal(found, 200);
    assert_int_equal(news_of(one), 0);
    rn_replication_batch_done(&batch);
    ration_close(one);
    ration_close(two);
}

static void no_call_waits_for_a_change(void **state)
{
    struct ration *r = open_node();
    struct rn_replication_batch batch;
    struct rn_replication_walk walk = {.ended = false};
    struct rn_replication_merged merged;

    (void)state;
    assert_int_equal(rn_replication_batch_init(&batch, 1), 0);
    rn_clients_lock(r, T0);
    assert_int_equal(rn_replication_collect(r, &walk, 1, &batch), RATION_EBUSY);
    assert_int_equal(rn_replication_acknowledge(r, &batch), RATION_EBUSY);
    assert_int_equal(rn_replication_doubt(r, 0), RATION_EBUSY);
    assert_int_equal(rn_replication_merge(r, NULL, 0, &merged, NULL), RATION_EBUSY);
    pthread_mutex_unlock(&r->clients.lock);
    rn_replication_batch_done(&batch);
    ration_close(r);
}

/* --- any order of anything ---------------------------------------------------------------- */

#define NODES 4
#define USERS 12

static uint64_t seed = 88172645463325252;

static unsigned below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed % n);
}

/* Clocks are up to ten seconds apart. */
static void change_something(struct ration *r, unsigned node, int64_t now_ns)
{
    char words[32], limit[32];

    snprintf(words, sizeof words, "user=u%u", below(USERS));
    snprintf(limit, sizeof limit, "%u per hour", 1 + below(1000));
    switch (below(4)) {
    case 0:
        (void)try_delete(r, "a", words);
        break;
    case 1:
        ban(r, words);
        break;
    case 2:
        (void)unban(r, words);
        break;
    default:
        set_at(r, words, limit, now_ns + node * 10 * SECOND / NODES);
    }
}

static void assert_all_agree(struct ration *nodes[NODES])
{
    char words[32];

    for (unsigned user = 0; user < USERS; user++) {
        snprintf(words, sizeof words, "user=u%u", user);
        for (unsigned i = 1; i < NODES; i++) {
            assert_int_equal(limit_of(nodes[0], words), limit_of(nodes[i], words));
            assert_int_equal(is_banned(nodes[0], words), is_banned(nodes[i], words));
        }
    }
}

/* Every node hears every other, twice: the first has then heard what came last. */
static void tell_all(struct ration *nodes[NODES])
{
    for (unsigned i = 0; i < 2 * NODES; i++)
        for (unsigned k = 0; k < NODES; k++) {
            assert_int_equal(rn_replication_doubt(nodes[i % NODES], 0), 0);
            tell(nodes[i % NODES], nodes[k]);
        }
    assert_all_agree(nodes);
}

/* A node whose clock is behind changes what all know, and messages from before that
 * arrive: the change holds. */
static void assert_a_change_holds(struct ration *nodes[NODES])
{
    struct rn_replication_batch before;
    char words[32];
    unsigned node = below(NODES), limit = 2000 + below(1000);
    char text[32];

    snprintf(words, sizeof words, "user=u%u", below(USERS));
    snprintf(text, sizeof text, "%u per hour", limit);
    (void)unban(nodes[node], words);
    assert_int_equal(rn_replication_doubt(nodes[node], 0), 0);
    collect(nodes[node], &before);
    set_at(nodes[node], words, text, T0 - HOUR);
    for (unsigned i = 0; i < NODES; i++)
        merge(nodes[i], before.items, before.count);
    tell_all(nodes);
    for (unsigned i = 0; i < NODES; i++) {
        merge(nodes[i], before.items, before.count);
        assert_int_equal(limit_of(nodes[i], words), limit);
    }
    rn_replication_batch_done(&before);
}

/* Messages are lost, repeated and late; then every node hears every other. */
static void all_nodes_end_up_with_the_same(void **state)
{
    struct ration *nodes[NODES];
    struct rn_replication_batch late;

    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        nodes[i] = open_node();
    for (unsigned round = 0; round < 60; round++) {
        collect(nodes[below(NODES)], &late);
        for (unsigned step = 0; step < 40; step++) {
            unsigned from = below(NODES), to = below(NODES);

            change_something(nodes[from], from, T0 + round * SECOND);
            if (below(3) == 0)
                tell(nodes[from], nodes[to]); /* the others never hear of it that way */
        }
        merge(nodes[below(NODES)], late.items, late.count);
        rn_replication_batch_done(&late);
        tell_all(nodes);
        assert_a_change_holds(nodes);
    }
    for (unsigned i = 0; i < NODES; i++)
        ration_close(nodes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_node_sets_and_deletes_holds_on_the_other),
        cmocka_unit_test(an_override_of_a_rule_that_comes_later_waits_for_it),
        cmocka_unit_test(the_later_change_holds_whichever_comes_first),
        cmocka_unit_test(a_deletion_is_not_undone_by_an_older_setting),
        cmocka_unit_test(a_change_of_what_was_seen_holds_although_the_clock_is_behind),
        cmocka_unit_test(an_expiry_is_the_same_instant_everywhere),
        cmocka_unit_test(what_is_over_is_taken_only_in_the_place_of_something),
        cmocka_unit_test(unshared_changes_and_deletions_survive_a_restart),
        cmocka_unit_test(changes_of_other_nodes_are_kept_and_not_sent_back),
        cmocka_unit_test(changes_that_others_may_have_lost_are_sent_again),
        cmocka_unit_test(what_is_no_change_is_refused_and_the_rest_is_taken),
        cmocka_unit_test(a_full_node_refuses_more_and_says_so),
        cmocka_unit_test(a_walk_in_small_steps_finds_everything_once),
        cmocka_unit_test(no_call_waits_for_a_change),
        cmocka_unit_test(all_nodes_end_up_with_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
