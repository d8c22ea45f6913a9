/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spender spend STATE TALLY ROUND ROUNDS
 * spender audit STATE TALLY FROM TO
 *
 * `spend` charges the keys of one round until it is killed, and notes every
 * admission after it was given: what is noted is never more than what was
 * spent. Besides it makes and resets other keys, so that a kill also meets
 * blocks on their way. `audit` compares notes and table for the rounds FROM to
 * TO - 1 and prints
 *
 *   minted N unnoted N errors N evictions N spent N
 *
 * minted: units that were noted but can be had again; unnoted: units spent
 * without a note (one for each process killed between the two).
 */
#include "shared_tally.h"

#define KINDS 7
#define KEYS_PER_KIND 8
#define KEYS_PER_ROUND (KINDS * KEYS_PER_KIND)
#define CHURN_KEYS 500

static const struct {
    const char *limit;
    uint64_t takes, cost;
} kinds[KINDS] = {
    {"bucket", 1000, 1}, {"window", 1000, 1}, {"wide", 1000, 4096}, {"counter", 1000, 1},
    {"subs", 1000, 1},   {"log", 1000, 1},    {"places", 200, 1},
};

static struct rn_table *table;
static struct tally *tally;
static struct rn_limit limits[KINDS];

static struct rn_charge charge_of(uint64_t key, enum rn_op op, uint64_t id)
{
    return (struct rn_charge){.limit = &limits[key % KINDS],
                              .key = key_of(key),
                              .ask = {.op = op,
                                      .now_ns = rn_table_now(table),
                                      .cost = kinds[key % KINDS].cost,
                                      .id = id,
                                      .lease_ns = 24 * HOUR_NS}};
}

static void apply(struct rn_charge *c)
{
    rn_store_apply(rn_table_store(table), c, 1);
    if (c->error != 0)
        atomic_fetch_add(&tally->errors, 1);
}

static uint64_t draw(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *random >> 33;
}

static void churn(uint64_t *random, uint64_t base)
{
    struct rn_charge c = charge_of(base + draw(random) % CHURN_KEYS, RN_TAKE, draw(random) + 1);

    c.ask.cost = draw(random) % 64 + 1;
    if (draw(random) % 4 == 0)
        c.ask.op = RN_RESET;
    apply(&c);
}

static void spend(uint64_t round, uint64_t rounds)
{
    uint64_t random = (uint64_t)getpid() * 7919 + round;

    atomic_fetch_add(&tally->ready, 1);
    for (;;) {
        uint64_t key = round * KEYS_PER_ROUND + draw(&random) % KEYS_PER_ROUND;
        struct rn_charge c = charge_of(key, RN_TAKE, draw(&random) << 20 | draw(&random) | 1);

        apply(&c);
        if (c.error == 0 && c.answer.allowed)
            atomic_fetch_add(&tally->of_key[key], 1);
        if (draw(&random) % 4 == 0)
            churn(&random, rounds * KEYS_PER_ROUND);
    }
}

static void audit(uint64_t from, uint64_t to)
{
    uint64_t minted = 0, unnoted = 0, spent_in_all = 0;
    struct rn_table_memory memory;

    for (uint64_t key = from * KEYS_PER_ROUND; key < to * KEYS_PER_ROUND; key++) {
        struct rn_charge c = charge_of(key, RN_PEEK, 1);
        uint64_t noted = tally->of_key[key];

        apply(&c);
        uint64_t spent = kinds[key % KINDS].takes - c.answer.remaining / kinds[key % KINDS].cost;

        minted += noted > spent ? noted - spent : 0;
        unnoted += spent > noted ? spent - noted : 0;
        spent_in_all += spent;
    }
    rn_table_memory(table, rn_table_now(table), &memory);
    printf("minted %llu unnoted %llu errors %llu evictions %llu spent %llu\n",
           (unsigned long long)minted, (unsigned long long)unnoted,
           (unsigned long long)tally->errors, (unsigned long long)memory.evictions,
           (unsigned long long)spent_in_all);
}

int main(int argc, char **argv)
{
    uint64_t first, second;

    if (argc != 6)
        die("usage: spender spend|audit STATE TALLY N N");
    first = strtoull(argv[4], NULL, 10);
    second = strtoull(argv[5], NULL, 10);
    for (unsigned i = 0; i < KINDS; i++)
        limits[i] = limit_named(kinds[i].limit, kinds[i].takes * kinds[i].cost);
    tally = map_tally(argv[3], (uint64_t)1000 * KEYS_PER_ROUND);
    table = open_state(argv[2], UINT64_C(64) << 20);
    if (strcmp(argv[1], "audit") == 0)
        audit(first, second);
    else
        spend(first, second);
    rn_table_close(table);
    return 0;
}
