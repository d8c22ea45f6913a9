/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions that rationd's own code takes for a decision, from bytes to bytes:
 * reading the command, deciding, counting, writing the reply. Connections are
 * made of paper here: what the kernel and the event loop do is left to
 * bench_server.py.
 *
 *   bench-front
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/http/conversation.h"
#include "front/resp/resp_internal.h"
#include "steps.h"

#define PIPELINE 64
#define STEPPED 4 /* wake-ups, and three times as many: stepping is slow */

/* --- a connection of paper ------------------------------------------------------------- */

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

unsigned rn_loop_index(const struct rn_loop *loop)
{
    (void)loop;
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

/* --- loads --------------------------------------------------------------------------------- */

struct load {
    struct rn_conn conn;
    const struct rn_protocol *protocol;
    char *bytes, *copy; /* what arrives in one wake-up; parsers may change it */
    size_t len;
};

static void run(void *context, uint64_t count)
{
    struct load *load = context;

    for (; count > 0; count--) {
        memcpy(load->copy, load->bytes, load->len);
        load->conn.out.len = 0;
        if (load->protocol->received(&load->conn, load->copy, load->len) != load->len)
            abort();
    }
}

static void add(struct rn_buf *bytes, unsigned i, const char *kind)
{
    char key[32];
    int len = snprintf(key, sizeof key, "key:%012u", i * 7919 % 10000);

    if (strcmp(kind, "CL.THROTTLE") == 0) {
        rn_buf_putf(bytes, "*5\r\n$11\r\nCL.THROTTLE\r\n$%d\r\n%s\r\n", len, key);
        rn_buf_putf(bytes, "$3\r\n999\r\n$4\r\n1000\r\n$1\r\n1\r\n");
    } else if (strcmp(kind, "RATION.CHECK") == 0) {
        rn_buf_putf(bytes, "*5\r\n$12\r\nRATION.CHECK\r\n$4\r\nuser\r\n$%d\r\n%s\r\n", len, key);
        rn_buf_putf(bytes, "$4\r\npath\r\n$10\r\n/api/items\r\n");
    } else {
        char body[128];
        int body_len = snprintf(body, sizeof body,
                                "{\"attributes\":{\"user\":\"%s\",\"path\":\"/api/items\"}}", key);

        rn_buf_putf(bytes,
                    "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: "
                    "application/json\r\nContent-Length: %d\r\n\r\n%s",
                    body_len, body);
    }
}

static double measure(struct rn_front *front, const struct rn_protocol *protocol, const char *kind,
                      unsigned pipeline)
{
    struct load load = {.conn = {.front = front, .peer = {.local = true}}, .protocol = protocol};
    struct rn_buf bytes = {0};

    for (unsigned i = 0; i < pipeline; i++)
        add(&bytes, i, kind);
    load.bytes = bytes.data;
    load.len = bytes.len;
    load.copy = malloc(bytes.len);
    if (!load.copy)
        abort();
    if (protocol->opened)
        protocol->opened(&load.conn);
    double steps = bench_steps(run, &load, STEPPED) / pipeline;

    rn_buf_done(&load.conn.out);
    rn_buf_done(&bytes);
    free(load.copy);
    return steps;
}

int main(void)
{
    static const char rules[] = "limits:\n"
                                "  - {name: api, when: {path: /api/**}, key: user, limit: 1000000 "
                                "per second}\n";
    struct rn_front front = {0};
    struct ration_error error;
    double throttle;

    if (ration_open(&(struct ration_options){0}, &front.limiter, &error) != 0 ||
        ration_rules_parse(front.limiter, "rules", rules, sizeof rules - 1, NULL) != 0 ||
        rn_front_init(&front, front.limiter, NULL) != 0)
        return 1;
    printf("instructions for a decision, from bytes to bytes\n");
    throttle = measure(&front, &rn_resp_protocol, "CL.THROTTLE", PIPELINE);
    printf("  %-44s %8.0f   goal <= 800  %s\n", "CL.THROTTLE, pipeline 64", throttle,
           throttle <= 800 ? "met" : "MISSED");
    printf("  %-44s %8.0f\n", "CL.THROTTLE, alone",
           measure(&front, &rn_resp_protocol, "CL.THROTTLE", 1));
    printf("  %-44s %8.0f\n", "RATION.CHECK, one rule of one, pipeline 64",
           measure(&front, &rn_resp_protocol, "RATION.CHECK", PIPELINE));
    printf("  %-44s %8.0f\n", "POST /v1/check, one rule of one, pipeline 16",
           measure(&front, &rn_http_protocol, "HTTP", 16));
    rn_front_done(&front);
    ration_close(front.limiter);
    return 0;
}
