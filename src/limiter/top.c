/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sketch of the keys refused most often.
 */
#include "limiter/top.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter.h"

#define UNKNOWN_NS INT64_MIN

struct rn_top {
    atomic_flag busy;
    size_t count;
    uint64_t hashes[RN_TOP_ENTRIES]; /* apart from the entries: this is what is searched */
    struct ration_top entries[RN_TOP_ENTRIES];
    /* The times of the last refusals of each entry: rings, and their places of the newest. */
    int64_t last_ns[RN_TOP_ENTRIES][RN_TOP_LAST]; /* UNKNOWN_NS: none yet */
    uint8_t newest[RN_TOP_ENTRIES];
};

static void forget(struct rn_top *top, size_t i)
{
    for (size_t k = 0; k < RN_TOP_LAST; k++)
        top->last_ns[i][k] = UNKNOWN_NS;
}

struct rn_top *rn_top_new(void)
{
    struct rn_top *top = calloc(1, sizeof *top);

    if (!top)
        return NULL;
    atomic_flag_clear(&top->busy);
    for (size_t i = 0; i < RN_TOP_ENTRIES; i++)
        forget(top, i);
    return top;
}

void rn_top_free(struct rn_top *top)
{
    free(top);
}

static bool try_lock(struct rn_top *top)
{
    return !atomic_flag_test_and_set_explicit(&top->busy, memory_order_acquire);
}

static void unlock(struct rn_top *top)
{
    atomic_flag_clear_explicit(&top->busy, memory_order_release);
}

/* How many refusals this one stands for; 0 to leave it out. The more there are in
 * a second the fewer are recorded, so that a flood does not make its threads
 * meet here. Threads that share a stripe may lose a few of each other's: the
 * sketch is approximate then anyway. */
static uint64_t weight_of(struct rn_stripe *s, int64_t now_ns)
{
    int64_t second = now_ns >> 30;
    uint64_t seen = __atomic_load_n(&s->refused, __ATOMIC_RELAXED) + 1;

    if (__atomic_load_n(&s->second, __ATOMIC_RELAXED) != second) {
        __atomic_store_n(&s->second, second, __ATOMIC_RELAXED);
        seen = 1;
    }
    __atomic_store_n(&s->refused, seen, __ATOMIC_RELAXED);
    uint64_t interval = UINT64_C(1) << (64 - __builtin_clzll(seen / RN_TOP_EXACT * 2 + 1) - 1);

    return seen % interval == 0 ? interval : 0;
}

void rn_top_note(struct rn_top *top, struct rn_stripe *stripe, uint32_t limit, struct rn_slice rule,
                 const struct ration_charge *c)
{
    uint64_t weight = weight_of(stripe, c->at_ns);

    if (weight == 0 || !try_lock(top))
        return;
    size_t i = 0;

    while (i < top->count && top->hashes[i] != c->hash)
        i++;
    if (i == RN_TOP_ENTRIES) { /* takes over the entry with the smallest count */
        i = 0;
        for (size_t k = 1; k < RN_TOP_ENTRIES; k++)
            if (top->entries[k].refused < top->entries[i].refused)
                i = k;
    } else if (i == top->count) {
        top->count++;
    }
    struct ration_top *entry = &top->entries[i];

    if (top->hashes[i] != c->hash || entry->name_len == 0) {
        size_t most = sizeof entry->name - 1, len = c->key_len < most ? c->key_len : most;

        entry->name_len = c->key ? (uint32_t)len : 0;
        if (entry->name_len != 0)
            memcpy(entry->name, c->key, entry->name_len);
        entry->name[entry->name_len] = '\0';
        rn_slice_copy(entry->rule, sizeof entry->rule, rule);
        if (top->hashes[i] != c->hash)
            forget(top, i);
        top->hashes[i] = c->hash;
        entry->hash = c->hash;
        entry->limit = limit;
    }
    entry->refused += weight;
    unsigned newest = (top->newest[i] + 1U) % RN_TOP_LAST;

    top->newest[i] = (uint8_t)newest;
    top->last_ns[i][newest] = c->at_ns;
    unlock(top);
}

size_t rn_top_last(struct rn_top *top, uint64_t hash, int64_t at_ns[RN_TOP_LAST])
{
    size_t i = 0, known = 0;

    while (!try_lock(top))
        sched_yield();
    while (i < top->count && top->hashes[i] != hash)
        i++;
    for (; i < top->count && known < RN_TOP_LAST; known++) {
        int64_t last_ns = top->last_ns[i][(top->newest[i] - known) % RN_TOP_LAST];

        if (last_ns == UNKNOWN_NS)
            break;
        at_ns[known] = last_ns;
    }
    unlock(top);
    return known;
}

static int compare(const void *left, const void *right)
{
    const struct ration_top *a = left, *b = right;

    return (a->refused < b->refused) - (a->refused > b->refused);
}

size_t ration_top(const struct ration *r, struct ration_top *out, size_t max)
{
    struct ration_top entries[RN_TOP_ENTRIES];

    /* Held only for the time of one look-up, and never across a wait. */
    while (!try_lock(r->top))
        sched_yield();
    size_t count = r->top->count;

    memcpy(entries, r->top->entries, count * sizeof *entries);
    unlock(r->top);
    qsort(entries, count, sizeof *entries, compare);
    if (count > max)
        count = max;
    if (count != 0)
        memcpy(out, entries, count * sizeof *entries);
    return count;
}
