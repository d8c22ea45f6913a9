/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides and bans beside a state file: shared, kept, torn, foreign. */
#include "clients_fixture.h"

static const char rules[] = "limits:\n  - { name: a, key: user, limit: 10 per hour }\n";

static uint64_t limit_of(struct ration *r, const char *words)
{
    return look(r, words, T0).decision.verdict.limit;
}

static void others_learn_of_a_change_when_they_refresh(void **state)
{
    remove_files();
    struct ration *one = open_state_rules(rules), *two = open_state_rules(rules);

    (void)state;
    set_limit(one, "a", "user=ann", "3 per hour");
    ban(one, "user=eve");
    assert_int_equal(limit_of(one, "user=ann"), 3);
    assert_int_equal(limit_of(two, "user=ann"), 10);
    refresh(two);
    assert_int_equal(limit_of(two, "user=ann"), 3);
    assert_int_equal(look(two, "user=eve", T0).kind, RATION_BY_BAN);
    /* Either may change what the other has set. */
    set_limit(two, "a", "user=ann", "4 per hour");
    assert_int_equal(unban(two, "user=eve"), 0);
    refresh(one);
    assert_int_equal(limit_of(one, "user=ann"), 4);
    assert_int_equal(look(one, "user=eve", T0).kind, RATION_BY_LIMITS);
    delete_limit(one, "a", "user=ann");
    assert_int_equal(try_delete(two, "a", "user=ann"), RATION_EGONE); /* it reads before */
    assert_int_equal(limit_of(two, "user=ann"), 10);
    ration_close(one);
    ration_close(two);
    remove_files();
}

/* The generation tells other processes of a change; a file that has grown is enough if a process is
 * killed before it could change it. */
static void a_change_bumps_the_generation_and_is_found_without(void **state)
{
    remove_files();
    struct ration *one = open_state_rules(rules), *two = open_state_rules(rules);
    uint64_t *generation = rn_table_generation(one->table), before = *generation;

    (void)state;
    set_limit(one, "a", "user=ann", "3 per hour");
    assert_int_equal(*generation, before + 1);
    assert_int_equal(*rn_table_generation(two->table), before + 1);
    *generation = before;
    refresh(two);
    assert_int_equal(limit_of(two, "user=ann"), 3);
    ration_close(one);
    ration_close(two);
    remove_files();
}

static void a_restart_keeps_them_with_what_is_left_of_their_time(void **state)
{
    remove_files();
    struct ration *r = open_state_rules(rules);
    struct ration_error error;
    struct words w;
    struct ration_override o = override_of("a", &w, "user=ann", "3 per hour");

    (void)state;
    o.expires_ns = 3600 * SECOND;
    o.note = "asked for by sales";
    o.note_len = strlen(o.note);
    assert_int_equal(ration_override_set(r, &o, &error), 0);
    o = override_of("a", &w, "user=bob", "4 per hour");
    o.expires_ns = 1; /* expired before any look */
    assert_int_equal(ration_override_set(r, &o, &error), 0);
    ration_close(r);

    r = open_state(&error);
    assert_string_equal(error.text, "");
    assert_string_equal(overrides(r), "a user=ann 3 per hour inactive\n"); /* no rules yet */
    rules_at(r, rules, T0);
    assert_string_equal(overrides(r), "a user=ann 3 per hour\n");
    assert_int_equal(limit_of(r, "user=ann"), 3);
    uint64_t at = 0;
    const struct rn_entry *e;

    while ((e = rn_map_next(&r->clients.overrides, &at)) != NULL)
        if (e->sequence == 1) {
            int64_t left = e->expires_ns - ration_now(r);

            assert_true(left > 3500 * SECOND && left <= 3600 * SECOND + SECOND);
        }
    ration_close(r);
    remove_files();
}

static int see_sequence(void *arg, const struct ration_override *o)
{
    *(uint64_t *)arg = o->sequence;
    return 0;
}

static uint64_t last_sequence(struct ration *r)
{
    uint64_t last = 0;

    assert_int_equal(ration_override_each(r, NULL, 0, see_sequence, &last), 0);
    return last;
}

static void history_is_compacted_and_numbers_go_on(void **state)
{
    remove_files();
    struct ration *one = open_state_rules(rules), *two = open_state_rules(rules);
    struct stat st;
    char limit[32];

    (void)state;
    set_limit(one, "a", "user=bob", "7 per hour");
    ban(one, "user=eve");
    refresh(two);
    for (unsigned i = 1; i <= 300; i++) {
        snprintf(limit, sizeof limit, "%u per hour", i);
        set_limit(i % 2 ? one : two, "a", "user=ann", limit);
    }
    assert_int_equal(stat(journal_path(), &st), 0);
    assert_true(st.st_size < 80 * 100);
    assert_int_equal(last_sequence(two), 302);
    refresh(one);
    assert_int_equal(limit_of(one, "user=ann"), 300);
    assert_int_equal(limit_of(one, "user=bob"), 7);
    /* Also when nothing is left but the number. */
    for (unsigned i = 0; i < 100; i++) {
        set_limit(one, "a", "user=bob", "8 per hour");
        delete_limit(one, "a", "user=bob");
    }
    delete_limit(one, "a", "user=ann");
    assert_int_equal(unban(one, "user=eve"), 0);
    ration_close(one);
    refresh(two);
    assert_int_equal(count_overrides(two), 0);
    ration_close(two);
    one = open_state_rules(rules);
    set_limit(one, "a", "user=ann", "2 per hour");
    assert_int_equal(last_sequence(one), 302 + 200 + 2 + 1);
    ration_close(one);
    remove_files();
}

/* --- files that are not as they were ---------------------------------------------------------- */

static void a_journal_torn_at_any_byte_opens(void **state)
{
    remove_files();
    struct ration *r = open_state_rules(rules);
    struct ration_error error;
    size_t len, first;
    char *bytes;
    struct stat st;

    (void)state;
    set_limit(r, "a", "user=ann", "3 per hour");
    assert_int_equal(stat(journal_path(), &st), 0);
    first = (size_t)st.st_size;
    set_limit(r, "a", "user=bob", "4 per hour");
    ration_close(r);
    bytes = read_file(journal_path(), &len);
    for (size_t cut = 0; cut <= len; cut++) {
        write_file(journal_path(), bytes, cut);
        r = open_state(&error);
        rules_at(r, rules, T0);
        assert_int_equal(limit_of(r, "user=ann"), cut >= first ? 3 : 10);
        assert_int_equal(limit_of(r, "user=bob"), cut == len ? 4 : 10);
        ration_close(r);
    }
    /* The next change cuts off what is left, and says so. */
    write_file(journal_path(), bytes, len - 1);
    r = open_state_rules(rules);
    assert_int_equal(try_set(r, "a", "user=cid", "5 per hour", 0, &error), 0);
    assert_non_null(strstr(error.text, "were no complete record and were cut off"));
    ration_close(r);
    r = open_state_rules(rules);
    assert_int_equal(limit_of(r, "user=cid"), 5);
    assert_int_equal(limit_of(r, "user=bob"), 10);
    ration_close(r);
    free(bytes);
    remove_files();
}

static void a_flipped_byte_never_makes_a_wrong_override(void **state)
{
    remove_files();
    struct ration *r = open_state_rules(rules);
    struct ration_error error;
    size_t len;
    char *bytes;

    (void)state;
    set_limit(r, "a", "user=ann", "3 per hour");
    ban(r, "user=eve");
    set_limit(r, "a", "user=bob", "4 per hour");
    ration_close(r);
    bytes = read_file(journal_path(), &len);
    for (size_t at = 0; at < len; at++) {
        bytes[at] ^= (char)(1 << at % 8);
        write_file(journal_path(), bytes, len);
        bytes[at] ^= (char)(1 << at % 8);
        if (at < 32) { /* the header */
            assert_true(try_open_state(&r, &error) < 0);
            continue;
        }
        r = open_state(&error);
        rules_at(r, rules, T0);
        uint64_t ann = limit_of(r, "user=ann"), bob = limit_of(r, "user=bob");
        bool eve = look(r, "user=eve", T0).kind == RATION_BY_BAN;

        assert_true(ann == 3 || ann == 10);
        assert_true(bob == 4 || bob == 10);
        assert_int_equal((ann == 3) + (bob == 4) + eve, 2);
        assert_true(count_overrides(r) + r->clients.bans.live == 2);
        ration_close(r);
    }
    free(bytes);
    remove_files();
}

static void a_foreign_file_is_reported_and_not_changed(void **state)
{
    static const char foreign[] = "these are the overrides of another program\n";
    struct ration_error error;
    size_t len;

    (void)state;
    remove_files();
    write_file(journal_path(), foreign, sizeof foreign);
    struct ration *r;

    assert_int_equal(try_open_state(&r, &error), RATION_EFOREIGN);
    assert_non_null(strstr(error.text, "not a file of overrides and bans; it was left alone"));
    char *bytes = read_file(journal_path(), &len);

    assert_int_equal(len, sizeof foreign);
    assert_memory_equal(bytes, foreign, len);
    free(bytes);
    unlink(journal_path());
    r = open_state_rules(rules);
    set_limit(r, "a", "user=ann", "3 per hour");
    assert_int_equal(limit_of(r, "user=ann"), 3);
    ration_close(r);
    remove_files();
}

static void a_file_that_goes_bad_leaves_what_is_known_in_force(void **state)
{
    struct ration_error error;

    (void)state;
    remove_files();
    struct ration *r = open_state_rules(rules);

    set_limit(r, "a", "user=ann", "3 per hour");
    unlink(journal_path());
    write_file(journal_path(), "rubbish", 7);
    assert_int_equal(ration_clients_refresh(r, &error), RATION_EFOREIGN);
    assert_int_equal(limit_of(r, "user=ann"), 3);
    unlink(journal_path()); /* perhaps on purpose, so gone; and said */
    assert_int_equal(ration_clients_refresh(r, &error), 0);
    assert_non_null(strstr(error.text, "deleted while in use; the overrides and bans"));
    refresh(r);
    assert_int_equal(limit_of(r, "user=ann"), 10);
    ration_close(r);
    remove_files();
}

/* Another secret, another table: the names in the journal are plain. */
static void overrides_outlive_the_state_file(void **state)
{
    (void)state;
    remove_files();
    struct ration *r = open_state_rules(rules);

    set_limit(r, "a", "user=ann", "3 per hour");
    ration_close(r);
    unlink(state_path());
    r = open_state_rules(rules);
    assert_int_equal(limit_of(r, "user=ann"), 3);
    delete_limit(r, "a", "user=ann");
    ration_close(r);
    remove_files();
}

/* What one process admits under an override is spent in all, also after it. */
static void states_are_shared_between_processes(void **state)
{
    (void)state;
    remove_files();
    struct ration *one = open_state_rules(rules), *two = open_state_rules(rules);

    assert_int_equal(admitted(two, "user=ann", 3, T0), 3);
    set_limit(one, "a", "user=ann", "100 per day");
    assert_int_equal(left_of(one, "a", "user=ann", T0), 70);
    assert_int_equal(admitted(one, "user=ann", 7, T0), 7);
    assert_int_equal(admitted(two, "user=ann", 9, T0), 0); /* it has not heard of it */
    refresh(two);
    assert_int_equal(left_of(two, "a", "user=ann", T0), 63);
    ration_close(one);
    ration_close(two);
    remove_files();
}

/* Loading is one pass: nothing is written or compiled more than once. */
static void a_hundred_thousand_are_loaded(void **state)
{
    const unsigned many = 100000;
    struct rn_buf bytes = {0}, payload = {0};
    char name[16], limit[32];

    (void)state;
    remove_files();
    rn_journal_put_header(&bytes, 4711);
    for (unsigned i = 0; i < many; i++) {
        int len = snprintf(name, sizeof name, "%u", i);
        struct rn_client client = {.rule = RN_SLICE("a"), .note = RN_SLICE(""), .count = 1};

        snprintf(limit, sizeof limit, "%u per hour", 20 + i % 100);
        client.limit = rn_slice_of(limit);
        client.attributes[0] = (struct rn_client_attribute){RN_SLICE("user"), {name, (size_t)len}};
        rn_buf_clear(&payload);
        rn_client_write(&client, &payload);
        rn_journal_put_record(&bytes, 4711,
                              &(struct rn_record){RN_OVERRIDE_SET, i + 1, rn_buf_slice(&payload)});
    }
    write_file(journal_path(), bytes.data, bytes.len);
    struct ration *r = open_state_rules(rules);

    assert_int_equal(r->clients.overrides.live, many);
    assert_int_equal(r->shelf.book->client_index->overrides.live, many);
    assert_int_equal(r->shelf.book->client_index->plans.live, 100);
    assert_int_equal(limit_of(r, "user=77777"), 20 + 77);
    ration_close(r);
    rn_buf_done(&bytes);
    rn_buf_done(&payload);
    remove_files();
}

/* Kinds of records that a later version may write, and payloads that are none. */
static void records_of_later_versions_are_left_out(void **state)
{
    struct rn_buf bytes = {0};
    struct ration_error error;

    (void)state;
    remove_files();
    rn_journal_put_header(&bytes, 4711);
    rn_journal_put_record(&bytes, 4711, &(struct rn_record){99, 1, RN_SLICE("whatever")});
    rn_journal_put_record(&bytes, 4711, &(struct rn_record){RN_BAN_SET, 2, RN_SLICE("short")});
    write_file(journal_path(), bytes.data, bytes.len);
    struct ration *r = open_state(&error);

    assert_non_null(strstr(error.text, "2 records of a later version were left out"));
    assert_int_equal(r->clients.bans.live, 0);
    rules_at(r, rules, T0);
    set_limit(r, "a", "user=ann", "3 per hour");
    assert_int_equal(last_sequence(r), 3);
    ration_close(r);
    rn_buf_done(&bytes);
    remove_files();
}

static void anonymous_tables_keep_them_in_memory(void **state)
{
    struct ration *r = open_rules(rules);

    (void)state;
    set_limit(r, "a", "user=ann", "3 per hour");
    refresh(r);
    assert_int_equal(limit_of(r, "user=ann"), 3);
    assert_int_equal(last_sequence(r), 1);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_learn_of_a_change_when_they_refresh),
        cmocka_unit_test(a_change_bumps_the_generation_and_is_found_without),
        cmocka_unit_test(a_restart_keeps_them_with_what_is_left_of_their_time),
        cmocka_unit_test(history_is_compacted_and_numbers_go_on),
        cmocka_unit_test(a_journal_torn_at_any_byte_opens),
        cmocka_unit_test(a_flipped_byte_never_makes_a_wrong_override),
        cmocka_unit_test(a_foreign_file_is_reported_and_not_changed),
        cmocka_unit_test(a_file_that_goes_bad_leaves_what_is_known_in_force),
        cmocka_unit_test(overrides_outlive_the_state_file),
        cmocka_unit_test(states_are_shared_between_processes),
        cmocka_unit_test(a_hundred_thousand_are_loaded),
        cmocka_unit_test(records_of_later_versions_are_left_out),
        cmocka_unit_test(anonymous_tables_keep_them_in_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
