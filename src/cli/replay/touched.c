/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/touched.h"

#include <stdlib.h>
#include <string.h>

#include <ration/ration.h>

bool rn_touched_init(struct rn_touched_table *t, uint64_t bytes)
{
    *t = (struct rn_touched_table){.size = 256};
    while (t->size * 3 * sizeof *t->rows <= bytes)
        t->size *= 2;
    t->rows = calloc(t->size, sizeof *t->rows);
    return t->rows != NULL;
}

void rn_touched_done(struct rn_touched_table *t)
{
    free(t->rows);
    t->rows = NULL;
}

static struct rn_touched *probe(struct rn_touched *rows, size_t size, uint64_t hash)
{
    size_t at = hash & (size - 1);

    while (rows[at].hash != 0 && rows[at].hash != hash)
        at = (at + 1) & (size - 1);
    return &rows[at];
}

static int by_refusals(const void *a, const void *b)
{
    const struct rn_touched *x = a, *y = b;

    if (x->refused != y->refused)
        return x->refused < y->refused ? 1 : -1;
    if (x->delayed != y->delayed)
        return x->delayed < y->delayed ? 1 : -1;
    return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

size_t rn_touched_sort(struct rn_touched_table *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->size; i++)
        if (t->rows[i].hash != 0)
            t->rows[n++] = t->rows[i];
    memset(t->rows + n, 0, (t->size - n) * sizeof *t->rows);
    qsort(t->rows, n, sizeof *t->rows, by_refusals);
    return n;
}

/* Forgets the half with the fewest refusals. Those that come again may be forgotten again, so what
 * their rows are short by adds up. */
static void forget_half(struct rn_touched_table *t)
{
    size_t n = rn_touched_sort(t), kept = n / 2;
    struct rn_touched *old = malloc((kept + 1) * sizeof *old);

    if (old == NULL)
        abort(); /* a few megabytes */
    for (size_t i = kept; i < n; i++) {
        uint64_t count = t->rows[i].refused + t->rows[i].delayed + t->rows[i].missed;

        t->floor = count > t->floor ? count : t->floor;
    }
    memcpy(old, t->rows, kept * sizeof *old);
    memset(t->rows, 0, t->size * sizeof *t->rows);
    for (size_t i = 0; i < kept; i++)
        *probe(t->rows, t->size, old[i].hash) = old[i];
    t->count = kept;
    free(old);
}

struct rn_touched *rn_touched_get(struct rn_touched_table *t, uint64_t hash, uint32_t rule,
                                  int64_t now_ns)
{
    struct rn_touched *row;

    hash = hash != 0 ? hash : 1;
    row = probe(t->rows, t->size, hash);
    if (row->hash == 0 && t->count >= t->size / 4 * 3) {
        forget_half(t);
        row = probe(t->rows, t->size, hash);
    }
    if (row->hash == 0) {
        *row = (struct rn_touched){.hash = hash,
                                   .rule = rule,
                                   .name_len = UINT32_MAX,
                                   .missed = t->floor,
                                   .first_ns = now_ns,
                                   .until_ns = now_ns};
        t->count++;
    }
    row->last_ns = now_ns;
    return row;
}

int64_t rn_touched_wait(struct rn_touched *row, int64_t now_ns, int64_t wait_ns)
{
    int64_t from = row->until_ns > now_ns ? row->until_ns : now_ns, until;

    if (wait_ns == RATION_NEVER || wait_ns <= 0)
        return 0;
    until = wait_ns < INT64_MAX - now_ns ? now_ns + wait_ns : INT64_MAX;
    if (until <= from)
        return 0;
    row->until_ns = until;
    row->limited_ns += until - from;
    return until - from;
}
