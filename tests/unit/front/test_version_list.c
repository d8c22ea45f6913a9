/* SPDX-License-Identifier: Apache-2.0 */
/* Files of versions whose records are sound, and say what no rationd has written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "front/admin/version_list.h"

#define FILE_ID 77
#define VERSION 101
#define PIECE 102
#define TEXT "limits: []"

static char path[64];
static struct rn_version_list list;

static int begin(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ration-versions-%ld", (long)getpid());
    return 0;
}

static int end(void **state)
{
    (void)state;
    rn_version_list_done(&list);
    unlink(path);
    return 0;
}

/* Opens a file with one version of this text: its head is as given. */
static void open_with(const char *head)
{
    uint64_t id = 4;
    char piece[sizeof id + sizeof TEXT];
    struct rn_buf bytes = {0};

    memcpy(piece, &id, sizeof id);
    memcpy(piece + sizeof id, TEXT, sizeof TEXT);
    rn_journal_put_header(&bytes, FILE_ID);
    rn_journal_put_record(
        &bytes, FILE_ID,
        &(struct rn_record){.kind = VERSION, .sequence = 1, .payload = rn_slice_of(head)});
    rn_journal_put_record(&bytes, FILE_ID,
                          &(struct rn_record){.kind = PIECE,
                                              .sequence = 2,
                                              .payload = {piece, sizeof id + sizeof TEXT - 1}});
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0 && write(fd, bytes.data, bytes.len) == (ssize_t)bytes.len);
    close(fd);
    rn_buf_done(&bytes);
    rn_version_list_open(&list, path);
}

static void add(uint64_t digest)
{
    rn_version_list_add(&list, &(struct rn_version){.made_us = 1, .digest = digest},
                        RN_SLICE(TEXT));
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    open_with("{\"id\":4,\"made_us\":1700000000000000,\"how\":\"put\",\"by\":\"x\",\"digest\":9,"
              "\"bytes\":10,\"rules\":0,\"text\":10}");
    assert_int_equal(list.count, 1);
    assert_true(rn_slice_is(rn_buf_slice(&list.items[0].text), TEXT));
    assert_int_equal(list.items[0].made_us, 1700000000000000);
    add(10);
    assert_int_equal(list.in_force, 5);
}

/* Later ids must be greater, also after a restart. */
static void an_id_after_which_there_is_none_is_left_out(void **state)
{
    (void)state;
    open_with("{\"id\":18446744073709551615,\"made_us\":1,\"digest\":9,\"text\":0}");
    assert_int_equal(list.count, 0);
    add(10);
    add(11);
    assert_int_equal(list.in_force, 2);
    rn_version_list_done(&list);
    rn_version_list_open(&list, path);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.last_id, 2);
}

/* It is shown in seconds, and calculated with in nanoseconds. */
static void a_time_beyond_all_is_left_out(void **state)
{
    static const char *const times[] = {"9223372036854776", "9223372036854775807",
                                        "18446744073709551615"};
    char head[128];

    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        snprintf(head, sizeof head, "{\"id\":4,\"made_us\":%s,\"digest\":9,\"text\":10}", times[i]);
        open_with(head);
        assert_int_equal(list.count, 0);
        rn_version_list_done(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(what_was_written_is_read),
        TEST(an_id_after_which_there_is_none_is_left_out),
        TEST(a_time_beyond_all_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
