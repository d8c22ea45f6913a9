/* SPDX-License-Identifier: Apache-2.0 */
/* Timers against a naive model: an array that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/wheel.h"

#define MS RN_WHEEL_TICK_NS
#define DAY (86400000 * MS)
#define START (INT64_C(86400123) * MS)
#define TIMERS 300
#define STEPS 100000

struct entry {
    struct rn_timer timer; /* first */
    int64_t due_ns;        /* INT64_MAX: not set, as the model has it */
    int fired;
};

static struct rn_wheel wheel;
static struct entry entries[TIMERS];
static uint64_t seed;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static int64_t random_below(int64_t n)
{
    return (int64_t)(next_random() % (uint64_t)n);
}

/* Mostly near, sometimes days or centuries away, sometimes in the past. */
static int64_t random_delay(void)
{
    static const int64_t spans[] = {5 * MS, 70 * MS, 5000 * MS, 300000 * MS, 90 * DAY};

    switch (random_below(20)) {
    case 0:
        return -random_below(100 * MS);
    case 1:
        return 36500 * DAY;
    default:
        return random_below(spans[random_below(5)]);
    }
}

static void set_entry(struct entry *entry, int64_t at_ns)
{
    int64_t now = rn_wheel_now(&wheel);

    rn_timer_set(&wheel, &entry->timer, at_ns);
    entry->due_ns = at_ns > now ? at_ns : now;
    assert_true(rn_timer_is_set(&entry->timer));
}

static void fire_entry(struct rn_timer *timer)
{
    struct entry *entry = (struct entry *)timer, *other = &entries[random_below(TIMERS)];
    int64_t now = rn_wheel_now(&wheel);

    assert_true(entry->due_ns <= now);
    assert_int_equal(entry->timer.at_ns, entry->due_ns);
    assert_false(rn_timer_is_set(timer));
    entry->due_ns = INT64_MAX;
    entry->fired++;
    if (random_below(4) == 0)
        set_entry(entry, now + random_delay());
    if (random_below(4) == 0) {
        rn_timer_cancel(&wheel, &other->timer);
        other->due_ns = INT64_MAX;
    }
}

/* After a turn nothing is left that was due two ticks ago. */
static void check_model(int64_t now)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < TIMERS; i++) {
        assert_int_equal(rn_timer_is_set(&entries[i].timer), entries[i].due_ns != INT64_MAX);
        assert_true(entries[i].due_ns > now - 2 * MS);
        if (entries[i].due_ns < first)
            first = entries[i].due_ns;
    }
    int64_t next = rn_wheel_next_ns(&wheel);
    assert_true(next > now - MS);
    if (first == INT64_MAX)
        assert_int_equal(next, INT64_MAX);
    else
        assert_true(next <= (first > now ? first : now) + 2 * MS);
}

static void start_model(void)
{
    seed = 88172645463325252u;
    memset(entries, 0, sizeof entries);
    rn_wheel_init(&wheel, START);
    for (int i = 0; i < TIMERS; i++) {
        entries[i].timer.fire = fire_entry;
        entries[i].due_ns = INT64_MAX;
    }
}

static int64_t next_step(int64_t now)
{
    int64_t next;

    switch (random_below(100)) {
    case 0:
        return now + random_below(40 * DAY); /* a long sleep */
    case 1:
    case 2:
        return now + random_below(100000 * MS);
    case 3:
    case 4: /* as a loop does: exactly when the next timer is due */
        next = rn_wheel_next_ns(&wheel);
        return next > now && next < now + DAY ? next : now;
    default:
        return now + random_below(3 * MS);
    }
}

static void timers_fire_as_in_the_model(void **state)
{
    int64_t now = START, fired = 0;

    (void)state;
    start_model();
    for (int step = 0; step < STEPS; step++) {
        struct entry *entry = &entries[random_below(TIMERS)];
        if (random_below(3) == 0) {
            rn_timer_cancel(&wheel, &entry->timer);
            entry->due_ns = INT64_MAX;
        } else {
            set_entry(entry, now + random_delay());
        }
        if (random_below(4) != 0)
            continue;
        now = next_step(now);
        rn_wheel_advance(&wheel, now);
        assert_int_equal(rn_wheel_now(&wheel), now);
        check_model(now);
    }
    for (int i = 0; i < TIMERS; i++)
        fired += entries[i].fired;
    assert_true(fired > STEPS / 10);
}

static int count;

static void count_fire(struct rn_timer *timer)
{
    (void)timer;
    count++;
}

static void fires_up_to_two_ticks_later_and_never_before(void **state)
{
    struct rn_timer timer = {.fire = count_fire};

    (void)state;
    for (int64_t offset = 0; offset < 3 * MS; offset += MS / 4) {
        int64_t now = START, at = START + 10 * MS + offset;
        rn_wheel_init(&wheel, START);
        rn_timer_set(&wheel, &timer, at);
        count = 0;
        while (count == 0)
            rn_wheel_advance(&wheel, now += MS / 4);
        assert_true(now >= at);
        assert_true(now <= at + 2 * MS);
    }
}

static void cancelled_timers_wake_nothing(void **state)
{
    struct rn_timer near = {.fire = count_fire}, far = {.fire = count_fire};

    (void)state;
    rn_wheel_init(&wheel, START);
    assert_int_equal(rn_wheel_next_ns(&wheel), INT64_MAX);
    rn_timer_set(&wheel, &near, START + 5 * MS);
    rn_timer_set(&wheel, &far, START + 3600000 * MS);
    rn_timer_cancel(&wheel, &near);
    assert_true(rn_wheel_next_ns(&wheel) > START + 1000000 * MS);
    rn_timer_cancel(&wheel, &far);
    rn_timer_cancel(&wheel, &far);
    assert_int_equal(rn_wheel_next_ns(&wheel), INT64_MAX);
}

/* 60 s ahead, say: a handful of wake-ups, not one each tick. */
static void a_far_timer_wakes_a_loop_only_a_few_times(void **state)
{
    struct rn_timer timer = {.fire = count_fire};
    int wakes = 0;

    (void)state;
    rn_wheel_init(&wheel, START);
    rn_timer_set(&wheel, &timer, START + 60000 * MS);
    for (count = 0; count == 0; wakes++)
        rn_wheel_advance(&wheel, rn_wheel_next_ns(&wheel));
    assert_true(wakes <= 4);
}

static void set_in_the_past(struct rn_timer *timer)
{
    count++;
    rn_timer_set(&wheel, timer, 0);
}

static void a_timer_that_sets_itself_fires_once_a_round(void **state)
{
    struct rn_timer timer = {.fire = set_in_the_past};

    (void)state;
    rn_wheel_init(&wheel, START);
    rn_timer_set(&wheel, &timer, START);
    count = 0;
    rn_wheel_advance(&wheel, START + 60000 * MS);
    assert_int_equal(count, 1);
    rn_wheel_advance(&wheel, START + 120000 * MS);
    assert_int_equal(count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_as_in_the_model),
        cmocka_unit_test(fires_up_to_two_ticks_later_and_never_before),
        cmocka_unit_test(cancelled_timers_wake_nothing),
        cmocka_unit_test(a_far_timer_wakes_a_loop_only_a_few_times),
        cmocka_unit_test(a_timer_that_sets_itself_fires_once_a_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
