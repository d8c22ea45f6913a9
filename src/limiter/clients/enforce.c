/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries and the client index: puts overrides and bans in force under the current book, if its
 * rules allow it.
 */
#include <stdlib.h>

#include "base/error.h"
#include "limiter/clients/client_index.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"

struct rn_book *rn_clients_book(struct ration *r)
{
    return __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
}

/* --- the index ---------------------------------------------------------------------------- */

/* Puts the entry into the client index if that is possible, in the place of itself if it
 * `replaces`. 0 or RATION_ENOMEM. */
static int enter(struct rn_client_index *index, const struct rn_book *book, struct rn_entry *e,
                 bool replaces)
{
    struct rn_client client;
    uint64_t hash = 0;
    int code;

    if (!rn_client_read((struct rn_slice){e->payload, e->len}, &client))
        return e->active = false, 0;
    code = e->ban ? rn_ban_enter(index, book, &client, e->expires_ns, replaces, &hash)
                  : rn_override_enter(index, book, &client, e->expires_ns, &hash);
    if (code == RATION_ENOMEM)
        return code;
    e->active = code == 0;
    e->hash = hash;
    return 0;
}

/* If two bans had one key, the other may be left: rn_clients_tidy makes the client index again. */
static void leave(struct rn_clients *c, struct rn_client_index *index, const struct rn_entry *e)
{
    if (!index || !e->active)
        return;
    if (e->ban && index->bans_meet)
        c->stale = true;
    else if (e->ban)
        rn_ban_leave(index, e->hash);
    else
        rn_override_leave(index, e->hash);
}

static int enter_all(struct rn_map *map, struct rn_client_index *index, const struct rn_book *book)
{
    uint64_t at = 0;

    for (struct rn_entry *e; (e = rn_map_next(map, &at)) != NULL;)
        if (enter(index, book, e, false) != 0)
            return RATION_ENOMEM;
    return 0;
}

/* A client index of all entries for a book. NULL: out of memory. */
static struct rn_client_index *make_index(struct rn_clients *c, const struct rn_book *book)
{
    struct rn_client_index *index = rn_client_index_new(book);

    if (!index || enter_all(&c->overrides, index, book) != 0 ||
        enter_all(&c->bans, index, book) != 0) {
        rn_client_index_free(index);
        c->stale = true;
        return NULL;
    }
    rn_map_trim(&index->overrides);
    rn_map_trim(&index->bans);
    return index;
}

int rn_clients_fill(struct rn_clients *c, struct rn_book *book)
{
    if (c->overrides.live == 0 && c->bans.live == 0)
        return 0;
    book->client_index = make_index(c, book);
    return book->client_index ? 0 : RATION_ENOMEM;
}

/* Swaps the book for `renewed`, which differs only in the client index, or is the first book. */
static void put_in_place(struct ration *r, struct rn_book *renewed)
{
    struct rn_book *current = rn_clients_book(r), *old;

    pthread_mutex_lock(&r->shelf.lock);
    old = rn_pin_shelf_swap(&r->shelf, &r->stats, renewed);
    if (current)
        current->handed_over = true; /* also if it is stuck on the shelf */
    rn_book_free(old);
    pthread_mutex_unlock(&r->shelf.lock);
}

static struct rn_book *empty_book(struct ration *r)
{
    struct rn_report report;
    struct rn_builder builder;
    struct rn_ruleset *ruleset = NULL;
    struct rn_book *book;

    rn_report_init(&report);
    if (rn_builder_init(&builder, &report)) {
        ruleset = rn_builder_finish(&builder);
        rn_builder_done(&builder);
    }
    rn_report_done(&report);
    book = ruleset ? rn_book_new(ruleset, &r->secret, NULL, 0) : NULL;
    if (!book)
        rn_ruleset_free(ruleset);
    return book;
}

int rn_clients_index(struct ration *r, bool need_book, struct rn_book **book,
                     struct rn_client_index **index, struct ration_error *error)
{
    *book = rn_clients_book(r);
    *index = NULL;
    if (!*book && need_book) {
        *book = empty_book(r);
        if (*book)
            put_in_place(r, *book);
    }
    if (*book && !(*index = (*book)->client_index)) {
        *index = make_index(&r->clients, *book);
        __atomic_store_n(&(*book)->client_index, *index, __ATOMIC_RELEASE);
    }
    if ((!*book && !need_book) || *index)
        return 0;
    return rn_error_set(error, RATION_ENOMEM, 0, "out of memory for overrides and bans");
}

/* --- entries ------------------------------------------------------------------------------ */

int rn_clients_put(struct ration *r, struct rn_entry *e)
{
    struct rn_clients *c = &r->clients;
    struct rn_map *map = rn_clients_map(c, e->ban);
    struct rn_book *book;
    struct rn_client_index *index;
    int code = rn_clients_index(r, e->ban, &book, &index, NULL);

    if (code != 0 || !rn_map_reserve(map))
        return RATION_ENOMEM;
    rn_map_trim(map);
    const struct rn_entry *known = rn_map_find(map, e->identity);
    bool replaces = known && known->active && index && !index->bans_meet;

    if (index && enter(index, book, e, replaces) != 0)
        return RATION_ENOMEM;
    struct rn_entry *before = rn_map_put(map, e->identity, e);

    if (before && index && (!e->active || before->hash != e->hash || index->bans_meet))
        leave(c, index, before);
    free(before);
    if (e->expires_ns < c->next_expiry_ns)
        c->next_expiry_ns = e->expires_ns;
    rn_gate_poke_all(r, c->now_ns);
    return 0;
}

void rn_clients_drop(struct ration *r, struct rn_entry *e)
{
    const struct rn_book *book = rn_clients_book(r);

    rn_map_remove(e->deleted ? &r->clients.deleted : rn_clients_map(&r->clients, e->ban),
                  e->identity);
    leave(&r->clients, book ? book->client_index : NULL, e);
    free(e);
    rn_gate_poke_all(r, r->clients.now_ns);
}

int rn_clients_remember_deleted(struct rn_clients *c, struct rn_entry *e)
{
    uint64_t at = 0;

    /* Beyond that there is room only for deletions that no other node knows. */
    if (c->deleted.live >= RN_CLIENTS_DELETED_MAX)
        for (struct rn_entry *old; (old = rn_map_next(&c->deleted, &at)) != NULL;)
            if (old->shared)
                free(rn_map_remove(&c->deleted, old->identity));
    if (!rn_map_reserve(&c->deleted))
        return RATION_ENOMEM;
    rn_map_trim(&c->deleted);
    free(rn_map_put(&c->deleted, e->identity, e));
    if (e->expires_ns < c->next_expiry_ns)
        c->next_expiry_ns = e->expires_ns;
    return 0;
}

/* Drops entries that have expired; or, after the whole journal was read, that it does not name. */
static void drop_some(struct ration *r, struct rn_map *map, bool expired)
{
    struct rn_clients *c = &r->clients;
    uint64_t at = 0;

    for (struct rn_entry *e; (e = rn_map_next(map, &at)) != NULL;) {
        if (expired ? e->expires_ns <= c->now_ns : e->epoch != c->epoch)
            rn_clients_drop(r, e);
        else if (e->expires_ns < c->next_expiry_ns)
            c->next_expiry_ns = e->expires_ns;
    }
}

void rn_clients_drop_expired(struct ration *r)
{
    struct rn_clients *c = &r->clients;

    c->next_expiry_ns = INT64_MAX;
    c->last_expiry_ns = c->now_ns;
    drop_some(r, &c->overrides, true);
    drop_some(r, &c->bans, true);
    drop_some(r, &c->deleted, true);
}

void rn_clients_drop_unnamed(struct ration *r)
{
    drop_some(r, &r->clients.overrides, false);
    drop_some(r, &r->clients.bans, false);
    drop_some(r, &r->clients.deleted, false);
}

/* Without memory everything stays as it is. */
void rn_clients_tidy(struct ration *r)
{
    const struct rn_book *book = rn_clients_book(r);

    if (!book ||
        !(r->clients.stale || (book->client_index && rn_client_index_is_worn(book->client_index))))
        return;
    struct rn_client_index *index = make_index(&r->clients, book);
    struct rn_book *renewed = index ? rn_book_renew(book, index) : NULL;

    if (!renewed) {
        rn_client_index_free(index);
        return;
    }
    put_in_place(r, renewed);
    r->clients.stale = false;
}
