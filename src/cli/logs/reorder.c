/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/logs/reorder.h"

#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)
#define CHUNK_BYTES (256u << 10)
#define ABSENT UINT16_MAX

struct rn_reorder_chunk {
    struct rn_reorder_chunk *next;
    size_t used;
    char bytes[CHUNK_BYTES - 16];
};

/* A request; lengths of its attributes follow, then their bytes, padded to 8. */
struct record {
    int64_t time_ns, duration_ns;
    uint32_t status, size;
    uint16_t lengths[];
};

bool rn_reorder_init(struct rn_reorder *r, uint32_t attribute_count, int64_t horizon_ns,
                     uint64_t bytes, void (*see)(void *arg, const struct rn_logs_entry *entry),
                     void *arg)
{
    *r = (struct rn_reorder){.attribute_count = attribute_count,
                             .bucket_count = horizon_ns / SECOND + 2,
                             .chunks_most = bytes / CHUNK_BYTES,
                             .value_most = ABSENT - 1,
                             .floor_ns = INT64_MIN,
                             .see = see,
                             .arg = arg};
    /* Any record fits a chunk. */
    if (attribute_count != 0 && r->value_most > (CHUNK_BYTES - 1024) / attribute_count)
        r->value_most = (CHUNK_BYTES - 1024) / attribute_count;
    r->buckets = calloc((size_t)r->bucket_count, sizeof *r->buckets);
    return r->buckets != NULL;
}

void rn_reorder_done(struct rn_reorder *r)
{
    for (int64_t i = 0; r->buckets != NULL && i < r->bucket_count; i++)
        while (r->buckets[i].first != NULL) {
            struct rn_reorder_chunk *chunk = r->buckets[i].first;

            r->buckets[i].first = chunk->next;
            free(chunk);
        }
    while (r->unused != NULL) {
        struct rn_reorder_chunk *chunk = r->unused;

        r->unused = chunk->next;
        free(chunk);
    }
    free(r->buckets);
    free(r->sorted);
    r->buckets = NULL;
    r->sorted = NULL;
}

static struct rn_reorder_bucket *bucket_of(const struct rn_reorder *r, int64_t second)
{
    return &r->buckets[((second % r->bucket_count) + r->bucket_count) % r->bucket_count];
}

/* --- passing on -------------------------------------------------------------------------- */

static void pass_on(struct rn_reorder *r, const struct record *record)
{
    struct rn_logs_entry e = {
        .time_ns = record->time_ns, .duration_ns = record->duration_ns, .status = record->status};
    const char *at = (const char *)(record->lengths + r->attribute_count);

    for (uint32_t i = 0; i < r->attribute_count; i++) {
        bool absent = record->lengths[i] == ABSENT;
        size_t len = absent ? 0 : record->lengths[i];

        e.attributes[i] = (struct rn_slice){absent ? NULL : at, len};
        at += len;
    }
    r->see(r->arg, &e);
}

/* By time; of equal times the one that was first in the log. */
static int compare_records(const void *a, const void *b)
{
    const struct record *x = *(const struct record *const *)a;
    const struct record *y = *(const struct record *const *)b;

    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

/* Merges two sorted runs; stable, unlike qsort. */
static void sort_records(const char **items, const char **room, size_t count)
{
    size_t half = count / 2, left = 0, right = half, out = 0;

    if (count < 2)
        return;
    sort_records(items, room, half);
    sort_records(items + half, room, count - half);
    if (compare_records(&items[half - 1], &items[half]) <= 0)
        return;
    memcpy(room, items, half * sizeof *items);
    while (left < half && right < count)
        items[out++] =
            compare_records(&room[left], &items[right]) <= 0 ? room[left++] : items[right++];
    while (left < half)
        items[out++] = room[left++];
}

static bool pass_on_unsorted(struct rn_reorder *r, const struct rn_reorder_bucket *b)
{
    size_t n = 0, need = b->count + b->count / 2 + 1;

    if (need > r->sorted_room) {
        const char **more = realloc(r->sorted, need * sizeof *more);

        if (more == NULL)
            return false;
        r->sorted = more;
        r->sorted_room = need;
    }
    for (const struct rn_reorder_chunk *chunk = b->first; chunk != NULL; chunk = chunk->next)
        for (size_t at = 0; at < chunk->used;) {
            const struct record *record = (const void *)(chunk->bytes + at);

            r->sorted[n++] = chunk->bytes + at;
            at += record->size;
        }
    sort_records(r->sorted, r->sorted + n, n);
    for (size_t i = 0; i < n; i++)
        pass_on(r, (const void *)r->sorted[i]);
    return true;
}

/* Passes on all requests of one second. */
static bool empty_bucket(struct rn_reorder *r, struct rn_reorder_bucket *b)
{
    if (b->count == 0)
        return true;
    if (b->unsorted) {
        if (!pass_on_unsorted(r, b))
            return false;
    } else {
        for (const struct rn_reorder_chunk *chunk = b->first; chunk != NULL; chunk = chunk->next)
            for (size_t at = 0; at < chunk->used;) {
                const struct record *record = (const void *)(chunk->bytes + at);

                pass_on(r, record);
                at += record->size;
            }
    }
    r->floor_ns = b->last_ns > r->floor_ns ? b->last_ns : r->floor_ns;
    b->last->next = r->unused;
    r->unused = b->first;
    *b = (struct rn_reorder_bucket){.count = 0};
    return true;
}

/* Passes on all requests of seconds before `second`. */
static bool empty_before(struct rn_reorder *r, int64_t second)
{
    int64_t last = second - r->base_s > r->bucket_count ? r->base_s + r->bucket_count : second;

    for (; r->base_s < last; r->base_s++)
        if (!empty_bucket(r, bucket_of(r, r->base_s)))
            return false;
    r->base_s = second > r->base_s ? second : r->base_s;
    if (r->begun && r->floor_ns < r->base_s * SECOND)
        r->floor_ns = r->base_s * SECOND;
    return true;
}

/* --- adding -------------------------------------------------------------------------------- */

static struct rn_reorder_chunk *new_chunk(struct rn_reorder *r)
{
    struct rn_reorder_chunk *chunk = r->unused;

    if (chunk != NULL) {
        r->unused = chunk->next;
    } else if (r->chunks < r->chunks_most) {
        chunk = malloc(sizeof *chunk);
        r->chunks += chunk != NULL;
    }
    if (chunk != NULL) {
        chunk->next = NULL;
        chunk->used = 0;
    }
    return chunk;
}

/* Room for a record; NULL: the memory is full. */
static char *reserve(struct rn_reorder *r, struct rn_reorder_bucket *b, size_t size)
{
    struct rn_reorder_chunk *chunk = b->last;

    if (chunk == NULL || sizeof chunk->bytes - chunk->used < size) {
        chunk = new_chunk(r);
        if (chunk == NULL)
            return NULL;
        if (b->last != NULL)
            b->last->next = chunk;
        else
            b->first = chunk;
        b->last = chunk;
    }
    chunk->used += size;
    return chunk->bytes + chunk->used - size;
}

/* Empties the oldest second that has requests, for its memory. */
static bool make_room(struct rn_reorder *r)
{
    for (int64_t i = 0; i < r->bucket_count; i++) {
        struct rn_reorder_bucket *b = bucket_of(r, r->base_s + i);

        if (b->count == 0)
            continue;
        r->early += b->count;
        return empty_bucket(r, b);
    }
    return false;
}

static void write_record(const struct rn_reorder *r, char *to, size_t size,
                         const struct rn_logs_entry *e)
{
    struct record *record = (void *)to;
    char *at = (char *)(record->lengths + r->attribute_count);

    record->time_ns = e->time_ns;
    record->duration_ns = e->duration_ns;
    record->status = e->status;
    record->size = (uint32_t)size;
    for (uint32_t i = 0; i < r->attribute_count; i++) {
        struct rn_slice value = e->attributes[i];
        size_t len = value.len < r->value_most ? value.len : r->value_most;

        record->lengths[i] = value.data == NULL ? ABSENT : (uint16_t)len;
        if (value.data == NULL)
            continue;
        memcpy(at, value.data, len);
        at += len;
    }
}

bool rn_reorder_add(struct rn_reorder *r, const struct rn_logs_entry *e)
{
    int64_t second = e->time_ns / SECOND;
    size_t size = sizeof(struct record) + r->attribute_count * sizeof(uint16_t);
    struct rn_reorder_bucket *b;
    char *to;

    if (!r->begun) {
        r->base_s = second - r->bucket_count + 1;
        r->begun = true;
    }
    if (e->time_ns < r->floor_ns || second < r->base_s) {
        r->late++;
        return true;
    }
    if (second - r->base_s >= r->bucket_count && !empty_before(r, second - r->bucket_count + 1))
        return false;
    for (uint32_t i = 0; i < r->attribute_count; i++)
        size += e->attributes[i].len < r->value_most ? e->attributes[i].len : r->value_most;
    size = (size + 7) & ~(size_t)7;
    b = bucket_of(r, second);
    while ((to = reserve(r, b, size)) == NULL)
        if (!make_room(r))
            return false;
    if (e->time_ns < r->floor_ns) { /* room was made by passing on newer requests */
        b->last->used -= size;
        r->late++;
        return true;
    }
    write_record(r, to, size, e);
    b->unsorted |= b->count != 0 && e->time_ns < b->last_ns;
    b->last_ns = b->count == 0 || e->time_ns > b->last_ns ? e->time_ns : b->last_ns;
    b->count++;
    return true;
}

bool rn_reorder_finish(struct rn_reorder *r)
{
    return empty_before(r, r->base_s + r->bucket_count);
}
