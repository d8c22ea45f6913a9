/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a client index.
 */
#include "limiter/clients/client_index.h"

#include <stdlib.h>

/* Any number: bans must hash unlike the keys of limits. */
#define BAN_DOMAIN UINT64_C(0x8EBC6AF09C88C6E3)
#define LIMBO_MIN 1024

struct rn_client_index *rn_client_index_new(const struct rn_book *book)
{
    struct rn_client_index *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    rn_report_init(&r->report);
    r->secret = *book->secret;
    r->ban_seed = (struct rn_hash_key){r->secret.k0 ^ BAN_DOMAIN, ~r->secret.k1};
    r->rules = calloc((size_t)book->ruleset->rule_count + 1, sizeof(struct rn_override_rule *));
    if (!r->rules || !rn_builder_init(&r->builder, &r->report)) {
        free(r->rules);
        rn_report_done(&r->report);
        free(r);
        return NULL;
    }
    return r;
}

static void free_items(struct rn_map *map)
{
    uint64_t at = 0;

    for (void *item; (item = rn_map_next(map, &at)) != NULL;)
        free(item);
    rn_map_done(map);
}

void rn_client_index_free(struct rn_client_index *r)
{
    if (!r)
        return;
    free_items(&r->overrides);
    free_items(&r->bans);
    rn_map_done(&r->plans);
    for (size_t i = 0; i < r->limbo_count; i++)
        free(r->limbo[i]);
    free(r->limbo);
    free(r->rules);
    rn_builder_done(&r->builder);
    rn_report_done(&r->report);
    free(r);
}

bool rn_client_index_retire(struct rn_client_index *r, void *item)
{
    if (r->limbo_count == r->limbo_room) {
        size_t room = r->limbo_room ? 2 * r->limbo_room : 64;
        void **larger = reallocarray(r->limbo, room, sizeof *larger);

        if (!larger)
            return false;
        r->limbo = larger;
        r->limbo_room = room;
    }
    r->limbo[r->limbo_count++] = item;
    return true;
}

bool rn_client_index_is_worn(const struct rn_client_index *r)
{
    uint64_t live = (uint64_t)r->overrides.live + r->bans.live;

    for (uint32_t i = 0; i < r->kind_count && r->kind_count == RATION_BAN_KINDS_MAX; i++)
        if (r->kinds[i].live == 0)
            return true; /* an unused kind keeps out another */
    return r->limbo_count > LIMBO_MIN + live / 4 || r->plans.live > LIMBO_MIN + live + live / 4;
}
