/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators see of records.
 */
#include <stdlib.h>
#include <string.h>

#include "limiter/decide/gather.h"
#include "limiter/limiter.h"
#include "limiter/state.h"

#define WRITTEN 100 /* percent */

/* --- one client ----------------------------------------------------------------------------- */

static uint64_t word_of(const struct ration *r, uint64_t hash, enum rn_record_kind kind)
{
    return rn_records_find(&r->reputation.records, rn_records_key(hash, kind));
}

/* Without a rule, or under one that has no `escalate` any more, no ban is in force. */
static bool see_offences(const struct rn_rule *rule, uint64_t word, int64_t now_ns,
                         struct ration_reputation *out)
{
    struct rn_record_view v;

    rn_record_view(word, now_ns, &v);
    if (!v.live)
        return false;
    out->ends_after_ns =
        rule && rule->escalate ? rn_escalate_rest_ns(rule->escalate, word, now_ns) : 0;
    out->banned = out->ends_after_ns != 0;
    out->level = v.level;
    out->refusals = v.refusals;
    return true;
}

static bool see_earned(uint64_t word, int64_t now_ns, struct ration_reputation *out)
{
    struct rn_record_view v;

    rn_record_view(word, now_ns, &v);
    out->earned_percent = v.live ? v.percent : WRITTEN;
    return v.live;
}

/* `rule` may be NULL: the rules do not have it any more. */
static bool look(const struct ration *r, const struct rn_rule *rule, uint64_t hash, int64_t now_ns,
                 struct ration_reputation *out)
{
    *out = (struct ration_reputation){.rule = rule ? rule->name.data : "",
                                      .rule_len = rule ? rule->name.len : 0,
                                      .hash = hash & ~RN_RECORD_KIND,
                                      .earned_percent = WRITTEN};
    if (!r->reputation.records.groups)
        return false;
    bool offends = see_offences(rule, word_of(r, hash, RN_RECORD_OFFENCES), now_ns, out);

    return see_earned(word_of(r, hash, RN_RECORD_EARNED), now_ns, out) || offends;
}

bool rn_reputation_look(struct ration *r, const struct rn_rule *rule, uint64_t hash, int64_t now_ns,
                        struct ration_reputation *out)
{
    return look(r, rule, hash, now_ns, out);
}

/* --- names ------------------------------------------------------------------------------------ */

/* The client of an event, for searching. */
struct named {
    uint64_t rule, hash, number;
};

struct names {
    struct named *items; /* sorted; NULL: not made yet */
    size_t count;
};

static int compare_named(const void *left, const void *right)
{
    const struct named *a = left, *b = right;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return (a->rule > b->rule) - (a->rule < b->rule);
}

static bool read_names(const struct rn_event_ring *ring, struct names *names)
{
    struct rn_event e;

    names->items = malloc(RN_EVENT_RING_ENTRIES * sizeof *names->items);
    if (!names->items)
        return false;
    uint64_t last = rn_event_ring_last(ring);

    for (uint64_t n = rn_event_ring_first(ring); n <= last; n++)
        if (names->count < RN_EVENT_RING_ENTRIES && rn_event_ring_read(ring, n, &e) &&
            e.name_len != 0)
            names->items[names->count++] = (struct named){e.rule, e.hash & ~RN_RECORD_KIND, n};
    qsort(names->items, names->count, sizeof *names->items, compare_named);
    return true;
}

/* The event of a client that has its name; false: there is none any more. */
static bool find_name(const struct rn_event_ring *ring, const struct names *names, uint64_t rule,
                      uint64_t hash, struct rn_event *event)
{
    struct named wanted = {.rule = rule, .hash = hash & ~RN_RECORD_KIND};
    const struct named *found = names->count == 0 ? NULL
                                                  : bsearch(&wanted, names->items, names->count,
                                                            sizeof wanted, compare_named);

    return found && rn_event_ring_read(ring, found->number, event) && event->rule == rule;
}

/* --- listing -----------------------------------------------------------------------------------
 */

struct listing {
    const struct ration *r;
    const struct rn_book *book;
    const struct ration_reputation_query *query;
    const struct rn_rule *only; /* NULL: all rules */
    int64_t now_ns;
    struct names names;
    uint64_t last_rule; /* the rule found last, most records being of a few rules */
    const struct rn_rule *last;
    size_t seen;
    bool stopped;
    int (*see)(void *arg, const struct ration_reputation *one);
    void *arg;
};

static const struct rn_rule *find_rule(struct listing *l, uint64_t rule)
{
    if (!l->last || l->last_rule != rule) {
        l->last = rn_reputation_find_rule(l->r, l->book, rule);
        l->last_rule = rule;
    }
    return l->last;
}

/* A client that has an offence record is listed with that one, whatever else it has. */
static bool is_listed(const struct listing *l, const struct rn_records_entry *e)
{
    struct rn_record_view v;

    switch (rn_record_kind(e->word)) {
    case RN_RECORD_OFFENCES:
        return true;
    case RN_RECORD_EARNED:
        rn_record_view(word_of(l->r, e->key, RN_RECORD_OFFENCES), l->now_ns, &v);
        return !v.live;
    case RN_RECORD_LAPSES:
    case RN_RECORD_NONE:
        break;
    }
    return false;
}

static int list_one(void *arg, const struct rn_records_entry *e)
{
    struct listing *l = arg;
    const struct rn_rule *rule;
    struct ration_reputation one;
    struct rn_event event;

    if (!is_listed(l, e))
        return 0;
    rule = find_rule(l, e->rule);
    if ((l->only && rule != l->only) || !look(l->r, rule, e->key, l->now_ns, &one) ||
        (l->query->banned_only && !one.banned))
        return 0;
    if (find_name(l->r->reputation.records.ring, &l->names, e->rule, e->key, &event)) {
        one.key = event.name;
        one.key_len = event.name_len;
    }
    l->stopped = l->see(l->arg, &one) != 0 || ++l->seen == l->query->limit;
    return l->stopped;
}

int ration_reputation_each(struct ration *r, const struct ration_reputation_query *query,
                           int (*see)(void *arg, const struct ration_reputation *one), void *arg,
                           uint64_t *next)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    struct listing l = {.r = r,
                        .book = pin.book,
                        .query = query,
                        .now_ns = rn_limiter_now(r, RATION_NOW),
                        .see = see,
                        .arg = arg};
    const struct rn_records *records = &r->reputation.records;
    int code = 0;
    uint64_t at = 0;

    if (query->rule && pin.book)
        l.only = rn_book_find(pin.book, (struct rn_slice){query->rule, query->rule_len});
    if (query->rule && !l.only)
        code = RATION_ENORULE;
    else if (pin.book && records->groups && !read_names(records->ring, &l.names))
        code = RATION_ENOMEM;
    else if (pin.book && records->groups)
        at = rn_records_each(records, query->cursor, list_one, &l);
    if (next)
        *next = l.stopped ? at : 0;
    free(l.names.items);
    rn_pin_drop(&pin);
    return code;
}

static int count_one(void *arg, const struct rn_records_entry *e)
{
    struct listing *l = arg;
    struct rn_record_view v;
    struct ration_reputation one;
    struct ration_reputation_totals *totals = l->arg;

    rn_record_view(e->word, l->now_ns, &v);
    totals->records += v.live;
    totals->banned +=
        v.banned && see_offences(find_rule(l, e->rule), e->word, l->now_ns, &one) && one.banned;
    return 0;
}

void ration_reputation_totals(struct ration *r, struct ration_reputation_totals *totals)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    struct listing l = {
        .r = r, .book = pin.book, .now_ns = rn_limiter_now(r, RATION_NOW), .arg = totals};
    const struct rn_records *records = &r->reputation.records;
    struct ration_totals all;

    ration_totals(r, &all);
    *totals = (struct ration_reputation_totals){
        .bans = all.bans,
        .refused = all.ban_refusals,
        .lifted = all.lifted,
        .steps = __atomic_load_n(&r->reputation.steps, __ATOMIC_RELAXED),
        .lost_steps = __atomic_load_n(&r->reputation.lost_steps, __ATOMIC_RELAXED)};
    if (pin.book && records->groups) {
        const struct rn_records_header *h = records->header;

        totals->capacity = rn_records_capacity(records);
        totals->lost_counts = __atomic_load_n(&h->lost_counts, __ATOMIC_RELAXED);
        totals->lost_bans = __atomic_load_n(&h->lost_bans, __ATOMIC_RELAXED);
        totals->lost_earned = __atomic_load_n(&h->lost_earned, __ATOMIC_RELAXED);
        rn_records_each(records, 0, count_one, &l);
    }
    rn_pin_drop(&pin);
}
