/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are counted in a hash table with open addressing. It has twice as many slots as
 * there can be connections, so it is never more than half full; pages that are not touched
 * cost nothing. The hash is keyed, so clients cannot choose addresses that collide.
 */
#include "net/conn_quota.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/ip.h"
#include "base/siphash.h"

struct slot {
    struct rn_ip ip;
    uint32_t count; /* 0: empty */
};

struct rn_conn_quota {
    _Atomic uint32_t open;
    uint32_t total, per_address;
    pthread_mutex_t lock;
    struct rn_hash_key key;
    size_t mask;
    struct slot *slots; /* NULL: addresses are not counted */
};

struct rn_conn_quota *rn_conn_quota_new(uint32_t total, uint32_t per_address)
{
    struct rn_conn_quota *quota = calloc(1, sizeof *quota);
    size_t slots = 16;

    if (!quota)
        return NULL;
    quota->total = total;
    quota->per_address = per_address;
    pthread_mutex_init(&quota->lock, NULL);
    if (per_address == 0)
        return quota;
    while (slots < 2 * (size_t)total)
        slots *= 2;
    quota->mask = slots - 1;
    quota->slots = calloc(slots, sizeof *quota->slots);
    if (!quota->slots || getrandom(&quota->key, sizeof quota->key, 0) != sizeof quota->key) {
        rn_conn_quota_free(quota);
        return NULL;
    }
    return quota;
}

void rn_conn_quota_free(struct rn_conn_quota *quota)
{
    if (!quota)
        return;
    pthread_mutex_destroy(&quota->lock);
    free(quota->slots);
    free(quota);
}

static size_t home_of(const struct rn_conn_quota *quota, const struct rn_ip *ip)
{
    return (size_t)rn_siphash(&quota->key, ip->bytes, sizeof ip->bytes) & quota->mask;
}

/* The slot of the address, or the empty slot for it. */
static size_t find(const struct rn_conn_quota *quota, const struct rn_ip *ip)
{
    size_t at = home_of(quota, ip);

    while (quota->slots[at].count != 0 && !rn_ip_equal(&quota->slots[at].ip, ip))
        at = (at + 1) & quota->mask;
    return at;
}

/* Moves later entries up, so that a search does not stop before them. */
static void close_gap(struct rn_conn_quota *quota, size_t gap)
{
    for (size_t at = (gap + 1) & quota->mask; quota->slots[at].count != 0;
         at = (at + 1) & quota->mask) {
        size_t home = home_of(quota, &quota->slots[at].ip);
        if (((at - home) & quota->mask) < ((at - gap) & quota->mask))
            continue; /* its home is behind the gap */
        quota->slots[gap] = quota->slots[at];
        gap = at;
    }
    quota->slots[gap].count = 0;
}

/* A client with an IPv6 address usually has a whole /64. */
static struct rn_ip counted_as(const struct rn_peer *peer)
{
    return peer->ip.bits == 128 ? rn_ip_mask(peer->ip, 64) : peer->ip;
}

static bool is_counted(const struct rn_conn_quota *quota, const struct rn_peer *peer)
{
    return quota->slots && peer->ip.bits != 0;
}

bool rn_conn_quota_is_full(const struct rn_conn_quota *quota)
{
    return atomic_load_explicit(&quota->open, memory_order_relaxed) >= quota->total;
}

enum rn_conn_quota_answer rn_conn_quota_take(struct rn_conn_quota *quota,
                                             const struct rn_peer *peer)
{
    if (atomic_fetch_add_explicit(&quota->open, 1, memory_order_relaxed) >= quota->total) {
        atomic_fetch_sub_explicit(&quota->open, 1, memory_order_relaxed);
        return RN_CONN_QUOTA_TOTAL;
    }
    if (!is_counted(quota, peer))
        return RN_CONN_QUOTA_OK;

    struct rn_ip ip = counted_as(peer);

    pthread_mutex_lock(&quota->lock);
    struct slot *slot = &quota->slots[find(quota, &ip)];
    bool fits = slot->count < quota->per_address;
    if (fits) {
        slot->ip = ip;
        slot->count++;
    }
    pthread_mutex_unlock(&quota->lock);
    if (!fits)
        atomic_fetch_sub_explicit(&quota->open, 1, memory_order_relaxed);
    return fits ? RN_CONN_QUOTA_OK : RN_CONN_QUOTA_ADDRESS;
}

void rn_conn_quota_give_back(struct rn_conn_quota *quota, const struct rn_peer *peer)
{
    if (is_counted(quota, peer)) {
        struct rn_ip ip = counted_as(peer);
        pthread_mutex_lock(&quota->lock);
        size_t at = find(quota, &ip);
        if (--quota->slots[at].count == 0)
            close_gap(quota, at);
        pthread_mutex_unlock(&quota->lock);
    }
    atomic_fetch_sub_explicit(&quota->open, 1, memory_order_relaxed);
}
