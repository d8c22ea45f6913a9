/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows are found without a lock and never removed. Those of a rule are a hash table of
 * pointers that is never more than half full.
 */
#include "limiter/value_stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter.h"
#include "rules/printable.h"

#define SLOTS 256
_Static_assert(2 * RN_VALUE_ROWS <= SLOTS, "a search ends at a free slot");

struct row {
    struct rn_value_totals totals;
    size_t len;
    char text[RN_VALUE_TEXT];
};

struct rn_value_stats {
    unsigned references;
    pthread_mutex_t lock; /* for adding a row */
    uint32_t count;
    struct row *slots[SLOTS];
    struct rn_value_totals other;
};

struct rn_value_stats *rn_value_stats_new(void)
{
    struct rn_value_stats *v = calloc(1, sizeof *v);

    if (v && pthread_mutex_init(&v->lock, NULL) != 0) {
        free(v);
        return NULL;
    }
    if (v)
        v->references = 1;
    return v;
}

struct rn_value_stats *rn_value_stats_ref(struct rn_value_stats *v)
{
    __atomic_fetch_add(&v->references, 1, __ATOMIC_RELAXED);
    return v;
}

void rn_value_stats_unref(struct rn_value_stats *v)
{
    if (!v || __atomic_sub_fetch(&v->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        free(v->slots[i]);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

/* --- texts ---------------------------------------------------------------------------- */

struct text {
    size_t len;
    char bytes[RN_VALUE_TEXT];
};

static void append(struct text *to, struct rn_slice from)
{
    size_t room = sizeof to->bytes - to->len, len = from.len < room ? from.len : room;

    if (len != 0)
        memcpy(to->bytes + to->len, from.data, len);
    to->len += len;
}

/* Values are written as in names of rules (rules/printable.h), and cut between characters. */
static void write_text(struct text *to, const struct rn_rule_values *values,
                       const struct rn_slice *key)
{
    to->len = 0;
    append(to, values->names[0]);
    for (uint32_t i = 0; i < values->count; i++) {
        struct rn_slice value = key[2 * (size_t)i + 1];

        append(to, RN_SLICE("."));
        append(to, values->names[i + 1]);
        for (size_t k = 0; values->from_request >> i & 1 && k < value.len; k++) {
            char byte[RN_PRINTABLE_MAX];
            size_t len = rn_printable_write(byte, (struct rn_slice){value.data + k, 1});

            if (len > sizeof to->bytes - to->len)
                break;
            append(to, (struct rn_slice){byte, len});
        }
    }
}

/* --- rows ----------------------------------------------------------------------------- */

/* The slot of the text, or the free one where it would go. */
static struct row **find_slot(struct rn_value_stats *v, const struct rn_hash_key *secret,
                              const struct text *text)
{
    uint64_t at = rn_siphash(secret, text->bytes, text->len);

    for (;; at++) {
        struct row **slot = &v->slots[at % SLOTS];
        const struct row *row = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

        if (!row || (row->len == text->len && memcmp(row->text, text->bytes, text->len) == 0))
            return slot;
    }
}

/* If there are too many rows, or memory runs out, the row of all others counts. */
void rn_value_stats_add(const struct rn_book *book, const struct rn_rule *rule,
                        const struct rn_slice *key, bool allowed, uint64_t decisions,
                        uint64_t units)
{
    struct rn_value_stats *v = book->values[rule->index];
    struct text text;

    write_text(&text, rule->values, key);
    struct row *row = __atomic_load_n(find_slot(v, book->secret, &text), __ATOMIC_ACQUIRE);

    if (!row && __atomic_load_n(&v->count, __ATOMIC_RELAXED) < RN_VALUE_ROWS) {
        pthread_mutex_lock(&v->lock);
        struct row **slot = find_slot(v, book->secret, &text);

        row = *slot;
        if (!row && v->count < RN_VALUE_ROWS && (row = calloc(1, sizeof *row)) != NULL) {
            row->len = text.len;
            memcpy(row->text, text.bytes, text.len);
            __atomic_store_n(slot, row, __ATOMIC_RELEASE);
            __atomic_store_n(&v->count, v->count + 1, __ATOMIC_RELAXED);
        }
        pthread_mutex_unlock(&v->lock);
    }
    struct rn_value_totals *totals = row ? &row->totals : &v->other;

    __atomic_fetch_add(allowed ? &totals->allowed : &totals->refused, decisions, __ATOMIC_RELAXED);
    __atomic_fetch_add(allowed ? &totals->hits_allowed : &totals->hits_refused, units,
                       __ATOMIC_RELAXED);
}

/* --- reading -------------------------------------------------------------------------- */

static struct rn_value_totals read_totals(const struct rn_value_totals *from)
{
    return (struct rn_value_totals){__atomic_load_n(&from->allowed, __ATOMIC_RELAXED),
                                    __atomic_load_n(&from->refused, __ATOMIC_RELAXED),
                                    __atomic_load_n(&from->hits_allowed, __ATOMIC_RELAXED),
                                    __atomic_load_n(&from->hits_refused, __ATOMIC_RELAXED)};
}

void rn_value_stats_each(struct ration *r,
                         void (*see)(void *arg, struct rn_slice rule, struct rn_slice descriptor,
                                     const struct rn_value_totals *totals),
                         void *arg)
{
    pthread_mutex_lock(&r->shelf.lock);
    const struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);
    uint32_t count = book ? book->ruleset->rule_count : 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct rn_value_stats *v = book->values[i];
        struct rn_slice rule = book->ruleset->rules[i].name;

        for (size_t s = 0; v && s < SLOTS; s++) {
            const struct row *row = __atomic_load_n(&v->slots[s], __ATOMIC_ACQUIRE);
            struct rn_value_totals totals =
                row ? read_totals(&row->totals) : (struct rn_value_totals){0};

            if (row)
                see(arg, rule, (struct rn_slice){row->text, row->len}, &totals);
        }
        struct rn_value_totals other = v ? read_totals(&v->other) : (struct rn_value_totals){0};

        if (v && (other.allowed | other.refused | other.hits_allowed | other.hits_refused) != 0)
            see(arg, rule, RN_SLICE(RN_VALUE_OTHER), &other);
    }
    pthread_mutex_unlock(&r->shelf.lock);
}
