/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reported capacity for the rules in force: that number of keys live together,
 * and none is evicted or refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limiter/limiter.h"
#include "limiter/rulebook/reload.h"
#include "rules/report/report.h"
#include "rules/ruleset.h"

#define SECOND INT64_C(1000000000)
#define MEGABYTE UINT64_C(1000000)

static struct rn_ruleset *parse(const char *text)
{
    struct rn_report report;

    rn_report_init(&report);
    struct rn_ruleset *ruleset = rn_ruleset_parse(RN_SLICE("test"), rn_slice_of(text), &report);

    if (!ruleset)
        fail_msg("the rules of the test are faulty");
    rn_report_done(&report);
    return ruleset;
}

static struct ration *open_for(const char *text, uint64_t bytes, const char *path)
{
    struct rn_ruleset *ruleset = parse(text);
    struct ration *r = NULL;
    struct ration_error error;

    if (rn_limiter_open(&(struct ration_options){.memory_bytes = bytes, .state_path = path},
                        ruleset, &r, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(rn_reload_install(r, ruleset, ration_now(r), &(struct ration_error){0}), 0);
    return r;
}

static uint64_t key_of(uint64_t n)
{
    n = (n + 1) * UINT64_C(0x9E3779B97F4A7C15);
    n = (n ^ n >> 31) * UINT64_C(0xD6E8FEB86659FD93);
    return n ^ n >> 32;
}

/* Charges each of many keys so much that its state is as large as it gets. */
static void fill(struct ration *r, const struct rn_limit *limit, uint64_t first, uint64_t keys,
                 int64_t now)
{
    uint64_t cost = limit->algorithm == RATION_SLIDING_LOG ? limit->amount : 1;

    for (uint64_t i = first; i < first + keys; i++) {
        uint64_t times = limit->algorithm == RATION_CONCURRENCY ? limit->amount : 1;

        for (uint64_t n = 0; n < times; n++) {
            struct rn_charge c = {.limit = limit,
                                  .key = key_of(i),
                                  .ask = {.op = RN_TAKE,
                                          .now_ns = now,
                                          .cost = cost,
                                          .id = n + 1,
                                          .lease_ns = 100 * SECOND}};

            rn_store_apply(r->store, &c, 1);
            assert_int_equal(c.error, 0);
            assert_true(c.answer.allowed);
        }
    }
}

static struct ration_memory memory_of(struct ration *r, int64_t now)
{
    struct ration_memory memory;

    ration_memory(r, now, &memory);
    return memory;
}

static void expect_room(const char *text, uint64_t bytes, uint64_t keys)
{
    struct ration *r = open_for(text, bytes, NULL);
    const struct rn_limit *limit = &r->shelf.book->ruleset->limits[0]->limit;
    int64_t now = ration_now(r);

    if (rn_limiter_capacity(r) < keys)
        fail_msg("\"%s\" has room for %llu keys", text, (unsigned long long)rn_limiter_capacity(r));
    fill(r, limit, 0, keys, now);
    struct ration_memory memory = memory_of(r, now);

    assert_int_equal(memory.evictions, 0);
    assert_int_equal(memory.live, keys);
    assert_int_equal(memory.capacity, rn_limiter_capacity(r));
    ration_close(r);
}

#define RULE(limit, algorithm)                                                                     \
    "limits: [{name: a, key: address, limit: " limit ", algorithm: " algorithm "}]"

static void a_million_fixed_windows_fit_in_32_mb(void **state)
{
    (void)state;
    expect_room(RULE("100 per hour", "fixed-window"), 32 * MEGABYTE, 1000000);
}

static void a_hundred_thousand_full_logs_of_500_fit_in_120_mb(void **state)
{
    (void)state;
    expect_room(RULE("500 per hour", "sliding-log"), 120 * MEGABYTE, 100000);
}

/* Whatever the rule, filled to the reported capacity. */
static void the_reported_capacity_is_there(void **state)
{
    static const char *const rules[] = {
        RULE("100 per hour", "token-bucket"),
        RULE("100 per hour", "sliding-window"),
        RULE("5 per hour", "sliding-log"),
        RULE("77 per hour", "sliding-log"),
        RULE("1200 per hour", "sliding-log"),
        "limits: [{name: a, key: address, limit: 20 concurrent}]",
        ("limits: [{name: a, key: address, limit: 500 per hour, algorithm: sliding-log},"
         " {name: b, key: address, limit: 5 per hour}]"),
    };

    (void)state;
    for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct ration *r = open_for(rules[i], 4 * MEGABYTE, NULL);
        uint64_t capacity = rn_limiter_capacity(r);

        ration_close(r);
        assert_true(capacity > 100);
        expect_room(rules[i], 4 * MEGABYTE, capacity);
    }
}

static void keys_take_no_more_bytes_than_promised(void **state)
{
    static const struct {
        const char *rule;
        unsigned bytes;
    } promised[] = {{RULE("100 per hour", "token-bucket"), 24},
                    {RULE("100 per hour", "fixed-window"), 24},
                    {RULE("500 per hour", "sliding-log"), 1126}};

    (void)state;
    for (unsigned i = 0; i < sizeof promised / sizeof *promised; i++) {
        struct ration *r = open_for(promised[i].rule, 64 * MEGABYTE, NULL);

        if (64 * MEGABYTE / rn_limiter_capacity(r) > promised[i].bytes)
            fail_msg("%s: %llu keys", promised[i].rule, (unsigned long long)rn_limiter_capacity(r));
        ration_close(r);
    }
}

static void a_change_of_rules_changes_the_capacity_and_a_restart_divides_again(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    int fd = mkstemp(path);
    struct ration *r;
    uint64_t before, changed;

    (void)state;
    close(fd);
    unlink(path);
    r = open_for(RULE("500 per hour", "sliding-log"), 8 * MEGABYTE, path);
    before = rn_limiter_capacity(r);
    int64_t now = ration_now(r);

    fill(r, &r->shelf.book->ruleset->limits[0]->limit, 0, 1000, now);
    assert_int_equal(rn_reload_install(r, parse(RULE("5 per hour", "token-bucket")), now,
                                       &(struct ration_error){0}),
                     0);
    changed = rn_limiter_capacity(r);
    assert_true(changed >= before && changed < 2 * before);
    ration_close(r);
    /* what lives does not fit the new division yet: nothing is lost for it */
    r = open_for(RULE("5 per hour", "token-bucket"), 8 * MEGABYTE, path);
    assert_int_equal(rn_limiter_capacity(r), changed);
    assert_int_equal(memory_of(r, now).live, 1000);
    rn_table_clean(r->table, now + 7200 * SECOND);
    ration_close(r);
    r = open_for(RULE("5 per hour", "token-bucket"), 8 * MEGABYTE, path);
    assert_true(rn_limiter_capacity(r) > 300000);
    ration_close(r);
    /* a process without limits leaves it as it is */
    assert_int_equal(ration_open(&(struct ration_options){.state_path = path}, &r, NULL), 0);
    assert_true(memory_of(r, now).capacity > 300000);
    ration_close(r);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_fixed_windows_fit_in_32_mb),
        cmocka_unit_test(a_hundred_thousand_full_logs_of_500_fit_in_120_mb),
        cmocka_unit_test(the_reported_capacity_is_there),
        cmocka_unit_test(keys_take_no_more_bytes_than_promised),
        cmocka_unit_test(a_change_of_rules_changes_the_capacity_and_a_restart_divides_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
