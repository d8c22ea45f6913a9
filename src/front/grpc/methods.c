/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of the gRPC port: Envoy's ShouldRateLimit, and health checks.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fiber.h"
#include "front/grpc/grpc_internal.h"

#define RLS "envoy.service.ratelimit.v3.RateLimitService"
#define HEALTH "grpc.health.v1.Health"
/* A delayed reply must arrive before the caller gives up. */
#define MARGIN_NS INT64_C(2000000)

/* --- ShouldRateLimit ---------------------------------------------------------------- */

static int64_t longest_delay_ns(const struct rn_grpc_call *call)
{
    int64_t left_ns = call->timeout_ns - MARGIN_NS - (rn_grpc_now(call->on) - call->begun_ns);

    if (call->timeout_ns == 0 || left_ns > RN_REPLY_DELAY_MAX_NS)
        return RN_REPLY_DELAY_MAX_NS;
    return left_ns > 1 ? left_ns : 1;
}

/* Bounds the wait for the shared store. Timers fire late (net/timer.h), and callers may round
 * their timeout up to three digits. */
static void set_deadline(const struct rn_grpc_call *call)
{
    int64_t early_ns = MARGIN_NS + call->timeout_ns / 64;
    int64_t until_ns = rn_grpc_now(call->on) + longest_delay_ns(call) - early_ns;

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

/* The charges of a caller that has left while this waited are lost. */
static void decide(void *arg, struct rn_front_workspace *ws)
{
    struct rn_grpc_call *call = arg;
    struct rn_front *front = call->on->front;
    struct ration_error error;
    int code = rn_rls_read(&ws->rls, rn_grpc_message(call), &error);
    size_t at;

    if (code != 0) {
        rn_grpc_fail(call,
                     code == RATION_EPARSE  ? RN_GRPC_INTERNAL
                     : code == RATION_EFULL ? RN_GRPC_RESOURCE_EXHAUSTED
                                            : RN_GRPC_INVALID_ARGUMENT,
                     error.text);
        return;
    }
    ws->rls.request.max_wait_ns = longest_delay_ns(call);
    rn_front_set_rls(front, &ws->rls);
    set_deadline(call);
    code =
        ration_decide_descriptors(front->limiter, &ws->rls.request, RATION_NOW, &ws->rls_outcome);
    if (call->cancelled)
        return;
    if (code != 0) {
        fail_deciding(call, code);
        return;
    }
    at = rn_grpc_message_begin(call);
    rn_rls_write(&call->out, &ws->rls, &ws->rls_outcome, &front->rls);
    rn_grpc_message_end(call, at);
    if (ws->rls_outcome.delay_ns <= 0 || !delay_reply(call, &ws->rls_outcome))
        rn_grpc_answer(call);
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

static void should_rate_limit(struct rn_grpc_call *call, struct rn_slice message)
{
    (void)message; /* the call keeps it */
    call->deciding = true;
    if (call->on->front->patience_ns > 0)
        call->asked_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    rn_await_run_task(call->on->conn, &(struct rn_await_task){decide, decided, call, false});
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
