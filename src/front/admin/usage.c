/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage of clients, for billing: pages of it as JSON or CSV, and its metrics.
 *
 * A page ends with a cursor, from which the next one goes on. It has the place in the file, the
 * time that `current` and `last` go by, and a hash of these, the filters and the file's identity:
 * a cursor of another question or another file is refused, because it would leave rows out.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/siphash.h"
#include "front/admin/admin_internal.h"
#include "rules/report/report.h"
#include "wire/export.h"

#define PAGE_COUNT 1000              /* rows of a page by default */
#define PAGE_MAX 10000               /* and at most */
#define PAGE_BYTES ((size_t)1 << 20) /* a longer page begins no further batch */
#define BATCH 1000                   /* rows */

struct usage_params {
    struct rn_slice rule, client, period; /* data NULL: not given */
    struct rn_slice cursor;
    uint64_t limit; /* rows of the page */
    bool csv;
    bool node;  /* only what this node has counted */
    bool fleet; /* asked for by name */
};

/* --- parameters of a page -------------------------------------------------------------------- */

static bool refuse_value(struct rn_http_context *c, const char *name, struct rn_slice value,
                         const char *right)
{
    rn_front_http_error(c, 400, "bad_request", "%s must be %s, found %s", name, right,
                        rn_excerpt(value).text);
    return false;
}

/* False after answering. */
static bool read_one(struct rn_http_context *c, struct usage_params *p, struct rn_slice name,
                     struct rn_slice value)
{
    static const char *const names[] = {"rule",  "client", "period", "cursor",
                                        "limit", "format", "scope"};
    struct rn_slice *const texts[] = {&p->rule, &p->client, &p->period, &p->cursor};
    struct rn_json_token number = {.kind = RN_JSON_NUMBER, .text = value};
    size_t i = rn_slice_find(name, names, RN_COUNT(names));
    const char *meant = rn_suggest(name, names, RN_COUNT(names));

    if (i < RN_COUNT(texts)) {
        *texts[i] = value.data ? value : RN_SLICE("");
    } else if (rn_slice_is(name, "limit")) {
        if (!rn_json_u64(&number, &p->limit) || p->limit < 1 || p->limit > PAGE_MAX)
            return refuse_value(c, "limit", value, "a number from 1 to 10000");
    } else if (rn_slice_is(name, "format")) {
        p->csv = rn_slice_is(value, "csv");
        if (!p->csv && !rn_slice_is(value, "json"))
            return refuse_value(c, "format", value, "csv or json");
    } else if (rn_slice_is(name, "scope")) {
        p->node = rn_slice_is(value, "node");
        p->fleet = rn_slice_is(value, "fleet");
        if (!p->node && !p->fleet)
            return refuse_value(c, "scope", value, "node or fleet");
    } else {
        rn_front_http_error(c, 400, "bad_request", "unknown parameter %s%s%s%s",
                            rn_excerpt(name).text, meant ? "; did you mean " : "",
                            meant ? meant : "", meant ? "?" : "");
        return false;
    }
    return true;
}

static bool read_page(struct rn_http_context *c, struct usage_params *p)
{
    struct rn_slice rest = c->request->query, name, value;
    char *decoded = c->ws->names; /* a target is no longer than a head */
    bool bad = false;

    *p = (struct usage_params){.limit = PAGE_COUNT};
    while (rn_http_query_next(&rest, &decoded, &name, &value, &bad)) {
        if (bad)
            return rn_admin_refuse_escape(c);
        if (!read_one(c, p, name, value))
            return false;
    }
    if (p->fleet && !c->front->fleet.usage_each) {
        rn_front_http_error(c, 400, "bad_request",
                            "no other nodes share usage with this one; leave out scope");
        return false;
    }
    p->node |= !c->front->fleet.usage_each;
    return true;
}

/* --- cursors --------------------------------------------------------------------------------- */

static uint64_t cursor_check(const struct rn_http_context *c, const struct usage_params *p,
                             const struct ration_usage_query *q)
{
    const struct rn_slice texts[] = {p->rule, p->client, p->period};
    struct ration_usage_totals totals = {0};
    struct rn_siphash hash;

    if (p->node)
        ration_usage_totals(c->front->limiter, &totals);
    rn_siphash_init(&hash, &(struct rn_hash_key){totals.incarnation, p->node});
    rn_siphash_add(&hash, &q->cursor, sizeof q->cursor);
    rn_siphash_add(&hash, &q->at_s, sizeof q->at_s);
    for (size_t i = 0; i < RN_COUNT(texts); i++) {
        rn_siphash_add(&hash, texts[i].data ? "1" : "0", 1);
        rn_siphash_add(&hash, texts[i].data, texts[i].len);
    }
    return rn_siphash_done(&hash);
}

/* The rows that are asked for, and where the page begins. False after answering. */
static bool begin_query(struct rn_http_context *c, const struct usage_params *p,
                        struct ration_usage_query *q)
{
    struct ration *r = c->front->limiter;
    uint64_t check;
    char text[64];

    *q = (struct ration_usage_query){.rule = p->rule.data,
                                     .rule_len = p->rule.len,
                                     .client = p->client.data,
                                     .client_len = p->client.len,
                                     .period = p->period.data,
                                     .period_len = p->period.len};
    if (!p->cursor.data) {
        q->at_s = ration_wall(r, ration_now(r)) / 1000000000;
        return true;
    }
    rn_slice_copy(text, sizeof text, p->cursor);
    if (sscanf(text, "%" SCNx64 "-%" SCNx64 "-%" SCNx64, &q->cursor, (uint64_t *)&q->at_s,
               &check) == 3 &&
        q->cursor != 0 && check == cursor_check(c, p, q))
        return true;
    rn_front_http_error(c, 400, "bad_request",
                        "cursor %s does not belong to this question; use the one of the page "
                        "before, with the same rule, client, period and scope, or none to begin",
                        rn_excerpt(p->cursor).text);
    return false;
}

/* </v1/usage?rule=api&cursor=...>; rel="next" */
static void put_link(struct rn_buf *out, struct rn_slice query, const char *cursor)
{
    rn_buf_put_literal(out, "</v1/usage?");
    while (query.len != 0) {
        const char *end = memchr(query.data, '&', query.len);
        size_t len = end ? (size_t)(end - query.data) : query.len;
        bool kept = !rn_slice_starts_with(query, RN_SLICE("cursor=")) && len != 0;

        for (size_t i = 0; kept && i < len; i++)
            if (memchr("<>\"", query.data[i], 3))
                rn_buf_putf(out, "%%%02X", (unsigned)query.data[i]);
            else
                rn_buf_put_char(out, query.data[i]);
        rn_buf_put(out, "&", kept);
        len += end != NULL;
        query = (struct rn_slice){query.data + len, query.len - len};
    }
    rn_buf_putf(out, "cursor=%s>; rel=\"next\"", cursor);
}

/* --- pages ----------------------------------------------------------------------------------- */

struct usage_page {
    struct rn_members m;
    bool csv;
    uint64_t count;
};

static int put_row(void *arg, const struct ration_usage *usage)
{
    struct usage_page *page = arg;

    page->count++;
    if (page->csv) {
        rn_export_csv(page->m.out, usage);
        return 0;
    }
    rn_members_open(&page->m, NULL, '{');
    rn_export_json(&page->m, usage);
    rn_members_close(&page->m, '}');
    return 0;
}

/* Writes rows from q->cursor on, in batches that bound the page, and moves the cursor: 0 at the
 * end. */
static int put_rows(struct rn_http_context *c, const struct usage_params *p,
                    struct ration_usage_query *q, struct usage_page *page,
                    struct ration_error *error)
{
    const struct rn_front_fleet *fleet = &c->front->fleet;
    int code;

    do {
        uint64_t left = p->limit - page->count, next = 0;

        q->limit = left < BATCH ? (size_t)left : BATCH;
        code = p->node ? ration_usage_each(c->front->limiter, q, put_row, page, &next, error)
                       : fleet->usage_each(fleet->arg, q, put_row, page, &next, error);
        q->cursor = next;
    } while (code == 0 && q->cursor != 0 && page->count < p->limit &&
             page->m.out->len < PAGE_BYTES);
    return code;
}

static int put_missing(void *arg, const struct rn_front_missing *node)
{
    struct rn_members *m = arg;

    rn_members_open(m, NULL, '{');
    rn_members_text(m, "node", node->name);
    rn_members_seconds(m, "last_report", node->silent_ns);
    rn_members_u64(m, "unpublished", node->unpublished);
    rn_members_close(m, '}');
    return 0;
}

static int list_missing(void *arg, const struct rn_front_missing *node)
{
    struct rn_buf *names = arg;

    if (names->len != 0)
        rn_buf_put_literal(names, ", ");
    rn_buf_put_slice(names, node->name);
    return 0;
}

static void answer_json(struct rn_http_context *c, const struct usage_params *p,
                        struct usage_page *page, const char *cursor, struct rn_slice link)
{
    const struct rn_front_fleet *fleet = &c->front->fleet;

    rn_members_close(&page->m, ']');
    if (!p->node) {
        rn_members_text(&page->m, "scope", RN_SLICE("fleet"));
        rn_members_open(&page->m, "missing", '[');
        if (fleet->usage_missing)
            fleet->usage_missing(fleet->arg, put_missing, &page->m);
        rn_members_close(&page->m, ']');
    }
    if (link.len != 0)
        rn_members_text(&page->m, "next", rn_slice_of(cursor));
    rn_admin_end_with(c, &page->m, 200, link.len != 0 ? "Link" : NULL, link);
}

static void answer_csv(struct rn_http_context *c, const struct usage_params *p,
                       const struct usage_page *page, struct rn_slice link)
{
    const struct rn_front_fleet *fleet = &c->front->fleet;
    struct rn_buf missing = {0};

    if (!p->node && fleet->usage_missing)
        fleet->usage_missing(fleet->arg, list_missing, &missing);
    if (page->m.out->failed || missing.failed) {
        rn_front_http_error(c, 503, "memory", "out of memory");
    } else {
        rn_http_put_status(c->out, 200);
        if (link.len != 0)
            rn_http_put_header(c->out, "Link", link);
        if (missing.len != 0)
            rn_http_put_header(c->out, "Ration-Missing", rn_buf_slice(&missing));
        rn_http_put_body(c->out, c->keep_alive, c->head,
                         p->cursor.data ? "text/csv; charset=utf-8; header=absent"
                                        : "text/csv; charset=utf-8; header=present",
                         rn_buf_slice(page->m.out));
    }
    rn_buf_done(&missing);
}

void rn_admin_get_usage(struct rn_http_context *c)
{
    struct ration_error error = {0};
    struct rn_buf link = {0};
    struct ration_usage_query q;
    struct usage_params p;
    char cursor[64] = "";

    if (!read_page(c, &p) || !begin_query(c, &p, &q))
        return;
    struct usage_page page = {.m = rn_admin_begin(c), .csv = p.csv};

    if (!p.csv) {
        rn_members_open(&page.m, "usage", '[');
    } else {
        rn_buf_clear(page.m.out);
        if (!p.cursor.data) /* so that all pages one behind the other are one file */
            rn_export_titles(page.m.out);
    }
    int code = put_rows(c, &p, &q, &page, &error);

    if (code == 0 && q.cursor != 0) {
        snprintf(cursor, sizeof cursor, "%" PRIx64 "-%" PRIx64 "-%" PRIx64, q.cursor,
                 (uint64_t)q.at_s, cursor_check(c, &p, &q));
        put_link(&link, c->request->query, cursor);
        page.m.out->failed |= link.failed;
    }
    if (code != 0)
        rn_admin_usage_fail(c, code, p.rule, &error);
    else if (page.count == 0 && !p.cursor.data && p.rule.data && !rn_admin_usage_rule(c, p.rule))
        ; /* answered. A rule that is gone may still have rows */
    else if (p.csv)
        answer_csv(c, &p, &page, rn_buf_slice(&link));
    else
        answer_json(c, &p, &page, cursor, rn_buf_slice(&link));
    rn_buf_done(&link);
}

/* --- metrics --------------------------------------------------------------------------------- */

void rn_admin_metrics_put_usage(struct rn_buf *out, struct rn_front *front)
{
    struct ration_usage_totals totals = {0};

    ration_usage_totals(front->limiter, &totals);
    rn_metrics_put_gauge(out, "ration_usage_entries", "Clients and periods whose usage is kept.",
                         totals.entries);
    rn_metrics_put_gauge(out, "ration_usage_capacity",
                         "Clients and periods that there is room for.", totals.capacity);
    rn_metrics_put_counter(out, "ration_usage_other_total",
                           "How often units were counted as other for lack of room.", totals.other);
    rn_metrics_put_gauge(out, "ration_usage_bytes", "Size of the file that holds usage.",
                         totals.bytes);
}
