/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/factor.h"

#include "core/scale.h"
#include "limiter/board.h"
#include "limiter/line/gate.h"
#include "limiter/rulebook/book.h"

/* Of rules that no table knows: never set, never written. */
static const uint64_t unset = 0;

/* --- the factor in force ------------------------------------------------------------------ */

unsigned rn_factor_get(const struct rn_book *book, const struct rn_rule *rule)
{
    const struct rn_factor *f = book->factors[rule->index];

    return f ? f->percents[rn_factor_at(f)] : RN_FACTOR_WRITTEN;
}

bool rn_factor_is_set(const struct rn_book *book, const struct rn_rule *rule)
{
    const struct rn_factor *f = book->factors[rule->index];

    return f && (__atomic_load_n(f->word, __ATOMIC_RELAXED) & RN_FACTOR_PERCENT) != 0;
}

unsigned rn_factor_set(struct ration *r, const struct rn_book *book, const struct rn_rule *rule,
                       unsigned percent)
{
    const struct rn_factor *f = book->factors[rule->index];

    if (!f || f->word == &unset)
        return RN_FACTOR_WRITTEN;
    uint64_t to = f->percents[f->at[percent < RN_FACTOR_MAX ? percent : RN_FACTOR_MAX]];
    uint64_t before = __atomic_load_n(f->word, __ATOMIC_RELAXED);

    while (!__atomic_compare_exchange_n(
        f->word, &before, ((before & ~RN_FACTOR_PERCENT) + RN_FACTOR_PERCENT + 1) | to, true,
        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        continue;
    before &= RN_FACTOR_PERCENT;
    rn_gate_poke_all(r, RATION_NOW);
    return f->percents[f->at[before < RN_FACTOR_MAX ? before : RN_FACTOR_MAX]];
}

/* --- ladders ---------------------------------------------------------------------------- */

/* A factor that is not listed counts as the one below it; one that was never set as 100. */
struct rn_factor *rn_factor_new(const struct rn_rule *rule, struct rn_arena *arena)
{
    struct rn_factor *f = rn_arena_alloc(arena, sizeof *f);
    uint16_t step = 0;

    if (!f)
        return NULL;
    f->word = (uint64_t *)&unset;
    f->percents = rule->factors;
    f->count = rule->factor_count;
    for (unsigned percent = 0; percent <= RN_FACTOR_MAX; percent++) {
        while (step + 1u < f->count && f->percents[step + 1] <= percent)
            step++;
        f->at[percent] = step;
    }
    f->at[0] = f->at[RN_FACTOR_WRITTEN];
    return f;
}

bool rn_factor_attach(struct rn_book *book, struct rn_table *table)
{
    for (uint32_t i = 0; i < book->ruleset->rule_count; i++) {
        struct rn_factor *f = book->factors[i];

        if (!f || !rn_rule_follows(&book->ruleset->rules[i]))
            continue;
        f->word = rn_board_entry(table, RN_BOARD_FACTOR, book->ruleset->rules[i].name, 1);
        if (!f->word)
            return false;
    }
    return true;
}

bool rn_factor_compile(struct rn_compiled *l, const struct rn_factor *factor,
                       struct rn_arena *arena)
{
    struct rn_compiled *steps = rn_arena_calloc(arena, factor->count, sizeof *steps);
    struct rn_scale scale;

    if (!steps)
        return false;
    rn_scale_init(&scale, &l->limit, factor->percents, factor->count);
    for (uint32_t i = 0; i < factor->count; i++) {
        steps[i] = *l;
        rn_scale_step(&scale, factor->percents[i], &steps[i].limit);
    }
    l->steps = steps;
    l->factor = factor;
    l->stepped = true;
    l->fast_steps = l->fast_path;
    l->fast_path = false;
    return true;
}

struct rn_limit rn_factor_widest(const struct rn_rule_limit *limit)
{
    const struct rn_rule *rule = limit->rule;
    struct rn_limit step = limit->limit;
    struct rn_scale scale;

    if (!rule || rule->factor_count == 0)
        return step;
    rn_scale_init(&scale, &limit->limit, rule->factors, rule->factor_count);
    rn_scale_step(&scale, scale.largest, &step);
    return step;
}

void rn_factor_apply(struct rn_compiled *l, const struct rn_factor *factor)
{
    struct rn_limit written = l->limit;
    struct rn_scale scale;

    rn_scale_init(&scale, &written, factor->percents, factor->count);
    rn_scale_step(&scale, factor->percents[rn_factor_at(factor)], &l->limit);
}

const struct rn_compiled *rn_factor_same(const struct rn_compiled *l,
                                         const struct rn_compiled *charged)
{
    if (!l->stepped)
        return l;
    return charged->limit.percent != 0 ? &l->steps[l->factor->at[charged->limit.percent]]
                                       : rn_factor_step(l);
}

const struct rn_compiled *rn_factor_find(const struct rn_compiled *l, uint64_t cap)
{
    for (uint32_t i = l->stepped ? l->factor->count : 0; i-- > 0;)
        if (l->steps[i].limit.cap == cap)
            return &l->steps[i];
    return NULL;
}
