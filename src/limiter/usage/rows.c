/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usage of a file as rows: listed, corrected, and for other nodes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "limiter/limiter.h"
#include "limiter/usage/periods.h"
#include "limiter/usage/usage.h"
#include "limiter/usage/usage_file.h"

/* One slot, as a listing needs it. */
struct slot_view {
    struct rn_usage_slot_text text;
    struct rn_usage_periods periods;
    bool wanted;                     /* by the query */
    char period[RATION_PERIOD_TEXT]; /* empty: all that are kept */
};

struct listing {
    const struct rn_usage_file *file;
    const struct ration_usage_query *query;
    int64_t now_s;
    struct slot_view **views; /* by slot; NULL: not looked at yet */
    struct rn_slice client;   /* as in rows; data NULL: all */
    char client_text[RATION_USAGE_CLIENT_MAX];
    struct ration_error *error;
};

/* --- rows ---------------------------------------------------------------------------- */

static int init_listing(struct listing *l, const struct rn_usage_file *file,
                        const struct ration_usage_query *query, int64_t now_s,
                        struct ration_error *error)
{
    *l = (struct listing){
        .file = file, .query = query, .now_s = query->at_s ? query->at_s : now_s, .error = error};
    struct rn_slice client = {query->client, query->client_len};
    struct rn_slice period = {query->period, query->period_len};
    char name[RATION_PERIOD_TEXT];
    int code = 0;

    if (error)
        *error = (struct ration_error){0};
    if (client.data)
        l->client =
            (struct rn_slice){l->client_text, rn_usage_client_asked(client, l->client_text)};
    if (period.data)
        code = rn_usage_period_resolve(period, RATION_CALENDAR_DAY, "", now_s, name, error);
    l->views = code == 0 ? calloc(file->rule_count, sizeof(struct slot_view *)) : NULL;
    if (code == 0 && !l->views)
        code = rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    return code;
}

static void done_listing(struct listing *l)
{
    for (uint32_t i = 0; l->views && i < l->file->rule_count; i++) {
        if (l->views[i])
            rn_usage_periods_done(&l->views[i]->periods);
        free(l->views[i]);
    }
    free(l->views);
}

static bool fill_view(struct listing *l, struct slot_view *view, uint32_t slot, int *code)
{
    const struct ration_usage_query *q = l->query;

    if (!rn_usage_slot_read(&l->file->rules[slot], &view->text))
        return false;
    view->wanted =
        !q->rule || rn_slice_equal((struct rn_slice){view->text.name, view->text.name_len},
                                   (struct rn_slice){q->rule, q->rule_len});
    *code = rn_usage_periods_init(&view->periods, view->text.unit, view->text.zone, view->text.keep,
                                  l->now_s, l->error);
    if (*code == 0 && q->period)
        *code =
            rn_usage_period_resolve((struct rn_slice){q->period, q->period_len}, view->text.unit,
                                    view->text.zone, l->now_s, view->period, l->error);
    return *code == 0;
}

/* NULL: nothing is known of it, or *code is an error. */
static struct slot_view *view_of(struct listing *l, uint32_t slot, int *code)
{
    struct slot_view *view = l->views[slot];

    if (view)
        return view;
    view = calloc(1, sizeof *view);
    if (!view) {
        *code = rn_error_set(l->error, RATION_ENOMEM, 0, "out of memory");
    } else if (fill_view(l, view, slot, code)) {
        l->views[slot] = view;
        return view;
    } else {
        rn_usage_periods_done(&view->periods);
        free(view);
    }
    return NULL;
}

/* Whether the place is a row that is asked for; fills all but the counters. */
static bool describe(struct listing *l, const struct rn_usage_place *place,
                     struct ration_usage *row, int *code)
{
    struct slot_view *view = view_of(l, place->slot, code);
    struct rn_calendar_span span;

    if (!view || !view->wanted ||
        (l->client.data && (place->other || !rn_slice_equal(l->client, place->name))) ||
        !rn_usage_periods_find(&view->periods, place->start_s, &span) ||
        (view->period[0] != '\0' && strcmp(view->period, span.name) != 0))
        return false;
    *row = (struct ration_usage){.rule = view->text.name,
                                 .rule_len = view->text.name_len,
                                 .client = place->name.data,
                                 .client_len = place->name.len,
                                 .other = place->other,
                                 .start_s = span.start_s,
                                 .end_s = span.end_s};
    memcpy(row->period, span.name, sizeof row->period);
    memcpy(row->zone, view->text.zone, sizeof row->zone);
    return true;
}

/* False: the place was wiped meanwhile, or another one stands for it. */
static bool count_row(const struct rn_usage_file *file, const struct rn_usage_place *place,
                      bool clear_marks, struct ration_usage *row)
{
    struct rn_usage_sum sum = rn_usage_file_sum(file, place, clear_marks);

    row->admitted = sum.admitted;
    row->refused = (uint64_t)sum.refused;
    row->corrected = sum.corrected;
    return clear_marks ? sum.first != NULL : sum.first == place->counts;
}

int rn_usage_file_each(const struct rn_usage_file *file, const struct ration_usage_query *query,
                       int64_t now_s, int (*see)(void *arg, const struct ration_usage *usage),
                       void *arg, uint64_t *next, struct ration_error *error)
{
    uint64_t end = rn_usage_file_end(file), at = query->cursor;
    char name[RATION_USAGE_CLIENT_MAX];
    struct rn_usage_place place;
    struct ration_usage row;
    struct listing l;
    size_t rows = 0;
    bool named = query->rule && query->client && query->period; /* listed in any case */
    int code = init_listing(&l, file, query, now_s, error);
    bool stopped = false;

    for (; at < end && code == 0 && !stopped; at++) {
        if (!rn_usage_file_at(file, at, name, &place) || !describe(&l, &place, &row, &code) ||
            !count_row(file, &place, false, &row) ||
            (!named && !row.admitted && !row.refused && !row.corrected)) /* nothing charged yet */
            continue;
        stopped = see(arg, &row) != 0 || ++rows == query->limit;
    }
    if (next && code == 0)
        *next = at < end ? at : 0;
    done_listing(&l);
    return code;
}

static int64_t wall_s(struct ration *r)
{
    return ration_wall(r, RATION_NOW) / RN_SECOND_NS;
}

static struct rn_usage_file *file_of(const struct ration *r)
{
    return __atomic_load_n(&r->usage.file, __ATOMIC_ACQUIRE);
}

int ration_usage_each(struct ration *r, const struct ration_usage_query *query,
                      int (*see)(void *arg, const struct ration_usage *usage), void *arg,
                      uint64_t *next, struct ration_error *error)
{
    const struct rn_usage_file *file = file_of(r);
    struct rn_slice period = {query->period, query->period_len};
    char name[RATION_PERIOD_TEXT];

    if (file)
        return rn_usage_file_each(file, query, wall_s(r), see, arg, next, error);
    if (error)
        *error = (struct ration_error){0};
    if (next)
        *next = 0;
    return period.data
               ? rn_usage_period_resolve(period, RATION_CALENDAR_DAY, "", wall_s(r), name, error)
               : 0;
}

void ration_usage_totals(const struct ration *r, struct ration_usage_totals *totals)
{
    const struct rn_usage_file *file = file_of(r);

    *totals = (struct ration_usage_totals){.open = file != NULL};
    if (!file)
        return;
    totals->entries = __atomic_load_n(&file->head->entries, __ATOMIC_RELAXED);
    totals->capacity = file->group_count * RN_USAGE_ENTRIES;
    totals->other = __atomic_load_n(&file->head->other, __ATOMIC_RELAXED);
    totals->bytes = file->side.bytes + RN_SIDE_FILE_HEAD;
    totals->incarnation = file->side.id;
}

/* --- corrections --------------------------------------------------------------------- */

/* One row to correct. */
struct correction {
    struct listing listing;
    uint64_t position; /* UINT64_MAX: there is no such row */
    bool rule_known, period_kept;
    struct rn_calendar_span span; /* the period, of this slot: */
    uint32_t slot;
};

/* Whether the rule and the period are there. */
static int find_slot(struct correction *c)
{
    struct listing *l = &c->listing;
    int code = 0;

    for (uint32_t slot = 0; slot < l->file->rule_count && code == 0 && !c->period_kept; slot++) {
        struct slot_view *view = view_of(l, slot, &code);

        if (!view || !view->wanted)
            continue;
        c->rule_known = true;
        for (uint32_t i = 0; i < view->periods.count && !c->period_kept; i++)
            if (strcmp(view->periods.spans[i].name, view->period) == 0) {
                c->period_kept = true;
                c->span = view->periods.spans[i];
                c->slot = slot;
            }
    }
    return code;
}

static int find_row(struct correction *c)
{
    struct listing *l = &c->listing;
    char name[RATION_USAGE_CLIENT_MAX];
    struct rn_usage_place place;
    struct ration_usage row;
    int code = find_slot(c);

    c->position = UINT64_MAX;
    for (uint64_t at = 0; at < rn_usage_file_end(l->file) && code == 0 && c->period_kept; at++)
        if (rn_usage_file_at(l->file, at, name, &place) && describe(l, &place, &row, &code)) {
            c->position = at;
            break;
        }
    return code;
}

/* A row for a client without one. NULL: the rule is gone or its keys have several parts, so that
 * the name does not tell the key; *code is RATION_EFULL if there is no room. */
static struct rn_usage_counts *make_row(struct ration *r, const struct correction *c, int *code)
{
    const struct ration_usage_query *q = c->listing.query;
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_rule *rule =
        pin.book ? rn_book_find(pin.book, (struct rn_slice){q->rule, q->rule_len}) : NULL;
    struct rn_usage_rule *u = rule ? rn_usage_of(pin.book, rule) : NULL;
    struct rn_usage_counts *counts = NULL;

    if (u && u->slot == c->slot && rule->key_count == 1 && rule->key[0].count == 1) {
        uint64_t hash = rn_siphash(&u->base.seed, q->client, q->client_len);

        counts = rn_usage_file_make(u->file, rn_usage_tag(u->slot, hash, c->span.start_s), u->slot,
                                    c->span.start_s, c->listing.client, c->listing.now_s);
        *code = counts ? 0 : RATION_EFULL;
    }
    rn_pin_drop(&pin);
    return counts;
}

static int correct(struct ration *r, struct correction *c, int64_t units,
                   struct ration_error *error)
{
    const struct ration_usage_query *q = c->listing.query;
    struct rn_usage_file *file = file_of(r);
    struct rn_usage_place place;
    char name[RATION_USAGE_CLIENT_MAX];
    struct rn_usage_counts *counts = NULL;
    int code = find_row(c);

    if (code != 0)
        return code;
    if (!c->rule_known)
        return rn_error_set(error, RATION_ENORULE, 0, "no rule named %s has usage",
                            rn_error_quote(q->rule, q->rule_len, 0).text);
    if (!c->period_kept)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%s is not a period that the rule keeps; write current, last, or one "
                            "that a listing shows",
                            rn_error_quote(q->period, q->period_len, 0).text);
    if (c->position != UINT64_MAX && rn_usage_file_at(file, c->position, name, &place))
        counts = place.counts;
    if (!counts)
        counts = make_row(r, c, &code);
    if (code == RATION_EFULL)
        return rn_error_set(error, code, 0,
                            "no room for another row of usage; give it more memory");
    if (!counts)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "the rule has no usage of the client %s in that period",
                            rn_error_quote(q->client, q->client_len, 0).text);
    if (!rn_usage_add(file, counts, &counts->corrected, units))
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%" PRId64 " units are more than a counter can hold", units);
    return 0;
}

int ration_usage_correct(struct ration *r, const struct ration_usage_query *which, int64_t units,
                         struct ration_error *error)
{
    struct rn_usage_file *file = file_of(r);
    struct correction c = {0};

    if (!which->rule || !which->client || !which->period)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "a correction needs a rule, a client and a period");
    if (!file)
        return rn_error_set(error, RATION_ENORULE, 0, "no rule named %s has usage",
                            rn_error_quote(which->rule, which->rule_len, 0).text);
    int code = init_listing(&c.listing, file, which, wall_s(r), error);

    if (code == 0)
        code = correct(r, &c, units, error);
    done_listing(&c.listing);
    return code;
}

/* --- for other nodes ----------------------------------------------------------------- */

uint64_t rn_usage_stamp(struct ration *r)
{
    struct rn_usage_file *file = file_of(r);

    return file ? __atomic_add_fetch(&file->head->stamp, 1, __ATOMIC_RELAXED) : 0;
}

void rn_usage_mark(struct ration *r, uint64_t entry)
{
    struct rn_usage_file *file = file_of(r);
    struct rn_usage_place place;
    char name[RATION_USAGE_CLIENT_MAX];

    if (file && entry < rn_usage_file_end(file) && rn_usage_file_at(file, entry, name, &place))
        rn_usage_file_mark(file, place.counts);
}

int rn_usage_dirty(struct ration *r, bool all, uint64_t *cursor, size_t most,
                   int (*see)(void *arg, const struct rn_usage_row *row), void *arg)
{
    static const struct ration_usage_query every = {0};
    struct rn_usage_file *file = file_of(r);
    char name[RATION_USAGE_CLIENT_MAX];
    struct rn_usage_place place;
    struct rn_usage_row row;
    struct listing l;
    size_t rows = 0;
    bool stopped = false;

    if (!file) {
        *cursor = 0;
        return 0;
    }
    uint64_t end = rn_usage_file_end(file), at = *cursor;
    int code = init_listing(&l, file, &every, wall_s(r), NULL);

    while (at < end && code == 0 && !stopped) {
        if (!all && (at = rn_usage_file_next_marked(file, at)) >= end)
            break;
        if (rn_usage_file_at(file, at, name, &place) &&
            (all || __atomic_load_n(&place.counts->dirty, __ATOMIC_RELAXED) != 0) &&
            describe(&l, &place, &row.usage, &code) && count_row(file, &place, true, &row.usage)) {
            row.keep = l.views[place.slot]->text.keep;
            row.entry = at;
            row.tag = place.tag;
            stopped = see(arg, &row) != 0 || ++rows == most;
        }
        at++;
    }
    if (stopped)
        rn_usage_file_keep_marked(file, at);
    *cursor = at < end ? at : 0;
    done_listing(&l);
    return code;
}
