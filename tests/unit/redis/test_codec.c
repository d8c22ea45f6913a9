/* SPDX-License-Identifier: Apache-2.0 */
/* Charges as the scripts read them, against numbers worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <ration/error.h>

#include "core/scale.h"
#include "redis/cluster/hash_slot.h"
#include "redis/codec.h"

#define SECOND INT64_C(1000000000)
#define DAY (86400 * SECOND)

static struct rn_limit limit_of(struct ration_limit spec)
{
    struct rn_limit l;

    assert_null(rn_limit_fault(&spec));
    rn_limit_init(&l, &spec);
    return l;
}

static double number_at(const char *bytes, size_t at)
{
    double number;

    memcpy(&number, bytes + 8 * at, sizeof number);
    return number;
}

/* What follows the four numbers that all charges have. */
static void expect_numbers(const struct rn_charge *charge, const double *expected, size_t n)
{
    char bytes[RN_CODEC_BYTES];

    assert_int_equal(rn_codec_write(charge, 0, bytes), 8 * (4 + n));
    for (size_t i = 0; i < n; i++)
        if (number_at(bytes, 4 + i) != expected[i])
            fail_msg("number %zu is %f, not %f", i, number_at(bytes, 4 + i), expected[i]);
}

static void buckets_are_counted_in_parts_that_leave_no_rest(void **state)
{
    static const struct {
        struct ration_limit spec;
        double expected[5];
    } rows[] = {
        {{.algorithm = RATION_TOKEN_BUCKET, .amount = 3, .period_ns = SECOND},
         {1, 3, 1000000, 3000000, 0}},
        {{.algorithm = RATION_TOKEN_BUCKET, .amount = 7000, .period_ns = SECOND, .burst = 50},
         {1, 7, 1000, 50000, 0}},
        {{.algorithm = RATION_TOKEN_BUCKET, .amount = 1000000, .period_ns = DAY},
         {1, 1, 86400, 86400e6, 0}},
        {{.algorithm = RATION_LEAKY_BUCKET, .amount = 10, .period_ns = SECOND, .queue = 50},
         {1, 1, 100000, 5100000, 1}},
        {{.algorithm = RATION_TOKEN_BUCKET,
          .amount = 100,
          .period_ns = 60 * SECOND,
          .step_ns = 6 * SECOND},
         {6000000, 10, 1, 100, 0}},
        {{.algorithm = RATION_TOKEN_BUCKET, .amount = 0, .period_ns = SECOND}, {1, 1, 1, 0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rn_limit l = limit_of(rows[i].spec);
        struct rn_charge charge = {.limit = &l, .ask = {.op = RN_TAKE, .cost = 1}};

        assert_null(rn_codec_fault(&l));
        assert_int_equal(rn_codec_script_of(&charge), RN_SCRIPT_BUCKET);
        expect_numbers(&charge, rows[i].expected, 5);
    }
}

static void what_cannot_be_exact_is_refused(void **state)
{
    const struct ration_limit bad[] = {
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 1000003, .period_ns = DAY},
        {.algorithm = RATION_SLIDING_WINDOW, .amount = 1000000, .period_ns = DAY},
        {.algorithm = RATION_LEAKY_BUCKET, .amount = 2000000, .period_ns = SECOND, .queue = 9},
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 2000, .period_ns = 3000000, .step_ns = 1500},
    };
    const struct ration_limit good[] = {
        {.algorithm = RATION_SLIDING_WINDOW, .amount = 50000, .period_ns = DAY},
        {.algorithm = RATION_SLIDING_WINDOW,
         .amount = 1000000,
         .period_ns = DAY,
         .sub_windows = 24},
        {.algorithm = RATION_FIXED_WINDOW, .amount = 1000000000, .period_ns = DAY},
        {.algorithm = RATION_LEAKY_BUCKET, .amount = 1000000, .period_ns = SECOND, .queue = 9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rn_limit l;

        rn_limit_init(&l, &bad[i]);
        assert_non_null(rn_codec_fault(&l));
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct rn_limit l = limit_of(good[i]);

        assert_null(rn_codec_fault(&l));
    }
}

static void windows_and_logs_are_written_in_microseconds(void **state)
{
    struct rn_limit window = limit_of((struct ration_limit){
        .algorithm = RATION_FIXED_WINDOW, .amount = 5, .period_ns = 1500, .from_first = true});
    struct rn_limit log = limit_of((struct ration_limit){
        .algorithm = RATION_SLIDING_LOG, .amount = 5, .period_ns = 10 * SECOND});
    struct rn_limit subs = limit_of((struct ration_limit){.algorithm = RATION_SLIDING_WINDOW,
                                                          .amount = 5,
                                                          .period_ns = 10 * SECOND,
                                                          .sub_windows = 4});

    (void)state;
    expect_numbers(&(struct rn_charge){.limit = &window}, (double[]){5, 2, 1, 0, 0, 0, 2}, 7);
    expect_numbers(&(struct rn_charge){.limit = &log}, (double[]){5, 1, 10e6}, 3);
    expect_numbers(&(struct rn_charge){.limit = &subs}, (double[]){5, 2500000, 5}, 3);
    assert_int_equal(rn_codec_script_of(&(struct rn_charge){.limit = &log}),
                     rn_codec_script_of(&(struct rn_charge){.limit = &subs}));
}

/* Nobody may mistake one for the other: they have different keys. */
static void a_leased_limit_has_its_own_script_and_name(void **state)
{
    static const struct {
        struct ration_limit spec;
        enum rn_script script;
        const char *name;
    } rows[] = {
        {{.algorithm = RATION_TOKEN_BUCKET, .amount = 5, .period_ns = SECOND},
         RN_SCRIPT_LEASE_BUCKET,
         "ration:{802}:B:ffc0000000000012"},
        {{.algorithm = RATION_FIXED_WINDOW, .amount = 5, .period_ns = SECOND},
         RN_SCRIPT_LEASE_WINDOW,
         "ration:{802}:W:ffc0000000000012"},
        {{.algorithm = RATION_SLIDING_WINDOW, .amount = 5, .period_ns = SECOND},
         RN_SCRIPT_LEASE_COUNTER,
         "ration:{802}:C:ffc0000000000012"},
        {{.algorithm = RATION_SLIDING_WINDOW, .amount = 5, .period_ns = SECOND, .sub_windows = 4},
         RN_SCRIPT_LEASE_SUBS,
         "ration:{802}:L:ffc0000000000012"},
        {{.algorithm = RATION_LEAKY_BUCKET, .amount = 5, .period_ns = SECOND, .queue = 3},
         RN_SCRIPT_BUCKET,
         "ration:{802}:b:ffc0000000000012"},
        {{.algorithm = RATION_SLIDING_LOG, .amount = 5, .period_ns = SECOND},
         RN_SCRIPT_LEASE_LOG,
         "ration:{802}:L:ffc0000000000012"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rn_limit l = limit_of(rows[i].spec);
        struct rn_charge charge = {
            .limit = &l, .key = UINT64_C(0xFFC0000000000012), .flags = RN_CHARGE_LEASED};
        char name[RN_CODEC_NAME];

        assert_int_equal(rn_codec_script_of(&charge), rows[i].script);
        assert_int_equal(rn_codec_name(&charge, name), strlen(rows[i].name));
        assert_string_equal(name, rows[i].name);
    }
}

static void a_call_for_a_lease_ends_with_its_holder(void **state)
{
    struct rn_limit l = limit_of((struct ration_limit){
        .algorithm = RATION_TOKEN_BUCKET, .amount = 3, .period_ns = SECOND, .burst = 50});
    struct rn_charge charge = {.limit = &l, .flags = RN_CHARGE_LEASED};
    const struct rn_codec_lease_request request = {.want = 40,
                                                   .keep = 7,
                                                   .back = 2,
                                                   .least = 1,
                                                   .lease_ns = SECOND / 4,
                                                   .holder = UINT64_C(0x0807060504030201),
                                                   .call = 9,
                                                   .ends_us = 123};
    const double head[] = {7, 40, 250000, 7, 1, 3, 1000000, 50e6, 0}, tail[] = {9, 2, 1, 123};
    char params[RN_CODEC_PARAMS], out[RN_CODEC_BYTES];

    (void)state;
    size_t len = rn_codec_write_lease(&request, params, rn_codec_params(&charge, params), out);

    assert_int_equal(len, sizeof head + 8 + sizeof tail);
    assert_memory_equal(out, head, sizeof head);
    assert_memory_equal(out + sizeof head, "\1\2\3\4\5\6\7\10", 8);
    assert_memory_equal(out + sizeof head + 8, tail, sizeof tail);
}

/* Days of 24, 23 and 25 hours: the two windows given are those that a clock half of
 * one off ours would still be in. */
static void a_calendar_leaves_room_for_a_clock_that_differs(void **state)
{
    const int64_t hour = 3600 * SECOND;
    const int64_t ends[] = {0, 24 * hour, 47 * hour, 72 * hour};
    const struct rn_calendar calendar = {ends, 4};
    struct rn_limit l = limit_of((struct ration_limit){
        .algorithm = RATION_FIXED_WINDOW, .amount = 5, .calendar = RATION_CALENDAR_DAY});
    const struct {
        int64_t wall_hour;
        double first, second, third;
    } rows[] = {
        {25, 0, 24, 47}, {46, 24, 47, 72}, {48, 24, 47, 72}, {71, 24, 47, 72}, {73, 0, 0, 0}};

    (void)state;
    rn_limit_set_calendar(&l, &calendar);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rn_charge charge = {
            .limit = &l,
            .ask = {.now_ns = rows[i].wall_hour * hour - SECOND, .wall_offset_ns = SECOND}};
        char bytes[RN_CODEC_BYTES];

        rn_codec_write(&charge, 0, bytes);
        assert_true(number_at(bytes, 7) == rows[i].first * 3600e6);
        assert_true(number_at(bytes, 8) == rows[i].second * 3600e6);
        assert_true(number_at(bytes, 9) == rows[i].third * 3600e6);
    }
}

static void a_refund_tells_its_age_rounded_up_and_its_mark(void **state)
{
    struct rn_limit l = limit_of(
        (struct ration_limit){.algorithm = RATION_TOKEN_BUCKET, .amount = 5, .period_ns = SECOND});
    struct rn_charge charge = {
        .limit = &l,
        .ask = {.op = RN_GIVE_BACK, .cost = 2, .now_ns = 5001, .at_ns = 1000, .mark = 77}};
    char bytes[RN_CODEC_BYTES];

    (void)state;
    rn_codec_write(&charge, 0, bytes);
    assert_true(number_at(bytes, 0) == 3 && number_at(bytes, 1) == 2);
    assert_true(number_at(bytes, 2) == 5 && number_at(bytes, 3) == 77);
    charge.ask.at_ns = 9000; /* a clock that went back */
    rn_codec_write(&charge, 0, bytes);
    assert_true(number_at(bytes, 2) == 0);
}

static void what_uses_the_reset_log_names_its_key(void **state)
{
    struct rn_limit l = limit_of((struct ration_limit){
        .algorithm = RATION_FIXED_WINDOW, .amount = 5, .period_ns = 30 * SECOND});
    struct rn_charge charge = {
        .limit = &l,
        .flags = RN_CHARGE_RESET_LOG,
        .key = UINT64_C(0xffc0000000000012),
        .ask = {.op = RN_GIVE_BACK, .now_ns = 5000, .at_ns = 1000, .mark = 77}};
    char bytes[RN_CODEC_BYTES], name[RN_CODEC_NAME];

    (void)state;
    assert_true(rn_codec_uses_reset_log(&charge));
    size_t len = rn_codec_write(&charge, 9, bytes);
    assert_true(number_at(bytes, 0) == 8 && number_at(bytes, 2) == 4);
    assert_true(number_at(bytes, len / 8 - 1) == 9);
    charge.ask.op = RN_RESET; /* remembered for as long as a charge may count */
    assert_int_equal(rn_codec_write(&charge, 9, bytes), len);
    assert_true(number_at(bytes, 0) == 9 && number_at(bytes, 2) == 60e6);
    rn_codec_reset_log_name(&charge, name);
    assert_string_equal(name, "ration:{802}:f:ffc0000000000012");
    charge.flags = 0;
    assert_false(rn_codec_uses_reset_log(&charge));
    assert_int_equal(rn_codec_write(&charge, 9, bytes), len - 16);
    assert_true(number_at(bytes, 0) == 6);
}

static void a_refund_tells_when_its_take_was_if_the_mark_does(void **state)
{
    static const struct {
        struct ration_limit spec;
        double made;
    } rows[] = {
        {{.algorithm = RATION_TOKEN_BUCKET, .amount = 5, .period_ns = SECOND}, 77},
        {{.algorithm = RATION_SLIDING_LOG, .amount = 5, .period_ns = SECOND}, 77},
        {{.algorithm = RATION_LEAKY_BUCKET, .amount = 5, .period_ns = SECOND, .queue = 5}, 0},
        {{.algorithm = RATION_FIXED_WINDOW, .amount = 5, .period_ns = SECOND}, 0},
        {{.algorithm = RATION_SLIDING_WINDOW, .amount = 5, .period_ns = SECOND}, 0},
        {{.algorithm = RATION_SLIDING_WINDOW, .amount = 5, .period_ns = SECOND, .sub_windows = 4},
         0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rn_limit l = limit_of(rows[i].spec);
        struct rn_charge charge = {.limit = &l,
                                   .flags = RN_CHARGE_RESET_LOG,
                                   .ask = {.op = RN_GIVE_BACK, .cost = 1, .mark = 77}};
        char bytes[RN_CODEC_BYTES];
        size_t len = rn_codec_write(&charge, 1, bytes);

        assert_true(number_at(bytes, len / 8 - 2) == rows[i].made);
    }
}

static void places_and_takes_use_no_reset_log(void **state)
{
    struct rn_limit places =
        limit_of((struct ration_limit){.algorithm = RATION_CONCURRENCY, .amount = 5});
    struct rn_limit bucket = limit_of(
        (struct ration_limit){.algorithm = RATION_TOKEN_BUCKET, .amount = 5, .period_ns = SECOND});
    struct rn_charge charge = {
        .limit = &places, .flags = RN_CHARGE_RESET_LOG, .ask = {.op = RN_GIVE_BACK}};

    (void)state;
    assert_false(rn_codec_uses_reset_log(&charge));
    charge.limit = &bucket;
    charge.ask.op = RN_TAKE;
    assert_false(rn_codec_uses_reset_log(&charge));
}

static void names_hold_a_tag_a_kind_and_the_key(void **state)
{
    struct rn_limit l = limit_of(
        (struct ration_limit){.algorithm = RATION_SLIDING_LOG, .amount = 5, .period_ns = SECOND});
    struct rn_charge charge = {.limit = &l, .key = UINT64_C(0xffc0000000000012)};
    char name[RN_CODEC_NAME], history[RN_CODEC_NAME];

    (void)state;
    size_t len = rn_codec_name(&charge, name);
    assert_string_equal(name, "ration:{802}:l:ffc0000000000012");
    assert_int_equal(len, strlen(name));
    rn_codec_history_of(rn_slice_of(name), history);
    assert_string_equal(history, "ration:{802}:history");
    rn_codec_history_name(63, name);
    assert_string_equal(name, history);
    rn_codec_history_name(RN_CODEC_TAGS, name);
    assert_string_equal(name, "ration:history");
}

static void each_part_of_the_slots_has_a_tag_near_its_middle(void **state)
{
    const uint16_t part = RN_HASH_SLOTS / RN_CODEC_TAGS;

    (void)state;
    for (unsigned i = 0; i < RN_CODEC_TAGS; i++) {
        struct rn_limit l = limit_of((struct ration_limit){
            .algorithm = RATION_TOKEN_BUCKET, .amount = 5, .period_ns = SECOND});
        struct rn_charge charge = {.limit = &l, .key = (uint64_t)i << 58 | 7};
        char name[RN_CODEC_NAME];
        size_t len = rn_codec_name(&charge, name);
        uint16_t slot = rn_hash_slot_of((struct rn_slice){name, len});

        assert_int_equal(slot / part, i);
        assert_in_range(slot % part, part / 4, 3 * part / 4);
        assert_int_equal(slot, rn_hash_slot_of(rn_codec_tag_name(i)));
    }
}

/* As the scripts answer. */
static void read_answer(struct rn_charge *charge, const double numbers[RN_CODEC_NUMBERS])
{
    char answer[RN_CODEC_ANSWER];

    memcpy(answer, numbers, sizeof answer); /* on machines that store the low byte first */
    rn_codec_read(charge, answer);
}

/* As bucket.lua: debt, refill and price are in parts. Whatever the factor, the bucket holds exactly
 * its share, is full after the same time, and units of lower factors cost more. */
static void at_a_factor_only_the_price_of_a_unit_differs(void **state)
{
    static const struct ration_limit specs[] = {
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 10, .period_ns = 3 * SECOND},
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 1000, .period_ns = 60 * SECOND, .burst = 50},
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 1000000, .period_ns = SECOND},
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 7, .period_ns = 86400 * SECOND},
        {.algorithm = RATION_LEAKY_BUCKET, .amount = 3, .period_ns = SECOND, .queue = 99},
    };
    static uint16_t percents[400];

    (void)state;
    for (unsigned p = 1; p <= 400; p++)
        percents[p - 1] = (uint16_t)p;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct rn_limit written = limit_of(specs[i]), step;
        struct rn_codec_parts parts, before = {0}, whole;
        struct rn_scale scale;

        rn_scale_init(&scale, &written, percents, 400);
        rn_scale_step(&scale, 100, &step);
        rn_codec_bucket(&step, &whole);
        assert_int_equal(whole.full, (int64_t)written.cap * whole.unit);
        for (unsigned p = 1; p <= 400; p++, before = parts) {
            rn_scale_step(&scale, p, &step);
            rn_codec_bucket(&step, &parts);
            assert_int_equal(parts.paid, whole.paid);
            assert_in_range(parts.full / parts.unit, step.cap - step.cap / 50000, step.cap);
            assert_in_range(parts.full, whole.full, whole.full + (int64_t)step.cap);
            assert_true(parts.unit >= (whole.unit * 100 + p - 1) / p || step.cap == 1);
            assert_true(p == 1 || parts.unit <= before.unit);
            assert_true(p == 1 || before.full - parts.full <= before.unit - parts.unit);
        }
    }
}

static void answers_are_read_and_nonsense_is_an_error(void **state)
{
    struct rn_limit l = limit_of(
        (struct ration_limit){.algorithm = RATION_TOKEN_BUCKET, .amount = 5, .period_ns = SECOND});
    struct rn_charge charge = {.limit = &l, .error = RATION_ESTORE};

    (void)state;
    read_answer(&charge, (double[]){0, 2, 1500, 3000, 0, 9});
    assert_int_equal(charge.error, 0);
    assert_false(charge.answer.allowed);
    assert_int_equal(charge.answer.remaining, 2);
    assert_int_equal(charge.answer.retry_after_ns, 1500000);
    assert_int_equal(charge.answer.reset_after_ns, 3000000);
    assert_int_equal(charge.answer.mark, 9);
    read_answer(&charge, (double[]){0, 0, -1, 0, 0, 0});
    assert_int_equal(charge.answer.retry_after_ns, RN_NEVER);
    read_answer(&charge, (double[]){-1, 0, 0, 0, 0, 0});
    assert_int_equal(charge.error, RATION_ESTORE);
    read_answer(&charge, (double[]){1, -5, 0, 0, 0, 0});
    assert_int_equal(charge.error, RATION_ESTORE);
    for (size_t i = 0; i < 5; i++) {
        double numbers[RN_CODEC_NUMBERS] = {0};

        numbers[i] = NAN;
        read_answer(&charge, numbers);
        assert_int_equal(charge.error, RATION_ESTORE);
        numbers[i] = 1e300;
        read_answer(&charge, numbers);
        assert_int_equal(charge.error, RATION_ESTORE);
        numbers[i] = 0;
        read_answer(&charge, numbers);
        assert_int_equal(charge.error, 0);
    }
}

/* It was decided as a token bucket once, without a warning. */
static void an_unknown_form_is_a_fault_and_has_no_script(void **state)
{
    struct rn_limit l;
    struct rn_charge charge = {.limit = &l, .flags = RN_CHARGE_LEASED};

    (void)state;
    rn_limit_init(&l, &(struct ration_limit){
                          .algorithm = RATION_TOKEN_BUCKET, .amount = 10, .period_ns = 1000000000});
    assert_null(rn_codec_fault(&l));
    assert_int_equal(rn_codec_script(&l), RN_SCRIPT_BUCKET);
    l.form = (enum rn_form)99;
    assert_non_null(rn_codec_fault(&l));
    assert_int_equal(rn_codec_script(&l), RN_SCRIPTS);
    assert_false(rn_codec_leases(&l));
    assert_int_equal(rn_codec_script_of(&charge), RN_SCRIPTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_form_is_a_fault_and_has_no_script),
        cmocka_unit_test(buckets_are_counted_in_parts_that_leave_no_rest),
        cmocka_unit_test(what_cannot_be_exact_is_refused),
        cmocka_unit_test(windows_and_logs_are_written_in_microseconds),
        cmocka_unit_test(a_leased_limit_has_its_own_script_and_name),
        cmocka_unit_test(a_call_for_a_lease_ends_with_its_holder),
        cmocka_unit_test(a_calendar_leaves_room_for_a_clock_that_differs),
        cmocka_unit_test(a_refund_tells_its_age_rounded_up_and_its_mark),
        cmocka_unit_test(what_uses_the_reset_log_names_its_key),
        cmocka_unit_test(a_refund_tells_when_its_take_was_if_the_mark_does),
        cmocka_unit_test(places_and_takes_use_no_reset_log),
        cmocka_unit_test(names_hold_a_tag_a_kind_and_the_key),
        cmocka_unit_test(each_part_of_the_slots_has_a_tag_near_its_middle),
        cmocka_unit_test(at_a_factor_only_the_price_of_a_unit_differs),
        cmocka_unit_test(answers_are_read_and_nonsense_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
