/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of state files share: a folder for each test, the file in it,
 * and states of every form. They are written at the time of the table's own
 * clock, because rebuilding drops what is idle by it.
 */
#ifndef RN_TESTS_STORE_FILE_FIXTURE_H
#define RN_TESTS_STORE_FILE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "every_form.h"
#include "store/blocks.h"
#include "store/mapping.h"
#include "store/slots.h"

#define MIB (UINT64_C(1) << 20)

static char folder[160], path[420];

static inline int make_folder(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(folder, sizeof folder, "%s/ration-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    return 0;
}

/* Calls `see` with every entry of the folder. */
static inline unsigned each_entry(void (*see)(const char *name))
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    unsigned count = 0;

    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        if (see)
            see(entry->d_name);
    }
    if (dir)
        closedir(dir);
    return count;
}

static inline void remove_entry(const char *name)
{
    char full[600];

    snprintf(full, sizeof full, "%s/%s", folder, name);
    if (unlink(full) != 0)
        rmdir(full);
}

static inline int drop_folder(void **state)
{
    (void)state;
    each_entry(remove_entry);
    rmdir(folder);
    return 0;
}

static inline int try_open(uint64_t bytes, unsigned share, struct rn_table **table,
                           struct ration_error *error)
{
    struct rn_table_options options = {.path = path, .bytes = bytes, .block_share = share};

    memset(error, 'x', sizeof *error);
    return rn_table_open(&options, table, error);
}

static inline struct rn_table *open_ok(uint64_t bytes, unsigned share)
{
    struct rn_table *table = NULL;
    struct ration_error error;

    if (try_open(bytes, share, &table, &error) != 0)
        fail_msg("%s", error.text);
    assert_string_equal(error.text, "");
    return table;
}

/* The message without the part that names the file. */
static inline void expect_refusal(uint64_t bytes, unsigned share, int code, const char *text)
{
    struct rn_table *table = (void *)&table;
    struct ration_error error;
    char expected[1024];

    snprintf(expected, sizeof expected, "state file \"%s\": %s", path, text);
    expected[sizeof error.text - 1] = '\0';
    assert_int_equal(try_open(bytes, share, &table, &error), code);
    assert_string_equal(error.text, expected);
    assert_int_equal(error.code, code);
    assert_ptr_equal(table, (void *)&table); /* untouched */
}

/* ---- bytes of the file */

struct bytes {
    char *data;
    size_t len;
};

static inline struct bytes read_all(void)
{
    struct bytes b = {0};
    struct stat st;
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    b.len = (size_t)st.st_size;
    b.data = malloc(b.len + 1);
    assert_true(read(fd, b.data, b.len) == (ssize_t)b.len);
    close(fd);
    return b;
}

static inline void write_all(const void *data, size_t len)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0660);

    assert_true(fd >= 0 && write(fd, data, len) == (ssize_t)len);
    close(fd);
}

static inline void patch(size_t at, const void *data, size_t len)
{
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0 && pwrite(fd, data, len, (off_t)at) == (ssize_t)len);
    close(fd);
}

/* Refused, and not a byte of it changed. */
static inline void expect_left_alone(int code, const char *text)
{
    struct bytes before = read_all(), after;

    expect_refusal(0, 0, code, text);
    expect_refusal(8 * MIB, 50, code, text);
    after = read_all();
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.data, after.data, before.len);
    assert_int_equal(each_entry(NULL), 1);
    free(before.data);
    free(after.data);
}

static inline void make_file(uint64_t bytes, unsigned share)
{
    rn_table_close(open_ok(bytes, share));
}

/* ---- states */

/* Periods long enough that nothing refills while the test runs. */
static inline struct rn_answer ask(struct rn_table *table, unsigned kind, uint64_t key,
                                   enum rn_op op, int64_t now, uint64_t cost)
{
    struct ration_limit spec = every_form[kind].spec[0];
    struct rn_limit limit;

    if (kind == FINE)
        spec.period_ns = 7000 * SECOND + 1;
    else if (kind < PLACES)
        spec.period_ns = kind == QUEUE ? 300 * DAY : kind == OWN ? 30 * DAY : 3650 * DAY;
    if (kind == STEPS)
        spec.step_ns = spec.period_ns;
    if (kind == SHORT_WINDOW)
        spec.amount = 3000000; /* a long window whose count does not pack */
    limit = compiled(&spec);
    struct rn_charge c = {
        .limit = &limit,
        .key = key_of(key),
        .ask = {.op = op, .now_ns = now, .cost = cost, .id = 1, .lease_ns = HOUR}};

    rn_store_apply(rn_table_store(table), &c, 1);
    assert_int_equal(c.error, 0);
    return c.answer;
}

#define PEOPLE 600

static inline uint64_t spent_by(unsigned person)
{
    uint64_t unit = person % KINDS == FINE ? 100000000 : 1;

    return (1 + person % 5) * unit;
}

static inline int64_t spend(struct rn_table *table)
{
    int64_t now = rn_table_now(table);

    for (unsigned i = 0; i < PEOPLE; i++)
        assert_true(ask(table, i % KINDS, i, RN_TAKE, now, spent_by(i)).allowed);
    return now;
}

/* Looked at as of `now`, no key has more or less than was left. */
static inline void expect_spent(struct rn_table *table, int64_t now)
{
    for (unsigned i = 0; i < PEOPLE; i++) {
        uint64_t cap = ask(table, i % KINDS, PEOPLE + i % KINDS, RN_PEEK, now, 0).remaining;

        assert_int_equal(ask(table, i % KINDS, i, RN_PEEK, now, 0).remaining, cap - spent_by(i));
    }
}

/* The blocks that slots refer to; none of them larger than a slab. */
static inline uint64_t bytes_of_slots(const struct rn_table *table)
{
    const struct rn_slot *slots = table->groups[0].slots;
    uint64_t bytes = 0;

    for (uint64_t i = 0; i < table->group_count * RN_GROUP_SLOTS; i++)
        if (rn_tag_has_block(slots[i].tag))
            bytes += 8 * rn_blocks_class_words(rn_block_class(slots[i].state));
    return bytes;
}

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)

#endif
