/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hammer STATE TALLY LIMIT AMOUNT KEYS TAKES_PER_KEY THREADS EVERYBODY
 *
 * One of several processes that charge the same keys at the same time. They
 * start when EVERYBODY (threads of all processes) is there and draw tickets
 * from the tally; TAKES_PER_KEY consecutive tickets name one key.
 */
#include <pthread.h>
#include <sched.h>

#include "shared_tally.h"

static struct rn_table *table;
static struct tally *tally;
static struct rn_limit limit;
static uint64_t keys, takes_per_key, everybody;

static void *hammer(void *arg)
{
    uint64_t ticket;

    atomic_fetch_add(&tally->ready, 1);
    while (atomic_load(&tally->ready) < everybody)
        sched_yield();
    while ((ticket = atomic_fetch_add(&tally->next, 1)) < keys * takes_per_key) {
        uint64_t key = ticket / takes_per_key;
        int64_t now = rn_table_now(table);
        struct rn_charge c = {.limit = &limit,
                              .key = key_of(key),
                              .ask = {.op = RN_TAKE,
                                      .now_ns = now,
                                      .wall_offset_ns = rn_table_wall_offset(table, now),
                                      .cost = 1,
                                      .id = ticket + 1,
                                      .lease_ns = HOUR_NS}};

        rn_store_apply(rn_table_store(table), &c, 1);
        if (c.error != 0) {
            atomic_fetch_add(&tally->errors, 1);
        } else if (c.answer.allowed) {
            atomic_fetch_add(&tally->of_key[key], 1);
            atomic_fetch_add(&tally->admitted, 1);
        }
    }
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];

    if (argc != 9)
        die("usage: hammer STATE TALLY LIMIT AMOUNT KEYS TAKES_PER_KEY THREADS EVERYBODY");
    limit = limit_named(argv[3], strtoull(argv[4], NULL, 10));
    keys = strtoull(argv[5], NULL, 10);
    takes_per_key = strtoull(argv[6], NULL, 10);
    everybody = strtoull(argv[8], NULL, 10);
    tally = map_tally(argv[2], keys);
    table = open_state(argv[1], UINT64_C(32) << 20);

    unsigned count = (unsigned)strtoul(argv[7], NULL, 10);

    for (unsigned i = 0; i < count && i < 64; i++)
        if (pthread_create(&threads[i], NULL, hammer, NULL) != 0)
            die("cannot start a thread");
    for (unsigned i = 0; i < count && i < 64; i++)
        pthread_join(threads[i], NULL);
    rn_table_close(table);
    return 0;
}
