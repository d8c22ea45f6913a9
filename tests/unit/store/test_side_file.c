/* SPDX-License-Identifier: Apache-2.0 */
/* Files beside the state file: made, shared, resized, adopted, replaced, refused. A second opening
 * in one process has a lock of its own, as another process has. */
#include "store/side_file.h"

#include "file_fixture.h"

#define KIND UINT64_C(0x74736574656469)

static struct rn_side_file_plan plan_of(uint64_t bytes, uint64_t owner)
{
    return (struct rn_side_file_plan){.what = "test file",
                                      .path = path,
                                      .magic = KIND,
                                      .version = 1,
                                      .owner = owner,
                                      .bytes = bytes};
}

static struct rn_side_file open_plan(const struct rn_side_file_plan *plan)
{
    struct rn_side_file file = {0};
    struct ration_error error;

    if (rn_side_file_open(plan, &file, &error) != 0)
        fail_msg("%s", error.text);
    assert_string_equal(error.text, "");
    return file;
}

static struct rn_side_file open_side(uint64_t bytes, uint64_t owner)
{
    struct rn_side_file_plan plan = plan_of(bytes, owner);

    return open_plan(&plan);
}

static void refuses(const struct rn_side_file_plan *plan, int code, const char *text)
{
    struct rn_side_file file = {0};
    struct ration_error error;
    char expected[1024];

    snprintf(expected, sizeof expected, "test file \"%s\": %s", path, text);
    assert_int_equal(rn_side_file_open(plan, &file, &error), code);
    expected[sizeof error.text - 1] = '\0';
    assert_string_equal(error.text, expected);
    assert_null(file.mapping);
}

static void refuses_side(uint64_t bytes, int code, const char *text)
{
    struct rn_side_file_plan plan = plan_of(bytes, 7);

    refuses(&plan, code, text);
}

static void a_new_file_is_zeroed_and_belongs_to_the_group_too(void **state)
{
    struct rn_side_file file = open_side(MIB, 7);
    struct stat st;

    (void)state;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, MIB);
    assert_int_equal(st.st_mode & 07777, 0660);
    assert_true((uint64_t)st.st_blocks * 512 >= MIB);
    assert_int_equal(file.bytes, MIB - 4096);
    assert_int_equal((uintptr_t)file.data % 4096, 0);
    assert_int_not_equal(file.id, 0);
    assert_true(file.alone);
    for (uint64_t i = 0; i < file.bytes; i++)
        assert_int_equal(((char *)file.data)[i], 0);
    assert_int_equal(each_entry(NULL), 1);
    rn_side_file_close(&file);
    rn_side_file_close(&file); /* twice is harmless */
}

static void what_one_writes_the_others_see_and_the_next_finds(void **state)
{
    struct rn_side_file a = open_side(MIB, 7), b = open_side(MIB, 7);
    uint64_t id = a.id;

    (void)state;
    assert_true(a.alone);
    assert_false(b.alone);
    memcpy(a.data, "hello", 5);
    assert_memory_equal(b.data, "hello", 5);
    assert_int_equal(b.id, id);
    rn_side_file_close(&a);
    rn_side_file_close(&b);
    a = open_side(MIB, 7);
    assert_true(a.alone);
    assert_memory_equal(a.data, "hello", 5);
    assert_int_equal(a.id, id);
    rn_side_file_close(&a);
}

static void memory_without_a_file(void **state)
{
    struct rn_side_file_plan plan = plan_of(MIB, 7);

    (void)state;
    plan.path = NULL;
    struct rn_side_file file = open_plan(&plan);

    memset(file.data, 1, file.bytes);
    assert_int_equal(rn_side_file_check(&file, NULL), 0);
    rn_side_file_close(&file);
    assert_int_equal(each_entry(NULL), 0);
}

static void a_file_keeps_its_size_unless_its_content_can_move(void **state)
{
    struct rn_side_file file = open_side(MIB, 7);

    (void)state;
    rn_side_file_close(&file);
    file = open_side(2 * MIB, 7);
    assert_int_equal(file.bytes, MIB - 4096);
    rn_side_file_close(&file);
}

static bool move_text(void *to, uint64_t to_bytes, const void *from, uint64_t from_bytes)
{
    assert_int_equal(to_bytes, 2 * MIB - 4096);
    assert_int_equal(from_bytes, MIB - 4096);
    memcpy(to, from, 5);
    return true;
}

static bool move_nothing(void *to, uint64_t to_bytes, const void *from, uint64_t from_bytes)
{
    (void)to;
    (void)to_bytes;
    (void)from;
    (void)from_bytes;
    return false;
}

static void a_file_whose_content_does_not_fit_another_size_keeps_its_own(void **state)
{
    struct rn_side_file_plan plan = plan_of(MIB / 2, 7);
    struct rn_side_file file = open_side(MIB, 7);
    struct ration_error error;
    char expected[600];

    (void)state;
    memcpy(file.data, "hello", 5);
    rn_side_file_close(&file);
    plan.move = move_nothing;
    snprintf(expected, sizeof expected,
             "test file \"%s\": keeps its size of 1048576 bytes, as what is in it does not fit "
             "524288",
             path);
    assert_int_equal(rn_side_file_open(&plan, &file, &error), 0);
    assert_string_equal(error.text, expected);
    assert_memory_equal(file.data, "hello", 5);
    assert_int_equal(each_entry(NULL), 1);
    rn_side_file_close(&file);
}

static void its_content_moves_into_a_file_of_another_size(void **state)
{
    struct rn_side_file_plan plan = plan_of(2 * MIB, 7);
    struct rn_side_file file = open_side(MIB, 7), other = {0};
    struct ration_error error;
    char expected[600];
    uint64_t id = file.id;

    (void)state;
    memcpy(file.data, "hello", 5);
    plan.move = move_text;
    snprintf(expected, sizeof expected,
             "test file \"%s\": in use with 1048576 bytes, and keeps that size; stop all its users "
             "to give it 2097152",
             path);
    assert_int_equal(rn_side_file_open(&plan, &other, &error), 0);
    assert_string_equal(error.text, expected);
    assert_int_equal(other.bytes, MIB - 4096);
    rn_side_file_close(&other);
    rn_side_file_close(&file);
    file = open_plan(&plan);
    assert_int_equal(file.bytes, 2 * MIB - 4096);
    assert_memory_equal(file.data, "hello", 5);
    assert_int_equal(file.id, id);
    assert_int_equal(each_entry(NULL), 1);
    rn_side_file_close(&file);
}

static void a_file_of_another_table_is_replaced_or_adopted_once_it_is_free(void **state)
{
    struct rn_side_file_plan plan = plan_of(MIB, 8);
    struct rn_side_file file = open_side(MIB, 7);
    uint64_t id = file.id;

    (void)state;
    memcpy(file.data, "hello", 5);
    refuses(&plan, RATION_EBUSY,
            "in use beside another state file than this one; give each state file a name of its "
            "own");
    rn_side_file_close(&file);
    plan.adopt = true;
    file = open_plan(&plan);
    assert_memory_equal(file.data, "hello", 5);
    assert_int_equal(file.id, id);
    rn_side_file_close(&file);
    file = open_side(MIB, 9);
    assert_memory_equal(file.data, "\0\0\0\0\0", 5);
    assert_int_not_equal(file.id, id);
    rn_side_file_close(&file);
}

static void reading_needs_no_table_and_takes_no_lock(void **state)
{
    struct rn_side_file_plan plan = plan_of(0, 0);
    struct rn_side_file file = open_side(MIB, 7), reader = {0}, other;
    struct ration_error error;

    (void)state;
    memcpy(file.data, "hello", 5);
    assert_int_equal(rn_side_file_read(&plan, &reader, &error), 0);
    assert_memory_equal(reader.data, "hello", 5);
    assert_int_equal(reader.id, file.id);
    rn_side_file_close(&file);
    other = open_side(MIB, 7);
    assert_true(other.alone);
    rn_side_file_close(&other);
    rn_side_file_close(&reader);
    unlink(path);
    assert_int_equal(rn_side_file_read(&plan, &reader, &error), RATION_EIO);
    assert_non_null(strstr(error.text, "cannot be opened: No such file or directory"));
}

static void foreign_torn_and_newer_files_are_left_alone(void **state)
{
    struct rn_side_file_plan newer = plan_of(MIB, 7);
    struct rn_side_file file;
    char byte;

    (void)state;
    write_all("no such thing", 13);
    refuses_side(MIB, RATION_EFOREIGN,
                 "not a test file of ration; it was left alone: move it away");
    unlink(path);
    make_file(MIB, 0); /* a state file */
    refuses_side(MIB, RATION_EFOREIGN,
                 "not a test file of ration; it was left alone: move it away");
    unlink(path);
    file = open_side(MIB, 7);
    rn_side_file_close(&file);
    newer.version = 2;
    refuses(&newer, RATION_EVERSION,
            "layout version 1 where this library reads 2; it was left alone: use the version that "
            "wrote it or move it away");
    assert_int_equal(truncate(path, (off_t)MIB - 4096), 0);
    refuses_side(MIB, RATION_ETORN,
                 "1044480 bytes long where its header says 1048576; it was left alone: move it "
                 "away");
    assert_int_equal(truncate(path, 20), 0);
    refuses_side(MIB, RATION_ETORN, "cut off within its header; it was left alone: move it away");
    unlink(path);
    for (size_t at = 16; at < 40; at++) {
        file = open_side(MIB, 7);
        byte = (char)(((char *)file.mapping)[at] ^ 1);
        rn_side_file_close(&file);
        patch(at, &byte, 1);
        refuses_side(MIB, RATION_ETORN, "its header is damaged; it was left alone: move it away");
        unlink(path);
    }
}

static void a_size_out_of_range_is_refused(void **state)
{
    (void)state;
    refuses_side(4096, RATION_EINVAL, "4096 bytes; give it 65536 to 17592186044416");
    assert_int_equal(each_entry(NULL), 0);
}

static void without_room_on_disk_nothing_is_left_behind(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        struct rlimit limit = {MIB, MIB};
        struct rn_side_file_plan plan = plan_of(4 * MIB, 7);
        struct rn_side_file file = {0};
        struct ration_error error;

        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(rn_side_file_open(&plan, &file, &error) != RATION_EIO ||
              !strstr(error.text, "cannot reserve 4194304 bytes: File too large"));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(each_entry(NULL), 0);
}

static void a_folder_that_cannot_be_written_is_named(void **state)
{
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(chmod(folder, 0555), 0);
    child = fork();
    if (child == 0) {
        struct rn_side_file_plan plan = plan_of(MIB, 7);
        struct rn_side_file file = {0};
        struct ration_error error;

        _exit((geteuid() == 0 && setuid(65534) != 0) ||
              rn_side_file_open(&plan, &file, &error) != RATION_EIO ||
              !strstr(error.text, "cannot be created: Permission denied; this process must be"));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    chmod(folder, 0700);
    assert_int_equal(each_entry(NULL), 0);
}

static void a_file_that_is_cut_or_replaced_while_in_use_is_noticed(void **state)
{
    struct rn_side_file file = open_side(MIB, 7);
    struct ration_error error;

    (void)state;
    assert_int_equal(rn_side_file_check(&file, &error), 0);
    assert_int_equal(truncate(path, 8192), 0);
    assert_int_equal(rn_side_file_check(&file, &error), RATION_ETORN);
    assert_non_null(strstr(error.text, "cut from 1048576 to 8192 bytes while in use"));
    assert_int_equal(truncate(path, (off_t)MIB), 0);
    unlink(path);
    assert_int_equal(rn_side_file_check(&file, &error), RATION_EIO);
    rn_side_file_close(&file);
}

static void many_processes_make_one_file(void **state)
{
    enum { PROCESSES = 8 };
    pid_t children[PROCESSES];
    struct rn_side_file file;

    (void)state;
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            file = open_side(MIB, 7);
            __atomic_fetch_add((uint64_t *)file.data, 1, __ATOMIC_RELAXED);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    file = open_side(MIB, 7);
    assert_int_equal(*(uint64_t *)file.data, PROCESSES);
    assert_int_equal(each_entry(NULL), 1);
    rn_side_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(a_new_file_is_zeroed_and_belongs_to_the_group_too),
        FILE_TEST(what_one_writes_the_others_see_and_the_next_finds),
        FILE_TEST(memory_without_a_file),
        FILE_TEST(a_file_keeps_its_size_unless_its_content_can_move),
        FILE_TEST(its_content_moves_into_a_file_of_another_size),
        FILE_TEST(a_file_whose_content_does_not_fit_another_size_keeps_its_own),
        FILE_TEST(a_file_of_another_table_is_replaced_or_adopted_once_it_is_free),
        FILE_TEST(reading_needs_no_table_and_takes_no_lock),
        FILE_TEST(foreign_torn_and_newer_files_are_left_alone),
        FILE_TEST(a_size_out_of_range_is_refused),
        FILE_TEST(without_room_on_disk_nothing_is_left_behind),
        FILE_TEST(a_folder_that_cannot_be_written_is_named),
        FILE_TEST(a_file_that_is_cut_or_replaced_while_in_use_is_noticed),
        FILE_TEST(many_processes_make_one_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
