/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that were damaged while nobody looked, and files that are taken away
 * while somebody does. Run with the sanitizers, this is where a byte that is
 * believed too much shows.
 */
#include "file_fixture.h"

#define BYTES (7 * MIB)
#define SHARE 50

/* A file in which everybody has spent something; when. */
static int64_t make_spent_file(void)
{
    struct rn_table *table = open_ok(BYTES, SHARE);
    int64_t now = spend(table);

    rn_table_close(table);
    return now;
}

/* One of each form, for tests that look often: no key has more or less than was left. */
static void expect_some_spent(struct rn_table *table, int64_t now)
{
    for (unsigned i = 0; i < KINDS; i++) {
        uint64_t cap = ask(table, i, PEOPLE + i, RN_PEEK, now, 0).remaining;

        assert_int_equal(ask(table, i, i, RN_PEEK, now, 0).remaining, cap - spent_by(i));
    }
}

static void flip(const struct bytes *sound, size_t at)
{
    char byte = (char)~sound->data[at];

    patch(at, &byte, 1);
}

/* Refused and left alone, or open with the right time and nothing forgotten. */
static void a_flipped_byte_of_the_header_forgets_nothing(void **state)
{
    int64_t now = make_spent_file();
    struct bytes sound = read_all();

    (void)state;
    /* Of the many lists of blocks, all alike, every fifth byte will do. */
    for (size_t at = 0; at < sizeof(struct rn_header);
         at += at < offsetof(struct rn_header, loose) ? 1 : 5) {
        struct rn_table *table;
        struct ration_error error;
        int code;

        flip(&sound, at);
        code = try_open(0, 0, &table, &error);
        if (code != 0) {
            assert_true(at < offsetof(struct rn_header, anchor));
            assert_true(code == RATION_EFOREIGN || code == RATION_EVERSION || code == RATION_ETORN);
            assert_non_null(strstr(error.text, "left alone"));
        } else {
            assert_true(at >= offsetof(struct rn_header, anchor) || at >= RN_CHECKED_BYTES + 8);
            assert_true(rn_table_now(table) >= now && rn_table_now(table) < now + HOUR);
            assert_true(rn_table_wall_offset(table, rn_table_now(table)) < HOUR);
            expect_some_spent(table, now);
            rn_table_close(table);
        }
        patch(0, sound.data, sizeof(struct rn_header));
    }
    struct rn_table *table = open_ok(0, 0);

    expect_spent(table, now);
    rn_table_close(table);
    free(sound.data);
}

#define ANCHOR(field) (offsetof(struct rn_header, anchor) + offsetof(struct rn_anchor, field))

static void expect_mended(int64_t now)
{
    struct rn_table *table;
    struct ration_error error;
    char expected[1000];

    snprintf(expected, sizeof expected,
             "state file \"%s\": part of its clock was damaged, by a crash or the disk, and was "
             "restored from a copy",
             path);
    assert_int_equal(try_open(0, 0, &table, &error), 0);
    assert_string_equal(error.text, expected);
    expect_some_spent(table, now);
    assert_true(rn_table_now(table) < now + HOUR);
    rn_table_close(table);
    table = open_ok(0, 0); /* for good */
    rn_table_close(table);
}

static void a_damaged_clock_is_restored_from_its_copy(void **state)
{
    int64_t now = make_spent_file();
    const size_t places[] = {ANCHOR(line.boot_id), ANCHOR(line.boot_ns), ANCHOR(line.delta_ns),
                             ANCHOR(saves[0].check), ANCHOR(saves[1].last_seen_ns)};

    (void)state;
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        struct bytes file = read_all();

        flip(&file, places[i] + 6);
        free(file.data);
        expect_mended(now);
    }
}

static void a_file_whose_clock_is_damaged_twice_is_refused(void **state)
{
    struct bytes sound;

    (void)state;
    make_spent_file();
    sound = read_all();
    flip(&sound, ANCHOR(saves[0].line.delta_ns) + 6);
    flip(&sound, ANCHOR(saves[1].wall_offset_ns));
    free(sound.data);
    expect_left_alone(RATION_ETORN, "its clock is damaged; it was left alone: move it away");
}

/* The check sum is right: only the range tells. */
static void a_clock_out_of_range_is_refused(void **state)
{
    static const int64_t wild[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_C(1) << 62};

    (void)state;
    for (unsigned i = 0; i < 4 * sizeof wild / sizeof *wild; i++) {
        struct bytes file;
        struct rn_anchor anchor;
        int64_t *fields[] = {&anchor.line.boot_ns, &anchor.line.delta_ns, &anchor.last_seen_ns,
                             &anchor.wall_offset_ns};

        make_file(MIB, 0);
        file = read_all();
        memcpy(&anchor, file.data + offsetof(struct rn_header, anchor), sizeof anchor);
        *fields[i % 4] = wild[i / 4];
        rn_anchor_save(&anchor);
        rn_anchor_save(&anchor);
        patch(offsetof(struct rn_header, anchor), &anchor, sizeof anchor);
        expect_left_alone(RATION_ETORN, "its clock is damaged; it was left alone: move it away");
        free(file.data);
        unlink(path);
    }
}

/* Each geometry with a check sum that is right. */
static void a_header_that_contradicts_itself_is_refused(void **state)
{
    static const size_t fields[] = {
        offsetof(struct rn_header, groups), offsetof(struct rn_header, slabs),
        offsetof(struct rn_header, groups_at), offsetof(struct rn_header, slabs_at),
        offsetof(struct rn_header, arena_at)};
    static const uint64_t wild[] = {0, 1, 4096, UINT64_MAX, UINT64_MAX / 128, UINT64_C(1) << 63};

    (void)state;
    make_file(BYTES, SHARE);
    struct bytes sound = read_all();

    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
        for (unsigned k = 0; k < sizeof wild / sizeof *wild; k++) {
            struct rn_header h;

            memcpy(&h, sound.data, sizeof h);
            if (memcmp((char *)&h + fields[i], &wild[k], sizeof wild[k]) == 0)
                continue;
            memcpy((char *)&h + fields[i], &wild[k], sizeof wild[k]);
            h.check = rn_mapping_header_check(&h);
            patch(0, &h, sizeof h);
            expect_refusal(0, 0, RATION_ETORN,
                           "its header is damaged; it was left alone: move it away");
        }
    free(sound.data);
}

static void who_joins_does_not_follow_a_clock_that_went_wrong(void **state)
{
    struct rn_table *first = open_ok(MIB, 0), *second;
    int64_t sound = first->header->anchor.line.delta_ns;

    (void)state;
    first->header->anchor.line.delta_ns += 400 * DAY;
    expect_refusal(0, 0, RATION_ETORN, "its clock is damaged; it was left alone: move it away");
    first->header->anchor.line.delta_ns = sound;
    second = open_ok(0, 0);
    rn_table_close(second);
    rn_table_close(first);
}

/* Bytes behind the header: nothing is promised about the keys they hold, but everything
 * still answers, and no key is refused for longer than a limit can. */
static void damage_behind_the_header_harms_nobody_else(void **state)
{
    uint64_t seed = 42;

    (void)state;
    make_spent_file();
    struct bytes sound = read_all();
    const struct rn_header *h = (const struct rn_header *)(void *)sound.data;

    size_t from = h->slabs_at, span = sound.len - from;
    char *damaged = malloc(sound.len);

    for (unsigned round = 0; round < 20; round++) {
        struct rn_table *table;
        struct ration_error error;

        memcpy(damaged, sound.data, sound.len);
        for (unsigned i = 0; i < 5000; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            damaged[from + (size_t)((seed >> 33) % span)] ^= (char)(seed >> 20 | 1);
        }
        write_all(damaged, sound.len);
        assert_int_equal(try_open(0, 0, &table, &error), 0);
        int64_t now = rn_table_now(table);
        struct rn_table_memory memory;

        for (unsigned i = 0; i < PEOPLE; i++) {
            ask(table, i % KINDS, i, RN_PEEK, now, 1);
            ask(table, i % KINDS, i, RN_TAKE, now, 1);
            ask(table, i % KINDS, i, RN_GIVE_BACK, now, 1);
            assert_true(
                ask(table, i % KINDS, 10 * PEOPLE + round * PEOPLE + i, RN_TAKE, now, 1).allowed);
        }
        rn_table_memory(table, now, &memory);
        rn_table_clean(table, now);
        rn_table_close(table);
    }
    free(damaged);
    free(sound.data);
}

/* ---- under a process that uses it */

static void expect_fault(const struct rn_table *table, int code, const char *text)
{
    struct ration_error error;
    char expected[1000];

    snprintf(expected, sizeof expected, "state file \"%s\": %s", path, text);
    assert_int_equal(rn_table_check_file(table, &error), code);
    assert_string_equal(error.text, expected);
}

#define GONE                                                                                       \
    "deleted, moved or replaced while in use; this process still counts in the old one, and "      \
    "processes that start now do not: restart all its users"

static void a_file_that_is_taken_away_is_noticed(void **state)
{
    struct rn_table *table = open_ok(MIB, 0);
    struct ration_error error;
    char away[500];

    (void)state;
    snprintf(away, sizeof away, "%s.away", path);
    assert_int_equal(rn_table_check_file(table, &error), 0);
    assert_int_equal(rename(path, away), 0);
    expect_fault(table, RATION_EIO, GONE);
    write_all("another", 7);
    expect_fault(table, RATION_EIO, GONE);
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(rn_table_check_file(table, &error), 0);
    assert_int_equal(truncate(path, 9), 0);
    expect_fault(table, RATION_ETORN,
                 "cut from 1048576 to 9 bytes while in use; its counters are lost: stop all its "
                 "users, move it away and start again");
    unlink(path);
    table->fd = (close(table->fd), -1);
    rn_mapping_table_free(table); /* not closed: there is nothing behind the mapping */
}

static void memory_without_a_file_has_nothing_to_lose(void **state)
{
    struct rn_table *table;
    struct ration_error error;

    (void)state;
    assert_int_equal(rn_table_open(&(struct rn_table_options){.bytes = MIB}, &table, NULL), 0);
    assert_int_equal(rn_table_check_file(table, &error), 0);
    rn_table_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_flipped_byte_of_the_header_forgets_nothing),
        FILE_TEST(a_damaged_clock_is_restored_from_its_copy),
        FILE_TEST(a_file_whose_clock_is_damaged_twice_is_refused),
        FILE_TEST(a_clock_out_of_range_is_refused),
        FILE_TEST(a_header_that_contradicts_itself_is_refused),
        FILE_TEST(who_joins_does_not_follow_a_clock_that_went_wrong),
        FILE_TEST(damage_behind_the_header_harms_nobody_else),
        FILE_TEST(a_file_that_is_taken_away_is_noticed),
        cmocka_unit_test(memory_without_a_file_has_nothing_to_lose),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
