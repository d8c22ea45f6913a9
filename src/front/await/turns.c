/* SPDX-License-Identifier: Apache-2.0 */
#include "front/await/turns.h"

#include "base/clock.h"
#include "front/await/entrusted.h"
#include "front/front.h"

/* While somebody waits, looks at least so often: the limiter's clock goes on while the machine is
 * suspended, that of timers does not. */
#define LOOK_NS (RN_SECOND_NS / 4)
/* Waiters are answered so long before the drain ends: their replies must leave, too. */
#define BEFORE_END_NS (RN_SECOND_NS / 2)
/* What others have decided already comes soon; those have ended before this is over. */
#define AWAY_NS RN_SECOND_NS

void rn_await_turns_arm(struct rn_await_turns *turns)
{
    if (!turns->loop)
        return;
    struct rn_wheel *wheel = rn_loop_wheel(turns->loop);
    int64_t next_ns = ration_waiting_next(turns->waiting, ration_now(turns->front->limiter));

    if (next_ns == RATION_NEVER) {
        rn_timer_cancel(wheel, &turns->timer);
        return;
    }
    if (next_ns > LOOK_NS)
        next_ns = LOOK_NS;
    /* The wheel's time is that of when this round began, which may be a while ago. */
    rn_timer_set(wheel, &turns->timer, rn_clock_read_ns(CLOCK_MONOTONIC) + next_ns);
}

static void run(struct rn_await_turns *turns)
{
    int64_t now_ns = ration_now(turns->front->limiter);
    int64_t drain_ns = turns->front->drain_ns - BEFORE_END_NS;

    if (!turns->ending && rn_server_stopping(turns->front->server)) {
        turns->ending = true;
        ration_waiting_end_by(turns->waiting, now_ns + (drain_ns > 0 ? drain_ns : 0));
    }
    rn_entrusted_read(turns);
    ration_waiting_run(turns->waiting, now_ns);
    rn_await_turns_arm(turns);
}

static void fire(struct rn_timer *timer)
{
    run((struct rn_await_turns *)(void *)timer); /* its first member */
}

static void woken(void *arg)
{
    run(arg);
}

void rn_await_turns_wake(struct rn_await_turns *turns)
{
    struct rn_loop *loop = __atomic_load_n(&turns->loop, __ATOMIC_ACQUIRE);

    if (loop)
        rn_loop_wake(loop);
}

/* Any thread. */
static void wake(void *arg)
{
    rn_await_turns_wake(arg);
}

void rn_await_turns_start(struct rn_await_turns *turns, const struct rn_front *front,
                          struct rn_loop *loop)
{
    *turns = (struct rn_await_turns){.timer = {.fire = fire}, .front = front};
    __atomic_store_n(&turns->loop, loop, __ATOMIC_RELEASE);
    if (ration_waiting_new(front->limiter, wake, turns, &turns->waiting) != 0) {
        turns->waiting = NULL;
        return;
    }
    rn_loop_on_wake(loop, woken, turns);
}

/* Whether others decide for this loop, or, if it is the first one, may ask it to decide. */
static bool is_needed(const void *arg)
{
    const struct rn_await_turns *turns = arg;
    const struct rn_front *front = turns->front;
    bool needed = turns->away != 0;

    for (unsigned i = 1; turns == &front->loops[0].turns && i < front->loop_count; i++)
        needed |= __atomic_load_n(&front->loops[i].turns.loop, __ATOMIC_ACQUIRE) != NULL;
    return needed;
}

void rn_await_turns_stop(struct rn_await_turns *turns)
{
    const struct rn_front *front = turns->front;
    struct rn_loop *loop = turns->loop;

    if (turns->waiting) {
        rn_loop_run_while(loop, is_needed, turns, front->drain_ns + AWAY_NS);
        rn_loop_on_wake(loop, NULL, NULL);
        rn_timer_cancel(rn_loop_wheel(loop), &turns->timer);
    }
    /* Before the look whether a wake-up is on its way already: is_needed must see it then. */
    __atomic_store_n(&turns->loop, NULL, __ATOMIC_SEQ_CST);
    rn_await_turns_wake(&front->loops[0].turns);
}

void rn_await_turns_free(struct rn_await_turns *turns)
{
    rn_entrusted_discard_all(turns);
    ration_waiting_free(turns->waiting);
    turns->waiting = NULL;
}
