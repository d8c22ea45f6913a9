/* SPDX-License-Identifier: Apache-2.0 */
/* Where Redis is, as people write it, and what they are told when it is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "redis/url.h"

static void all_parts_are_read(void **state)
{
    static const struct {
        const char *text, *address, *user, *password;
        unsigned db;
    } rows[] = {
        {"redis://localhost", "localhost:6379", "", "", 0},
        {"redis://localhost/", "localhost:6379", "", "", 0},
        {"redis://10.0.0.1:7000/15", "10.0.0.1:7000", "", "", 15},
        {"redis://:secret@h", "h:6379", "", "secret", 0},
        {"redis://alice:p%40ss%3a@h:1/2", "h:1", "alice", "p@ss:", 2},
        {"redis://alice:a@b@h:1", "h:1", "alice", "a@b", 0},
        {"redis://[::1]", "[::1]:6379", "", "", 0},
        {"redis://[::1]:6380/1", "[::1]:6380", "", "", 1},
        {"redis+unix:///run/redis.sock", "unix:/run/redis.sock", "", "", 0},
        {"redis+unix:///run/redis.sock?db=3", "unix:/run/redis.sock", "", "", 3},
        {"redis+unix://bob:pw@/run/r@1.sock", "unix:/run/r@1.sock", "bob", "pw", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rn_url url;

        assert_int_equal(rn_url_parse(rows[i].text, &url, NULL), 0);
        assert_string_equal(url.address, rows[i].address);
        assert_string_equal(url.user, rows[i].user);
        assert_string_equal(url.password, rows[i].password);
        assert_int_equal(url.db, rows[i].db);
    }
}

static void what_is_wrong_is_told_without_the_password(void **state)
{
    static const struct {
        const char *text, *told;
    } rows[] = {
        {"localhost:6379", "not the address of a Redis"},
        {"rediss://localhost", "not the address of a Redis"},
        {"", "not the address of a Redis"},
        {"redis://", "no host"},
        {"redis://:6379", "no host"},
        {"redis://:hidden@", "no host"},
        {"redis://unix:1", "a host called unix"},
        {"redis://unix", "a host called unix"},
        {"redis://hidden@host", "a user without a password"},
        {"redis://alice:@host", "an empty password"},
        {"redis://alice:hidden%4@host", "two hexadecimal digits do not follow"},
        {"redis://alice:hidden%zz@host", "two hexadecimal digits do not follow"},
        {"redis://alice:hidden%00@host", "two hexadecimal digits do not follow"},
        {"redis://host/one", "a database that is not a number"},
        {"redis://host/99999999999999999999", "a database that is not a number"},
        {"redis://host/1/2", "a database that is not a number"},
        {"redis://host?db=1", "options, which only redis+unix:// has"},
        {"redis+unix://run/redis.sock", "without an absolute path"},
        {"redis+unix:///", "without an absolute path"},
        {"redis+unix:///run/s?base=1", "an option that is not ?db="},
        {"redis+unix:///run/s?db=", "a database that is not a number"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ration_error error = {0};
        struct rn_url url;

        assert_int_equal(rn_url_parse(rows[i].text, &url, &error), RATION_EPARSE);
        if (!strstr(error.text, rows[i].told))
            fail_msg("%s: %s", rows[i].text, error.text);
        assert_non_null(strstr(error.text, "; write redis://"));
        assert_null(strstr(error.text, "hidden"));
    }
}

static void long_words_are_refused_and_not_cut(void **state)
{
    char text[2048], word[600];
    struct rn_url url;

    (void)state;
    memset(word, 'x', sizeof word);
    word[255] = '\0';
    snprintf(text, sizeof text, "redis://:%s@h", word);
    assert_int_equal(rn_url_parse(text, &url, NULL), 0);
    assert_int_equal(strlen(url.password), 255);
    word[255] = 'x';
    word[256] = '\0';
    snprintf(text, sizeof text, "redis://:%s@h", word);
    assert_int_equal(rn_url_parse(text, &url, NULL), RATION_EPARSE);
    snprintf(text, sizeof text, "redis://%s", word);
    assert_int_equal(rn_url_parse(text, &url, NULL), RATION_EPARSE);
    snprintf(text, sizeof text, "redis+unix:///%s%s", word, word);
    assert_int_equal(rn_url_parse(text, &url, NULL), RATION_EPARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_are_read),
        cmocka_unit_test(what_is_wrong_is_told_without_the_password),
        cmocka_unit_test(long_words_are_refused_and_not_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
