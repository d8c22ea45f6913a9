/* SPDX-License-Identifier: Apache-2.0 */
/* A database is replaced while threads decide by it; a damaged one leaves it in use. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <ration/rules.h>

#define THREADS 3
#define ROUNDS 20

static char folder[] = "/tmp/ration-databases-XXXXXX", path[64], beside[64];
static char original[8192];
static size_t original_len;

static void put(const char *bytes, size_t len)
{
    FILE *file = fopen(beside, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(beside, path), 0);
}

/* The example, where the code of Italy is another one. */
static void put_with(const char code[3])
{
    char bytes[sizeof original];

    memcpy(bytes, original, original_len);
    for (size_t i = 0; i + 3 <= original_len; i++)
        if (memcmp(bytes + i, "\x42IT", 3) == 0) /* a text of two letters */
            memcpy(bytes + i + 1, code, 2);
    put(bytes, original_len);
}

static struct ration *open_limiter(void)
{
    struct ration_report *report = NULL;
    struct ration *r;
    char rules[512];

    int len = snprintf(rules, sizeof rules,
                       "attributes: {country: {geo: country, database: %s}}\n"
                       "limits:\n"
                       "  - name: api\n"
                       "    key: ip\n"
                       "    limit: {by: country, IT: 1000000 per second, GB: 2000000 per second}\n",
                       path);
    assert_int_equal(ration_open(&(struct ration_options){.memory_bytes = 1 << 20}, &r, NULL), 0);
    if (ration_rules_parse(r, "rules", rules, (size_t)len, &report) != 0)
        fail_msg("%s", ration_report_text(report));
    ration_report_free(report);
    return r;
}

static uint64_t limit_of(struct ration *r)
{
    const struct ration_attribute ip = {"ip", 2, "5.1.0.7", 7};
    struct ration_outcome out;

    assert_int_equal(
        ration_decide(r, &(struct ration_request){.attributes = &ip, .count = 1}, RATION_NOW, &out),
        0);
    return out.decision.verdict.limit;
}

struct news {
    unsigned loaded, failed;
    char problem[RATION_DATABASE_PROBLEM];
};

static void note(void *arg, const struct ration_database *database)
{
    struct news *news = arg;

    assert_string_equal(database->path, path);
    *(database->problem[0] == '\0' ? &news->loaded : &news->failed) += 1;
    memcpy(news->problem, database->problem, sizeof news->problem);
}

static struct news wait_for_news(struct ration *r)
{
    struct news news = {0};

    while (news.loaded + news.failed == 0) {
        ration_databases_refresh(r, note, &news);
        sched_yield();
    }
    return news;
}

static bool stop;

static void *decide(void *arg)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t limit = limit_of(arg);

        if (limit != 1000000 && limit != 2000000)
            abort();
    }
    return NULL;
}

static void a_database_is_replaced_while_threads_decide(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    put_with("IT");
    struct ration *r = open_limiter();

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, decide, r), 0);
    for (int i = 0; i < ROUNDS; i++) {
        bool italy = i % 2 == 1;

        put_with(italy ? "IT" : "GB");
        assert_int_equal(wait_for_news(r).loaded, 1);
        assert_int_equal(limit_of(r), italy ? 1000000 : 2000000);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ration_close(r);
}

static int count(void *arg, const struct ration_database *database)
{
    *(struct ration_database *)arg = *database;
    return 0;
}

static void a_damaged_file_leaves_the_former_one_in_use(void **state)
{
    struct ration_database last;

    (void)state;
    put_with("IT");
    struct ration *r = open_limiter();

    put(original, original_len / 2);
    struct news news = wait_for_news(r);

    assert_int_equal(news.failed, 1);
    assert_non_null(strstr(news.problem, "metadata"));
    assert_int_equal(limit_of(r), 1000000);
    assert_int_equal(unlink(path), 0);
    news = wait_for_news(r);
    assert_int_equal(news.failed, 1);
    assert_non_null(strstr(news.problem, "No such file"));
    assert_int_equal(limit_of(r), 1000000);
    ration_databases_each(r, count, &last);
    assert_int_equal(last.failures, 2);
    assert_int_not_equal(last.problem[0], '\0');
    put_with("GB");
    assert_int_equal(wait_for_news(r).loaded, 1);
    assert_int_equal(limit_of(r), 2000000);
    ration_close(r);
}

static void two_limiters_share_a_file_and_each_gets_the_new_one(void **state)
{
    struct news news = {0};

    (void)state;
    put_with("IT");
    struct ration *a = open_limiter(), *b = open_limiter();

    put_with("GB");
    wait_for_news(a);
    assert_int_equal(limit_of(a), 2000000);
    ration_databases_refresh(b, note, &news); /* it is read already */
    assert_int_equal(limit_of(b), 2000000);
    ration_close(a);
    assert_int_equal(limit_of(b), 2000000);
    ration_close(b);
}

static int set_up(void **state)
{
    FILE *file = fopen(TESTS_DIR "/rules/networks.mmdb", "rb");

    (void)state;
    assert_non_null(file);
    original_len = fread(original, 1, sizeof original, file);
    assert_true(original_len > 0 && original_len < sizeof original);
    fclose(file);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/n.mmdb", folder);
    snprintf(beside, sizeof beside, "%s/new", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_database_is_replaced_while_threads_decide),
        cmocka_unit_test(a_damaged_file_leaves_the_former_one_in_use),
        cmocka_unit_test(two_limiters_share_a_file_and_each_gets_the_new_one),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
