/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is an answer that does not end: the connection is paused, and a line goes out each
 * second, from the control loop's tick. What all streams have in common is written once. A reader
 * that leaves too much loses lines: nothing piles up, and after half a minute its stream ends.
 */
#include "front/admin/live.h"

#include <stdlib.h>

#include <ration/wait.h>

#include "base/clock.h"
#include "front/admin/admin_internal.h"
#include "front/admin/query.h"
#include "front/admin/timeline.h"
#include "wire/format.h"

#define UNTAKEN_MAX ((size_t)64 << 10) /* bytes that a reader may leave, and get another line */
#define MISSED_MAX 30                  /* lines in a row: then its place is for others */

struct rn_live_stream {
    struct rn_live_stream *next, **link;
    struct rn_front *front;
    struct rn_conn *conn;
    struct rn_token_shown token; /* .token NULL: none was needed */
    unsigned missed;             /* lines in a row */
    uint64_t left;               /* lines until the end; 0: there is none */
    bool chunked;                /* HTTP/1.1; otherwise the lines end with the connection */
    size_t rule_count;
    struct live_rule {
        uint64_t hash;
        size_t name_at; /* in `names`, as JSON, with its quotes */
    } rules[RN_LIVE_RULES_MAX];
    struct rn_buf names;
};

/* --- lines ------------------------------------------------------------------------------------ */

/* Of the last sample's seconds, the one that is written. */
static unsigned last_of(const struct rn_timeline *h)
{
    return h->fresh > 0 ? h->fresh - 1 : 0;
}

static void put_count(struct rn_members *m, const struct rn_timeline *h, size_t kind,
                      uint32_t counted, unsigned at)
{
    rn_members_u64(m, rn_timeline_names[kind],
                   rn_timeline_share(counted, h->fresh > 0 ? h->fresh : 1, at));
}

static void put_time(struct rn_members *m, const struct rn_timeline *h, size_t kind)
{
    char text[RN_TIMELINE_TIME_MAX];

    if (h->counted[kind] == RN_TIMELINE_NONE) {
        rn_members_null(m, rn_timeline_names[kind]);
        return;
    }
    rn_members_name(m, rn_timeline_names[kind]);
    rn_buf_put(m->out, text, (size_t)(rn_timeline_format_time(text, h->counted[kind]) - text));
}

/* The line for second `at`, up to the rules. */
static void put_total(struct rn_buf *out, struct rn_front *front, unsigned at)
{
    const struct rn_timeline *h = front->timeline;
    const struct ration_memory *memory = rn_front_memory(front, RN_FRONT_MEMORY_WATCHED);
    struct rn_members m = {.out = out};
    struct ration_waiting_totals waiting;

    ration_waiting_totals(front->limiter, &waiting);
    rn_members_open(&m, NULL, '{');
    rn_members_u64(&m, "time", (uint64_t)rn_timeline_unix(h, h->end - last_of(h) + at));
    rn_members_open(&m, "total", '{');
    for (size_t k = 0; k < RN_TIMELINE_COUNTS; k++)
        put_count(&m, h, k, h->counted[k], at);
    put_time(&m, h, RN_TIMELINE_P50);
    put_time(&m, h, RN_TIMELINE_P99);
    rn_members_close(&m, '}');
    rn_members_u64(&m, "waiting", waiting.waiting);
    rn_members_bool(&m, "shadow", ration_shadow(front->limiter));
    rn_members_u64(&m, "rules_version", ration_rules_version(front->limiter));
    rn_members_u64(&m, "live_keys", memory->live);
    rn_members_u64(&m, "capacity", memory->capacity);
    if (!front->store.arg)
        rn_members_null(&m, "store");
    else
        rn_members_text(&m, "store",
                        front->store.is_up(front->store.arg) ? RN_SLICE("up") : RN_SLICE("down"));
    rn_members_open(&m, "rules", '[');
}

/* The rules of the stream that are in force, and the end of the line. */
static void put_rules(struct rn_buf *out, const struct rn_live_stream *stream, unsigned at)
{
    const struct rn_timeline *h = stream->front->timeline;
    struct rn_members m = {.out = out};

    for (size_t i = 0; i < stream->rule_count; i++) {
        const struct rn_activity_rule *rule = rn_activity_find(h->activity, stream->rules[i].hash);

        if (!rule)
            continue;
        rn_members_open(&m, NULL, '{');
        rn_members_name(&m, "name");
        rn_buf_put_slice(out, rn_slice_of(stream->names.data + stream->rules[i].name_at));
        for (size_t k = 0; k < RN_TIMELINE_RULE_KINDS; k++)
            put_count(&m, h, k, rule->counted[k], at);
        rn_members_close(&m, '}');
    }
    rn_buf_put_literal(out, "]}\n");
}

/* `rest` is emptied. */
static void put_line(struct rn_buf *out, const struct rn_live_stream *stream, struct rn_slice total,
                     struct rn_buf *rest, unsigned at)
{
    rn_buf_clear(rest);
    put_rules(rest, stream, at);
    if (rest->failed) /* out of memory: this line is lost */
        return;
    if (stream->chunked)
        rn_buf_putf(out, "%zx\r\n", total.len + rest->len);
    rn_buf_put_slice(out, total);
    rn_buf_put_slice(out, rn_buf_slice(rest));
    if (stream->chunked)
        rn_buf_put_literal(out, "\r\n");
}

/* --- streams ---------------------------------------------------------------------------------- */

void rn_live_drop(struct rn_live_stream *stream)
{
    if (!stream)
        return;
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    stream->front->streams_open--;
    rn_buf_done(&stream->names);
    free(stream);
}

static void end(struct rn_live_stream *stream)
{
    struct rn_conn *conn = stream->conn;
    struct rn_http_state *state = rn_conn_state(conn);

    if (stream->chunked && !rn_conn_is_gone(conn))
        rn_buf_put_literal(rn_conn_out(conn), "0\r\n\r\n");
    state->stream = NULL;
    rn_live_drop(stream);
    rn_conn_close(conn);
}

void rn_front_end_streams(struct rn_front *front)
{
    while (front->streams)
        end(front->streams);
}

static void write_lines(struct rn_front *front)
{
    unsigned fresh = front->timeline->fresh;
    struct rn_buf totals[RN_TIMELINE_LATE_MAX] = {0}, rest = {0};

    for (unsigned at = 0; at < fresh; at++)
        put_total(&totals[at], front, at);
    for (struct rn_live_stream *stream = front->streams, *next; stream; stream = next) {
        next = stream->next;
        if (stream->token.token && !rn_token_of(&stream->token)) {
            end(stream);
            continue;
        }
        if (rn_conn_is_gone(stream->conn))
            continue;
        if (rn_conn_untaken(stream->conn) > UNTAKEN_MAX) {
            front->lines_skipped += fresh;
            stream->missed += fresh;
            if (stream->missed >= MISSED_MAX)
                end(stream);
            continue;
        }
        stream->missed = 0;
        for (unsigned at = 0; at < fresh && stream; at++) {
            if (!totals[at].failed)
                put_line(rn_conn_out(stream->conn), stream, rn_buf_slice(&totals[at]), &rest, at);
            if (stream->left != 0 && --stream->left == 0) {
                end(stream);
                stream = NULL;
            }
        }
    }
    for (unsigned at = 0; at < fresh; at++)
        rn_buf_done(&totals[at]);
    rn_buf_done(&rest);
}

void rn_front_sample(struct rn_front *front)
{
    int64_t boot_ns = rn_clock_boot_ns();
    struct rn_histogram latency = {.sum_ns = 0};

    if (!rn_timeline_is_due(front->timeline, boot_ns))
        return;
    for (unsigned i = 0; i < front->loop_count; i++)
        for (size_t p = 0; p < RN_FRONT_ADMIN; p++) /* the protocols that decide */
            rn_metrics_histogram_merge(&latency, &front->loops[i].counts.latency[p]);
    rn_timeline_sample(front->timeline, boot_ns, rn_clock_wall_ns(), &latency);
    if (front->streams)
        write_lines(front);
}

/* --- the request ------------------------------------------------------------------------------ */

static struct rn_live_stream *new_stream(struct rn_http_context *c, const struct rn_slice *names,
                                         size_t count)
{
    struct rn_live_stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return NULL;
    stream->front = c->front;
    stream->conn = c->conn;
    stream->chunked = c->request->minor != 0;
    if (c->token)
        stream->token = (struct rn_token_shown){
            c->token, __atomic_load_n(&c->token->version, __ATOMIC_RELAXED)};
    for (size_t i = 0; i < count; i++) {
        stream->rules[i] = (struct live_rule){
            rn_activity_hash(c->front->timeline->activity, names[i]), stream->names.len};
        rn_json_put_string(&stream->names, names[i]);
        rn_buf_put_char(&stream->names, '\0');
    }
    stream->rule_count = count;
    if (!stream->names.failed)
        return stream;
    rn_buf_done(&stream->names);
    free(stream);
    return NULL;
}

static void start(struct rn_http_context *c, struct rn_live_stream *stream)
{
    struct rn_front *front = c->front;

    stream->next = front->streams;
    stream->link = &front->streams;
    if (stream->next)
        stream->next->link = &stream->next;
    front->streams = stream;
    front->streams_open++;
    ((struct rn_http_state *)rn_conn_state(c->conn))->stream = stream;
    c->keep_alive = RN_HTTP_KEEP; /* end() closes the connection */
    rn_conn_pause(c->conn);
}

/* False after answering that there is no stream now. A fifth of the connections stays for others.
 */
static bool has_room(struct rn_http_context *c)
{
    uint32_t places = rn_server_control_connections(c->front->server) * 4 / 5;
    unsigned most = places < RN_LIVE_STREAMS_MAX ? places : RN_LIVE_STREAMS_MAX;

    if (rn_server_stopping(c->front->server)) {
        rn_front_http_error(c, 503, "draining", "rationd is stopping");
        return false;
    }
    if (c->front->streams_open < most)
        return true;
    rn_front_http_error(c, 503, "busy",
                        "%u streams are open, which is the most; close another page", most);
    return false;
}

/* The first line tells the last second that is over. */
static void put_first(struct rn_http_context *c, const struct rn_live_stream *stream)
{
    const struct rn_timeline *h = c->front->timeline;
    struct rn_buf rest = {0};

    rn_activity_follow(h->activity);
    rn_buf_clear(&c->ws->scratch);
    put_total(&c->ws->scratch, c->front, last_of(h));
    put_line(c->out, stream, rn_buf_slice(&c->ws->scratch), &rest, last_of(h));
    rn_buf_done(&rest);
}

void rn_admin_get_live(struct rn_http_context *c)
{
    struct rn_query_field fields[] = {{.name = "rules"}, {.name = "lines"}};
    struct rn_slice names[RN_LIVE_RULES_MAX];
    struct rn_live_stream *stream;
    uint64_t lines = 0;
    size_t count;

    if (!rn_query_read(c, fields, RN_COUNT(fields)) ||
        !rn_query_names(c, &fields[0], RN_LIVE_RULES_MAX, names, &count) ||
        !rn_query_number(c, &fields[1], 1, UINT32_MAX, &lines) || !has_room(c))
        return;
    stream = new_stream(c, names, count);
    if (!stream) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    rn_http_put_status(c->out, 200);
    rn_http_put_header(c->out, "Content-Type", RN_SLICE("application/x-ndjson"));
    rn_http_put_header(c->out, "Cache-Control", RN_SLICE("no-store"));
    rn_http_put_header(c->out, "Connection", RN_SLICE("close"));
    if (stream->chunked)
        rn_http_put_header(c->out, "Transfer-Encoding", RN_SLICE("chunked"));
    rn_buf_put_literal(c->out, "\r\n");
    if (!c->head)
        put_first(c, stream);
    if (!c->head && lines != 1) {
        stream->left = lines > 1 ? lines - 1 : 0;
        start(c, stream);
        return;
    }
    if (!c->head && stream->chunked)
        rn_buf_put_literal(c->out, "0\r\n\r\n");
    c->keep_alive = RN_HTTP_CLOSE;
    rn_buf_done(&stream->names);
    free(stream);
}

void rn_admin_metrics_put_live(struct rn_buf *out, const struct rn_front *front)
{
    rn_metrics_put_gauge(out, "ration_history_bytes",
                         "Memory reserved for what was decided in the last hour and day.",
                         rn_timeline_bytes());
    rn_metrics_put_gauge(out, "ration_live_streams", "Streams of GET /v1/live that are open.",
                         front->streams_open);
    rn_metrics_put_counter(
        out, "ration_live_lines_skipped_total",
        "Lines that were not sent because the reader had not taken those before.",
        front->lines_skipped);
}
