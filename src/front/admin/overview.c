/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon decides, for a page that shows it: the past of the total and of single rules,
 * and rules by what they have decided lately.
 */
#include <stdlib.h>

#include "front/admin/admin_internal.h"
#include "front/admin/query.h"
#include "front/admin/timeline.h"
#include "limiter/rulebook/listing.h"
#include "wire/format.h"

#define BUSIEST 20    /* histories of rules in an answer, if the caller names none, */
#define NAMES_MAX 50  /* or names: as many as fit what a connection may leave unsent */
#define PAGE 50       /* rules in a page, if the caller does not say, */
#define PAGE_MAX 200  /* and at most */
#define NUMBER_MAX 32 /* bytes of a number and its comma */

/* --- history --------------------------------------------------------------------------------- */

/* Which part of the rings is shown. */
struct span {
    const struct rn_timeline *timeline;
    bool day;
    int64_t step, count, end;
};

static void put_series(struct rn_members *m, const char *name, const struct span *span,
                       const struct rn_timeline_series *series, bool is_time)
{
    rn_members_open(m, name, '[');
    for (int64_t i = span->count - 1; i >= 0; i--) {
        int64_t end = span->end - i * span->step;
        uint32_t n = span->day ? rn_timeline_minute(series, end) : rn_timeline_second(series, end);
        char *to = rn_buf_reserve(m->out, NUMBER_MAX);

        if (!to)
            return;
        if (n == RN_TIMELINE_NONE)
            to = RN_FORMAT_LITERAL(to, "null");
        else
            to = is_time ? rn_timeline_format_time(to, n) : rn_format_u64(to, n);
        if (i != 0)
            *to++ = ',';
        rn_format_done(m->out, to);
    }
    rn_members_close(m, ']');
}

static void put_rule_history(struct rn_members *m, const struct span *span,
                             const struct rn_timeline_rule *rule)
{
    rn_members_open(m, NULL, '{');
    rn_members_text(m, "name", (struct rn_slice){rule->name, rule->name_len});
    for (size_t k = 0; k < RN_TIMELINE_RULE_KINDS; k++)
        put_series(m, rn_timeline_names[k], span, &rule->series[k], false);
    rn_members_close(m, '}');
}

struct busy {
    const struct rn_timeline_rule *rule;
    float rate;
};

static int compare_busy(const void *left, const void *right)
{
    const struct busy *a = left, *b = right;

    return (a->rate < b->rate) - (a->rate > b->rate);
}

static void put_busiest(struct rn_members *m, const struct span *span)
{
    struct busy all[RN_TIMELINE_RULES];
    size_t count = 0;

    for (size_t i = 0; i < RN_TIMELINE_RULES; i++) {
        const struct rn_timeline_rule *kept = &span->timeline->rules[i];
        const struct rn_activity_rule *rule =
            kept->name_len != 0 ? rn_activity_find(span->timeline->activity, kept->hash) : NULL;

        if (kept->name_len != 0)
            all[count++] = (struct busy){kept, rule ? rule->rates[RN_ACTIVITY_ALLOWED] +
                                                          rule->rates[RN_ACTIVITY_REFUSED]
                                                    : 0};
    }
    qsort(all, count, sizeof *all, compare_busy);
    for (size_t i = 0; i < count && i < BUSIEST; i++)
        put_rule_history(m, span, all[i].rule);
}

void rn_admin_get_history(struct rn_http_context *c)
{
    static const char *const spans[] = {"hour", "day"};
    struct rn_query_field fields[] = {{.name = "span"}, {.name = "rules"}, {.name = "steps"}};
    const struct rn_timeline *h = c->front->timeline;
    struct rn_slice names[NAMES_MAX];
    size_t chosen = 0, name_count;
    uint64_t steps = RN_TIMELINE_SECONDS; /* more than there are: all */

    if (!rn_query_read(c, fields, RN_COUNT(fields)) ||
        !rn_query_choose(c, &fields[0], spans, RN_COUNT(spans), &chosen) ||
        !rn_query_names(c, &fields[1], NAMES_MAX, names, &name_count) ||
        !rn_query_number(c, &fields[2], 1, RN_TIMELINE_SECONDS, &steps))
        return;
    struct span span = {h, false, 1, RN_TIMELINE_SECONDS, h->end};

    if (chosen == 1)
        span = (struct span){h, true, 60, RN_TIMELINE_MINUTES, rn_timeline_minute_end(h)};
    if ((int64_t)steps < span.count)
        span.count = (int64_t)steps;
    struct rn_members m = rn_admin_begin(c);

    rn_members_u64(&m, "step", (uint64_t)span.step);
    rn_members_u64(&m, "end", (uint64_t)rn_timeline_unix(h, span.end));
    rn_members_open(&m, "total", '{');
    for (size_t k = 0; k < RN_TIMELINE_KINDS; k++)
        put_series(&m, rn_timeline_names[k], &span, &h->total[k], k >= RN_TIMELINE_COUNTS);
    rn_members_close(&m, '}');
    rn_members_open(&m, "rules", '[');
    for (size_t i = 0; i < name_count; i++) {
        const struct rn_timeline_rule *rule = rn_timeline_find(h, names[i]);

        if (rule)
            put_rule_history(&m, &span, rule);
    }
    if (!fields[1].given)
        put_busiest(&m, &span);
    rn_members_close(&m, ']');
    rn_admin_end(c, &m, 200);
}

/* --- activity -------------------------------------------------------------------------------- */

enum order { BY_REFUSED, BY_ALLOWED, BY_DELAYED, BY_SHADOWED, BY_SHARE, BY_NEAR, BY_NAME };
static const char *const orders[] = {
    [BY_REFUSED] = "refused",   [BY_ALLOWED] = "allowed", [BY_DELAYED] = "delayed",
    [BY_SHADOWED] = "shadowed", [BY_SHARE] = "share",     [BY_NEAR] = "near",
    [BY_NAME] = "name",
};

/* A rule to sort. */
struct row {
    uint32_t index; /* in the order of the rules */
    float value;
    struct rn_slice name; /* if that is what rows are sorted by */
};

/* A question, and the rules that are an answer to it. */
struct search {
    const struct rn_activity *activity;
    struct rn_slice text; /* in small letters; empty: any */
    size_t mode;          /* 0: any; 1: shadow; 2: enforce */
    enum order order;
    struct row *rows;
    uint32_t count, next;
};

static float share(const struct rn_activity_rule *rule)
{
    float all = rule->rates[RN_ACTIVITY_ALLOWED] + rule->rates[RN_ACTIVITY_REFUSED];

    return all > 0 ? rule->rates[RN_ACTIVITY_REFUSED] / all : -1;
}

static float value_of(const struct rn_activity_rule *rule, enum order order)
{
    static const enum rn_activity_kind kinds[] = {
        [BY_REFUSED] = RN_ACTIVITY_REFUSED, [BY_ALLOWED] = RN_ACTIVITY_ALLOWED,
        [BY_DELAYED] = RN_ACTIVITY_DELAYED, [BY_SHADOWED] = RN_ACTIVITY_SHADOWED,
        [BY_SHARE] = RN_ACTIVITY_REFUSED,   [BY_NEAR] = RN_ACTIVITY_NEAR,
        [BY_NAME] = RN_ACTIVITY_REFUSED};

    return order == BY_SHARE ? share(rule) : rule->rates[kinds[order]];
}

static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Whether `text` has `part`, which is in small letters. */
static bool has_part(struct rn_slice text, struct rn_slice part)
{
    for (size_t at = 0; at + part.len <= text.len; at++) {
        size_t same = 0;

        while (same < part.len && small(text.data[at + same]) == part.data[same])
            same++;
        if (same == part.len)
            return true;
    }
    return false;
}

static bool matches(const struct search *s, const struct ration_rule_info *info)
{
    bool found = s->text.len == 0 ||
                 has_part((struct rn_slice){info->name, info->name_len}, s->text) ||
                 has_part((struct rn_slice){info->file, info->file_len}, s->text) ||
                 has_part(rn_slice_of(info->key), s->text);

    if (s->mode != 0 && info->shadow != (s->mode == 1))
        return false;
    for (uint32_t i = 0; i < info->listed && !found; i++)
        found = has_part(rn_slice_of(info->limits[i].text), s->text);
    return found;
}

static void add_row(struct search *s, uint32_t index, struct rn_slice name)
{
    s->rows[s->count++] = (struct row){index, value_of(&s->activity->rules[index], s->order), name};
}

/* The names outlive the answer: rules are replaced in this thread. */
static int look_at(void *arg, const struct ration_rule_info *info)
{
    struct search *s = arg;

    if (s->next == s->activity->count)
        return 1;
    if (matches(s, info))
        add_row(s, s->next, (struct rn_slice){info->name, info->name_len});
    s->next++;
    return 0;
}

/* Falling, then in the order of the rules. */
static int compare_values(const void *left, const void *right)
{
    const struct row *a = left, *b = right;

    if (a->value != b->value)
        return a->value < b->value ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

static int compare_values_rising(const void *left, const void *right)
{
    const struct row *a = left, *b = right;

    if (a->value != b->value)
        return a->value > b->value ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

static int compare_names(const void *left, const void *right)
{
    return rn_slice_compare(((const struct row *)left)->name, ((const struct row *)right)->name);
}

static int compare_names_falling(const void *left, const void *right)
{
    return compare_names(right, left);
}

static void sort(struct search *s, bool rising)
{
    bool by_name = s->order == BY_NAME;

    qsort(s->rows, s->count, sizeof *s->rows,
          by_name  ? rising ? compare_names : compare_names_falling
          : rising ? compare_values_rising
                   : compare_values);
}

struct shown {
    struct rn_members *m;
    const struct rn_activity_rule *rule;
};

static int put_rule(void *arg, const struct ration_rule_info *info)
{
    static const struct {
        const char *name;
        enum rn_activity_kind kind;
    } rates[] = {{"allowed", RN_ACTIVITY_ALLOWED},
                 {"refused", RN_ACTIVITY_REFUSED},
                 {"delayed", RN_ACTIVITY_DELAYED},
                 {"shadowed", RN_ACTIVITY_SHADOWED},
                 {"near", RN_ACTIVITY_NEAR}};
    const struct shown *shown = arg;
    struct rn_members *m = shown->m;

    rn_members_open(m, NULL, '{');
    rn_admin_put_rule_info(m, info);
    for (size_t i = 0; i < RN_COUNT(rates); i++) {
        rn_members_name(m, rates[i].name);
        rn_buf_putf(m->out, "%.4f", (double)shown->rule->rates[rates[i].kind]);
    }
    rn_members_name(m, "share");
    if (share(shown->rule) < 0)
        rn_buf_put_literal(m->out, "null");
    else
        rn_buf_putf(m->out, "%.4f", (double)share(shown->rule));
    rn_members_bool(m, "kept", shown->rule->kept);
    rn_members_close(m, '}');
    return 1;
}

static void answer_rows(struct rn_http_context *c, const struct search *s, uint64_t offset,
                        uint64_t count)
{
    struct rn_members m = rn_admin_begin(c);

    rn_members_u64(&m, "matched", s->count);
    rn_members_open(&m, "rules", '[');
    for (uint64_t i = offset; i < s->count && i < offset + count; i++)
        rn_listing_each(c->front->limiter, s->rows[i].index, put_rule,
                        &(struct shown){&m, &s->activity->rules[s->rows[i].index]});
    rn_members_close(&m, ']');
    rn_admin_end(c, &m, 200);
}

void rn_admin_get_activity(struct rn_http_context *c)
{
    static const char *const directions[] = {"desc", "asc"}, *const modes[] = {"shadow", "enforce"};
    enum { SORT, ORDER, SEARCH, OFFSET, COUNT, MODE };
    struct rn_query_field fields[] = {
        [SORT] = {.name = "sort"},     [ORDER] = {.name = "order"}, [SEARCH] = {.name = "search"},
        [OFFSET] = {.name = "offset"}, [COUNT] = {.name = "count"}, [MODE] = {.name = "mode"}};
    struct rn_activity *activity = c->front->timeline->activity;
    struct search s = {.activity = activity};
    uint64_t offset = 0, count = PAGE;
    size_t order = BY_REFUSED, direction, mode = 0;

    if (!rn_query_read(c, fields, RN_COUNT(fields)) ||
        !rn_query_choose(c, &fields[SORT], orders, RN_COUNT(orders), &order) ||
        !rn_query_choose(c, &fields[MODE], modes, RN_COUNT(modes), &mode) ||
        !rn_query_number(c, &fields[OFFSET], 0, UINT32_MAX, &offset) ||
        !rn_query_number(c, &fields[COUNT], 1, PAGE_MAX, &count))
        return;
    direction = order == BY_NAME;
    if (!rn_query_choose(c, &fields[ORDER], directions, RN_COUNT(directions), &direction))
        return;
    rn_activity_follow(activity);
    s.order = (enum order)order;
    s.mode = fields[MODE].given ? mode + 1 : 0;
    s.text = fields[SEARCH].value;
    for (size_t i = 0; i < s.text.len; i++) /* in ws->names */
        ((char *)s.text.data)[i] = small(s.text.data[i]);
    s.rows = malloc((activity->count + 1) * sizeof *s.rows);
    if (!s.rows) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    if (s.text.len != 0 || s.mode != 0 || s.order == BY_NAME)
        rn_listing_each(c->front->limiter, 0, look_at, &s);
    else
        for (uint32_t i = 0; i < activity->count; i++)
            add_row(&s, i, (struct rn_slice){0});
    sort(&s, direction == 1);
    answer_rows(c, &s, offset, count);
    free(s.rows);
}
