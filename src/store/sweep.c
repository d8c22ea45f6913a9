/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sweep.h"

#include "store/blocks.h"
#include "store/evict.h"

/* Below this part of all slabs in the pool, each slab taken moves the sweep on. */
#define LOW_PART 16
#define PACE_GROUPS_MAX 256
/* A pass must promise this part of all slabs. */
#define WORTH_PART 128
#define PASS_STEP_GROUPS 64
/* How many groups are always searched for idle keys; each key found allows more. So the search goes
 * on while one key in 500 or more is idle, and costs little when all are live. */
#define IDLE_CREDIT 64
#define IDLE_STEP_GROUPS 2
/* See slots.c: as long as there is no need, keys that are only just idle stay. */
#define GRACE_NS RN_SECOND_NS

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static uint64_t slabs_free(const struct rn_table *table)
{
    uint64_t n = load(&table->header->slabs_free);

    return (int64_t)n > 0 ? n : 0;
}

/* What the slabs of one class hold. */
struct tally {
    uint64_t slabs, used;
    uint64_t room;  /* of those that stay, for the blocks of those that are drained */
    uint32_t loose; /* free blocks of those that stay */
};

/* Counts all slabs; returns how many could be given back if the others were full. Corrects
 * the number in the pool, unless others have changed it meanwhile: then the count is stale,
 * and slabs that were given back would be out of reach. */
static uint64_t count_slabs(struct rn_table *table, struct tally tallies[RN_CLASSES])
{
    uint64_t before = load(&table->header->slabs_free), pool = 0, spare = 0;

    for (uint64_t i = 0; i < table->slab_count; i++) {
        uint64_t word = load(&table->slabs[i]);
        unsigned class = rn_slab_class(word);

        if (class < RN_CLASSES)
            tallies[class].slabs++, tallies[class].used += rn_slab_used(word);
        else
            pool++;
    }
    for (unsigned class = 0; class <= table->class_whole; class ++) {
        struct tally *t = &tallies[class];
        uint32_t blocks = rn_slab_blocks(table, class);

        spare += t->slabs - (t->used + blocks - 1) / blocks;
    }
    __atomic_compare_exchange_n(&table->header->slabs_free, &before, pool, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return spare;
}

/* Begins a pass: chooses the slabs to drain, each whose blocks fit into the room of those
 * before it that stay. None unless that promises `worth` slabs. Counts what is loose, so
 * that what a killed process left wrong in the header is mended. */
static void begin_pass(struct rn_table *table, uint64_t worth)
{
    struct rn_sweep *sweep = &table->sweep;
    struct tally tallies[RN_CLASSES] = {0};
    uint64_t ends = load(&sweep->pass_ends), chosen = 0;

    if (!__atomic_compare_exchange_n(&sweep->pass_ends, &ends,
                                     load(&sweep->at) + table->group_count, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    bool any = count_slabs(table, tallies) >= worth;

    for (uint64_t i = 0; i < table->slab_count; i++) {
        uint64_t word = load(&table->slabs[i]), used = rn_slab_used(word);
        unsigned class = rn_slab_class(word);

        if (class > table->class_whole || rn_slab_first(word) == RN_SLAB_END)
            continue;
        struct tally *t = &tallies[class];
        bool drain = any && used <= t->room;
        uint64_t new = (((word >> 32) + 1) << 32 | (uint32_t)word) & ~RN_SLAB_DRAIN;

        if (drain)
            new |= RN_SLAB_DRAIN;
        if (drain != ((word & RN_SLAB_DRAIN) != 0) &&
            !__atomic_compare_exchange_n(&table->slabs[i], &word, new, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        uint64_t room = rn_slab_blocks(table, class) - used;

        t->room = drain ? t->room - used : t->room + room;
        t->loose += drain ? 0 : (uint32_t)room;
        chosen += drain;
    }
    for (unsigned class = 0; class <= table->class_whole; class ++)
        __atomic_store_n(&table->header->loose[class].blocks, tallies[class].loose,
                         __ATOMIC_RELAXED);
    store(&sweep->draining, chosen);
}

static uint64_t worth(const struct rn_table *table)
{
    return table->slab_count / WORTH_PART + 1;
}

/* Words of the block of a key that has spent all. Counters and windows have larger ones only
 * while they owe something, which is rare. */
static uint32_t words_of(const struct rn_limit *limit)
{
    switch (limit->form) {
    case RN_FORM_NONE:
    case RN_FORM_GCRA:
    case RN_FORM_FINE:
    case RN_FORM_STEP:
    case RN_FORM_WINDOW:
    case RN_FORM_WIDE:
    case RN_FORM_COUNTER:
    case RN_FORM_SUBS:
    case RN_FORM_OWN:
        return limit->words_small;
    case RN_FORM_LOG:
    case RN_FORM_PLACES:
    case RN_FORM_ADAPTIVE:
        break;
    }
    return limit->words_full;
}

/* Some slabs are out of reach: those that no pass is worth, one in each size that
 * is partly used, and as many again for keys that are only just idle. */
uint64_t rn_table_capacity(const struct rn_table *table, const struct rn_limit *limit,
                           unsigned sizes)
{
    uint64_t slots = table->group_count * RN_GROUP_SLOTS * RN_SLOT_LOAD_PERCENT / 100;
    uint64_t lost = 2 * worth(table) + sizes;

    if (limit->words_full == 0)
        return slots;
    uint64_t words = table->slab_count > lost ? (table->slab_count - lost) * table->slab_words : 0;
    uint64_t blocks =
        (uint64_t)((double)words /
                   rn_block_cost(table->slab_words, rn_blocks_class_of(words_of(limit))));

    return blocks < slots ? blocks : slots;
}

double rn_table_block_share(const struct rn_limit *limit)
{
    double slot = 16 * 100.0 / RN_SLOT_LOAD_PERCENT, block, share;

    if (limit->words_full == 0)
        return 0;
    block = 8 * rn_block_cost(RN_SLAB_WORDS_MAX, rn_blocks_class_of(words_of(limit))) *
            (1 + 3.0 / WORTH_PART);
    share = 100 * block / (slot + block);
    return share < RN_TABLE_SHARE_MAX ? share : RN_TABLE_SHARE_MAX;
}

/* Moves the root of a block to a slab that is not drained. Its slot changes, so
 * a thread that has read the slot notices. */
static void move_block(struct rn_table *table, struct rn_context *x, const struct rn_found *found)
{
    uint64_t state = found->value.state;
    unsigned class = rn_block_class(state);
    unsigned root = rn_block_shape(table->slab_words, class).root;
    uint32_t from = rn_block_offset(state), to = rn_block_alloc_loose(table, root);

    if (to == RN_NIL)
        return;
    rn_block_read(table, root, from, x->moving, rn_blocks_class_words(root));
    rn_block_write(table, root, to, x->moving, rn_blocks_class_words(root));
    struct rn_slot_value moved = {found->value.tag,
                                  rn_block_state(class, rn_block_version(state) + 1, to)};

    rn_block_free_root(table, class, rn_slot_swap(found->slot, found->value, moved) ? from : to);
}

/* Returns how many blocks of idle keys it gave back. */
static unsigned sweep_groups(struct rn_table *table, struct rn_context *x, uint64_t groups,
                             int64_t idle_by_ns)
{
    uint64_t at = __atomic_fetch_add(&table->sweep.at, groups, __ATOMIC_RELAXED);
    unsigned freed = 0;

    for (uint64_t n = 0; n < groups * RN_GROUP_SLOTS; n++) {
        struct rn_group *group = &table->groups[(at + n / RN_GROUP_SLOTS) % table->group_count];
        struct rn_slot *slot = &group->slots[n % RN_GROUP_SLOTS];
        if (n % RN_GROUP_SLOTS == 0)
            rn_slots_group_fetch(table, group);
        struct rn_found found = {slot, rn_slot_load(slot)};

        if (!rn_tag_has_block(found.value.tag) || !rn_block_sound(table, found.value.state))
            continue;
        uint64_t word =
            load(&table->slabs[rn_block_offset(found.value.state) >> table->slab_shift]);

        if (rn_slot_idle_at(table, &found) <= idle_by_ns)
            freed += rn_slot_replace(table, &found, (struct rn_slot_value){0, 0});
        else if (word & RN_SLAB_DRAIN)
            move_block(table, x, &found);
    }
    return freed;
}

void rn_sweep_credit(struct rn_table *table, unsigned freed, uint64_t visited)
{
    uint64_t credit = load(&table->sweep.credit) + freed * IDLE_CREDIT;

    credit = credit > visited ? credit - visited : 0;
    store(&table->sweep.credit, credit < RN_SWEEP_CREDIT_MAX ? credit : RN_SWEEP_CREDIT_MAX);
}

static uint32_t find_idle(struct rn_table *table, struct rn_context *x,
                          const struct rn_sweep_want *want)
{
    uint32_t block = RN_NIL;
    uint64_t n = 0;

    do {
        unsigned freed = sweep_groups(table, x, IDLE_STEP_GROUPS, want->now_ns);

        rn_sweep_credit(table, freed, IDLE_STEP_GROUPS);
        if (freed != 0)
            block = rn_block_alloc(table, want->class);
        n += IDLE_STEP_GROUPS;
    } while (block == RN_NIL && n < table->group_count && load(&table->sweep.credit) != 0);
    return block;
}

static uint64_t words_loose(const struct rn_table *table)
{
    uint64_t words = 0;

    for (unsigned class = 0; class <= table->class_whole; class ++) {
        int32_t blocks =
            (int32_t)__atomic_load_n(&table->header->loose[class].blocks, __ATOMIC_RELAXED);

        words += blocks > 0 ? (uint64_t)blocks * rn_blocks_class_words(class) : 0;
    }
    return words;
}

/* Drains slabs, if enough is loose in them. */
static uint32_t find_loose(struct rn_table *table, struct rn_context *x,
                           const struct rn_sweep_want *want)
{
    struct rn_sweep *sweep = &table->sweep;
    uint64_t slabs = rn_block_shape(table->slab_words, want->class).slabs + worth(table);
    uint64_t step = slabs * table->slab_words, loose = words_loose(table);
    uint32_t block = RN_NIL;

    if (loose < load(&sweep->loose_next)) {
        if (loose + step < load(&sweep->loose_next))
            store(&sweep->loose_next, loose + step);
        return RN_NIL;
    }
    rn_blocks_contexts_drain(table);
    begin_pass(table, slabs);
    for (uint64_t n = 0; block == RN_NIL && n < table->group_count && load(&sweep->draining) != 0;
         n += PASS_STEP_GROUPS) {
        sweep_groups(table, x, PASS_STEP_GROUPS, want->now_ns);
        if (slabs_free(table) != 0)
            block = rn_block_alloc(table, want->class);
    }
    if (block == RN_NIL)
        block = rn_block_alloc(table, want->class);
    if (block == RN_NIL)
        store(&sweep->loose_next, words_loose(table) + step);
    return block;
}

uint32_t rn_sweep_alloc(struct rn_table *table, struct rn_context *x,
                        const struct rn_sweep_want *want)
{
    uint64_t before = slabs_free(table);
    uint32_t block = rn_block_alloc(table, want->class);

    if (block != RN_NIL) {
        uint64_t pace = 2 * LOW_PART * table->group_count / table->slab_count + 1;

        if (slabs_free(table) >= before || before > table->slab_count / LOW_PART)
            return block;
        if (load(&table->sweep.at) >= load(&table->sweep.pass_ends))
            begin_pass(table, worth(table));
        sweep_groups(table, x, pace < PACE_GROUPS_MAX ? pace : PACE_GROUPS_MAX,
                     want->now_ns - GRACE_NS);
        return block;
    }
    if (table->slab_count == 0)
        return RN_NIL;
    block = find_idle(table, x, want);
    while (block == RN_NIL) {
        block = find_loose(table, x, want);
        if (block != RN_NIL || !want->evict ||
            rn_evict_block(table, want->class, want->tag, want->now_ns) == 0)
            break;
        block = rn_block_alloc(table, want->class);
    }
    return block;
}
