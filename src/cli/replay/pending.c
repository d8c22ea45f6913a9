/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/pending.h"

#include <stdlib.h>
#include <string.h>

bool rn_pending_init(struct rn_pending *p, uint64_t bytes)
{
    *p = (struct rn_pending){.most = bytes / sizeof *p->items + 1};
    p->scratch = calloc(1, sizeof *p->scratch);
    return p->scratch != NULL;
}

void rn_pending_done(struct rn_pending *p)
{
    free(p->items);
    free(p->scratch);
    p->items = NULL;
    p->scratch = NULL;
}

static bool is_before(const struct rn_pending_item *a, const struct rn_pending_item *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

/* Releases or charges; the limiter's errors say that it is too late, which is no fault. */
static void settle(struct rn_pending *p, const struct rn_pending_item *item, int64_t now_ns)
{
    struct ration_outcome *o = p->scratch;

    o->place_count = o->due_count = 0;
    o->at_ns = item->decided_ns;
    o->lease = item->lease;
    if (item->lease != 0) {
        memcpy(o->places, item->places, item->count * sizeof *o->places);
        o->place_count = item->count;
        (void)ration_outcome_release(item->limiter, o, now_ns);
    } else {
        memcpy(o->dues, item->dues, item->count * sizeof *o->dues);
        o->due_count = item->count;
        (void)ration_outcome_charge(item->limiter, o, item->status, now_ns, NULL);
    }
}

static bool grow(struct rn_pending *p)
{
    size_t size = p->size != 0 ? 2 * p->size : 64;
    struct rn_pending_item *more;

    size = size < p->most ? size : p->most;
    if (size == p->count)
        return false;
    more = realloc(p->items, size * sizeof *more);
    if (more == NULL)
        return false;
    p->items = more;
    p->size = size;
    return true;
}

static void push(struct rn_pending *p, struct rn_pending_item *item)
{
    size_t at = p->count;

    item->number = p->numbers++;
    if (p->count == p->size && !grow(p)) {
        p->dropped++;
        if (item->lease == 0)
            settle(p, item, item->decided_ns);
        return;
    }
    p->count++;
    while (at > 0 && is_before(item, &p->items[(at - 1) / 2])) {
        p->items[at] = p->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    p->items[at] = *item;
}

static void pop(struct rn_pending *p, struct rn_pending_item *first)
{
    const struct rn_pending_item *last = &p->items[--p->count];
    size_t at = 0;

    *first = p->items[0];
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < p->count && is_before(&p->items[child + 1], &p->items[child]))
            child++;
        if (child >= p->count || !is_before(&p->items[child], last))
            break;
        p->items[at] = p->items[child];
        at = child;
    }
    p->items[at] = *last;
}

void rn_pending_add(struct rn_pending *p, struct ration *limiter, const struct ration_outcome *o,
                    int64_t end_ns, unsigned status)
{
    struct rn_pending_item item = {
        .at_ns = end_ns, .limiter = limiter, .decided_ns = o->at_ns, .status = (uint16_t)status};

    for (uint32_t i = 0; i < o->due_count && status != 0; i += RN_PENDING_PARTS) {
        uint32_t left = o->due_count - i;

        item.count = left < RN_PENDING_PARTS ? left : RN_PENDING_PARTS;
        memcpy(item.dues, o->dues + i, item.count * sizeof *item.dues);
        push(p, &item);
    }
    if (o->lease == 0 || o->place_count == 0)
        return;
    item.lease = o->lease;
    item.count = o->place_count;
    memcpy(item.places, o->places, item.count * sizeof *item.places);
    push(p, &item);
}

void rn_pending_run(struct rn_pending *p, int64_t now_ns)
{
    struct rn_pending_item item;

    while (p->count != 0 && p->items[0].at_ns <= now_ns) {
        pop(p, &item);
        settle(p, &item, item.at_ns);
    }
}
