/* SPDX-License-Identifier: Apache-2.0 */
/* Delay tickets: a client that leaves gets back what can be given back, once. */
#include "ticket_fixture.h"

#include <stdio.h>

#include "limiter/tickets/ticket.h"

static const char rules[] = "limits:\n"
                            "  - { name: line, key: user, limit: 1 per second queue 3 }\n"
                            "  - name: day\n"
                            "    key: user\n"
                            "    algorithm: fixed-window\n"
                            "    limit: 50 per day\n";

/* Decides, and gets the ticket for what is to wait. */
static void queue(struct ration *r, const char *words, int64_t now_ns, struct slip *slip)
{
    slip->out = decide(r, words, now_ns);
    rn_ticket_issue_delay(r, &slip->out, slip->text);
}

/* One that is served, and two behind it. */
static void line_up(struct ration *r, struct slip *first, struct slip *last)
{
    (void)decide(r, "user=ann", T0);
    queue(r, "user=ann", T0, first);
    queue(r, "user=ann", T0, last);
}

static void without_a_wait_or_when_refused_there_is_no_ticket(void **state)
{
    struct ration *r = open_rules(rules);
    struct slip slip;

    (void)state;
    queue(r, "user=ann", T0, &slip);
    assert_string_equal(slip.text, "");
    for (int i = 0; i < 3; i++) {
        queue(r, "user=ann", T0, &slip);
        assert_true(slip.out.delay_ns == (i + 1) * SECOND && slip.text[0] != '\0');
    }
    queue(r, "user=ann", T0, &slip);
    assert_false(slip.out.decision.allowed);
    assert_string_equal(slip.text, "");
    ration_close(r);
}

static void the_tail_of_a_queue_is_given_back_once(void **state)
{
    struct ration *r = open_rules(rules);
    struct slip first, last;

    (void)state;
    line_up(r, &first, &last);
    assert_int_equal(left_of(r, "line", "user=ann", T0), 1);
    assert_int_equal(refund(r, &last, T0), 0);
    assert_int_equal(left_of(r, "line", "user=ann", T0), 2);
    assert_int_equal(refund(r, &last, T0), RATION_EALREADY);
    assert_int_equal(left_of(r, "line", "user=ann", T0), 2);
    assert_int_equal(left_of(r, "day", "user=ann", T0), 48);
    assert_int_equal(refund(r, &first, T0), 0); /* it is the last one now */
    assert_int_equal(left_of(r, "line", "user=ann", T0), 3);
    ration_close(r);
}

static void from_the_middle_only_other_limits_are_given_back(void **state)
{
    struct ration *r = open_rules(rules);
    struct slip first, last;

    (void)state;
    line_up(r, &first, &last);
    assert_int_equal(refund(r, &first, T0), 0);
    assert_int_equal(left_of(r, "line", "user=ann", T0), 1);
    assert_int_equal(left_of(r, "day", "user=ann", T0), 48);
    ration_close(r);
}

static void a_while_after_its_time_it_is_too_late(void **state)
{
    struct ration *r = open_rules(rules);
    struct slip slip;

    (void)state;
    (void)decide(r, "user=ann", T0);
    queue(r, "user=ann", T0, &slip); /* for a second, and five of grace */
    assert_int_equal(refund(r, &slip, T0 + 6 * SECOND), RATION_EGONE);
    assert_int_equal(left_of(r, "day", "user=ann", T0 + 6 * SECOND), 48);
    assert_int_equal(refund(r, &slip, T0 + 6 * SECOND - 1), 0);
    assert_int_equal(left_of(r, "day", "user=ann", T0 + 6 * SECOND), 49);
    ration_close(r);
}

static void what_was_reset_meanwhile_is_not_given_back_as_well(void **state)
{
    struct ration *r = open_rules(rules);
    struct slip slip;
    struct words w;

    (void)state;
    (void)decide(r, "user=ann", T0);
    queue(r, "user=ann", T0, &slip);
    split_words(&w, "user=ann");
    assert_int_equal(ration_state_reset(r, &w.request, NULL, 0, T0 + 1, NULL), 0);
    (void)decide(r, "user=ann", T0 + 1);
    assert_int_equal(refund(r, &slip, T0 + 1), 0);
    assert_int_equal(left_of(r, "day", "user=ann", T0 + 1), 49);
    ration_close(r);
}

static void it_is_for_leaving_only(void **state)
{
    struct ration *r = open_rules(rules), *other = open_rules(rules);
    struct slip slip;

    (void)state;
    (void)decide(r, "user=ann", T0);
    queue(r, "user=ann", T0, &slip);
    assert_int_equal(commit(r, &slip, 0, T0), RATION_EINVAL);
    assert_int_equal(release(r, &slip, T0), RATION_EINVAL);
    assert_int_equal(ration_ticket_charge(r, slip.text, strlen(slip.text), 200, T0, NULL),
                     RATION_EINVAL);
    assert_int_equal(refund(other, &slip, T0), RATION_EINVAL);
    assert_int_equal(refund(r, &slip, T0), 0);
    ration_close(r);
    ration_close(other);
}

/* As many units come back as were charged, however often the ticket is sent. */
static void nothing_is_minted_when_the_table_is_crowded(void **state)
{
    struct ration *r = open_rules(
        "limits:\n"
        "  - { name: slow, key: user, limit: 2 per day, throttle: { from: 50%, max_delay: 1h } }\n"
        "  - { name: crowd, key: other, limit: 2 per day }\n");
    struct ration_memory memory;
    struct slip slip;
    char words[32];

    (void)state;
    (void)decide(r, "user=ann", T0);
    queue(r, "user=ann", T0, &slip);
    assert_int_equal(refund(r, &slip, T0), 0);
    for (unsigned i = 0; i < 600000; i++) {
        snprintf(words, sizeof words, "other=%u", i);
        (void)decide(r, words, T0);
    }
    ration_memory(r, T0, &memory);
    assert_true(memory.evictions > 100000);
    assert_int_equal(refund(r, &slip, T0), RATION_EALREADY);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_wait_or_when_refused_there_is_no_ticket),
        cmocka_unit_test(the_tail_of_a_queue_is_given_back_once),
        cmocka_unit_test(from_the_middle_only_other_limits_are_given_back),
        cmocka_unit_test(a_while_after_its_time_it_is_too_late),
        cmocka_unit_test(what_was_reset_meanwhile_is_not_given_back_as_well),
        cmocka_unit_test(it_is_for_leaving_only),
        cmocka_unit_test(nothing_is_minted_when_the_table_is_crowded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
