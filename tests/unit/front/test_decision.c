/* SPDX-License-Identifier: Apache-2.0 */
/* A decision that is packed for later is the same when it is unpacked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/decision.h"

static struct rn_decision made, read;

static void pack_and_unpack(void)
{
    size_t bytes = rn_decision_packed_bytes(&made);
    char *packed = malloc(bytes);

    assert_non_null(packed);
    rn_decision_pack(&made, packed);
    memset(&read, 0xa5, sizeof read);
    rn_decision_unpack(&read, packed);
    free(packed);
}

static void a_decision_of_one_limit_is_short(void **state)
{
    (void)state;
    memset(&made, 0, sizeof made);
    made.outcome.limit_count = made.outcome.listed = made.outcome.receipt_count = 1;
    snprintf(made.outcome.rule, sizeof made.outcome.rule, "api");
    assert_in_range(rn_decision_packed_bytes(&made), 200, 1200);
    assert_true(sizeof made > 20000);
}

static void all_that_a_decision_has_comes_back(void **state)
{
    struct ration_outcome *o = &made.outcome;

    (void)state;
    memset(&made, 0, sizeof made);
    o->decision.allowed = true;
    o->decision.verdict.remaining = 7;
    o->delay_ns = 123;
    o->listed = 2;
    o->place_count = RATION_LEASES_MAX;
    o->receipt_count = RATION_CHARGES_MAX;
    o->due_count = 1;
    snprintf(o->rule, sizeof o->rule, "checkout");
    snprintf(o->message, sizeof o->message, "Wait.");
    snprintf(o->limits[1].rule, sizeof o->limits[1].rule, "second");
    o->places[RATION_LEASES_MAX - 1].hash = 11;
    o->receipts[RATION_CHARGES_MAX - 1].mark = 13;
    o->dues[0].taken = 17;
    made.at_ns = 19;
    made.by_limit = true;
    made.limit.amount = 23;
    made.charge.hash = 29;
    memset(made.lease_ticket, 'l', sizeof made.lease_ticket - 1);
    snprintf(made.charge_ticket, sizeof made.charge_ticket, "charge");
    pack_and_unpack();
    assert_memory_equal(o, &read.outcome, offsetof(struct ration_outcome, message));
    assert_string_equal(read.outcome.message, "Wait.");
    assert_string_equal(read.outcome.limits[1].rule, "second");
    assert_int_equal(read.outcome.places[RATION_LEASES_MAX - 1].hash, 11);
    assert_int_equal(read.outcome.receipts[RATION_CHARGES_MAX - 1].mark, 13);
    assert_int_equal(read.outcome.dues[0].taken, 17);
    assert_int_equal(read.at_ns, 19);
    assert_true(read.by_limit);
    assert_int_equal(read.limit.amount, 23);
    assert_int_equal(read.charge.hash, 29);
    assert_string_equal(read.lease_ticket, made.lease_ticket);
    assert_string_equal(read.charge_ticket, "charge");
    assert_string_equal(read.queue_ticket, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_of_one_limit_is_short),
        cmocka_unit_test(all_that_a_decision_has_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
