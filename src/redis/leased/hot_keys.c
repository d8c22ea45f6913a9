/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/leased/hot_keys.h"

#include <assert.h>

static_assert(RN_HOT_KEYS_MAX == RN_LEASE_FILE_RECORDS, "a record for each key");

bool rn_hot_keys_init(struct rn_hot_keys *t, struct rn_leased *leased,
                      struct rn_lease_record *records)
{
    t->leased = leased;
    t->records = records;
    return rn_local_keys_init(&t->keys, RN_HOT_KEYS_MAX, sizeof(struct rn_hot_key), NULL);
}

void rn_hot_keys_done(struct rn_hot_keys *t)
{
    rn_local_keys_done(&t->keys);
}

struct rn_hot_key *rn_hot_keys_find(struct rn_hot_keys *t, uint64_t key)
{
    return rn_local_keys_find(&t->keys, key);
}

struct rn_hot_key *rn_hot_keys_add(struct rn_hot_keys *t, uint64_t key, int64_t now_ns)
{
    struct rn_hot_key *hot = rn_local_keys_add(&t->keys, key, now_ns);

    if (!hot)
        return NULL;
    hot->leased = t->leased;
    hot->record = &t->records[rn_local_keys_index(&t->keys, &hot->local)];
    hot->used_ns = now_ns;
    return hot;
}

void rn_hot_keys_drop(struct rn_hot_keys *t, struct rn_hot_key *hot)
{
    assert(!hot->lease.in_flight && !hot->queue.first && !rn_timer_is_set(&hot->timer));
    rn_lease_file_clear(hot->record);
    rn_local_keys_remove(&t->keys, &hot->local);
}

struct rn_demand *rn_hot_keys_watch(struct rn_hot_keys *t, uint64_t key, uint64_t units,
                                    int64_t now_ns)
{
    struct rn_watched_key *watched = &t->watched[key & (RN_HOT_KEYS_WATCHED - 1)];

    if (watched->key != key)
        *watched = (struct rn_watched_key){.key = key};
    rn_sizing_note(&watched->demand, units, now_ns);
    return &watched->demand;
}
