/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of one rule: which are variants of each other, and which succeed
 * limits that the rule had before a reload.
 */
#include "limiter/rulebook/book.h"

#include "core/envelope.h"

/* How long one thread has to carry over what a key has spent. */
#define CLAIM_NS INT64_C(1000000000)
#define CLAIM_COPY UINT32_MAX

/* --- members ------------------------------------------------------------------- */

static struct rn_member *find_member(struct rn_member *members, uint32_t n, uint64_t salt)
{
    for (uint32_t i = 0; i < n; i++)
        if (members[i].limit->salt == salt)
            return &members[i];
    return NULL;
}

/* Adds the limit, or lets it stand for its shape if it is larger. */
static uint32_t add_member(struct rn_member *members, uint32_t n, const struct rn_compiled *l,
                           uint32_t place)
{
    struct rn_member *known = find_member(members, n, l->salt);

    if (!known) {
        members[n] = (struct rn_member){.limit = l, .place = place};
        return n + 1;
    }
    if (known->limit->limit.cap < l->limit.cap)
        known->limit = l;
    if (place < known->place)
        known->place = place;
    return n;
}

static uint32_t count_limits(const struct rn_rule *rule)
{
    uint32_t n = 0;

    for (uint32_t t = 0; t < rule->tier_count; t++)
        n += rule->tiers[t].limit_count;
    return n;
}

static bool find_members(struct rn_book *b, const struct rn_rule *rule, struct rn_family *f)
{
    /* One for each limit, and one for its mark. */
    struct rn_member *members =
        rn_arena_calloc(&b->arena, 2 * (size_t)count_limits(rule), sizeof *members);

    if (!members)
        return false;
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        const struct rn_tier *tier = &rule->tiers[t];

        for (uint32_t i = 0; i < tier->limit_count; i++) {
            const struct rn_compiled *l = &b->limits[tier->limits[i]->id];

            if (rn_compiled_counts(l))
                f->member_count = add_member(members, f->member_count, l, i);
        }
        if (tier->limit_count > f->places)
            f->places = tier->limit_count;
    }
    f->members = members;
    return true;
}

/* --- places ------------------------------------------------------------------- */

/* Whether the tier has a limit of that salt, or one with that mark. */
static bool tier_has(const struct rn_book *b, const struct rn_tier *tier, uint64_t salt)
{
    for (uint32_t i = 0; i < tier->limit_count; i++) {
        const struct rn_compiled *l = &b->limits[tier->limits[i]->id];

        if (l->salt == salt || (l->mark && l->mark->salt == salt))
            return true;
    }
    return false;
}

/* Whether the limit in this place of the tier keeps the state abreast: one of
 * other tiers, in the same place there; the last limit those in all places that
 * follow. Marks are set by all: doing so twice is doing it once. */
static bool applies_at(const struct rn_book *b, const struct rn_tier *tier, uint32_t place,
                       const struct rn_member *m)
{
    uint32_t at = m->place < tier->limit_count ? m->place : tier->limit_count - 1;

    return (at == place || m->limit->is_mark) && !tier_has(b, tier, m->limit->salt);
}

/* --- guards -------------------------------------------------------------------- */

/* The limits whose states the one in this place keeps abreast: see applies_at. */
static uint32_t list_variants(const struct rn_book *b, const struct rn_family *f,
                              const struct rn_tier *tier, uint32_t place,
                              const struct rn_rule *rule, const struct rn_compiled **list)
{
    uint32_t n = 0;

    for (uint32_t t = 0; t < rule->tier_count; t++) {
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++) {
            const struct rn_compiled *other = &b->limits[rule->tiers[t].limits[i]->id];

            for (uint32_t m = 0; m < f->member_count; m++)
                if (f->members[m].limit->salt == other->salt &&
                    applies_at(b, tier, place, &f->members[m]))
                    list[n++] = other;
        }
    }
    rn_compiled_sort(list, n);
    return n;
}

static void add_mark(struct rn_family *f, const struct rn_compiled *mark, uint32_t place)
{
    struct rn_member *members = (struct rn_member *)f->members; /* still ours to change */

    if (mark && !find_member(members, f->member_count, mark->salt))
        members[f->member_count++] = (struct rn_member){.limit = mark, .place = place};
}

/* Each limit's guards first, then what marks them: from then on marks are members. */
static bool find_guards(struct rn_book *b, const struct rn_rule *rule, struct rn_family *f)
{
    const struct rn_compiled **list =
        rn_arena_alloc(&b->arena, count_limits(rule) * sizeof(struct rn_compiled *));

    if (!list)
        return false;
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        const struct rn_tier *tier = &rule->tiers[t];

        for (uint32_t i = 0; i < tier->limit_count; i++) {
            uint32_t n = list_variants(b, f, tier, i, rule, list);

            if (!rn_compiled_guard(&b->limits[tier->limits[i]->id], list, n, b->secret, &b->arena))
                return false;
        }
    }
    for (uint32_t t = 0; t < rule->tier_count; t++)
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++)
            add_mark(f, b->limits[rule->tiers[t].limits[i]->id].mark, i);
    return true;
}

/* --- variants ------------------------------------------------------------------ */

static bool link_place(struct rn_book *b, const struct rn_family *f, const struct rn_tier *tier,
                       uint32_t place)
{
    struct rn_compiled *l = &b->limits[tier->limits[place]->id];
    const struct rn_compiled **shapes = rn_arena_alloc(&b->arena, f->member_count * sizeof *shapes);

    if (!shapes)
        return false;
    l->shapes = shapes;
    l->shape_count = 0;
    for (uint32_t i = 0; i < f->member_count; i++) {
        const struct rn_member *m = &f->members[i];

        if (applies_at(b, tier, place, m))
            shapes[l->shape_count++] = m->limit;
    }
    return true;
}

/* The common case, one limit in each tier: all have one list, which is not
 * minded that it names themselves (see rn_compiled_follows). */
static bool link_single(struct rn_book *b, const struct rn_family *f, const struct rn_rule *rule)
{
    const struct rn_compiled **shapes = rn_arena_alloc(&b->arena, f->member_count * sizeof *shapes);

    if (!shapes)
        return false;
    for (uint32_t i = 0; i < f->member_count; i++)
        shapes[i] = f->members[i].limit;
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        if (rule->tiers[t].limit_count == 0)
            continue;
        struct rn_compiled *l = &b->limits[rule->tiers[t].limits[0]->id];

        l->shapes = shapes;
        l->shape_count = f->member_count;
    }
    return true;
}

bool rn_family_link(struct rn_book *b, const struct rn_rule *rule)
{
    struct rn_family *f = &b->families[rule->index];

    f->until_ns = INT64_MIN;
    if (!find_members(b, rule, f))
        return false;
    if (rule->tier_count < 2)
        return true;
    if (!find_guards(b, rule, f))
        return false;
    if (f->places <= 1)
        return link_single(b, f, rule);
    for (uint32_t t = 0; t < rule->tier_count; t++)
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++)
            if (!link_place(b, f, &rule->tiers[t], i))
                return false;
    return true;
}

/* --- predecessors --------------------------------------------------------------- */

static bool has_member(const struct rn_family *f, uint64_t salt)
{
    for (uint32_t i = 0; i < f->member_count; i++)
        if (f->members[i].limit->salt == salt)
            return true;
    return false;
}

static void retire(struct rn_family *f, struct rn_retired *list, const struct rn_retired *old,
                   int64_t now_ns)
{
    if (f->retired_count == RN_RETIRED_MAX || old->until_ns <= now_ns ||
        has_member(f, old->limit.salt))
        return;
    struct rn_retired *r = &list[f->retired_count++];

    *r = *old;
    r->limit.shapes = r->limit.guards = NULL;
    r->limit.shape_count = r->limit.guard_count = 0;
    r->limit.mark = NULL;
    /* It is only looked at and forgotten, for which no calendar is needed. */
    r->limit.limit.calendar = NULL;
    if (f->until_ns < r->until_ns)
        f->until_ns = r->until_ns;
}

static void retire_all(struct rn_family *f, struct rn_retired *list, const struct rn_family *old,
                       int64_t now_ns)
{
    for (uint32_t i = 0; i < old->member_count; i++) {
        const struct rn_member *m = &old->members[i];

        if (m->limit->is_mark)
            continue; /* nothing is spent of it */
        retire(f, list,
               &(struct rn_retired){.limit = *m->limit,
                                    .place = m->place,
                                    .until_ns = now_ns + rn_envelope_memory_ns(&m->limit->limit)},
               now_ns);
    }
    for (uint32_t i = 0; i < old->retired_count; i++)
        retire(f, list, &old->retired[i], now_ns);
}

/* Not known before, or known but perhaps not yet met by every key. */
static bool is_fresh(const struct rn_compiled *l, const struct rn_family *old, int64_t now_ns)
{
    for (uint32_t i = 0; i < old->member_count; i++)
        if (old->members[i].limit->salt == l->salt)
            return old->members[i].fresh && old->until_ns > now_ns;
    return true;
}

/* A key like those of the rule's limits, for a second. */
static bool make_claim(struct rn_book *b, const struct rn_rule *rule, struct rn_family *f)
{
    struct rn_compiled *claim = rn_arena_alloc(&b->arena, sizeof *claim);
    struct rn_limit limit;

    if (!claim)
        return false;
    rn_limit_init(&limit, &(struct ration_limit){.algorithm = RATION_TOKEN_BUCKET,
                                                 .amount = 1,
                                                 .period_ns = CLAIM_NS});
    rn_compiled_init_rule(
        claim, b->secret, rule->index,
        &(struct rn_compiled_rule){.name = rule->name, .copy = CLAIM_COPY, .limit = &limit});
    f->claim = claim;
    return true;
}

bool rn_family_succeed(struct rn_book *b, const struct rn_rule *rule, const struct rn_family *old,
                       int64_t now_ns)
{
    struct rn_family *f = &b->families[rule->index];
    struct rn_member *members = (struct rn_member *)f->members; /* still ours to change */
    uint32_t most = old->member_count + old->retired_count, fresh = 0;
    struct rn_retired *list;

    most = most < RN_RETIRED_MAX ? most : RN_RETIRED_MAX;
    list = rn_arena_calloc(&b->arena, most, sizeof *list);
    if (!list)
        return false;
    f->retired = list;
    f->paired = f->places < old->places ? f->places : old->places;
    retire_all(f, list, old, now_ns);
    for (uint32_t i = 0; i < f->member_count; i++) {
        members[i].fresh = f->retired_count != 0 && is_fresh(f->members[i].limit, old, now_ns);
        fresh += members[i].fresh;
    }
    if (fresh == 0)
        f->until_ns = INT64_MIN;
    return fresh == 0 || make_claim(b, rule, f);
}
