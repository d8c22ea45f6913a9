/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All overrides or bans in the order in which they were set: for listings, and for rewriting the
 * journal.
 */
#include <stdlib.h>

#include "limiter/limiter.h"

#define DEAD_MIN 64 /* so few dead records are not worth a new file */

/* An entry and its place in the order, which is copied because entries are scattered in memory. */
struct pick {
    uint64_t sequence;
    const struct rn_entry *entry;
};

static int compare_picks(const void *left, const void *right)
{
    const struct pick *a = left, *b = right;

    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

/* Those that have not expired and that the listing asks for; its limit is not looked at. */
static size_t gather(const struct rn_map *map, int64_t now_ns, const struct ration_listing *listing,
                     struct pick *out)
{
    struct rn_slice rule = {listing->rule, listing->rule_len};
    struct rn_client client;
    uint64_t at = 0;
    size_t count = 0;

    for (const struct rn_entry *e; (e = rn_map_next(map, &at)) != NULL;)
        if (e->expires_ns > now_ns && e->sequence > listing->after &&
            (!rule.data || (rn_client_read((struct rn_slice){e->payload, e->len}, &client) &&
                            rn_slice_equal(client.rule, rule))))
            out[count++] = (struct pick){e->sequence, e};
    return count;
}

struct walk {
    struct pick *picks;
    size_t at, count;
};

static bool next_record(void *arg, struct rn_record *record)
{
    struct walk *w = arg;

    if (w->at == w->count)
        return false;
    const struct rn_entry *e = w->picks[w->at++].entry;

    *record = (struct rn_record){rn_entry_change(e), e->sequence, {e->payload, e->len}};
    return true;
}

void rn_clients_compact(struct rn_clients *c)
{
    uint64_t live = (uint64_t)c->overrides.live + c->bans.live + c->deleted.live;
    const struct ration_listing all = {0};
    struct walk w = {.count = 0};

    if (c->journal.records <= 2 * live + DEAD_MIN)
        return;
    w.picks = malloc((live + 1) * sizeof *w.picks);
    if (!w.picks)
        return;
    w.count = gather(&c->overrides, c->now_ns, &all, w.picks);
    w.count += gather(&c->bans, c->now_ns, &all, w.picks + w.count);
    w.count += gather(&c->deleted, c->now_ns, &all, w.picks + w.count);
    qsort(w.picks, w.count, sizeof *w.picks, compare_picks);
    rn_journal_rewrite(&c->journal, next_record, &w, NULL);
    free(w.picks);
}

/* --- lists -------------------------------------------------------------------------------------
 */

/* Moves the first `wanted` picks to the front, unsorted: a page costs a walk through all entries,
 * but does not sort them. */
static void choose_first(struct pick *picks, size_t count, size_t wanted)
{
    size_t low = 0, high = count; /* the border is between them */

    while (low < wanted && wanted < high) {
        uint64_t pivot = picks[low + (high - low - 1) / 2].sequence;
        size_t i = low, j = high - 1;

        for (;;) {
            while (picks[i].sequence < pivot)
                i++;
            while (picks[j].sequence > pivot)
                j--;
            if (i >= j)
                break;
            struct pick swapped = picks[i];

            picks[i++] = picks[j];
            picks[j--] = swapped;
        }
        if (wanted <= j)
            high = j + 1;
        else
            low = j + 1;
    }
}

int rn_clients_list(struct ration *r, bool ban, const struct ration_listing *listing,
                    struct rn_clients_list *list)
{
    struct rn_clients *c = &r->clients;
    struct rn_map *map = rn_clients_map(c, ban);
    size_t count = 0;

    *list = (struct rn_clients_list){.count = 0};
    rn_clients_lock(r, RATION_NOW);
    struct pick *picks = malloc(((size_t)map->live + 1) * sizeof *picks);

    if (picks)
        count = gather(map, c->now_ns, listing, picks);
    if (listing->limit != 0 && listing->limit < count) {
        choose_first(picks, count, listing->limit);
        count = listing->limit;
    }
    if (count > 1)
        qsort(picks, count, sizeof *picks, compare_picks);
    list->rows = picks ? malloc((count + 1) * sizeof *list->rows) : NULL;
    for (; list->rows && list->count < count; list->count++) {
        const struct rn_entry *e = picks[list->count].entry;

        list->rows[list->count] = (struct rn_clients_row){
            .sequence = e->sequence,
            .expires_ns = e->expires_ns == INT64_MAX ? 0 : e->expires_ns - c->now_ns,
            .active = e->active,
            .at = list->payloads.len,
            .len = e->len};
        rn_buf_put(&list->payloads, e->payload, e->len);
    }
    free(picks);
    pthread_mutex_unlock(&c->lock);
    return !list->rows || list->payloads.failed ? RATION_ENOMEM : 0;
}

void rn_clients_list_done(struct rn_clients_list *list)
{
    free(list->rows);
    rn_buf_done(&list->payloads);
}

/* --- numbers ------------------------------------------------------------------------------ */

/* Expired ones stay until the next refresh: then all are looked at. */
static uint64_t count_live(const struct rn_clients *c, const struct rn_map *map)
{
    uint64_t at = 0, expired = 0;

    if (c->now_ns < c->next_expiry_ns)
        return map->live;
    for (const struct rn_entry *e; (e = rn_map_next(map, &at)) != NULL;)
        expired += e->expires_ns <= c->now_ns;
    return map->live - expired;
}

void ration_clients_count(struct ration *r, uint64_t *overrides, uint64_t *bans)
{
    rn_clients_lock(r, RATION_NOW);
    *overrides = count_live(&r->clients, &r->clients.overrides);
    *bans = count_live(&r->clients, &r->clients.bans);
    pthread_mutex_unlock(&r->clients.lock);
}
