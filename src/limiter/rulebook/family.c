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

/* The member with this salt; NULL: there is none. */
static struct rn_member *find_member(const struct rn_family *f, uint64_t salt)
{
    for (uint32_t i = 0; i < f->member_count; i++)
        if (f->members[i].limit->salt == salt)
            return (struct rn_member *)&f->members[i]; /* to change while the book is made */
    return NULL;
}

static uint32_t count_limits(const struct rn_rule *rule)
{
    uint32_t n = 0;

    for (uint32_t t = 0; t < rule->tier_count; t++)
        n += rule->tiers[t].limit_count;
    return n;
}

/* The largest limit of each shape stands for it. */
static bool find_members(struct rn_book *b, const struct rn_rule *rule, struct rn_family *f)
{
    /* One for each limit, and one for its mark. */
    struct rn_member *members =
        rn_arena_calloc(&b->arena, 2 * (size_t)count_limits(rule), sizeof *members);

    if (!members)
        return false;
    f->members = members;
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        const struct rn_tier *tier = &rule->tiers[t];

        for (uint32_t i = 0; i < tier->limit_count; i++) {
            const struct rn_compiled *l = &b->limits[tier->limits[i]->id];
            struct rn_member *known = find_member(f, l->salt);

            if (!rn_compiled_counts(l))
                continue;
            if (!known)
                members[f->member_count++] = (struct rn_member){.limit = l, .place = i};
            else if (known->limit->limit.cap < l->limit.cap)
                known->limit = l;
            if (known && i < known->place)
                known->place = i;
        }
        if (tier->limit_count > f->places)
            f->places = tier->limit_count;
    }
    return true;
}

/* Whether the limit in this place of the tier must count in the state as well: a limit of another
 * tier, in the same place there; the last limit counts in those of all places that follow. Every
 * limit sets marks: doing so twice is doing it once. Not if the tier itself has a limit with that
 * state or mark. */
static bool applies_at(const struct rn_book *b, const struct rn_tier *tier, uint32_t place,
                       const struct rn_member *m)
{
    uint32_t at = m->place < tier->limit_count ? m->place : tier->limit_count - 1;

    if (at != place && !m->limit->is_mark)
        return false;
    for (uint32_t i = 0; i < tier->limit_count; i++) {
        const struct rn_compiled *l = &b->limits[tier->limits[i]->id];

        if (l->salt == m->limit->salt || (l->mark && l->mark->salt == m->limit->salt))
            return false;
    }
    return true;
}

/* --- guards -------------------------------------------------------------------- */

/* The limits in whose states the limit in this place counts: see applies_at. */
static uint32_t list_variants(const struct rn_book *b, const struct rn_family *f,
                              const struct rn_tier *tier, uint32_t place,
                              const struct rn_rule *rule, const struct rn_compiled **list)
{
    uint32_t n = 0;

    for (uint32_t t = 0; t < rule->tier_count; t++) {
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++) {
            const struct rn_compiled *other = &b->limits[rule->tiers[t].limits[i]->id];

            const struct rn_member *m = find_member(f, other->salt);

            if (m && applies_at(b, tier, place, m))
                list[n++] = other;
        }
    }
    rn_compiled_sort(list, n);
    return n;
}

/* Each limit's guards first, then what marks them: from then on marks are members. */
static bool find_guards(struct rn_book *b, const struct rn_rule *rule, struct rn_family *f)
{
    const struct rn_compiled **list =
        rn_arena_alloc(&b->arena, count_limits(rule) * sizeof(struct rn_compiled *));
    struct rn_member *members = (struct rn_member *)f->members; /* still ours to change */

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
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++) {
            const struct rn_compiled *mark = b->limits[rule->tiers[t].limits[i]->id].mark;

            if (mark && !find_member(f, mark->salt))
                members[f->member_count++] = (struct rn_member){.limit = mark, .place = i};
        }
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

/* In the common case, one limit in each tier, all share one list. That it names themselves does no
 * harm (see rn_compiled_follows). */
bool rn_family_link(struct rn_book *b, const struct rn_rule *rule)
{
    struct rn_family *f = &b->families[rule->index];
    const struct rn_compiled **shared = NULL;

    f->until_ns = INT64_MIN;
    if (!find_members(b, rule, f))
        return false;
    if (rule->tier_count < 2)
        return true;
    if (!find_guards(b, rule, f))
        return false;
    if (f->places <= 1) {
        shared = rn_arena_alloc(&b->arena, f->member_count * sizeof *shared);
        if (!shared)
            return false;
        for (uint32_t i = 0; i < f->member_count; i++)
            shared[i] = f->members[i].limit;
    }
    for (uint32_t t = 0; t < rule->tier_count; t++)
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++) {
            struct rn_compiled *l = &b->limits[rule->tiers[t].limits[i]->id];

            if (!shared && !link_place(b, f, &rule->tiers[t], i))
                return false;
            if (!shared)
                continue;
            l->shapes = shared;
            l->shape_count = f->member_count;
        }
    return true;
}

/* --- predecessors --------------------------------------------------------------- */

static void retire(struct rn_family *f, struct rn_retired *list, const struct rn_retired *old,
                   int64_t now_ns)
{
    if (f->retired_count == RN_RETIRED_MAX || old->until_ns <= now_ns ||
        find_member(f, old->limit.salt))
        return;
    struct rn_retired *r = &list[f->retired_count++];

    *r = *old;
    r->limit.shapes = r->limit.guards = NULL;
    r->limit.shape_count = r->limit.guard_count = 0;
    r->limit.mark = NULL;
    r->limit.stepped = false;
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

/* A member is fresh if its shape is new, or was new and may not have been met by every key. The
 * claim is a key like those of the rule's limits, for a second. */
bool rn_family_succeed(struct rn_book *b, const struct rn_rule *rule, const struct rn_family *old,
                       int64_t now_ns)
{
    struct rn_family *f = &b->families[rule->index];
    struct rn_member *members = (struct rn_member *)f->members; /* still ours to change */
    uint32_t most = old->member_count + old->retired_count, fresh = 0;
    struct rn_compiled *claim;
    struct rn_retired *list;
    struct rn_limit limit;

    most = most < RN_RETIRED_MAX ? most : RN_RETIRED_MAX;
    list = rn_arena_calloc(&b->arena, most, sizeof *list);
    if (!list)
        return false;
    f->retired = list;
    f->paired = f->places < old->places ? f->places : old->places;
    retire_all(f, list, old, now_ns);
    for (uint32_t i = 0; i < f->member_count; i++) {
        const struct rn_member *before = find_member(old, members[i].limit->salt);

        members[i].fresh =
            f->retired_count != 0 && (!before || (before->fresh && old->until_ns > now_ns));
        fresh += members[i].fresh;
    }
    if (fresh == 0) {
        f->until_ns = INT64_MIN;
        return true;
    }
    f->claim = claim = rn_arena_alloc(&b->arena, sizeof *claim);
    if (!claim)
        return false;
    rn_compiled_init_flag(&limit, CLAIM_NS);
    rn_compiled_init_rule(
        claim, b->secret, rule->index,
        &(struct rn_compiled_rule){.name = rule->name, .copy = CLAIM_COPY, .limit = &limit});
    return true;
}
