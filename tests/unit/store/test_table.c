/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory table: the contract of every store, then what is its own: which
 * bytes change, iteration, cleaning, and what happens when it is full.
 */
#include "contract.h"

#include "store/blocks.h"
#include "store/slots.h"
#include "store/table.h"
#include "unit/sanitized.h"

#define MIB (UINT64_C(1) << 20)

static struct rn_table *open_table(uint64_t bytes, unsigned block_share)
{
    struct ration_error error;
    struct rn_table *table = NULL;

    assert_int_equal(
        rn_table_open(&(struct rn_table_options){.bytes = bytes, .block_share = block_share},
                      &table, &error),
        0);
    assert_string_equal(error.text, "");
    return table;
}

static struct rn_store *plug_table(struct plugged_store *p)
{
    p->handle = open_table(16 * MIB, 50);
    return rn_table_store(p->handle);
}

static void unplug_table(struct plugged_store *p)
{
    rn_table_close(p->handle);
}

/* ---- one charge */

static int charge(struct rn_table *table, const struct rn_limit *limit, uint64_t key,
                  const struct rn_ask *ask, unsigned flags, struct rn_answer *answer)
{
    struct rn_charge c = {.limit = limit, .key = key, .flags = flags, .ask = *ask};

    rn_store_apply(rn_table_store(table), &c, 1);
    if (c.error == 0)
        *answer = c.answer;
    return c.error;
}

static struct rn_answer do_ok(struct rn_table *table, const struct rn_limit *limit, uint64_t key,
                              enum rn_op op, int64_t now, uint64_t cost)
{
    struct rn_ask ask = {
        .op = op, .now_ns = now, .cost = cost, .id = 1, .lease_ns = MINUTE, .at_ns = now};
    struct rn_answer a = {0};

    assert_int_equal(charge(table, limit, key, &ask, 0, &a), 0);
    return a;
}

static int take_flagged(struct rn_table *table, const struct rn_limit *limit, uint64_t key,
                        int64_t now, unsigned flags)
{
    struct rn_ask ask = {.op = RN_TAKE, .now_ns = now, .cost = 1, .id = 1, .lease_ns = MINUTE};
    struct rn_answer a;

    return charge(table, limit, key, &ask, flags, &a);
}

static struct rn_table_memory memory_at(const struct rn_table *table, int64_t now)
{
    struct rn_table_memory m;

    rn_table_memory(table, now, &m);
    return m;
}

static struct rn_limit per_hour(enum ration_algorithm algorithm, uint64_t amount)
{
    return compiled(
        &(struct ration_limit){.algorithm = algorithm, .amount = amount, .period_ns = HOUR});
}

/* ---- which bytes change */

static void *image_of(const struct rn_table *table)
{
    void *image = malloc(table->header->bytes);

    assert_non_null(image);
    memcpy(image, table->header, table->header->bytes);
    return image;
}

static void refusals_and_looks_leave_every_byte_alone(void **state)
{
    struct rn_table *table = open_table(8 * MIB, 50);

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct rn_limit limit = compiled(&every_form[kind].spec[0]);

        do_ok(table, &limit, key_of(kind), RN_TAKE, BASE, limit.cap - 1);
    }
    void *image = image_of(table);

    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct rn_limit limit = compiled(&every_form[kind].spec[0]);
        struct rn_limit other = compiled(&every_form[kind].spec[1]);

        assert_false(do_ok(table, &limit, key_of(kind), RN_TAKE, BASE, 2).allowed);
        assert_false(do_ok(table, &limit, key_of(kind), RN_TAKE, BASE, UINT64_MAX).allowed);
        do_ok(table, &limit, key_of(kind), RN_PEEK, BASE, 1);
        do_ok(table, &limit, key_of(kind), RN_OLDEST, BASE, 1);
        do_ok(table, &limit, key_of(kind), RN_TAKE, BASE, 0);
        do_ok(table, &other, key_of(kind), RN_PEEK, BASE, 1);
        /* nor does a key without state get any */
        assert_false(do_ok(table, &limit, key_of(1000), RN_TAKE, BASE, limit.cap + 1).allowed);
        do_ok(table, &limit, key_of(1000), RN_PEEK, BASE, 1);
        do_ok(table, &limit, key_of(1000), RN_GIVE_BACK, BASE, 1);
        do_ok(table, &limit, key_of(1000), RN_RESET, BASE, 0);
        assert_memory_equal(image, table->header, table->header->bytes);
    }
    free(image);
    rn_table_close(table);
}

static void prefetching_changes_nothing(void **state)
{
    struct rn_table *table = open_table(MIB, 50);
    struct rn_limit limit = compiled(&every_form[LOG].spec[0]);

    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        do_ok(table, &limit, key_of(i), RN_TAKE, BASE, 1);
    void *image = image_of(table);

    for (uint64_t i = 0; i < 1000; i++)
        rn_table_prefetch(table, key_of(i));
    rn_table_prefetch(table, 0);
    rn_table_prefetch(table, UINT64_MAX);
    assert_memory_equal(image, table->header, table->header->bytes);
    free(image);
    rn_table_close(table);
}

static void extreme_keys_work(void **state)
{
    static const uint64_t keys[] = {0, UINT64_MAX, 1, 64, UINT64_C(1) << 63};
    struct rn_table *table = open_table(MIB, 0);
    struct rn_limit limit = per_hour(RATION_TOKEN_BUCKET, 10);

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(do_ok(table, &limit, keys[i], RN_TAKE, BASE, 1).allowed, true);
    for (unsigned i = 1; i < 5; i++)
        assert_true(do_ok(table, &limit, keys[i], RN_PEEK, BASE, 0).remaining <= 10);
    rn_table_close(table);
}

/* ---- blocks come and go */

static void a_reset_frees_slot_and_block(void **state)
{
    struct rn_table *table = open_table(8 * MIB, 50);

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct rn_limit limit = compiled(&every_form[kind].spec[0]);
        uint64_t used = 0;

        for (uint64_t i = 0; i < 20000; i++) {
            do_ok(table, &limit, key_of(i), RN_TAKE, BASE, limit.cap > 5 ? 5 : limit.cap);
            assert_true(do_ok(table, &limit, key_of(i), RN_RESET, BASE, 0).allowed);
            if (i == 0)
                used = memory_at(table, BASE).block_bytes_used;
        }
        assert_int_equal(memory_at(table, BASE).block_bytes_used, used);
    }
    assert_int_equal(memory_at(table, BASE).live, 0);
    assert_int_equal(memory_at(table, BASE).evictions, 0);
    rn_table_close(table);
}

static void a_block_that_grew_is_freed_too(void **state)
{
    struct rn_table *table = open_table(MIB, 50);
    struct rn_limit limit = compiled(&every_form[LOG].spec[0]);

    (void)state;
    for (uint64_t i = 0; i < 5000; i++) {
        for (unsigned n = 0; n < 3; n++)
            do_ok(table, &limit, key_of(i), RN_TAKE, BASE, 90);
        assert_int_equal(do_ok(table, &limit, key_of(i), RN_PEEK, BASE, 0).remaining, 30);
        do_ok(table, &limit, key_of(i), RN_RESET, BASE, 0);
    }
    assert_int_equal(memory_at(table, BASE).evictions, 0);
    rn_table_close(table);
}

/* ---- iteration and cleaning */

#define CROWD 3000

struct census {
    uint64_t count, expected[CROWD], forms[CROWD];
    bool seen[CROWD];
    int64_t now;
};

static int note_entry(void *arg, const struct rn_table_entry *entry)
{
    struct census *c = arg;

    assert_true(entry->idle_at_ns > c->now);
    for (unsigned i = 0; i < CROWD; i++) {
        if ((c->expected[i] ^ entry->tag) >> 6 != 0)
            continue;
        assert_false(c->seen[i]);
        assert_int_equal(entry->form, c->forms[i]);
        c->seen[i] = true;
        c->count++;
        return 0;
    }
    fail_msg("a key that was never charged");
    return 1;
}

static void iteration_and_cleaning_find_exactly_the_right_keys(void **state)
{
    static struct cell cells[CROWD];
    static struct census census;
    struct rn_table *table = open_table(16 * MIB, 50);
    static const int64_t after[] = {0,           SECOND / 20, SECOND, 2 * SECOND,
                                    20 * SECOND, MINUTE,      HOUR,   3 * HOUR};

    (void)state;
    memset(cells, 0, sizeof cells);
    for (unsigned i = 0; i < CROWD; i++) {
        struct rn_limit limit = compiled(&every_form[i % KINDS].spec[0]);
        struct rn_ask ask = {.op = RN_TAKE,
                             .now_ns = BASE,
                             .cost = 1 + random_below(limit.cap),
                             .id = 1,
                             .lease_ns = 1 + (int64_t)random_below(MINUTE)};
        struct rn_answer a;

        assert_int_equal(charge(table, &limit, key_of(i), &ask, 0, &a), 0);
        cell_apply(&cells[i], &limit, &ask, &a);
        census.expected[i] = rn_key_tag(key_of(i));
        census.forms[i] = cells[i].form;
    }
    for (unsigned t = 0; t < sizeof after / sizeof *after; t++) {
        int64_t now = BASE + after[t];
        uint64_t live = 0, cleanable = 0;

        for (unsigned i = 0; i < CROWD; i++) {
            int64_t idle_at = cell_idle_at(&cells[i]);

            live += idle_at > now;
            cleanable += cells[i].present && idle_at <= now - SECOND;
            if (idle_at <= now - SECOND)
                cells[i].present = false;
        }
        census.count = 0;
        census.now = now;
        memset(census.seen, 0, sizeof census.seen);
        rn_table_each(table, now, note_entry, &census);
        assert_int_equal(census.count, live);
        assert_int_equal(memory_at(table, now).live, live);
        assert_int_equal(rn_table_clean(table, now), cleanable);
        assert_int_equal(rn_table_clean(table, now), 0);
        assert_int_equal(memory_at(table, now).live, live);
    }
    assert_int_equal(memory_at(table, BASE).live, 0);
    rn_table_close(table);
}

static int stop_at_third(void *arg, const struct rn_table_entry *entry)
{
    (void)entry;
    return ++*(unsigned *)arg == 3;
}

static void iteration_stops_when_told(void **state)
{
    struct rn_table *table = open_table(MIB, 0);
    struct rn_limit limit = per_hour(RATION_TOKEN_BUCKET, 10);
    unsigned visits = 0;

    (void)state;
    for (uint64_t i = 0; i < 10; i++)
        do_ok(table, &limit, key_of(i), RN_TAKE, BASE, 1);
    rn_table_each(table, BASE, stop_at_third, &visits);
    assert_int_equal(visits, 3);
    rn_table_close(table);
}

/* ---- capacity */

/* The hottest keys keep exact counters while ten times as many strangers as
 * there are slots come by. */
static void flood(enum ration_algorithm algorithm, uint64_t amount)
{
    enum { HOT = 20 };
    static struct cell cells[HOT];
    struct rn_table *table = open_table(MEMORY_SANITIZED ? MIB : 16 * MIB, 0);
    struct rn_limit limit = per_hour(algorithm, amount);
    uint64_t slots = memory_at(table, BASE).slots, bytes = memory_at(table, BASE).bytes;
    int64_t now = BASE;

    memset(cells, 0, sizeof cells);
    for (uint64_t i = 0; i < 10 * slots; i++) {
        do_ok(table, &limit, key_of(1000 + i), RN_TAKE, now, 1);
        now += 100000;
        if (i % 100 != 0)
            continue;
        unsigned hot = (unsigned)(i / 100 % HOT);
        struct rn_ask ask = {.op = RN_TAKE, .now_ns = now, .cost = 1};
        struct rn_answer got, want;

        assert_int_equal(charge(table, &limit, key_of(hot), &ask, 0, &got), 0);
        cell_apply(&cells[hot], &limit, &ask, &want);
        assert_int_equal(got.remaining, want.remaining);
        assert_int_equal(got.allowed, want.allowed);
    }
    struct rn_table_memory m = memory_at(table, now);

    assert_int_equal(m.bytes, bytes);
    assert_int_equal(m.slots, slots);
    assert_true(m.live <= slots);
    assert_true(m.evictions >= 8 * slots && m.evictions <= 10 * slots);
    rn_table_close(table);
}

static void a_flood_does_not_drown_busy_token_buckets(void **state)
{
    (void)state;
    flood(RATION_TOKEN_BUCKET, 10);
}

static void a_flood_does_not_drown_busy_fixed_windows(void **state)
{
    (void)state;
    flood(RATION_FIXED_WINDOW, 100000);
}

/* Two groups of eight: at load 0.7 less than one key in 100,000 finds no slot. */
static void at_seven_tenths_full_hardly_a_key_is_evicted(void **state)
{
    struct rn_table *table = open_table(16 * MIB + 8192 + RN_BOARD_BYTES, 0);
    struct rn_limit limit = per_hour(RATION_TOKEN_BUCKET, 100);
    uint64_t slots = memory_at(table, BASE).slots, n = slots * 7 / 10;

    (void)state;
    assert_true(slots >= MIB);
    for (uint64_t i = 0; i < n; i++)
        do_ok(table, &limit, key_of(i), RN_TAKE, BASE, 1);
    struct rn_table_memory m = memory_at(table, BASE);

    assert_in_range(m.evictions, 0, n / 100000);
    assert_int_equal(m.live, n - m.evictions);
    rn_table_close(table);
}

/* Generations of keys, each as many as seven tenths of the slots, each idle
 * before the next one comes: a table that has run for long has no empty slot. */
static void idle_keys_make_room_before_live_ones_go(void **state)
{
    struct rn_table *table = open_table(2 * MIB, 50);
    struct rn_limit word = compiled(&(struct ration_limit){
        .algorithm = RATION_TOKEN_BUCKET, .amount = 10, .period_ns = SECOND});
    struct rn_limit block = compiled(&(struct ration_limit){
        .algorithm = RATION_SLIDING_WINDOW, .amount = 10, .period_ns = SECOND});
    uint64_t n = memory_at(table, BASE).slots * 7 / 10, blocks = n / 10, generations = 20;
    int64_t now = BASE;

    (void)state;
    for (unsigned generation = 0; generation < generations; generation++) {
        for (uint64_t i = 0; i < n; i++)
            do_ok(table, i < blocks ? &block : &word, key_of(generation * n + i), RN_TAKE, now, 1);
        now += 5 * SECOND;
    }
    assert_in_range(memory_at(table, now).evictions, 0, generations * n / 100000);
    rn_table_close(table);
}

static void keys_to_keep_are_refused_room_rather_than_evicted(void **state)
{
    struct rn_table *table = open_table(MIB, 0);
    struct rn_limit limit = per_hour(RATION_FIXED_WINDOW, 10);
    uint64_t slots = memory_at(table, BASE).slots, kept = 0, full = 0, n = slots * 3 / 2;
    unsigned char *has = calloc(n, 1);

    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        int error = take_flagged(table, &limit, key_of(i), BASE, RN_CHARGE_KEEP);

        assert_true(error == 0 || error == RATION_EFULL);
        has[i] = error == 0;
        kept += error == 0;
        full += error != 0;
    }
    assert_int_equal(memory_at(table, BASE).evictions, 0);
    assert_int_equal(memory_at(table, BASE).live, kept);
    assert_true(kept > slots * 9 / 10 && full > 0);
    /* strangers do not push them out, and they can still be charged */
    for (uint64_t i = 0; i < slots; i++)
        assert_int_equal(take_flagged(table, &limit, key_of(n + i), BASE, 0), 0);
    for (uint64_t i = 0; i < n; i++) {
        if (!has[i])
            continue;
        assert_int_equal(do_ok(table, &limit, key_of(i), RN_PEEK, BASE, 0).remaining, 9);
        assert_int_equal(take_flagged(table, &limit, key_of(i), BASE, RN_CHARGE_KEEP), 0);
        assert_int_equal(do_ok(table, &limit, key_of(i), RN_PEEK, BASE, 0).remaining, 8);
    }
    /* when they are idle their room is free again */
    for (uint64_t i = 0; i < slots / 2; i++)
        assert_int_equal(
            take_flagged(table, &limit, key_of(2 * n + i), BASE + 3 * HOUR, RN_CHARGE_KEEP), 0);
    free(has);
    rn_table_close(table);
}

static void a_refused_room_changes_no_byte(void **state)
{
    struct rn_table *table = open_table(MIB, 50);
    struct rn_limit limit = per_hour(RATION_SLIDING_WINDOW, 10);
    uint64_t i = 0;
    void *image;

    (void)state;
    while (take_flagged(table, &limit, key_of(i), BASE, RN_CHARGE_KEEP) == 0)
        i++;
    /* the first refusal may have set a spare block aside */
    while (take_flagged(table, &limit, key_of(i), BASE, RN_CHARGE_KEEP) == 0)
        i++;
    image = image_of(table);
    for (unsigned n = 0; n < 100; n++)
        assert_int_equal(take_flagged(table, &limit, key_of(i), BASE, RN_CHARGE_KEEP),
                         RATION_EFULL);
    assert_memory_equal(image, table->header, table->header->bytes);
    free(image);
    rn_table_close(table);
}

/* ---- no block left */

static uint64_t blocks_in(const struct rn_table *table, uint32_t words)
{
    return table->slab_count * (table->slab_words / words);
}

static void when_blocks_run_out_live_keys_are_evicted_and_counted(void **state)
{
    struct rn_table *table = open_table(2 * MIB, 13);
    struct rn_limit limit = per_hour(RATION_SLIDING_WINDOW, 10);
    uint64_t blocks = blocks_in(table, 3), n = 3 * blocks;

    (void)state;
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(take_flagged(table, &limit, key_of(i), BASE, 0), 0);
    struct rn_table_memory m = memory_at(table, BASE);

    assert_in_range(m.live, blocks - 2, blocks);
    assert_int_equal(m.live + m.evictions, n);
    assert_true(m.block_bytes_used <= m.block_bytes);
    rn_table_close(table);
}

static void when_blocks_run_out_keys_to_keep_are_refused_until_others_are_idle(void **state)
{
    struct rn_table *table = open_table(2 * MIB, 13);
    struct rn_limit limit = per_hour(RATION_SLIDING_WINDOW, 10);
    uint64_t i = 0, kept;

    (void)state;
    while (take_flagged(table, &limit, key_of(i), BASE, RN_CHARGE_KEEP) == 0)
        i++;
    kept = i;
    assert_in_range(kept, blocks_in(table, 3) - 2, blocks_in(table, 3));
    assert_int_equal(take_flagged(table, &limit, key_of(i), BASE, RN_CHARGE_KEEP), RATION_EFULL);
    assert_int_equal(take_flagged(table, &limit, key_of(i), BASE, 0), 0); /* and is forgotten */
    assert_int_equal(memory_at(table, BASE).evictions, 1);
    assert_int_equal(memory_at(table, BASE).live, kept);
    for (uint64_t k = 0; k < kept; k++)
        assert_int_equal(do_ok(table, &limit, key_of(k), RN_PEEK, BASE, 0).remaining, 9);

    assert_int_equal(rn_table_clean(table, BASE + 3 * HOUR), kept);
    for (uint64_t k = 0; k < kept - 1; k++)
        assert_int_equal(
            take_flagged(table, &limit, key_of(kept + k), BASE + 3 * HOUR, RN_CHARGE_KEEP), 0);
    rn_table_close(table);
}

static void blocks_of_idle_keys_are_found_without_cleaning(void **state)
{
    struct rn_table *table = open_table(2 * MIB, 13);
    struct rn_limit limit = per_hour(RATION_SLIDING_WINDOW, 10);
    uint64_t n = blocks_in(table, 3) - 2;

    (void)state;
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(take_flagged(table, &limit, key_of(i), BASE, RN_CHARGE_KEEP), 0);
    /* a search is bounded, so the very last ones may go unnoticed */
    for (uint64_t i = 0; i < n / 2; i++)
        assert_int_equal(
            take_flagged(table, &limit, key_of(n + i), BASE + 3 * HOUR, RN_CHARGE_KEEP), 0);
    assert_int_equal(memory_at(table, BASE + 3 * HOUR).evictions, 0);
    rn_table_close(table);
}

/* ---- the secret */

static void every_table_has_its_own_secret(void **state)
{
    struct rn_table *a = open_table(MIB, 0), *b = open_table(MIB, 0);

    (void)state;
    assert_memory_not_equal(rn_table_secret(a), rn_table_secret(b), sizeof(struct rn_hash_key));
    assert_true(rn_table_secret(a)->k0 != 0 && rn_table_secret(a)->k1 != 0);
    rn_table_close(a);
    rn_table_close(b);
}

static uint64_t groups_used(const struct rn_table *table)
{
    uint64_t used = 0;

    for (uint64_t g = 0; g < table->group_count; g++) {
        bool any = false;

        for (unsigned i = 0; i < RN_GROUP_SLOTS; i++)
            any |= table->groups[g].slots[i].tag != 0;
        used += any;
    }
    return used;
}

/* An attacker who knows the algorithm but not the secret picks texts that
 * would all fall into one part in 256 of the groups. */
static void chosen_keys_spread_like_any_others(void **state)
{
    enum { CHOSEN = 2000 };
    struct rn_table *victim = open_table(MIB, 0), *naive = open_table(MIB, 0);
    struct rn_limit limit = per_hour(RATION_TOKEN_BUCKET, 10);
    const struct rn_hash_key guess = {0, 0};

    (void)state;
    for (uint64_t text = 0, n = 0; n < CHOSEN; text++) {
        uint64_t unkeyed = rn_siphash(&guess, &text, sizeof text);

        if (unkeyed >> 56 != 0)
            continue;
        n++;
        do_ok(naive, &limit, unkeyed, RN_TAKE, BASE, 1);
        do_ok(victim, &limit, rn_siphash(rn_table_secret(victim), &text, sizeof text), RN_TAKE,
              BASE, 1);
    }
    assert_true(memory_at(naive, BASE).live == CHOSEN); /* second groups help even then */
    assert_int_equal(memory_at(victim, BASE).live, CHOSEN);
    assert_int_equal(memory_at(victim, BASE).evictions, 0);
    /* 2000 random balls in 8159 bins leave about 6390 empty */
    assert_in_range(groups_used(victim), 1650, 2000);
    assert_true(groups_used(naive) < groups_used(victim));
    rn_table_close(victim);
    rn_table_close(naive);
}

/* Its blocks would take so large a part of the table that no slot was left. */
static void a_table_for_the_largest_log_alone_opens(void **state)
{
    struct rn_limit log;

    (void)state;
    rn_limit_init(&log, &(struct ration_limit){.algorithm = RATION_SLIDING_LOG,
                                               .amount = RATION_LOG_MAX,
                                               .period_ns = MINUTE});
    struct rn_table_options options = {.bytes = 64 * MIB,
                                       .block_share = rn_table_block_share(&log)};
    struct rn_table *table = NULL;

    assert_int_equal(rn_table_open(&options, &table, NULL), 0);
    assert_true(rn_table_capacity(table, &log, 1) > 64);
    rn_table_close(table);
}

int main(void)
{
    static struct plugged_store table = {
        .name = "memory table", .open = plug_table, .close = unplug_table};
    const struct CMUnitTest tests[] = {
        CONTRACT_TESTS(&table),
        cmocka_unit_test(refusals_and_looks_leave_every_byte_alone),
        cmocka_unit_test(prefetching_changes_nothing),
        cmocka_unit_test(extreme_keys_work),
        cmocka_unit_test(a_table_for_the_largest_log_alone_opens),
        cmocka_unit_test(a_reset_frees_slot_and_block),
        cmocka_unit_test(a_block_that_grew_is_freed_too),
        cmocka_unit_test(iteration_and_cleaning_find_exactly_the_right_keys),
        cmocka_unit_test(iteration_stops_when_told),
        cmocka_unit_test(a_flood_does_not_drown_busy_token_buckets),
        cmocka_unit_test(a_flood_does_not_drown_busy_fixed_windows),
        cmocka_unit_test(at_seven_tenths_full_hardly_a_key_is_evicted),
        cmocka_unit_test(idle_keys_make_room_before_live_ones_go),
        cmocka_unit_test(keys_to_keep_are_refused_room_rather_than_evicted),
        cmocka_unit_test(a_refused_room_changes_no_byte),
        cmocka_unit_test(when_blocks_run_out_live_keys_are_evicted_and_counted),
        cmocka_unit_test(when_blocks_run_out_keys_to_keep_are_refused_until_others_are_idle),
        cmocka_unit_test(blocks_of_idle_keys_are_found_without_cleaning),
        cmocka_unit_test(every_table_has_its_own_secret),
        cmocka_unit_test(chosen_keys_spread_like_any_others),
    };

    random_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
