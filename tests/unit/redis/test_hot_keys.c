/* SPDX-License-Identifier: Apache-2.0 */
/* The table of keys with a lease, and the demand for others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis/leased/hot_keys.h"

#define SECOND INT64_C(1000000000)

static struct rn_lease_record records[RN_HOT_KEYS_MAX];

static struct rn_hot_keys *new_table(void)
{
    struct rn_hot_keys *table = calloc(1, sizeof *table);

    assert_non_null(table);
    assert_true(rn_hot_keys_init(table, NULL, records));
    return table;
}

/* Against a list of what must be there. */
static void keys_are_found_until_they_are_dropped(void **state)
{
    enum { KEYS = 64, IN_A_CHAIN = 3 };
    struct rn_hot_keys *table = new_table();
    bool there[KEYS][IN_A_CHAIN] = {{false}};
    uint64_t random = 1;
    size_t count = 0;

    (void)state;
    for (int step = 0; step < 100000; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t number = (random >> 33) % KEYS, turn = (random >> 50) % IN_A_CHAIN;
        uint64_t key = number + turn * RN_HOT_KEYS_MAX;
        struct rn_hot_key *held = rn_hot_keys_find(table, key);

        assert_int_equal(held != NULL, there[number][turn]);
        if (!held) {
            held = rn_hot_keys_add(table, key, step);
            assert_int_equal(held->used_ns, step);
            there[number][turn] = true;
            count++;
        } else if (random >> 62 == 0) {
            rn_hot_keys_drop(table, held);
            there[number][turn] = false;
            count--;
            continue;
        }
        assert_int_equal(held->local.key, key);
        assert_int_equal(table->keys.count, count);
    }
    rn_hot_keys_done(table);
    free(table);
}

static void no_more_are_held_than_there_is_room_for(void **state)
{
    struct rn_hot_keys *table = new_table();

    (void)state;
    for (uint64_t key = 1; key <= RN_HOT_KEYS_MAX; key++)
        assert_non_null(rn_hot_keys_add(table, key * 7, 0));
    assert_null(rn_hot_keys_add(table, 1, 0));
    rn_hot_keys_drop(table, rn_hot_keys_find(table, 7));
    struct rn_hot_key *held = rn_hot_keys_add(table, 1, 5);
    assert_non_null(held);
    assert_int_equal(held->lease.units, 0);
    assert_ptr_equal(rn_hot_keys_find(table, 1), held);
    rn_hot_keys_done(table);
    free(table);
}

static void another_key_does_not_inherit_a_demand(void **state)
{
    struct rn_hot_keys *table = new_table();
    struct rn_demand *demand = NULL;

    (void)state;
    for (int64_t t = 0; t < SECOND; t += SECOND / 100)
        demand = rn_hot_keys_watch(table, 5, 1, t);
    assert_true(rn_sizing_rate(demand, SECOND) >= RN_SIZING_HOT);
    demand = rn_hot_keys_watch(table, 5 + RN_HOT_KEYS_WATCHED, 1, SECOND);
    assert_int_equal(rn_sizing_rate(demand, SECOND), 0);
    rn_hot_keys_done(table);
    free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_found_until_they_are_dropped),
        cmocka_unit_test(no_more_are_held_than_there_is_room_for),
        cmocka_unit_test(another_key_does_not_inherit_a_demand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
