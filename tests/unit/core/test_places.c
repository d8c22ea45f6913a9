/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrency against a plain list of leases, and the stories an operator
 * would tell of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/subject.h"

#define TRACES 400
#define TRACE_LENGTH 300

static struct subject places(uint64_t amount)
{
    return subject_new(&(struct ration_limit){RATION_CONCURRENCY, .amount = amount});
}

static struct rn_answer ask(struct subject *s, enum rn_op op, int64_t now, uint64_t id,
                            int64_t lease_ns)
{
    struct rn_ask a = {.op = op, .now_ns = now, .cost = 1, .id = id, .lease_ns = lease_ns};
    struct rn_answer answer;

    subject_ask(s, &a, &answer);
    return answer;
}

/* ---- random traces */

struct leases {
    int64_t end[TRACE_LENGTH + 1]; /* by id; 0: none, or released */
    uint64_t last_id;
};

static uint64_t live_at(const struct leases *l, int64_t now)
{
    uint64_t live = 0;

    for (uint64_t id = 1; id <= l->last_id; id++)
        live += l->end[id] > now;
    return live;
}

static int64_t first_end(const struct leases *l, int64_t now, bool last)
{
    int64_t found = 0;

    for (uint64_t id = 1; id <= l->last_id; id++)
        if (l->end[id] > now && (found == 0 || (l->end[id] > found) == last))
            found = l->end[id];
    return found;
}

static void acquire_and_compare(struct subject *s, struct leases *l, int64_t now)
{
    int64_t lease_ns = (int64_t)random_scale(1, (uint64_t)(10 * SECOND));
    uint64_t id = l->last_id + 1, live = live_at(l, now);
    bool looked = peek(s, now, 1).allowed;
    struct rn_answer answer = ask(s, RN_TAKE, now, id, lease_ns);

    assert_int_equal(answer.allowed, live < s->spec.amount);
    assert_int_equal(answer.allowed, looked);
    if (answer.allowed) {
        l->end[++l->last_id] = now + lease_ns;
        assert_int_equal(answer.retry_after_ns, 0);
    } else if (s->spec.amount == 0) {
        assert_int_equal(answer.retry_after_ns, RN_NEVER);
    } else {
        int64_t first = first_end(l, now, false);

        assert_true(answer.retry_after_ns >= (first - now < SECOND ? first - now : SECOND));
        assert_true(answer.retry_after_ns <= first - now);
        assert_true(peek(s, first, 1).allowed);
    }
}

static void renew_or_release_and_compare(struct subject *s, struct leases *l, int64_t now)
{
    int64_t lease_ns = (int64_t)random_scale(1, (uint64_t)(10 * SECOND));
    uint64_t id = 1 + random_below(l->last_id + 2); /* now and then one that no lease has */
    bool live = id <= l->last_id && l->end[id] > now;
    enum rn_op op = random_below(2) ? RN_RENEW : RN_RELEASE;

    assert_int_equal(ask(s, op, now, id, lease_ns).allowed, live);
    if (live)
        l->end[id] = op == RN_RENEW ? now + lease_ns : 0;
}

static void compare_trace(uint64_t amount)
{
    struct subject s = places(amount);
    struct leases l = {.last_id = 0};
    int64_t now = BASE;

    for (int i = 0; i < TRACE_LENGTH; i++) {
        if (random_below(3))
            acquire_and_compare(&s, &l, now);
        else
            renew_or_release_and_compare(&s, &l, now);
        struct rn_answer look = peek(&s, now, 0);
        int64_t last = first_end(&l, now, true);

        assert_int_equal(look.remaining, amount - live_at(&l, now));
        assert_int_equal(look.reset_after_ns, last ? last - now : 0);
        assert_true(rn_limit_idle_at(s.limit.form, s.state[0]) >= last);
        now += random_below(2) ? 0 : (int64_t)random_scale(0, (uint64_t)SECOND);
    }
    subject_free(&s);
}

static void places_agree_with_a_list_of_leases(void **unused)
{
    (void)unused;
    random_init();
    for (uint64_t i = 0; i < TRACES * soak_factor(); i++)
        compare_trace(random_below(2) ? random_below(8) : random_below(100));
}

/* ---- stories */

static void a_crashed_holder_frees_its_place_at_the_end_of_its_lease(void **unused)
{
    struct subject s = places(1);

    (void)unused;
    assert_true(ask(&s, RN_TAKE, BASE, 1, 60 * SECOND).allowed);
    struct rn_answer answer = ask(&s, RN_TAKE, BASE + 10 * SECOND, 2, 60 * SECOND);

    assert_false(answer.allowed);
    assert_int_equal(answer.retry_after_ns, 20 * SECOND); /* as if it were half way through */
    answer = ask(&s, RN_TAKE, BASE + 50 * SECOND, 2, 60 * SECOND);
    assert_int_equal(answer.retry_after_ns, 10 * SECOND);
    assert_false(ask(&s, RN_TAKE, BASE + 60 * SECOND - 1, 2, 60 * SECOND).allowed);
    assert_true(ask(&s, RN_TAKE, BASE + 60 * SECOND, 2, 60 * SECOND).allowed);
    assert_false(ask(&s, RN_RENEW, BASE + 60 * SECOND, 1, 60 * SECOND).allowed);
    assert_false(ask(&s, RN_RELEASE, BASE + 60 * SECOND, 1, 0).allowed);
    subject_free(&s);
}

static void the_wait_is_guessed_from_how_long_holders_have_been_at_it(void **unused)
{
    struct subject s = places(10);
    struct rn_ask two = {.op = RN_TAKE, .cost = 2, .id = 99, .lease_ns = 60 * SECOND};
    struct rn_answer answer;

    (void)unused;
    for (uint64_t id = 1; id <= 10; id++)
        ask(&s, RN_TAKE, BASE + (int64_t)id * SECOND, id, 60 * SECOND);
    /* The one in the middle has been at it for 6 s: 12 s each, by ten. */
    answer = ask(&s, RN_TAKE, BASE + 11 * SECOND, 11, 60 * SECOND);
    assert_int_equal(answer.retry_after_ns, 12 * SECOND / 10);
    two.now_ns = BASE + 11 * SECOND;
    subject_ask(&s, &two, &answer);
    assert_int_equal(answer.retry_after_ns, 24 * SECOND / 10);
    subject_free(&s);
}

static void a_lease_is_released_once(void **unused)
{
    struct subject s = places(2);

    (void)unused;
    ask(&s, RN_TAKE, BASE, 7, SECOND);
    assert_false(ask(&s, RN_RELEASE, BASE, 8, 0).allowed);
    assert_true(ask(&s, RN_RELEASE, BASE, 7, 0).allowed);
    assert_false(ask(&s, RN_RELEASE, BASE, 7, 0).allowed);
    assert_int_equal(peek(&s, BASE, 0).remaining, 2);
    subject_free(&s);
}

static void renewing_keeps_a_place_beyond_its_first_lease(void **unused)
{
    struct subject s = places(1);

    (void)unused;
    ask(&s, RN_TAKE, BASE, 1, SECOND);
    for (int i = 1; i < 10; i++)
        assert_true(ask(&s, RN_RENEW, BASE + i * SECOND / 2, 1, SECOND).allowed);
    assert_false(ask(&s, RN_TAKE, BASE + 5 * SECOND, 2, SECOND).allowed);
    assert_true(ask(&s, RN_TAKE, BASE + 5 * SECOND + SECOND / 2, 2, SECOND).allowed);
    subject_free(&s);
}

static void all_16000_places_can_be_taken(void **unused)
{
    struct subject s = places(RATION_PLACES_MAX);

    (void)unused;
    for (uint64_t id = 1; id <= RATION_PLACES_MAX; id++)
        if (!ask(&s, RN_TAKE, BASE, id, SECOND).allowed)
            fail_msg("place %" PRIu64 " refused", id);
    assert_false(ask(&s, RN_TAKE, BASE, 16001, SECOND).allowed);
    assert_true(ask(&s, RN_RELEASE, BASE, 12345, 0).allowed);
    assert_int_equal(peek(&s, BASE, 0).remaining, 1);
    subject_free(&s);
}

static void more_places_than_there_are_can_never_be_had(void **unused)
{
    struct subject s = places(3);

    (void)unused;
    assert_true(peek(&s, BASE, 3).allowed);
    assert_int_equal(peek(&s, BASE, 4).retry_after_ns, RN_NEVER);
    subject_free(&s);
}

static void a_clock_gone_back_holds_a_place_for_a_day_at_most(void **unused)
{
    struct subject s = places(1);
    int64_t then = BASE - 300 * DAY;

    (void)unused;
    ask(&s, RN_TAKE, BASE, 1, SECOND);
    struct rn_answer answer = ask(&s, RN_TAKE, then, 2, SECOND);

    assert_false(answer.allowed);
    assert_true(answer.retry_after_ns <= RATION_LEASE_MAX_NS);
    assert_true(ask(&s, RN_TAKE, then + RATION_LEASE_MAX_NS, 2, SECOND).allowed);
    subject_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_agree_with_a_list_of_leases),
        cmocka_unit_test(a_crashed_holder_frees_its_place_at_the_end_of_its_lease),
        cmocka_unit_test(the_wait_is_guessed_from_how_long_holders_have_been_at_it),
        cmocka_unit_test(a_lease_is_released_once),
        cmocka_unit_test(renewing_keeps_a_place_beyond_its_first_lease),
        cmocka_unit_test(all_16000_places_can_be_taken),
        cmocka_unit_test(more_places_than_there_are_can_never_be_had),
        cmocka_unit_test(a_clock_gone_back_holds_a_place_for_a_day_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
