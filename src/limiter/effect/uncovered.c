/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/effect/uncovered.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "base/slice.h"

#define SEGMENTS 2
#define SEGMENT_MAX 32
#define METHOD_MAX 10
#define ID_LEAST 4 /* a segment with so many digits is an id */

_Static_assert(METHOD_MAX + 1 + SEGMENTS * (SEGMENT_MAX + 1) + sizeof "/**" <= RN_UNCOVERED_TEXT,
               "the longest text fits");

struct rn_uncovered {
    const struct rn_hash_key *secret;
    atomic_flag busy;
    size_t count;
    uint64_t hashes[RN_UNCOVERED_ENTRIES];
    struct rn_uncovered_path entries[RN_UNCOVERED_ENTRIES];
};

struct rn_uncovered *rn_uncovered_new(const struct rn_hash_key *secret)
{
    struct rn_uncovered *u = calloc(1, sizeof *u);

    if (u) {
        atomic_flag_clear(&u->busy);
        u->secret = secret;
    }
    return u;
}

void rn_uncovered_free(struct rn_uncovered *u)
{
    free(u);
}

/* --- texts ----------------------------------------------------------------------------- */

struct text {
    size_t len;
    char bytes[RN_UNCOVERED_TEXT];
};

static struct rn_slice find(const struct ration_request *request, const char *name)
{
    for (size_t i = 0; i < request->count; i++) {
        const struct ration_attribute *a = &request->attributes[i];

        if (rn_slice_is((struct rn_slice){a->name, a->name_len}, name))
            return (struct rn_slice){a->value, a->value_len};
    }
    return (struct rn_slice){0};
}

/* Bytes that a page or a terminal could take for something else become `?`. */
static void append(struct text *to, struct rn_slice from, size_t most)
{
    for (size_t i = 0; i < from.len && i < most; i++) {
        char c = from.data[i], lower = (char)(c | 0x20);
        bool plain = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
                     (c != '\0' && strchr("/-._~%{}*", c) != NULL);

        to->bytes[to->len++] = plain ? c : '?';
    }
}

/* A number, or a long segment with several digits: a uuid, a token. */
static bool is_id(struct rn_slice segment)
{
    size_t digits = 0;

    for (size_t i = 0; i < segment.len; i++)
        digits += segment.data[i] >= '0' && segment.data[i] <= '9';
    return segment.len > SEGMENT_MAX || digits >= ID_LEAST ||
           (digits != 0 && digits == segment.len);
}

static void append_path(struct text *to, struct rn_slice path)
{
    const char *query = path.data ? memchr(path.data, '?', path.len) : NULL;

    path.len = query ? (size_t)(query - path.data) : path.len;
    for (int n = 0; n < SEGMENTS && path.len > 0; n++) {
        const char *slash = memchr(path.data + 1, '/', path.len - 1);
        struct rn_slice segment = {path.data, slash ? (size_t)(slash - path.data) : path.len};
        struct rn_slice name = {segment.data + 1, segment.len - 1};

        if (is_id(name))
            append(to, RN_SLICE("/{id}"), SEGMENT_MAX);
        else
            append(to, segment, SEGMENT_MAX + 1);
        path.data += segment.len;
        path.len -= segment.len;
    }
    if (path.len > 0)
        append(to, RN_SLICE("/**"), SEGMENT_MAX);
}

/* --- counting -------------------------------------------------------------------------- */

void rn_uncovered_note(struct rn_uncovered *u, const struct ration_request *request,
                       const struct rn_stripe *stripe)
{
    uint64_t seen = __atomic_load_n(&stripe->rowless.unmatched, __ATOMIC_RELAXED);
    uint64_t weight = seen <= RN_UNCOVERED_EXACT ? 1 : seen % 16 == 0 ? 16 : 0;
    struct rn_slice path = find(request, "path");
    struct text text = {0};

    if (weight == 0)
        return;
    append(&text, find(request, "method"), METHOD_MAX);
    if (text.len != 0 && path.len != 0)
        text.bytes[text.len++] = ' ';
    append_path(&text, path);
    uint64_t hash = rn_siphash(u->secret, text.bytes, text.len);
    size_t i = 0;

    if (atomic_flag_test_and_set_explicit(&u->busy, memory_order_acquire))
        return;
    while (i < u->count && u->hashes[i] != hash)
        i++;
    if (i == RN_UNCOVERED_ENTRIES) { /* takes over the entry with the smallest count */
        i = 0;
        for (size_t k = 1; k < RN_UNCOVERED_ENTRIES; k++)
            if (u->entries[k].requests < u->entries[i].requests)
                i = k;
    } else if (i == u->count) {
        u->count++;
    }
    u->hashes[i] = hash;
    memcpy(u->entries[i].text, text.bytes, text.len);
    u->entries[i].text[text.len] = '\0';
    u->entries[i].requests += weight;
    atomic_flag_clear_explicit(&u->busy, memory_order_release);
}

static int by_requests(const void *left, const void *right)
{
    const struct rn_uncovered_path *a = left, *b = right;

    return (a->requests < b->requests) - (a->requests > b->requests);
}

size_t rn_uncovered_list(struct rn_uncovered *u, struct rn_uncovered_path *out, size_t max)
{
    struct rn_uncovered_path entries[RN_UNCOVERED_ENTRIES];

    if (!u)
        return 0;
    /* Held only for the time of one look-up, and never across a wait. */
    while (atomic_flag_test_and_set_explicit(&u->busy, memory_order_acquire))
        sched_yield();
    size_t count = u->count;

    memcpy(entries, u->entries, count * sizeof *entries);
    atomic_flag_clear_explicit(&u->busy, memory_order_release);
    qsort(entries, count, sizeof *entries, by_requests);
    count = count < max ? count : max;
    if (count != 0)
        memcpy(out, entries, count * sizeof *entries);
    return count;
}
