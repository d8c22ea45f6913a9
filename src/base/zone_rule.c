/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing a POSIX TZ rule, and the changes around a time.
 *
 *   rule   = name offset [name [offset] "," edge "," edge]
 *   name   = 3 or more letters | "<" letters, digits, + and - ">"
 *   edge   = ("J" n | n | "M" m "." w "." d) ["/" time]
 *   offset, time = [+|-] hours [":" minutes [":" seconds]]
 */
#include "base/zone_rule.h"

#include "base/civil.h"

#define HOUR_S 3600
#define OFFSET_HOURS_MAX 24
#define TIME_HOURS_MAX 167 /* a week less an hour: RFC 8536, 3.3.1 */

struct cursor {
    const char *at, *end;
};

static bool accept(struct cursor *c, char wanted)
{
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

/* A number from min to max, which must be below 1000. */
static bool read_number(struct cursor *c, int min, int max, int *value)
{
    int sum = 0;
    const char *start = c->at;

    for (; c->at != c->end && *c->at >= '0' && *c->at <= '9' && sum <= max; c->at++)
        sum = sum * 10 + (*c->at - '0');
    *value = sum;
    return c->at != start && sum >= min && sum <= max;
}

/* Names are not needed. */
static bool skip_name(struct cursor *c)
{
    bool quoted = accept(c, '<');
    const char *start = c->at;

    while (c->at != c->end &&
           (((*c->at | 0x20) >= 'a' && (*c->at | 0x20) <= 'z') ||
            (quoted && ((*c->at >= '0' && *c->at <= '9') || *c->at == '+' || *c->at == '-'))))
        c->at++;
    return c->at - start >= 3 && (!quoted || accept(c, '>'));
}

static bool read_time(struct cursor *c, int hours_max, int32_t *seconds)
{
    bool negative = accept(c, '-');
    int h, m = 0, s = 0;

    if (!negative)
        accept(c, '+');
    if (!read_number(c, 0, hours_max, &h))
        return false;
    if (accept(c, ':')) {
        if (!read_number(c, 0, 59, &m))
            return false;
        if (accept(c, ':') && !read_number(c, 0, 59, &s))
            return false;
    }
    *seconds = h * HOUR_S + m * 60 + s;
    if (negative)
        *seconds = -*seconds;
    return true;
}

/* POSIX counts westwards, we count eastwards. */
static bool read_offset(struct cursor *c, int32_t *east_s)
{
    int32_t west_s;

    if (!read_time(c, OFFSET_HOURS_MAX, &west_s))
        return false;
    *east_s = -west_s;
    return true;
}

static bool read_edge(struct cursor *c, struct rn_zone_edge *edge)
{
    bool read;

    *edge = (struct rn_zone_edge){.time_s = 2 * HOUR_S};
    if (accept(c, 'M')) {
        edge->kind = RN_EDGE_WEEKDAY;
        read = read_number(c, 1, 12, &edge->month) && accept(c, '.') &&
               read_number(c, 1, 5, &edge->week) && accept(c, '.') &&
               read_number(c, 0, 6, &edge->day);
    } else if (accept(c, 'J')) {
        edge->kind = RN_EDGE_JULIAN;
        read = read_number(c, 1, 365, &edge->day);
    } else {
        edge->kind = RN_EDGE_ORDINAL;
        read = read_number(c, 0, 365, &edge->day);
    }
    return read && (!accept(c, '/') || read_time(c, TIME_HOURS_MAX, &edge->time_s));
}

bool rn_zone_rule_parse(const char *text, size_t len, struct rn_zone_rule *rule)
{
    struct cursor c = {text, text + len};

    *rule = (struct rn_zone_rule){.has_summer = false};
    if (!skip_name(&c) || !read_offset(&c, &rule->standard_s))
        return false;
    if (c.at == c.end)
        return true;
    rule->has_summer = true;
    rule->summer_s = rule->standard_s + HOUR_S;
    if (!skip_name(&c) || (c.at != c.end && *c.at != ',' && !read_offset(&c, &rule->summer_s)))
        return false;
    return accept(&c, ',') && read_edge(&c, &rule->start) && accept(&c, ',') &&
           read_edge(&c, &rule->end) && c.at == c.end;
}

static int64_t edge_day(const struct rn_zone_edge *edge, int64_t year)
{
    int month = edge->kind == RN_EDGE_WEEKDAY ? edge->month : 1;
    int64_t first = rn_civil_days((struct rn_civil){year, month, 1});

    if (edge->kind == RN_EDGE_ORDINAL)
        return first + edge->day;
    if (edge->kind == RN_EDGE_JULIAN)
        return first + edge->day - 1 + (edge->day >= 60 && rn_civil_is_leap(year));

    int64_t next_month =
        month == 12 ? first + 31 : rn_civil_days((struct rn_civil){year, month + 1, 1});
    int64_t day = first + (edge->day - rn_civil_weekday(first) + 7) % 7 + 7 * (edge->week - 1);

    return day < next_month ? day : day - 7;
}

struct change {
    int64_t at_s;
    int32_t offset_s; /* from then on */
};

/* A time of day beyond 24 h can move both changes of a year into the year before or after.
 * Two years on either side contain the neighbours of any time. */
#define NEAR_YEARS 2
#define NEAR_CHANGES (2 * (2 * NEAR_YEARS + 1))

/* Sorted by time. In permanent summer time the end of one summer is the start of the next;
 * the start comes later in the list. */
static void list_changes(const struct rn_zone_rule *rule, int64_t at_s,
                         struct change changes[NEAR_CHANGES])
{
    int64_t year = rn_civil_of_days(rn_civil_day_of(at_s)).year - NEAR_YEARS;

    for (int i = 0; i < NEAR_CHANGES; i += 2, year++) {
        struct change start = {edge_day(&rule->start, year) * RN_DAY_S + rule->start.time_s -
                                   rule->standard_s,
                               rule->summer_s};
        struct change end = {edge_day(&rule->end, year) * RN_DAY_S + rule->end.time_s -
                                 rule->summer_s,
                             rule->standard_s};
        bool in_order = start.at_s <= end.at_s;

        changes[i] = in_order ? start : end;
        changes[i + 1] = in_order ? end : start;
    }
}

int32_t rn_zone_rule_offset(const struct rn_zone_rule *rule, int64_t at_s)
{
    struct change changes[NEAR_CHANGES], last = {INT64_MIN, rule->standard_s};

    if (!rule->has_summer)
        return rule->standard_s;
    list_changes(rule, at_s, changes);
    for (int i = 0; i < NEAR_CHANGES; i++)
        if (changes[i].at_s <= at_s && changes[i].at_s >= last.at_s)
            last = changes[i];
    return last.offset_s;
}

int64_t rn_zone_rule_next(const struct rn_zone_rule *rule, int64_t at_s)
{
    struct change changes[NEAR_CHANGES];
    int64_t next = INT64_MAX;

    if (!rule->has_summer)
        return next;
    list_changes(rule, at_s, changes);
    for (int i = 0; i < NEAR_CHANGES; i++)
        if (changes[i].at_s > at_s && changes[i].at_s < next)
            next = changes[i].at_s;
    return next;
}
