/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/tickets/ticket_keys.h"

static struct rn_hash_key key_at(const struct rn_ticket_keys *keys, unsigned place)
{
    return (struct rn_hash_key){atomic_load_explicit(&keys->ring[place].k0, memory_order_relaxed),
                                atomic_load_explicit(&keys->ring[place].k1, memory_order_relaxed)};
}

static unsigned count_of(const struct rn_ticket_keys *keys)
{
    unsigned added = atomic_load_explicit(&keys->added, memory_order_acquire);

    return added < RN_TICKET_KEYS ? added : RN_TICKET_KEYS;
}

void rn_ticket_keys_init(struct rn_ticket_keys *keys, const struct rn_hash_key *key)
{
    *keys = (struct rn_ticket_keys){0};
    rn_ticket_keys_add(keys, key, true);
}

/* A new key takes the place after the newest one, but never that of the key that signs. */
void rn_ticket_keys_add(struct rn_ticket_keys *keys, const struct rn_hash_key *key, bool signs)
{
    unsigned added = atomic_load_explicit(&keys->added, memory_order_relaxed);
    unsigned count = count_of(keys), place = 0;

    for (; place < count; place++) {
        struct rn_hash_key known = key_at(keys, place);

        if (known.k0 == key->k0 && known.k1 == key->k1)
            break;
    }
    if (place == count) {
        if (added > 0 && added % RN_TICKET_KEYS == atomic_load(&keys->signer))
            added++;
        place = added % RN_TICKET_KEYS;
        atomic_store_explicit(&keys->ring[place].k0, key->k0, memory_order_relaxed);
        atomic_store_explicit(&keys->ring[place].k1, key->k1, memory_order_relaxed);
        atomic_store_explicit(&keys->added, added + 1, memory_order_release);
    }
    if (signs)
        atomic_store_explicit(&keys->signer, place, memory_order_release);
}

struct rn_hash_key rn_ticket_keys_signer(const struct rn_ticket_keys *keys)
{
    return key_at(keys, atomic_load_explicit(&keys->signer, memory_order_acquire));
}

size_t rn_ticket_keys_list(const struct rn_ticket_keys *keys,
                           struct rn_hash_key out[RN_TICKET_KEYS])
{
    unsigned count = count_of(keys);

    for (unsigned i = 0; i < count; i++)
        out[i] = key_at(keys, i);
    return count;
}
