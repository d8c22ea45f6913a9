/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses are counted in a hash table with open addressing. It has twice as many slots as
 * there can be connections, so it is never more than half full; pages that are not touched
 * cost nothing. The hash is keyed, so clients cannot choose addresses that collide.
 */
#include "net/caps.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/ip.h"
#include "base/siphash.h"

struct slot {
    struct rn_ip ip;
    uint32_t count; /* 0: empty */
};

struct rn_caps {
    _Atomic uint32_t open;
    uint32_t total, per_address;
    pthread_mutex_t lock;
    struct rn_hash_key key;
    size_t mask;
    struct slot *slots; /* NULL: addresses are not counted */
};

struct rn_caps *rn_caps_new(uint32_t total, uint32_t per_address)
{
    struct rn_caps *caps = calloc(1, sizeof *caps);
    size_t slots = 16;

    if (!caps)
        return NULL;
    caps->total = total;
    caps->per_address = per_address;
    pthread_mutex_init(&caps->lock, NULL);
    if (per_address == 0)
        return caps;
    while (slots < 2 * (size_t)total)
        slots *= 2;
    caps->mask = slots - 1;
    caps->slots = calloc(slots, sizeof *caps->slots);
    if (!caps->slots || getrandom(&caps->key, sizeof caps->key, 0) != sizeof caps->key) {
        rn_caps_free(caps);
        return NULL;
    }
    return caps;
}

void rn_caps_free(struct rn_caps *caps)
{
    if (!caps)
        return;
    pthread_mutex_destroy(&caps->lock);
    free(caps->slots);
    free(caps);
}

static size_t home_of(const struct rn_caps *caps, const struct rn_ip *ip)
{
    return (size_t)rn_siphash(&caps->key, ip->bytes, sizeof ip->bytes) & caps->mask;
}

/* The slot of the address, or the empty slot for it. */
static size_t find(const struct rn_caps *caps, const struct rn_ip *ip)
{
    size_t at = home_of(caps, ip);

    while (caps->slots[at].count != 0 && !rn_ip_equal(&caps->slots[at].ip, ip))
        at = (at + 1) & caps->mask;
    return at;
}

/* Moves later entries up, so that a search does not stop before them. */
static void close_gap(struct rn_caps *caps, size_t gap)
{
    for (size_t at = (gap + 1) & caps->mask; caps->slots[at].count != 0;
         at = (at + 1) & caps->mask) {
        size_t home = home_of(caps, &caps->slots[at].ip);
        if (((at - home) & caps->mask) < ((at - gap) & caps->mask))
            continue; /* its home is behind the gap */
        caps->slots[gap] = caps->slots[at];
        gap = at;
    }
    caps->slots[gap].count = 0;
}

/* A client with an IPv6 address usually has a whole /64. */
static struct rn_ip counted_as(const struct rn_peer *peer)
{
    return peer->ip.bits == 128 ? rn_ip_mask(peer->ip, 64) : peer->ip;
}

static bool is_counted(const struct rn_caps *caps, const struct rn_peer *peer)
{
    return caps->slots && peer->ip.bits != 0;
}

bool rn_caps_are_taken(const struct rn_caps *caps)
{
    return atomic_load_explicit(&caps->open, memory_order_relaxed) >= caps->total;
}

enum rn_caps_answer rn_caps_take(struct rn_caps *caps, const struct rn_peer *peer)
{
    if (atomic_fetch_add_explicit(&caps->open, 1, memory_order_relaxed) >= caps->total) {
        atomic_fetch_sub_explicit(&caps->open, 1, memory_order_relaxed);
        return RN_CAPS_TOTAL;
    }
    if (!is_counted(caps, peer))
        return RN_CAPS_OK;

    struct rn_ip ip = counted_as(peer);

    pthread_mutex_lock(&caps->lock);
    struct slot *slot = &caps->slots[find(caps, &ip)];
    bool fits = slot->count < caps->per_address;
    if (fits) {
        slot->ip = ip;
        slot->count++;
    }
    pthread_mutex_unlock(&caps->lock);
    if (!fits)
        atomic_fetch_sub_explicit(&caps->open, 1, memory_order_relaxed);
    return fits ? RN_CAPS_OK : RN_CAPS_ADDRESS;
}

void rn_caps_give_back(struct rn_caps *caps, const struct rn_peer *peer)
{
    if (is_counted(caps, peer)) {
        struct rn_ip ip = counted_as(peer);
        pthread_mutex_lock(&caps->lock);
        size_t at = find(caps, &ip);
        if (--caps->slots[at].count == 0)
            close_gap(caps, at);
        pthread_mutex_unlock(&caps->lock);
    }
    atomic_fetch_sub_explicit(&caps->open, 1, memory_order_relaxed);
}
