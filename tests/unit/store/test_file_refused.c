/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are refused with the reason and left alone. */
#include "file_fixture.h"

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
    uint32_t version = 1;

    (void)state;
    make_file(MIB, 0);
    patch(offsetof(struct rn_header, version), &version, sizeof version);
    expect_left_alone(RATION_EVERSION, "layout version 1 where this library reads 4; it was left "
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
    expect_refusal(0, 0, RATION_EIO,
                   "cannot be created: No such file or directory; make its folder first");
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
                   "100 percent for blocks; at most 99.9 leave room for keys");
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

#define RIGHTS "; this process must be able to read and write the file, and its folder to make it"

static int says(uint64_t bytes, int code, const char *text)
{
    struct rn_table *table;
    struct ration_error error;
    char expected[1024];

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
    return !become_nobody() || says(0, RATION_EIO, "cannot be created: Permission denied" RIGHTS);
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
    return !become_nobody() || says(0, RATION_EIO, "cannot be opened: Permission denied" RIGHTS);
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
    /* the old file is larger than the limit, which binds only what is written from now on */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
