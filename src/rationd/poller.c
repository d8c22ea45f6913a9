/* SPDX-License-Identifier: Apache-2.0 */
#include "rationd/poller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"
#include "net/log.h"
#include "net/server.h"
#include "wire/metrics.h"

#define PATIENCE_NS (5 * RN_SECOND_NS) /* for an answer, unless the next question is due sooner */

/* --- one question -------------------------------------------------------------------------- */

static int64_t now_of(const struct rn_poller *poller)
{
    return rn_wheel_now(rn_loop_wheel(poller->loop));
}

/* Logs a problem when it is another than the last time. */
static void fail(struct rn_poller_query *q, const char *problem)
{
    q->failures++;
    if (strcmp(q->problem, problem) == 0)
        return;
    snprintf(q->problem, sizeof q->problem, "%s", problem);
    rn_log(RN_LOG_WARN, "signal.query_failed", RN_LOG_TEXT("signal", q->signal.name),
           RN_LOG_TEXT("url", q->signal.url), RN_LOG_TEXT("error", rn_slice_of(q->problem)));
}

static void finish(struct rn_poller_query *q, const char *problem)
{
    char why[RN_PROMETHEUS_PROBLEM];
    int64_t millionths = 0;
    double value = 0;

    q->asking = false;
    if (q->poller->dropping)
        return;
    if (problem == NULL && !rn_prometheus_read(q->answer.data, q->answer.len, &value, why))
        problem = why;
    if (problem == NULL && !rn_signals_from_double(value, &millionths))
        problem = "the query yields a number beyond 1e12";
    rn_buf_clear(&q->answer);
    if (problem != NULL) {
        fail(q, problem);
        return;
    }
    if (q->problem[0] != '\0')
        rn_log(RN_LOG_INFO, "signal.query_answered", RN_LOG_TEXT("signal", q->signal.name));
    q->problem[0] = '\0';
    struct ration *r = q->poller->limiter;

    rn_signals_set(r->table, &q->signal, rn_table_now(r->table), millionths);
}

static void opened(struct rn_conn *conn)
{
    struct rn_poller_query *q = rn_conn_context(conn);
    const struct rn_prometheus_query query = {q->signal.host, q->signal.port, q->signal.path,
                                              q->signal.query};

    q->opened = true;
    rn_prometheus_put_query(rn_conn_out(conn), &query);
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    struct rn_poller_query *q = rn_conn_context(conn);

    if (q->stopped == NULL)
        rn_buf_put(&q->answer, data, len);
    if (q->answer.len > RN_PROMETHEUS_ANSWER_MAX || q->answer.failed) {
        q->stopped = "the answer is longer than 64 KiB; write a query that yields one number";
        rn_conn_close(conn);
    }
    return len;
}

static void closed(struct rn_conn *conn)
{
    struct rn_poller_query *q = rn_conn_context(conn);

    q->conn = NULL;
    finish(q, q->stopped != NULL ? q->stopped : q->opened ? NULL : "no connection could be made");
}

static const struct rn_protocol protocol = {.name = "prometheus",
                                            .message_ns = PATIENCE_NS,
                                            .message_max = RN_PROMETHEUS_ANSWER_MAX,
                                            .opened = opened,
                                            .received = received,
                                            .closed = closed};

static void dial(struct rn_poller_query *q, const struct rn_address *to)
{
    q->conn = rn_dialler_connect(q->dialler, to);
    if (q->conn == NULL)
        finish(q, strerror(errno));
}

static void resolved(void *arg, const struct rn_address *found, size_t count, const char *why)
{
    struct rn_poller_query *q = arg;

    q->resolving = NULL;
    if (count == 0)
        finish(q, why);
    else
        dial(q, &found[0]);
}

static void ask(struct rn_poller_query *q, int64_t now_ns)
{
    struct ration_error error;
    struct rn_address to;

    q->asking = true;
    q->opened = false;
    q->stopped = NULL;
    q->due_ns = now_ns + q->signal.every_ns;
    q->until_ns = now_ns + (q->signal.every_ns < PATIENCE_NS ? q->signal.every_ns : PATIENCE_NS);
    rn_buf_clear(&q->answer);
    if (rn_address_is_name(q->address)) {
        q->resolving = rn_resolve_begin(q->poller->loop, q->address, resolved, q);
        if (q->resolving == NULL)
            finish(q, "the name cannot be looked up");
    } else if (rn_address_parse(q->address, &to, &error) == 0) {
        dial(q, &to);
    } else {
        finish(q, error.text);
    }
}

/* Ends the question, if there is one, without an answer. */
static void give_up(struct rn_poller_query *q, const char *why)
{
    if (!q->asking)
        return;
    q->stopped = why;
    if (q->resolving != NULL) {
        rn_resolve_cancel(q->resolving);
        q->resolving = NULL;
        finish(q, why);
    } else if (q->conn != NULL) {
        rn_dialler_close(q->conn);
    }
}

/* --- all of them ------------------------------------------------------------------------------ */

static void drop_queries(struct rn_poller *poller)
{
    poller->dropping = true;
    for (uint32_t i = 0; i < poller->count; i++) {
        struct rn_poller_query *q = &poller->queries[i];

        give_up(q, "");
        if (q->dialler != NULL)
            rn_dialler_free(q->dialler);
        rn_buf_done(&q->answer);
        free(q->texts);
    }
    free(poller->queries);
    poller->queries = NULL;
    poller->count = 0;
    poller->dropping = false;
}

/* A query with its own copy of the texts. False: out of memory. */
static bool prepare(struct rn_poller *poller, const struct rn_signal *signal,
                    struct rn_poller_query *q)
{
    struct rn_slice *const fields[] = {&q->signal.name, &q->signal.url, &q->signal.query,
                                       &q->signal.host, &q->signal.path};
    size_t len = 0, at = 0;

    *q = (struct rn_poller_query){.poller = poller, .signal = *signal};
    rn_buf_init(&q->answer);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        len += fields[i]->len + 1;
    q->texts = malloc(len);
    q->dialler = rn_dialler_new(poller->loop, "prometheus", &protocol, q);
    if (q->texts == NULL || q->dialler == NULL)
        return false;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        memcpy(q->texts + at, fields[i]->data, fields[i]->len);
        fields[i]->data = q->texts + at;
        at += fields[i]->len + 1;
    }
    bool is_v6 = memchr(q->signal.host.data, ':', q->signal.host.len) != NULL;

    snprintf(q->address, sizeof q->address, is_v6 ? "[%.*s]:%u" : "%.*s:%u",
             (int)q->signal.host.len, q->signal.host.data, q->signal.port);
    return true;
}

/* Makes the queries of other rules. */
static void renew(struct rn_poller *poller)
{
    struct rn_pin pin = rn_pin_take_counted(&poller->limiter->shelf);
    const struct rn_ruleset *set = pin.book != NULL ? pin.book->ruleset : NULL;
    uint32_t count = 0;

    if (pin.book != NULL && poller->version != pin.book->version + 1) {
        drop_queries(poller);
        poller->version = pin.book->version + 1;
        for (uint32_t i = 0; i < set->signal_count; i++)
            count += set->signals[i].source == RN_SIGNAL_PROMETHEUS;
        poller->queries = calloc(count + 1, sizeof *poller->queries);
        for (uint32_t i = 0; poller->queries != NULL && i < set->signal_count; i++)
            if (set->signals[i].source == RN_SIGNAL_PROMETHEUS) {
                bool ready = prepare(poller, &set->signals[i], &poller->queries[poller->count++]);

                if (!ready)
                    poller->queries[poller->count - 1].due_ns = INT64_MAX;
            }
    }
    rn_pin_drop(&pin);
}

void rn_poller_tick(struct rn_poller *poller)
{
    int64_t now_ns = now_of(poller);

    renew(poller);
    for (uint32_t i = 0; i < poller->count; i++) {
        struct rn_poller_query *q = &poller->queries[i];

        if (q->asking && now_ns >= q->until_ns)
            give_up(q, "there was no answer in time");
        if (!q->asking && now_ns >= q->due_ns)
            ask(q, now_ns);
    }
}

void rn_poller_done(struct rn_poller *poller)
{
    drop_queries(poller);
}

void rn_poller_put_metrics(void *arg, struct rn_buf *out)
{
    static const char name[] = "ration_signal_query_failures_total";
    const struct rn_poller *poller = arg;

    rn_metrics_begin(out, name, RN_METRICS_COUNTER,
                     "Questions to Prometheus servers that had no usable answer.");
    for (uint32_t i = 0; i < poller->count; i++) {
        struct rn_metrics_label label = RN_METRICS_LABEL("signal", poller->queries[i].signal.name);

        rn_metrics_put(out, name, &label, 1, poller->queries[i].failures);
    }
}
