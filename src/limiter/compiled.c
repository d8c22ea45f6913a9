/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling limits: seeds, salts, and families of limits that share a name.
 */
#include "limiter/compiled.h"

#include <stdlib.h>
#include <string.h>

#include "core/envelope.h"
#include "store/store.h"

/* Any odd number and any number: they keep limits given with a call apart from
 * each other and from named ones, whose seeds are hashes. */
#define AD_HOC_FACTOR UINT64_C(0x9FB21C651E98DF25)
#define AD_HOC_TERM UINT64_C(0xD1B54A32D192ED03)

/* Names of limits are hashed once, when they are compiled. */
static struct rn_hash_key seed_of(const struct rn_hash_key *secret, struct rn_slice name)
{
    return (struct rn_hash_key){secret->k0 ^ rn_siphash(secret, name.data, name.len), secret->k1};
}

/* Byte by byte: the same state file, the same hash, on any machine. */
static void add_number(struct rn_siphash *s, uint64_t number)
{
    unsigned char bytes[8];

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(number >> (8 * i));
    rn_siphash_add(s, bytes, sizeof bytes);
}

static uint64_t salt_of(const struct rn_hash_key *secret, struct rn_slice name, uint64_t shape,
                        uint32_t copy)
{
    struct rn_siphash s;

    rn_siphash_init(&s, secret);
    rn_siphash_add(&s, name.data, name.len);
    add_number(&s, shape);
    if (copy != 0)
        add_number(&s, copy);
    return rn_siphash_done(&s);
}

int rn_compiled_init(struct rn_compiled *l, const struct rn_hash_key *secret, uint32_t index,
                     const struct ration_named *named)
{
    struct rn_slice name = rn_slice_of(named->name);

    *l = (struct rn_compiled){.seed = seed_of(secret, name),
                              .index = index,
                              .charge_flags =
                                  (named->flags & RATION_KEEP ? RN_CHARGE_KEEP : 0) |
                                  (named->flags & RATION_EVICT_LAST ? RN_CHARGE_EVICT_LAST : 0),
                              .shadow = (named->flags & RATION_SHADOW) != 0,
                              .name = strdup(named->name)};
    rn_limit_init(&l->limit, &named->limit);
    l->salt = salt_of(secret, name, l->limit.shape, 0);
    return l->name ? 0 : RATION_ENOMEM;
}

void rn_compiled_init_rule(struct rn_compiled *l, const struct rn_hash_key *secret, uint32_t index,
                           const struct rn_compiled_rule *from)
{
    *l = (struct rn_compiled){.seed = seed_of(secret, from->name),
                              .salt = salt_of(secret, from->name, from->limit->shape, from->copy),
                              .index = index,
                              .charge_flags = from->charge_flags,
                              .id = from->id,
                              .shadow = from->shadow,
                              .limit = *from->limit};
}

/* Another key for each count: a single part that looks like several with their
 * lengths is none of them. */
uint64_t rn_compiled_hash_parts(const struct rn_compiled *l, const struct ration_part *parts,
                                size_t count)
{
    struct rn_hash_key seed = l->seed;
    struct rn_siphash s;

    if (count == 1)
        return rn_siphash(&seed, parts[0].data, parts[0].len);
    seed.k1 ^= count + 1;
    rn_siphash_init(&s, &seed);
    for (size_t i = 0; i < count; i++)
        rn_siphash_add(&s, parts[i].data, parts[i].len);
    return rn_siphash_done(&s);
}

void rn_compiled_done(struct rn_compiled *l)
{
    free(l->name);
}

bool rn_compiled_init_ad_hoc(struct rn_compiled *l, const struct rn_hash_key *secret,
                             const struct ration_limit *spec)
{
    if (rn_limit_fault(spec))
        return false;
    rn_limit_init(&l->limit, spec);
    l->seed.k0 = secret->k0 ^ (l->limit.shape * AD_HOC_FACTOR + AD_HOC_TERM);
    l->seed.k1 = secret->k1;
    l->salt = 0;
    l->index = RN_AD_HOC;
    l->charge_flags = 0;
    l->lean = spec->algorithm != RATION_CONCURRENCY;
    l->shadow = l->fast_path = l->is_mark = l->stepped = l->fast_steps = l->fast_extras = false;
    l->shapes = l->guards = NULL;
    l->shape_count = l->guard_count = 0;
    l->mark = NULL;
    l->name = NULL;
    return true;
}

/* --- guards -------------------------------------------------------------------- */

static int compare_variants(const void *left, const void *right)
{
    const struct rn_compiled *a = *(const struct rn_compiled *const *)left;
    const struct rn_compiled *b = *(const struct rn_compiled *const *)right;

    if (a->salt != b->salt)
        return a->salt < b->salt ? -1 : 1;
    return (a->limit.cap < b->limit.cap) - (a->limit.cap > b->limit.cap);
}

void rn_compiled_sort(const struct rn_compiled **variants, size_t n)
{
    if (n > 1)
        qsort(variants, n, sizeof *variants, compare_variants);
}

/* Counts the guards, lists them unless `list` is NULL, and finds out for how long
 * they must be asked. A larger limit of the same shape is one if a smaller is. */
static uint32_t find_guards(const struct rn_compiled *l, const struct rn_compiled *const *variants,
                            size_t n, const struct rn_compiled **list, int64_t *longest_ns)
{
    uint32_t count = 0;
    const struct rn_compiled *last = NULL;

    *longest_ns = 0;
    for (size_t i = 0; i < n; i++) {
        const struct rn_compiled *guard = variants[i];

        if (guard->salt == l->salt || guard->shadow || !rn_compiled_counts(guard) ||
            (rn_compiled_refills(l) && rn_compiled_refills(guard)))
            continue; /* buckets that refill evenly need no guard: transaction.c */
        int64_t ns = rn_envelope_settles_ns(&guard->limit, &l->limit);

        if (ns == RN_NEVER)
            continue;
        count += !last || last->salt != variants[i]->salt;
        last = variants[i];
        if (list)
            list[count - 1] = last;
        if (*longest_ns < ns)
            *longest_ns = ns;
    }
    return count;
}

/* Variants of one shape share a mark if they need it for the same time. Charging one of them then
 * does not mean to leave the other: both count in one state, which keeps them within what covers
 * the larger. */
bool rn_compiled_guard(struct rn_compiled *l, const struct rn_compiled *const *variants, size_t n,
                       const struct rn_hash_key *secret, struct rn_arena *arena)
{
    int64_t lasts_ns;
    uint32_t count = rn_compiled_counts(l) ? find_guards(l, variants, n, NULL, &lasts_ns) : 0;

    if (count == 0)
        return true;
    const struct rn_compiled **guards = rn_arena_alloc(arena, count * sizeof *guards);
    struct rn_compiled *mark = rn_arena_alloc(arena, sizeof *mark);

    if (!guards || !mark)
        return false;
    l->guard_count = find_guards(l, variants, n, guards, &lasts_ns);
    l->guards = guards;
    l->mark = mark;
    *mark =
        (struct rn_compiled){.index = l->index, .charge_flags = l->charge_flags, .is_mark = true};
    rn_compiled_init_flag(&mark->limit, lasts_ns);
    struct rn_siphash s;

    rn_siphash_init(&s, secret);
    add_number(&s, l->salt);
    add_number(&s, (uint64_t)lasts_ns);
    mark->salt = rn_siphash_done(&s);
    return true;
}

bool rn_compiled_is_apart(const struct rn_compiled *l, const struct rn_compiled *other)
{
    for (uint32_t i = 0; i < l->guard_count; i++)
        if (l->guards[i]->salt == other->salt)
            return true;
    return l->mark && l->mark->salt == other->salt;
}

/* --- variants ------------------------------------------------------------------ */

static int compare_names(const void *left, const void *right)
{
    const struct rn_compiled *a = *(const struct rn_compiled *const *)left;
    const struct rn_compiled *b = *(const struct rn_compiled *const *)right;
    int by_name = strcmp(a->name, b->name);

    return by_name != 0 ? by_name : compare_variants(left, right);
}

/* Links the variants of one name; `run` is sorted. */
static bool link_name(struct rn_compiled *all, const struct rn_compiled *const *run, size_t n,
                      const struct rn_hash_key *secret, struct rn_arena *arena)
{
    const struct rn_compiled **list = rn_arena_alloc(arena, 2 * n * sizeof *list);
    uint32_t count = 0;

    if (!list)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (count == 0 || list[count - 1]->salt != run[i]->salt)
            list[count++] = run[i];
        if (!rn_compiled_guard(&all[run[i]->index], run, n, secret, arena))
            return false;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t k = 0;

        while (run[i]->mark && k < count && list[k]->salt != run[i]->mark->salt)
            k++;
        if (run[i]->mark && k == count)
            list[count++] = run[i]->mark;
    }
    for (size_t i = 0; i < n; i++) {
        all[run[i]->index].shapes = list;
        all[run[i]->index].shape_count = count;
    }
    return true;
}

bool rn_compiled_is_alone(const struct rn_compiled *l)
{
    bool alone = l->guard_count == 0;

    for (uint32_t i = 0; i < l->shape_count; i++)
        alone &= !rn_compiled_follows(l, l->shapes[i]);
    return alone;
}

bool rn_compiled_link(struct rn_compiled *all, size_t n, const struct rn_hash_key *secret,
                      struct rn_arena *arena)
{
    const struct rn_compiled **sorted = rn_arena_alloc(arena, n * sizeof *sorted);

    if (!sorted)
        return false;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &all[i];
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t start = 0, end; start < n; start = end) {
        for (end = start + 1; end < n && strcmp(sorted[start]->name, sorted[end]->name) == 0;)
            end++;
        if (!link_name(all, sorted + start, end - start, secret, arena))
            return false;
    }
    for (size_t i = 0; i < n; i++) {
        struct rn_compiled *l = &all[i];

        l->lean = l->limit.algorithm != RATION_CONCURRENCY && rn_compiled_is_alone(l);
        /* A place in a queue cannot always be given back: it is not charged on trial. */
        l->fast_path = l->lean && !l->shadow && l->limit.algorithm != RATION_LEAKY_BUCKET;
    }
    return true;
}
