/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escalation and earning on one word against the naive model (model/reputation.h): a million random
 * steps each, under random plans and a clock that jumps both ways. RATION_SOAK=1: a hundred
 * million. RATION_SEED repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/earn.h"
#include "core/escalate.h"
#include "model/reputation.h"
#include "model/subject.h"

#define HISTORIES 20000
#define STEPS 60 /* of each, on average */

static void fail_at(const char *what, int64_t now_ns)
{
    fail_msg("%s at %" PRId64 " (RATION_SEED=%" PRIu64 ")", what, now_ns, random_seed);
}

/* A time that matters from now on, or one tick or nanosecond beside it. */
static int64_t beside(int64_t span_ns)
{
    static const int64_t near_ns[] = {0, 0, 0, 1, -1, RN_RECORD_TICK_NS, -RN_RECORD_TICK_NS};

    span_ns += near_ns[random_below(sizeof near_ns / sizeof *near_ns)];
    return span_ns > 0 ? span_ns : 0;
}

/* How far the clock goes on; `spans` are the times of the plan, and what is left of one. */
static int64_t random_pause(const int64_t *spans, size_t n)
{
    int64_t span_ns = spans[random_below(n)];

    switch (random_below(12)) {
    case 0:
        return beside(span_ns);
    case 1:
        return (int64_t)random_below(2 * (uint64_t)span_ns + 1);
    case 2:
    case 3:
        return (int64_t)random_scale(0, (uint64_t)span_ns);
    case 4:
        return (int64_t)random_below((uint64_t)span_ns / 8 + 1);
    case 5:
        return (int64_t)random_below(4 * RN_RECORD_TICK_NS);
    default:
        return (int64_t)random_below((uint64_t)spans[0] / 64 + 2);
    }
}

/* What is left of a time that began at `from_ns`. */
static int64_t left_of(int64_t from_ns, int64_t span_ns, int64_t now_ns)
{
    int64_t left_ns = from_ns + span_ns - now_ns;

    return left_ns > 0 ? left_ns : 0;
}

/* Sometimes back, all together at most `most_ns` behind the latest time. */
static int64_t random_step_back(const int64_t *spans, size_t n, int64_t behind_ns, int64_t most_ns)
{
    int64_t back_ns = random_below(24) == 0 ? random_pause(spans, n) : 0;

    return behind_ns + back_ns <= most_ns ? back_ns : 0;
}

/* --- escalate --------------------------------------------------------------------------------- */

static uint32_t random_count(void)
{
    return random_below(4) ? 1 + (uint32_t)random_below(6) : (uint32_t)random_scale(1, 1000);
}

static struct model_escalation random_escalation(void)
{
    struct model_escalation rule = {
        .after = random_count(),
        .within_ns = (int64_t)random_scale((uint64_t)SECOND, (uint64_t)DAY),
        .forget_ns = (int64_t)random_scale((uint64_t)HOUR, 365 * (uint64_t)DAY)};
    uint64_t ban_ns = random_scale((uint64_t)SECOND, 365 * (uint64_t)DAY);
    uint64_t most_ns = random_scale(ban_ns, 365 * (uint64_t)DAY), tenths = 10 + random_below(60);

    for (unsigned level = 1; level < MODEL_LEVELS; level++) {
        rule.ban_ns[level] = (int64_t)ban_ns;
        ban_ns = ban_ns * tenths / 10;
        ban_ns = ban_ns < most_ns ? ban_ns : most_ns;
    }
    return rule;
}

static struct rn_escalate_plan plan_of_escalation(const struct model_escalation *rule)
{
    struct rn_escalate_plan plan = {
        .after = rule->after, .within_ns = rule->within_ns, .forget_ns = rule->forget_ns};

    for (unsigned level = 0; level < RN_LEVELS; level++)
        plan.ban_ns[level] = rule->ban_ns[level];
    return plan;
}

static void check_offender(const struct rn_escalate_plan *plan, struct model_offender *o,
                           uint64_t word, bool begins, int64_t now_ns)
{
    struct rn_record_view view;
    int64_t rest_ns = rn_escalate_rest_ns(plan, word, now_ns);

    rn_record_view(word, now_ns, &view);
    if (rest_ns != model_offender_rest_ns(o, now_ns))
        fail_at("the rest of a ban differs", now_ns);
    if (rest_ns > 0 && (!view.live || !view.banned || view.ends_ns < now_ns + rest_ns))
        fail_at("a ban is not in the view", now_ns);
    if (begins && !model_offender_has_earned(o, view.level, view.ends_ns, now_ns))
        fail_at("a ban was not earned", now_ns);
    if (view.level != 0 && o->level != view.level)
        fail_at("the level differs", now_ns);
}

/* How far the clock may step back until the word cannot tell times apart any more: it knows the
 * ends of bans up to 366 days ahead, and levels for 417 days. After larger steps a level is
 * forgotten early: see no_clock_bans_anybody_unearned. */
static int64_t most_behind(const struct model_escalation *rule)
{
    int64_t ban_ns = rule->ban_ns[MODEL_LEVELS - 1];
    int64_t by_ban_ns = 365 * DAY - ban_ns, by_level_ns = 416 * DAY - ban_ns - rule->forget_ns;
    int64_t most_ns = by_ban_ns < by_level_ns ? by_ban_ns : by_level_ns;

    return most_ns > 0 ? most_ns : 0;
}

/* One client: refusals at random times. */
static uint64_t compare_offender(uint64_t *bans)
{
    struct model_escalation rule = random_escalation();
    struct rn_escalate_plan plan = plan_of_escalation(&rule);
    struct model_offender o;
    uint64_t word = 0, steps = 1 + random_below(2 * STEPS);
    int64_t now_ns = BASE, latest_ns = BASE;
    int64_t spans[] = {rule.within_ns, rule.ban_ns[1], rule.forget_ns, 0, 0, 0};

    model_offender_init(&o, &rule);
    for (uint64_t i = 0; i < steps; i++) {
        now_ns += random_pause(spans, 6);
        latest_ns = now_ns > latest_ns ? now_ns : latest_ns;
        now_ns -= random_step_back(spans, 6, latest_ns - now_ns, most_behind(&rule));
        check_offender(&plan, &o, word, false, now_ns);
        bool banned = rn_escalate_rest_ns(&plan, word, now_ns) != 0;
        uint64_t next = rn_escalate_refuse(&plan, word, now_ns);
        bool begins = !banned && rn_escalate_rest_ns(&plan, next, now_ns) != 0;

        if (banned && next != word)
            fail_at("a refusal in a ban counts", now_ns);
        if (!banned)
            model_offender_note(&o, now_ns);
        word = next;
        if (model_offender_refuse(&o, now_ns) != begins)
            fail_at("a ban begins for one of them only", now_ns);
        check_offender(&plan, &o, word, begins, now_ns);
        *bans += begins;
        spans[3] = rn_escalate_rest_ns(&plan, word, now_ns);
        spans[4] = left_of(o.window_ns, rule.within_ns, now_ns);
        spans[5] = left_of(o.forgotten_ns, 0, now_ns);
    }
    model_offender_done(&o);
    return steps;
}

static void escalation_is_that_of_the_model(void **state)
{
    uint64_t steps = 0, bans = 0;

    (void)state;
    random_init();
    for (uint64_t i = 0; i < HISTORIES * soak_factor(); i++)
        steps += compare_offender(&bans);
    print_message("# %" PRIu64 " refusals, %" PRIu64 " bans, no difference\n", steps, bans);
    assert_true(steps >= 1000000 && bans >= steps / 100);
}

/* Any time is possible, also years back: then a level may be forgotten earlier than the model does,
 * but still no ban begins or lasts unearned. */
static void no_clock_bans_anybody_unearned(void **state)
{
    (void)state;
    random_init();
    for (uint64_t i = 0; i < HISTORIES / 4 * soak_factor(); i++) {
        struct model_escalation rule = random_escalation();
        struct rn_escalate_plan plan = plan_of_escalation(&rule);
        struct model_offender o;
        uint64_t word = 0;
        int64_t now_ns = BASE;

        model_offender_init(&o, &rule);
        for (unsigned step = 0; step < STEPS; step++) {
            now_ns += (int64_t)random_scale(0, 4 * 365 * (uint64_t)DAY) *
                      (now_ns > BASE && random_below(2) ? -1 : 1);
            for (uint64_t n = random_below(2 * rule.after + 1); n-- > 0;) {
                bool banned = rn_escalate_rest_ns(&plan, word, now_ns) != 0;
                struct rn_record_view view;

                word = rn_escalate_refuse(&plan, word, now_ns);
                if (banned) {
                    if (now_ns >= o.exact_ends_ns || now_ns < o.exact_begun_ns - 11 * SECOND)
                        fail_at("a ban lasts too long", now_ns);
                    continue;
                }
                model_offender_note(&o, now_ns);
                rn_record_view(word, now_ns, &view);
                if (rn_escalate_rest_ns(&plan, word, now_ns) != 0 &&
                    !model_offender_has_earned(&o, 0, view.ends_ns, now_ns))
                    fail_at("a ban was not earned", now_ns);
                now_ns += (int64_t)random_below((uint64_t)rule.within_ns / rule.after + 1);
            }
        }
        model_offender_done(&o);
    }
}

/* --- earn ---------------------------------------------------------------------------------------
 */

static struct model_earning random_earning(void)
{
    struct model_earning rule = {
        .every_ns = (int64_t)random_scale((uint64_t)MINUTE, 30 * (uint64_t)DAY),
        .add = random_below(2) ? 10 : (unsigned)random_scale(1, 100),
        .up_to = 101 + (unsigned)random_below(300),
        .lost_after = random_count(),
        .lost_within_ns = (int64_t)random_scale((uint64_t)SECOND, (uint64_t)DAY)};

    rule.forget_ns = (int64_t)random_scale(2 * (uint64_t)rule.every_ns, 365 * (uint64_t)DAY);
    return rule;
}

static void check_earner(const struct rn_earn_plan *plan, const struct model_earner *e,
                         uint64_t earned, int64_t now_ns)
{
    unsigned percent = rn_earn_percent(plan, earned, now_ns);
    struct rn_record_view view;

    rn_record_view(earned, now_ns, &view);
    if (percent != model_earner_percent(e, now_ns))
        fail_at("what was earned differs", now_ns);
    if (view.percent != percent)
        fail_at("the view has another percentage", now_ns);
}

static void refuse_earner(const struct rn_earn_plan *plan, struct model_earner *e, uint64_t *earned,
                          uint64_t *lapses, int64_t now_ns)
{
    *lapses = rn_earn_refuse(plan, *lapses, now_ns);
    if (model_earner_refuse(e, now_ns) != (*lapses == 0))
        fail_at("one of them only loses all", now_ns);
    if (*lapses != 0)
        return;
    *earned = rn_earn_lose(plan, *earned, now_ns);
    if (!model_earner_has_lost(e))
        fail_at("steps were lost without enough refusals", now_ns);
}

/* One client: admissions and some refusals. A step comes at most one tick early. */
static uint64_t compare_earner(uint64_t *gained, uint64_t *lost)
{
    struct model_earning rule = random_earning();
    struct rn_earn_plan plan = {.every_ns = rule.every_ns,
                                .add = (uint16_t)rule.add,
                                .up_to = (uint16_t)rule.up_to,
                                .lost_after = rule.lost_after,
                                .lost_within_ns = rule.lost_within_ns,
                                .forget_ns = rule.forget_ns};
    struct model_earner e;
    uint64_t earned = 0, lapses = 0, steps = 1 + random_below(2 * STEPS);
    uint64_t one_in = 1 + random_below(20);
    int64_t now_ns = BASE, latest_ns = BASE, opened_ns = BASE;
    int64_t spans[] = {rule.every_ns, rule.lost_within_ns, rule.forget_ns, 0, 0};

    model_earner_init(&e, &rule);
    for (uint64_t i = 0; i < steps; i++) {
        now_ns += random_pause(spans, 5);
        latest_ns = now_ns > latest_ns ? now_ns : latest_ns;
        now_ns -= random_step_back(spans, 5, latest_ns - now_ns, 360 * DAY);
        check_earner(&plan, &e, earned, now_ns);
        unsigned before = rn_earn_percent(&plan, earned, now_ns);
        uint64_t word = earned;

        if (random_below(one_in) == 0) {
            refuse_earner(&plan, &e, &earned, &lapses, now_ns);
        } else {
            earned = rn_earn_admit(&plan, earned, now_ns);
            model_earner_admit(&e, now_ns);
        }
        check_earner(&plan, &e, earned, now_ns);
        unsigned after = rn_earn_percent(&plan, earned, now_ns);

        if (after > before && now_ns - opened_ns <= rule.every_ns - RN_RECORD_TICK_NS)
            fail_at("a step came too early", now_ns);
        opened_ns = word != earned ? now_ns : opened_ns;
        *gained += after > before;
        *lost += after < before;
        spans[3] = left_of(e.start_ns, rule.every_ns, now_ns);
        spans[4] = left_of(e.window_ns, rule.lost_within_ns, now_ns);
    }
    model_earner_done(&e);
    return steps;
}

static void earning_is_that_of_the_model(void **state)
{
    uint64_t steps = 0, gained = 0, lost = 0;

    (void)state;
    random_init();
    for (uint64_t i = 0; i < HISTORIES * soak_factor(); i++)
        steps += compare_earner(&gained, &lost);
    print_message("# %" PRIu64 " steps, %" PRIu64 " earned, %" PRIu64 " lost, no difference\n",
                  steps, gained, lost);
    assert_true(steps >= 1000000 && gained >= steps / 100 && lost >= steps / 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escalation_is_that_of_the_model),
        cmocka_unit_test(no_clock_bans_anybody_unearned),
        cmocka_unit_test(earning_is_that_of_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
