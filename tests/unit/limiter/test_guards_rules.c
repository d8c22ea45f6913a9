/* SPDX-License-Identifier: Apache-2.0 */
/* Guards among the tiers of rules: the same as between limits of one name. */
#include "guards_fixture.h"

struct plans {
    const char *rules;
    const char *plan[3];
    uint32_t count;
    struct ration_limit larger;
};

static void flap_plans(const struct plans *p)
{
    struct ration *r = open_rules(p->rules);
    char words[64];

    for (unsigned number = 0; number < 6; number++) {
        struct client c = new_client(number);
        uint32_t at = 0;
        struct model m;

        model_init(&m, &p->larger);
        for (int i = 0; i < STEPS(800); i++) {
            rest(&c);
            at = choose(&c, number % 3, at, p->count);
            snprintf(words, sizeof words, "user=%s plan=%s", c.key, p->plan[at]);
            for (int again = 0; again < 30; again++) {
                bool fits = look(r, words, stopped_at(r, c.now_ns)).decision.allowed;
                struct ration_outcome out = decide(r, words, stopped_at(r, c.now_ns));

                assert_int_equal(fits, out.decision.allowed);
                c.retry_ns = out.decision.verdict.retry_after_ns;
                if (!out.decision.allowed)
                    break;
                judge(&m, &c, 1, NULL, 0);
            }
        }
        model_done(&m);
    }
    ration_close(r);
}

static void tiers_admit_no_more_than_the_largest_in_use(void **state)
{
    static const char windows[] = RULE("fixed-window", "      free: 10 per 10s\n"
                                                       "      basic: 100 per 70s\n"
                                                       "      day: 800 per calendar day\n"
                                                       "      slow: 20 per hour\n");
    static const char logs[] = RULE("sliding-log", "      free: 10 per 10s\n"
                                                   "      basic: 75 per 61s\n"
                                                   "      pro: 200 per 70s\n");
    static const char lists[] = RULE("sliding-log", "      free: [10 per 10s, 40 per 100s]\n"
                                                    "      basic: 75 per 61s\n");
    static const char places[] =
        RULE("sliding-log", "      free: 10 per 10s\n"
                            "      basic: [9999 concurrent, 75 per 61s]\n");
    const struct ration_limit log = with(named("v", "75 per 61s"), RATION_SLIDING_LOG).limit;
    const struct plans cases[] = {
        {windows, {"free", "basic"}, 2, with(named("v", "100 per 70s"), RATION_FIXED_WINDOW).limit},
        {windows, {"slow", "day"}, 2, with(named("v", "800 per 24h"), RATION_FIXED_WINDOW).limit},
        {logs, {"free", "basic"}, 2, log},
        {logs,
         {"free", "basic", "pro"},
         3,
         with(named("v", "200 per 70s"), RATION_SLIDING_LOG).limit},
        {lists, {"free", "basic"}, 2, log},
        {places, {"free", "basic"}, 2, log},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        flap_plans(&cases[i]);
}

/* A client that is with a changed limit from now on has not forgotten the larger. */
static void a_reload_leaves_no_client_unguarded(void **state)
{
    struct ration *r = open_rules(RULE("fixed-window", "      free: 10 per 10s\n"
                                                       "      pro: 100 per minute\n"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann plan=pro", 200, stopped_at(r, T0)), 100);
    assert_int_equal(admitted(r, "user=bob plan=pro", 1, stopped_at(r, T0)), 1);
    assert_int_equal(admitted(r, "user=bob plan=free", 1, stopped_at(r, T0)), 1);
    rules_at(r,
             RULE("fixed-window", "      free: 5 per 5s\n"
                                  "      pro: 100 per minute\n"),
             T0);
    assert_int_equal(admitted(r, "user=bob plan=free", 200, stopped_at(r, T0)), 4); /* 2 of 10 */
    assert_int_equal(admitted(r, "user=ann plan=free", 200, stopped_at(r, T0)), 0);
    assert_int_equal(admitted(r, "user=ann plan=free", 200, stopped_at(r, T0 + 50 * SECOND)), 0);
    assert_int_equal(admitted(r, "user=ann plan=free", 200, stopped_at(r, T0 + MINUTE)), 5);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_admit_no_more_than_the_largest_in_use),
        cmocka_unit_test(a_reload_leaves_no_client_unguarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
