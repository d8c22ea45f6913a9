/* SPDX-License-Identifier: Apache-2.0 */
/* URLs of Redis, and the errors for wrong ones. */
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
        assert_int_equal(url.host_count, 1);
        assert_string_equal(url.hosts[0], rows[i].address);
        assert_string_equal(url.user, rows[i].user);
        assert_string_equal(url.password, rows[i].password);
        assert_int_equal(url.db, rows[i].db);
    }
}

static void clusters_and_sentinels_have_several_hosts(void **state)
{
    struct rn_url url;

    (void)state;
    assert_int_equal(rn_url_parse("redis+cluster://u:p@a:7000,b,[::1]:7,[::2]", &url, NULL), 0);
    assert_int_equal(url.kind, RN_URL_CLUSTER);
    assert_int_equal(url.host_count, 4);
    assert_string_equal(url.hosts[0], "a:7000");
    assert_string_equal(url.hosts[1], "b:6379");
    assert_string_equal(url.hosts[2], "[::1]:7");
    assert_string_equal(url.hosts[3], "[::2]:6379");
    assert_string_equal(url.password, "p");
    assert_false(url.tls);

    assert_int_equal(rn_url_parse("redis+sentinel://:p@a,b:1/my%2fmaster/2?sentinel_user=s&"
                                  "sentinel_password=q%26",
                                  &url, NULL),
                     0);
    assert_int_equal(url.kind, RN_URL_SENTINEL);
    assert_string_equal(url.hosts[0], "a:26379");
    assert_string_equal(url.hosts[1], "b:1");
    assert_string_equal(url.master, "my/master");
    assert_int_equal(url.db, 2);
    assert_string_equal(url.asker, "s");
    assert_string_equal(url.asker_password, "q&");
}

static void tls_has_files_and_a_level_of_verification(void **state)
{
    struct rn_url url;

    (void)state;
    assert_int_equal(rn_url_parse("rediss://h", &url, NULL), 0);
    assert_true(url.tls && url.verify == RN_URL_VERIFY_NAME && url.ca[0] == '\0');
    assert_int_equal(
        rn_url_parse("rediss://h:1/3?ca=/etc/ca.pem&cert=/c%20d&key=/k&verify=ca", &url, NULL), 0);
    assert_string_equal(url.ca, "/etc/ca.pem");
    assert_string_equal(url.cert, "/c d");
    assert_string_equal(url.key, "/k");
    assert_int_equal(url.verify, RN_URL_VERIFY_CA);
    assert_int_equal(url.db, 3);
    assert_int_equal(rn_url_parse("rediss+cluster://a,b?verify=no", &url, NULL), 0);
    assert_true(url.tls && url.kind == RN_URL_CLUSTER && url.verify == RN_URL_VERIFY_NOT);
    assert_int_equal(rn_url_parse("rediss+sentinel://a,b/m", &url, NULL), 0);
    assert_true(url.tls && url.kind == RN_URL_SENTINEL);
}

static void an_error_names_the_fault_and_not_the_password(void **state)
{
    static const struct {
        const char *text, *told;
    } rows[] = {
        {"localhost:6379", "not the URL of a Redis"},
        {"redis+tls://localhost", "not the URL of a Redis"},
        {"", "not the URL of a Redis"},
        {"redis://", "no host"},
        {"redis://:6379", "no host"},
        {"redis://:hidden@", "no host"},
        {"redis://unix:1", "a host called unix"},
        {"redis://unix", "a host called unix"},
        {"redis://hidden@host", "a user without a password"},
        {"redis://alice:@host", "an empty password"},
        {"redis://alice:hidden%4@host", "a % without two hexadecimal digits"},
        {"redis://alice:hidden%zz@host", "a % without two hexadecimal digits"},
        {"redis://alice:hidden%00@host", "a % without two hexadecimal digits"},
        {"redis://host/one", "a database that is not a number"},
        {"redis://host/99999999999999999999", "a database that is not a number"},
        {"redis://host/1/2", "a database that is not a number"},
        {"redis://host?db=1", "an unknown option for this kind of URL"},
        {"redis://host?ca=/x", "an unknown option for this kind of URL"},
        {"redis://host#1", "a #"},
        {"redis://a,b", "several hosts: only a cluster or Sentinel has them"},
        {"redis+cluster://a,,b", "no host"},
        {"redis+cluster://a,b,", "no host"},
        {"redis+cluster://a,b/3", "a database in a cluster"},
        {"redis+cluster://a?sentinel_user=b", "an unknown option for this kind of URL"},
        {"redis+cluster://:hidden@a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "more than 16 hosts"},
        {"redis+sentinel://a,b", "Sentinel without the name of a master"},
        {"redis+sentinel://a,b/", "Sentinel without the name of a master"},
        {"redis+sentinel://a/m/x", "a database that is not a number"},
        {"redis+sentinel://a/m?sentinel_user=u", "a user of Sentinel without a password"},
        {"redis+sentinel://a/m?sentinel_password=hidden%f", "two hexadecimal digits"},
        {"rediss://a?cert=/x", "a certificate without its key"},
        {"rediss://a?key=/x", "a key without its certificate"},
        {"rediss://a?ca=", "an option without a value"},
        {"rediss://a?verify=perhaps", "verify= takes yes, ca or no"},
        {"rediss://a?ca=/x&b=1", "an unknown option for this kind of URL"},
        {"redis+unix://run/redis.sock", "without an absolute path"},
        {"redis+unix:///", "without an absolute path"},
        {"redis+unix:///run/s?base=1", "an unknown option for this kind of URL"},
        {"redis+unix:///run/s?db=x", "a database that is not a number"},
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
        cmocka_unit_test(clusters_and_sentinels_have_several_hosts),
        cmocka_unit_test(tls_has_files_and_a_level_of_verification),
        cmocka_unit_test(an_error_names_the_fault_and_not_the_password),
        cmocka_unit_test(long_words_are_refused_and_not_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
