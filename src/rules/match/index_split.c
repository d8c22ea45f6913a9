/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the condition under which the index finds a candidate. Usable are
 * conditions on exact values, and path patterns with a literal segment at a fixed
 * position. Negated conditions, prefixes and networks are not.
 */
#include "rules/match/index_split_internal.h"

#include <stdlib.h>

#include "rules/match/pattern.h"

#define CONDITIONS_MAX 31 /* of a candidate that are considered */
#define WHOLE_VALUE 0

void *rn_index_split_append(struct rn_index_list *list, size_t count)
{
    if (list->count + count >= list->room) {
        size_t room = 2 * (list->count + count) + 16;
        void *items = realloc(list->items, room * list->size);

        if (!items)
            return NULL;
        list->items = items;
        list->room = room;
    }
    list->count += count;
    return (char *)list->items + (list->count - count) * list->size;
}

/* --- answers --------------------------------------------------------------------- */

static bool is_literal(struct rn_slice pattern)
{
    return rn_pattern_literal(pattern).len == pattern.len;
}

/* The literal segments at fixed positions: those before the first `**`. Answers
 * a mask of 0 if there are none. */
static struct rn_index_entry file_path(uint16_t attribute, struct rn_slice pattern)
{
    struct rn_slice segment, chosen[RN_INDEX_SEGMENTS];
    struct rn_index_entry f = {.probe = {.attribute = attribute}};
    unsigned count = 0;

    for (unsigned i = 0; i < RN_INDEX_SEGMENTS; i++) {
        segment = rn_pattern_segment(pattern, i);
        if (!segment.data || (segment.len == 2 && memcmp(segment.data, "**", 2) == 0))
            break;
        if (!is_literal(segment))
            continue;
        chosen[count++] = segment;
        f.probe.mask = (uint16_t)(f.probe.mask | 1U << i);
    }
    f.answer = rn_index_seed(attribute, f.probe.mask);
    for (unsigned i = 0; i < count; i++)
        f.answer = rn_index_add_segment(f.answer, rn_index_hash(0, chosen[i]));
    return f;
}

/* False: this value of the condition cannot be asked for. */
static bool file_value(const struct rn_condition *c, uint32_t i, struct rn_index_entry *f)
{
    struct rn_slice value = c->values[i];

    if (c->test == RN_TEST_PATTERN && c->is_path) {
        *f = file_path(c->attribute, value);
        return f->probe.mask != 0;
    }
    if (value.len > UINT32_MAX || (c->test == RN_TEST_PATTERN && !is_literal(value)))
        return false;
    *f = (struct rn_index_entry){
        .answer = rn_index_hash(rn_index_seed(c->attribute, WHOLE_VALUE), value),
        .probe = {c->attribute, WHOLE_VALUE, (uint32_t)value.len},
    };
    return true;
}

/* The conditions that are not used yet and can be asked for, as bits. One that is looked up in a
 * database is asked for last, so that no request pays for it which the others exclude. */
static uint32_t usable(const struct rn_index_candidate *candidate, struct rn_index_item item)
{
    uint32_t mask = 0, late = 0;

    for (uint32_t i = 0; i < candidate->condition_count && i < CONDITIONS_MAX; i++) {
        const struct rn_condition *c = &candidate->conditions[i];
        struct rn_index_entry f;
        uint32_t v = 0;

        if (item.used >> i & 1 || c->negated ||
            (c->test != RN_TEST_EQUALS && c->test != RN_TEST_PATTERN))
            continue;
        while (v < c->value_count && file_value(c, v, &f))
            v++;
        if (v == c->value_count)
            *(c->looked_up ? &late : &mask) |= UINT32_C(1) << i;
    }
    return mask != 0 ? mask : late;
}

/* --- choosing --------------------------------------------------------------------- */

static int compare_answers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

bool rn_index_split_answers(const struct rn_index_candidate *candidates,
                            const struct rn_index_item *items, size_t count,
                            struct rn_index_list *answers)
{
    for (size_t n = 0; n < count; n++) {
        const struct rn_index_candidate *candidate = &candidates[items[n].candidate];
        uint32_t mask = usable(candidate, items[n]);

        for (uint32_t i = 0; mask >> i; i++)
            for (uint32_t v = 0; mask >> i & 1 && v < candidate->conditions[i].value_count; v++) {
                struct rn_index_entry f;
                uint64_t *answer = rn_index_split_append(answers, 1);

                if (!answer)
                    return false;
                file_value(&candidate->conditions[i], v, &f);
                *answer = f.answer;
            }
    }
    if (answers->count > 0)
        qsort(answers->items, answers->count, sizeof(uint64_t), compare_answers);
    return true;
}

/* How many answers are less than this one. */
static size_t rank(const struct rn_index_list *answers, uint64_t answer)
{
    const uint64_t *sorted = answers->items;
    size_t from = 0, to = answers->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (sorted[middle] < answer)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

uint32_t rn_index_split_choose(const struct rn_index_list *answers,
                               const struct rn_index_candidate *candidate,
                               struct rn_index_item item, size_t bearable)
{
    uint32_t mask = usable(candidate, item), best = RN_INDEX_SPLIT_NONE;
    size_t best_crowd = bearable;

    for (uint32_t i = 0; mask >> i; i++) {
        const struct rn_condition *c = &candidate->conditions[i];
        size_t crowd = 0; /* in the most crowded bucket that filing under `c` would use */

        if (!(mask >> i & 1))
            continue;
        for (uint32_t v = 0; v < c->value_count; v++) {
            struct rn_index_entry f;

            file_value(c, v, &f);
            size_t count = f.answer == UINT64_MAX
                               ? answers->count
                               : rank(answers, f.answer + 1) - rank(answers, f.answer);

            crowd = count > crowd ? count : crowd;
        }
        if (crowd < best_crowd ||
            (crowd == best_crowd && (best == RN_INDEX_SPLIT_NONE ||
                                     c->value_count < candidate->conditions[best].value_count))) {
            best = i;
            best_crowd = crowd;
        }
    }
    return best;
}

bool rn_index_split_add(struct rn_index_list *filings, const struct rn_condition *condition,
                        struct rn_index_item item)
{
    struct rn_index_entry *f = rn_index_split_append(filings, condition->value_count);

    for (uint32_t v = 0; f && v < condition->value_count; v++) {
        file_value(condition, v, &f[v]);
        f[v].item = item;
    }
    return f != NULL;
}
