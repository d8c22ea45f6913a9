/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of usage from several state files, added up by client. Names are copied: a reply is gone
 * when its rows are shown.
 */
#include <ration/error.h>
#include <stdlib.h>
#include <string.h>

#include "redis/fleet/fleet_internal.h"

int rn_fleet_usage_rows_add(struct rn_fleet_usage_rows *rows, const struct rn_fleet_usage_row *row)
{
    if (rows->count == rows->room) {
        size_t room = rows->room ? 2 * rows->room : 256;
        struct rn_fleet_usage_row *list = realloc(rows->list, room * sizeof *list);

        if (!list)
            return RATION_ENOMEM;
        rows->list = list;
        rows->room = room;
    }
    struct rn_fleet_usage_row *added = &rows->list[rows->count];

    *added = *row;
    added->client = (struct rn_slice){NULL, row->client.len};
    added->place = rows->clients.len;
    rn_buf_put_slice(&rows->clients, row->client);
    if (rows->clients.failed)
        return RATION_ENOMEM;
    rows->count++;
    return 0;
}

struct rn_fleet_usage_row rn_fleet_usage_rows_at(const struct rn_fleet_usage_rows *rows, size_t i)
{
    struct rn_fleet_usage_row row = rows->list[i];

    row.client.data = row.client.len > 0 ? rows->clients.data + row.place : "";
    return row;
}

static int compare(const void *a, const void *b, void *arg)
{
    const struct rn_fleet_usage_row *x = a, *y = b;
    const struct rn_buf *clients = arg;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    if (x->other != y->other)
        return x->other - y->other;
    if (x->client.len != y->client.len || x->client.len == 0)
        return (x->client.len > y->client.len) - (x->client.len < y->client.len);
    return memcmp(clients->data + x->place, clients->data + y->place, x->client.len);
}

/* Redis is not trusted: a sum stays at its bound. */
static int64_t sum_of(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        sum = a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

void rn_fleet_usage_rows_add_up(struct rn_fleet_usage_rows *rows)
{
    struct rn_fleet_usage_row *list = rows->list;
    size_t kept = 0;

    if (rows->count > 1)
        qsort_r(list, rows->count, sizeof *list, compare, &rows->clients);
    for (size_t i = 0; i < rows->count; i++) {
        if (kept == 0 || compare(&list[kept - 1], &list[i], &rows->clients) != 0) {
            list[kept++] = list[i];
            continue;
        }
        struct rn_fleet_usage_row *sum = &list[kept - 1];

        sum->admitted = sum_of(sum->admitted, list[i].admitted);
        sum->corrected = sum_of(sum->corrected, list[i].corrected);
        if (__builtin_add_overflow(sum->refused, list[i].refused, &sum->refused))
            sum->refused = UINT64_MAX;
    }
    rows->count = kept;
}

void rn_fleet_usage_rows_clear(struct rn_fleet_usage_rows *rows)
{
    rows->count = 0;
    rn_buf_clear(&rows->clients);
}

void rn_fleet_usage_rows_done(struct rn_fleet_usage_rows *rows)
{
    free(rows->list);
    rn_buf_done(&rows->clients);
    *rows = (struct rn_fleet_usage_rows){0};
}
