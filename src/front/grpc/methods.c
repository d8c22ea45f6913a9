/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of the gRPC port: Envoy's ShouldRateLimit, and health checks.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fiber.h"
#include "front/grpc/grpc_internal.h"
#include "limiter/limiter.h"

#define RLS "envoy.service.ratelimit.v3.RateLimitService"
#define HEALTH "grpc.health.v1.Health"
/* A delayed reply must arrive before the caller gives up. */
#define MARGIN_NS INT64_C(2000000)
/* Larger messages are refused rather than kept in line: with those of 10,000 waiters a node keeps
 * 160 MB at most. */
#define WAITING_BYTES_MAX ((size_t)16 << 10)

/* --- ShouldRateLimit ---------------------------------------------------------------- */

static void ask(struct rn_grpc_call *call);
static const struct rn_entrusted_calls entrusted_calls;

/* What is left of the caller's timeout for a delay, the line and the shared store. Timers fire late
 * (net/timer.h), and callers may round their timeout up to three digits. */
static int64_t longest_wait_ns(const struct rn_grpc_call *call)
{
    int64_t most_ns = call->timeout_ns - call->timeout_ns / 64 - 2 * MARGIN_NS;
    int64_t left_ns = most_ns - (rn_grpc_now(call->on) - call->begun_ns);

    if (call->timeout_ns == 0 || left_ns > RN_REPLY_DELAY_MAX_NS)
        return RN_REPLY_DELAY_MAX_NS;
    return left_ns > 1 ? left_ns : 1;
}

static void set_deadline(const struct rn_grpc_call *call)
{
    int64_t until_ns = rn_grpc_now(call->on) + longest_wait_ns(call);

    rn_front_set_deadline(call->on->front, call->on->conn);
    if (until_ns < rn_fiber_deadline())
        rn_fiber_set_deadline(until_ns);
}

static void send_delayed(struct rn_timer *timer)
{
    struct rn_grpc_call *call = (struct rn_grpc_call *)(void *)timer; /* its first member */
    struct rn_grpc_conn *c = call->on;

    free(call->delayed);
    call->delayed = NULL;
    rn_grpc_answer(call);
    rn_grpc_flush(c);
}

/* False: out of memory; answer at once. */
static bool delay_reply(struct rn_grpc_call *call, const struct ration_descriptors_outcome *outcome)
{
    struct rn_wheel *wheel = rn_conn_wheel(call->on->conn);

    call->delayed = malloc(sizeof *call->delayed);
    if (!call->delayed)
        return false;
    *call->delayed = (struct rn_grpc_delayed){call->on->front->limiter, *outcome};
    call->timer.fire = send_delayed;
    /* The wheel's time is that of when this round began, which may be a while ago. */
    rn_timer_set(wheel, &call->timer, rn_clock_read_ns(CLOCK_MONOTONIC) + outcome->delay_ns);
    rn_front_count(&call->on->loop->counts.delayed, 1);
    return true;
}

static void fail_deciding(struct rn_grpc_call *call, int code)
{
    if (code == RATION_EINVAL) {
        rn_grpc_fail(call, RN_GRPC_INVALID_ARGUMENT, "more descriptors than can be decided");
        return;
    }
    rn_front_count(&call->on->loop->counts.failed[RN_FRONT_GRPC], 1);
    rn_grpc_fail(call, RN_GRPC_UNAVAILABLE, ration_error_text(code));
}

static struct rn_grpc_call *call_of(struct rn_entrusted *e)
{
    return (struct rn_grpc_call *)(void *)((char *)e - offsetof(struct rn_grpc_call, seat));
}

static void take_turn(struct ration_waiter *waiter)
{
    ask(call_of((struct rn_entrusted *)(void *)waiter)); /* its first member */
}

/* The waiter of a call that may wait in line; NULL: it may not. */
static struct ration_waiter *waiter_of(struct rn_grpc_call *call)
{
    struct ration_waiting *waiting = call->on->loop->turns.waiting;
    bool may_wait = call->in_line || rn_limiter_rules_have_lines(call->on->front->limiter);

    if (!waiting || !may_wait || rn_grpc_message(call).len > WAITING_BYTES_MAX)
        return NULL;
    call->seat.waiter.waiting = waiting;
    call->seat.waiter.turn = take_turn;
    call->seat.waiter.most_ns = call->most_ns;
    return &call->seat.waiter;
}

/* False after answering that the message cannot be read. */
static bool read_request(struct rn_grpc_call *call, struct rn_rls_reader *reader)
{
    struct ration_error error;
    int code = rn_rls_read(reader, rn_grpc_message(call), &error);

    if (code != 0) {
        rn_grpc_fail(call,
                     code == RATION_EPARSE  ? RN_GRPC_INTERNAL
                     : code == RATION_EFULL ? RN_GRPC_RESOURCE_EXHAUSTED
                                            : RN_GRPC_INVALID_ARGUMENT,
                     error.text);
        return false;
    }
    if (call->most_ns == 0)
        call->most_ns = longest_wait_ns(call);
    reader->request.max_wait_ns = call->most_ns;
    reader->request.waiter = waiter_of(call);
    rn_front_set_rls(call->on->front, reader);
    return true;
}

static void stand_in_line(struct rn_grpc_call *call)
{
    struct rn_front_loop *loop = call->on->loop;

    if (!call->in_line)
        rn_front_count(&loop->counts.delayed, 1);
    call->in_line = true;
    rn_entrusted_wait(&call->seat, &loop->turns, &entrusted_calls);
}

static void answer(struct rn_grpc_call *call, struct rn_rls_reader *reader,
                   const struct ration_descriptors_outcome *outcome)
{
    size_t at = rn_grpc_message_begin(call);

    rn_rls_write(&call->out, reader, outcome, &call->on->front->rls);
    rn_grpc_message_end(call, at);
    if (outcome->delay_ns <= 0 || !delay_reply(call, outcome))
        rn_grpc_answer(call);
}

/* A caller that has left meanwhile is charged nothing if it has waited in line. Other charges are
 * lost then. */
static void decide(void *arg, struct rn_front_workspace *ws)
{
    struct rn_grpc_call *call = arg;
    struct rn_front *front = call->on->front;
    struct ration_descriptors_outcome *outcome = &ws->rls_outcome;

    if (call->cancelled || !read_request(call, &ws->rls))
        return;
    set_deadline(call);
    int code = ration_decide_descriptors(front->limiter, &ws->rls.request, RATION_NOW, outcome);

    if (call->cancelled) {
        if (code == 0 && call->in_line)
            (void)ration_descriptors_give_back(front->limiter, outcome, RATION_NOW);
        return;
    }
    if (code == RATION_EWAITS)
        stand_in_line(call);
    else if (code != 0)
        fail_deciding(call, code);
    else
        answer(call, &ws->rls, outcome);
}

static void decided(void *arg)
{
    struct rn_grpc_call *call = arg;
    struct rn_grpc_conn *c = call->on;

    call->deciding = false;
    if (!c->receiving) {
        rn_grpc_count_answered(c, call->asked_ns);
        rn_conn_call_before_sleep(c->conn);
    }
    if (call->cancelled)
        rn_grpc_call_free(call);
}

static void ask(struct rn_grpc_call *call)
{
    call->deciding = true;
    if (call->in_line || call->on->front->patience_ns > 0)
        call->asked_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    rn_await_run_task(call->on->conn, &(struct rn_await_task){decide, decided, call, false});
}

/* --- decided by another loop ---------------------------------------------------------- */

/* The message was read before. The result is an outcome; NULL: out of memory. */
static int decide_away(struct rn_entrusted *e, struct rn_front_workspace *ws)
{
    struct rn_grpc_call *call = call_of(e);
    const struct rn_front *front = e->home->front;
    struct ration_descriptors *request = &ws->rls.request;
    int64_t rest_ns = ration_waiter_rest(&e->waiter, RATION_NOW);
    struct ration_error error;

    e->result = malloc(sizeof ws->rls_outcome);
    if (!e->result || rn_rls_read(&ws->rls, rn_grpc_message(call), &error) != 0) {
        ration_waiter_leave(&e->waiter);
        return RATION_ENOMEM;
    }
    if (rest_ns < front->patience_ns)
        rn_fiber_set_deadline(rn_fiber_deadline() - front->patience_ns + rest_ns);
    rn_front_set_rls(front, &ws->rls);
    request->max_wait_ns = call->most_ns;
    request->waiter = &e->waiter;
    int code = ration_decide_descriptors(front->limiter, request, RATION_NOW, e->result);

    if (code == RATION_EWAITS) {
        free(e->result);
        e->result = NULL;
    }
    return code;
}

static void give_back_away(struct rn_entrusted *e, struct rn_front_workspace *ws)
{
    (void)ws;
    if (e->code == 0)
        (void)ration_descriptors_give_back(e->home->front->limiter, e->result, RATION_NOW);
}

static void discard_away(struct rn_entrusted *e)
{
    free(e->result);
    rn_grpc_call_discard(call_of(e));
}

static void answer_away(struct rn_entrusted *e)
{
    struct rn_grpc_call *call = call_of(e);

    if (!call->on) {
        rn_entrusted_return(e);
        return;
    }
    call->asked_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    struct rn_rls_reader *reader = &call->on->loop->ws.rls;

    if (e->code != 0)
        fail_deciding(call, e->code);
    else if (read_request(call, reader))
        answer(call, reader, e->result);
    free(e->result);
    e->result = NULL;
    decided(call);
}

static const struct rn_entrusted_calls entrusted_calls = {decide_away, give_back_away, answer_away,
                                                          discard_away};

static void should_rate_limit(struct rn_grpc_call *call, struct rn_slice message)
{
    (void)message; /* the call keeps it */
    ask(call);
}

/* --- health ------------------------------------------------------------------------- */

static bool is_known(struct rn_slice service)
{
    return service.len == 0 || rn_slice_is(service, RLS) || rn_slice_is(service, HEALTH);
}

static void put_health(struct rn_grpc_call *call, enum rn_health health)
{
    size_t at = rn_grpc_message_begin(call);

    rn_rls_write_health(&call->out, health);
    rn_grpc_message_end(call, at);
}

/* False after answering that the request cannot be read. */
static bool read_service(struct rn_grpc_call *call, struct rn_slice message,
                         struct rn_slice *service)
{
    struct rn_rls_reader *reader = &call->on->loop->ws.rls;

    if (rn_rls_read_health(reader, message) != 0) {
        rn_grpc_fail(call, RN_GRPC_INTERNAL, "not a HealthCheckRequest");
        return false;
    }
    *service = reader->service;
    return true;
}

static enum rn_health health_of(const struct rn_grpc_call *call)
{
    return rn_conn_draining(call->on->conn) ? RN_HEALTH_NOT_SERVING : RN_HEALTH_SERVING;
}

static void check(struct rn_grpc_call *call, struct rn_slice message)
{
    struct rn_slice service;

    if (!read_service(call, message, &service))
        return;
    if (!is_known(service)) {
        rn_grpc_fail(call, RN_GRPC_NOT_FOUND, "unknown service; ask for " RLS ", or for none");
        return;
    }
    put_health(call, health_of(call));
    rn_grpc_answer(call);
}

static void watch(struct rn_grpc_call *call, struct rn_slice message)
{
    struct rn_slice service;

    if (!read_service(call, message, &service))
        return;
    call->watching = true;
    put_health(call, is_known(service) ? health_of(call) : RN_HEALTH_SERVICE_UNKNOWN);
    rn_grpc_answer(call);
}

void rn_grpc_end_watch(struct rn_grpc_call *call)
{
    call->watching = false;
    put_health(call, RN_HEALTH_NOT_SERVING);
    rn_grpc_answer_more(call);
}

/* --- the table ---------------------------------------------------------------------- */

static const struct rn_grpc_method methods[] = {
    {"/" RLS "/ShouldRateLimit", should_rate_limit},
    {"/" HEALTH "/Check", check},
    {"/" HEALTH "/Watch", watch},
};

const struct rn_grpc_method *rn_grpc_method(struct rn_slice path)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (rn_slice_is(path, methods[i].path))
            return &methods[i];
    return NULL;
}
