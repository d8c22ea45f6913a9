/* SPDX-License-Identifier: Apache-2.0 */
#include "store/evict.h"

#include "store/blocks.h"
#include "store/sweep.h"

/* A slot is taken from an idle key only this long after it became idle, so
 * that a thread that read the clock and was then held up does not find a
 * bucket full that at its time was not yet. */
#define GRACE_NS RN_SECOND_NS
/* The cost of evicting what goes last: this bit, units, and how near it is in 2^24 ns. */
#define LAST_COST (UINT64_C(1) << 63)
#define LAST_TIME_BITS 39
#define LAST_TIME_MAX ((UINT64_C(1) << LAST_TIME_BITS) - 1)
#define LAST_SPENT_MAX ((UINT64_C(1) << 24) - 1)
/* A version counts time in steps of 2^-22 of a period or finer, so that all keys
 * of two windows can be compared. */
#define VERSION_BITS 24
#define PERIOD_BITS 22
/* How many steps a key that changes more than once in a step may be ahead. */
#define AHEAD_MAX (UINT32_C(1) << 20)
/* How many new keys with a block a search looks at, and how many groups. With fewer than
 * ENOUGH keys known it looks at more groups, with none at all of them. */
#define NEW_KEYS 8
#define NEW_GROUPS 16
#define ENOUGH 4
#define GROUPS_MAX 4096
/* How long to wait after a search of all groups found none. */
#define BARREN_NS RN_SECOND_NS
/* How many random slabs estimate the share of memory that a size has. */
#define DRAWS 8
/* A key is much larger than another if its block has this many times the words. */
#define WIDER_TIMES 8

static uint64_t spent_in(const struct rn_table *table, const struct rn_found *found)
{
    enum rn_form form = rn_tag_form(found->value.tag);
    uint64_t state = found->value.state, words[RN_SPENT_WORDS];

    if (!rn_tag_has_block(found->value.tag))
        return rn_limit_spent(form, &state, 1);
    if (!rn_block_sound(table, state))
        return 0;
    uint32_t count = rn_blocks_class_words(rn_block_class(state));

    count = count < RN_SPENT_WORDS ? count : RN_SPENT_WORDS;
    rn_block_read(table, rn_block_class(state), rn_block_offset(state), words, count);
    return rn_limit_spent(form, words, count);
}

/* What giving a live slot to another key would cost: the time its budget needs to come back,
 * times the units spent where the state tells. A slot that goes last costs more than any other.
 * Among those the units count, however little time is left, and between equals the newest goes:
 * a flood that spends as much only replaces itself. A bucket has no count: a unit for every
 * four seconds of debt. */
static uint64_t cost_of_loss(const struct rn_table *table, const struct rn_found *found,
                             int64_t left_ns)
{
    uint64_t left = (uint64_t)left_ns, spent = spent_in(table, found), cost;

    if (found->value.tag & RN_TAG_LAST) {
        spent = spent ? spent : left >> 32;
        spent = spent < LAST_SPENT_MAX ? spent : LAST_SPENT_MAX;
        return LAST_COST | spent << LAST_TIME_BITS | (LAST_TIME_MAX - (left >> 24));
    }
    if (__builtin_mul_overflow(left, spent ? spent : 1, &cost) || cost >= LAST_COST)
        return LAST_COST - 1;
    return cost;
}

struct rn_candidate rn_evict_judge(const struct rn_table *table, struct rn_slot *slot, int64_t now)
{
    struct rn_candidate c = {.found = {slot, rn_slot_load(slot)}};

    if (c.found.value.tag == 0)
        return c;
    int64_t idle_at = rn_slot_idle_at(table, &c.found);

    if (idle_at <= now - GRACE_NS) {
        c.rank = 1;
    } else if (idle_at <= now) {
        c.rank = 2;
        c.cost = (uint64_t)(idle_at - (now - GRACE_NS));
    } else {
        c.rank = c.found.value.tag & RN_TAG_KEEP ? 4 : 3;
        c.cost = cost_of_loss(table, &c.found, idle_at - now);
    }
    return c;
}

uint64_t rn_evict_version(const struct rn_limit *limit, struct rn_slot_value old, int64_t now)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll((uint64_t)limit->period_ns | 1);
    uint32_t time = (uint32_t)(now >> (bits > PERIOD_BITS ? bits - PERIOD_BITS : 0));
    uint32_t before = (uint32_t)rn_block_version(old.state);

    if (!rn_tag_has_block(old.tag)) /* random bits of the claim: never twice the same */
        return time + (old.state & 0xFF);
    return ((before - time) & ((1u << VERSION_BITS) - 1)) < AHEAD_MAX ? before + 1 : time;
}

/* Aligned windows of equal keys that go last end at the same time. Then the versions of their
 * blocks tell which is newer. Words have none: the last slot goes, so that a flood takes the
 * same one of a group each time. */
bool rn_evict_better(const struct rn_candidate *a, const struct rn_candidate *b)
{
    const struct rn_slot_value *x = &a->found.value, *y = &b->found.value;
    uint64_t ahead = 0;

    if (!b->found.slot || a->rank != b->rank || a->cost != b->cost)
        return !b->found.slot || a->rank < b->rank || (a->rank == b->rank && a->cost < b->cost);
    if (rn_tag_has_block(x->tag) && rn_tag_has_block(y->tag))
        ahead = (rn_block_version(x->state) - rn_block_version(y->state)) &
                ((UINT64_C(1) << VERSION_BITS) - 1);
    return a->cost >= LAST_COST &&
           (ahead != 0 ? ahead < UINT64_C(1) << (VERSION_BITS - 1) : a->found.slot > b->found.slot);
}

/* What a search has found: live keys, the best first. */
struct search {
    struct rn_table *table;
    uint64_t spared;
    int64_t now;
    uint64_t words; /* given back by idle keys */
    uint64_t at;    /* the last group */
    unsigned count, met;
    struct rn_candidate best[RN_EVICT_POOL];
    struct rn_candidate widest; /* of those that do not go last */
};

/* Empties a slot; returns the words of its block. */
static uint64_t empty_slot(struct rn_table *table, const struct rn_candidate *c)
{
    if (!c->found.slot || !rn_slot_replace(table, &c->found, (struct rn_slot_value){0, 0}))
        return 0;
    if (c->rank == 3)
        __atomic_fetch_add(&table->header->evictions, 1, __ATOMIC_RELAXED);
    return rn_blocks_class_words(rn_block_class(c->found.value.state));
}

static void consider(struct search *s, struct rn_slot *slot)
{
    struct rn_candidate c = rn_evict_judge(s->table, slot, s->now);
    unsigned at = s->count;

    if (!rn_tag_has_block(c.found.value.tag) || rn_same_key(c.found.value.tag, s->spared))
        return;
    if (c.rank <= 2)
        s->words += empty_slot(s->table, &c);
    if (c.rank != 3)
        return;
    for (unsigned i = 0; i < s->count; i++)
        if (s->best[i].found.slot == slot)
            return;
    s->met++;
    unsigned class = rn_block_class(c.found.value.state);
    unsigned widest = s->widest.found.slot ? rn_block_class(s->widest.found.value.state) : 0;

    if (c.cost < LAST_COST &&
        (class > widest || (class == widest && rn_evict_better(&c, &s->widest))))
        s->widest = c;
    if (at == RN_EVICT_POOL && !rn_evict_better(&c, &s->best[--at]))
        return;
    for (; at > 0 && rn_evict_better(&c, &s->best[at - 1]); at--)
        s->best[at] = s->best[at - 1];
    s->best[at] = c;
    s->count += s->count < RN_EVICT_POOL;
}

/* The pool holds slots by number, from 1 on. The key that lives there now is judged as it is. */
static void consider_pooled(struct search *s, const uint64_t *pooled)
{
    uint64_t number = __atomic_load_n(pooled, __ATOMIC_RELAXED);
    struct rn_slot *slots = s->table->groups[0].slots; /* those of all groups are in a row */

    if (number != 0)
        consider(s, slots + (number - 1));
}

static uint64_t number_of(const struct search *s, const struct rn_candidate *c)
{
    return c->found.slot ? (uint64_t)(c->found.slot - s->table->groups[0].slots) + 1 : 0;
}

static void search_groups(struct search *s)
{
    struct rn_table *table = s->table;
    bool barren = s->now < __atomic_load_n(&table->sweep.barren_until_ns, __ATOMIC_RELAXED);
    uint64_t n = 0;

    for (unsigned i = 0; i < RN_EVICT_POOL; i++)
        consider_pooled(s, &table->sweep.pool[i]);
    consider_pooled(s, &table->sweep.widest);
    s->met = 0;
    for (; n < table->group_count && s->words == 0 && s->met < NEW_KEYS; n++) {
        if (n >= NEW_GROUPS && s->count >= ENOUGH)
            break;
        if (n >= GROUPS_MAX && (s->count != 0 || barren))
            break;
        s->at =
            __atomic_fetch_add(&table->sweep.evict_at, 1, __ATOMIC_RELAXED) % table->group_count;
        rn_slots_group_fetch(table, &table->groups[s->at]);
        for (unsigned i = 0; i < RN_GROUP_SLOTS; i++)
            consider(s, &table->groups[s->at].slots[i]);
    }
    if (n == table->group_count && s->count == 0 && s->words == 0)
        __atomic_store_n(&table->sweep.barren_until_ns, s->now + BARREN_NS, __ATOMIC_RELAXED);
}

/* Whether a key much larger than the blocks wanted must go, though its loss costs more: as long
 * as these have less than half of the memory. Otherwise small states would get no room
 * from large ones, which have spent more. */
static bool must_share(const struct search *s, unsigned class)
{
    const struct rn_table *table = s->table;
    unsigned own = 0;

    if (!s->widest.found.slot || s->best[0].cost >= LAST_COST ||
        rn_blocks_class_words(rn_block_class(s->widest.found.value.state)) <
            WIDER_TIMES * rn_blocks_class_words(class))
        return false;
    for (unsigned i = 0; i < DRAWS; i++) {
        uint64_t slab = (s->at + i * (table->slab_count / DRAWS)) % table->slab_count;

        own += rn_slab_class(__atomic_load_n(&table->slabs[slab], __ATOMIC_RELAXED)) == class;
    }
    return own < DRAWS / 2;
}

uint64_t rn_evict_block(struct rn_table *table, unsigned class, uint64_t spared, int64_t now)
{
    struct search s = {.table = table, .spared = spared, .now = now};

    search_groups(&s);
    if (s.words != 0)
        rn_sweep_credit(table, 1, 0);
    if (s.words != 0 || s.count == 0)
        return s.words;
    struct rn_candidate *first = must_share(&s, class) ? &s.widest : &s.best[0];

    for (unsigned i = 0; i < RN_EVICT_POOL; i++)
        __atomic_store_n(&table->sweep.pool[i], i < s.count ? number_of(&s, &s.best[i]) : 0,
                         __ATOMIC_RELAXED);
    __atomic_store_n(&table->sweep.widest, number_of(&s, &s.widest), __ATOMIC_RELAXED);
    s.words = empty_slot(table, first);
    /* One of the class as well, so that the caller is done; but of those that go last none that has
     * spent more. */
    for (unsigned i = 0; i < s.count; i++) {
        const struct rn_candidate *own = &s.best[i];

        if (rn_block_class(own->found.value.state) != class)
            continue;
        if (own->found.slot != first->found.slot &&
            (own->cost < LAST_COST || own->cost >> LAST_TIME_BITS <= first->cost >> LAST_TIME_BITS))
            s.words += empty_slot(table, own);
        break;
    }
    return s.words != 0 ? s.words : 1; /* another thread was faster: there may be room now */
}
