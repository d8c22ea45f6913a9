/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/entrusted.h"

#include "front/front.h"
#include "limiter/line/lines.h"

static void turn(struct ration_waiter *waiter);

static struct rn_await_turns *decider_of(const struct rn_front *front)
{
    return &front->loops[0].turns;
}

/* --- inboxes --------------------------------------------------------------------------------- */

/* Any thread. */
static void post(struct rn_await_turns *to, struct rn_entrusted *e)
{
    e->next = __atomic_load_n(&to->inbox, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&to->inbox, &e->next, e, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
        continue;
    rn_await_turns_wake(to);
}

/* What was posted first comes first. */
static struct rn_entrusted *take_all(struct rn_await_turns *turns)
{
    struct rn_entrusted *e = __atomic_exchange_n(&turns->inbox, NULL, __ATOMIC_SEQ_CST);
    struct rn_entrusted *first = NULL;

    while (e) {
        struct rn_entrusted *before = e->next;

        e->next = first;
        first = e;
        e = before;
    }
    return first;
}

static void discard(struct rn_entrusted *e)
{
    ration_waiter_leave(&e->waiter);
    e->calls->discard(e);
}

void rn_entrusted_read(struct rn_await_turns *turns)
{
    struct rn_entrusted *e = take_all(turns), *next;

    for (; e; e = next) {
        next = e->next;
        if (rn_entrusted_state(e) == RN_ENTRUSTED_DECIDED) {
            turns->away--;
            __atomic_store_n(&e->state, RN_ENTRUSTED_HOME, __ATOMIC_RELAXED);
            e->calls->answer(e);
        } else if (e->deciding) {
            e->abandoned = true;
        } else {
            discard(e);
        }
    }
}

void rn_entrusted_discard_all(struct rn_await_turns *turns)
{
    struct rn_entrusted *e = take_all(turns), *next;

    for (; e; e = next) {
        next = e->next;
        discard(e);
    }
}

/* --- the own loop ------------------------------------------------------------------------------
 */

static bool move_on(struct rn_entrusted *e, enum rn_entrusted_state to)
{
    uint8_t from = RN_ENTRUSTED_AWAY;

    return __atomic_compare_exchange_n(&e->state, &from, (uint8_t)to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

void rn_entrusted_wait(struct rn_entrusted *e, struct rn_await_turns *home,
                       const struct rn_entrusted_calls *calls)
{
    struct rn_await_turns *decider = decider_of(home->front);

    if (home == decider || !decider->waiting || home->front->patience_ns == 0 ||
        !rn_lines_is_shared(&e->waiter)) {
        rn_await_turns_arm(home);
        return;
    }
    e->calls = calls;
    e->home = home;
    e->waiter.turn = turn;
    __atomic_store_n(&e->state, RN_ENTRUSTED_AWAY, __ATOMIC_RELEASE);
    home->away++;
    rn_lines_entrust(&e->waiter, decider->waiting);
}

bool rn_entrusted_leave(struct rn_entrusted *e)
{
    if (!move_on(e, RN_ENTRUSTED_LEFT))
        return false;
    e->home->away--;
    post(decider_of(e->home->front), e);
    return true;
}

static void give_back(void *arg, struct rn_front_workspace *ws)
{
    struct rn_entrusted *e = arg;

    e->calls->give_back(e, ws);
}

static void returned(void *arg)
{
    struct rn_entrusted *e = arg;

    e->calls->discard(e);
}

void rn_entrusted_return(struct rn_entrusted *e)
{
    rn_await_run_in_loop(e->home, &(struct rn_await_task){give_back, returned, e, true});
}

/* --- the decider -------------------------------------------------------------------------------
 */

static void decide(void *arg, struct rn_front_workspace *ws)
{
    struct rn_entrusted *e = arg;
    const struct rn_await_turns *decider = decider_of(e->home->front);

    e->code = RATION_EWAITS;
    if (rn_entrusted_state(e) == RN_ENTRUSTED_LEFT) /* its inbox says so soon */
        return;
    rn_fiber_set_deadline(rn_wheel_now(rn_loop_wheel(decider->loop)) + decider->front->patience_ns);
    e->code = e->calls->decide(e, ws);
    if (e->code != RATION_EWAITS && !move_on(e, RN_ENTRUSTED_DECIDED))
        e->calls->give_back(e, ws);
}

static void decided(void *arg)
{
    struct rn_entrusted *e = arg;
    struct rn_await_turns *decider = decider_of(e->home->front);

    e->deciding = false;
    if (rn_entrusted_state(e) == RN_ENTRUSTED_DECIDED)
        post(e->home, e);
    else if (e->abandoned)
        discard(e);
    rn_await_turns_arm(decider);
}

static void turn(struct ration_waiter *waiter)
{
    struct rn_entrusted *e = (struct rn_entrusted *)(void *)waiter; /* first member */

    e->deciding = true;
    rn_await_run_in_loop(decider_of(e->home->front),
                         &(struct rn_await_task){decide, decided, e, true});
}
