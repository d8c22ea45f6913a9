/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory table under many threads: what is admitted is the limit, exactly.
 * The threads draw tickets; consecutive tickets name the same key, so that
 * whoever is running meets the others on it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "every_form.h"
#include "store/blocks.h"
#include "store/slots.h"
#include "unit/sanitized.h"

#define THREADS 8
#define MIB (UINT64_C(1) << 20)
#define YEAR (365 * DAY)

struct storm;
typedef void storm_step(struct storm *storm, uint64_t ticket, uint64_t *random);

struct storm {
    struct rn_table *table;
    storm_step *step;
    uint64_t tickets;
    _Alignas(128) _Atomic uint64_t next;
    _Alignas(128) struct rn_limit limits[KINDS];
    uint64_t keys, only_key;
    _Atomic uint64_t *admitted, *returned; /* per key */
    _Atomic uint64_t resets, errors;
};

static uint64_t draw(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *random >> 33;
}

static pthread_barrier_t start_line;

static void *run_thread(void *arg)
{
    struct storm *s = arg;
    uint64_t random = (uint64_t)(uintptr_t)&random, ticket;

    pthread_barrier_wait(&start_line);
    while ((ticket = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->tickets)
        s->step(s, ticket, &random);
    return NULL;
}

static void blow(struct storm *s)
{
    pthread_t threads[THREADS];

    s->next = 0;
    pthread_barrier_init(&start_line, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, s), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start_line);
}

/* A limit of `amount` in every form that does not move while the test runs. */
static struct rn_limit still_limit(unsigned kind, uint64_t amount)
{
    struct ration_limit spec = every_form[kind].spec[0];

    spec.amount = amount;
    if (kind == ADAPTIVE)
        spec.adaptive_min = (uint16_t)amount;
    if (kind == QUEUE)
        spec.queue = amount - 1;
    if (kind == STEPS) {
        spec.step_ns = YEAR / (int64_t)amount;
        spec.period_ns = spec.step_ns * (int64_t)amount;
    } else if (kind == FINE) {
        spec.period_ns = 700000003; /* no whole number of nanoseconds per unit */
    } else if (kind != SHORT_WINDOW && kind < PLACES) {
        spec.period_ns = kind == OWN ? 30 * DAY : YEAR; /* the example takes no more */
    }
    return compiled(&spec);
}

static struct storm *new_storm(uint64_t bytes, unsigned block_share, uint64_t keys)
{
    struct storm *s = aligned_alloc(128, sizeof *s);

    memset(s, 0, sizeof *s);
    assert_int_equal(
        rn_table_open(&(struct rn_table_options){.bytes = bytes, .block_share = block_share},
                      &s->table, NULL),
        0);
    s->keys = keys;
    s->admitted = calloc(keys, sizeof *s->admitted);
    s->returned = calloc(keys, sizeof *s->returned);
    return s;
}

static uint64_t evictions(const struct storm *s)
{
    return s->table->header->evictions;
}

static void end_storm(struct storm *s)
{
    rn_table_close(s->table);
    free((void *)s->admitted);
    free((void *)s->returned);
    free(s);
}

static struct rn_charge take_of(struct storm *s, uint64_t key, uint64_t id)
{
    return (struct rn_charge){
        .limit = &s->limits[key % KINDS],
        .key = key_of(key),
        .ask = {
            .op = RN_TAKE, .now_ns = BASE, .cost = 1, .id = id, .lease_ns = HOUR, .at_ns = BASE}};
}

static bool apply(struct storm *s, struct rn_charge *c)
{
    rn_store_apply(rn_table_store(s->table), c, 1);
    if (c->error)
        atomic_fetch_add(&s->errors, 1);
    return c->error == 0 && c->answer.allowed;
}

static uint64_t left_of(struct storm *s, uint64_t key)
{
    struct rn_charge c = take_of(s, key, 1);

    c.ask.op = RN_PEEK;
    apply(s, &c);
    return c.answer.remaining;
}

/* ---- one key */

static void take_step(struct storm *s, uint64_t ticket, uint64_t *random)
{
    struct rn_charge c = take_of(s, s->only_key, ticket + 1);

    (void)random;
    if (apply(s, &c))
        atomic_fetch_add(&s->admitted[0], 1);
}

static void one_key_admits_exactly_its_limit(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct storm *s = new_storm(8 * MIB, 50, 1);
        uint64_t limit = kind == LOG || kind >= PLACES || kind == SMALL_LOG ? 400 : 10000;

        s->only_key = kind;
        for (unsigned k = 0; k < KINDS; k++)
            s->limits[k] = still_limit(k, limit);
        s->step = take_step;
        s->tickets = SCALED(100000, 12000) + limit;
        blow(s);
        assert_int_equal(s->errors, 0);
        assert_int_equal(s->admitted[0], limit);
        assert_int_equal(left_of(s, kind), 0);
        end_storm(s);
    }
}

/* ---- a thousand keys, every form */

#define MANY_LIMIT 20
#define PER_KEY 48

static void many_step(struct storm *s, uint64_t ticket, uint64_t *random)
{
    /* a window of sixteen keys moves over all of them */
    uint64_t turn = ticket / (16 * PER_KEY), key = (16 * turn + draw(random) % 16) % s->keys;
    struct rn_charge c = take_of(s, key, ticket + 1);

    if (apply(s, &c))
        atomic_fetch_add_explicit(&s->admitted[key], 1, memory_order_relaxed);
}

static void a_thousand_keys_of_every_form_admit_exactly_their_limits(void **state)
{
    struct storm *s = new_storm(32 * MIB, 50, 1008);

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++)
        s->limits[kind] = still_limit(kind, MANY_LIMIT);
    s->step = many_step;
    s->tickets = s->keys * PER_KEY * SCALED(20, 2);
    blow(s);
    assert_int_equal(s->errors, 0);
    assert_int_equal(evictions(s), 0);
    for (uint64_t key = 0; key < s->keys; key++)
        assert_int_equal(s->admitted[key] + left_of(s, key), MANY_LIMIT);
    end_storm(s);
}

/* ---- fresh keys */

static void fresh_step(struct storm *s, uint64_t ticket, uint64_t *random)
{
    uint64_t key = ticket / THREADS;
    struct rn_charge c = take_of(s, key, ticket + 1);

    (void)random;
    if (apply(s, &c))
        atomic_fetch_add_explicit(&s->admitted[key], 1, memory_order_relaxed);
}

static void admit_fresh_keys_once(uint64_t bytes, unsigned share, uint64_t keys, bool words)
{
    struct storm *s = new_storm(bytes, share, keys);
    uint64_t wrong = 0;

    for (unsigned kind = 0; kind < KINDS; kind++)
        s->limits[kind] = still_limit(words ? (kind % 2 ? TOKENS : WINDOW) : kind, 1);
    s->step = fresh_step;
    s->tickets = keys * THREADS;
    blow(s);
    for (uint64_t key = 0; key < keys; key++)
        wrong += s->admitted[key] != 1;
    assert_int_equal(wrong, 0);
    assert_int_equal(s->errors, 0);
    assert_int_equal(evictions(s), 0);
    end_storm(s);
}

static void a_million_fresh_keys_are_each_admitted_once(void **state)
{
    (void)state;
    admit_fresh_keys_once(64 * MIB, 0, SCALED(1000000, 60000), true);
}

static void fresh_keys_of_every_form_are_each_admitted_once(void **state)
{
    (void)state;
    admit_fresh_keys_once(96 * MIB, 60, SCALED(300000, 30000), false);
}

/* In a crowded table the claims for one key land in different groups. */
static void fresh_keys_in_a_crowded_table_are_each_admitted_once(void **state)
{
    (void)state;
    for (unsigned round = 0; round < SCALED(20, 3); round++)
        admit_fresh_keys_once(MIB, 0, 65000 * 6 / 10, true);
}

/* ---- giving back and resetting */

static void return_charge(struct storm *s, const struct rn_charge *taken, uint64_t key)
{
    struct rn_charge back = *taken;

    back.ask.op = RN_GIVE_BACK;
    back.ask.mark = taken->answer.mark;
    if (apply(s, &back))
        atomic_fetch_add_explicit(&s->returned[key], 1, memory_order_relaxed);
}

static void refund_step(struct storm *s, uint64_t ticket, uint64_t *random)
{
    uint64_t key = ticket / 64 % s->keys;
    struct rn_charge c = take_of(s, key, ticket + 1);

    if (!apply(s, &c))
        return;
    atomic_fetch_add_explicit(&s->admitted[key], 1, memory_order_relaxed);
    if (draw(random) % 2)
        return_charge(s, &c, key);
}

static void what_is_given_back_balances_exactly(void **state)
{
    struct storm *s = new_storm(32 * MIB, 50, 96);

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++)
        s->limits[kind] = still_limit(kind, MANY_LIMIT);
    s->step = refund_step;
    s->tickets = SCALED(1000000, 60000);
    blow(s);
    assert_int_equal(s->errors, 0);
    for (uint64_t key = 0; key < s->keys; key++) {
        /* a queue takes only its last place back, which another may be by then */
        if (key % KINDS != QUEUE)
            assert_int_equal(s->admitted[key] - s->returned[key] + left_of(s, key), MANY_LIMIT);
        assert_true(s->admitted[key] - s->returned[key] <= MANY_LIMIT);
    }
    end_storm(s);
}

static void reset_step(struct storm *s, uint64_t ticket, uint64_t *random)
{
    uint64_t key = ticket / 64 % s->keys;
    struct rn_charge c = take_of(s, key, ticket + 1);

    if (draw(random) % 64 == 0) {
        c.ask.op = RN_RESET;
        apply(s, &c);
        /* `returned` counts resets here: each may free a whole limit */
        atomic_fetch_add_explicit(&s->returned[key], MANY_LIMIT, memory_order_relaxed);
    } else if (apply(s, &c)) {
        atomic_fetch_add_explicit(&s->admitted[key], 1, memory_order_relaxed);
        if (draw(random) % 4 == 0) {
            c.ask.op = RN_GIVE_BACK;
            c.ask.mark = c.answer.mark;
            if (apply(s, &c))
                atomic_fetch_add_explicit(&s->returned[key], 1, memory_order_relaxed);
        }
    }
}

static void resets_free_no_more_than_they_say(void **state)
{
    struct storm *s = new_storm(32 * MIB, 50, 96);

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++)
        s->limits[kind] = still_limit(kind, MANY_LIMIT);
    s->step = reset_step;
    s->tickets = SCALED(1000000, 60000);
    blow(s);
    assert_int_equal(s->errors, 0);
    for (uint64_t key = 0; key < s->keys; key++) {
        assert_true(s->admitted[key] <= MANY_LIMIT + s->returned[key]);
        assert_true(left_of(s, key) <= MANY_LIMIT);
    }
    assert_int_equal(evictions(s), 0);
    end_storm(s);
}

/* ---- growth */

static void grow_step(struct storm *s, uint64_t ticket, uint64_t *random)
{
    uint64_t key = ticket / 2048 % s->keys;
    struct rn_charge c = take_of(s, key, ticket + 1);

    c.ask.cost = 1 + draw(random) % 3;
    if (apply(s, &c))
        atomic_fetch_add_explicit(&s->admitted[key], c.ask.cost, memory_order_relaxed);
}

static void blocks_that_grow_under_contention_lose_nothing(void **state)
{
    struct storm *s = new_storm(64 * MIB, 80, SCALED(120, 24));

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++)
        s->limits[kind] = still_limit(kind % 2 ? LOG : PLACES, 500);
    s->step = grow_step;
    s->tickets = s->keys * 2048;
    blow(s);
    assert_int_equal(s->errors, 0);
    for (uint64_t key = 0; key < s->keys; key++) {
        assert_true(s->admitted[key] >= 498);
        assert_int_equal(s->admitted[key] + left_of(s, key), 500);
    }
    assert_int_equal(evictions(s), 0);
    end_storm(s);
}

/* ---- looking while others write */

#define LOOKED_AT 1
#define RESET_OFTEN 2
#define PLACES_LIMIT 4000
#define HELD 3000

static struct rn_charge lease_of(struct storm *s, uint64_t key, enum rn_op op, int64_t lease_ns)
{
    struct rn_charge c = take_of(s, key, 1);

    c.ask.op = op;
    c.ask.cost = HELD;
    c.ask.lease_ns = lease_ns;
    return c;
}

/* Half of the tickets look at a key whose places are renewed by others. Its old
 * blocks go to a key that is reset again and again and whose leases have ended
 * by the time of the look: one word of them would show. */
static void look_step(struct storm *s, uint64_t ticket, uint64_t *random)
{
    struct rn_charge c;

    if (ticket % 2) {
        c = lease_of(s, LOOKED_AT, RN_PEEK, 0);
        c.ask.now_ns = BASE + 2;
        apply(s, &c);
        if (c.answer.remaining != PLACES_LIMIT - HELD)
            atomic_fetch_add(&s->resets, 1);
        return;
    }
    if (draw(random) % 2)
        c = lease_of(s, LOOKED_AT, RN_RENEW, HOUR);
    else
        c = lease_of(s, RESET_OFTEN, draw(random) % 2 ? RN_RESET : RN_TAKE, 1);
    apply(s, &c);
}

static void a_look_never_sees_another_keys_block(void **state)
{
    struct storm *s = new_storm(32 * MIB, 80, 1);
    struct rn_charge c;

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++)
        s->limits[kind] = still_limit(PLACES, PLACES_LIMIT);
    c = lease_of(s, LOOKED_AT, RN_TAKE, HOUR);
    assert_true(apply(s, &c));
    s->step = look_step;
    s->tickets = SCALED(60000, 6000);
    blow(s);
    assert_int_equal(s->errors, 0);
    assert_int_equal(s->resets, 0);
    end_storm(s);
}

/* ---- no room */

static void crowd_step(struct storm *s, uint64_t ticket, uint64_t *random)
{
    uint64_t key = draw(random) % 8 ? ticket / 2 : draw(random) % 64;
    struct rn_charge c = take_of(s, key, ticket + 1);

    c.flags = draw(random) % 16 == 0 ? RN_CHARGE_KEEP : 0;
    c.ask.now_ns = BASE + (int64_t)(ticket * 20000);
    rn_store_apply(rn_table_store(s->table), &c, 1);
    if (c.error != 0 && c.error != RATION_EFULL)
        atomic_fetch_add(&s->errors, 1);
    if (c.error == RATION_EFULL)
        atomic_fetch_add(&s->resets, 1);
    if (ticket % 100000 == 0)
        rn_table_clean(s->table, c.ask.now_ns);
}

static uint64_t slots_in_use(const struct rn_table *table)
{
    uint64_t used = 0;

    for (uint64_t g = 0; g < table->group_count; g++)
        for (unsigned i = 0; i < RN_GROUP_SLOTS; i++)
            used += table->groups[g].slots[i].tag != 0;
    return used;
}

/* A slot whose block is not its own would be dropped by collecting. */
static void a_full_table_stays_whole_under_contention(void **state)
{
    struct storm *s = new_storm(3 * MIB, 80, 1);

    (void)state;
    for (unsigned kind = 0; kind < KINDS; kind++)
        s->limits[kind] = still_limit(kind, 20);
    s->step = crowd_step;
    s->tickets = SCALED(2000000, 100000);
    blow(s);
    assert_int_equal(s->errors, 0);
    assert_true(evictions(s) > 0);
    uint64_t used = slots_in_use(s->table);

    rn_blocks_contexts_drain(s->table);
    assert_int_equal(rn_blocks_collect(s->table), 0);
    assert_int_equal(slots_in_use(s->table), used);
    end_storm(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_admits_exactly_its_limit),
        cmocka_unit_test(a_thousand_keys_of_every_form_admit_exactly_their_limits),
        cmocka_unit_test(a_million_fresh_keys_are_each_admitted_once),
        cmocka_unit_test(fresh_keys_of_every_form_are_each_admitted_once),
        cmocka_unit_test(fresh_keys_in_a_crowded_table_are_each_admitted_once),
        cmocka_unit_test(what_is_given_back_balances_exactly),
        cmocka_unit_test(resets_free_no_more_than_they_say),
        cmocka_unit_test(blocks_that_grow_under_contention_lose_nothing),
        cmocka_unit_test(a_look_never_sees_another_keys_block),
        cmocka_unit_test(a_full_table_stays_whole_under_contention),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
