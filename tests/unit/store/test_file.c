/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: made, resumed, rebuilt, shared. */
#include "file_fixture.h"
#include <limits.h>

/* ---- making and resuming */

static void a_new_file_has_its_size_and_belongs_to_the_group_too(void **state)
{
    struct stat st;
    mode_t mask = umask(077);

    (void)state;
    make_file(3 * MIB, 30);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3 * MIB);
    assert_int_equal(st.st_mode & 07777, 0660);
    assert_true((uint64_t)st.st_blocks * 512 >= 3 * MIB); /* a full disk cannot hurt later */
    assert_int_equal(each_entry(NULL), 1);
}

static void the_size_is_64_mib_unless_told(void **state)
{
    struct stat st;

    (void)state;
    make_file(0, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 64 * MIB);
}

static unsigned long mapped_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return pages;
}

static void a_table_begins_where_a_huge_page_can_and_leaves_no_room_taken(void **state)
{
    unsigned long before = mapped_pages();

    (void)state;
    make_file(5 * MIB, 0);
    for (unsigned i = 0; i < 40; i++) {
        struct rn_table *table = open_ok(0, 0);

        assert_int_equal((uintptr_t)table->header % (2 * MIB), 0);
        rn_table_close(table);
    }
    assert_in_range(mapped_pages(), 0, before + 10 * MIB / 4096);
}

static void counters_are_where_they_were_after_reopening(void **state)
{
    struct rn_table *table = open_ok(16 * MIB, 50);
    int64_t now = spend(table);

    (void)state;
    rn_table_close(table);
    for (unsigned i = 0; i < 3; i++) {
        table = open_ok(i == 1 ? 16 * MIB : 0, i == 2 ? 50 : 0);
        expect_spent(table, now);
        rn_table_close(table);
    }
}

static void the_time_line_goes_on_where_it_was(void **state)
{
    struct rn_table *table = open_ok(MIB, 0);
    int64_t before = rn_table_now(table), after;

    (void)state;
    rn_table_close(table);
    table = open_ok(0, 0);
    after = rn_table_now(table);
    assert_true(after >= before && after - before < HOUR);
    rn_table_close(table);
}

static void the_secret_survives_reopening_and_rebuilding(void **state)
{
    struct rn_table *table = open_ok(MIB, 0);
    struct rn_hash_key secret = *rn_table_secret(table);

    (void)state;
    rn_table_close(table);
    table = open_ok(0, 0);
    assert_memory_equal(rn_table_secret(table), &secret, sizeof secret);
    rn_table_close(table);
    table = open_ok(2 * MIB, 20);
    assert_memory_equal(rn_table_secret(table), &secret, sizeof secret);
    rn_table_close(table);
}

static void two_openers_share_the_counters(void **state)
{
    struct rn_table *a = open_ok(16 * MIB, 50), *b = open_ok(0, 0);
    int64_t now = spend(a);

    (void)state;
    expect_spent(b, now);
    rn_table_close(a);
    expect_spent(b, now);
    rn_table_close(b);
}

static void the_error_may_be_left_out(void **state)
{
    struct rn_table_options options = {.path = folder};
    struct rn_table *table;

    (void)state;
    assert_int_equal(rn_table_open(&options, &table, NULL), RATION_EIO);
}

/* ---- another size */

static void a_lone_opener_rebuilds_at_another_size_and_keeps_every_counter(void **state)
{
    static const uint64_t sizes[] = {32, 12, 64, 16};
    struct rn_table *table = open_ok(16 * MIB, 50);
    int64_t now = spend(table);
    struct rn_table_memory memory;

    (void)state;
    rn_table_close(table);
    for (unsigned i = 0; i < 4; i++) {
        table = open_ok(sizes[i] * MIB, 50);
        rn_table_memory(table, now, &memory);
        assert_int_equal(memory.bytes, sizes[i] * MIB);
        assert_int_equal(memory.live, PEOPLE);
        assert_int_equal(memory.evictions, 0);
        expect_spent(table, now);
        rn_table_close(table);
        assert_int_equal(each_entry(NULL), 1);
    }
}

static void who_needs_no_blocks_keeps_those_of_others_when_rebuilding(void **state)
{
    struct rn_table *table = open_ok(16 * MIB, 50);
    int64_t now = spend(table);

    (void)state;
    rn_table_close(table);
    table = open_ok(32 * MIB, 0);
    assert_int_equal(table->header->evictions, 0);
    expect_spent(table, now);
    rn_table_close(table);
}

static void what_does_not_fit_the_smaller_table_is_counted_as_evicted(void **state)
{
    struct rn_table *table = open_ok(4 * MIB, 0);
    uint64_t n = table->group_count * RN_GROUP_SLOTS / 2;
    int64_t now = rn_table_now(table);
    struct rn_table_memory memory;

    (void)state;
    for (uint64_t i = 0; i < n; i++)
        ask(table, WINDOW, i, RN_TAKE, now, 1);
    rn_table_close(table);
    table = open_ok(MIB, 0);
    rn_table_memory(table, now, &memory);
    assert_int_equal(memory.live + memory.evictions, n);
    assert_true(memory.live > memory.slots * 9 / 10);
    rn_table_close(table);
}

static void a_file_in_use_is_not_rebuilt(void **state)
{
    struct rn_table *user = open_ok(2 * MIB, 20);

    (void)state;
    expect_refusal(4 * MIB, 20, RATION_EBUSY,
                   "in use with 2097152 bytes and cannot be rebuilt meanwhile; stop the others or "
                   "leave the size as it is");
    rn_table_close(open_ok(2 * MIB, 20));
    rn_table_close(open_ok(2 * MIB, 60)); /* the share alone is no reason */
    rn_table_close(user);
    assert_int_equal(each_entry(NULL), 1);
    rn_table_close(open_ok(4 * MIB, 20));
}

static void room_for_blocks_is_added_when_it_is_first_needed(void **state)
{
    struct rn_table *table = open_ok(4 * MIB, 0);
    int64_t now = rn_table_now(table);

    (void)state;
    ask(table, TOKENS, 1, RN_TAKE, now, 3);
    expect_refusal(0, 25, RATION_EBUSY,
                   "in use with 4194304 bytes and no room for blocks and cannot be rebuilt "
                   "meanwhile; stop the others or leave the size as it is");
    rn_table_close(table);
    table = open_ok(0, 25);
    assert_int_equal(table->header->bytes, 4 * MIB);
    assert_true(table->slab_count > 0);
    assert_int_equal(ask(table, TOKENS, 1, RN_PEEK, now, 0).remaining, 97);
    assert_true(ask(table, LOG, 2, RN_TAKE, now, 1).allowed);
    rn_table_close(table);
}

static void a_table_without_blocks_refuses_block_forms_with_a_code(void **state)
{
    struct rn_table *table = open_ok(MIB, 0);
    struct rn_limit limit = compiled(&every_form[LOG].spec[0]);
    struct rn_charge c = {
        .limit = &limit, .key = key_of(1), .ask = {.op = RN_TAKE, .now_ns = BASE, .cost = 1}};

    (void)state;
    rn_store_apply(rn_table_store(table), &c, 1);
    assert_int_equal(c.error, RATION_EFULL);
    rn_table_close(table);
}

/* ---- what a killed process leaves */

static void leaked_blocks_are_collected_by_who_opens_alone(void **state)
{
    struct rn_table *table = open_ok(16 * MIB, 50), *other;
    int64_t now = spend(table);

    (void)state;
    for (unsigned class = 0; class < RN_CLASSES; class ++)
        while (rn_block_alloc(table, class) != RN_NIL)
            ;
    other = open_ok(0, 0); /* not alone: must not touch what the first may be using */
    assert_int_equal(rn_block_alloc(other, 3), RN_NIL);
    rn_table_close(other);
    rn_table_close(table);
    table = open_ok(0, 0);
    expect_spent(table, now);
    for (unsigned i = 0; i < 10000; i++)
        assert_int_not_equal(rn_block_alloc(table, 3), RN_NIL);
    rn_table_close(table);
}

static void a_claim_left_behind_blocks_nobody(void **state)
{
    struct rn_table *table = open_ok(MIB, 0);
    int64_t now = rn_table_now(table);
    struct rn_found claim;

    (void)state;
    assert_int_equal(rn_slot_claim(table, rn_key_tag(key_of(7)), now, false, &claim), 0);
    rn_table_close(table);
    table = open_ok(0, 0);
    assert_int_equal(ask(table, TOKENS, 7, RN_TAKE, now, 1).remaining, 99);
    assert_int_equal(ask(table, TOKENS, 7, RN_TAKE, now, 1).remaining, 98);
    assert_ptr_not_equal(rn_slot_find(table, rn_key_tag(key_of(7))).slot, NULL);
    rn_table_close(table);
}

/* ---- time */

/* As if the machine had been booted again, with this as the last time used. */
static void reboot(int64_t last_seen_ns)
{
    struct bytes file = read_all();
    struct rn_anchor anchor;

    memcpy(&anchor, file.data + offsetof(struct rn_header, anchor), sizeof anchor);
    anchor.line.boot_id[0] ^= 1;
    anchor.last_seen_ns = last_seen_ns;
    rn_anchor_save(&anchor);
    rn_anchor_save(&anchor);
    patch(offsetof(struct rn_header, anchor), &anchor, sizeof anchor);
    free(file.data);
}

static void after_a_reboot_time_goes_on_at_the_wall_clock(void **state)
{
    struct rn_table *table;
    int64_t wall = rn_clock_wall_ns(), now;

    (void)state;
    make_file(MIB, 0);
    reboot(wall - HOUR);
    table = open_ok(0, 0);
    now = rn_table_now(table);
    assert_true(now >= wall && now < wall + HOUR);
    rn_table_close(table);
}

static void after_a_reboot_with_the_wall_clock_set_back_time_stays_at_the_last_seen(void **state)
{
    struct rn_table *table = open_ok(16 * MIB, 50);
    int64_t last = rn_clock_wall_ns() + 23 * HOUR, now;

    (void)state;
    ask(table, WINDOW, 1, RN_TAKE, last, 7);
    rn_table_close(table);
    reboot(last);
    table = open_ok(0, 0);
    now = rn_table_now(table);
    assert_true(now >= last && now < last + HOUR);
    assert_int_equal(ask(table, WINDOW, 1, RN_PEEK, last, 0).remaining, 43);
    rn_table_close(table);
    table = open_ok(0, 0); /* and stays there */
    assert_true(rn_table_now(table) >= now);
    rn_table_close(table);
}

static char aside_name[256];

static void note_aside(const char *name)
{
    if (strncmp(name, "state.aside-", 12) == 0)
        snprintf(aside_name, sizeof aside_name, "%s", name);
}

static void a_time_line_more_than_a_day_ahead_is_set_aside_with_a_notice(void **state)
{
    struct rn_table *table = open_ok(16 * MIB, 50);
    struct ration_error error;
    struct bytes before, after;
    char expected[1000];
    int64_t wall = rn_clock_wall_ns();

    (void)state;
    spend(table);
    rn_table_close(table);
    reboot(wall + 25 * HOUR);
    before = read_all();
    assert_int_equal(try_open(16 * MIB, 50, &table, &error), 0);
    assert_true(rn_table_now(table) < wall + HOUR);
    assert_int_equal(ask(table, LOG, 10, RN_TAKE, rn_table_now(table), 1).remaining, 299);
    rn_table_close(table);

    assert_int_equal(each_entry(note_aside), 2);
    snprintf(expected, sizeof expected,
             "state file \"%s\": more than a day ahead of the wall clock; set aside as \"%s/%s\"",
             path, folder, aside_name);
    assert_string_equal(error.text, expected);
    assert_int_equal(error.code, 0);
    snprintf(path, sizeof path, "%s/%s", folder, aside_name);
    after = read_all();
    assert_memory_equal(before.data, after.data, before.len);
    free(before.data);
    free(after.data);
}

static void on_the_same_boot_a_wall_clock_set_back_changes_nothing(void **state)
{
    struct rn_table *table = open_ok(MIB, 0);
    int64_t ahead = 40 * HOUR, now;

    (void)state;
    table->header->anchor.line.delta_ns += ahead; /* the wall clock has been set back since */
    table->header->anchor.last_seen_ns += ahead;
    now = rn_table_now(table);
    rn_table_close(table);
    table = open_ok(0, 0);
    assert_true(rn_table_now(table) >= now);
    rn_table_close(table);
}

/* ---- children and links */

#define CHILDREN 3
#define CHILD_KEYS 40

/* Three units of every key, in logs: each take moves to another block. */
static void spend_in_child(struct rn_table *table, int64_t now)
{
    for (unsigned round = 0; round < 3; round++)
        for (unsigned key = 0; key < CHILD_KEYS; key++)
            if (!ask(table, LOG, key, RN_TAKE, now, 1).allowed)
                _exit(1);
    _exit(0);
}

/* A child that used its parent's spare blocks would publish one block twice. */
static void a_table_opened_before_a_fork_is_shared_exactly(void **state)
{
    struct rn_table *table = open_ok(16 * MIB, 50);
    int64_t now = rn_table_now(table);
    pid_t children[CHILDREN];
    int status;

    (void)state;
    for (unsigned i = 0; i < 2 * CHILD_KEYS; i++) /* the second time leaves a spare */
        assert_true(ask(table, LOG, i % CHILD_KEYS, RN_TAKE, now, 1).allowed);
    for (unsigned i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0)
            spend_in_child(table, now);
    }
    for (unsigned i = 0; i < CHILDREN; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    for (unsigned key = 0; key < CHILD_KEYS; key++)
        assert_int_equal(ask(table, LOG, key, RN_PEEK, now, 0).remaining,
                         every_form[LOG].spec[0].amount - 2 - 3 * CHILDREN);
    rn_table_close(table);
}

static void a_link_is_followed_and_outlives_a_rebuild(void **state)
{
    char target[PATH_MAX];
    struct stat st;

    (void)state;
    snprintf(target, sizeof target, "%s.target", path);
    assert_int_equal(symlink(target, path), 0);
    expect_refusal(MIB, 0, RATION_EIO, "a symbolic link that leads nowhere; name the file itself");
    assert_int_equal(unlink(path), 0);
    make_file(2 * MIB, 0);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    make_file(4 * MIB, 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_size, 4 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_new_file_has_its_size_and_belongs_to_the_group_too),
        FILE_TEST(the_size_is_64_mib_unless_told),
        FILE_TEST(a_table_begins_where_a_huge_page_can_and_leaves_no_room_taken),
        FILE_TEST(counters_are_where_they_were_after_reopening),
        FILE_TEST(the_time_line_goes_on_where_it_was),
        FILE_TEST(the_secret_survives_reopening_and_rebuilding),
        FILE_TEST(two_openers_share_the_counters),
        FILE_TEST(the_error_may_be_left_out),
        FILE_TEST(a_lone_opener_rebuilds_at_another_size_and_keeps_every_counter),
        FILE_TEST(who_needs_no_blocks_keeps_those_of_others_when_rebuilding),
        FILE_TEST(what_does_not_fit_the_smaller_table_is_counted_as_evicted),
        FILE_TEST(a_file_in_use_is_not_rebuilt),
        FILE_TEST(room_for_blocks_is_added_when_it_is_first_needed),
        FILE_TEST(a_table_without_blocks_refuses_block_forms_with_a_code),
        FILE_TEST(leaked_blocks_are_collected_by_who_opens_alone),
        FILE_TEST(a_claim_left_behind_blocks_nobody),
        FILE_TEST(after_a_reboot_time_goes_on_at_the_wall_clock),
        FILE_TEST(after_a_reboot_with_the_wall_clock_set_back_time_stays_at_the_last_seen),
        FILE_TEST(a_time_line_more_than_a_day_ahead_is_set_aside_with_a_notice),
        FILE_TEST(on_the_same_boot_a_wall_clock_set_back_changes_nothing),
        FILE_TEST(a_table_opened_before_a_fork_is_shared_exactly),
        FILE_TEST(a_link_is_followed_and_outlives_a_rebuild),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
