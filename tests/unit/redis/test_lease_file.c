/* SPDX-License-Identifier: Apache-2.0 */
/* The lease file as the next process finds it: whole, torn, of another boot, or still locked. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "redis/leased/lease_file.h"

#define HOLDER 4711

static char folder[] = "/tmp/ration-leases-XXXXXX", path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static const struct rn_lease_what what = {.script = RN_SCRIPT_LEASE_WINDOW,
                                          .name = {"ration:{464}:W:0123456789abcdef", 31},
                                          .params = {"limit", 5}};

/* 40 were granted by call 3; 15 of them are spent. */
static void hold(struct rn_lease_record *record)
{
    struct rn_lease h = {.units = 40, .known = 40, .ends_us = 1000, .mark = 77};

    rn_lease_file_name(record, HOLDER, &what);
    rn_lease_file_note(record, &h, 3);
    rn_lease_file_spent(record, 25);
}

static struct rn_lease_file open_with_one(unsigned at)
{
    struct ration_error error;
    struct rn_lease_file file;

    assert_int_equal(rn_lease_file_open(path, HOLDER, &file, &error), 0);
    hold(&file.records[at]);
    return file;
}

/* Runs what leaves a part behind in a process that is killed. */
static void in_a_killed_process(void (*leave)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        leave();
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void leave_one(void)
{
    open_with_one(9);
}

static void what_a_killed_holder_had_not_spent_is_found_once(void **state)
{
    struct rn_lease_file found;
    struct rn_lease_record record;

    (void)state;
    in_a_killed_process(leave_one);
    assert_true(rn_lease_file_find(path, &found));
    assert_int_equal(found.holder, HOLDER);
    assert_true(rn_lease_file_take(&found.records[9], found.holder, &record));
    assert_int_equal(record.units, 25);
    assert_int_equal(record.known, 40);
    assert_int_equal(record.call, 3);
    assert_int_equal(record.ends_us, 1000);
    assert_int_equal(record.mark, 77);
    assert_memory_equal(record.name, what.name.data, what.name.len);
    assert_false(rn_lease_file_take(&found.records[9], found.holder, &record));
    rn_lease_file_close(&found);
    assert_false(rn_lease_file_find(path, &found));
}

static void what_could_not_be_sent_is_found_again(void **state)
{
    struct rn_lease_file found;
    struct rn_lease_record record;

    (void)state;
    in_a_killed_process(leave_one);
    assert_true(rn_lease_file_find(path, &found));
    assert_true(rn_lease_file_take(&found.records[9], found.holder, &record));
    rn_lease_file_put_back(&found.records[9], &record);
    rn_lease_file_close(&found);
    assert_true(rn_lease_file_find(path, &found));
    assert_true(rn_lease_file_take(&found.records[9], found.holder, &record));
    assert_int_equal(record.units, 25);
    rn_lease_file_close(&found);
}

static void the_part_of_a_living_holder_is_left_alone(void **state)
{
    struct rn_lease_file one = open_with_one(0), other = open_with_one(1), found;

    (void)state;
    assert_ptr_not_equal(one.records, other.records);
    assert_int_equal(other.records[0].state, RN_RECORD_EMPTY);
    assert_false(rn_lease_file_find(path, &found));
    rn_lease_file_close(&one);
    assert_true(rn_lease_file_find(path, &found)); /* it stopped without giving back */
    rn_lease_file_close(&found);
    rn_lease_file_clear(&other.records[1]);
    rn_lease_file_close(&other);
}

static void a_new_holder_does_not_take_a_part_that_something_is_left_in(void **state)
{
    struct ration_error error;
    struct rn_lease_file file, found;
    struct stat st;

    (void)state;
    in_a_killed_process(leave_one);
    assert_int_equal(rn_lease_file_open(path, 1, &file, &error), 0);
    assert_true(rn_lease_file_find(path, &found));
    assert_int_equal(found.holder, HOLDER);
    rn_lease_file_clear(&found.records[9]);
    rn_lease_file_close(&found);
    rn_lease_file_close(&file);
    assert_int_equal(rn_lease_file_open(path, 2, &file, &error), 0);
    rn_lease_file_close(&file);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 2 * 1024 * 1024); /* parts are used again */
}

static void a_record_that_was_being_changed_is_void(void **state)
{
    struct rn_lease_record r = {0}, out;

    (void)state;
    hold(&r);
    r.state = RN_RECORD_CHANGING;
    assert_false(rn_lease_file_take(&r, HOLDER, &out));
    hold(&r);
    assert_false(rn_lease_file_take(&r, HOLDER + 1, &out));
    hold(&r);
    r.name[3] ^= 1;
    assert_false(rn_lease_file_take(&r, HOLDER, &out));
    hold(&r);
    r.units = r.known + 1;
    assert_false(rn_lease_file_take(&r, HOLDER, &out));
    hold(&r);
    assert_true(rn_lease_file_take(&r, HOLDER, &out));
}

/* Overwrites bytes of the file. */
static void write_at(off_t at, const char *bytes)
{
    int fd = open(path, O_WRONLY);

    assert_int_equal(pwrite(fd, bytes, strlen(bytes), at), strlen(bytes));
    close(fd);
}

static void a_part_of_another_boot_is_void(void **state)
{
    struct rn_lease_file found;

    (void)state;
    in_a_killed_process(leave_one);
    write_at(24, "another boot");
    assert_false(rn_lease_file_find(path, &found));
}

static void a_file_of_another_kind_is_left_alone(void **state)
{
    struct ration_error error;
    struct rn_lease_file file;
    char bytes[9] = {0};
    int fd = open(path, O_RDWR | O_CREAT, 0600);

    (void)state;
    assert_int_equal(write(fd, "somebody", 8), 8);
    assert_int_equal(ftruncate(fd, 2 * 1024 * 1024), 0);
    assert_int_equal(rn_lease_file_open(path, HOLDER, &file, &error), RATION_EIO);
    assert_non_null(strstr(error.text, "not a lease file; it was left alone"));
    assert_int_equal(file.fd, -1); /* and in memory it goes on */
    hold(&file.records[0]);
    rn_lease_file_close(&file);
    assert_int_equal(pread(fd, bytes, 8, 0), 8);
    assert_string_equal(bytes, "somebody");
    close(fd);
}

static void
what_is_late_is_not_spent_and_a_lost_call_does_not_hide_when_the_lease_ends(void **state)
{
    struct rn_lease h = {.units = 0, .late = 10, .known = 10, .in_flight = true, .mark = 1};
    struct rn_lease_what bucket = what;
    struct rn_lease_record r = {0};

    (void)state;
    bucket.script = RN_SCRIPT_LEASE_BUCKET;
    rn_lease_file_name(&r, HOLDER, &bucket);
    r.ends_us = 500;
    rn_lease_file_note(&r, &h, 4);
    assert_int_equal(r.units, 10);
    assert_int_equal(r.ends_us, 500);
    assert_int_equal(r.mark, 500); /* of a bucket: when it counts as spent */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_a_killed_holder_had_not_spent_is_found_once, remove_file),
        cmocka_unit_test_teardown(what_could_not_be_sent_is_found_again, remove_file),
        cmocka_unit_test_teardown(the_part_of_a_living_holder_is_left_alone, remove_file),
        cmocka_unit_test_teardown(a_new_holder_does_not_take_a_part_that_something_is_left_in,
                                  remove_file),
        cmocka_unit_test(a_record_that_was_being_changed_is_void),
        cmocka_unit_test_teardown(a_part_of_another_boot_is_void, remove_file),
        cmocka_unit_test_teardown(a_file_of_another_kind_is_left_alone, remove_file),
        cmocka_unit_test(
            what_is_late_is_not_spent_and_a_lost_call_does_not_hide_when_the_lease_ends),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
