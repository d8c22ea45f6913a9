/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All overrides or bans in the order in which they were set: for who lists them,
 * and for a journal that is written anew.
 */
#include <stdlib.h>

#include "limiter/limiter.h"

#define DEAD_MIN 64 /* records that are not worth a new file */

static int compare_sequences(const void *left, const void *right)
{
    const struct rn_entry *a = *(const struct rn_entry *const *)left;
    const struct rn_entry *b = *(const struct rn_entry *const *)right;

    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static size_t gather(const struct rn_roll *roll, int64_t now_ns, const struct rn_entry **out)
{
    uint64_t at = 0;
    size_t count = 0;

    for (const struct rn_entry *e; (e = rn_roll_next(roll, &at)) != NULL;)
        if (e->expires_ns > now_ns)
            out[count++] = e;
    return count;
}

struct walk {
    const struct rn_entry **entries;
    size_t at, count;
};

static bool next_record(void *arg, struct rn_record *record)
{
    struct walk *w = arg;

    if (w->at == w->count)
        return false;
    const struct rn_entry *e = w->entries[w->at++];

    *record = (struct rn_record){rn_entry_change(e), e->sequence, {e->payload, e->len}};
    return true;
}

void rn_clients_compact(struct rn_clients *c)
{
    uint64_t live = (uint64_t)c->overrides.live + c->bans.live + c->gone.live;
    struct walk w = {.count = 0};

    if (c->journal.records <= 2 * live + DEAD_MIN)
        return;
    w.entries = calloc(live + 1, sizeof(struct rn_entry *));
    if (!w.entries)
        return;
    w.count = gather(&c->overrides, c->now_ns, w.entries);
    w.count += gather(&c->bans, c->now_ns, w.entries + w.count);
    w.count += gather(&c->gone, c->now_ns, w.entries + w.count);
    qsort(w.entries, w.count, sizeof(struct rn_entry *), compare_sequences);
    rn_journal_rewrite(&c->journal, next_record, &w, NULL);
    free(w.entries);
}

/* --- lists -------------------------------------------------------------------------------------
 */

static bool is_listed(const struct rn_entry *e, const struct ration_listing *listing)
{
    struct rn_client client;

    if (e->sequence <= listing->after)
        return false;
    return !listing->rule ||
           (rn_client_read((struct rn_slice){e->payload, e->len}, &client) &&
            rn_slice_equal(client.rule, (struct rn_slice){listing->rule, listing->rule_len}));
}

static size_t keep_listed(const struct rn_entry **entries, size_t count,
                          const struct ration_listing *listing)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (is_listed(entries[i], listing))
            entries[kept++] = entries[i];
    return kept;
}

/* Moves the `wanted` first of them to the front, in whatever order: a page costs a walk
 * through all, but does not sort them. */
static void choose_first(const struct rn_entry **entries, size_t count, size_t wanted)
{
    size_t low = 0, high = count; /* the border is between them */

    while (low < wanted && wanted < high) {
        uint64_t pivot = entries[low + (high - low - 1) / 2]->sequence;
        size_t i = low, j = high - 1;

        for (;;) {
            while (entries[i]->sequence < pivot)
                i++;
            while (entries[j]->sequence > pivot)
                j--;
            if (i >= j)
                break;
            const struct rn_entry *swapped = entries[i];

            entries[i++] = entries[j];
            entries[j--] = swapped;
        }
        if (wanted <= j)
            high = j + 1;
        else
            low = j + 1;
    }
}

static void copy_row(const struct rn_clients *c, const struct rn_entry *e,
                     struct rn_clients_list *list)
{
    list->rows[list->count++] = (struct rn_clients_row){
        .sequence = e->sequence,
        .expires_ns = e->expires_ns == INT64_MAX ? 0 : e->expires_ns - c->now_ns,
        .active = e->active,
        .at = list->payloads.len,
        .len = e->len};
    rn_buf_put(&list->payloads, e->payload, e->len);
}

static int copy_rows(struct rn_clients *c, bool ban, const struct ration_listing *listing,
                     struct rn_clients_list *list)
{
    struct rn_roll *roll = rn_clients_roll(c, ban);
    const struct rn_entry **entries = calloc((size_t)roll->live + 1, sizeof(struct rn_entry *));
    size_t count;

    if (!entries)
        return RATION_ENOMEM;
    count = keep_listed(entries, gather(roll, c->now_ns, entries), listing);
    if (listing->limit != 0 && listing->limit < count) {
        choose_first(entries, count, listing->limit);
        count = listing->limit;
    }
    qsort(entries, count, sizeof(struct rn_entry *), compare_sequences);
    list->rows = calloc(count + 1, sizeof *list->rows);
    for (size_t i = 0; i < count && list->rows; i++)
        copy_row(c, entries[i], list);
    free(entries);
    return !list->rows || list->payloads.failed ? RATION_ENOMEM : 0;
}

int rn_clients_list(struct ration *r, bool ban, const struct ration_listing *listing,
                    struct rn_clients_list *list)
{
    int code;

    *list = (struct rn_clients_list){.count = 0};
    rn_clients_lock(r, RATION_NOW);
    code = copy_rows(&r->clients, ban, listing, list);
    pthread_mutex_unlock(&r->clients.lock);
    return code;
}

void rn_clients_list_done(struct rn_clients_list *list)
{
    free(list->rows);
    rn_buf_done(&list->payloads);
}
