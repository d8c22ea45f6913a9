/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/demand.h"

#include <stdlib.h>

bool rn_demand_init(struct rn_demand_events *d, uint64_t bytes)
{
    *d = (struct rn_demand_events){.most = bytes / sizeof *d->events};
    return true;
}

void rn_demand_done(struct rn_demand_events *d)
{
    free(d->events);
    d->events = NULL;
}

static bool is_sampled(const struct rn_demand_events *d, uint64_t client)
{
    return (client & ((UINT64_C(1) << d->halvings) - 1)) == 0;
}

static void halve(struct rn_demand_events *d)
{
    size_t kept = 0;

    d->halvings++;
    for (size_t i = 0; i < d->count; i++)
        if (is_sampled(d, d->events[i].client))
            d->events[kept++] = d->events[i];
    d->count = kept;
}

bool rn_demand_add(struct rn_demand_events *d, const struct rn_demand_event *event)
{
    if (!is_sampled(d, event->client))
        return true;
    if (d->count == d->room && d->room < d->most) {
        size_t room = d->room == 0 ? 4096 : 2 * d->room;
        struct rn_demand_event *more;

        room = room < d->most ? room : d->most;
        more = realloc(d->events, room * sizeof *more);
        if (more == NULL)
            return false;
        d->events = more;
        d->room = room;
    }
    /* One client may have all of them: then the sample may end up empty. */
    while (d->count == d->room && d->halvings < 40)
        halve(d);
    if (d->count < d->room && is_sampled(d, event->client))
        d->events[d->count++] = *event;
    return true;
}

static int by_client(const void *a, const void *b)
{
    const struct rn_demand_event *x = a, *y = b;

    if (x->tier != y->tier)
        return x->tier < y->tier ? -1 : 1;
    if (x->client != y->client)
        return x->client < y->client ? -1 : 1;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

void rn_demand_sort(struct rn_demand_events *d)
{
    if (d->count != 0)
        qsort(d->events, d->count, sizeof *d->events, by_client);
}

size_t rn_demand_run(const struct rn_demand_events *d, size_t first)
{
    size_t end = first;

    while (end < d->count && d->events[end].client == d->events[first].client &&
           d->events[end].tier == d->events[first].tier)
        end++;
    return end - first;
}
