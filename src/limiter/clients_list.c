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

static int copy_rows(struct rn_clients *c, bool ban, struct rn_clients_list *list)
{
    struct rn_roll *roll = rn_clients_roll(c, ban);
    const struct rn_entry **entries = calloc((size_t)roll->live + 1, sizeof(struct rn_entry *));

    list->rows = calloc((size_t)roll->live + 1, sizeof *list->rows);
    if (!entries || !list->rows)
        return free(entries), RATION_ENOMEM;
    list->count = gather(roll, c->now_ns, entries);
    qsort(entries, list->count, sizeof(struct rn_entry *), compare_sequences);
    for (size_t i = 0; i < list->count; i++) {
        const struct rn_entry *e = entries[i];

        list->rows[i] = (struct rn_clients_row){
            .sequence = e->sequence,
            .expires_ns = e->expires_ns == INT64_MAX ? 0 : e->expires_ns - c->now_ns,
            .active = e->active,
            .at = list->payloads.len,
            .len = e->len};
        rn_buf_put(&list->payloads, e->payload, e->len);
    }
    free(entries);
    return list->payloads.failed ? RATION_ENOMEM : 0;
}

int rn_clients_list(struct ration *r, bool ban, int64_t now_ns, struct rn_clients_list *list)
{
    int code;

    *list = (struct rn_clients_list){.count = 0};
    rn_clients_lock(r, now_ns);
    code = copy_rows(&r->clients, ban, list);
    pthread_mutex_unlock(&r->clients.lock);
    return code;
}

void rn_clients_list_done(struct rn_clients_list *list)
{
    free(list->rows);
    rn_buf_done(&list->payloads);
}
