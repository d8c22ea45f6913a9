/* SPDX-License-Identifier: Apache-2.0 */
/* State files of the layout version before this one, which had no board; and the board itself. */
#include "file_fixture.h"

#define BOARD_WORDS (RN_BOARD_BYTES / sizeof(uint64_t))

static uint64_t page_up(uint64_t n)
{
    return (n + RN_PAGE - 1) / RN_PAGE * RN_PAGE;
}

/* As the version before wrote it: the same header, and nothing between it and the slabs. */
static struct rn_table *make_old_file(uint64_t bytes, unsigned share)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0660);
    void *mapping;
    struct rn_header *h;
    struct rn_table *table;

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && flock(fd, LOCK_SH) == 0);
    mapping = rn_mapping_new(bytes, fd);
    assert_non_null(mapping);
    assert_int_equal(rn_mapping_init(mapping, bytes, share), 0);
    h = mapping;
    h->version = RN_LAYOUT_OLDEST;
    h->slabs_at = page_up(sizeof *h);
    h->groups_at = h->slabs_at + page_up(h->slabs * sizeof(uint64_t));
    h->groups = (bytes - h->groups_at - h->slabs * h->slab_words * 8) / sizeof(struct rn_group);
    h->arena_at = h->groups_at + h->groups * sizeof(struct rn_group);
    h->check = rn_mapping_header_check(h);
    table = rn_mapping_table_new(mapping, fd);
    assert_non_null(table);
    return table;
}

static void a_file_without_a_board_is_rebuilt_with_its_state(void **state)
{
    struct rn_table *table = make_old_file(4 * MIB, 50);
    int64_t now = spend(table);
    struct rn_hash_key secret = *rn_table_secret(table);

    (void)state;
    rn_table_close(table);
    table = open_ok(0, 0);
    assert_int_equal(table->header->version, RN_LAYOUT_VERSION);
    assert_int_equal(table->bytes, 4 * MIB);
    assert_memory_equal(rn_table_secret(table), &secret, sizeof secret);
    expect_spent(table, now);
    for (size_t i = 0; i < BOARD_WORDS; i++)
        assert_int_equal(rn_table_board(table)[i], 0);
    rn_table_close(table);
    assert_int_equal(each_entry(NULL), 1);
}

static void a_file_without_a_board_that_others_use_is_refused(void **state)
{
    struct rn_table *user = make_old_file(4 * MIB, 50);
    int64_t now = spend(user);

    (void)state;
    expect_refusal(0, 0, RATION_EBUSY,
                   "in use with layout version 3 and cannot be rebuilt for version 4 meanwhile; "
                   "stop the others first");
    expect_spent(user, now);
    rn_table_close(user);
    rn_table_close(open_ok(0, 0));
}

static void the_board_is_zero_at_first_and_nobody_else_writes_to_it(void **state)
{
    struct rn_table *table = open_ok(2 * MIB, 50);
    uint64_t *board = rn_table_board(table);

    (void)state;
    for (size_t i = 0; i < BOARD_WORDS; i++)
        assert_int_equal(board[i], 0);
    memset(board, 0xA5, RN_BOARD_BYTES);
    int64_t now = spend(table);

    expect_spent(table, now);
    for (size_t i = 0; i < BOARD_WORDS; i++)
        assert_int_equal(board[i], UINT64_C(0xA5A5A5A5A5A5A5A5));
    rn_table_close(table);
}

static void the_board_is_shared_and_outlives_a_rebuild(void **state)
{
    struct rn_table *table = open_ok(2 * MIB, 20), *other = open_ok(0, 0);

    (void)state;
    rn_table_board(table)[0] = 7;
    rn_table_board(table)[BOARD_WORDS - 1] = 9;
    assert_int_equal(rn_table_board(other)[BOARD_WORDS - 1], 9);
    rn_table_close(table);
    rn_table_close(other);
    table = open_ok(8 * MIB, 60);
    assert_int_equal(rn_table_board(table)[0], 7);
    assert_int_equal(rn_table_board(table)[BOARD_WORDS - 1], 9);
    rn_table_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_file_without_a_board_is_rebuilt_with_its_state),
        FILE_TEST(a_file_without_a_board_that_others_use_is_refused),
        FILE_TEST(the_board_is_zero_at_first_and_nobody_else_writes_to_it),
        FILE_TEST(the_board_is_shared_and_outlives_a_rebuild),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
