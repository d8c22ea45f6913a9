/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a book from a ruleset; its rules by name, and their counts.
 */
#include "limiter/rulebook/book.h"

#include <stdlib.h>

#include "limiter/clients/client_index.h"
#include "limiter/decide/fallback.h"
#include "limiter/decide/fast_path.h"
#include "limiter/effect/effect.h"
#include "limiter/factor.h"
#include "limiter/value_stats.h"
#include "store/store.h"

unsigned rn_book_charge_flags(const struct rn_rule *rule)
{
    static const unsigned consistency[] = {
        [RN_STRICT] = 0, [RN_LEASED] = RN_CHARGE_LEASED, [RN_ASYNC] = RN_CHARGE_ASYNC};
    static const unsigned full[] = {[RN_FULL_EVICT] = 0,
                                    [RN_FULL_EVICT_LAST] = RN_CHARGE_EVICT_LAST,
                                    [RN_FULL_REFUSE] = RN_CHARGE_KEEP};

    return full[rule->on_full] | consistency[rule->consistency] | rn_fallback_flags(rule);
}

static void compile_rule(struct rn_book *b, const struct rn_rule *rule)
{
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        const struct rn_tier *tier = &rule->tiers[t];

        for (uint32_t i = 0; i < tier->limit_count; i++) {
            const struct rn_rule_limit *from = tier->limits[i];
            uint32_t copy = 0; /* its number among the limits of this shape in the tier */

            for (uint32_t k = 0; k < i; k++)
                copy += tier->limits[k]->limit.shape == from->limit.shape;
            rn_compiled_init_rule(
                &b->limits[from->id], b->secret, rule->index,
                &(struct rn_compiled_rule){.name = rule->name,
                                           .copy = copy,
                                           .limit = &from->limit,
                                           .shadow = rule->shadow,
                                           .charge_flags = rn_book_charge_flags(rule),
                                           .id = from->id});
        }
    }
}

static int compare_names(const void *left, const void *right)
{
    const struct rn_rule *a = *(const struct rn_rule *const *)left;
    const struct rn_rule *b = *(const struct rn_rule *const *)right;

    return rn_slice_compare(a->name, b->name);
}

/* By salt, then capacity. */
static int compare_salts(const void *left, const void *right)
{
    const struct rn_compiled *a = *(const struct rn_compiled *const *)left;
    const struct rn_compiled *b = *(const struct rn_compiled *const *)right;

    if (a->salt != b->salt)
        return a->salt < b->salt ? -1 : 1;
    return (a->limit.cap > b->limit.cap) - (a->limit.cap < b->limit.cap);
}

const struct rn_compiled *rn_book_find_limit(const struct rn_book *b, uint64_t salt, uint64_t cap)
{
    uint32_t low = 0, high = b->ruleset->limit_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (b->by_salt[middle]->salt < salt)
            low = middle + 1;
        else
            high = middle;
    }
    const struct rn_compiled *smallest = NULL;

    for (; low < b->ruleset->limit_count && b->by_salt[low]->salt == salt; low++) {
        const struct rn_compiled *step = rn_factor_find(b->by_salt[low], cap);

        if (step || b->by_salt[low]->limit.cap == cap)
            return step ? step : b->by_salt[low];
        smallest = smallest ? smallest : rn_factor_written(b->by_salt[low]);
    }
    return smallest;
}

const struct rn_rule *rn_book_find(const struct rn_book *b, struct rn_slice name)
{
    struct rn_rule wanted = {.name = name};
    const struct rn_rule *key = &wanted;
    const struct rn_rule *const *found =
        b->ruleset->rule_count == 0
            ? NULL
            : bsearch(&key, b->by_name, b->ruleset->rule_count, sizeof *b->by_name, compare_names);

    return found ? *found : NULL;
}

/* Values that are counted the same way as before go on with their counts. */
static bool link_rules(struct rn_book *b, const struct rn_book *old, int64_t now_ns)
{
    for (uint32_t i = 0; i < b->ruleset->rule_count; i++) {
        const struct rn_rule *rule = &b->ruleset->rules[i];
        const struct rn_rule *before = old ? rn_book_find(old, rule->name) : NULL;

        if (!rn_family_link(b, rule) ||
            (before && !rn_family_succeed(b, rule, &old->families[before->index], now_ns)))
            return false;
        for (uint32_t t = 0; t < rule->tier_count; t++)
            for (uint32_t k = 0; k < rule->tiers[t].limit_count; k++) {
                const struct rn_rule_limit *limit = rule->tiers[t].limits[k];

                bool fits = rn_fast_path_fits(b, rule, limit);

                b->limits[limit->id].fast_path = fits && !rn_rule_has_extras(rule);
                b->limits[limit->id].fast_extras = fits && rn_rule_has_extras(rule);
            }
        if (!rule->values)
            continue;
        b->values[i] =
            before && before->values && before->values->from_request == rule->values->from_request
                ? rn_value_stats_ref(old->values[before->index])
                : rn_value_stats_new();
        if (!b->values[i])
            return false;
    }
    return true;
}

/* Once all limits of all rules are linked: steps are copies. */
static bool compile_steps(struct rn_book *b, const struct rn_rule *rule)
{
    const struct rn_rule_limit *limit;
    struct rn_factor *factor = b->factors[rule->index] = rn_factor_new(rule, &b->arena);

    if (!factor)
        return false;
    RN_RULE_EACH_LIMIT(limit, rule)
    {
        if (!rn_factor_compile(&b->limits[limit->id], factor, &b->arena))
            return false;
    }
    return true;
}

static bool fill(struct rn_book *b, const struct rn_book *old, int64_t now_ns)
{
    const struct rn_ruleset *rules = b->ruleset;
    uintptr_t counts =
        (uintptr_t)rn_arena_calloc(&b->arena, rules->rule_count + 1, sizeof *b->carried);

    /* Aligned to cache lines, which is more than an arena promises. */
    b->carried = (struct rn_counts *)((counts + RN_STATS_LINE - 1) / RN_STATS_LINE * RN_STATS_LINE);
    b->limits = rn_arena_calloc(&b->arena, rules->limit_count, sizeof *b->limits);
    b->places = rn_arena_calloc(&b->arena, rules->limit_count, sizeof *b->places);
    b->families = rn_arena_calloc(&b->arena, rules->rule_count, sizeof *b->families);
    b->by_name = rn_arena_calloc(&b->arena, rules->rule_count, sizeof *b->by_name);
    b->by_salt = rn_arena_calloc(&b->arena, rules->limit_count, sizeof *b->by_salt);
    b->values = rn_arena_calloc(&b->arena, rules->rule_count, sizeof *b->values);
    b->factors = rn_arena_calloc(&b->arena, rules->rule_count, sizeof *b->factors);
    if (!b->factors || !b->values || !b->limits || !b->families || !b->carried || !b->by_name ||
        !b->by_salt || !b->places)
        return false;
    b->value_count = rules->rule_count;
    if (rn_stats_init(&b->stats, rules->rule_count) != 0)
        return false;
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        compile_rule(b, &rules->rules[i]);
        b->by_name[i] = &rules->rules[i];
    }
    for (uint32_t i = 0; i < rules->limit_count; i++)
        b->by_salt[i] = &b->limits[i];
    if (rules->rule_count > 1)
        qsort(b->by_name, rules->rule_count, sizeof *b->by_name, compare_names);
    if (rules->limit_count > 1)
        qsort(b->by_salt, rules->limit_count, sizeof *b->by_salt, compare_salts);
    if (!link_rules(b, old, now_ns))
        return false;
    for (uint32_t i = 0; i < rules->rule_count; i++)
        if (rules->rules[i].factor_count != 0 && !compile_steps(b, &rules->rules[i]))
            return false;
    return true;
}

struct rn_book *rn_book_new(struct rn_ruleset *ruleset, const struct rn_hash_key *secret,
                            const struct rn_book *old, int64_t now_ns)
{
    struct rn_book *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    rn_arena_init(&b->arena);
    b->ruleset = ruleset;
    b->secret = secret;
    if (!fill(b, old, now_ns)) {
        b->ruleset = NULL;
        rn_book_free(b);
        return NULL;
    }
    return b;
}

void rn_book_free(struct rn_book *b)
{
    if (!b)
        return;
    rn_client_index_free(b->client_index);
    if (!b->handed_over) {
        for (uint32_t i = 0; i < b->value_count; i++)
            rn_value_stats_unref(b->values[i]);
        rn_stats_done(&b->stats);
        rn_effect_free(b->effects);
        rn_arena_done(&b->arena);
        rn_ruleset_free(b->ruleset);
    }
    free(b);
}

struct rn_book *rn_book_renew(const struct rn_book *b, struct rn_client_index *index)
{
    struct rn_book *renewed = malloc(sizeof *renewed);

    if (!renewed)
        return NULL;
    *renewed = *b;
    renewed->client_index = index;
    renewed->next = NULL;
    return renewed;
}

void rn_book_totals(const struct rn_book *b, const struct rn_rule *rule, struct rn_counts *counts)
{
    rn_stats_sum(&b->stats, rule->index, counts);
    rn_stats_add_counts(counts, &b->carried[rule->index]);
}

void rn_book_carry(struct rn_book *b, const struct rn_book *old)
{
    for (uint32_t i = 0; i < b->ruleset->rule_count; i++) {
        const struct rn_rule *before = rn_book_find(old, b->ruleset->rules[i].name);

        if (before)
            rn_book_totals(old, before, &b->carried[i]);
    }
    rn_effect_carry(b, old);
}
