/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was spent is not carried over to an override that comes from another node: the node that set
 * it did so in the shared store.
 *
 * This file never waits for the lock: its owner may wait for a store that this thread serves.
 */
#include "limiter/clients/replication.h"

#include <stdlib.h>

#include "base/error.h"

void rn_replication_begin(struct ration *r)
{
    struct rn_clients *c = &r->clients;

    pthread_mutex_lock(&c->lock);
    bool begins = !c->sharing;

    c->sharing = true;
    if (begins)
        rn_clients_read_again(c);
    pthread_mutex_unlock(&c->lock);
    if (begins)
        (void)rn_clients_refresh_at(r, RATION_NOW, NULL); /* the next one reports a failure */
}

uint64_t rn_replication_changes(struct ration *r)
{
    return __atomic_load_n(&r->clients.local_changes, __ATOMIC_RELAXED);
}

/* --- batches -------------------------------------------------------------------------------- */

int rn_replication_batch_init(struct rn_replication_batch *batch, size_t room)
{
    *batch = (struct rn_replication_batch){
        .items = calloc(room, sizeof(struct rn_replication_item)), .room = room};
    return batch->items ? 0 : RATION_ENOMEM;
}

void rn_replication_batch_done(struct rn_replication_batch *batch)
{
    free(batch->items);
    rn_buf_done(&batch->payloads);
}

/* --- what others may not know --------------------------------------------------------------- */

static struct rn_entry *next(struct rn_clients *c, struct rn_replication_walk *walk)
{
    struct rn_map *maps[] = {&c->overrides, &c->bans, &c->deleted};

    for (; walk->map < sizeof maps / sizeof *maps; walk->map++, walk->at = 0) {
        struct rn_entry *e = rn_map_next(maps[walk->map], &walk->at);

        if (e)
            return e;
    }
    walk->ended = true;
    return NULL;
}

int rn_replication_collect(struct ration *r, struct rn_replication_walk *walk, size_t bytes,
                           struct rn_replication_batch *batch)
{
    struct rn_clients *c = &r->clients;
    struct rn_client client;
    struct rn_entry *e;

    batch->count = 0;
    rn_buf_clear(&batch->payloads);
    if (!rn_clients_try_lock(r, RATION_NOW))
        return RATION_EBUSY;
    while (batch->count < batch->room && batch->payloads.len < bytes &&
           (e = next(c, walk)) != NULL) {
        struct rn_slice payload = {e->payload, e->len};
        struct rn_replication_item *item = &batch->items[batch->count];

        if (e->shared || e->expires_ns <= c->now_ns || !rn_client_read(payload, &client))
            continue;
        *item = (struct rn_replication_item){.kind = rn_entry_change(e),
                                             .made_us = client.made_us,
                                             .expires_us = client.expires_wall_ns / 1000,
                                             .payload = {NULL, e->len}};
        rn_client_name(&client, item->name);
        rn_buf_put_slice(&batch->payloads, payload);
        batch->count++;
    }
    pthread_mutex_unlock(&c->lock);
    const char *at = batch->payloads.data; /* where the payloads will stay */

    for (size_t i = 0; i < batch->count && !batch->payloads.failed; i++) {
        batch->items[i].payload.data = at;
        at += batch->items[i].payload.len;
    }
    return batch->payloads.failed ? RATION_ENOMEM : 0;
}

static struct rn_entry *find(struct rn_clients *c, const struct rn_client *client, uint32_t kind)
{
    return rn_clients_known(c, rn_client_identity(client, &c->secret),
                            rn_client_change_is_ban(kind));
}

static bool is_same(const struct rn_entry *e, const struct rn_replication_item *item)
{
    return rn_entry_change(e) == item->kind &&
           rn_slice_equal((struct rn_slice){e->payload, e->len}, item->payload);
}

int rn_replication_acknowledge(struct ration *r, const struct rn_replication_batch *batch)
{
    struct rn_client client;

    if (!rn_clients_try_lock(r, RATION_NOW))
        return RATION_EBUSY;
    for (size_t i = 0; i < batch->count; i++) {
        const struct rn_replication_item *item = &batch->items[i];
        struct rn_entry *e =
            rn_client_read(item->payload, &client) ? find(&r->clients, &client, item->kind) : NULL;

        if (e && is_same(e, item))
            e->shared = true;
    }
    pthread_mutex_unlock(&r->clients.lock);
    return 0;
}

int rn_replication_doubt(struct ration *r, int64_t since_us)
{
    struct rn_clients *c = &r->clients;
    struct rn_replication_walk walk = {.ended = false};
    struct rn_entry *e;

    if (!rn_clients_try_lock(r, RATION_NOW))
        return RATION_EBUSY;
    while ((e = next(c, &walk)) != NULL)
        if (e->made_us >= since_us)
            e->shared = false;
    __atomic_store_n(&c->local_changes, c->local_changes + 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&r->clients.lock);
    return 0;
}

/* --- what others have changed --------------------------------------------------------------- */

static bool is_whole(const struct rn_replication_item *item, struct rn_client *client)
{
    char name[RN_CLIENT_NAME];

    if (item->kind < RN_OVERRIDE_SET || item->kind > RN_BAN_DELETE ||
        item->payload.len > RN_RECORD_BYTES_MAX || !rn_client_read(item->payload, client) ||
        !rn_client_is_valid(client) ||
        rn_client_change_is_ban(item->kind) != (client->rule.len == 0))
        return false;
    rn_client_name(client, name);
    return memcmp(name, item->name, sizeof name) == 0;
}

/* Of two changes at the same instant the other nodes' holds: they agree on it already. A change
 * that has expired matters only if it replaces something. */
static bool is_news(struct rn_clients *c, const struct rn_client *client,
                    const struct rn_replication_item *item)
{
    struct rn_entry *known = find(c, client, item->kind);

    if (!known)
        return client->expires_wall_ns == 0 || client->expires_wall_ns > c->wall_ns;
    if (!is_same(known, item))
        return client->made_us >= known->made_us;
    known->shared = true;
    return false;
}

int rn_replication_merge(struct ration *r, const struct rn_replication_item *items, size_t n,
                         struct rn_replication_merged *merged, struct ration_error *error)
{
    struct rn_record *records = calloc(n + 1, sizeof *records);
    int code = records
                   ? rn_clients_try_begin(r, RATION_NOW, error)
                   : rn_error_set(error, RATION_ENOMEM, 0, "out of memory for overrides and bans");
    struct rn_client client;
    size_t count = 0;

    *merged = (struct rn_replication_merged){0};
    for (size_t i = 0; i < n && code == 0; i++) {
        const struct rn_replication_item *item = &items[i];
        bool whole = is_whole(item, &client);

        if (whole && !is_news(&r->clients, &client, item))
            continue;
        if (whole && (rn_client_change_deletes(item->kind) ||
                      rn_clients_room(r, &client, rn_client_change_is_ban(item->kind), NULL) == 0))
            records[count++] = (struct rn_record){.kind = item->kind, .payload = item->payload};
        else
            merged->refused++;
    }
    if (code == 0) {
        r->clients.merging = true;
        code = count > 0 ? rn_clients_apply(r, records, count, error) : 0;
        r->clients.merging = false;
        merged->taken = code == 0 ? count : 0;
        rn_clients_end(r, code == 0 && count > 0);
    }
    free(records);
    return code;
}
