/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file: made, resumed, rebuilt, or refused with the reason and left
 * alone. States are written at the time of the table's own clock, because
 * rebuilding drops what is idle by it.
 */
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
#include "store/slots.h"

#define MIB (UINT64_C(1) << 20)

static char folder[160], path[420];

static int make_folder(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)state;
    snprintf(folder, sizeof folder, "%s/ration-test-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    return 0;
}

/* Calls `see` with every entry of the folder. */
static unsigned each_entry(void (*see)(const char *name))
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

static void remove_entry(const char *name)
{
    char full[600];

    snprintf(full, sizeof full, "%s/%s", folder, name);
    if (unlink(full) != 0)
        rmdir(full);
}

static int drop_folder(void **state)
{
    (void)state;
    each_entry(remove_entry);
    rmdir(folder);
    return 0;
}

static int try_open(uint64_t bytes, unsigned share, struct rn_table **table,
                    struct ration_error *error)
{
    struct rn_table_options options = {.path = path, .bytes = bytes, .block_share = share};

    memset(error, 'x', sizeof *error);
    return rn_table_open(&options, table, error);
}

static struct rn_table *open_ok(uint64_t bytes, unsigned share)
{
    struct rn_table *table = NULL;
    struct ration_error error;

    if (try_open(bytes, share, &table, &error) != 0)
        fail_msg("%s", error.text);
    assert_string_equal(error.text, "");
    return table;
}

/* The message without the part that names the file. */
static void expect_refusal(uint64_t bytes, unsigned share, int code, const char *text)
{
    struct rn_table *table = (void *)&table;
    struct ration_error error;
    char expected[512];

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

static struct bytes read_all(void)
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

static void write_all(const void *data, size_t len)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0660);

    assert_true(fd >= 0 && write(fd, data, len) == (ssize_t)len);
    close(fd);
}

static void patch(size_t at, const void *data, size_t len)
{
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0 && pwrite(fd, data, len, (off_t)at) == (ssize_t)len);
    close(fd);
}

/* Refused, and not a byte of it changed. */
static void expect_left_alone(int code, const char *text)
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

static void make_file(uint64_t bytes, unsigned share)
{
    rn_table_close(open_ok(bytes, share));
}

/* ---- states */

/* Periods long enough that nothing refills while the test runs. */
static struct rn_answer ask(struct rn_table *table, unsigned kind, uint64_t key, enum rn_op op,
                            int64_t now, uint64_t cost)
{
    struct ration_limit spec = every_form[kind].spec[0];
    struct rn_limit limit;

    if (kind == FINE)
        spec.period_ns = 7000 * SECOND + 1;
    else if (kind != PLACES)
        spec.period_ns = kind == QUEUE ? 300 * DAY : 3650 * DAY;
    if (kind == STEPS)
        spec.step_ns = spec.period_ns;
    if (kind == SHORT_WINDOW)
        spec.amount = 3000000; /* a long window whose count does not pack */
    limit = compiled(&spec);
    struct rn_charge c = {
        .limit = &limit,
        .key = key_of(key),
        .ask = {.op = op, .now_ns = now, .cost = cost, .id = 1, .lease_ns = HOUR}};

    rn_store_apply(rn_table_store(table), &c, 1, NULL, NULL);
    assert_int_equal(c.error, 0);
    return c.answer;
}

#define PEOPLE 600

static uint64_t spent_by(unsigned person)
{
    uint64_t unit = person % KINDS == FINE ? 100000000 : 1;

    return (1 + person % 5) * unit;
}

static int64_t spend(struct rn_table *table)
{
    int64_t now = rn_table_now(table);

    for (unsigned i = 0; i < PEOPLE; i++)
        assert_true(ask(table, i % KINDS, i, RN_TAKE, now, spent_by(i)).allowed);
    return now;
}

/* Looked at as of `now`, nobody has more or less than was left. */
static void expect_spent(struct rn_table *table, int64_t now)
{
    for (unsigned i = 0; i < PEOPLE; i++) {
        uint64_t cap = ask(table, i % KINDS, PEOPLE + i % KINDS, RN_PEEK, now, 0).remaining;

        assert_int_equal(ask(table, i % KINDS, i, RN_PEEK, now, 0).remaining, cap - spent_by(i));
    }
}

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

/* ---- refused */

static void a_foreign_file_is_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "a",
                                        "debian\n",
                                        "rnvtabl",
                                        "{\"limits\": []}\n",
                                        "# settings\nkey = value\nanother = one\n"};

    (void)state;
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_all(texts[i], strlen(texts[i]));
        expect_left_alone(RATION_EFOREIGN,
                          "not a ration state file; it was left alone: name another file or move "
                          "this one away");
    }
    void *zeros = calloc(1, 2 * MIB);

    write_all(zeros, 2 * MIB);
    free(zeros);
    expect_left_alone(RATION_EFOREIGN, "not a ration state file; it was left alone: name another "
                                       "file or move this one away");
}

static void a_file_cut_off_is_refused(void **state)
{
    static const off_t header_cuts[] = {
        8, 9, 16, 64, offsetof(struct rn_header, check), offsetof(struct rn_header, check) + 7};
    static const off_t body_cuts[] = {offsetof(struct rn_header, check) + 8, 4096, 500000, MIB - 1};
    char text[200];

    (void)state;
    for (unsigned i = 0; i < sizeof header_cuts / sizeof *header_cuts; i++) {
        make_file(MIB, 0);
        assert_int_equal(truncate(path, header_cuts[i]), 0);
        expect_left_alone(RATION_ETORN,
                          "cut off within its header; it was left alone: move it away");
        unlink(path);
    }
    for (unsigned i = 0; i < sizeof body_cuts / sizeof *body_cuts; i++) {
        make_file(MIB, 0);
        assert_int_equal(truncate(path, body_cuts[i]), 0);
        snprintf(text, sizeof text,
                 "%lld bytes long where its header says 1048576; it was left alone: move it away",
                 (long long)body_cuts[i]);
        expect_left_alone(RATION_ETORN, text);
        unlink(path);
    }
}

static void a_file_with_something_appended_is_refused(void **state)
{
    (void)state;
    make_file(MIB, 0);
    assert_int_equal(truncate(path, MIB + 1), 0);
    expect_left_alone(RATION_ETORN, "1048577 bytes long where its header says 1048576; it was left "
                                    "alone: move it away");
}

static void another_version_is_refused(void **state)
{
    uint32_t version = 2;

    (void)state;
    make_file(MIB, 0);
    patch(offsetof(struct rn_header, version), &version, sizeof version);
    expect_left_alone(RATION_EVERSION, "layout version 2 where this library reads 1; it was left "
                                       "alone: use the version that wrote it or move it away");
}

static void a_damaged_header_is_refused_whichever_byte_it_is(void **state)
{
    struct bytes sound;

    (void)state;
    make_file(MIB, 25);
    sound = read_all();
    for (size_t i = offsetof(struct rn_header, bytes);
         i < offsetof(struct rn_header, check) + sizeof(uint64_t); i++) {
        char byte = (char)(sound.data[i] ^ (1 << i % 8));
        struct rn_table *table;
        struct ration_error error;

        patch(i, &byte, 1);
        assert_int_equal(try_open(0, 0, &table, &error), RATION_ETORN);
        patch(i, &sound.data[i], 1);
    }
    patch(40, "damage", 6);
    expect_left_alone(RATION_ETORN, "its header is damaged; it was left alone: move it away");
    free(sound.data);
}

static void a_folder_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal(0, 0, RATION_EIO, "cannot be opened: Is a directory");
}

static void what_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(0, 0, RATION_EFOREIGN, "not a regular file");
}

static void a_folder_that_does_not_exist_is_refused(void **state)
{
    (void)state;
    rmdir(folder);
    expect_refusal(0, 0, RATION_EIO, "cannot be created: No such file or directory");
    assert_int_equal(mkdir(folder, 0700), 0);
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    char longest[5000];
    struct rn_table_options options = {.path = longest};
    struct rn_table *table;
    struct ration_error error;

    (void)state;
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_true(rn_table_open(&options, &table, &error) < 0);
    assert_memory_equal(error.text, "state file \"aaa", 15);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void sizes_out_of_range_are_refused(void **state)
{
    (void)state;
    expect_refusal(4096, 0, RATION_EINVAL, "4096 bytes of memory; at least 1048576 are needed");
    expect_refusal(MIB - 1, 0, RATION_EINVAL,
                   "1048575 bytes of memory; at least 1048576 are needed");
    expect_refusal(UINT64_C(1) << 50, 0, RATION_EINVAL,
                   "a size of 1125899906842624 bytes is more than 16 TiB");
    expect_refusal(MIB, 100, RATION_EINVAL,
                   "100 percent for blocks; at most 99 leave room for keys");
    assert_int_equal(each_entry(NULL), 0);
}

/* ---- in another process */

/* Runs `body` in a child; what it says decides. */
static void in_child(int (*body)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int says(uint64_t bytes, int code, const char *text)
{
    struct rn_table *table;
    struct ration_error error;
    char expected[512];

    snprintf(expected, sizeof expected, "state file \"%s\": %s", path, text);
    if (try_open(bytes, 0, &table, &error) == code && strcmp(error.text, expected) == 0)
        return 0;
    fprintf(stderr, "# got %d %s\n", error.code, error.text);
    return 1;
}

/* Permissions do not bind root. */
static bool become_nobody(void)
{
    return geteuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0);
}

static int open_in_locked_folder(void)
{
    return !become_nobody() || says(0, RATION_EIO, "cannot be created: Permission denied");
}

static void a_folder_without_write_permission_is_refused(void **state)
{
    (void)state;
    assert_int_equal(chmod(folder, 0555), 0);
    in_child(open_in_locked_folder);
    assert_int_equal(each_entry(NULL), 0);
    chmod(folder, 0700);
}

static int open_unreadable(void)
{
    return !become_nobody() || says(0, RATION_EIO, "cannot be opened: Permission denied");
}

static void a_file_without_permission_is_refused(void **state)
{
    (void)state;
    make_file(MIB, 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(path, 0), 0);
    in_child(open_unreadable);
    assert_int_equal(chmod(path, 0660), 0);
    make_file(0, 0); /* nothing happened to it */
}

static int open_without_room(void)
{
    struct rlimit limit = {MIB, MIB};

    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    return says(4 * MIB, RATION_EIO, "cannot reserve 4194304 bytes: File too large");
}

static void without_room_on_disk_nothing_is_left_behind(void **state)
{
    (void)state;
    in_child(open_without_room);
    assert_int_equal(each_entry(NULL), 0);
}

static void without_room_to_rebuild_the_old_file_stays(void **state)
{
    struct rn_table *table = open_ok(16 * MIB, 50);
    int64_t now = spend(table);

    (void)state;
    rn_table_close(table);
    /* the old file is larger than the limit, which binds only what is written anew */
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct rlimit limit = {20 * MIB, 20 * MIB};

        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(says(32 * MIB, RATION_EIO, "cannot reserve 33554432 bytes: File too large"));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(each_entry(NULL), 1);
    table = open_ok(0, 0);
    expect_spent(table, now);
    rn_table_close(table);
}

static void a_file_locked_by_another_process_is_busy(void **state)
{
    int ready[2], status;
    char byte;
    pid_t child;

    (void)state;
    make_file(MIB, 0);
    assert_int_equal(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        int fd = open(path, O_RDWR);

        if (flock(fd, LOCK_EX) == 0 && write(ready[1], "!", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    expect_refusal(0, 0, RATION_EBUSY,
                   "locked for two seconds by a process that creates or "
                   "rebuilds it; try again when it is done");
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(ready[0]);
    close(ready[1]);
    make_file(0, 0);
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
    rn_store_apply(rn_table_store(table), &c, 1, NULL, NULL);
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

#define ANCHOR(field) (offsetof(struct rn_header, anchor) + offsetof(struct rn_anchor, field))

/* As if the machine had been booted anew, with this as the last time used. */
static void reboot(int64_t last_seen_ns)
{
    uint64_t other_boot[2] = {1, 2};

    patch(ANCHOR(boot_id), other_boot, sizeof other_boot);
    patch(ANCHOR(last_seen_ns), &last_seen_ns, sizeof last_seen_ns);
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
    table->header->anchor.delta_ns += ahead; /* the wall clock has been set back since */
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

#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_new_file_has_its_size_and_belongs_to_the_group_too),
        FILE_TEST(the_size_is_64_mib_unless_told),
        FILE_TEST(counters_are_where_they_were_after_reopening),
        FILE_TEST(the_time_line_goes_on_where_it_was),
        FILE_TEST(the_secret_survives_reopening_and_rebuilding),
        FILE_TEST(two_openers_share_the_counters),
        FILE_TEST(the_error_may_be_left_out),
        FILE_TEST(a_foreign_file_is_refused),
        FILE_TEST(a_file_cut_off_is_refused),
        FILE_TEST(a_file_with_something_appended_is_refused),
        FILE_TEST(another_version_is_refused),
        FILE_TEST(a_damaged_header_is_refused_whichever_byte_it_is),
        FILE_TEST(a_folder_is_refused),
        FILE_TEST(what_is_no_regular_file_is_refused),
        FILE_TEST(a_folder_that_does_not_exist_is_refused),
        FILE_TEST(a_path_that_is_too_long_is_refused),
        FILE_TEST(sizes_out_of_range_are_refused),
        FILE_TEST(a_folder_without_write_permission_is_refused),
        FILE_TEST(a_file_without_permission_is_refused),
        FILE_TEST(without_room_on_disk_nothing_is_left_behind),
        FILE_TEST(without_room_to_rebuild_the_old_file_stays),
        FILE_TEST(a_file_locked_by_another_process_is_busy),
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
