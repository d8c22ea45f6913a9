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
        if (outcome == RN_WRITE)
            step = publish_draft(table, x, c, tag, found, &d);
        else
            step = finish(c, outcome == RN_FAULT ? RATION_EALGORITHM : 0);
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

/* The common case without its detours: a bucket that has a word, and no more debt than it may. */
static inline bool find_bucket(const struct rn_table *table, const struct rn_charge *c,
                               struct rn_found *found, int64_t *debt)
{
    *found = rn_slot_find(table, rn_key_tag(c->key));
    *debt = rn_gcra_debt(found->value.state, c->ask.now_ns);
    return found->slot && rn_tag_form(found->value.tag) == RN_FORM_GCRA &&
           *debt <= c->limit->full_ns;
}

/* Writes the debt that a take leaves. False: the slot has changed. */
static inline bool swap_bucket(struct rn_charge *c, const struct rn_found *found, int64_t debt)
{
    int64_t until = c->ask.now_ns + debt;
    struct rn_slot_value value = {tag_for(c, rn_key_tag(c->key), RN_FORM_GCRA), (uint64_t)until};

    c->answer.mark = until;
    if (rn_likely(rn_slot_swap(found->slot, found->value, value)))
        return true;
    back_off(0);
    return false;
}

/* A bucket that is looked at, charged or refused at the first attempt. False: nothing has been
 * done. */
static inline bool take_bucket(struct rn_table *table, struct rn_charge *c)
{
    const struct rn_limit *limit = c->limit;
    struct rn_found found;
    int64_t debt;

    if (limit->form != RN_FORM_GCRA || (c->ask.op != RN_TAKE && c->ask.op != RN_PEEK) ||
        !find_bucket(table, c, &found, &debt))
        return false;
    if (c->ask.op == RN_PEEK) {
        rn_gcra_look(limit, debt, c->ask.cost, &c->answer);
        c->answer.mark = (int64_t)found.value.state;
    } else if (rn_gcra_take(limit, &debt, c->ask.cost, &c->answer) && c->ask.cost != 0 &&
               !swap_bucket(c, &found, debt)) {
        return false;
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

/* --- all or none ------------------------------------------------------------------- */

/* What was found when a charge was looked at. */
struct look {
    struct rn_found found; /* of a bucket with a word; else slot NULL */
    int64_t after;         /* the debt of that bucket after the charge */
    uint64_t left;
};

/* A bucket is answered as if it had been charged. */
static inline void look_at(struct rn_table *table, struct rn_charge *c, struct look *look)
{
    uint64_t cost = c->ask.cost;

    if (rn_likely(c->limit->form == RN_FORM_GCRA && cost != 0) &&
        rn_likely(find_bucket(table, c, &look->found, &look->after))) {
        rn_gcra_take(c->limit, &look->after, cost, &c->answer);
        look->left = c->answer.remaining + cost; /* if it fits: taking it leaves so many less */
        return;
    }
    look->found.slot = NULL;
    c->ask.op = RN_PEEK;
    apply_one(table, c);
    c->ask.op = RN_TAKE;
    look->left = c->answer.remaining;
    c->answer.allowed &= c->error == 0;
}

/* Makes the answers those of peeks: a bucket without room has answered so. */
static enum rn_table_all refuse_all(struct rn_charge *c, const struct look *looks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t state = looks[i].found.value.state;

        if (!looks[i].found.slot) {
            if (c[i].error != 0)
                return RN_ALL_UNDONE;
            continue;
        }
        if (c[i].answer.allowed)
            rn_gcra_look(c[i].limit, rn_gcra_debt(state, c[i].ask.now_ns), c[i].ask.cost,
                         &c[i].answer);
        c[i].answer.mark = (int64_t)state;
    }
    return RN_ALL_REFUSED;
}

static RN_ASIDE enum rn_table_all undo_all(struct rn_table *table, struct rn_charge *c,
                                           const uint8_t *order, size_t taken)
{
    for (size_t i = 0; i < taken; i++) {
        struct rn_charge *back = &c[order[i]];

        back->ask.op = RN_GIVE_BACK;
        back->ask.at_ns = back->ask.now_ns;
        back->ask.mark = back->answer.mark;
        apply_one(table, back);
    }
    return RN_ALL_UNDONE;
}

RN_HOT enum rn_table_all rn_table_take_all(struct rn_table *table, struct rn_charge *c, size_t n)
{
    __extension__ typedef unsigned __int128 wide;
    struct look looks[RN_TABLE_ALL_MAX];
    uint8_t order[RN_TABLE_ALL_MAX];
    bool fits = true;

    for (size_t i = 0; i < n; i++) {
        size_t at = i;

        look_at(table, &c[i], &looks[i]);
        fits &= c[i].answer.allowed;
        for (; at > 0; at--) {
            uint8_t other = order[at - 1];

            if ((wide)looks[i].left * c[other].ask.cost >= (wide)looks[other].left * c[i].ask.cost)
                break;
            order[at] = other;
        }
        order[at] = (uint8_t)i;
    }
    if (rn_unlikely(!fits))
        return refuse_all(c, looks, n);
    for (size_t i = 0; i < n; i++) {
        struct rn_charge *next = &c[order[i]];
        const struct look *look = &looks[order[i]];

        if (rn_likely(look->found.slot != NULL) && swap_bucket(next, &look->found, look->after))
            continue;
        apply_one(table, next);
        if (next->error != 0 || !next->answer.allowed)
            return undo_all(table, c, order, i);
    }
    return RN_ALL_TAKEN;
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
