/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling limits: seeds, salts, and families of limits that share a name.
 */
#include "limiter/compile.h"

#include <stdlib.h>
#include <string.h>

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
                              .charge_flags = named->flags & RATION_KEEP ? RN_CHARGE_KEEP : 0,
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
                              .charge_flags = from->keep ? RN_CHARGE_KEEP : 0,
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
    if (rn_limit_fault(spec) || spec->calendar != RATION_CALENDAR_NONE)
        return false; /* a calendar would have to be read from a file */
    rn_limit_init(&l->limit, spec);
    l->seed.k0 = secret->k0 ^ (l->limit.shape * AD_HOC_FACTOR + AD_HOC_TERM);
    l->seed.k1 = secret->k1;
    l->salt = 0;
    l->index = RN_AD_HOC;
    l->charge_flags = 0;
    l->shadow = false;
    l->lean = spec->algorithm != RATION_CONCURRENCY;
    l->shapes = NULL;
    l->shape_count = 0;
    l->name = NULL;
    return true;
}

/* By name, then shape, then the largest first. */
static int compare(const void *left, const void *right)
{
    const struct rn_compiled *a = *(const struct rn_compiled *const *)left;
    const struct rn_compiled *b = *(const struct rn_compiled *const *)right;
    int by_name = strcmp(a->name, b->name);

    if (by_name != 0)
        return by_name;
    if (a->limit.shape != b->limit.shape)
        return a->limit.shape < b->limit.shape ? -1 : 1;
    return (a->limit.cap < b->limit.cap) - (a->limit.cap > b->limit.cap);
}

/* Keeps the first of each shape in a sorted run; returns how many there are. */
static uint32_t keep_first_of_shape(const struct rn_compiled **run, size_t n)
{
    uint32_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (kept == 0 || run[kept - 1]->limit.shape != run[i]->limit.shape)
            run[kept++] = run[i];
    return kept;
}

static bool has_followers(const struct rn_compiled *l)
{
    for (uint32_t i = 0; i < l->shape_count; i++)
        if (rn_compiled_follows(l, l->shapes[i]))
            return true;
    return false;
}

void rn_compiled_link(struct rn_compiled *all, size_t n, const struct rn_compiled **pool)
{
    for (size_t i = 0; i < n; i++)
        pool[i] = &all[i];
    if (n > 1)
        qsort(pool, n, sizeof *pool, compare);
    for (size_t start = 0, end; start < n; start = end) {
        for (end = start + 1; end < n && strcmp(pool[start]->name, pool[end]->name) == 0;)
            end++;
        for (size_t i = start; i < end; i++)
            all[pool[i]->index].shapes = pool + start;
        /* Every member points to the run, which from now on names one of each shape. */
        uint32_t kept = keep_first_of_shape(pool + start, end - start);

        all[pool[start]->index].shape_count = kept;
    }
    for (size_t i = 0; i < n; i++) {
        all[i].shape_count = all[all[i].shapes[0]->index].shape_count;
        all[i].lean = all[i].limit.algorithm != RATION_CONCURRENCY && !has_followers(&all[i]);
    }
}
