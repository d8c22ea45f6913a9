/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/held_request.h"

#include <stdlib.h>

#include "base/error.h"
#include "front/front.h"
#include "limiter/limiter.h"

/* As many as decide at the same time; more are freed. */
#define SPARE_MAX RN_FIBERS_OF_WORKER

_Static_assert(sizeof(struct rn_held_request) <= 544, "docs/http.md says what a wait takes");
_Static_assert(RN_HELD_TEXT_MAX <= UINT16_MAX, "lengths of texts have 16 bits");

/* --- memory ----------------------------------------------------------------------------------- */

static void turn(struct ration_waiter *waiter);

static struct rn_held_request *take_spare(struct rn_front_loop *loop)
{
    struct rn_held_request *held = loop->spare_held;

    if (held) {
        loop->spare_held = held->next;
        loop->spare_held_count--;
    } else if (!(held = malloc(sizeof *held))) {
        return NULL;
    }
    memset(held, 0, sizeof *held);
    held->waiter.waiting = loop->turns.waiting;
    held->waiter.turn = turn;
    held->waiter.most_ns = RN_REPLY_DELAY_MAX_NS;
    return held;
}

static void free_held(struct rn_front_loop *loop, struct rn_held_request *held)
{
    free(held->text);
    rn_buf_done(&held->out);
    if (loop->spare_held_count == SPARE_MAX) {
        free(held);
        return;
    }
    held->next = loop->spare_held;
    loop->spare_held = held;
    loop->spare_held_count++;
}

void rn_held_request_free_spares(struct rn_front_loop *loop)
{
    while (loop->spare_held) {
        struct rn_held_request *held = loop->spare_held;

        loop->spare_held = held->next;
        free(held);
    }
    loop->spare_held_count = 0;
}

/* --- parameters ---------------------------------------------------------------------------------
 */

/* Their texts: the key; or two lengths for each attribute, then names and values. */
static size_t text_bytes(const struct rn_params *params)
{
    size_t bytes = params->attribute_count * 2 * sizeof(uint16_t);

    if (params->by_limit)
        return params->key.len;
    for (uint32_t i = 0; i < params->attribute_count; i++)
        bytes += params->attributes[i].name_len + params->attributes[i].value_len;
    return bytes;
}

static char *put(char *to, const char *from, size_t len)
{
    if (len > 0)
        memcpy(to, from, len);
    return to + len;
}

static bool keep(struct rn_held_request *held, const struct rn_params *params)
{
    uint16_t *lengths;
    char *to;

    held->text = malloc(text_bytes(params) + 1);
    if (!held->text)
        return false;
    held->by_limit = params->by_limit;
    held->limit = params->limit;
    held->cost = params->cost;
    held->wait = params->wait;
    held->max_wait_ns = params->max_wait_ns;
    held->for_ns = params->for_ns;
    held->keep_places = params->keep_places;
    held->line = params->line;
    if (params->by_limit) {
        held->key_len = params->key.len;
        put(held->text, params->key.data, params->key.len);
        return true;
    }
    held->attribute_count = params->attribute_count;
    lengths = (uint16_t *)(void *)held->text;
    to = held->text + held->attribute_count * 2 * sizeof *lengths;
    for (uint32_t i = 0; i < params->attribute_count; i++) {
        const struct ration_attribute *a = &params->attributes[i];

        *lengths++ = (uint16_t)a->name_len;
        *lengths++ = (uint16_t)a->value_len;
        to = put(to, a->name, a->name_len);
        to = put(to, a->value, a->value_len);
    }
    return true;
}

/* The parameters as they were; they point into `held`. */
static void restore(const struct rn_held_request *held, struct rn_params *params)
{
    const uint16_t *lengths = (const uint16_t *)(const void *)held->text;
    const char *at = held->text + held->attribute_count * 2 * sizeof *lengths;

    rn_params_init(params);
    params->by_limit = held->by_limit;
    params->limit = held->limit;
    params->cost = held->cost;
    params->wait = held->wait;
    params->max_wait_ns = held->max_wait_ns;
    params->for_ns = held->for_ns;
    params->keep_places = held->keep_places;
    params->line = held->line;
    params->full = held->format.full;
    if (held->by_limit)
        params->key = (struct rn_slice){held->text, held->key_len};
    params->attribute_count = held->attribute_count;
    for (uint32_t i = 0; i < held->attribute_count; i++) {
        size_t name_len = lengths[2 * i], value_len = lengths[2 * i + 1];

        params->attributes[i] = (struct ration_attribute){at, name_len, at + name_len, value_len};
        at += name_len + value_len;
    }
}

/* --- deciding -------------------------------------------------------------------------------- */

/* A caller that says nothing waits where a rule has a line. */
static bool may_wait(const struct rn_front *front, const struct rn_params *params)
{
    if (params->wait == RN_WAIT_AS_RULE &&
        (params->by_limit || !rn_limiter_rules_have_lines(front->limiter)))
        return false;
    return params->wait != RN_WAIT_RETURN && !params->peek && !params->drain && !params->credit &&
           !params->shadow && params->cost != 0 && text_bytes(params) <= RN_HELD_TEXT_MAX;
}

int rn_held_request_decide(struct rn_conn *conn, struct rn_front_workspace *ws, enum rn_verb verb,
                           struct rn_held_request **held, struct ration_error *error)
{
    const struct rn_front *front = rn_conn_context(conn);
    struct rn_front_loop *loop = rn_front_loop(front, conn);
    struct rn_held_request *mine =
        loop->turns.waiting && may_wait(front, &ws->params) ? take_spare(loop) : NULL;
    int code = rn_decision_make(front->limiter, &ws->params, verb, mine ? &mine->waiter : NULL,
                                &ws->decision, error);

    *held = mine;
    if (mine && code == RATION_EWAITS) {
        mine->verb = verb;
        mine->since_ns = ws->decision.at_ns;
    } else if (mine) {
        free_held(loop, mine);
    }
    return code;
}

bool rn_held_request_start(struct rn_held_request *held, struct rn_conn *conn,
                           const struct rn_params *params, const struct rn_held_calls *calls,
                           struct ration_error *error)
{
    struct rn_front_loop *loop = rn_front_loop(rn_conn_context(conn), conn);

    if (!keep(held, params)) {
        ration_waiter_leave(&held->waiter);
        free_held(loop, held);
        rn_error_set(error, RATION_ENOMEM, 0, "%s", ration_error_text(RATION_ENOMEM));
        return false;
    }
    held->conn = conn;
    held->calls = calls;
    rn_front_count(&loop->counts.delayed, 1);
    rn_await_turns_arm(&loop->turns);
    return true;
}

int64_t rn_held_request_rest_ns(const struct rn_held_request *held)
{
    return ration_waiter_rest(&held->waiter, RATION_NOW);
}

/* --- its turn -----------------------------------------------------------------------------------
 */

/* The peer may close while the store is asked. */
static void decide_again(void *arg, struct rn_front_workspace *ws)
{
    struct rn_held_request *held = arg;
    const struct rn_front *front = rn_conn_context(held->conn);
    struct ration_error error;
    int code;

    held->again = false;
    held->gone = rn_conn_is_gone(held->conn);
    if (held->gone) {
        ration_waiter_leave(&held->waiter);
        return;
    }
    restore(held, &ws->params);
    rn_front_set_deadline(front, held->conn);
    code = rn_decision_make(front->limiter, &ws->params, held->verb, &held->waiter, &ws->decision,
                            &error);
    if (code == 0 && held->by_limit)
        ws->decision.outcome.waited_ns = ws->decision.at_ns - held->since_ns;
    held->again = code == RATION_EWAITS;
    held->gone = !held->again && rn_conn_is_gone(held->conn);
    if (held->gone && code == 0 && ws->decision.outcome.decision.allowed)
        rn_decision_give_back(front->limiter, &ws->decision);
    else if (!held->again && !held->gone)
        held->calls->answer(held, ws, code, &error);
}

static void turn_ended(void *arg)
{
    struct rn_held_request *held = arg;
    struct rn_front_loop *loop = rn_front_loop(rn_conn_context(held->conn), held->conn);

    held->deciding = false;
    if (held->again) {
        rn_await_turns_arm(&loop->turns);
        return;
    }
    held->calls->ended(held);
    free_held(loop, held);
}

static void turn(struct ration_waiter *waiter)
{
    struct rn_held_request *held = (struct rn_held_request *)(void *)waiter; /* first member */

    held->deciding = true;
    rn_await_run_task(held->conn, &(struct rn_await_task){decide_again, turn_ended, held, false});
}

void rn_held_request_drop(struct rn_held_request *held)
{
    if (!held)
        return;
    ration_waiter_leave(&held->waiter);
    free_held(rn_front_loop(rn_conn_context(held->conn), held->conn), held);
}
