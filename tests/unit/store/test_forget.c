/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to make a full table forget a key that has spent its limit, by a
 * flood of other keys: requests for each key that the table holds. docs/keys.md has
 * the table that this prints.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_form.h"
#include "store/table.h"
#include "unit/sanitized.h"

#define BYTES (UINT64_C(1) << 20)
#define AMOUNT 5
#define START (INT64_C(1700000000) * SECOND)
#define VICTIM UINT64_C(1)
#define STEP 512 /* keys between two looks */
#define FILL_NS (10 * SECOND)

static const struct subject_limit {
    const char *name;
    struct ration_limit spec;
} limits[] = {
    {"token-bucket",
     {.algorithm = RATION_TOKEN_BUCKET, .amount = AMOUNT, .period_ns = MINUTE, .burst = AMOUNT}},
    {"fixed-window",
     {.algorithm = RATION_FIXED_WINDOW, .amount = AMOUNT, .period_ns = MINUTE, .from_first = true}},
    {"sliding-log", {.algorithm = RATION_SLIDING_LOG, .amount = AMOUNT, .period_ns = MINUTE}},
    {"sliding-window", {.algorithm = RATION_SLIDING_WINDOW, .amount = AMOUNT, .period_ns = MINUTE}},
    {"sliding-window, sub_windows: 60",
     {.algorithm = RATION_SLIDING_WINDOW,
      .amount = AMOUNT,
      .period_ns = MINUTE,
      .sub_windows = 60}},
};
/* One request of this takes long to come back, and another limit's keys count with it. */
static const struct ration_limit elsewhere = {
    .algorithm = RATION_TOKEN_BUCKET, .amount = 10, .period_ns = DAY, .burst = 10};

static struct rn_answer charge(struct rn_table *table, const struct ration_limit *spec,
                               unsigned flags, uint64_t key, int64_t now, uint64_t cost)
{
    struct rn_limit limit = compiled(spec);
    struct rn_charge c = {.limit = &limit,
                          .key = key_of(key),
                          .flags = flags,
                          .ask = {.op = RN_TAKE, .now_ns = now, .cost = cost}};

    rn_store_apply(rn_table_store(table), &c, 1);
    if (c.error != 0) /* no room: the flood gains nothing by it */
        c.answer = (struct rn_answer){0};
    return c.answer;
}

struct attack {
    const struct ration_limit *limit; /* of the key that is to be forgotten */
    unsigned flags;
    const struct ration_limit *flood; /* of the others */
    unsigned flood_flags, each;       /* requests by each of them */
    int64_t after_ns;                 /* how long after the key was refused */
    bool fill_first;                  /* the table with keys that have spent all */
    double block_share;               /* decides what runs out first */
};

static uint64_t evictions(const struct rn_table *table, int64_t now)
{
    struct rn_table_memory memory;

    rn_table_memory(table, now, &memory);
    return memory.evictions;
}

/* So many new keys; returns how many of them found room. */
static unsigned flood(struct rn_table *table, const struct attack *a, unsigned each, uint64_t from,
                      int64_t now)
{
    unsigned found = 0;

    for (unsigned i = 0; i < STEP; i++)
        found += charge(table, a->flood, a->flood_flags, 1000 + from + i, now, each).allowed;
    return found;
}

/* Requests of the flood until the key is admitted again, for each key that the table held when
 * it first evicted one; 0: not within twice that many keys, or there is no more room for any. */
static double price(const struct attack *a)
{
    struct rn_table_options options = {.bytes = BYTES, .block_share = a->block_share};
    struct rn_table *table;
    int64_t now = START + a->after_ns;
    uint64_t keys = 0, room = 0, requests = 0;
    bool forgotten = false;

    assert_int_equal(rn_table_open(&options, &table, NULL), 0);
    while (a->fill_first && evictions(table, START) <= keys / 4 &&
           flood(table, a, AMOUNT, keys, START - FILL_NS) != 0)
        keys += STEP;
    requests = keys * AMOUNT;
    room = keys * 3 / 4;
    assert_true(charge(table, a->limit, a->flags, VICTIM, START, AMOUNT).allowed);
    for (uint64_t first = keys; !forgotten && (room == 0 || keys - first < 2 * room);) {
        if (flood(table, a, a->each, keys, now) == 0)
            break;
        keys += STEP;
        requests += STEP * (uint64_t)a->each;
        if (room == 0 && evictions(table, now) != 0)
            room = keys;
        /* A bucket has refilled in part by then, but not to the brim. */
        forgotten = charge(table, a->limit, a->flags, VICTIM, now, 0).remaining == AMOUNT;
    }
    rn_table_close(table);
    return forgotten ? (double)requests / (double)(room ? room : keys) : 0;
}

/* The fewest requests a key with which a flood succeeds, and what it costs then. */
static unsigned cheapest(struct attack a, double *cost)
{
    for (a.each = 1; a.each <= AMOUNT; a.each += 2) {
        *cost = price(&a);
        if (*cost != 0)
            return a.each;
    }
    return 0;
}

#define WAYS 4

static void print_row(const char *name, const char *on_full, const unsigned each[WAYS],
                      const double cost[WAYS])
{
    print_message("# %-32s %-10s", name, on_full);
    for (unsigned i = 0; i < WAYS; i++)
        if (each[i])
            print_message(" %4.1f (%u a key)", cost[i], each[i]);
        else
            print_message("          never ");
    print_message("\n");
}

static void expect_prices(double block_share)
{
    const unsigned count = MEMORY_SANITIZED ? 3 : sizeof limits / sizeof *limits;

    print_message(
        "# requests per key that fits: after 1 s, after 30 s, another limit, filled first\n");
    for (unsigned i = 0; i < count; i++)
        for (unsigned last = 0; last < 2; last++) {
            const struct ration_limit *limit = &limits[i].spec;
            unsigned flags = last ? RN_CHARGE_EVICT_LAST : 0, each[WAYS];
            bool fades = limit->algorithm == RATION_TOKEN_BUCKET; /* half is back after 30 s */
            double cost[WAYS];
            const struct attack ways[WAYS] = {
                {limit, flags, limit, flags, 1, SECOND, false, block_share},
                {limit, flags, limit, flags, 1, 30 * SECOND, false, block_share},
                {limit, flags, &elsewhere, 0, 1, SECOND, false, block_share},
                {limit, flags, limit, flags, 1, SECOND, true, block_share},
            };

            for (unsigned k = 0; k < WAYS; k++)
                each[k] = cheapest(ways[k], &cost[k]);
            print_row(limits[i].name, last ? "evict_last" : "evict", each, cost);
            /* A key that has spent five is not evicted for one that has spent one or three. */
            assert_true(each[0] == 0 || each[0] == AMOUNT);
            assert_true(each[3] == 0 || cost[3] >= AMOUNT);
            if (!last)
                continue;
            /* And not at all for as much spent later, or by another limit. */
            assert_int_equal(each[0], 0);
            assert_true(fades || each[1] == 0);
            assert_int_equal(each[2], 0);
        }
}

static void what_is_evicted_last_costs_what_was_spent_when_slots_run_out(void **state)
{
    (void)state;
    expect_prices(75);
}

static void what_is_evicted_last_costs_what_was_spent_when_blocks_run_out(void **state)
{
    (void)state;
    expect_prices(60);
}

/* Words of aligned windows do not tell which key is newer: a flood takes one slot of each group. */
static void a_flood_of_equal_aligned_windows_mostly_replaces_itself(void **state)
{
    const struct ration_limit limit = {
        .algorithm = RATION_FIXED_WINDOW, .amount = AMOUNT, .period_ns = MINUTE};
    const uint64_t victims = 512;
    struct rn_table *table;
    uint64_t forgotten = 0;

    (void)state;
    assert_int_equal(rn_table_open(&(struct rn_table_options){.bytes = BYTES}, &table, NULL), 0);
    for (uint64_t i = 0; i < victims; i++)
        charge(table, &limit, RN_CHARGE_EVICT_LAST, i, START, AMOUNT);
    for (uint64_t i = 0; i < BYTES / 16 * 3; i++)
        charge(table, &limit, RN_CHARGE_EVICT_LAST, 1000 + i, START + SECOND, AMOUNT);
    assert_true(evictions(table, START) > BYTES / 16);
    for (uint64_t i = 0; i < victims; i++)
        forgotten +=
            charge(table, &limit, RN_CHARGE_EVICT_LAST, i, START + SECOND, 0).remaining != 0;
    print_message("# %u of %u forgotten\n", (unsigned)forgotten, (unsigned)victims);
    assert_true(forgotten < victims / 4);
    rn_table_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_evicted_last_costs_what_was_spent_when_slots_run_out),
        cmocka_unit_test(what_is_evicted_last_costs_what_was_spent_when_blocks_run_out),
        cmocka_unit_test(a_flood_of_equal_aligned_windows_mostly_replaces_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
