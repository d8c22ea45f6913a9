/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "wire/parsed_decision.h"
#include "wire/resp.h"

/* --- a reply, as name and value pairs of text ------------------------------------- */

/* A value: `:n`, `-` for null, `[]` for no limits, else text. */
struct pair {
    const char *name, *value;
};

static const struct pair refusal[] = {
    {"allowed", ":0"},       {"rule", "api"},      {"limit", ":5"},    {"remaining", ":0"},
    {"reset_after", "12.5"}, {"retry_after", "2"}, {"delay", "0"},     {"limits", "[api]"},
    {"by", "limits"},        {"decided_by", ":0"}, {"status", ":429"}, {"headers", "ietf"},
    {"message", "Wait."},
};
#define PAIRS (sizeof refusal / sizeof *refusal)

static void put(struct rn_buf *out, const char *value)
{
    if (value[0] == ':')
        rn_buf_putf(out, "%s\r\n", value);
    else if (strcmp(value, "-") == 0)
        rn_resp_put_null(out, 2);
    else
        rn_resp_put_bulk(out, rn_slice_of(value));
}

static void put_limit(struct rn_buf *out)
{
    static const struct pair limit[] = {
        {"rule", "api"},      {"limit", ":5"},   {"remaining", ":0"}, {"reset_after", "12.5"},
        {"unheard_of", ":3"}, {"allowed", ":0"}, {"amount", ":10"},   {"period", "60"},
    };

    rn_resp_put_array(out, 1);
    rn_resp_put_array(out, 2 * sizeof limit / sizeof *limit);
    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++) {
        rn_resp_put_bulk(out, rn_slice_of(limit[i].name));
        put(out, limit[i].value);
    }
}

static void put_pair(struct rn_buf *out, const struct pair *pair)
{
    rn_resp_put_bulk(out, rn_slice_of(pair->name));
    if (strcmp(pair->value, "[api]") == 0)
        put_limit(out);
    else if (strcmp(pair->value, "[]") == 0)
        rn_resp_put_array(out, 0);
    else
        put(out, pair->value);
}

static struct ration_outcome outcome;
static struct rn_parsed_decision told;
static struct rn_buf reply;

/* The refusal, but for some pairs that are different or (value NULL) missing, and with
 * others that it has not. */
static bool read_with(const struct pair *changes, size_t count)
{
    const struct pair *pairs[PAIRS + 4];
    size_t n = 0;

    for (size_t i = 0; i < PAIRS; i++)
        pairs[n++] = &refusal[i];
    for (size_t c = 0; c < count; c++) {
        size_t i = 0;

        while (i < n && strcmp(pairs[i]->name, changes[c].name) != 0)
            i++;
        pairs[i] = &changes[c];
        n += i == n;
        if (!changes[c].value)
            pairs[i] = pairs[--n];
    }
    rn_buf_clear(&reply);
    rn_resp_put_array(&reply, 2 * n);
    for (size_t i = 0; i < n; i++)
        put_pair(&reply, pairs[i]);
    memset(&outcome, 0xa5, sizeof outcome);
    told = (struct rn_parsed_decision){.outcome = &outcome};
    return rn_parsed_decision_read(rn_buf_slice(&reply), &told);
}

static bool read_one(const char *name, const char *value)
{
    return read_with(&(struct pair){name, value}, 1);
}

/* --- tests --------------------------------------------------------------------------- */

static void a_refusal_is_read_in_full(void **state)
{
    const struct ration_verdict *v = &outcome.decision.verdict;

    (void)state;
    assert_true(read_with(NULL, 0));
    assert_false(outcome.decision.allowed || v->allowed);
    assert_string_equal(outcome.rule, "api");
    assert_true(v->limit == 5 && v->remaining == 0);
    assert_true(v->reset_after_ns == 12500000000 && v->retry_after_ns == 2000000000);
    assert_int_equal(outcome.kind, RATION_BY_LIMITS);
    assert_int_equal(outcome.status, 429);
    assert_int_equal(outcome.headers, RATION_HEADERS_IETF);
    assert_string_equal(outcome.message, "Wait.");
    assert_true(outcome.limit_count == 1 && outcome.listed == 1);
    assert_string_equal(outcome.limits[0].rule, "api");
    assert_int_equal(outcome.limits[0].amount, 10);
    assert_int_equal(outcome.limits[0].period_ns, 60000000000);
    assert_false(outcome.limits[0].shadow || outcome.limits[0].verdict.allowed);
    assert_true(outcome.place_count == 0 && outcome.receipt_count == 0 && !told.lease.data);
    assert_false(outcome.soft || outcome.shadow_refused || outcome.hold);
}

static void a_ban_with_a_level_is_one_of_a_rule(void **state)
{
    static const struct pair changes[] = {
        {"by", "ban"}, {"level", ":3"}, {"limits", "[]"}, {"decided_by", ":-1"}};
    static const char *const bad[] = {":0", ":-1", ":65536", "3"};

    (void)state;
    assert_true(read_with(changes, 4));
    assert_int_equal(outcome.kind, RATION_BY_ESCALATION);
    assert_int_equal(outcome.level, 3);
    assert_true(read_one("by", "ban"));
    assert_int_equal(outcome.kind, RATION_BY_BAN);
    assert_int_equal(outcome.level, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(read_one("level", bad[i]));
}

static void null_means_no_limit_or_never(void **state)
{
    static const struct pair changes[] = {
        {"limit", "-"}, {"remaining", "-"}, {"retry_after", "-"}, {"rule", "-"}};

    (void)state;
    assert_true(read_with(changes, 4));
    assert_true(outcome.decision.verdict.limit == UINT64_MAX);
    assert_true(outcome.decision.verdict.retry_after_ns == RATION_NEVER);
    assert_string_equal(outcome.rule, "");
}

static void places_come_with_a_lease_and_its_length(void **state)
{
    static const struct pair changes[] = {
        {"allowed", ":1"}, {"lease", "ticket"}, {"lease_for", "1.5"}};

    (void)state;
    assert_true(read_with(changes, 3));
    assert_true(rn_slice_is(told.lease, "ticket") && told.lease_ns == 1500000000);
    assert_false(read_with(changes, 2));     /* for how long? */
    assert_false(read_with(changes + 1, 2)); /* who is refused holds nothing */
}

static void a_charge_by_outcome_comes_with_its_ticket(void **state)
{
    (void)state;
    assert_true(read_one("charge", "ticket"));
    assert_true(rn_slice_is(told.charge, "ticket") && outcome.due_count == 0);
    assert_false(read_one("charge", ""));
}

static void a_place_in_a_queue_comes_with_its_ticket(void **state)
{
    (void)state;
    assert_true(read_one("turn", "ticket"));
    assert_true(rn_slice_is(told.turn, "ticket") && !told.lease.data && !told.charge.data);
    assert_false(read_one("turn", ""));
}

static void the_time_in_line_is_read(void **state)
{
    (void)state;
    assert_true(read_with(NULL, 0));
    assert_int_equal(outcome.waited_ns, 0);
    assert_true(read_one("waited", "1.5"));
    assert_int_equal(outcome.waited_ns, 1500000000);
    assert_false(read_one("waited", "-"));
}

static void unknown_members_are_skipped(void **state)
{
    (void)state;
    assert_true(read_one("tomorrow", "[api]"));
    assert_true(read_one("tomorrow", "-"));
}

static void required_members_must_be_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < PAIRS; i++)
        if (read_one(refusal[i].name, NULL))
            fail_msg("nobody misses %s", refusal[i].name);
}

static void impossible_values_are_refused(void **state)
{
    static const struct pair bad[] = {
        {"allowed", ":2"},
        {"allowed", "1"},
        {"limit", ":-1"},
        {"limit", "5"},
        {"reset_after", ":1"},
        {"reset_after", "-1"},
        {"reset_after", "1."},
        {"reset_after", ".5"},
        {"reset_after", "1e3"},
        {"reset_after", "1.2.3"},
        {"reset_after", ""},
        {"delay", "-"},
        {"retry_after", "99999999999"},
        {"retry_after", "9999999999"},
        {"by", "chance"},
        {"by", ":0"},
        {"decided_by", ":1"},
        {"decided_by", ":-2"},
        {"status", ":200"},
        {"status", ":600"},
        {"headers", "all"},
        {"message", "-"},
        {"limits", ":1"},
        {"limits", "[]"},
        {"soft", "yes"},
        {"lease", ""},
        {"lease_for", "0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (read_one(bad[i].name, bad[i].value))
            fail_msg("%s may be %s", bad[i].name, bad[i].value);
}

static void a_reply_that_is_cut_or_too_long_is_no_decision(void **state)
{
    (void)state;
    assert_true(read_with(NULL, 0));
    for (size_t len = 0; len < reply.len; len++)
        assert_false(rn_parsed_decision_read((struct rn_slice){reply.data, len}, &told));
    rn_buf_put_literal(&reply, ":1\r\n");
    assert_false(rn_parsed_decision_read(rn_buf_slice(&reply), &told));
    assert_false(rn_parsed_decision_read(RN_SLICE("+OK\r\n"), &told));
    assert_false(rn_parsed_decision_read(RN_SLICE("*1\r\n$7\r\nallowed\r\n"), &told));
}

static void a_request_in_line_is_told_its_id_and_the_longest_wait(void **state)
{
    static const char *const others[] = {
        "*3\r\n$4\r\nWAIT\r\n:7\r\n:5000\r\n:1\r\n",
        "*3\r\n$4\r\nWAIT\r\n:-7\r\n:5000\r\n",
        "*3\r\n$4\r\nWAIT\r\n:7\r\n:-1\r\n",
        "*2\r\n$4\r\nWAIT\r\n:7\r\n",
        "*3\r\n$4\r\nTURN\r\n:7\r\n:5000\r\n",
        "*3\r\n$4\r\nWAIT\r\n$1\r\n7\r\n:5000\r\n",
        "-ERR WAIT\r\n",
    };
    uint64_t id = 0, max_ms = 0;

    (void)state;
    assert_true(rn_parsed_decision_read_wait(RN_SLICE("*3\r\n$4\r\nWAIT\r\n:7\r\n:5000\r\n"), &id,
                                             &max_ms));
    assert_int_equal(id, 7);
    assert_int_equal(max_ms, 5000);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (rn_parsed_decision_read_wait(rn_slice_of(others[i]), &id, &max_ms))
            fail_msg("taken for a place in line: %s", others[i]);
}

static void a_turn_is_a_push_with_the_decision(void **state)
{
    struct rn_buf push = {0};
    struct rn_slice value;
    uint64_t id = 0;

    (void)state;
    assert_true(read_with(NULL, 0));
    rn_buf_put_literal(&push, ">3\r\n$11\r\nration.turn\r\n:9\r\n");
    rn_buf_put_slice(&push, rn_buf_slice(&reply));
    assert_true(rn_parsed_decision_read_turn(rn_buf_slice(&push), &id, &value));
    assert_int_equal(id, 9);
    assert_true(rn_slice_equal(value, rn_buf_slice(&reply)));
    assert_true(rn_parsed_decision_read(value, &told));
    for (size_t len = 0; len < push.len; len++)
        assert_false(rn_parsed_decision_read_turn((struct rn_slice){push.data, len}, &id, &value));
    push.data[0] = '*';
    assert_false(rn_parsed_decision_read_turn(rn_buf_slice(&push), &id, &value));
    rn_buf_done(&push);
    assert_true(rn_parsed_decision_read_turn(
        RN_SLICE(">3\r\n$11\r\nration.turn\r\n:9\r\n-STORE no answer\r\n"), &id, &value));
    assert_true(rn_slice_is(value, "-STORE no answer\r\n"));
}

static int forget(void **state)
{
    (void)state;
    rn_buf_done(&reply);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_is_read_in_full),
        cmocka_unit_test(a_ban_with_a_level_is_one_of_a_rule),
        cmocka_unit_test(null_means_no_limit_or_never),
        cmocka_unit_test(places_come_with_a_lease_and_its_length),
        cmocka_unit_test(a_charge_by_outcome_comes_with_its_ticket),
        cmocka_unit_test(a_place_in_a_queue_comes_with_its_ticket),
        cmocka_unit_test(the_time_in_line_is_read),
        cmocka_unit_test(unknown_members_are_skipped),
        cmocka_unit_test(required_members_must_be_there),
        cmocka_unit_test(impossible_values_are_refused),
        cmocka_unit_test(a_reply_that_is_cut_or_too_long_is_no_decision),
        cmocka_unit_test(a_request_in_line_is_told_its_id_and_the_longest_wait),
        cmocka_unit_test(a_turn_is_a_push_with_the_decision),
    };

    return cmocka_run_group_tests(tests, NULL, forget);
}
