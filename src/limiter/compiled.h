/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit made ready to be charged: its arithmetic, how its keys are hashed,
 * and which other limits are variants of it.
 *
 * The state key of a client is hash(seed, key) ^ salt. The seed depends on the
 * limit's name only and the salt on name and shape, so that variants of one
 * shape share a state, and the state keys of the others follow from any one of
 * them without the key itself: key ^ my salt ^ their salt.
 */
#ifndef RN_LIMITER_COMPILED_H
#define RN_LIMITER_COMPILED_H

#include <ration/ration.h>

#include "base/arena.h"
#include "base/siphash.h"
#include "base/slice.h"
#include "core/limit.h"

__extension__ typedef unsigned __int128 u128;

/* `index` of a limit given with the call. */
#define RN_AD_HOC UINT32_MAX

struct rn_compiled {
    struct rn_hash_key seed;
    uint64_t salt;
    uint32_t index;        /* among the limits given at open, or RN_AD_HOC */
    unsigned charge_flags; /* RN_CHARGE_* */
    uint32_t id;           /* of a limit of a rule: rn_rule_limit.id */
    bool lean;             /* one RN_TAKE charges it */
    bool shadow;
    bool fast_path;   /* rn_table_take_all may charge it with others: see fast_path.h, take.c */
    bool is_mark;     /* not a limit but the mark of one: see `mark` */
    bool stepped;     /* the limit as written; one of `steps` is in force: see factor.h */
    bool fast_steps;  /* if it is stepped: fast_path of its steps */
    bool fast_extras; /* the same as fast_path, if its rule has extras (rn_rule_has_extras) */
    struct rn_limit limit;

    /* One limit of each shape that its name has, the largest of that shape; and
     * the marks of those among them that have guards. */
    const struct rn_compiled *const *shapes;
    uint32_t shape_count; /* 0 for a limit given with the call */

    /* The variants that are larger in every respect, of each shape the smallest;
     * and the mark, a bucket of one unit: something is spent as long as another
     * variant was charged so lately that the guards must be asked. */
    const struct rn_compiled *const *guards;
    uint32_t guard_count;
    const struct rn_compiled *mark; /* NULL without guards */

    char *name; /* NULL for a limit given with the call */

    /* If it is stepped: */
    const struct rn_factor *factor;
    const struct rn_compiled *steps; /* by their order in factor->percents; not stepped */
};

/* A bucket of one unit: taking it sets a flag that ends by itself after lasts_ns. */
static inline void rn_compiled_init_flag(struct rn_limit *limit, int64_t lasts_ns)
{
    rn_limit_init(limit, &(struct ration_limit){
                             .algorithm = RATION_TOKEN_BUCKET, .amount = 1, .period_ns = lasts_ns});
}

/* The same share of `to` units as `spent` is of `from`, rounded up. spent <= from. */
static inline uint64_t rn_compiled_scale(uint64_t spent, uint64_t from, uint64_t to)
{
    return (uint64_t)(((u128)spent * to + from - 1) / from);
}

/* Compiles a limit in which rn_limit_fault finds none. Returns 0 or
 * RATION_ENOMEM; rn_compiled_done frees what it owns. */
int rn_compiled_init(struct rn_compiled *l, const struct rn_hash_key *secret, uint32_t index,
                     const struct ration_named *named);
void rn_compiled_done(struct rn_compiled *l);

/* The parts of a limit of a rule. */
struct rn_compiled_rule {
    struct rn_slice name; /* the rule's */
    uint32_t copy;        /* 0, or which one of several limits of one shape that apply at once */
    const struct rn_limit *limit;
    bool shadow;
    unsigned charge_flags; /* RN_CHARGE_* */
    uint32_t id;           /* rn_rule_limit.id */
};

/* The same for a limit of a rule; it owns nothing, has no variants yet, and its
 * index is `index`. A limit given at open under that name shares its state. */
void rn_compiled_init_rule(struct rn_compiled *l, const struct rn_hash_key *secret, uint32_t index,
                           const struct rn_compiled_rule *from);

/* The same for a limit given with the call: owns nothing, and hashes no name.
 * False if the limit is faulty. */
bool rn_compiled_init_ad_hoc(struct rn_compiled *l, const struct rn_hash_key *secret,
                             const struct ration_limit *spec);

/* Finds the variants among `n` limits, whose indices are their places. The arena
 * lives as long as the limits. False: out of memory. */
bool rn_compiled_link(struct rn_compiled *all, size_t n, const struct rn_hash_key *secret,
                      struct rn_arena *arena);

/* Finds the guards of `l` among its variants, which are sorted: those of one
 * salt side by side, the largest first. It has a mark then. */
bool rn_compiled_guard(struct rn_compiled *l, const struct rn_compiled *const *variants, size_t n,
                       const struct rn_hash_key *secret, struct rn_arena *arena);

/* Sorts in that order. */
void rn_compiled_sort(const struct rn_compiled **variants, size_t n);

/* Whether units are spent: places are held, and unlimited counts nothing. */
static inline bool rn_compiled_counts(const struct rn_compiled *l)
{
    return l->limit.algorithm != RATION_CONCURRENCY && l->limit.algorithm != RATION_UNLIMITED &&
           l->limit.cap != 0;
}

/* Whether it is a bucket that refills evenly: what is spent of it need not be a whole number. */
static inline bool rn_compiled_refills(const struct rn_compiled *l)
{
    return l->limit.form == RN_FORM_GCRA || l->limit.form == RN_FORM_FINE;
}

/* Whether `other` is a guard of `l`, or its own mark. */
bool rn_compiled_is_apart(const struct rn_compiled *l, const struct rn_compiled *other);

/* Whether an admission by `l` is also counted in the state of `other`, one of
 * its shapes: its units, and at least the share that is spent. */
static inline bool rn_compiled_follows(const struct rn_compiled *l, const struct rn_compiled *other)
{
    return l->salt != other->salt && rn_compiled_counts(l) && rn_compiled_counts(other) &&
           (l->guard_count == 0 || !rn_compiled_is_apart(l, other));
}

/* Whether charging it concerns no other variant. */
bool rn_compiled_is_alone(const struct rn_compiled *l);

/* The part of the state key that all limits of one name have in common; one
 * part is the key alone. */
uint64_t rn_compiled_hash_parts(const struct rn_compiled *l, const struct ration_part *parts,
                                size_t count);

static inline uint64_t rn_compiled_hash(const struct rn_compiled *l, const void *key, size_t len)
{
    return rn_siphash(&l->seed, key, len) ^ l->salt;
}

/* The state key of a charge. */
static inline uint64_t rn_compiled_key(const struct rn_compiled *l, const struct ration_charge *c)
{
    return c->key ? rn_compiled_hash(l, c->key, c->key_len) : c->hash;
}

#endif
