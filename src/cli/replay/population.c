/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/population.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_SIZE 1024u
#define LARGE_PAGE ((size_t)2 << 20)

/* Rows that are zero, in large pages where there are some: they are met in no order. */
static struct rn_population_row *new_rows(size_t size)
{
    size_t bytes = size * sizeof(struct rn_population_row);
    void *rows = NULL;

    if (bytes < LARGE_PAGE)
        return calloc(size, sizeof(struct rn_population_row));
    bytes = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    if (posix_memalign(&rows, LARGE_PAGE, bytes) != 0)
        return NULL;
    (void)madvise(rows, bytes, MADV_HUGEPAGE);
    return memset(rows, 0, bytes);
}

bool rn_population_init(struct rn_population *p, uint64_t bytes)
{
    *p = (struct rn_population){.size = FIRST_SIZE, .size_most = FIRST_SIZE};
    /* While it grows there are two tables, the new one twice as large. */
    while (p->size_most * 3 * sizeof *p->rows <= bytes)
        p->size_most *= 2;
    p->rows = new_rows(p->size);
    return p->rows != NULL;
}

void rn_population_done(struct rn_population *p)
{
    free(p->rows);
    p->rows = NULL;
}

/* The row of the hash, or the unused one where it would be. */
static struct rn_population_row *probe(const struct rn_population *p, uint64_t hash)
{
    size_t at = hash & (p->size - 1);

    while (p->rows[at].hash != 0 && p->rows[at].hash != hash)
        at = (at + 1) & (p->size - 1);
    return &p->rows[at];
}

static bool grow(struct rn_population *p)
{
    struct rn_population larger = *p;

    if (p->size >= p->size_most)
        return false;
    larger.size *= 2;
    larger.rows = new_rows(larger.size);
    if (larger.rows == NULL)
        return false;
    for (size_t i = 0; i < p->size; i++)
        if (p->rows[i].hash != 0)
            *probe(&larger, p->rows[i].hash) = p->rows[i];
    free(p->rows);
    *p = larger;
    return true;
}

struct rn_population_row *rn_population_get(struct rn_population *p, uint64_t hash)
{
    struct rn_population_row *row;

    hash = hash != 0 ? hash : 1;
    row = probe(p, hash);
    if (row->hash != 0)
        return row;
    if (p->count >= p->size / 4 * 3) {
        if (!grow(p)) {
            p->full = true;
            return NULL;
        }
        row = probe(p, hash);
    }
    row->hash = hash;
    p->count++;
    return row;
}

const struct rn_population_row *rn_population_find(const struct rn_population *p, uint64_t hash)
{
    const struct rn_population_row *row = probe(p, hash != 0 ? hash : 1);

    return row->hash != 0 ? row : NULL;
}
