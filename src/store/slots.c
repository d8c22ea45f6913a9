/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads that insert the same fresh key may pick different slots, and
 * then both admit. So an insert first claims a slot without charging it
 * (pending, with a nonce) and looks again:
 *
 *   - a committed slot of the key wins: the claims go;
 *   - of several claims all but the lowest go, no matter which thread made them;
 *   - a claim may be committed, by anyone, only if a scan that began after it
 *     was published found it alone.
 *
 * Of two claims, the later one's scan sees the earlier one, unless that is
 * gone; so both cannot have been found alone. A commit and a removal are swaps
 * from the same value: one of them fails. A claim charges nothing, so dropping
 * one that a killed process left behind loses nothing.
 */
#include "store/slots.h"

#include "store/blocks.h"
#include "store/evict.h"

/* A claim older than this was left behind. */
#define CLAIM_NS RN_SECOND_NS
#define NONCE_BITS 20
/* Below this many vacant slots in the first group the emptier of the two is
 * taken. Filled to a load of 0.7 in a simulation, five loses about 10 keys in
 * 10^7 for want of a slot and leaves 79 % in their first group; four would lose
 * about 50 for 84 %. */
#define SPREAD_BELOW 5
/* The committed slot of a key among the four of a line. Which of them it is
 * cannot be predicted, so all are compared and then one branch is taken. */
static struct rn_found find_in_line(struct rn_slot *line, uint64_t tag)
{
    unsigned match = 0;

    for (unsigned i = 0; i < RN_LINE_SLOTS; i++)
        match |= (unsigned)rn_same_key(__atomic_load_n(&line[i].tag, __ATOMIC_RELAXED), tag) << i;
    for (; match != 0; match &= match - 1) {
        struct rn_slot *slot = &line[__builtin_ctz(match)];
        struct rn_slot_value value = rn_slot_load(slot);

        if (rn_same_key(value.tag, tag) && !rn_is_pending(value.tag))
            return (struct rn_found){slot, value};
    }
    return (struct rn_found){0};
}

struct rn_found rn_slot_find_away(const struct rn_table *table, uint64_t tag)
{
    struct rn_slot *first = rn_group_first(table, tag)->slots;
    struct rn_slot *second = rn_group_second(table, tag)->slots;
    unsigned line = rn_slot_home_line(tag), other = line ^ RN_LINE_SLOTS;

    struct rn_found found = find_in_line(first + line, tag);

    if (found.slot)
        return found;
    found = find_in_line(second + line, tag);
    if (found.slot)
        return found;
    __builtin_prefetch(second + other); /* for a new key, which is in neither */
    found = find_in_line(first + other, tag);
    return found.slot ? found : find_in_line(second + other, tag);
}

int64_t rn_slot_idle_at(const struct rn_table *table, const struct rn_found *found)
{
    uint64_t tag = found->value.tag, state = found->value.state;

    if (tag == 0)
        return INT64_MIN;
    if (rn_is_pending(tag))
        return (int64_t)(state + (uint64_t)CLAIM_NS); /* may be damaged: any value will do */
    if (!rn_tag_has_block(tag))
        return rn_limit_idle_at(rn_tag_form(tag), state);
    bool sound = rn_block_sound(table, state);
    uint64_t first = 0;

    if (sound)
        rn_block_read(table, rn_block_class(state), rn_block_offset(state), &first, 1);
    /* If the block was reused meanwhile, the slot has changed, and is live. */
    if (rn_slot_load(found->slot).state != state)
        return INT64_MAX;
    return sound ? rn_limit_idle_at(rn_tag_form(tag), first) : INT64_MIN;
}

void rn_slots_group_fetch(const struct rn_table *table, const struct rn_group *group)
{
    for (unsigned i = 0; i < RN_GROUP_SLOTS; i++)
        if (rn_tag_has_block(__atomic_load_n(&group->slots[i].tag, __ATOMIC_RELAXED)))
            __builtin_prefetch(&table->arena[rn_block_offset(
                __atomic_load_n(&group->slots[i].state, __ATOMIC_RELAXED))]);
}

bool rn_slot_replace(struct rn_table *table, const struct rn_found *found,
                     struct rn_slot_value value)
{
    if (!rn_slot_swap(found->slot, found->value, value))
        return false;
    if (rn_tag_has_block(found->value.tag) && rn_block_sound(table, found->value.state))
        rn_block_free(table, rn_block_class(found->value.state),
                      rn_block_offset(found->value.state));
    return true;
}

static struct rn_candidate best_in(const struct rn_table *table, struct rn_group *group,
                                   uint64_t tag, int64_t now, unsigned *vacant)
{
    struct rn_candidate best = {0};
    unsigned home = rn_slot_home(tag);

    *vacant = 0;
    for (unsigned i = 0; i < RN_GROUP_SLOTS; i++) {
        struct rn_candidate c = rn_evict_judge(table, &group->slots[home ^ i], now);

        *vacant +=
            c.rank <= 1; /* in a table that has run for long, idle slots are the empty ones */
        if (rn_evict_better(&c, &best))
            best = c;
    }
    return best;
}

/* Puts a claim into the best of sixteen slots. The first group is preferred
 * while it has room, for then a look-up touches no other. */
static int publish(struct rn_table *table, uint64_t tag, int64_t now, bool keep,
                   struct rn_found *claim)
{
    static _Thread_local uint64_t random;
    unsigned vacant_1, vacant_2;
    struct rn_candidate best = best_in(table, rn_group_first(table, tag), tag, now, &vacant_1);

    if (vacant_1 < SPREAD_BELOW) {
        struct rn_candidate c = best_in(table, rn_group_second(table, tag), tag, now, &vacant_2);

        if (best.rank <= 1 && c.rank <= 1 ? vacant_2 > vacant_1 : rn_evict_better(&c, &best))
            best = c;
    }
    if (best.rank > (keep ? 2 : 3))
        return RATION_EFULL;
    if (random == 0)
        random = (uint64_t)rn_clock_boot_ns() ^ (uint64_t)(uintptr_t)&random;
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    struct rn_slot_value value = {
        .tag = tag | RN_KIND_PENDING,
        .state = (uint64_t)now >> NONCE_BITS << NONCE_BITS | random >> (64 - NONCE_BITS),
    };
    bool taken = rn_slot_replace(table, &best.found, value);

    if (taken && best.rank == 3 && !rn_is_pending(best.found.value.tag))
        __atomic_fetch_add(&table->header->evictions, 1, __ATOMIC_RELAXED);
    *claim = taken ? (struct rn_found){best.found.slot, value} : (struct rn_found){0};
    return 0;
}

/* All slots of a key, as one pass over its sixteen candidates finds them. */
struct scan {
    struct rn_found committed;
    struct rn_found claims[2 * RN_GROUP_SLOTS];
    unsigned claim_count, lowest;
};

static void scan_group(struct rn_group *group, uint64_t tag, struct scan *s)
{
    for (unsigned i = 0; i < RN_GROUP_SLOTS; i++) {
        struct rn_slot *slot = &group->slots[i];
        struct rn_found found = {slot, rn_slot_load(slot)};

        if (found.value.tag == 0 || !rn_same_key(found.value.tag, tag))
            continue;
        if (!rn_is_pending(found.value.tag)) {
            s->committed = found;
            continue;
        }
        if (s->claim_count == 0 || slot < s->claims[s->lowest].slot)
            s->lowest = s->claim_count;
        s->claims[s->claim_count++] = found;
    }
}

int rn_slot_claim(struct rn_table *table, uint64_t tag, int64_t now_ns, bool keep,
                  struct rn_found *found)
{
    struct rn_group *first = rn_group_first(table, tag), *second = rn_group_second(table, tag);
    struct rn_found seen = {0}; /* a claim published before the scan that follows */

    for (;;) {
        int error = seen.slot ? 0 : publish(table, tag, now_ns, keep, &seen);
        struct scan s = {0};

        if (error)
            return error;
        scan_group(first, tag, &s);
        if (second != first)
            scan_group(second, tag, &s);
        for (unsigned i = 0; i < s.claim_count; i++)
            if (s.committed.slot || i != s.lowest)
                rn_slot_swap(s.claims[i].slot, s.claims[i].value, (struct rn_slot_value){0, 0});
        if (s.committed.slot) {
            *found = s.committed;
            return 0;
        }
        if (s.claim_count > 1)
            continue;
        struct rn_found claim = s.claims[0]; /* slot NULL: ours was taken from us */

        if (claim.slot && claim.slot == seen.slot && claim.value.state == seen.value.state) {
            *found = claim;
            return 0;
        }
        seen = claim;
    }
}

/* --- going over all slots ------------------------------------------------------------ */

uint64_t rn_table_clean(struct rn_table *table, int64_t now_ns)
{
    struct rn_slot *slots = table->groups[0].slots;
    uint64_t freed = 0;

    for (uint64_t i = 0; i < table->group_count * RN_GROUP_SLOTS; i++) {
        struct rn_found found = {&slots[i], rn_slot_load(&slots[i])};

        if (found.value.tag != 0 && rn_slot_idle_at(table, &found) <= now_ns - RN_SECOND_NS)
            freed += rn_slot_replace(table, &found, (struct rn_slot_value){0, 0});
    }
    return freed;
}

void rn_table_each(const struct rn_table *table, int64_t now_ns,
                   int (*see)(void *arg, const struct rn_table_entry *entry), void *arg)
{
    struct rn_slot *slots = table->groups[0].slots;

    for (uint64_t i = 0; i < table->group_count * RN_GROUP_SLOTS; i++) {
        struct rn_found found = {&slots[i], rn_slot_load(&slots[i])};
        uint64_t tag = found.value.tag;

        if (tag == 0 || (tag & RN_KIND_MASK) == RN_KIND_PENDING)
            continue;
        struct rn_table_entry entry = {tag, rn_tag_form(tag), rn_slot_idle_at(table, &found)};

        if (entry.idle_at_ns > now_ns && see(arg, &entry) != 0)
            return;
    }
}

static int count_entry(void *arg, const struct rn_table_entry *entry)
{
    (void)entry;
    ++*(uint64_t *)arg;
    return 0;
}

void rn_table_memory(const struct rn_table *table, int64_t now_ns, struct rn_table_memory *memory)
{
    *memory = (struct rn_table_memory){
        .bytes = table->bytes,
        .slots = table->group_count * RN_GROUP_SLOTS,
        .evictions = __atomic_load_n(&table->header->evictions, __ATOMIC_RELAXED),
        .block_bytes = table->slab_count * table->slab_words * 8,
        .block_bytes_used = rn_blocks_bytes_used(table),
    };
    rn_table_each(table, now_ns, count_entry, &memory->live);
}
