/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample reads one cache line of each rule for each thread that has ever decided, and nothing
 * while no decision is made: 10,000 rules and two threads take about 0.3 ms.
 */
#include "limiter/rulebook/activity.h"

#include <stdlib.h>

#include "base/siphash.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"

#define INDEX_SIZE 65536u /* more than rules, a power of two */
#define STAYS 0.98347145f /* of an average after a second: e^(-1/60) */
#define NOTHING 1e-6f     /* an average below is 0: such numbers are slow to calculate with */

_Static_assert(INDEX_SIZE > RN_ACTIVITY_RULES_MAX * 3 / 2, "searches are short");

static const size_t offsets[RN_ACTIVITY_KINDS] = {
    [RN_ACTIVITY_ALLOWED] = offsetof(struct rn_counts, allowed),
    [RN_ACTIVITY_REFUSED] = offsetof(struct rn_counts, refused),
    [RN_ACTIVITY_DELAYED] = offsetof(struct rn_counts, delayed),
    [RN_ACTIVITY_SHADOWED] = offsetof(struct rn_counts, shadowed),
    [RN_ACTIVITY_NEAR] = offsetof(struct rn_counts, near),
};

struct rn_activity *rn_activity_new(struct ration *limiter)
{
    struct rn_activity *a = calloc(1, sizeof *a);

    if (!a)
        return NULL;
    a->limiter = limiter;
    a->rules = calloc(RN_ACTIVITY_RULES_MAX, sizeof *a->rules);
    a->spare = calloc(RN_ACTIVITY_RULES_MAX, sizeof *a->spare);
    a->index = calloc(INDEX_SIZE, sizeof *a->index);
    if (a->rules && a->spare && a->index)
        return a;
    rn_activity_free(a);
    return NULL;
}

void rn_activity_free(struct rn_activity *a)
{
    if (!a)
        return;
    free(a->rules);
    free(a->spare);
    free(a->index);
    free(a);
}

size_t rn_activity_bytes(void)
{
    return sizeof(struct rn_activity) +
           2 * RN_ACTIVITY_RULES_MAX * sizeof(struct rn_activity_rule) +
           INDEX_SIZE * sizeof(uint32_t);
}

uint64_t rn_activity_hash(const struct rn_activity *a, struct rn_slice name)
{
    return rn_siphash(&a->limiter->secret, name.data, name.len);
}

/* Where the rule with this hash is in the index, or the free place that it would have. */
static uint32_t *find_place(const struct rn_activity *a, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (INDEX_SIZE - 1);

    while (a->index[at] != 0 && a->rules[a->index[at] - 1].hash != hash)
        at = (at + 1) & (INDEX_SIZE - 1);
    return &a->index[at];
}

struct rn_activity_rule *rn_activity_find(const struct rn_activity *a, uint64_t hash)
{
    uint32_t place = *find_place(a, hash);

    return place != 0 ? &a->rules[place - 1] : NULL;
}

static uint64_t read_count(const struct rn_counts *counts, enum rn_activity_kind kind)
{
    return __atomic_load_n((const uint64_t *)(const void *)((const char *)counts + offsets[kind]),
                           __ATOMIC_RELAXED);
}

/* Under the shelf's lock. A rule that was not followed begins with what it has from earlier sets
 * of rules: nothing, or the counts of before it was beyond the most that are followed. */
static void follow(struct rn_activity *a, const struct rn_book *book)
{
    uint32_t rules = book->ruleset->rule_count;
    uint32_t count = rules < RN_ACTIVITY_RULES_MAX ? rules : RN_ACTIVITY_RULES_MAX;
    struct rn_activity_rule *former = a->rules;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t hash = rn_activity_hash(a, book->ruleset->rules[i].name);
        const struct rn_activity_rule *before = rn_activity_find(a, hash);

        a->spare[i] = before ? *before : (struct rn_activity_rule){.hash = hash};
        for (unsigned k = 0; !before && k < RN_ACTIVITY_KINDS; k++)
            a->spare[i].seen[k] = read_count(&book->carried[i], k);
    }
    a->rules = a->spare;
    a->spare = former;
    a->count = count;
    memset(a->index, 0, INDEX_SIZE * sizeof *a->index);
    for (uint32_t i = 0; i < count; i++)
        *find_place(a, a->rules[i].hash) = i + 1;
    a->version = book->version;
    a->begun = true;
}

/* The stripes of threads that have decided anything; returns how many. */
static unsigned find_stripes(const struct ration *r, unsigned stripes[RN_THREADS],
                             uint64_t *decided)
{
    unsigned count = 0;

    *decided = 0;
    for (unsigned i = 0; i < RN_THREADS; i++) {
        const struct rn_counts *total = &rn_stats_at(&r->stats, i)->total;
        uint64_t sum = __atomic_load_n(&total->allowed, __ATOMIC_RELAXED) +
                       __atomic_load_n(&total->refused, __ATOMIC_RELAXED) +
                       __atomic_load_n(&total->errors, __ATOMIC_RELAXED);

        if (sum != 0)
            stripes[count++] = i;
        *decided += sum;
    }
    return count;
}

/* What one counter has grown by. Counters begin again if their rule was away for a moment. */
static uint32_t growth(uint64_t *seen, uint64_t now)
{
    uint64_t more = now >= *seen ? now - *seen : now;

    *seen = now;
    return more < UINT32_MAX ? (uint32_t)more : UINT32_MAX;
}

static void average(struct rn_activity_rule *rule, unsigned seconds)
{
    float stays = 1;

    for (unsigned i = 0; i < seconds && stays > NOTHING; i++)
        stays *= STAYS;
    for (unsigned k = 0; k < RN_ACTIVITY_KINDS; k++) {
        float now = (float)rule->counted[k] / (float)seconds;

        rule->rates[k] = rule->rates[k] * stays + now * (1 - stays);
        if (rule->rates[k] < NOTHING)
            rule->rates[k] = 0;
    }
}

/* Nothing was decided since the last sample. */
static void rest(struct rn_activity *a, unsigned seconds)
{
    for (uint32_t i = 0; i < a->count; i++) {
        memset(a->rules[i].counted, 0, sizeof a->rules[i].counted);
        if (seconds > 0 && (a->rules[i].rates[RN_ACTIVITY_ALLOWED] > 0 ||
                            a->rules[i].rates[RN_ACTIVITY_REFUSED] > 0))
            average(&a->rules[i], seconds);
    }
}

static void count(struct rn_activity *a, const struct rn_book *book, const unsigned *stripes,
                  unsigned stripe_count, unsigned seconds)
{
    for (uint32_t i = 0; i < a->count; i++) {
        struct rn_activity_rule *rule = &a->rules[i];
        uint64_t sums[RN_ACTIVITY_KINDS];
        bool busy = rule->rates[RN_ACTIVITY_ALLOWED] > 0 || rule->rates[RN_ACTIVITY_REFUSED] > 0;

        for (unsigned k = 0; k < RN_ACTIVITY_KINDS; k++)
            sums[k] = read_count(&book->carried[i], k);
        for (unsigned s = 0; s < stripe_count; s++) {
            const struct rn_counts *row = rn_stats_row(rn_stats_at(&book->stats, stripes[s]), i);

            for (unsigned k = 0; k < RN_ACTIVITY_KINDS; k++)
                sums[k] += read_count(row, k);
        }
        for (unsigned k = 0; k < RN_ACTIVITY_KINDS; k++) {
            rule->counted[k] = growth(&rule->seen[k], sums[k]);
            busy |= rule->counted[k] != 0;
        }
        if (seconds == 0)
            memset(rule->counted, 0, sizeof rule->counted);
        else if (busy)
            average(rule, seconds);
    }
}

void rn_activity_sample(struct rn_activity *a, unsigned seconds)
{
    struct ration *r = a->limiter;
    unsigned stripes[RN_THREADS], stripe_count;
    uint64_t decided;

    pthread_mutex_lock(&r->shelf.lock);
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    bool changed = book && (!a->begun || a->version != book->version);

    if (changed)
        follow(a, book);
    stripe_count = find_stripes(r, stripes, &decided);
    /* A decision is counted in several steps: what is missing at one sample is there at the next.
     */
    if (!changed && decided == a->decided[0] && decided == a->decided[1])
        rest(a, seconds);
    else if (book)
        count(a, book, stripes, stripe_count, seconds);
    a->decided[1] = a->decided[0];
    a->decided[0] = decided;
    pthread_mutex_unlock(&r->shelf.lock);
}

void rn_activity_follow(struct rn_activity *a)
{
    struct ration *r = a->limiter;

    pthread_mutex_lock(&r->shelf.lock);
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);

    if (book && (!a->begun || a->version != book->version))
        follow(a, book);
    pthread_mutex_unlock(&r->shelf.lock);
}
