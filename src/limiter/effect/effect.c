/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting what rules have done, beside the fast path, and reading it.
 */
#include "limiter/effect/effect.h"

#include <stdlib.h>
#include <string.h>

#include "limiter/effect/uncovered.h"
#include "limiter/limiter.h"
#include "rules/match/condition.h"

_Static_assert(sizeof(struct rn_effect) <= 2048, "as effect.h says");

void rn_effect_watch(struct ration *r)
{
    r->watches_effects = true;
    r->uncovered = rn_uncovered_new(&r->secret);
}

struct rn_effects *rn_effect_new(const struct rn_ruleset *ruleset)
{
    struct rn_effects *e = calloc(1, sizeof *e);

    if (!e)
        return NULL;
    /* calloc: pages of rules that are never met stay untouched. */
    e->rules = calloc(ruleset->rule_count + 1, sizeof *e->rules);
    e->most_used = calloc(ruleset->limit_count + 1, sizeof *e->most_used);
    if (e->rules && e->most_used)
        return e;
    rn_effect_free(e);
    return NULL;
}

void rn_effect_free(struct rn_effects *e)
{
    if (!e)
        return;
    free(e->rules);
    free(e->most_used);
    free(e);
}

/* --- counting -------------------------------------------------------------------------- */

/* Threads that write one name at once may mix two: a reader gets a name that is cut or mixed, once.
 * The length is written last, and never leads beyond the text. */
static void remember(struct rn_effect *e, const struct rn_rule *rule, const struct rn_slice *parts)
{
    uint32_t at = __atomic_fetch_add(&e->name_count, 1, __ATOMIC_RELAXED) % RN_EFFECT_NAMES;
    struct rn_effect_name *name = &e->names[at];
    uint8_t len = 0;

    for (uint32_t i = 0; i < rule->key_count; i++) {
        if (i != 0 && len < RN_EFFECT_NAME)
            __atomic_store_n(&name->text[len++], ' ', __ATOMIC_RELAXED);
        for (size_t k = 0; k < parts[i].len && len < RN_EFFECT_NAME; k++)
            __atomic_store_n(&name->text[len++], parts[i].data[k], __ATOMIC_RELAXED);
    }
    __atomic_store_n(&name->len, len, __ATOMIC_RELEASE);
}

RN_ASIDE void rn_effect_near(struct rn_effects *effects, const struct rn_rule *rule, uint64_t hash,
                             const struct rn_slice *parts)
{
    struct rn_effect *e = &effects->rules[rule->index];

    if (rn_sketch_add(&e->near, hash) && !rule->envoy)
        remember(e, rule, parts);
}

RN_ASIDE void rn_effect_refuse(struct rn_effects *effects, const struct rn_rule *rule,
                               uint64_t hash)
{
    struct rn_effect *e = &effects->rules[rule->index];

    rn_sketch_add(&e->clients, hash);
    rn_sketch_add(&e->refused, hash);
}

/* Threads may lose a few of each other's counts: whether there are any is what matters. */
RN_ASIDE void rn_effect_spare(struct rn_effects *effects, const struct rn_rule *rule,
                              const struct rn_rule *refuser)
{
    struct rn_effect *e = &effects->rules[rule->index];

    __atomic_store_n(&e->spared, __atomic_load_n(&e->spared, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&e->refuser, refuser->index + 1, __ATOMIC_RELAXED);
}

/* --- reloads --------------------------------------------------------------------------- */

static uint32_t limits_of(const struct rn_rule *rule)
{
    const struct rn_rule_limit *limit;
    uint32_t count = 0;

    RN_RULE_EACH_LIMIT(limit, rule)
    count += limit != NULL;
    return count;
}

static const struct rn_rule_limit *limit_at(const struct rn_rule *rule, uint32_t at)
{
    const struct rn_rule_limit *limit;

    RN_RULE_EACH_LIMIT(limit, rule)
    {
        if (at-- == 0)
            return limit;
    }
    return NULL;
}

void rn_effect_carry(struct rn_book *book, const struct rn_book *old)
{
    if (!book->effects || !old->effects)
        return;
    for (uint32_t i = 0; i < book->ruleset->rule_count; i++) {
        const struct rn_rule *rule = &book->ruleset->rules[i];
        const struct rn_rule *before = rn_book_find(old, rule->name);
        struct rn_effect *to = &book->effects->rules[i];

        if (!before || rn_sketch_estimate(&old->effects->rules[before->index].clients) == 0)
            continue;
        const struct rn_effect *from = &old->effects->rules[before->index];

        rn_sketch_merge(&to->clients, &from->clients);
        rn_sketch_merge(&to->refused, &from->refused);
        rn_sketch_merge(&to->near, &from->near);
        if (to->name_count == 0) {
            memcpy(to->names, from->names, sizeof to->names);
            to->name_count = from->name_count;
        }
        for (uint32_t k = 0, n = limits_of(rule); k < n && n == limits_of(before); k++)
            rn_effect_use(book->effects, limit_at(rule, k)->id,
                          old->effects->most_used[limit_at(before, k)->id], 0);
    }
}

/* --- reading --------------------------------------------------------------------------- */

/* Whether requests that have the key of `narrow` have that of `wide`. */
static bool has_key_of(const struct rn_rule *narrow, const struct rn_rule *wide)
{
    for (uint32_t w = 0; w < wide->key_count; w++) {
        bool found = false;

        for (uint32_t n = 0; n < narrow->key_count && !found; n++) {
            const struct rn_key_part *part = &narrow->key[n], *of = &wide->key[w];
            uint8_t same = 0;

            while (same < part->count && same < of->count &&
                   part->attributes[same] == of->attributes[same])
                same++;
            found = same == part->count;
        }
        if (!found)
            return false;
    }
    return true;
}

/* Whether all requests of `narrow` are of `wide`, too, as far as their conditions and keys tell. */
static bool is_within(const struct rn_rule *narrow, const struct rn_rule *wide)
{
    for (uint32_t n = 0; n < narrow->alternative_count; n++) {
        bool within = false;

        for (uint32_t w = 0; w < wide->alternative_count && !within; w++)
            within = rn_condition_implies_all(&narrow->alternatives[n], &wide->alternatives[w]);
        if (!within)
            return false;
    }
    return !narrow->envoy && !wide->envoy && has_key_of(narrow, wide);
}

static void read_names(const struct rn_effect *e, struct rn_effect_name *names)
{
    for (size_t i = 0; i < RN_EFFECT_NAMES; i++) {
        names[i].len = __atomic_load_n(&e->names[i].len, __ATOMIC_ACQUIRE);
        for (size_t k = 0; k < names[i].len; k++)
            names[i].text[k] = __atomic_load_n(&e->names[i].text[k], __ATOMIC_RELAXED);
    }
}

void rn_effect_each(struct ration *r, void (*see)(void *arg, const struct rn_effect_info *info),
                    void *arg)
{
    pthread_mutex_lock(&r->shelf.lock);
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    uint32_t count = book && book->effects ? book->ruleset->rule_count : 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct rn_effect *e = &book->effects->rules[i];
        uint32_t refuser = __atomic_load_n(&e->refuser, __ATOMIC_RELAXED);
        struct rn_effect_info info = {.rule = &book->ruleset->rules[i],
                                      .book = book,
                                      .clients = rn_sketch_estimate(&e->clients),
                                      .refused = rn_sketch_estimate(&e->refused),
                                      .near = rn_sketch_estimate(&e->near),
                                      .spared = __atomic_load_n(&e->spared, __ATOMIC_RELAXED),
                                      .most_used = book->effects->most_used};

        rn_book_totals(book, info.rule, &info.counts);
        read_names(e, info.names);
        if (refuser != 0)
            info.refuser = &book->ruleset->rules[refuser - 1];
        info.always_beside = info.refuser && is_within(info.rule, info.refuser);
        see(arg, &info);
    }
    pthread_mutex_unlock(&r->shelf.lock);
}
