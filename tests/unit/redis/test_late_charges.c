/* SPDX-License-Identifier: Apache-2.0 */
/* Late charges: which are given back, when, and which are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "redis/codec.h"
#include "redis/strict/late_charges.h"

#define MARK 1234567

struct scene {
    struct rn_late_charges lates;
    struct rn_limit limit;
    struct rn_charge charge;
};

static int set_up(void **state)
{
    static struct scene scene;

    rn_limit_init(&scene.limit, &(struct ration_limit){.algorithm = RATION_FIXED_WINDOW,
                                                       .amount = 10,
                                                       .period_ns = INT64_C(60000000000)});
    scene.charge = (struct rn_charge){
        .limit = &scene.limit, .key = 42, .ask = {.op = RN_TAKE, .now_ns = 7, .cost = 3}};
    *state = &scene;
    return rn_late_charges_init(&scene.lates) ? 0 : -1;
}

static int tear_down(void **state)
{
    rn_late_charges_done(&((struct scene *)*state)->lates);
    return 0;
}

/* The reply: made, or refused. */
static struct rn_late_charge *answer(struct scene *s, uint64_t id, bool allowed)
{
    double numbers[RN_CODEC_NUMBERS] = {allowed, 7, 0, 1, 0, MARK};
    char bytes[RN_CODEC_ANSWER];

    memcpy(bytes, numbers, sizeof bytes);
    return rn_late_charges_answer(&s->lates, id, bytes);
}

static void a_late_charge_of_a_refused_request_is_given_back_once(void **state)
{
    struct scene *s = *state;

    for (unsigned unwanted_first = 0; unwanted_first < 2; unwanted_first++) {
        uint64_t id = rn_late_charges_note(&s->lates, &s->charge);
        struct rn_late_charge *first = unwanted_first
                                           ? rn_late_charges_disown(&s->lates, id, &s->charge)
                                           : answer(s, id, true);
        struct rn_late_charge *late = unwanted_first
                                          ? answer(s, id, true)
                                          : rn_late_charges_disown(&s->lates, id, &s->charge);

        assert_null(first);
        assert_non_null(late);
        assert_int_equal(late->charge.ask.op, RN_GIVE_BACK);
        assert_int_equal(late->charge.ask.mark, MARK);
        assert_int_equal(late->charge.ask.cost, 3);
        assert_true(late->charge.key == 42 && late->charge.limit == &late->limit);
        assert_null(rn_late_charges_disown(&s->lates, id, &s->charge));
        assert_null(answer(s, id, true));
        rn_late_charges_end(late);
        assert_null(rn_late_charges_disown(&s->lates, id, &s->charge));
    }
}

static void a_charge_that_was_refused_or_lost_is_not_given_back(void **state)
{
    struct scene *s = *state;
    uint64_t refused = rn_late_charges_note(&s->lates, &s->charge);
    uint64_t lost = rn_late_charges_note(&s->lates, &s->charge);

    assert_null(answer(s, refused, false));
    assert_null(rn_late_charges_disown(&s->lates, refused, &s->charge));
    assert_null(rn_late_charges_disown(&s->lates, lost, &s->charge));
    rn_late_charges_forget(&s->lates, lost);
    assert_null(answer(s, lost, true));
}

static void nothing_is_given_back_for_another_charge_or_for_a_part_of_one(void **state)
{
    struct scene *s = *state;
    uint64_t id = rn_late_charges_note(&s->lates, &s->charge);
    struct rn_charge other = s->charge, part = s->charge;

    other.key++;
    part.ask.cost--;
    assert_null(answer(s, id, true));
    assert_null(rn_late_charges_disown(&s->lates, id, &other));
    assert_null(rn_late_charges_disown(&s->lates, id, &part));
    assert_null(rn_late_charges_disown(&s->lates, id + RN_LATE_CHARGES_MAX, &s->charge));
    assert_non_null(rn_late_charges_disown(&s->lates, id, &s->charge));
}

static void looks_and_forced_charges_are_not_noted(void **state)
{
    static const enum rn_op ops[] = {RN_PEEK,      RN_OLDEST, RN_FORCE,
                                     RN_GIVE_BACK, RN_CREDIT, RN_RESET};
    struct scene *s = *state;

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        s->charge.ask.op = ops[i];
        assert_true(rn_late_charges_note(&s->lates, &s->charge) == 0);
    }
}

static void the_oldest_late_charges_are_replaced_unless_their_refund_is_in_flight(void **state)
{
    struct scene *s = *state;
    uint64_t returning = rn_late_charges_note(&s->lates, &s->charge);
    uint64_t oldest = rn_late_charges_note(&s->lates, &s->charge);

    assert_null(answer(s, returning, true));
    struct rn_late_charge *late = rn_late_charges_disown(&s->lates, returning, &s->charge);

    for (unsigned i = 2; i < RN_LATE_CHARGES_MAX; i++)
        assert_true(rn_late_charges_note(&s->lates, &s->charge) != 0);
    assert_true(rn_late_charges_note(&s->lates, &s->charge) == 0); /* its place is taken */
    assert_int_equal(late->charge.ask.op, RN_GIVE_BACK);
    assert_null(rn_late_charges_disown(&s->lates, oldest, &s->charge));
    assert_true(rn_late_charges_note(&s->lates, &s->charge) != 0);
    assert_null(answer(s, oldest, true)); /* burnt */
    rn_late_charges_end(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_late_charge_of_a_refused_request_is_given_back_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_charge_that_was_refused_or_lost_is_not_given_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            nothing_is_given_back_for_another_charge_or_for_a_part_of_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(looks_and_forced_charges_are_not_noted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            the_oldest_late_charges_are_replaced_unless_their_refund_is_in_flight, set_up,
            tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
