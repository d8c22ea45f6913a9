/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate_limit block: Envoy's unit and requests_per_unit, or our text in their
 * place; algorithm, burst and sub_windows are ours too. Unless one of those
 * says otherwise a limit is a fixed window that starts with the epoch, as in
 * envoyproxy/ratelimit.
 */
#include <stdlib.h>
#include <strings.h>

#include "core/algorithm.h"
#include "rules/envoy/parse_internal.h"

#define SECOND_NS INT64_C(1000000000)
#define DAY_NS (86400 * SECOND_NS)

/* As in envoyproxy/ratelimit, a month and a year are lengths of time. */
static const char *const unit_names[] = {"second", "minute", "hour", "day",
                                         "week",   "month",  "year"};
static const struct {
    int number; /* in the protocol */
    int64_t length_ns;
} units[] = {{1, SECOND_NS},  {2, 60 * SECOND_NS}, {3, 3600 * SECOND_NS}, {4, DAY_NS},
             {7, 7 * DAY_NS}, {5, 30 * DAY_NS},    {6, 365 * DAY_NS}};
#define UNITS (sizeof units / sizeof *units)

static const int calendar_units[] = {[RATION_CALENDAR_DAY] = 4,
                                     [RATION_CALENDAR_WEEK] = 7,
                                     [RATION_CALENDAR_MONTH] = 5,
                                     [RATION_CALENDAR_YEAR] = 6};

struct rn_envoy_named {
    const struct rn_envoy_limit *limit;
    const struct rn_node *replaces; /* NULL: none */
    struct rn_envoy_named *next;
};

/* --- unit and amount ---------------------------------------------------------------- */

static bool read_unit(struct rn_envoy_reader *r, const struct rn_node *node,
                      struct rn_envoy_limit *limit, struct ration_limit *spec)
{
    struct rn_slice text;

    if (!rn_node_as_text(node, r->report, &text))
        return false;
    for (size_t i = 0; i < UNITS; i++) {
        if (strlen(unit_names[i]) == text.len &&
            strncasecmp(unit_names[i], text.data, text.len) == 0) {
            limit->unit = units[i].number;
            spec->period_ns = units[i].length_ns;
            return true;
        }
    }
    rn_report_unknown_word(r->report, node, "unit", unit_names, UNITS);
    return false;
}

/* unit and requests_per_unit. */
static bool read_amount(struct rn_envoy_reader *r, const struct rn_node *map,
                        const struct rn_node *const *fields, struct rn_envoy_limit *limit,
                        struct ration_limit *spec)
{
    const struct rn_node *requests = fields[RN_LIMIT_REQUESTS];
    bool ok = !requests || rn_node_as_uint(requests, r->report, &spec->amount);

    if (ok && requests && spec->amount > UINT32_MAX) {
        rn_report_error(r->report, requests->at,
                        "requests_per_unit above 4294967295; write a smaller one, or unlimited: "
                        "true");
        ok = false;
    }
    if (!fields[RN_LIMIT_UNIT])
        rn_report_error(r->report, map->key->at,
                        "rate_limit without a unit; write unit: minute, or unlimited: true");
    if (!fields[RN_LIMIT_UNIT] || !read_unit(r, fields[RN_LIMIT_UNIT], limit, spec) || !ok)
        return false;
    if (!requests)
        rn_report_warning(r->report, map->key->at,
                          "rate_limit without requests_per_unit refuses every request; write "
                          "requests_per_unit: 0 if that is meant");
    limit->requests_per_unit = (uint32_t)spec->amount;
    spec->algorithm = RATION_FIXED_WINDOW;
    if (spec->amount > (uint64_t)spec->period_ns) {
        rn_report_warning(r->report, requests->at,
                          "a rate above 1,000,000,000 per second is cut to that; write "
                          "unlimited: true if no limit is meant");
        spec->amount = (uint64_t)spec->period_ns;
    }
    return true;
}

/* `limit: 900 per 15 minutes`. Sets unit only where the period is one. */
static bool read_text(struct rn_envoy_reader *r, const struct rn_node *node,
                      struct rn_envoy_limit *limit, struct ration_limit *spec)
{
    if (!rn_node_as_limit(node, r->report, spec))
        return false;
    if (spec->algorithm == RATION_CONCURRENCY) {
        rn_report_error(r->report, node->at,
                        "%s counts requests in flight, and Envoy does not tell when one ends; "
                        "write a rate such as 100 per second",
                        rn_excerpt(node->text).text);
        return false;
    }
    limit->requests_per_unit = spec->amount < UINT32_MAX ? (uint32_t)spec->amount : UINT32_MAX;
    for (size_t i = 0; i < UNITS; i++) {
        if (spec->period_ns == units[i].length_ns)
            limit->unit = units[i].number;
    }
    if (spec->calendar != RATION_CALENDAR_NONE)
        limit->unit = calendar_units[spec->calendar];
    return true;
}

/* --- settings that envoyproxy/ratelimit does not have -------------------------------- */

/* Keeps the algorithm that the text implies; a plain rate is a fixed window. */
static bool read_extras(struct rn_envoy_reader *r, const struct rn_node *const *fields,
                        struct ration_limit *spec)
{
    const struct rn_node *algorithm = fields[RN_LIMIT_ALGORITHM], *burst = fields[RN_LIMIT_BURST];
    const char *names[RN_ALGORITHMS_MAX];
    uint32_t errors = r->report->count[RN_ERROR];
    enum ration_algorithm found;
    struct rn_slice text;
    uint64_t subs = 0;

    if (spec->burst == 0 && spec->queue == 0 && spec->step_ns == 0)
        spec->algorithm = burst ? RATION_TOKEN_BUCKET : RATION_FIXED_WINDOW;
    if (algorithm && rn_node_as_text(algorithm, r->report, &text)) {
        if (ration_algorithm_parse(text.data, text.len, &found) == 0 &&
            rn_algorithm_find(found)->is_rate)
            spec->algorithm = found;
        else
            rn_report_unknown_word(r->report, algorithm, "algorithm", names,
                                   rn_algorithm_rates(names));
    }
    if (burst && spec->burst != 0)
        rn_report_error(r->report, burst->key->at,
                        "burst is in the text of limit already; keep one");
    else if (burst && rn_node_as_uint(burst, r->report, &spec->burst) && spec->burst == 0)
        rn_report_error(r->report, burst->at,
                        "a burst of 0 admits nothing; write how many may come at once");
    if (fields[RN_LIMIT_SUB_WINDOWS])
        (void)rn_node_as_uint(fields[RN_LIMIT_SUB_WINDOWS], r->report, &subs);
    spec->sub_windows = subs < UINT32_MAX ? (uint32_t)subs : UINT32_MAX;
    return r->report->count[RN_ERROR] == errors;
}

/* --- name and replaces -------------------------------------------------------------- */

static void read_replaced(struct rn_envoy_reader *r, const struct rn_node *item,
                          struct rn_slice own, struct rn_slice *replaced)
{
    const struct rn_node *fields[RN_ENVOY_FIELDS_MAX];

    if (!rn_envoy_expect(r, item, RN_NODE_MAP, "write - name: and the name of a rate_limit"))
        return;
    rn_envoy_read_fields(r, item, RN_ENVOY_REPLACES, fields);
    const struct rn_node *name = fields[0];

    if (!name || (name->kind == RN_NODE_SCALAR && name->text.len == 0))
        rn_report_error(r->report, name ? name->at : item->at,
                        "replaces without a name; write the name of another rate_limit");
    else if (!rn_node_as_text(name, r->report, replaced))
        return;
    else if (rn_slice_equal(*replaced, own))
        rn_report_error(r->report, name->at,
                        "rate_limit %s replaces itself; write the name of another one",
                        rn_excerpt(own).text);
    *replaced = rn_builder_dup(r->builder, *replaced);
}

static void read_names(struct rn_envoy_reader *r, const struct rn_node *const *fields,
                       struct rn_envoy_limit *limit)
{
    const struct rn_node *name = fields[RN_LIMIT_NAME], *list = fields[RN_LIMIT_REPLACES];
    struct rn_envoy_named *named;
    uint32_t i = 0;

    if (name && rn_node_as_text(name, r->report, &limit->name))
        limit->name = rn_builder_dup(r->builder, limit->name);
    if (list && !rn_envoy_expect(r, list, RN_NODE_LIST, "write - name: for each, below it"))
        list = NULL;
    if (!limit->name.data && !list)
        return;
    named = rn_builder_alloc(r->builder, 1, sizeof *named);
    struct rn_slice *replaces =
        rn_builder_alloc(r->builder, list ? list->count : 0, sizeof *replaces);

    if (!named || !replaces)
        return;
    *named = (struct rn_envoy_named){.limit = limit, .replaces = list, .next = r->named};
    r->named = named;
    limit->replaces = replaces;
    if (!list)
        return;
    RN_NODE_EACH(item, list)
        read_replaced(r, item, limit->name, &replaces[i++]);
    limit->replaces_count = i;
}

static int by_text(const void *a, const void *b)
{
    return rn_slice_compare(*(const struct rn_slice *)a, *(const struct rn_slice *)b);
}

void rn_envoy_check_replaces(struct rn_envoy_reader *r)
{
    size_t count = 0;

    for (const struct rn_envoy_named *n = r->named; n; n = n->next)
        count++;
    struct rn_slice *names = rn_builder_alloc(r->builder, count, sizeof *names);

    if (!names)
        return;
    count = 0;
    for (const struct rn_envoy_named *n = r->named; n; n = n->next)
        names[count++] = n->limit->name;
    qsort(names, count, sizeof *names, by_text);
    for (const struct rn_envoy_named *n = r->named; n; n = n->next) {
        uint32_t i = 0;

        if (!n->replaces)
            continue;
        RN_NODE_EACH(item, n->replaces) {
            struct rn_slice name = n->limit->replaces[i++];

            if (name.len != 0 && !bsearch(&name, names, count, sizeof *names, by_text))
                rn_report_warning(r->report, item->at,
                                  "no rate_limit of this domain is named %s; nothing is replaced",
                                  rn_excerpt(name).text);
        }
    }
}

/* --- the block ---------------------------------------------------------------------- */

/* Whether two keys give the amount; if so, reports it. */
static bool is_given_twice(struct rn_envoy_reader *r, const struct rn_node *const *fields,
                           bool unlimited)
{
    const struct rn_node *unit = fields[RN_LIMIT_UNIT], *text = fields[RN_LIMIT_TEXT];
    const struct rn_node *requests = fields[RN_LIMIT_REQUESTS];

    if (unlimited && unit)
        rn_report_error(r->report, unit->key->at, "unit together with unlimited; keep one of them");
    else if (unlimited && text)
        rn_report_error(r->report, text->key->at,
                        "limit together with unlimited; keep one of them");
    else if (text && (unit || requests))
        rn_report_error(r->report, (unit ? unit : requests)->key->at,
                        "%s together with limit, which says it all; keep one of them",
                        unit ? "unit" : "requests_per_unit");
    else
        return false;
    return true;
}

bool rn_envoy_read_limit(struct rn_envoy_reader *r, const struct rn_node *map,
                         struct rn_envoy_limit *limit, struct ration_limit *spec)
{
    static const int idle[] = {RN_LIMIT_REQUESTS, RN_LIMIT_ALGORITHM, RN_LIMIT_BURST,
                               RN_LIMIT_SUB_WINDOWS, RN_LIMIT_QUEUE};
    const struct rn_node *fields[RN_ENVOY_FIELDS_MAX];
    bool ok;

    if (!rn_envoy_expect(r, map, RN_NODE_MAP,
                         "write unit and requests_per_unit, or limit and a text, below it"))
        return false;
    rn_envoy_read_fields(r, map, RN_ENVOY_RATE_LIMIT, fields);
    read_names(r, fields, limit);
    r->queue = fields[RN_LIMIT_QUEUE];
    limit->unlimited = rn_envoy_read_flag(r, fields[RN_LIMIT_UNLIMITED]);
    *spec = (struct ration_limit){.algorithm = RATION_UNLIMITED};
    if (is_given_twice(r, fields, limit->unlimited))
        return false;
    if (limit->unlimited)
        ok = true;
    else if (fields[RN_LIMIT_TEXT])
        ok = read_text(r, fields[RN_LIMIT_TEXT], limit, spec);
    else
        ok = read_amount(r, map, fields, limit, spec);
    limit->unlimited = ok && spec->algorithm == RATION_UNLIMITED;
    if (!limit->unlimited)
        return read_extras(r, fields, spec) && ok;
    for (size_t i = 0; i < RN_COUNT(idle); i++)
        if (fields[idle[i]])
            rn_report_warning(r->report, fields[idle[i]]->key->at,
                              "%s has no effect on what is unlimited; leave it out",
                              rn_excerpt(fields[idle[i]]->key->text).text);
    return true;
}
