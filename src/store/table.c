/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applying operations to the memory table. Each is a loop: read the slot,
 * compute the new state aside, swap; if the slot changed meanwhile, again.
 * A failed swap means that another thread's swap succeeded, so the table as a
 * whole always makes progress.
 * A refusal writes nothing.
 */
#include "store/table.h"

#include <string.h>

#include "base/hints.h"
#include "core/gcra.h"
#include "store/blocks.h"
#include "store/evict.h"
#include "store/slots.h"
#include "store/sweep.h"

enum step { FINISHED, AGAIN };

static enum step finish(struct rn_charge *c, int error)
{
    c->error = error;
    return FINISHED;
}

static uint64_t tag_for(const struct rn_charge *c, uint64_t tag, enum rn_form form)
{
    return tag | (c->flags & RN_CHARGE_KEEP ? RN_TAG_KEEP : 0) |
           (c->flags & RN_CHARGE_EVICT_LAST ? RN_TAG_LAST : 0) | (uint64_t)form;
}

/* Finds a slot to publish into if the key has none yet. */
static enum step need_slot(struct rn_table *table, struct rn_charge *c, uint64_t tag,
                           struct rn_found *found, int *error)
{
    *error = 0;
    if (found->slot)
        return FINISHED;
    *error = rn_slot_claim(table, tag, c->ask.now_ns, c->flags & RN_CHARGE_KEEP, found);
    if (*error == 0 && (found->value.tag & RN_KIND_MASK) != RN_KIND_PENDING)
        return AGAIN; /* another thread was first: charge its slot */
    return FINISHED;
}

/* At capacity, with no key to evict: the answer stands, but nothing is written. */
static enum step forget(struct rn_table *table, struct rn_charge *c, int error)
{
    if (error != RATION_EFULL || c->flags & RN_CHARGE_KEEP ||
        (table->slab_count == 0 && c->limit->words_full != 0))
        return finish(c, error);
    __atomic_fetch_add(&table->header->evictions, 1, __ATOMIC_RELAXED);
    return finish(c, 0);
}

/* A state in a block, copied aside to be worked on. */
struct draft {
    uint64_t *words;
    uint32_t count;
    enum rn_form form;
};

static void extend(struct draft *d, uint32_t count)
{
    count = rn_blocks_class_words(rn_blocks_class_of(count));
    if (count <= d->count)
        return;
    memset(d->words + d->count, 0, 8 * (size_t)(count - d->count));
    d->count = count;
}

/* Whether the block belongs to this limit: it has its form, or the one that the limit has when
 * the amount is larger. */
static bool holds_block(const struct rn_limit *limit, struct rn_slot_value value)
{
    enum rn_form form = rn_tag_form(value.tag);

    return rn_tag_has_block(value.tag) &&
           (form == limit->form || form == rn_form_grows_into(limit->form));
}

static enum step read_draft(const struct rn_table *table, const struct rn_charge *c,
                            const struct rn_found *found, struct draft *d)
{
    const struct rn_slot_value *v = &found->value;

    d->count = 0;
    if (found->slot && holds_block(c->limit, *v))
        d->form = rn_tag_form(v->tag);
    if (found->slot && holds_block(c->limit, *v)) {
        if (rn_block_sound(table, v->state)) {
            d->count = rn_blocks_class_words(rn_block_class(v->state));
            rn_block_read(table, rn_block_class(v->state), rn_block_offset(v->state), d->words,
                          d->count);
        }
        struct rn_slot_value again = rn_slot_load(found->slot);

        if (again.tag != v->tag || again.state != v->state)
            return AGAIN;
        extend(d, c->limit->words_small);
        return FINISHED;
    }
    extend(d, c->limit->words_small);
    if (found->slot && !rn_tag_has_block(v->tag))
        rn_limit_convert(c->limit, rn_tag_form(v->tag), v->state, d->words);
    return FINISHED;
}

/* Writes the draft into a spare block and swaps it in; the old block becomes
 * the spare. */
static enum step publish_draft(struct rn_table *table, struct rn_context *x, struct rn_charge *c,
                               uint64_t tag, struct rn_found found, struct draft *d)
{
    unsigned class = rn_blocks_class_of(d->count);
    int error;

    if (x->spare_plus_1[class] == 0)
        x->spare_plus_1[class] =
            rn_sweep_alloc(table, x,
                           &(struct rn_sweep_want){.class = class,
                                                   .tag = tag,
                                                   .now_ns = c->ask.now_ns,
                                                   .evict = !(c->flags & RN_CHARGE_KEEP)}) +
            1; /* RN_NIL + 1 is none */
    if (x->spare_plus_1[class] == 0)
        return forget(table, c, RATION_EFULL);
    if (need_slot(table, c, tag, &found, &error) == AGAIN)
        return AGAIN;
    if (error)
        return forget(table, c, error);
    uint32_t block = x->spare_plus_1[class] - 1;

    rn_block_write(table, class, block, d->words, d->count);
    struct rn_slot_value old = found.value;
    uint64_t version = rn_evict_version(c->limit, old, c->ask.now_ns);
    struct rn_slot_value new = {tag_for(c, tag, d->form), rn_block_state(class, version, block)};

    if (!rn_slot_swap(found.slot, old, new))
        return AGAIN;
    x->spare_plus_1[class] = 0;
    if (rn_tag_has_block(old.tag) && rn_block_sound(table, old.state))
        rn_blocks_context_keep(table, x, rn_block_class(old.state), rn_block_offset(old.state));
    return finish(c, 0);
}

/* `form`: of a state that is not in a block yet. */
static enum step apply_block(struct rn_table *table, struct rn_charge *c, uint64_t tag,
                             struct rn_found found, enum rn_form form)
{
    struct rn_context *x = rn_blocks_context_enter(table);
    struct draft d = {.words = x->scratch, .form = form};
    enum step step = read_draft(table, c, &found, &d);

    if (step == FINISHED) {
        enum rn_outcome outcome =
            rn_form_apply(d.form, c->limit, d.words, d.count, &c->ask, &c->answer);

        if (outcome == RN_GROW) {
            extend(&d, d.form == RN_FORM_WIDE ? RN_WIDE_WORDS : c->limit->words_full);
            outcome = rn_form_apply(d.form, c->limit, d.words, d.count, &c->ask, &c->answer);
        }
        step = outcome == RN_KEEP ? finish(c, 0) : publish_draft(table, x, c, tag, found, &d);
    }
    rn_blocks_context_leave(x);
    return step;
}

static enum step apply_word(struct rn_table *table, struct rn_charge *c, uint64_t tag,
                            struct rn_found found)
{
    enum rn_form form = c->limit->form;
    bool own = found.slot && rn_tag_form(found.value.tag) == form;
    uint64_t word = own ? found.value.state : 0;
    int error;

    enum rn_outcome outcome = rn_form_apply(form, c->limit, &word, 1, &c->ask, &c->answer);

    if (outcome == RN_KEEP)
        return finish(c, 0);
    if (__builtin_expect(outcome == RN_GROW, 0))
        return apply_block(table, c, tag, found, rn_form_grows_into(form));
    if (__builtin_expect(!found.slot, 0)) {
        if (need_slot(table, c, tag, &found, &error) == AGAIN)
            return AGAIN;
        if (error)
            return forget(table, c, error);
    }
    struct rn_slot_value value = {tag_for(c, tag, form), word};

    if (!(own ? rn_slot_swap(found.slot, found.value, value)
              : rn_slot_replace(table, &found, value)))
        return AGAIN;
    return finish(c, 0);
}

/* Another thread writes to the same slot: leave the cache line there for a while, which is
 * faster for both than fetching it back and forth. */
static void back_off(unsigned attempt)
{
    for (unsigned i = 0; i < 1u << (attempt < 5 ? attempt + 2 : 7); i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

RN_ASIDE static void apply_one(struct rn_table *table, struct rn_charge *c)
{
    uint64_t tag = rn_key_tag(c->key);

    if (__builtin_expect(c->limit->form == RN_FORM_NONE, 0)) {
        uint64_t none = 0;

        rn_limit_apply(c->limit, &none, 1, &c->ask, &c->answer);
        c->error = 0;
        return;
    }
    for (unsigned attempt = 0;; back_off(attempt++)) {
        struct rn_found found = rn_slot_find(table, tag);
        enum step step;

        if (__builtin_expect(c->ask.op == RN_RESET, 0)) {
            bool spent = found.slot && rn_slot_idle_at(table, &found) > c->ask.now_ns;

            if (found.slot && !rn_slot_replace(table, &found, (struct rn_slot_value){0, 0}))
                continue;
            c->answer = (struct rn_answer){.allowed = spent, .remaining = c->limit->cap};
            step = finish(c, 0);
        } else if (c->limit->words_full != 0 || (found.slot && holds_block(c->limit, found.value)))
            step = apply_block(table, c, tag, found, c->limit->form);
        else
            step = apply_word(table, c, tag, found);
        if (step == FINISHED)
            return;
    }
}

/* The common case without its detours: a bucket that has a word, looked at, charged or
 * refused at the first attempt. False: nothing has been done. */
static inline bool take_bucket(struct rn_table *table, struct rn_charge *c)
{
    const struct rn_limit *limit = c->limit;
    uint64_t tag = rn_key_tag(c->key);
    int64_t now = c->ask.now_ns;

    if (limit->form != RN_FORM_GCRA || (c->ask.op != RN_TAKE && c->ask.op != RN_PEEK))
        return false;
    struct rn_found found = rn_slot_find(table, tag);
    int64_t debt = rn_gcra_debt(found.value.state, now);

    if (!found.slot || rn_tag_form(found.value.tag) != RN_FORM_GCRA || debt > limit->full_ns)
        return false;
    if (c->ask.op == RN_PEEK) {
        rn_gcra_look(limit, debt, c->ask.cost, &c->answer);
        c->answer.mark = (int64_t)found.value.state;
    } else if (rn_gcra_take(limit, &debt, c->ask.cost, &c->answer) && c->ask.cost != 0) {
        struct rn_slot_value value = {tag_for(c, tag, RN_FORM_GCRA), (uint64_t)(now + debt)};

        c->answer.mark = now + debt;
        if (!rn_slot_swap(found.slot, found.value, value)) {
            back_off(0);
            return false;
        }
    }
    c->error = 0;
    return true;
}

RN_HOT static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct rn_table *table = (struct rn_table *)(void *)store;

    for (size_t i = 0; i < n; i++)
        if (__builtin_expect(!take_bucket(table, &batch[i]), 0))
            apply_one(table, &batch[i]);
}

static const struct rn_store_ops table_ops = {.apply = apply};

void rn_table_attach(struct rn_table *table, void *mapping, int fd)
{
    char *base = mapping;

    table->header = mapping;
    table->face = (struct rn_table_face){{&table_ops}, &table->header->anchor};
    table->groups = (struct rn_group *)(void *)(base + table->header->groups_at);
    table->slabs = (uint64_t *)(void *)(base + table->header->slabs_at);
    table->arena = (uint64_t *)(void *)(base + table->header->arena_at);
    table->group_count = table->header->groups;
    table->slab_count = table->header->slabs;
    table->bytes = table->header->bytes;
    table->slab_words = (uint32_t)table->header->slab_words;
    table->slab_shift = (unsigned)__builtin_ctz(table->slab_words);
    table->class_whole = rn_blocks_class_of(table->slab_words);
    table->fd = fd;
}

const struct rn_hash_key *rn_table_secret(const struct rn_table *table)
{
    return &table->header->secret;
}

uint64_t *rn_table_board(struct rn_table *table)
{
    return table->slabs - RN_BOARD_BYTES / sizeof(uint64_t);
}

uint64_t *rn_table_generation(struct rn_table *table)
{
    return &table->header->generation;
}

RN_HOT void rn_table_prefetch(const struct rn_table *table, uint64_t key)
{
    uint64_t tag = rn_key_tag(key);

    /* The lines 96 of 100 keys are in; the other half of each group would cost
     * more bandwidth than it saves. */
    __builtin_prefetch(&rn_group_first(table, tag)->slots[rn_slot_home(tag)], 1);
    __builtin_prefetch(&rn_group_second(table, tag)->slots[rn_slot_home(tag)], 1);
}

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
