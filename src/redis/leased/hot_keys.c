/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/leased/hot_keys.h"

#include <assert.h>

static struct rn_hot_key **chain_of(struct rn_hot_keys *t, uint64_t key)
{
    return &t->chains[key & (RN_HOT_KEYS_MAX - 1)];
}

static_assert(RN_HOT_KEYS_MAX == RN_LEASE_FILE_RECORDS, "a record for each key");

void rn_hot_keys_init(struct rn_hot_keys *t, struct rn_leased *leased,
                      struct rn_lease_record *records)
{
    for (size_t i = RN_HOT_KEYS_MAX; i-- > 0;) {
        t->pool[i].leased = leased;
        t->pool[i].record = &records[i];
        t->pool[i].next = t->spare;
        t->spare = &t->pool[i];
    }
}

struct rn_hot_key *rn_hot_keys_find(struct rn_hot_keys *t, uint64_t key)
{
    struct rn_hot_key *held = *chain_of(t, key);

    while (held && held->key != key)
        held = held->next;
    return held;
}

struct rn_hot_key *rn_hot_keys_add(struct rn_hot_keys *t, uint64_t key, int64_t now_ns)
{
    struct rn_hot_key *held = t->spare, **chain = chain_of(t, key);

    if (!held)
        return NULL;
    t->spare = held->next;
    *held = (struct rn_hot_key){.leased = held->leased,
                                .record = held->record,
                                .key = key,
                                .next = *chain,
                                .used_ns = now_ns};
    *chain = held;
    t->count++;
    return held;
}

void rn_hot_keys_drop(struct rn_hot_keys *t, struct rn_hot_key *held)
{
    struct rn_hot_key **link = chain_of(t, held->key);

    assert(!held->lease.in_flight && !held->queue.first && !rn_timer_is_set(&held->timer));
    while (*link != held)
        link = &(*link)->next;
    *link = held->next;
    rn_lease_file_clear(held->record);
    held->next = t->spare;
    t->spare = held;
    t->count--;
}

struct rn_demand *rn_hot_keys_watch(struct rn_hot_keys *t, uint64_t key, uint64_t units,
                                    int64_t now_ns)
{
    struct rn_hot_keys_watched *watched = &t->watched[key & (RN_HOT_KEYS_WATCHED - 1)];

    if (watched->key != key)
        *watched = (struct rn_hot_keys_watched){.key = key};
    rn_sizing_note(&watched->demand, units, now_ns);
    return &watched->demand;
}
