/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is stopped after each of its instructions in turn, while another one
 * changes the same slot, or is killed there. The debugger's single step makes this
 * exact; on processors without a plain trap instruction the tests are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "file_fixture.h"
#include "single_step.h"
#include "store/sweep.h"
#include "unit/sanitized.h"

static struct shared {
    struct rn_slot slot;
    _Atomic bool done; /* the child has run all of `act` */
    bool swapped;
} * shared;

static int share(void **state)
{
    make_folder(state);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    act_done = &shared->done;
    return 0;
}

static int unshare_all(void **state)
{
    munmap(shared, sizeof *shared);
    return drop_folder(state);
}

static const struct rn_slot_value one = {64, 1}, two = {128, 2}, three = {192, 3};

static void swap_one_for_two(unsigned arg)
{
    (void)arg;
    shared->swapped = rn_slot_swap(&shared->slot, one, two);
}

/* A sanitizer may put a lock that other processes do not see in place of the instruction;
 * then tests with several processes would lose states that the table does not lose. */
static void a_swap_stopped_at_any_instruction_is_done_or_not_begun(void **state)
{
    NEEDS_SINGLE_STEP;
    (void)state;
    for (unsigned at = 0; at == 0 || !shared->done; at++) {
        shared->slot = (struct rn_slot){one.tag, one.state};
        pid_t child = stop_after(at, swap_one_for_two, 0);
        bool ended = shared->done;
        struct rn_slot_value now = rn_slot_load(&shared->slot);

        assert_true(now.tag == one.tag || now.tag == two.tag);
        assert_int_equal(now.state, now.tag == one.tag ? one.state : two.state);
        assert_true(rn_slot_swap(&shared->slot, now, three));
        end(child, true);
        assert_int_equal(shared->slot.tag, three.tag);
        assert_int_equal(shared->slot.state, three.state);
        assert_int_equal(shared->swapped, now.tag == two.tag);
        shared->done = ended;
    }
}

/* ---- charges */

#define AMOUNT 5
#define KILLS 60

static struct rn_table *table;
static struct rn_limit limit;
static int64_t begin;

static struct rn_answer charge(unsigned key, uint64_t cost, enum rn_op op)
{
    struct rn_charge c = {
        .limit = &limit, .key = key_of(key), .ask = {.op = op, .now_ns = begin, .cost = cost}};

    rn_store_apply(rn_table_store(table), &c, 1);
    assert_int_equal(c.error, 0);
    return c.answer;
}

static void take_two(unsigned key)
{
    charge(key, 2, RN_TAKE);
}

/* Stops a process that charges 2 units after `instructions`, and kills it there. The key has
 * spent `before`, or 2 more, and can spend the rest. Returns what the process has charged. */
static uint64_t kill_after(unsigned instructions, unsigned key, uint64_t before)
{
    if (before != 0)
        assert_true(charge(key, before, RN_TAKE).allowed);
    pid_t child = stop_after(instructions, take_two, key);

    end(child, false);
    uint64_t left = charge(key, 0, RN_PEEK).remaining, spent = AMOUNT - before - left;

    assert_true(spent == 0 || spent == 2);
    assert_true(!shared->done || spent == 2);
    assert_true(charge(key, left, RN_TAKE).allowed);
    return spent;
}

static unsigned instructions_of_a_charge(uint64_t before)
{
    unsigned low = 0, high = 1;

    while (kill_after(high, high, before), !shared->done)
        low = high, high *= 2;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;

        kill_after(middle, 1 << 20 | middle, before);
        *(shared->done ? &high : &low) = middle;
    }
    return high;
}

static void kill_all_along_a_charge(uint64_t before)
{
    uint64_t made = 0;

    table = open_ok(4 * MIB, 50);
    limit = compiled(&(struct ration_limit){
        .algorithm = RATION_SLIDING_LOG, .amount = AMOUNT, .period_ns = 3650 * DAY});
    begin = rn_table_now(table);
    unsigned n = instructions_of_a_charge(before), keys = 2 << 20;
    for (unsigned i = 0; i <= KILLS; i++)
        made += kill_after(n * i / KILLS, keys + i, before);
    assert_true(made > 0 && made <= 2 * KILLS);
    rn_table_close(table);
    table = open_ok(0, 0);
    assert_int_equal(rn_blocks_bytes_used(table), bytes_of_slots(table));
    for (unsigned i = 0; i <= KILLS; i++)
        assert_false(charge(keys + i, 1, RN_TAKE).allowed);
    assert_int_equal(table->header->evictions, 0);
    rn_table_close(table);
}

static void a_first_charge_killed_midway_is_made_or_not(void **state)
{
    NEEDS_SINGLE_STEP;
    (void)state;
    kill_all_along_a_charge(0);
}

static void a_second_charge_killed_midway_is_made_or_not(void **state)
{
    NEEDS_SINGLE_STEP;
    (void)state;
    kill_all_along_a_charge(1);
}

/* ---- counting slabs */

static void take_a_slab(unsigned class)
{
    struct rn_context *context = rn_blocks_context_enter(table);

    rn_sweep_alloc(table, context, &(struct rn_sweep_want){.class = class, .now_ns = begin});
    rn_blocks_context_leave(context);
}

static uint64_t slabs_in_the_pool(void)
{
    uint64_t slabs = 0;

    for (uint64_t i = 0; i < table->slab_count; i++)
        slabs += rn_slab_class(table->slabs[i]) >= RN_CLASSES;
    return slabs;
}

/* When few slabs are left, taking one counts them all. */
static void slabs_given_back_during_a_count_are_not_lost(void **state)
{
    NEEDS_SINGLE_STEP;
    (void)state;
    for (unsigned steps = 1; steps < 3000; steps += steps / 8 + 1) {
        uint32_t blocks[2];

        table = open_ok(MIB, 10);
        begin = rn_table_now(table);
        while (table->header->slabs_free > 1)
            blocks[table->header->slabs_free % 2] = rn_block_alloc(table, table->class_whole);
        pid_t child = stop_after(steps, take_a_slab, table->class_whole);

        rn_block_free(table, table->class_whole, blocks[0]);
        rn_block_free(table, table->class_whole, blocks[1]);
        end(child, true);
        assert_int_equal(table->header->slabs_free, slabs_in_the_pool());
        rn_table_close(table);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest sanitized[] = {
        cmocka_unit_test_setup_teardown(a_swap_stopped_at_any_instruction_is_done_or_not_begun,
                                        share, unshare_all),
    };
    const struct CMUnitTest tests[] = {
        sanitized[0],
        cmocka_unit_test_setup_teardown(a_first_charge_killed_midway_is_made_or_not, share,
                                        unshare_all),
        cmocka_unit_test_setup_teardown(a_second_charge_killed_midway_is_made_or_not, share,
                                        unshare_all),
        cmocka_unit_test_setup_teardown(slabs_given_back_during_a_count_are_not_lost, share,
                                        unshare_all),
    };

    /* Sanitizers add instructions that are not the table's. */
    if (SANITIZED)
        return cmocka_run_group_tests(sanitized, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
