/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/held_request.h"

#include <stdlib.h>

#include "base/error.h"
#include "front/front.h"
#include "limiter/limiter.h"

/* As many as decide at the same time; more are freed. */
#define SPARE_MAX RN_FIBERS_OF_WORKER

_Static_assert(sizeof(struct rn_held_request) <= 592, "docs/performance.md says what a wait takes");
_Static_assert(RN_HELD_TEXT_MAX <= UINT16_MAX, "lengths of texts have 16 bits");

/* --- memory ----------------------------------------------------------------------------------- */

static void turn(struct ration_waiter *waiter);
static const struct rn_entrusted_calls entrusted_calls;

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
    held->in_line.waiter.waiting = loop->turns.waiting;
    held->in_line.waiter.turn = turn;
    held->in_line.waiter.most_ns = RN_REPLY_DELAY_MAX_NS;
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
    int code = rn_decision_make(front->limiter, &ws->params, verb,
                                mine ? &mine->in_line.waiter : NULL, &ws->decision, error);

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
        ration_waiter_leave(&held->in_line.waiter);
        free_held(loop, held);
        rn_error_set(error, RATION_ENOMEM, 0, "%s", ration_error_text(RATION_ENOMEM));
        return false;
    }
    held->conn = conn;
    held->calls = calls;
    held->rest_ns = ration_waiter_rest(&held->in_line.waiter, RATION_NOW);
    rn_front_count(&loop->counts.delayed, 1);
    rn_entrusted_wait(&held->in_line, &loop->turns, &entrusted_calls);
    return true;
}

bool rn_held_request_has_turn(const struct rn_held_request *held)
{
    return held->deciding || rn_entrusted_state(&held->in_line) == RN_ENTRUSTED_DECIDED;
}

/* --- its turn -----------------------------------------------------------------------------------
 */

/* On the parameters that were kept. */
static int decide_kept(struct rn_held_request *held, const struct rn_front *front,
                       struct rn_front_workspace *ws, struct ration_error *error)
{
    restore(held, &ws->params);
    int code = rn_decision_make(front->limiter, &ws->params, held->verb, &held->in_line.waiter,
                                &ws->decision, error);

    if (code == 0 && held->by_limit)
        ws->decision.outcome.waited_ns = ws->decision.at_ns - held->since_ns;
    return code;
}

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
        ration_waiter_leave(&held->in_line.waiter);
        return;
    }
    rn_front_set_deadline(front, held->conn);
    code = decide_kept(held, front, ws, &error);
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
        rn_entrusted_wait(&held->in_line, &loop->turns, &entrusted_calls);
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
    if (!held || rn_entrusted_leave(&held->in_line))
        return;
    if (rn_entrusted_state(&held->in_line) == RN_ENTRUSTED_DECIDED) {
        held->conn = NULL;
        return;
    }
    ration_waiter_leave(&held->in_line.waiter);
    free_held(rn_front_loop(rn_conn_context(held->conn), held->conn), held);
}

/* --- decided by another loop --------------------------------------------------------------------
 */

static struct rn_held_request *held_of(struct rn_entrusted *e)
{
    return (struct rn_held_request *)(void *)e; /* first member */
}

/* The result is a packed decision, or the text of an error; NULL: out of memory. */
static int decide_away(struct rn_entrusted *e, struct rn_front_workspace *ws)
{
    const struct rn_front *front = e->home->front;
    struct ration_error error;
    int code = decide_kept(held_of(e), front, ws, &error);

    if (code == RATION_EWAITS)
        return code;
    if (code != 0) {
        e->result = strdup(error.text);
        return code;
    }
    e->result = malloc(rn_decision_packed_bytes(&ws->decision));
    if (e->result) {
        rn_decision_pack(&ws->decision, e->result);
        return 0;
    }
    if (ws->decision.outcome.decision.allowed)
        rn_decision_give_back(front->limiter, &ws->decision);
    return RATION_ENOMEM;
}

static void give_back_away(struct rn_entrusted *e, struct rn_front_workspace *ws)
{
    if (e->code != 0)
        return;
    rn_decision_unpack(&ws->decision, e->result);
    if (ws->decision.outcome.decision.allowed)
        rn_decision_give_back(e->home->front->limiter, &ws->decision);
}

static void discard_away(struct rn_entrusted *e)
{
    struct rn_held_request *held = held_of(e);

    free(e->result);
    free(held->text);
    rn_buf_done(&held->out);
    free(held);
}

static void answer_away(struct rn_entrusted *e)
{
    struct rn_held_request *held = held_of(e);
    struct ration_error error;

    held->gone = held->conn && rn_conn_is_gone(held->conn);
    if (held->gone)
        held->calls->ended(held);
    if (held->gone || !held->conn) {
        rn_entrusted_return(e);
        return;
    }
    struct rn_front_loop *loop = rn_front_loop(e->home->front, held->conn);

    restore(held, &loop->ws.params);
    if (e->code == 0)
        rn_decision_unpack(&loop->ws.decision, e->result);
    else
        rn_error_set(&error, e->code, 0, "%s",
                     e->result ? (const char *)e->result : ration_error_text(e->code));
    free(e->result);
    held->calls->answer(held, &loop->ws, e->code, &error);
    held->calls->ended(held);
    free_held(loop, held);
}

static const struct rn_entrusted_calls entrusted_calls = {decide_away, give_back_away, answer_away,
                                                          discard_away};
