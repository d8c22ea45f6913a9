/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/stock.h"

#include <assert.h>

static struct rn_stock **chain_of(struct rn_stock_table *t, uint64_t key)
{
    return &t->chains[key & (RN_STOCK_MAX - 1)];
}

static_assert(RN_STOCK_MAX == RN_LEASE_FILE_RECORDS, "a record for each key");

void rn_stock_init(struct rn_stock_table *t, struct rn_leased *leased,
                   struct rn_lease_record *records)
{
    for (size_t i = RN_STOCK_MAX; i-- > 0;) {
        t->pool[i].leased = leased;
        t->pool[i].record = &records[i];
        t->pool[i].next = t->spare;
        t->spare = &t->pool[i];
    }
}

struct rn_stock *rn_stock_find(struct rn_stock_table *t, uint64_t key)
{
    struct rn_stock *held = *chain_of(t, key);

    while (held && held->key != key)
        held = held->next;
    return held;
}

struct rn_stock *rn_stock_add(struct rn_stock_table *t, uint64_t key, int64_t now_ns)
{
    struct rn_stock *held = t->spare, **chain = chain_of(t, key);

    if (!held)
        return NULL;
    t->spare = held->next;
    *held = (struct rn_stock){.leased = held->leased,
                              .record = held->record,
                              .key = key,
                              .next = *chain,
                              .used_ns = now_ns};
    *chain = held;
    t->count++;
    return held;
}

void rn_stock_drop(struct rn_stock_table *t, struct rn_stock *held)
{
    struct rn_stock **link = chain_of(t, held->key);

    assert(!held->lease.in_flight && !held->queue.first && !rn_timer_is_set(&held->timer));
    while (*link != held)
        link = &(*link)->next;
    *link = held->next;
    rn_lease_record_clear(held->record);
    held->next = t->spare;
    t->spare = held;
    t->count--;
}

struct rn_demand *rn_stock_watch(struct rn_stock_table *t, uint64_t key, uint64_t units,
                                 int64_t now_ns)
{
    struct rn_watched *watched = &t->watched[key & (RN_STOCK_WATCHED - 1)];

    if (watched->key != key)
        *watched = (struct rn_watched){.key = key};
    rn_demand_note(&watched->demand, units, now_ns);
    return &watched->demand;
}
