/* SPDX-License-Identifier: Apache-2.0 */
/* What front asks of room net, answered by a connection that is only memory. */
#include "paper.h"

#include <stdlib.h>
#include <string.h>

#include "front/front.h"
#include "steps.h"

#define FIRST 10 /* wake-ups before those that are counted: see bench_steps */

struct rn_conn {
    _Alignas(16) char state[1024];
    struct rn_front *front;
    struct rn_peer peer;
    struct rn_buf out;
};

void *rn_conn_state(struct rn_conn *conn)
{
    return conn->state;
}

void *rn_conn_context(const struct rn_conn *conn)
{
    return conn->front;
}

struct rn_loop *rn_conn_loop(const struct rn_conn *conn)
{
    (void)conn;
    return NULL;
}

struct rn_wheel *rn_conn_wheel(const struct rn_conn *conn)
{
    (void)conn;
    return NULL;
}

bool rn_conn_is_tls(const struct rn_conn *conn)
{
    (void)conn;
    return false;
}

const struct rn_peer *rn_conn_peer(const struct rn_conn *conn)
{
    return &conn->peer;
}

struct rn_buf *rn_conn_out(struct rn_conn *conn)
{
    return &conn->out;
}

void rn_conn_pause(struct rn_conn *conn)
{
    (void)conn;
    abort(); /* nothing here waits */
}

void rn_conn_resume(struct rn_conn *conn)
{
    (void)conn;
}

void rn_conn_ref(struct rn_conn *conn)
{
    (void)conn;
}

void rn_conn_unref(struct rn_conn *conn)
{
    (void)conn;
}

void rn_conn_consumed(struct rn_conn *conn, size_t used)
{
    (void)conn, (void)used;
}

void rn_conn_call_before_sleep(struct rn_conn *conn)
{
    (void)conn;
}

void rn_conn_close(struct rn_conn *conn)
{
    (void)conn;
    abort(); /* no command here is bad */
}

bool rn_conn_is_full(const struct rn_conn *conn)
{
    (void)conn;
    return false;
}

bool rn_conn_draining(const struct rn_conn *conn)
{
    (void)conn;
    return false;
}

bool rn_conn_has_input(const struct rn_conn *conn)
{
    (void)conn;
    return false;
}

size_t rn_conn_untaken(const struct rn_conn *conn)
{
    (void)conn;
    return 0;
}

bool rn_conn_is_gone(const struct rn_conn *conn)
{
    (void)conn;
    return false;
}

unsigned rn_loop_index(const struct rn_loop *loop)
{
    (void)loop;
    return 0;
}

struct rn_wheel *rn_loop_wheel(struct rn_loop *loop)
{
    (void)loop;
    return NULL;
}

void rn_loop_wake(struct rn_loop *loop)
{
    (void)loop;
}

void rn_loop_on_wake(struct rn_loop *loop, void (*call)(void *arg), void *arg)
{
    (void)loop, (void)call, (void)arg;
}

void rn_loop_run_while(struct rn_loop *loop, bool (*is_busy)(const void *arg), const void *arg,
                       int64_t most_ns)
{
    (void)loop, (void)is_busy, (void)arg, (void)most_ns;
}

uint32_t rn_server_control_connections(const struct rn_server *server)
{
    (void)server;
    return 0;
}

unsigned rn_server_workers(const struct rn_server *server)
{
    (void)server;
    return 1;
}

bool rn_server_stopping(const struct rn_server *server)
{
    (void)server;
    return false;
}

const char *rn_server_address(const struct rn_server *server, const char *name)
{
    (void)server, (void)name;
    return NULL;
}

void rn_server_counts(const struct rn_server *server, const char *name,
                      struct rn_server_counts *counts)
{
    (void)server, (void)name;
    *counts = (struct rn_server_counts){0};
}

uint64_t rn_server_unfinished(const struct rn_server *server)
{
    (void)server;
    return 0;
}

void rn_timer_set(struct rn_wheel *wheel, struct rn_timer *timer, int64_t at_ns)
{
    (void)wheel, (void)timer, (void)at_ns;
}

void rn_timer_cancel(struct rn_wheel *wheel, struct rn_timer *timer)
{
    (void)wheel, (void)timer;
}

int64_t rn_wheel_now(const struct rn_wheel *wheel)
{
    (void)wheel;
    return 0;
}

/* --- wake-ups ---------------------------------------------------------------------------- */

struct wake_ups {
    struct rn_conn conn;
    const struct rn_protocol *protocol;
    char *next; /* a copy of the bytes for each wake-up, made before: parsers may change them */
    size_t len;
};

static void wake(void *context, uint64_t count)
{
    struct wake_ups *w = context;

    for (; count > 0; count--) {
        w->conn.out.len = 0;
        if (w->protocol->received(&w->conn, w->next, w->len) != w->len)
            abort();
        w->next += w->len;
    }
}

double paper_steps(struct rn_front *front, const struct rn_protocol *protocol,
                   struct rn_slice bytes, unsigned repeat)
{
    struct wake_ups w = {
        .conn = {.front = front, .peer = {.local = true}}, .protocol = protocol, .len = bytes.len};
    char *copies = malloc((FIRST + repeat) * bytes.len);

    if (!copies)
        abort();
    for (unsigned i = 0; i < FIRST + repeat; i++)
        memcpy(copies + i * bytes.len, bytes.data, bytes.len);
    w.next = copies;
    if (protocol->opened)
        protocol->opened(&w.conn);
    double steps = bench_steps(wake, &w, repeat);

    rn_buf_done(&w.conn.out);
    free(copies);
    return steps;
}

/* --- requests ---------------------------------------------------------------------------- */

static struct rn_slice attribute_name(const struct ration_attribute *a)
{
    return (struct rn_slice){a->name, a->name_len};
}

static struct rn_slice attribute_value(const struct ration_attribute *a)
{
    return (struct rn_slice){a->value, a->value_len};
}

static void put_bulk(struct rn_buf *bytes, struct rn_slice text)
{
    rn_buf_putf(bytes, "$%zu\r\n%.*s\r\n", text.len, (int)text.len, text.data);
}

void paper_put_resp_check(struct rn_buf *bytes, const struct ration_request *request)
{
    rn_buf_putf(bytes, "*%zu\r\n", 1 + 2 * request->count);
    put_bulk(bytes, rn_slice_of("RATION.CHECK"));
    for (size_t i = 0; i < request->count; i++) {
        put_bulk(bytes, attribute_name(&request->attributes[i]));
        put_bulk(bytes, attribute_value(&request->attributes[i]));
    }
}

void paper_put_http_post(struct rn_buf *bytes, const char *path, const char *body)
{
    rn_buf_putf(bytes,
                "POST %s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: "
                "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                path, strlen(body), body);
}

void paper_put_http_check(struct rn_buf *bytes, const struct ration_request *request)
{
    struct rn_buf body = {0};

    rn_buf_putf(&body, "{\"attributes\":{");
    for (size_t i = 0; i < request->count; i++) {
        struct rn_slice name = attribute_name(&request->attributes[i]);
        struct rn_slice value = attribute_value(&request->attributes[i]);

        rn_buf_putf(&body, "%s\"%.*s\":\"%.*s\"", i > 0 ? "," : "", (int)name.len, name.data,
                    (int)value.len, value.data);
    }
    rn_buf_putf(&body, "}}%c", '\0');
    paper_put_http_post(bytes, "/v1/check", body.data);
    rn_buf_done(&body);
}
