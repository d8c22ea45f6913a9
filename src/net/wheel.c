/* SPDX-License-Identifier: Apache-2.0 */
/* The layout is drawn in net/wheel.h. */
#include "net/wheel.h"

#include <stddef.h>
#include <string.h>

#define DIGIT_BITS 6
#define DIGIT(tick, level) ((unsigned)((tick) >> (DIGIT_BITS * (level))) & (RN_WHEEL_SLOTS - 1))

void rn_wheel_init(struct rn_wheel *wheel, int64_t now_ns)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->now_ns = now_ns;
    wheel->tick = (uint64_t)(now_ns / RN_WHEEL_TICK_NS);
}

int64_t rn_wheel_now(const struct rn_wheel *wheel)
{
    return wheel->now_ns;
}

/* `at_ns` rounded up, and one tick more: a caller that counts from rn_wheel_now may be up to
 * a tick later than that. */
static uint64_t tick_of(int64_t at_ns)
{
    return (uint64_t)((at_ns - 1) / RN_WHEEL_TICK_NS + 2);
}

/* `tick` must be after wheel->tick. */
static void place(struct rn_wheel *wheel, struct rn_timer *timer, uint64_t tick)
{
    unsigned level = (63U - (unsigned)__builtin_clzll(tick ^ wheel->tick)) / DIGIT_BITS;
    unsigned slot = DIGIT(tick, level);

    wheel->levels |= 1U << level;
    wheel->used[level] |= UINT64_C(1) << slot;
    timer->link = &wheel->slots[level][slot];
    timer->next = *timer->link;
    if (timer->next)
        timer->next->link = &timer->next;
    *timer->link = timer;
}

static void mark_empty(struct rn_wheel *wheel, unsigned level, unsigned slot)
{
    wheel->used[level] &= ~(UINT64_C(1) << slot);
    if (wheel->used[level] == 0)
        wheel->levels &= ~(1U << level);
}

void rn_timer_cancel(struct rn_wheel *wheel, struct rn_timer *timer)
{
    struct rn_timer **link = timer->link;

    if (!link)
        return;
    *link = timer->next;
    if (timer->next)
        timer->next->link = link;
    timer->link = NULL;
    /* The last one of a slot clears its bit. */
    uintptr_t index = ((uintptr_t)link - (uintptr_t)wheel->slots) / sizeof *link;
    if (*link == NULL && index < RN_WHEEL_LEVELS * RN_WHEEL_SLOTS)
        mark_empty(wheel, (unsigned)index / RN_WHEEL_SLOTS, index % RN_WHEEL_SLOTS);
}

void rn_timer_set(struct rn_wheel *wheel, struct rn_timer *timer, int64_t at_ns)
{
    rn_timer_cancel(wheel, timer);
    timer->at_ns = at_ns > wheel->now_ns ? at_ns : wheel->now_ns;
    place(wheel, timer, tick_of(timer->at_ns));
}

/* The tick at which the first slot in use begins; UINT64_MAX: none is. */
static uint64_t next_tick(const struct rn_wheel *wheel, unsigned *level)
{
    if (wheel->levels == 0)
        return UINT64_MAX;
    *level = (unsigned)__builtin_ctz(wheel->levels);
    unsigned shift = DIGIT_BITS * *level;
    uint64_t above = wheel->tick >> shift >> DIGIT_BITS << DIGIT_BITS;
    return (above | (unsigned)__builtin_ctzll(wheel->used[*level])) << shift;
}

int64_t rn_wheel_next_ns(const struct rn_wheel *wheel)
{
    unsigned level = 0;
    uint64_t tick = next_tick(wheel, &level);

    return tick > INT64_MAX / RN_WHEEL_TICK_NS ? INT64_MAX : (int64_t)tick * RN_WHEEL_TICK_NS;
}

/* Fires timers that are due in the slot that begins now, and moves the others down. A timer
 * that fires may set and cancel any timer, including those in the list `due`. */
static void empty_slot(struct rn_wheel *wheel, unsigned level)
{
    unsigned slot = DIGIT(wheel->tick, level);

    wheel->due = wheel->slots[level][slot];
    wheel->slots[level][slot] = NULL;
    mark_empty(wheel, level, slot);
    if (wheel->due)
        wheel->due->link = &wheel->due;
    while (wheel->due) {
        struct rn_timer *timer = wheel->due;
        uint64_t tick = tick_of(timer->at_ns);
        rn_timer_cancel(wheel, timer);
        if (tick <= wheel->tick)
            timer->fire(timer);
        else
            place(wheel, timer, tick);
    }
}

void rn_wheel_advance(struct rn_wheel *wheel, int64_t now_ns)
{
    uint64_t target = (uint64_t)(now_ns / RN_WHEEL_TICK_NS), tick;
    unsigned level = 0;

    wheel->now_ns = now_ns;
    while ((tick = next_tick(wheel, &level)) <= target) {
        wheel->tick = tick;
        empty_slot(wheel, level);
    }
    wheel->tick = target;
}
