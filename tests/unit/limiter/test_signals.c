/* SPDX-License-Identifier: Apache-2.0 */
/* From the values of signals to the factors of rules: pushed values, outcomes, a made-up machine,
 * reloads, and a second process on the same table. */
#include "rules_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limiter/factor.h"
#include "limiter/signals/signals.h"

#define RULES(adapt)                                                                               \
    "signals:\n"                                                                                   \
    "  backlog: { source: push, expires: 10s }\n"                                                  \
    "  rest: { source: push, expires: 10s }\n"                                                     \
    "limits:\n"                                                                                    \
    "  - name: api\n"                                                                              \
    "    key: user\n"                                                                              \
    "    limit: 100 per minute\n" adapt

static const char follows[] = RULES("    adapt: { when: backlog above 1000, to: 50% }\n"
                                    "    elastic: { up_to: 200%, while: rest above 10 }\n");

static unsigned factor_of(struct ration *r, const char *rule)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_rule *found = rn_book_find(pin.book, rn_slice_of(rule));
    unsigned percent;

    assert_non_null(found);
    percent = rn_factor_get(pin.book, found);
    rn_pin_drop(&pin);
    return percent;
}

/* As ration_signal_push, at a time of the test's. */
static void push(struct ration *r, const char *name, double value, int64_t now_ns)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    int64_t millionths;
    bool found = false;

    assert_true(rn_signals_from_double(value, &millionths));
    for (uint32_t i = 0; i < pin.book->ruleset->signal_count; i++)
        if (rn_slice_is(pin.book->ruleset->signals[i].name, name))
            found = rn_signals_set(r->table, &pin.book->ruleset->signals[i], now_ns, millionths);
    assert_true(found);
    rn_pin_drop(&pin);
}

/* Ticks each second up to and including `to`, with a value each time unless it is NaN. */
static void run(struct ration *r, const char *name, double value, int64_t from, int64_t to)
{
    for (int64_t s = from; s <= to; s++) {
        if (!isnan(value))
            push(r, name, value, T0 + s * SECOND);
        ration_signals_tick(r, T0 + s * SECOND);
    }
}

/* --- pushed -------------------------------------------------------------------------------- */

static void a_pushed_value_lowers_a_limit_at_the_next_tick(void **state)
{
    struct ration *r = open_rules(follows);

    (void)state;
    push(r, "backlog", 1000, T0 + SECOND);
    assert_int_equal(ration_signals_tick(r, T0 + SECOND), 0);
    assert_int_equal(factor_of(r, "api"), 100);
    push(r, "backlog", 1000.001, T0 + 2 * SECOND);
    assert_int_equal(ration_signals_tick(r, T0 + 2 * SECOND), 1);
    assert_int_equal(factor_of(r, "api"), 50);
    assert_int_equal(admitted(r, "user=ann", 100, T0 + 2 * SECOND), 50);
    ration_close(r);
}

static void calls_that_come_too_soon_do_nothing(void **state)
{
    struct ration *r = open_rules(follows);

    (void)state;
    ration_signals_tick(r, T0);
    push(r, "backlog", 5000, T0);
    assert_int_equal(ration_signals_tick(r, T0 + SECOND / 2), 0);
    assert_int_equal(ration_signals_tick(r, T0 + SECOND), 1);
    ration_close(r);
}

static void a_value_that_expired_restores_in_steps(void **state)
{
    struct ration *r = open_rules(follows);

    (void)state;
    run(r, "backlog", 5000, 0, 0);
    assert_int_equal(factor_of(r, "api"), 50);
    run(r, "backlog", (double)NAN, 1, 10);
    assert_int_equal(factor_of(r, "api"), 50); /* it still counts */
    run(r, "backlog", (double)NAN, 11, 40);
    assert_int_equal(factor_of(r, "api"), 50); /* stale since 11 */
    run(r, "backlog", (double)NAN, 41, 41);
    assert_int_equal(factor_of(r, "api"), 60);
    run(r, "backlog", (double)NAN, 42, 100);
    assert_int_equal(factor_of(r, "api"), 100);
    ration_close(r);
}

static void a_surplus_grows_and_ends_with_its_signal(void **state)
{
    struct ration *r = open_rules(follows);

    (void)state;
    run(r, "rest", 11, 0, 29);
    assert_int_equal(factor_of(r, "api"), 100);
    run(r, "rest", 11, 30, 40);
    assert_int_equal(factor_of(r, "api"), 120);
    assert_int_equal(admitted(r, "user=ann", 200, T0 + 40 * SECOND), 120);
    run(r, "rest", (double)NAN, 41, 51);
    assert_int_equal(factor_of(r, "api"), 100);
    run(r, "rest", 11, 52, 92);
    assert_int_equal(factor_of(r, "api"), 120);
    push(r, "backlog", 5000, T0 + 93 * SECOND);
    run(r, "rest", 11, 93, 93);
    assert_int_equal(factor_of(r, "api"), 50);
    ration_close(r);
}

static void of_several_adapts_the_lowest_counts(void **state)
{
    struct ration *r = open_rules(RULES("    adapt:\n"
                                        "      - { when: backlog above 10, to: 70% }\n"
                                        "      - { when: rest above 10, to: 30% }\n"));

    (void)state;
    push(r, "backlog", 11, T0);
    ration_signals_tick(r, T0);
    assert_int_equal(factor_of(r, "api"), 70);
    push(r, "rest", 11, T0 + SECOND);
    ration_signals_tick(r, T0 + SECOND);
    assert_int_equal(factor_of(r, "api"), 30);
    push(r, "rest", 0, T0 + 2 * SECOND);
    run(r, "backlog", 11, 2, 200);
    assert_int_equal(factor_of(r, "api"), 70);
    ration_close(r);
}

static void a_push_says_what_is_wrong(void **state)
{
    struct ration *r =
        open_rules("signals: { cpu: { source: cpu }, backlog: { source: push } }\n"
                   "limits: [{ name: api, limit: 100 per minute, adapt: [{ when: "
                   "cpu above 80%, to: 50% }, { when: backlog above 5, to: 50% }]}]");
    struct ration_error error;

    (void)state;
    assert_int_equal(ration_signal_push(r, "load", 4, 1, &error), RATION_EINVAL);
    assert_string_equal(error.text, "there is no signal \"load\"; add it to the section signals");
    assert_int_equal(ration_signal_push(r, "cpu", 3, 1, &error), RATION_EINVAL);
    assert_string_equal(error.text, "this signal has source: cpu, so its value cannot be pushed");
    assert_int_equal(ration_signal_push(r, "backlog", 7, (double)NAN, &error), RATION_EINVAL);
    assert_string_equal(error.text, "the value must be a number from -1e12 to 1e12");
    assert_int_equal(ration_signal_push(r, "backlog", 7, 1e13, NULL), RATION_EINVAL);
    assert_int_equal(ration_signal_push(r, "backlog", 7, -1e12, NULL), 0);
    ration_close(r);
}

/* --- reloads and other processes ----------------------------------------------------------------
 */

static void a_reload_keeps_the_factor_and_the_calm_time(void **state)
{
    struct ration *r = open_rules(follows);

    (void)state;
    run(r, "backlog", 5000, 0, 0);
    run(r, "backlog", 0, 1, 20);
    rules_at(r, follows, T0 + 20 * SECOND);
    assert_int_equal(factor_of(r, "api"), 50);
    run(r, "backlog", 0, 21, 30);
    assert_int_equal(factor_of(r, "api"), 50);
    run(r, "backlog", 0, 31, 31);
    assert_int_equal(factor_of(r, "api"), 60);
    rules_at(r, RULES("    adapt: { when: backlog above 2000, to: 30%, restore: {by: 35%} }\n"),
             T0 + 31 * SECOND);
    run(r, "backlog", 1999, 32, 32);
    assert_int_equal(factor_of(r, "api"), 30); /* never above what it was */
    ration_close(r);
}

/* 5000 of a backlog are not 5000 seconds. */
static void a_signal_that_gets_another_source_begins_without_a_value(void **state)
{
    static const char slow[] = "signals: { backlog: { source: latency, of: api, quantile: 90% } }\n"
                               "limits:\n"
                               "  - name: api\n"
                               "    key: user\n"
                               "    limit: 100 per minute\n"
                               "    adapt: { when: backlog above 250ms, to: 50% }\n";
    struct ration *r = open_rules(follows);

    (void)state;
    push(r, "backlog", 500, T0);
    run(r, "backlog", (double)NAN, 0, 1);
    rules_at(r, slow, T0 + SECOND);
    run(r, "backlog", (double)NAN, 2, 3);
    assert_int_equal(factor_of(r, "api"), 100);
    ration_close(r);
}

static void a_value_of_the_far_future_does_not_count(void **state)
{
    struct ration *r = open_rules(follows);

    (void)state;
    push(r, "backlog", 5000, T0 + MINUTE);
    run(r, "backlog", (double)NAN, 0, 1);
    assert_int_equal(factor_of(r, "api"), 100);
    push(r, "backlog", 5000, T0 + 3 * SECOND); /* another thread is a little ahead */
    run(r, "backlog", (double)NAN, 2, 2);
    assert_int_equal(factor_of(r, "api"), 50);
    ration_close(r);
}

static void rules_without_signals_are_as_written(void **state)
{
    struct ration *r = open_rules(follows);

    (void)state;
    run(r, "backlog", 5000, 0, 0);
    rules_at(r, "limits: [{ name: api, key: user, limit: 100 per minute }]", T0 + SECOND);
    ration_signals_tick(r, T0 + SECOND);
    assert_int_equal(factor_of(r, "api"), 100);
    ration_close(r);
}

static struct ration *open_file(const char *path)
{
    struct ration *r = NULL;
    struct ration_error error;

    assert_int_equal(
        ration_open(&(struct ration_options){.state_path = path, .memory_bytes = 1 << 20}, &r,
                    &error),
        0);
    rules_at(r, follows, T0);
    return r;
}

static void one_of_two_users_of_a_file_evaluates_and_the_other_takes_over(void **state)
{
    char path[] = "/tmp/ration-signals-XXXXXX";
    int file = mkstemp(path);

    (void)state;
    assert_true(file >= 0);
    close(file);
    unlink(path);
    struct ration *a = open_file(path), *b = open_file(path);

    a->id_seed.k0 = 1; /* random otherwise: alike in the lower 16 bits, and still not the same */
    b->id_seed.k0 = 1 | 1 << 17;
    push(b, "backlog", 5000, T0);
    assert_int_equal(ration_signals_tick(a, T0), 1);
    assert_int_equal(factor_of(b, "api"), 50);
    for (int64_t s = 1; s <= 4; s++) {
        ration_signals_tick(a, T0 + s * SECOND);
        ration_signals_tick(b, T0 + s * SECOND);
    }
    assert_true(a->signals.is_evaluator && !b->signals.is_evaluator);
    ration_close(a);
    for (int64_t s = 5; s <= 40; s++) { /* its term ends at 9; calm starts again with b */
        push(b, "backlog", 0, T0 + s * SECOND);
        ration_signals_tick(b, T0 + s * SECOND);
        if (s < 39)
            assert_int_equal(factor_of(b, "api"), 50);
    }
    assert_true(b->signals.is_evaluator);
    assert_int_equal(factor_of(b, "api"), 60);
    ration_close(b);

    struct ration *again = open_file(path); /* a restart */

    assert_int_equal(factor_of(again, "api"), 60);
    ration_signals_tick(again, T0 + 100 * SECOND);
    assert_int_equal(factor_of(again, "api"), 60);
    ration_close(again);
    unlink(path);
}

/* --- outcomes --------------------------------------------------------------------------------- */

static const char observed[] =
    "signals:\n"
    "  slow: { source: latency, of: api, quantile: 90%, over: 10s }\n"
    "  errors: { source: status, of: api, status: 5xx, over: 10s }\n"
    "limits:\n"
    "  - name: api\n"
    "    key: user\n"
    "    limit: 100 per minute\n"
    "    adapt: [{ when: slow above 250ms, to: 50% }, { when: errors above 20%, to: 10% }]\n"
    "  - { name: other, key: user, limit: 100 per minute }\n";

static bool value_of(struct ration *r, unsigned index, int64_t now_ns, int64_t *value)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    bool known = rn_histogram_value(r->table, &pin.book->ruleset->signals[index], now_ns, value);

    rn_pin_drop(&pin);
    return known;
}

static void tell(struct ration *r, unsigned status, int64_t ms, int64_t now_ns)
{
    assert_int_equal(ration_signal_outcome(r, "api", 3, status, ms * 1000000, now_ns), 0);
}

static void a_quantile_is_within_an_eighth_of_the_true_one(void **state)
{
    static const int64_t ms[] = {1, 3, 10, 40, 99, 250, 600, 2000, 30000};
    int64_t value = 0;

    (void)state;
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
        struct ration *r = open_rules(observed);

        for (int k = 0; k < 100; k++)
            tell(r, 200, k < 80 ? ms[i] / 2 : ms[i], T0);
        assert_true(value_of(r, 0, T0, &value));
        assert_in_range(value, ms[i] * 875, ms[i] * 1125);
        ration_close(r);
    }
}

static void outcomes_leave_with_their_window(void **state)
{
    struct ration *r = open_rules(observed);
    int64_t value = 0;

    (void)state;
    assert_false(value_of(r, 0, T0, &value));
    for (int k = 0; k < 9; k++)
        tell(r, 500, 1000, T0);
    assert_false(value_of(r, 1, T0, &value)); /* too few to tell */
    tell(r, 200, 1000, T0 + SECOND);
    assert_true(value_of(r, 1, T0 + SECOND, &value));
    assert_int_equal(value, 900000);
    assert_true(value_of(r, 1, T0 + 7 * SECOND, &value));
    assert_false(value_of(r, 1, T0 + 11 * SECOND, &value));
    for (int k = 0; k < 20; k++)
        tell(r, 200, 1, T0 + 12 * SECOND);
    assert_true(value_of(r, 1, T0 + 12 * SECOND, &value));
    assert_int_equal(value, 0);
    ration_close(r);
}

/* More names than the board has room for, one after the other. */
static void histograms_of_signals_that_are_gone_make_room(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    int64_t now_ns = T0, value = 0;

    (void)state;
    for (int i = 0; i < 60; i++, now_ns += RN_SIGNAL_OVER_MAX_NS / 8) {
        char text[400];

        snprintf(text, sizeof text,
                 "signals: { s%d: { source: latency, of: api, quantile: 90%%, over: 10s } }\n"
                 "limits:\n"
                 "  - name: api\n"
                 "    key: user\n"
                 "    limit: 100 per minute\n"
                 "    adapt: { when: s%d above 250ms, to: 50%% }\n",
                 i, i);
        rules_at(r, text, now_ns);
        assert_false(value_of(r, 0, now_ns, &value));
        for (int k = 0; k < 20; k++)
            tell(r, 200, i + 1, now_ns);
        assert_true(value_of(r, 0, now_ns, &value));
        assert_in_range(value, (i + 1) * 875, (i + 1) * 1125);
    }
    ration_close(r);
}

static void slow_and_failing_requests_lower_the_limit(void **state)
{
    struct ration *r = open_rules(observed);

    (void)state;
    assert_int_equal(ration_signal_outcome(r, "none", 4, 200, 1, T0), RATION_EINVAL);
    assert_int_equal(ration_signal_outcome(r, "other", 5, 500, SECOND, T0), 0);
    for (int k = 0; k < 50; k++)
        tell(r, 200, 1000, T0);
    ration_signals_tick(r, T0);
    assert_int_equal(factor_of(r, "api"), 50);
    for (int k = 0; k < 50; k++)
        tell(r, 503, 1, T0 + SECOND);
    ration_signals_tick(r, T0 + SECOND);
    assert_int_equal(factor_of(r, "api"), 10);
    ration_close(r);
}

/* --- the machine ------------------------------------------------------------------------------ */

static void put_stat(const char *root, unsigned busy, unsigned idle)
{
    char path[128];

    snprintf(path, sizeof path, "%s/proc", root);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/proc/stat", root);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fprintf(file, "cpu  %u 0 0 %u 0 0 0 0 0 0\ncpu0 1 0 0 1\n", busy, idle);
    fclose(file);
}

static void eighty_percent_of_the_machine_is_not_above_eighty(void **state)
{
    struct ration *r = open_rules("signals: { cpu: { source: cpu } }\n"
                                  "limits: [{ name: api, limit: 100 per minute, adapt: { when: cpu "
                                  "above 80%, to: 50% } }]");
    char root[] = "/tmp/ration-signals-XXXXXX", path[128];

    (void)state;
    assert_non_null(mkdtemp(root));
    r->signals.root = root;
    put_stat(root, 1000, 1000);
    ration_signals_tick(r, T0);
    put_stat(root, 1080, 1020);
    ration_signals_tick(r, T0 + SECOND);
    assert_int_equal(factor_of(r, "api"), 100);
    put_stat(root, 1161, 1039);
    ration_signals_tick(r, T0 + 2 * SECOND);
    assert_int_equal(factor_of(r, "api"), 50);
    ration_close(r);
    snprintf(path, sizeof path, "%s/proc/stat", root);
    unlink(path);
    snprintf(path, sizeof path, "%s/proc", root);
    rmdir(path);
    rmdir(root);
}

/* --- events --------------------------------------------------------------------------------------
 */

struct told {
    unsigned changes, stale, known;
    char last[128];
};

static void on_changed(void *arg, struct rn_slice rule, unsigned from, unsigned to,
                       struct rn_slice signal, const char *value)
{
    struct told *told = arg;

    told->changes++;
    snprintf(told->last, sizeof told->last, "%.*s %u %u %.*s %s", (int)rule.len, rule.data, from,
             to, (int)signal.len, signal.data, value);
}

static void on_stale(void *arg, const struct rn_signal *signal, bool stale)
{
    struct told *told = arg;

    (void)signal;
    told->stale += stale;
    told->known += !stale;
}

static void every_change_is_told_once_with_its_signal(void **state)
{
    struct ration *r = open_rules(follows);
    struct told told = {.changes = 0};
    const struct rn_signals_events events = {&told, on_changed, on_stale};

    (void)state;
    rn_signals_tick(r, &events, T0);
    assert_int_equal(told.stale, 0); /* their first values may still come */
    push(r, "backlog", 1500.5, T0 + SECOND);
    rn_signals_tick(r, &events, T0 + SECOND);
    assert_string_equal(told.last, "api 100 50 backlog 1500.5");
    for (int64_t s = 2; s <= 42; s++)
        rn_signals_tick(r, &events, T0 + s * SECOND);
    assert_int_equal(told.changes, 2);
    assert_string_equal(told.last, "api 50 60 backlog stale");
    assert_int_equal(told.stale, 2);
    push(r, "backlog", 0, T0 + 43 * SECOND);
    rn_signals_tick(r, &events, T0 + 43 * SECOND);
    assert_int_equal(told.known, 1);
    ration_close(r);
}

/* --- other nodes ------------------------------------------------------------------------------ */

static const char of_all[] =
    RULES("    adapt: { when: backlog above 1000, to: 50%, scope: fleet }\n"
          "    elastic: { up_to: 200%, while: rest above 10 }\n");

static unsigned ask(struct ration *r, unsigned percent, bool lost, int64_t second)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    unsigned before =
        rn_signals_fleet_ask(r, pin.book, rn_book_find(pin.book, RN_SLICE("api")),
                             &(struct rn_signals_ask){percent, lost, T0 + second * SECOND});

    rn_pin_drop(&pin);
    return before;
}

static unsigned own_of(struct ration *r, int64_t second, bool *fresh)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    unsigned percent = rn_signals_fleet_own(r->table, rn_book_find(pin.book, RN_SLICE("api")),
                                            T0 + second * SECOND, fresh);

    rn_pin_drop(&pin);
    return percent;
}

/* Each second `percent` is asked for and `rest` is calm; 0: nothing is heard. */
static void hear(struct ration *r, unsigned percent, int64_t from, int64_t to)
{
    for (int64_t s = from; s <= to; s++) {
        if (percent != 0)
            ask(r, percent, false, s);
        push(r, "rest", 11, T0 + s * SECOND);
        ration_signals_tick(r, T0 + s * SECOND);
    }
}

static void other_nodes_lower_at_once_and_end_a_surplus(void **state)
{
    struct ration *r = open_rules(of_all);

    (void)state;
    hear(r, 0, 0, 60);
    assert_int_equal(factor_of(r, "api"), 100); /* no surplus while the others are unknown */
    hear(r, 100, 61, 101);
    assert_int_equal(factor_of(r, "api"), 120);
    assert_int_equal(ask(r, 50, false, 102), 120);
    assert_int_equal(factor_of(r, "api"), 50); /* before the next tick */
    hear(r, 50, 102, 200);
    assert_int_equal(factor_of(r, "api"), 50);
    hear(r, 60, 201, 201);
    assert_int_equal(factor_of(r, "api"), 60);
    assert_int_equal(ask(r, 33, false, 202), 60); /* not a factor of this rule: the lowest */
    assert_int_equal(factor_of(r, "api"), 50);
    ration_close(r);
}

static void what_other_nodes_asked_for_ends_in_steps(void **state)
{
    struct ration *r = open_rules(of_all);

    (void)state;
    hear(r, 50, 0, 10);
    ask(r, 100, true, 11); /* the node is gone */
    hear(r, 100, 11, 40);
    assert_int_equal(factor_of(r, "api"), 50);
    hear(r, 100, 41, 41);
    assert_int_equal(factor_of(r, "api"), 60);
    hear(r, 50, 42, 50);
    assert_int_equal(factor_of(r, "api"), 50);
    hear(r, 0, 51, 56); /* still counts */
    hear(r, 0, 57, 86);
    assert_int_equal(factor_of(r, "api"), 50);
    hear(r, 0, 87, 200);
    assert_int_equal(factor_of(r, "api"), 100); /* and no surplus */
    ask(r, 50, false, 201);                     /* a word that begins and ends between two looks */
    ask(r, 100, true, 201);
    hear(r, 100, 201, 230);
    assert_int_equal(factor_of(r, "api"), 50);
    hear(r, 100, 231, 231);
    assert_int_equal(factor_of(r, "api"), 60);
    ration_close(r);
}

static void a_node_asks_for_what_its_own_signals_do(void **state)
{
    struct ration *r = open_rules(of_all);
    bool fresh;

    (void)state;
    assert_int_equal(own_of(r, 0, &fresh), 0);
    assert_false(fresh);
    hear(r, 50, 0, 3);
    assert_int_equal(own_of(r, 4, &fresh), 100);
    assert_true(fresh);
    push(r, "backlog", 5000, T0 + 4 * SECOND);
    hear(r, 100, 4, 5);
    assert_int_equal(own_of(r, 11, &fresh), 50);
    assert_true(fresh);
    own_of(r, 12, &fresh);
    assert_false(fresh);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pushed_value_lowers_a_limit_at_the_next_tick),
        cmocka_unit_test(calls_that_come_too_soon_do_nothing),
        cmocka_unit_test(a_value_that_expired_restores_in_steps),
        cmocka_unit_test(a_surplus_grows_and_ends_with_its_signal),
        cmocka_unit_test(of_several_adapts_the_lowest_counts),
        cmocka_unit_test(a_push_says_what_is_wrong),
        cmocka_unit_test(a_reload_keeps_the_factor_and_the_calm_time),
        cmocka_unit_test(a_signal_that_gets_another_source_begins_without_a_value),
        cmocka_unit_test(a_value_of_the_far_future_does_not_count),
        cmocka_unit_test(rules_without_signals_are_as_written),
        cmocka_unit_test(one_of_two_users_of_a_file_evaluates_and_the_other_takes_over),
        cmocka_unit_test(a_quantile_is_within_an_eighth_of_the_true_one),
        cmocka_unit_test(outcomes_leave_with_their_window),
        cmocka_unit_test(histograms_of_signals_that_are_gone_make_room),
        cmocka_unit_test(slow_and_failing_requests_lower_the_limit),
        cmocka_unit_test(eighty_percent_of_the_machine_is_not_above_eighty),
        cmocka_unit_test(every_change_is_told_once_with_its_signal),
        cmocka_unit_test(other_nodes_lower_at_once_and_end_a_surplus),
        cmocka_unit_test(what_other_nodes_asked_for_ends_in_steps),
        cmocka_unit_test(a_node_asks_for_what_its_own_signals_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
