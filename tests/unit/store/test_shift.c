/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block memory when the mixture of sizes shifts: as long as live keys are within
 * the capacity of the table, none is evicted and none refused, whatever lived
 * there before. Time is an argument, so hours pass at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "file_fixture.h"
#include "store/blocks.h"
#include "store/slots.h"
#include "store/sweep.h"
#include "unit/sanitized.h"

#define MS (SECOND / 1000)

static struct rn_limit limit_of(enum ration_algorithm algorithm, uint64_t amount, int64_t period)
{
    return compiled(
        &(struct ration_limit){.algorithm = algorithm,
                               .amount = amount,
                               .period_ns = algorithm == RATION_CONCURRENCY ? 0 : period});
}

static struct rn_table *open_memory(uint64_t bytes, double share)
{
    struct rn_table *table = NULL;

    assert_int_equal(rn_table_open(&(struct rn_table_options){.bytes = bytes, .block_share = share},
                                   &table, NULL),
                     0);
    return table;
}

static struct rn_charge take_flagged(struct rn_table *table, const struct rn_limit *limit,
                                     uint64_t key, int64_t now, uint64_t cost, unsigned flags)
{
    struct rn_charge c = {
        .limit = limit,
        .key = key,
        .flags = flags,
        .ask = {
            .op = RN_TAKE, .now_ns = now, .cost = cost, .id = key | 1, .lease_ns = 10 * SECOND}};

    rn_store_apply(rn_table_store(table), &c, 1);
    return c;
}

static void charge(struct rn_table *table, const struct rn_limit *limit, uint64_t key, int64_t now,
                   uint64_t cost)
{
    struct rn_charge c = take_flagged(table, limit, key, now, cost, 0);

    if (c.error != 0 || !c.answer.allowed)
        fail_msg("key %llu: error %d, allowed %d", (unsigned long long)key, c.error,
                 c.answer.allowed);
}

static struct rn_table_memory memory_at(const struct rn_table *table, int64_t now)
{
    struct rn_table_memory m;

    rn_table_memory(table, now, &m);
    return m;
}

/* What slots refer to, live or not, in bytes; it is all that is used once spares
 * are given back. */
static uint64_t bytes_referred(const struct rn_table *table)
{
    const struct rn_slot *slots = table->groups[0].slots;
    uint64_t bytes = 0;

    for (uint64_t i = 0; i < table->group_count * RN_GROUP_SLOTS; i++) {
        if (!rn_tag_has_block(slots[i].tag))
            continue;
        struct rn_block_shape shape =
            rn_block_shape(table->slab_words, rn_block_class(slots[i].state));

        bytes +=
            8 * (shape.slabs * (uint64_t)table->slab_words + rn_blocks_class_words(shape.root));
    }
    return bytes;
}

static void expect_used_is_what_is_used(struct rn_table *table, int64_t now)
{
    rn_blocks_contexts_drain(table);
    assert_int_equal(memory_at(table, now).block_bytes_used, bytes_referred(table));
}

/* ---- what went wrong once */

/* Fresh keys that each fill a log of five and are idle soon: blocks of two sizes. */
static void blocks_of_idle_keys_serve_fresh_keys_for_ever(void **state)
{
    struct rn_table *table = open_memory(4 * MIB, 50);
    struct rn_limit limit = limit_of(RATION_SLIDING_LOG, 5, SECOND);
    int64_t now = BASE;
    uint64_t key = 0;

    (void)state;
    for (unsigned round = 0; round < 40; round++, now += 1600 * MS)
        for (unsigned i = 0; i < 4000; i++, key++)
            for (unsigned n = 0; n < 5; n++)
                charge(table, &limit, key_of(key), now, 1);
    assert_int_equal(memory_at(table, now).evictions, 0);
    expect_used_is_what_is_used(table, now);
    rn_table_close(table);
}

static void the_smallest_table_holds_limits_of_every_size_at_once(void **state)
{
    static const struct {
        enum ration_algorithm algorithm;
        uint64_t amount;
    } kinds[] = {
        {RATION_SLIDING_LOG, 5},     {RATION_CONCURRENCY, 1},        {RATION_CONCURRENCY, 2},
        {RATION_SLIDING_LOG, 65536}, {RATION_SLIDING_WINDOW, 100},   {RATION_CONCURRENCY, 300},
        {RATION_TOKEN_BUCKET, 5},    {RATION_FIXED_WINDOW, 1 << 21}, {RATION_SLIDING_LOG, 500},
        {RATION_SLIDING_LOG, 5000},  {RATION_SLIDING_LOG, 1 << 14}};
    struct rn_table *table = open_memory(MIB, 50);

    (void)state;
    for (uint64_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct rn_limit limit = limit_of(kinds[i].algorithm, kinds[i].amount, DAY);
        uint64_t most = kinds[i].amount < 100 ? kinds[i].amount : 100;

        for (uint64_t n = 0; n < (kinds[i].algorithm == RATION_CONCURRENCY ? 1 : most); n++)
            charge(table, &limit, key_of(i), BASE, 1);
        if (kinds[i].algorithm == RATION_SLIDING_LOG && kinds[i].amount > 100)
            charge(table, &limit, key_of(i), BASE, kinds[i].amount - 100);
    }
    assert_int_equal(memory_at(table, BASE).live, sizeof kinds / sizeof *kinds);
    assert_int_equal(memory_at(table, BASE).evictions, 0);
    expect_used_is_what_is_used(table, BASE);
    rn_table_close(table);
}

/* The largest block there is, read and written in pieces. */
static void a_block_larger_than_a_slab_keeps_every_word(void **state)
{
    struct rn_table *table = open_memory(2 * MIB, 80);
    struct rn_limit limit = limit_of(RATION_SLIDING_LOG, 65536, DAY);

    (void)state;
    for (unsigned i = 0; i < 4; i++)
        for (uint64_t n = 0; n < 64; n++)
            charge(table, &limit, key_of(i), BASE + (int64_t)n * MINUTE, 1024);
    for (unsigned i = 0; i < 4; i++)
        for (uint64_t n = 0; n < 64; n++) {
            struct rn_charge c = {.limit = &limit,
                                  .key = key_of(i),
                                  .ask = {.op = RN_PEEK,
                                          .now_ns = BASE + DAY + (int64_t)n * MINUTE + 10 * SECOND,
                                          .cost = 1}};

            rn_store_apply(rn_table_store(table), &c, 1);
            assert_int_equal(c.answer.remaining, 1024 * (n + 1));
        }
    rn_table_close(table);
}

/* ---- when live keys fill it */

static void a_table_full_of_one_size_gives_room_to_another(void **state)
{
    static const uint64_t amounts[] = {8, 40, 500, 3000, 8, 65536, 8};
    struct rn_table *table = open_memory(2 * MIB + RN_BOARD_BYTES, 60);
    uint64_t key = 0;

    (void)state;
    for (unsigned a = 0; a < sizeof amounts / sizeof *amounts; a++) {
        struct rn_limit limit = limit_of(RATION_SLIDING_LOG, amounts[a], DAY);
        double cost = 8 * rn_block_cost(table->slab_words, rn_blocks_class_of(limit.words_full));
        uint64_t fit = (uint64_t)((double)memory_at(table, BASE).block_bytes / cost), held = 0;

        for (uint64_t i = 0; i < 3 * fit + 10; i++)
            charge(table, &limit, key_of(key + i), BASE, amounts[a]);
        for (uint64_t i = 0; i < 3 * fit + 10; i++) {
            struct rn_charge c = take_flagged(table, &limit, key_of(key + i), BASE, 0, 0);

            held += c.answer.remaining == 0;
        }
        if (held * 10 < fit * 7)
            fail_msg("%llu logs of %llu of %llu that fit", (unsigned long long)held,
                     (unsigned long long)amounts[a], (unsigned long long)fit);
        key += 3 * fit + 10;
    }
    assert_true(memory_at(table, BASE).evictions > 0);
    expect_used_is_what_is_used(table, BASE);
    rn_table_close(table);
}

static void keys_to_keep_are_refused_only_when_live_ones_fill_it(void **state)
{
    struct rn_table *table = open_memory(2 * MIB, 60);
    struct rn_limit small = limit_of(RATION_SLIDING_WINDOW, 8, MINUTE);
    struct rn_limit large = limit_of(RATION_SLIDING_LOG, 500, DAY);
    uint64_t fit = table->slab_count * (table->slab_words / 128), key = 0;

    (void)state;
    while (take_flagged(table, &small, key_of(key), BASE, 1, RN_CHARGE_KEEP).error == 0)
        key++;
    assert_true(key > table->slab_count * (table->slab_words / 3) * 9 / 10 ||
                key > memory_at(table, BASE).slots * 7 / 10);
    for (uint64_t i = 0; i < fit * 95 / 100; i++)
        assert_int_equal(
            take_flagged(table, &large, key_of(key + i), BASE + HOUR, 500, RN_CHARGE_KEEP).error,
            0);
    assert_int_equal(memory_at(table, BASE + HOUR).evictions, 0);
    rn_table_close(table);
}

/* ---- the soak */

#define RULE_CHANGES 24
#define CLIENTS_SHORT SCALED(1000000, 200000)
#define CLIENTS_LONG UINT64_C(100000000)

struct rule {
    enum ration_algorithm algorithm;
    uint64_t amount, cost;
    uint32_t sub_windows;
};

static const struct rule kinds[] = {
    {RATION_SLIDING_WINDOW, 100, 1, 0},  {RATION_SLIDING_LOG, 5, 5, 0},
    {RATION_CONCURRENCY, 1, 1, 0},       {RATION_FIXED_WINDOW, 1 << 21, 1, 0},
    {RATION_SLIDING_LOG, 500, 500, 0},   {RATION_SLIDING_WINDOW, 1000, 7, 60},
    {RATION_TOKEN_BUCKET, 100, 5, 0},    {RATION_SLIDING_LOG, 60, 60, 0},
    {RATION_CONCURRENCY, 20, 1, 0},      {RATION_FIXED_WINDOW, 100, 1, 0},
    {RATION_SLIDING_LOG, 3000, 3000, 0}, {RATION_SLIDING_WINDOW, 99, 9, 7},
    {RATION_SLIDING_LOG, 140, 140, 0},   {RATION_TOKEN_BUCKET, 700000000, 1, 0},
};
#define KINDS_SOAKED (sizeof kinds / sizeof *kinds)

static struct rn_limit limit_of_rule(const struct rule *rule, int64_t period)
{
    return compiled(&(struct ration_limit){.algorithm = rule->algorithm,
                                           .amount = rule->amount,
                                           .sub_windows = rule->sub_windows,
                                           .period_ns = rule->algorithm == RATION_CONCURRENCY ? 0
                                                        : rule->amount == 700000000 ? SECOND
                                                                                    : period});
}

enum { RULES = 3 };

/* How many keys of these rules in turn can live at once. */
static uint64_t capacity_of(const struct rn_table *table, const struct rn_limit *limits)
{
    double part = 0; /* of the table, that one key takes */

    for (unsigned i = 0; i < RULES; i++)
        part += 1.0 / (double)rn_table_capacity(table, &limits[i], 4 * RULES) / (double)RULES;
    return (uint64_t)(1 / part);
}

/* Keys come evenly over time. When rules change, keys of those before still live:
 * half the table is for these, half for those. */
static void soak_rules(struct rn_table *table, unsigned change, uint64_t first, uint64_t keys,
                       int64_t *now)
{
    struct rn_limit limits[RULES];
    const struct rule *rules[RULES];
    int64_t period = 10 * SECOND, lives = 0;

    for (unsigned i = 0; i < RULES; i++) {
        rules[i] = &kinds[(change * 5 + i * (1 + change / 8)) % KINDS_SOAKED];
        limits[i] = limit_of_rule(rules[i], period);
        lives += rules[i]->algorithm == RATION_SLIDING_WINDOW ? 2 * period : period;
    }
    int64_t step = lives / RULES / (int64_t)(capacity_of(table, limits) / 2) + 1;

    for (uint64_t i = 0; i < keys; i++, *now += step)
        charge(table, &limits[i % RULES], key_of(first + i), *now, rules[i % RULES]->cost);
}

static void soak(uint64_t keys)
{
    uint64_t key = 0, per_change = keys / RULE_CHANGES;
    struct rn_table *table = open_ok(8 * MIB, 75);
    int64_t now = rn_table_now(table);

    for (unsigned change = 0; change < RULE_CHANGES; change++) {
        soak_rules(table, change, key, per_change, &now);
        key += per_change;
        struct rn_table_memory m = memory_at(table, now);

        if (m.evictions != 0)
            fail_msg("%llu evictions after change %u, %llu live", (unsigned long long)m.evictions,
                     change, (unsigned long long)m.live);
        expect_used_is_what_is_used(table, now);
        if (change % 4 == 3) {
            rn_table_close(table);
            table = open_ok(0, 0);
            expect_used_is_what_is_used(table, now);
        }
    }
    rn_table_close(table);
}

static void shifting_mixtures_within_capacity_lose_no_key(void **state)
{
    const char *keys = getenv("RATION_SOAK_KEYS");

    (void)state;
    soak(keys ? strtoull(keys, NULL, 10) : getenv("RATION_SOAK") ? CLIENTS_LONG : CLIENTS_SHORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_idle_keys_serve_fresh_keys_for_ever),
        cmocka_unit_test(the_smallest_table_holds_limits_of_every_size_at_once),
        cmocka_unit_test(a_block_larger_than_a_slab_keeps_every_word),
        cmocka_unit_test(a_table_full_of_one_size_gives_room_to_another),
        cmocka_unit_test(keys_to_keep_are_refused_only_when_live_ones_fill_it),
        FILE_TEST(shifting_mixtures_within_capacity_lose_no_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
