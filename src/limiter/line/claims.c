/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim is in two lists: that of its line, under the lock of the line, and that of its waiter,
 * which belongs to the waiter's thread. A line exists while it has claims, too.
 */
#include "limiter/line/claims.h"

#include <stdlib.h>

#include "limiter/line/line_internal.h"

struct rn_claim {
    struct rn_claim *next; /* in the line */
    struct rn_claim *also; /* of the same waiter */
    uint64_t key, arrival, units;
    int64_t ends_ns;
    uint32_t rank;
    bool is_set; /* since the last rn_claims_drop */
};

/* How long it takes until something comes back. */
static int64_t slowness_ns(const struct rn_limit *limit)
{
    switch (limit->form) {
    case RN_FORM_GCRA:
    case RN_FORM_FINE:
        return limit->unit_ns;
    case RN_FORM_STEP:
        return limit->step_ns;
    case RN_FORM_WINDOW:
    case RN_FORM_WIDE:
    case RN_FORM_COUNTER:
    case RN_FORM_SUBS:
    case RN_FORM_LOG:
    case RN_FORM_OWN:
        return limit->period_ns;
    case RN_FORM_PLACES:
    case RN_FORM_ADAPTIVE:
        return INT64_MAX - (int64_t)(limit->cap < UINT32_MAX ? limit->cap : UINT32_MAX);
    case RN_FORM_NONE:
        break;
    }
    return 0;
}

bool rn_claims_is_slower(const struct rn_limit *limit, uint64_t key, const struct rn_limit *than,
                         uint64_t other)
{
    int64_t a = slowness_ns(limit), b = slowness_ns(than);

    return a != b ? a > b : key > other;
}

void rn_claims_set(struct rn_lines *lines, struct ration_waiter *waiter, uint64_t key,
                   uint64_t units, uint32_t rank, int64_t ends_ns)
{
    struct rn_waiter *w = (struct rn_waiter *)(void *)waiter;
    struct rn_claim *claim = w->claims;
    struct rn_line *spare = NULL;

    while (claim && claim->key != key)
        claim = claim->also;
    bool is_new = !claim;
    struct rn_wakes wakes = {0};

    if (is_new &&
        ((claim = malloc(sizeof *claim)) == NULL || (spare = malloc(sizeof *spare)) == NULL)) {
        free(claim);
        return;
    }
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, key);
    struct rn_line *line = rn_line_table_find(stripe, key);

    if (is_new) {
        if (!line) {
            rn_line_table_add(lines, stripe, line = spare, key);
            spare = NULL;
        }
        *claim = (struct rn_claim){line->claims, w->claims, key, w->arrival, 0, 0, 0, false};
        line->claims = w->claims = claim;
    } else if (units < claim->units || ends_ns < claim->ends_ns) { /* others wait for the old one */
        rn_line_table_open(line, line->seen_ns, &wakes);
    }
    claim->units = units;
    claim->rank = rank;
    claim->ends_ns = ends_ns;
    claim->is_set = true;
    rn_line_table_unlock(stripe, &wakes);
    free(spare);
}

/* The head of the line may have waited for the end of this claim. */
static void drop(struct rn_lines *lines, struct rn_claim *claim)
{
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, claim->key);
    struct rn_line *line = rn_line_table_find(stripe, claim->key);
    struct rn_claim **link = &line->claims;
    struct rn_wakes wakes = {0};

    while (*link != claim)
        link = &(*link)->next;
    *link = claim->next;
    if (line->root)
        rn_line_table_open(line, line->seen_ns, &wakes);
    else
        rn_line_table_settle(lines, stripe, line, &wakes);
    rn_line_table_unlock(stripe, &wakes);
    free(claim);
}

void rn_claims_drop(struct rn_lines *lines, struct ration_waiter *waiter, bool all)
{
    struct rn_claim **link = &((struct rn_waiter *)(void *)waiter)->claims;

    while (*link) {
        struct rn_claim *claim = *link;

        if (claim->is_set && !all) {
            claim->is_set = false;
            link = &claim->also;
        } else {
            *link = claim->also;
            drop(lines, claim);
        }
    }
}

uint64_t rn_claims_before(struct rn_lines *lines, uint64_t key, uint32_t rank,
                          const struct ration_waiter *waiter, int64_t now_ns, int64_t *rest_ns)
{
    const struct rn_waiter *w = (const struct rn_waiter *)(const void *)waiter;
    uint64_t arrival = w && w->state != RN_WAITER_IDLE ? w->arrival : UINT64_MAX, units = 0;
    struct rn_line_stripe *stripe = rn_line_table_lock(lines, key);
    const struct rn_line *line = rn_line_table_find(stripe, key);

    *rest_ns = INT64_MAX;
    for (const struct rn_claim *c = line ? line->claims : NULL; c; c = c->next) {
        bool is_before = c->rank != rank ? c->rank < rank : c->arrival < arrival;

        if (!is_before || c->arrival == arrival || c->ends_ns <= now_ns)
            continue;
        units = c->units < UINT64_MAX - units ? units + c->units : UINT64_MAX;
        if (c->ends_ns - now_ns < *rest_ns)
            *rest_ns = c->ends_ns - now_ns;
    }
    rn_line_table_unlock(stripe, NULL);
    return units;
}
