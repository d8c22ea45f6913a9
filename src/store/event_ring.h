/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last bans that began and were lifted, with the names of the clients: for listings, for log
 * lines, and for telling other nodes. A ring in shared memory that any process writes without
 * waiting. All zeros is an empty ring.
 *
 * Each event has a number, from 1 on. Its writer takes the number, empties the entry, fills it and
 * sets its number last. A reader that finds another number before or after copying has no event: it
 * is being written, its writer was killed, or the ring has gone round.
 */
#ifndef RN_STORE_EVENT_RING_H
#define RN_STORE_EVENT_RING_H

#include <stdbool.h>
#include <stdint.h>

#define RN_EVENT_RING_ENTRIES 4096
#define RN_EVENT_NAME_BYTES 96

struct rn_event {
    uint64_t number;
    uint64_t rule, hash; /* of the rule's name, and of the client as listings have it: other nodes
                            know a ban and its lift by these */
    int64_t at_ns;
    int64_t ends_ns; /* of a ban */
    uint32_t level;  /* 0: lifted */
    uint32_t name_len;
    char name[RN_EVENT_NAME_BYTES]; /* of the client, cut to fit */
};

struct rn_event_ring {
    _Alignas(64) uint64_t last; /* the number of the last event */
    _Alignas(64) struct rn_event entries[RN_EVENT_RING_ENTRIES];
};

/* Appends an event; its number is set. */
void rn_event_ring_add(struct rn_event_ring *ring, struct rn_event *event);

/* The number of the last event; 0: there was none. */
static inline uint64_t rn_event_ring_last(const struct rn_event_ring *ring)
{
    return __atomic_load_n(&ring->last, __ATOMIC_ACQUIRE);
}

/* The first number that the ring may still have. */
static inline uint64_t rn_event_ring_first(const struct rn_event_ring *ring)
{
    uint64_t last = rn_event_ring_last(ring);

    return last >= RN_EVENT_RING_ENTRIES ? last - RN_EVENT_RING_ENTRIES + 1 : 1;
}

/* Copies the event with this number. False: the ring does not have it, or not yet. */
bool rn_event_ring_read(const struct rn_event_ring *ring, uint64_t number, struct rn_event *out);

#endif
