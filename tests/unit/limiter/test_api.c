/* SPDX-License-Identifier: Apache-2.0 */
/* Every public function once as it is meant and once as it is not. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { API, LOG, PLACES, WATCHED, FREE };

static struct ration *open_some(void)
{
    const struct ration_named limits[] = {
        [API] = named("api", "10 per second"),
        [LOG] = with(named("log", "5 per 10s"), RATION_SLIDING_LOG),
        [PLACES] = named("places", "2 concurrent"),
        [WATCHED] = flagged(named("watched", "1 per minute"), RATION_SHADOW),
        [FREE] = named("free", "unlimited"),
    };

    return open_limits(limits, COUNT(limits));
}

/* --- opening --------------------------------------------------------------- */

static void expect_refused(struct ration_options options, const char *text)
{
    struct ration *r = NULL;
    struct ration_error error;

    assert_int_equal(ration_open(&options, &r, &error), RATION_EINVAL);
    assert_int_equal(error.code, RATION_EINVAL);
    assert_string_equal(error.text, text);
    assert_null(r);
    assert_int_equal(ration_open(&options, &r, NULL), RATION_EINVAL);
}

static void a_faulty_limit_is_named_with_its_fault(void **state)
{
    struct ration_named limits[] = {named("good", "1 per second"), named("bad", "1 per second")};

    (void)state;
    limits[1].limit.queue = 3;
    expect_refused((struct ration_options){.limits = limits, .limit_count = 2},
                   "limit \"bad\": a queue without a leaky bucket; only algorithm leaky-bucket has "
                   "one");
}

static void limits_need_names_and_known_flags(void **state)
{
    struct ration_named limit = named("", "1 per second");
    struct ration_options options = {.limits = &limit, .limit_count = 1};

    (void)state;
    expect_refused(options, "limit 0 has no name; give it one");
    limit.name = NULL;
    expect_refused(options, "limit 0 has no name; give it one");
    limit = flagged(named("odd", "1 per second"), 8);
    expect_refused(options, "limit \"odd\": flags 0x8; there are only RATION_SHADOW, RATION_KEEP "
                            "and RATION_EVICT_LAST");
    options.limits = NULL;
    expect_refused(options, "1 limits, but no list of that length");
}

static void too_little_memory_is_refused(void **state)
{
    (void)state;
    expect_refused((struct ration_options){.memory_bytes = 4096},
                   "4096 bytes of memory; give at least 1048576");
}

static void a_limiter_without_limits_serves_those_given_per_call(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_limit log = with(named("", "2 per minute"), RATION_SLIDING_LOG).limit;
    struct ration_charge c = {.ad_hoc = &log, .key = "k", .key_len = 1, .cost = 2};

    (void)state;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_true(c.verdict.allowed);
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_false(c.verdict.allowed);
    ration_close(r);
    ration_close(NULL);
}

/* --- taking ---------------------------------------------------------------- */

static void a_take_answers_with_all_numbers_for_the_client(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(API, "me", 4);

    (void)state;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_true(c.verdict.allowed);
    assert_int_equal(c.verdict.limit, 10);
    assert_int_equal(c.verdict.remaining, 6);
    assert_int_equal(c.verdict.retry_after_ns, 0);
    assert_int_equal(c.verdict.reset_after_ns, SECOND * 4 / 10);
    assert_int_equal(c.verdict.delay_ns, 0);
    assert_int_equal(c.error, 0);
    assert_int_equal(c.taken, 4);
    assert_int_equal(c.at_ns, T0);
    assert_int_equal(c.hash, ration_hash(r, API, "me", 2));

    c.cost = 7;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_false(c.verdict.allowed);
    assert_int_equal(c.verdict.remaining, 6);
    assert_int_equal(c.verdict.retry_after_ns, SECOND / 10);
    assert_int_equal(c.taken, 0);

    c.cost = 11;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(c.verdict.retry_after_ns, RATION_NEVER);
    ration_close(r);
}

static void a_cost_of_nothing_looks(void **state)
{
    struct ration *r = open_some();

    (void)state;
    assert_true(take(r, API, "me", 0, T0));
    assert_int_equal(left(r, API, "me", T0), 10);
    ration_close(r);
}

static void an_unknown_limit_is_an_error_and_nothing_else_changes(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(99, "me", 1), was = c;
    int64_t age;

    (void)state;
    was.error = RATION_EINVAL;
    assert_int_equal(ration_take(r, &c, T0), RATION_EINVAL);
    assert_memory_equal(&c, &was, sizeof c);
    assert_int_equal(ration_peek(r, &c, T0), RATION_EINVAL);
    assert_int_equal(ration_oldest(r, &c, T0, &age), RATION_EINVAL);
    assert_int_equal(ration_reset(r, &c, T0), RATION_EINVAL);
    assert_int_equal(ration_give_back(r, &c, T0), RATION_EINVAL);
    assert_memory_equal(&c, &was, sizeof c);
    ration_close(r);
}

static void unlimited_admits_whatever_is_asked(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(FREE, "me", UINT64_MAX);

    (void)state;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_true(c.verdict.allowed);
    assert_int_equal(c.verdict.remaining, UINT64_MAX);
    ration_close(r);
}

static void limits_given_per_call_share_state_by_shape(void **state)
{
    struct ration *r = open_some();
    struct ration_limit ten = named("", "10 per minute").limit;
    struct ration_limit twenty = named("", "20 per minute").limit;
    struct ration_limit hourly = named("", "10 per hour").limit;
    struct ration_charge c = {.ad_hoc = &ten, .key = "k", .key_len = 1, .cost = 5};

    (void)state;
    assert_int_equal(ration_take(r, &c, T0), 0);
    assert_int_equal(c.verdict.remaining, 5);
    assert_int_equal(c.hash, ration_hash_ad_hoc(r, &ten, "k", 1));
    c.ad_hoc = &twenty; /* the same window: half of it is spent */
    assert_int_equal(ration_peek(r, &c, T0), 0);
    assert_int_equal(c.verdict.remaining, 10);
    c.ad_hoc = &hourly;
    assert_int_equal(ration_peek(r, &c, T0), 0);
    assert_int_equal(c.verdict.remaining, 10);
    ration_close(r);
}

static void a_faulty_limit_given_per_call_is_an_error(void **state)
{
    struct ration *r = open_some();
    struct ration_limit faulty = {.algorithm = RATION_TOKEN_BUCKET, .amount = 1};
    struct ration_charge c = {.ad_hoc = &faulty, .key = "k", .key_len = 1, .cost = 1};

    (void)state;
    assert_int_equal(ration_take(r, &c, T0), RATION_EINVAL);
    assert_int_equal(ration_hash_ad_hoc(r, &faulty, "k", 1), 0);
    ration_close(r);
}

static void the_clock_is_read_when_no_time_is_given(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c = charge(WATCHED, "me", 1);
    int64_t before = ration_now(r);

    (void)state;
    assert_int_equal(ration_take(r, &c, RATION_NOW), 0);
    assert_true(c.verdict.allowed);
    assert_true(c.at_ns >= before && c.at_ns <= ration_now(r));
    assert_int_equal(ration_peek(r, &c, RATION_NOW), 0);
    assert_int_equal(c.verdict.remaining, 0);
    assert_true(ration_wall(r, before) - before < SECOND);
    ration_close(r);
}

/* --- batches --------------------------------------------------------------- */

static void a_batch_answers_as_single_takes_do(void **state)
{
    struct ration *one = open_some(), *many = open_some();
    struct ration_limit ad_hoc = named("", "3 per minute").limit;
    struct ration_charge single[50], batch[50];
    char keys[50][8];

    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i % 3);
        single[i] = charge(i % 6, keys[i], 1 + i % 2); /* 5 is no limit, 2 wants acquire */
        if (i % 7 == 0)
            single[i].ad_hoc = &ad_hoc;
        batch[i] = single[i];
    }
    for (unsigned i = 0; i < 50; i++)
        ration_take(one, &single[i], T0);
    ration_take_batch(many, batch, 50, T0);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(batch[i].error, single[i].error);
        assert_int_equal(batch[i].taken, single[i].taken);
        assert_memory_equal(&batch[i].verdict, &single[i].verdict, sizeof batch[i].verdict);
    }
    ration_take_batch(many, NULL, 0, T0);
    ration_close(one);
    ration_close(many);
}

/* Runs of one pointer, of all lengths, across the chunks of a batch; the same limit
 * by another pointer; limits that are faulty, or want another call. */
static void limits_given_with_a_batch_are_each_their_own(void **state)
{
    struct ration *one = open_some(), *many = open_some();
    struct ration_limit specs[] = {
        named("", "30 per minute").limit,       named("", "30 per minute").limit,
        named("", "40 per minute").limit,       named("", "9 concurrent").limit,
        named("", "25 per second").limit,       {.algorithm = RATION_TOKEN_BUCKET, .amount = 1},
        named("", "20 per hour burst 7").limit,
    };
    struct ration_charge single[200], batch[200];
    uint64_t random = 1;

    (void)state;
    specs[2].algorithm = RATION_FIXED_WINDOW;
    for (unsigned i = 0; i < COUNT(single); i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        unsigned dice = (unsigned)(random >> 40);

        single[i] = charge(API, dice % 5 ? "a" : "b", 1);
        if (dice / 8 % 9 == 0)
            continue; /* one given at open */
        single[i].ad_hoc = &specs[dice / 128 % COUNT(specs)];
        if (i != 0 && dice / 1024 % 4 != 0)
            single[i].ad_hoc = single[i - 1].ad_hoc;
    }
    memcpy(batch, single, sizeof batch);
    for (unsigned i = 0; i < COUNT(single); i++)
        ration_take(one, &single[i], T0);
    for (size_t at = 0, n = 1; at < COUNT(batch); at += n, n = n * 3 % 101) {
        n = n < COUNT(batch) - at ? n : COUNT(batch) - at;
        ration_take_batch(many, batch + at, n, T0);
    }
    for (unsigned i = 0; i < COUNT(single); i++) {
        assert_int_equal(batch[i].error, single[i].error);
        assert_int_equal(batch[i].taken, single[i].taken);
        assert_memory_equal(&batch[i].verdict, &single[i].verdict, sizeof batch[i].verdict);
        assert_int_equal(batch[i].mark, single[i].mark);
    }
    ration_close(one);
    ration_close(many);
}

static void a_batch_reads_the_clock_when_no_time_is_given(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[2] = {charge(API, "a", 1), charge(API, "b", 1)};
    int64_t before = ration_now(r);

    (void)state;
    ration_take_batch(r, c, 2, RATION_NOW);
    assert_true(c[0].at_ns >= before);
    assert_int_equal(c[0].at_ns, c[1].at_ns);
    ration_close(r);
}

/* --- the whole table ------------------------------------------------------ */

static int count_buckets(void *arg, const struct ration_entry *entry)
{
    if (entry->algorithm == RATION_TOKEN_BUCKET && entry->idle_after_ns > 0)
        ++*(int *)arg;
    return 0;
}

static int stop_at_once(void *arg, const struct ration_entry *entry)
{
    (void)entry;
    ++*(int *)arg;
    return 1;
}

static void live_keys_are_listed_counted_and_cleaned(void **state)
{
    struct ration *r = open_some();
    struct ration_memory m;
    int buckets = 0, seen = 0;

    (void)state;
    take(r, API, "a", 5, T0);
    take(r, API, "b", 5, T0);
    take(r, LOG, "c", 5, T0);
    ration_memory(r, T0, &m);
    assert_int_equal(m.live, 3);
    assert_int_equal(m.evictions, 0);
    assert_true(m.bytes >= UINT64_C(4) << 20 && m.slots > 10000);
    assert_true(m.block_bytes > 0 && m.block_bytes_used > 0);
    ration_each(r, T0, count_buckets, &buckets);
    assert_int_equal(buckets, 2);
    ration_each(r, T0, stop_at_once, &seen);
    assert_int_equal(seen, 1);

    ration_memory(r, T0 + 5 * SECOND, &m);
    assert_int_equal(m.live, 1);
    assert_int_equal(ration_clean(r, T0 + 5 * SECOND), 2);
    assert_int_equal(left(r, LOG, "c", T0 + 5 * SECOND), 0);
    ration_close(r);
}

static void the_version_is_that_of_the_project(void **state)
{
    (void)state;
    assert_string_equal(ration_version(), "0.1.0");
}

/* --- sharing --------------------------------------------------------------- */

static void two_openings_of_a_file_share_its_counters(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    struct ration_named limit = named("api", "10 per second");
    struct ration_options options = {
        .state_path = path, .memory_bytes = UINT64_C(1) << 20, .limits = &limit, .limit_count = 1};
    struct ration *a = NULL, *b = NULL;
    struct ration_charge c = charge(0, "me", 4);

    (void)state;
    int fd = mkstemp(path);

    close(fd);
    unlink(path);
    assert_int_equal(ration_open(&options, &a, NULL), 0);
    assert_int_equal(ration_open(&options, &b, NULL), 0);
    assert_int_equal(ration_take(a, &c, T0), 0);
    assert_int_equal(left(b, 0, "me", T0), 6);
    assert_int_equal(ration_give_back(b, &c, T0), 0);
    assert_int_equal(left(a, 0, "me", T0), 10);
    ration_close(a);
    ration_close(b);
    unlink(path);
}

static void named_limits_may_be_on_the_calendar(void **state)
{
    struct ration_named limit = {.name = "daily"};
    struct ration_error error;
    struct ration *r;

    (void)state;
    assert_int_equal(ration_limit_parse("2 per calendar day Asia/Tokyo", 29, &limit.limit, NULL),
                     0);
    r = open_limits(&limit, 1);
    for (int i = 0; i < 3; i++) {
        struct ration_charge c = {.limit = 0, .key = "ann", .key_len = 3, .cost = 1};

        assert_int_equal(ration_take(r, &c, RATION_NOW), 0);
        assert_int_equal(c.verdict.allowed, i < 2);
        assert_true(c.verdict.reset_after_ns <= INT64_C(86400) * 1000000000);
    }
    ration_close(r);
    strcpy(limit.limit.zone, "Asia/Atlantis");
    assert_int_equal(
        ration_open(&(struct ration_options){.limits = &limit, .limit_count = 1}, &r, &error),
        RATION_EINVAL);
    assert_memory_equal(error.text, "unknown time zone \"Asia/Atlantis\"", 33);
}

int main(void)
{
    const struct CMUnitTest api[] = {
        cmocka_unit_test(a_faulty_limit_is_named_with_its_fault),
        cmocka_unit_test(named_limits_may_be_on_the_calendar),
        cmocka_unit_test(limits_need_names_and_known_flags),
        cmocka_unit_test(too_little_memory_is_refused),
        cmocka_unit_test(a_limiter_without_limits_serves_those_given_per_call),
        cmocka_unit_test(a_take_answers_with_all_numbers_for_the_client),
        cmocka_unit_test(a_cost_of_nothing_looks),
        cmocka_unit_test(an_unknown_limit_is_an_error_and_nothing_else_changes),
        cmocka_unit_test(unlimited_admits_whatever_is_asked),
        cmocka_unit_test(limits_given_per_call_share_state_by_shape),
        cmocka_unit_test(a_faulty_limit_given_per_call_is_an_error),
        cmocka_unit_test(the_clock_is_read_when_no_time_is_given),
        cmocka_unit_test(a_batch_answers_as_single_takes_do),
        cmocka_unit_test(limits_given_with_a_batch_are_each_their_own),
        cmocka_unit_test(a_batch_reads_the_clock_when_no_time_is_given),
        cmocka_unit_test(live_keys_are_listed_counted_and_cleaned),
        cmocka_unit_test(the_version_is_that_of_the_project),
        cmocka_unit_test(two_openings_of_a_file_share_its_counters),
    };

    return cmocka_run_group_tests(api, NULL, NULL);
}
