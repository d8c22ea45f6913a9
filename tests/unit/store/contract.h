/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every store must do, whatever it is made of. A store is plugged in as a
 * struct plugged_store; CONTRACT_TESTS are the tests, whose state is a
 * struct plugged_store.
 */
#ifndef TEST_STORE_CONTRACT_H
#define TEST_STORE_CONTRACT_H

#include "contract_changes.h"
#include "contract_forms.h"
#include "contract_random.h"

#define CONTRACT_TEST(f, store)                                                                    \
    {                                                                                              \
#f, f, NULL, NULL, store                                                                   \
    }
#define CONTRACT_TESTS(store)                                                                      \
    CONTRACT_TEST(the_limits_cover_every_form, store),                                             \
        CONTRACT_TEST(a_fresh_key_admits_its_capacity_and_no_more, store),                         \
        CONTRACT_TEST(a_look_charges_nothing, store),                                              \
        CONTRACT_TEST(a_refusal_charges_nothing, store),                                           \
        CONTRACT_TEST(what_was_given_back_can_be_taken_again, store),                              \
        CONTRACT_TEST(giving_back_to_a_key_without_state_does_nothing, store),                     \
        CONTRACT_TEST(a_forced_charge_takes_what_is_left, store),                                  \
        CONTRACT_TEST(a_drain_takes_what_is_left_and_a_credit_what_is_spent, store),               \
        CONTRACT_TEST(a_reset_forgets_and_tells_whether_there_was_something, store),               \
        CONTRACT_TEST(a_key_is_fresh_again_when_the_reset_time_has_come, store),                   \
        CONTRACT_TEST(the_oldest_charge_has_the_age_of_its_entry_or_window, store),                \
        CONTRACT_TEST(places_are_held_until_released_or_run_out, store),                           \
        CONTRACT_TEST(unlimited_admits_everything, store),                                         \
        CONTRACT_TEST(a_limit_of_nothing_refuses_everything, store),                               \
        CONTRACT_TEST(charges_of_one_key_in_a_batch_are_applied_in_order, store),                  \
        CONTRACT_TEST(a_batch_answers_as_single_calls_do, store),                                  \
        CONTRACT_TEST(buckets_keep_the_share_spent_when_the_amount_changes, store),                \
        CONTRACT_TEST(windows_and_logs_keep_their_count_when_the_amount_changes, store),           \
        CONTRACT_TEST(a_window_crosses_the_bound_of_packing_in_both_directions, store),            \
        CONTRACT_TEST(a_bucket_crosses_into_fractions_of_a_nanosecond_and_back, store),            \
        CONTRACT_TEST(random_operations_agree_with_a_private_state, store)

#endif
