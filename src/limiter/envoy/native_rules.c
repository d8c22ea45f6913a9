/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native rules for Envoy's requests, where a rules file says apply_to_envoy.
 *
 * Each descriptor is matched like a request whose attributes are its entries and the domain. A rule
 * is charged once for each key, however many descriptors have that key. Tier and priority are those
 * of the descriptor with the most entries, the cost is the largest.
 */
#include <string.h>

#include "limiter/envoy/descriptors.h"
#include "limiter/usage/periods.h"

size_t rn_descriptor_attributes(struct rn_slice domain,
                                const struct ration_descriptor_entry *entries, size_t count,
                                struct ration_attribute *attributes)
{
    attributes[0] = (struct ration_attribute){"domain", 6, domain.data, domain.len};
    for (size_t i = 0; i < count; i++)
        attributes[i + 1] = (struct ration_attribute){entries[i].key, entries[i].key_len,
                                                      entries[i].value, entries[i].value_len};
    return count + 1;
}

/* NULL: too many apply, or it is left out. The key must not point into the match, which the next
 * descriptor overwrites. */
static struct rn_native_charge *add_rule(struct rn_descriptors *d, const struct rn_applied *applied)
{
    struct rn_gathered *g = &d->gathered;
    size_t before = g->tx.n;
    uint32_t at = g->rule_count;

    *rn_gather_next(g) = *applied;
    rn_gather_add(g);
    if (g->error != 0 || g->rule_count == at)
        return NULL;
    struct rn_native_charge *n = &d->natives[at];

    n->cost = 0;
    n->purpose = RN_PURPOSE_LOOK;
    n->first = (uint8_t)before;
    n->count = (uint8_t)(g->tx.n - before);
    if (applied->rule->usage)
        g->rules[at].usage_name =
            (struct rn_slice){n->usage_name, rn_usage_client(applied->key, applied->key_names,
                                                             applied->key_count, n->usage_name)};
    n->key_text =
        (struct rn_slice){n->key, rn_gather_join_key(&g->rules[at], n->key, sizeof n->key)};
    g->rules[at].key = &n->key_text;
    g->rules[at].key_names = NULL;
    g->rules[at].key_count = 1;
    return n;
}

/* All limits of a rule have the same hash for one client, also under an unlimited tier. */
static void add_match(struct rn_descriptors *d, struct rn_descriptor *item,
                      const struct rn_match *match)
{
    enum rn_descriptor_purpose purpose = rn_descriptor_purpose(item->ask);
    struct rn_applied applied = rn_applied_of(match);
    const struct rn_compiled *any = rn_book_any_limit(d->gathered.book, match->rule);
    uint64_t hash = any ? rn_gather_hash(&applied, any) : 0;
    struct rn_native_charge *n = NULL;

    applied.refund = purpose == RN_PURPOSE_REFUND;
    applied.late = purpose == RN_PURPOSE_USED;
    for (uint32_t i = 0; i < d->gathered.rule_count && !n; i++)
        if (d->gathered.rules[i].rule == match->rule && d->natives[i].hash == hash &&
            d->gathered.rules[i].refund == applied.refund)
            n = &d->natives[i]; /* another descriptor has the same key */
    if (!n)
        n = add_rule(d, &applied);
    if (!n)
        return;
    n->hash = hash;
    n->purpose = n->purpose > purpose ? n->purpose : purpose;
    n->cost = n->cost > match->cost ? n->cost : match->cost;
    for (uint8_t i = 0; i < n->count; i++)
        item->charges |= UINT64_C(1) << (n->first + i);
    item->unlimited |= n->count == 0;
}

/* The most entries first; descriptors with equally many stay in the order of the request. */
static void sort_by_entries(const struct rn_descriptors *d, uint8_t order[RATION_DESCRIPTORS_MAX])
{
    for (size_t i = 0; i < d->count; i++) {
        size_t at = i;

        for (; at > 0 && d->items[order[at - 1]].ask->count < d->items[i].ask->count; at--)
            order[at] = order[at - 1];
        order[at] = (uint8_t)i;
    }
}

/* When all descriptors are known. */
static void settle(struct rn_descriptors *d)
{
    struct rn_gathered *g = &d->gathered;

    for (uint32_t i = 0; i < g->rule_count; i++) {
        const struct rn_native_charge *n = &d->natives[i];

        g->rules[i].cost =
            n->purpose == RN_PURPOSE_LOOK || n->purpose == RN_PURPOSE_REFUND ? 0 : n->cost;
        for (uint8_t c = 0; c < n->count; c++)
            rn_descriptor_charge(d, (size_t)n->first + c, n->purpose, n->cost);
    }
}

void rn_descriptors_drop_native(struct rn_descriptors *d)
{
    d->gathered.rule_count = 0;
    d->gathered.tx.n = 0;
    for (size_t i = 0; i < d->count; i++)
        d->items[i].charges = 0;
}

size_t rn_descriptors_add_native(struct rn_descriptors *d)
{
    struct rn_slice domain = {d->request->domain, d->request->domain_len};
    struct rn_matches *matches = d->matches;
    uint8_t order[RATION_DESCRIPTORS_MAX];

    sort_by_entries(d, order);
    for (size_t i = 0; i < d->count; i++) {
        struct rn_descriptor *item = &d->items[order[i]];
        const struct ration_descriptor_ask *ask = item->ask;
        struct ration_request request = {.attributes = d->attributes,
                                         .cost = rn_descriptor_hits(d, ask)};

        request.count = rn_descriptor_attributes(domain, ask->entries, ask->count, d->attributes);
        rn_match_request(d->gathered.book->ruleset, &request, matches);
        switch (matches->outcome) {
        case RN_MATCH_DENIED:
            rn_descriptors_drop_native(d);
            return order[i];
        case RN_MATCH_TOO_MANY:
            d->gathered.error = RATION_EINVAL;
            break;
        case RN_MATCH_ALLOWED: /* no limit of either kind applies to it */
            item->allowed = true;
            item->match = NULL;
            item->given = false;
            break;
        case RN_MATCH_LIMITS:
            for (uint32_t m = 0; m < matches->count && d->gathered.error == 0; m++)
                if (matches->items[m].rule->for_envoy)
                    add_match(d, item, &matches->items[m]);
        }
    }
    settle(d);
    return d->count;
}
