/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adaptive concurrency against a naive model of it: a list of leases and the rules of
 * docs/algorithms.md, written once more. And the stories an operator would tell of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/subject.h"

#define TRACES 60
#define TRACE_LENGTH 6000
#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define MEMORY (600 * SECOND)

static struct subject adaptive(uint64_t least, uint64_t most)
{
    return subject_new(&(struct ration_limit){RATION_CONCURRENCY, .amount = most,
                                              .adaptive_min = (uint16_t)least});
}

static struct rn_answer ask_for(struct subject *s, enum rn_op op, int64_t now, uint64_t id,
                                uint64_t cost)
{
    struct rn_ask a = {.op = op, .now_ns = now, .cost = cost, .id = id, .lease_ns = 30 * SECOND};
    struct rn_answer answer;

    subject_ask(s, &a, &answer);
    return answer;
}

static struct rn_answer ask(struct subject *s, enum rn_op op, int64_t now, uint64_t id)
{
    return ask_for(s, op, now, id, 1);
}

/* ---- the model */

struct lease {
    uint64_t id, places;
    int64_t end, began;
};

struct naive {
    uint64_t least, most;
    struct lease leases[512];
    unsigned count;
    uint64_t learnt; /* in 1/1024 */
    uint64_t best, recent, sum, samples, windows, streak, at_probe;
    int64_t window_began;
    bool follows, drains;
    int64_t forgotten_at, changed_at;
};

static void forget(struct naive *m)
{
    *m = (struct naive){
        .least = m->least, .most = m->most, .learnt = m->least * 1024, .at_probe = m->least * 1024};
}

static uint64_t floor_of_root(uint64_t n)
{
    uint64_t root = 0;

    while ((root + 1) * (root + 1) <= n)
        root++;
    return root;
}

static uint64_t within(const struct naive *m, uint64_t parts)
{
    return parts < m->least * 1024  ? m->least * 1024
           : parts > m->most * 1024 ? m->most * 1024
                                    : parts;
}

static uint64_t places_of(const struct naive *m)
{
    uint64_t parts = m->learnt;

    if (!m->follows)
        parts = parts / 2 - floor_of_root(parts * 1024) / 3;
    return within(m, parts) / 1024;
}

static uint64_t live_of(const struct naive *m)
{
    uint64_t live = 0;

    for (unsigned i = 0; i < m->count; i++)
        live += m->leases[i].places;
    return live;
}

static void move_to(struct naive *m, int64_t now)
{
    unsigned kept = 0;

    if (now >= m->forgotten_at)
        forget(m);
    if (!m->follows && m->best != 0 && (uint64_t)(now - m->changed_at) / 1000 > 8 * m->recent) {
        m->follows = true;
        m->drains = false;
        m->sum = m->samples = m->windows = 0;
    }
    for (unsigned i = 0; i < m->count; i++)
        if (m->leases[i].end > now)
            m->leases[kept++] = m->leases[i];
    m->count = kept;
}

static void remember(struct naive *m, int64_t now)
{
    m->forgotten_at = now + MEMORY;
    m->changed_at = now;
    for (unsigned i = 0; i < m->count; i++)
        if (m->leases[i].end > m->forgotten_at)
            m->forgotten_at = m->leases[i].end;
}

static void judge_window(struct naive *m)
{
    uint64_t mean = m->sum / m->samples ? m->sum / m->samples : 1, share, room, next;

    m->sum = m->samples = 0;
    m->recent = mean;
    if (m->drains) {
        m->drains = false;
        return;
    }
    if (!m->follows) {
        bool near = 2 * m->best <= 3 * mean && 2 * mean <= 3 * m->best;

        m->windows = m->best == 0 ? 384 - 24 : 0;
        m->best = near ? (m->best + mean) / 2 : mean < m->best / 2 ? m->best / 2 : mean;
        m->follows = true;
        m->at_probe = m->learnt;
        return;
    }
    share = m->best * 1024 * 21 / (mean * 20);
    share = share > 1024 ? 1024 : share < 512 ? 512 : share;
    m->streak = share < 1024 ? 0 : m->streak;
    room = floor_of_root(m->learnt * 1024) / 3;
    for (uint64_t i = 0; i < m->streak; i++)
        room *= 2;
    room = room > m->learnt / 2 ? m->learnt / 2 : room;
    m->streak += share == 1024 && m->streak < 15;
    next = m->learnt * share / 1024 + room;
    m->learnt = within(m, next < m->learnt ? (m->learnt + next) / 2 : next);
    m->windows++;
    bool odd = 2 * m->learnt < m->at_probe || 2 * mean < m->best ||
               (share < 1024 && m->learnt == m->least * 1024);

    if (m->windows >= 384 || (m->windows >= 4 && odd)) {
        m->follows = false;
        m->drains = true;
    }
}

static void sample(struct naive *m, uint64_t live, int64_t now, uint64_t held_us)
{
    uint64_t least = m->learnt * (m->drains ? 1 : 2) / 1024;
    uint64_t fewest = m->drains ? 16 : !m->follows && m->best != 0 ? 128 : 64;
    uint64_t usual = m->recent > m->best ? m->recent : m->best;

    if (2 * live < places_of(m))
        return;
    if (usual != 0 && held_us > 4 * usual)
        held_us = 4 * usual;
    if (m->samples == 0)
        m->window_began = now;
    m->sum += held_us;
    m->samples++;
    if (m->samples >= fewest && m->samples >= least &&
        (uint64_t)(now - m->window_began) / 1000 >= 2 * m->best)
        judge_window(m);
}

static bool model_take_places(struct naive *m, int64_t now, uint64_t id, uint64_t cost)
{
    if (live_of(m) + cost > places_of(m))
        return false;
    m->leases[m->count++] =
        (struct lease){.id = id, .places = cost, .end = now + 30 * SECOND, .began = now};
    remember(m, now);
    return true;
}

static bool model_change(struct naive *m, enum rn_op op, int64_t now, uint64_t id)
{
    for (unsigned i = 0; i < m->count; i++) {
        struct lease found = m->leases[i];

        if (found.id != id)
            continue;
        if (op == RN_RELEASE)
            sample(m, live_of(m), now, (uint64_t)(now - found.began) / 1000);
        if (op == RN_RENEW)
            m->leases[i].end = now + 30 * SECOND;
        else
            m->leases[i] = m->leases[--m->count];
        remember(m, now);
        return true;
    }
    return false;
}

static void compare(const struct naive *m, const struct rn_answer *answer, int step)
{
    uint64_t places = places_of(m), live = live_of(m);

    if (answer->places != places || answer->latency.best_us != m->best ||
        answer->latency.recent_us != m->recent ||
        answer->remaining != (places > live ? places - live : 0))
        fail_msg("RATION_SEED=%" PRIu64 " step %d: %" PRIu64 " places and %" PRIu64
                 " left, not %" PRIu64 " with %" PRIu64 " held; best %u, not %" PRIu64,
                 random_seed, step, answer->places, answer->remaining, places, live,
                 answer->latency.best_us, m->best);
}

/* Requests as fast as they are admitted, which take longer the more there are. */
static void compare_trace(void)
{
    uint64_t least = 1 + random_below(20), most = least + random_below(100);
    struct subject s = adaptive(least, most);
    struct naive *m = calloc(1, sizeof *m);
    int64_t now = BASE;
    uint64_t last_id = 0, knee = 1 + random_below(60);

    m->least = least;
    m->most = most;
    for (int step = 0; step < TRACE_LENGTH; step++) {
        bool allowed, full = live_of(m) >= places_of(m);
        uint64_t id = m->count ? m->leases[random_below(m->count)].id : 999999, cost;
        struct rn_answer answer;

        now += (int64_t)random_below(20 * 1000 * (live_of(m) > knee ? 4 : 1)) * US;
        if (random_below(1500) == 0)
            now += random_below(3) ? 40 * SECOND : 700 * SECOND;
        move_to(m, now);
        switch (full ? 4 + random_below(6) : random_below(10)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
            cost = random_below(8) ? 1 : 1 + random_below(3);
            allowed = model_take_places(m, now, ++last_id, cost);
            answer = ask_for(&s, RN_TAKE, now, last_id, cost);
            break;
        case 5:
            allowed = model_change(m, RN_RENEW, now, id);
            answer = ask(&s, RN_RENEW, now, id);
            break;
        case 6:
            allowed = random_below(20) == 0 && model_change(m, RN_GIVE_BACK, now, id);
            answer = allowed ? ask(&s, RN_GIVE_BACK, now, id) : ask(&s, RN_GIVE_BACK, now, 999999);
            break;
        default:
            allowed = model_change(m, RN_RELEASE, now, id);
            answer = ask(&s, RN_RELEASE, now, id);
            break;
        }
        assert_int_equal(answer.allowed, allowed);
        compare(m, &answer, step);
        assert_true(rn_limit_idle_at(s.limit.form, s.state[0]) == m->forgotten_at || m->count == 0);
    }
    free(m);
    subject_free(&s);
}

static void places_and_latencies_agree_with_the_model(void **unused)
{
    (void)unused;
    random_init();
    for (uint64_t i = 0; i < TRACES * soak_factor(); i++)
        compare_trace();
}

/* ---- stories */

/* `n` requests, as many at a time as there are places, each held for `held`. */
static uint64_t run(struct subject *s, int64_t *now, unsigned n, int64_t held, uint64_t at_a_time)
{
    uint64_t places = 0;
    static uint64_t id;

    for (unsigned done = 0; done < n;) {
        uint64_t first = id + 1;

        while (id - first + 1 < at_a_time && ask(s, RN_TAKE, *now, id + 1).allowed)
            id++;
        *now += held;
        for (uint64_t i = first; i <= id; i++, done++)
            places = ask(s, RN_RELEASE, *now, i).places;
    }
    return places;
}

static void the_number_grows_while_latency_stays_good(void **unused)
{
    struct subject s = adaptive(5, 200);
    int64_t now = BASE;

    (void)unused;
    assert_int_equal(peek(&s, now, 1).places, 5);
    assert_int_equal(run(&s, &now, 50000, 10 * MS, 1000), 200);
    assert_int_equal(peek(&s, now, 1).latency.best_us, 10000);
    subject_free(&s);
}

static void few_requests_at_a_time_teach_nothing(void **unused)
{
    struct subject s = adaptive(20, 200);
    int64_t now = BASE;

    (void)unused;
    assert_int_equal(run(&s, &now, 5000, 10 * MS, 9), 20);
    assert_int_equal(peek(&s, now, 1).latency.best_us, 0);
    assert_int_equal(run(&s, &now, 400, 10 * MS, 20), 24);
    assert_int_equal(peek(&s, now, 1).latency.best_us, 10000);
    subject_free(&s);
}

static void slow_answers_bring_the_number_down_but_not_below_the_minimum(void **unused)
{
    struct subject s = adaptive(5, 100);
    int64_t now = BASE;

    (void)unused;
    assert_int_equal(run(&s, &now, 20000, 10 * MS, 1000), 100);
    uint64_t places = run(&s, &now, 600, 25 * MS, 1000);

    assert_in_range(places, 5, 99);
    for (int64_t held = 50; held < 5000; held *= 2)
        places = run(&s, &now, 600, held * MS, 1000);
    assert_in_range(places, 5, 40);
    subject_free(&s);
}

static void a_crashed_holder_teaches_nothing(void **unused)
{
    struct subject s = adaptive(4, 100);
    int64_t now = BASE;

    (void)unused;
    for (int i = 0; i < 200; i++) {
        for (uint64_t id = 1; id <= 4; id++)
            assert_true(ask(&s, RN_TAKE, now, (uint64_t)i * 10 + id).allowed);
        now += 30 * SECOND;
    }
    assert_int_equal(peek(&s, now, 1).places, 4);
    assert_int_equal(peek(&s, now, 1).latency.recent_us, 0);
    subject_free(&s);
}

static void a_place_given_back_teaches_nothing(void **unused)
{
    struct subject s = adaptive(4, 100);
    int64_t now = BASE;

    (void)unused;
    run(&s, &now, 200, 10 * MS, 1000);
    uint64_t places = peek(&s, now, 1).places;

    for (uint64_t i = 0; i < 1000; i++) {
        ask_for(&s, RN_TAKE, now, 1000000 + i, places);
        assert_true(ask(&s, RN_GIVE_BACK, now, 1000000 + i).allowed);
    }
    assert_int_equal(peek(&s, now, 1).places, places);
    assert_int_equal(peek(&s, now, 1).latency.best_us, 10000);
    subject_free(&s);
}

static void renewing_keeps_the_time_of_the_acquisition(void **unused)
{
    struct subject s = adaptive(1, 100);
    int64_t now = BASE;

    (void)unused;
    for (uint64_t id = 1; id <= 64; id++) {
        assert_true(ask(&s, RN_TAKE, now, id).allowed);
        for (int i = 0; i < 3; i++) {
            now += SECOND;
            assert_true(ask(&s, RN_RENEW, now, id).allowed);
        }
        ask(&s, RN_RELEASE, now, id);
    }
    assert_int_equal(peek(&s, now, 1).latency.best_us, 3000000);
    subject_free(&s);
}

static void what_was_learnt_is_forgotten_after_ten_minutes(void **unused)
{
    struct subject s = adaptive(5, 100);
    int64_t now = BASE;

    (void)unused;
    assert_int_equal(run(&s, &now, 20000, 10 * MS, 1000), 100);
    assert_int_equal(peek(&s, now + MEMORY - 1, 1).places, 100);
    assert_int_equal(rn_limit_idle_at(s.limit.form, s.state[0]), now + MEMORY);
    assert_int_equal(peek(&s, now + MEMORY, 1).places, 5);
    subject_free(&s);
}

static void other_bounds_keep_what_was_learnt_within_them(void **unused)
{
    struct subject s = adaptive(5, 100);
    int64_t now = BASE;

    (void)unused;
    assert_int_equal(run(&s, &now, 20000, 10 * MS, 1000), 100);
    struct subject fewer = adaptive(5, 30), more = adaptive(120, 200);

    assert_true(fewer.limit.shape == s.limit.shape);
    s.limit.amount = 30;
    assert_int_equal(peek(&s, now, 1).places, 30);
    s.limit.amount = 200;
    s.limit.least = 120;
    assert_int_equal(peek(&s, now, 1).places, 120);
    subject_free(&fewer);
    subject_free(&more);
    subject_free(&s);
}

static void a_refusal_says_when_to_ask_again(void **unused)
{
    struct subject s = adaptive(2, 100);

    (void)unused;
    ask(&s, RN_TAKE, BASE, 1);
    ask(&s, RN_TAKE, BASE + SECOND, 2);
    assert_int_equal(ask(&s, RN_TAKE, BASE + SECOND, 3).retry_after_ns, SECOND);
    /* The lease of the first ends before that. */
    assert_int_equal(ask(&s, RN_TAKE, BASE + 30 * SECOND - 5, 3).retry_after_ns, 5);
    assert_int_equal(ask_for(&s, RN_TAKE, BASE + SECOND, 3, 101).retry_after_ns, RN_NEVER);
    assert_true(ask_for(&s, RN_TAKE, BASE + SECOND, 3, 100).retry_after_ns >= SECOND);
    subject_free(&s);
}

static void a_clock_gone_back_holds_a_place_for_a_day_at_most(void **unused)
{
    struct subject s = adaptive(1, 10);
    int64_t then = BASE - 300 * DAY;

    (void)unused;
    ask(&s, RN_TAKE, BASE, 1);
    assert_false(ask(&s, RN_TAKE, then, 2).allowed);
    assert_true(ask(&s, RN_TAKE, then + RATION_LEASE_MAX_NS, 2).allowed);
    subject_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_and_latencies_agree_with_the_model),
        cmocka_unit_test(the_number_grows_while_latency_stays_good),
        cmocka_unit_test(few_requests_at_a_time_teach_nothing),
        cmocka_unit_test(slow_answers_bring_the_number_down_but_not_below_the_minimum),
        cmocka_unit_test(a_crashed_holder_teaches_nothing),
        cmocka_unit_test(a_place_given_back_teaches_nothing),
        cmocka_unit_test(renewing_keeps_the_time_of_the_acquisition),
        cmocka_unit_test(what_was_learnt_is_forgotten_after_ten_minutes),
        cmocka_unit_test(other_bounds_keep_what_was_learnt_within_them),
        cmocka_unit_test(a_refusal_says_when_to_ask_again),
        cmocka_unit_test(a_clock_gone_back_holds_a_place_for_a_day_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
