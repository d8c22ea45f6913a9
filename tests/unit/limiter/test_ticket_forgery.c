/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets that were changed, cut, or made for something else are worth nothing. */
#include "ticket_fixture.h"

#include <stdio.h>

#include "limiter/tickets/ticket.h"

/* Every one of these calls must say that it is no ticket. */
static void assert_worthless(struct ration *r, const char *text, size_t len)
{
    assert_int_equal(ration_ticket_commit(r, text, len, true, 0, T0), RATION_EINVAL);
    assert_int_equal(ration_ticket_refund(r, text, len, T0), RATION_EINVAL);
    assert_int_equal(ration_ticket_renew(r, text, len, 0, T0, NULL), RATION_EINVAL);
    assert_int_equal(ration_ticket_release(r, text, len, T0), RATION_EINVAL);
}

static void no_letter_of_a_ticket_can_be_changed(void **state)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. \n";
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    size_t len = strlen(slip.text);

    for (size_t i = 0; i < len; i++) {
        char was = slip.text[i];

        for (size_t l = 0; l < sizeof letters; l++) { /* the NUL, too */
            if (letters[l] == was)
                continue;
            slip.text[i] = letters[l];
            assert_worthless(r, slip.text, len);
        }
        slip.text[i] = was;
    }
    assert_int_equal(refund(r, &slip, T0), 0);
    ration_close(r);
}

static void a_ticket_that_was_cut_or_extended_is_worth_nothing(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    size_t len = strlen(slip.text);

    for (size_t i = 0; i < len; i++) {
        assert_worthless(r, slip.text, i);
        assert_worthless(r, slip.text + len - i, i);
    }
    for (size_t more = 1; more < 9; more++) {
        memset(slip.text + len, 'A', more);
        assert_worthless(r, slip.text, len + more);
    }
    memset(slip.text, 'A', sizeof slip.text);
    assert_worthless(r, slip.text, sizeof slip.text);
    ration_close(r);
}

static void a_ticket_of_another_table_is_worth_nothing(void **state)
{
    struct ration *r = open_rules(tokens), *other = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    assert_worthless(other, slip.text, strlen(slip.text));
    assert_int_equal(refund(r, &slip, T0), 0);
    ration_close(r);
    ration_close(other);
}

static void a_ticket_serves_for_what_it_was_made(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: c, key: user, limit: 2 concurrent }\n");
    struct slip reserved, acquired;

    (void)state;
    reserve(r, "user=ann", 1, T0, &reserved);
    acquire(r, "user=bob", 0, T0, &acquired);
    assert_int_equal(renew(r, &reserved, 0, T0, NULL), RATION_EINVAL);
    assert_int_equal(release(r, &reserved, T0), RATION_EINVAL);
    assert_int_equal(commit(r, &acquired, 1, T0), RATION_EINVAL);
    assert_int_equal(refund(r, &acquired, T0), RATION_EINVAL);
    assert_int_equal(left_of(r, "c", "user=ann", T0), 1);
    assert_int_equal(left_of(r, "c", "user=bob", T0), 1);
    ration_close(r);
}

static void a_body_reads_back_as_it_was_written(void **state)
{
    struct rn_ticket t = {.kind = RN_TICKET_RESERVATION,
                          .id = UINT64_MAX,
                          .at_ns = INT64_MIN,
                          .timeout_ns = INT64_MAX,
                          .reserved = UINT64_MAX,
                          .lease = UINT64_MAX,
                          .receipt_count = RATION_CHARGES_MAX,
                          .place_count = RATION_LEASES_MAX};
    const struct rn_hash_key key = {1, 2};
    char text[RATION_TICKET_SIZE], again[RATION_TICKET_SIZE];
    struct rn_ticket read;

    (void)state;
    for (uint32_t i = 0; i < RATION_CHARGES_MAX; i++)
        t.receipts[i] =
            (struct ration_receipt){UINT64_MAX, i, UINT64_MAX - i, UINT64_MAX, INT64_MIN};
    for (uint32_t i = 0; i < RATION_LEASES_MAX; i++)
        t.places[i] = (struct ration_place){.hash = UINT64_MAX,
                                            .amount = RATION_ADAPTIVE_MAX,
                                            .adaptive_min = RATION_ADAPTIVE_MAX,
                                            .lease_ns = RATION_LEASE_MAX_NS};
    rn_ticket_write(&t, &key, text);
    assert_true(strlen(text) < sizeof text);
    assert_true(rn_ticket_parse(rn_slice_of(text), &key, 1, &read));
    assert_memory_equal(read.receipts, t.receipts, sizeof t.receipts);
    assert_memory_equal(read.places, t.places, sizeof t.places);
    assert_true(read.at_ns == t.at_ns && read.timeout_ns == t.timeout_ns && read.id == t.id &&
                read.reserved == t.reserved && read.lease == t.lease && !read.given);
    rn_ticket_write(&read, &key, again);
    assert_string_equal(again, text);
}

static void as_many_limits_as_can_apply_fit_into_a_ticket(void **state)
{
    char text[RATION_CHARGES_MAX * 80], *at = text;
    struct slip slip;

    (void)state;
    at += sprintf(at, "limits:\n");
    for (unsigned i = 0; i < RATION_CHARGES_MAX; i++)
        at += sprintf(at, "  - { name: r%u, key: user, limit: 1000 per %u minutes }\n", i, i + 1);
    struct ration *r = open_rules(text);

    reserve(r, "user=ann", 100, T0, &slip);
    assert_int_equal(slip.out.receipt_count, RATION_CHARGES_MAX);
    assert_int_equal(commit(r, &slip, 40, T0), 0);
    assert_int_equal(left_of(r, "r0", "user=ann", T0), 960);
    reserve(r, "user=ann", 960, T0, &slip); /* all of them have that much left, */
    assert_true(slip.out.decision.allowed);
    reserve(r, "user=ann", 1, T0, &slip); /* and none has more */
    assert_false(slip.out.decision.allowed);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_letter_of_a_ticket_can_be_changed),
        cmocka_unit_test(a_ticket_that_was_cut_or_extended_is_worth_nothing),
        cmocka_unit_test(a_ticket_of_another_table_is_worth_nothing),
        cmocka_unit_test(a_ticket_serves_for_what_it_was_made),
        cmocka_unit_test(a_body_reads_back_as_it_was_written),
        cmocka_unit_test(as_many_limits_as_can_apply_fit_into_a_ticket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
