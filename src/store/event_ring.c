/* SPDX-License-Identifier: Apache-2.0 */
#include "store/event_ring.h"

#include <string.h>

_Static_assert(sizeof(struct rn_event) % 8 == 0, "an event is copied by words");

/* By words that are accessed atomically: another process may write the same entry. */
static void copy_words(uint64_t *to, const uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        __atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* All but the number, which comes first. */
static void copy(struct rn_event *to, const struct rn_event *from)
{
    copy_words((uint64_t *)(void *)to + 1, (const uint64_t *)(const void *)from + 1,
               sizeof *to / 8 - 1);
}

void rn_event_ring_add(struct rn_event_ring *ring, struct rn_event *event)
{
    event->number = __atomic_add_fetch(&ring->last, 1, __ATOMIC_ACQ_REL);
    struct rn_event *entry = &ring->entries[event->number % RN_EVENT_RING_ENTRIES];

    __atomic_store_n(&entry->number, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    copy(entry, event);
    __atomic_store_n(&entry->number, event->number, __ATOMIC_RELEASE);
}

bool rn_event_ring_read(const struct rn_event_ring *ring, uint64_t number, struct rn_event *out)
{
    const struct rn_event *entry = &ring->entries[number % RN_EVENT_RING_ENTRIES];

    if (number == 0 || __atomic_load_n(&entry->number, __ATOMIC_ACQUIRE) != number)
        return false;
    copy(out, entry);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&entry->number, __ATOMIC_RELAXED) != number)
        return false;
    out->number = number;
    if (out->name_len > RN_EVENT_NAME_BYTES || out->at_ns < 0 || out->ends_ns < 0) /* damaged */
        out->at_ns = out->ends_ns = 0, out->name_len = 0;
    return true;
}
