/* SPDX-License-Identifier: Apache-2.0 */
/* Slots as a real cluster numbers them (CLUSTER KEYSLOT of Redis 7), redirections, and replies to
 * CLUSTER SLOTS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "redis/cluster/hash_slot.h"

static void names_have_the_slots_of_the_specification(void **state)
{
    static const struct {
        const char *name;
        unsigned slot;
    } rows[] = {
        {"123456789", 0x31c3},
        {"foo", 12182},
        {"bar", 5061},
        {"hello", 866},
        {"", 0},
        {"{user1000}.following", 3443},
        {"{user1000}.followers", 3443},
        {"user1000", 3443},
        {"foo{}{bar}", 8363},
        {"foo{{bar}}zap", 4015},
        {"{bar", 4015},
        {"foo{bar}{zap}", 5061},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rn_hash_slot_of(rn_slice_of(rows[i].name)) != rows[i].slot)
            fail_msg("%s has slot %u", rows[i].name, rn_hash_slot_of(rn_slice_of(rows[i].name)));
}

static void errors_say_whether_to_go_elsewhere(void **state)
{
    static const struct {
        const char *error;
        enum rn_redirect_kind kind;
        unsigned slot;
        const char *address;
    } rows[] = {
        {"MOVED 3999 127.0.0.1:6381", RN_REDIRECT_MOVED, 3999, "127.0.0.1:6381"},
        {"ASK 0 node-3.example:7", RN_REDIRECT_ASK, 0, "node-3.example:7"},
        {"MOVED 16383 ::1:7000", RN_REDIRECT_MOVED, 16383, "[::1]:7000"},
        {"MOVED 5 :7000", RN_REDIRECT_MOVED, 5, ":7000"},
        {"MOVED 16384 a:1", RN_REDIRECT_FAILED, 0, ""},
        {"MOVED -1 a:1", RN_REDIRECT_FAILED, 0, ""},
        {"MOVED 1 a:0", RN_REDIRECT_FAILED, 0, ""},
        {"MOVED 1 a:65536", RN_REDIRECT_FAILED, 0, ""},
        {"MOVED 1 a:1x", RN_REDIRECT_FAILED, 0, ""},
        {"MOVED 1 a", RN_REDIRECT_FAILED, 0, ""},
        {"MOVED ", RN_REDIRECT_FAILED, 0, ""},
        {"ASKED 1 a:1", RN_REDIRECT_FAILED, 0, ""},
        {"TRYAGAIN Multiple keys request during rehashing of slot", RN_REDIRECT_TRY_AGAIN, 0, ""},
        {"CLUSTERDOWN The cluster is down", RN_REDIRECT_NO_OWNER, 0, ""},
        {"READONLY You can't write against a read only replica.", RN_REDIRECT_NOT_HERE, 0, ""},
        {"LOADING Redis is loading the dataset in memory", RN_REDIRECT_NOT_HERE, 0, ""},
        {"MASTERDOWN Link with MASTER is down", RN_REDIRECT_NOT_HERE, 0, ""},
        {"BUSY Redis is busy running a script.", RN_REDIRECT_NOT_NOW, 0, ""},
        {"NOSCRIPT No matching script.", RN_REDIRECT_NO_SCRIPT, 0, ""},
        {"ERR value is not an integer", RN_REDIRECT_FAILED, 0, ""},
        {"CROSSSLOT Keys in request don't hash to the same slot", RN_REDIRECT_FAILED, 0, ""},
        {"", RN_REDIRECT_FAILED, 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rn_redirect verdict;

        rn_redirect_parse(rows[i].error, &verdict);
        if (verdict.kind != rows[i].kind)
            fail_msg("%s", rows[i].error);
        if (verdict.kind != RN_REDIRECT_FAILED) {
            assert_int_equal(verdict.slot, rows[i].slot);
            assert_string_equal(verdict.address, rows[i].address);
        }
    }
}

static void a_server_without_a_host_gets_that_of_the_server_that_replied(void **state)
{
    char address[RN_URL_ADDRESS] = ":7001", whole[RN_URL_ADDRESS] = "b:1";

    (void)state;
    rn_redirect_complete(address, "[::1]:7000");
    assert_string_equal(address, "[::1]:7001");
    rn_redirect_complete(whole, "a:7000");
    assert_string_equal(whole, "b:1");
}

/* --- CLUSTER SLOTS ------------------------------------------------------------------ */

static char seen[512];

static void note_range(void *arg, const struct rn_hash_slot_range *range)
{
    size_t len = strlen(seen);

    (void)arg;
    snprintf(seen + len, sizeof seen - len, "%u-%u %s;", range->first, range->last, range->address);
}

static void note_replica(void *arg, const char *address)
{
    size_t len = strlen(seen);

    (void)arg;
    snprintf(seen + len, sizeof seen - len, "r %s;", address);
}

static bool reads(const char *text)
{
    const struct rn_hash_slot_visit visit = {.range = note_range, .replica = note_replica};
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    seen[0] = '\0';
    assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    bool read = rn_hash_slot_read_map(reply, "10.0.0.9:7000", &visit);
    freeReplyObject(reply);
    redisReaderFree(reader);
    return read;
}

static void the_map_of_a_cluster_is_read(void **state)
{
    (void)state;
    assert_true(reads("*2\r\n"
                      "*4\r\n:0\r\n:5460\r\n*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$1\r\nx\r\n"
                      "*4\r\n$8\r\n10.0.0.2\r\n:7003\r\n$1\r\ny\r\n*0\r\n"
                      "*3\r\n:5461\r\n:16383\r\n*2\r\n$-1\r\n:7001\r\n"));
    assert_string_equal(seen, "0-5460 10.0.0.1:7000;r 10.0.0.2:7003;5461-16383 10.0.0.9:7001;");
}

static void a_malformed_slot_map_is_refused(void **state)
{
    static const char *const rows[] = {
        "*0\r\n",
        ":1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:5\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:6\r\n:5\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n$1\r\na\r\n:0\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*2\r\n:7\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:5\r\n*1\r\n$1\r\na\r\n",
        "*1\r\n*4\r\n:0\r\n:5\r\n*2\r\n$1\r\na\r\n:1\r\n:9\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (reads(rows[i]))
            fail_msg("%zu: %s", i, seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_the_slots_of_the_specification),
        cmocka_unit_test(errors_say_whether_to_go_elsewhere),
        cmocka_unit_test(a_server_without_a_host_gets_that_of_the_server_that_replied),
        cmocka_unit_test(the_map_of_a_cluster_is_read),
        cmocka_unit_test(a_malformed_slot_map_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
