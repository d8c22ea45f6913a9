/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An algorithm of your own: how units are counted, in the place of the library's algorithms.
 *
 * You write two pure functions over a few bytes: take and give_back. The library does the rest:
 * where the bytes are kept, threads and processes, several limits all or none, receipts,
 * reservations, tiers, overrides, factors, lines, late debits, clocks that step.
 *
 *     static const struct ration_own_algorithm decay = {
 *         .size = sizeof decay, .name = "decay", .state_bytes = 8,
 *         .take = take, .give_back = give_back};
 *
 *     struct ration_limit limit = {.algorithm = RATION_OWN_ALGORITHM, .own = &decay,
 *                                  .amount = 100, .period_ns = INT64_C(60000000000)};
 *
 * Or by name in rules, `algorithm: decay`, if it is given in ration_options.own_algorithms.
 * A complete one: examples/own-algorithm/. The guide: docs/extending.md.
 */
#ifndef RATION_ALGORITHM_H
#define RATION_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

/* Bytes of a state, at most. */
#define RATION_STATE_MAX 256

/* What a limit says. A rule may say it differently at each call, for one and the same state: after
 * a reload, at another factor. So keep what was spent, not what is left. */
struct ration_terms {
    uint64_t amount; /* units per period; never 0 */
    int64_t period_ns;
    uint64_t capacity; /* the most at once: the burst if one is written, else the amount */
};

struct ration_attempt {
    /* In. Time passes by: it never goes back, and is not told. */
    uint64_t cost;      /* 0 to capacity */
    int64_t elapsed_ns; /* since the state was changed last; 0 for a fresh one */

    /* Out, all of them, in any case. Times count from now. */
    bool admitted;          /* a cost of 0 always is */
    uint64_t remaining;     /* the largest cost that would be admitted next, at once */
    int64_t retry_after_ns; /* if refused: until this cost is admitted, given no other charge */
    int64_t
        reset_after_ns; /* until the state is worth as much as a fresh one: then it is forgotten */
};

/* Zero-initialise it, so that members of later versions are unset. It must outlive the limiters
 * and the limits that refer to it.
 *
 * All functions are pure: the same arguments, the same result. No clock, no memory but the state,
 * no locks; they must not call the library. Any thread calls them, several at once, and several
 * times for one decision, on copies of the state: the last call counts. */
struct ration_own_algorithm {
    size_t size;      /* sizeof(struct ration_own_algorithm) */
    const char *name; /* small letters, digits and -; states are kept apart by it */
    uint32_t version; /* another one for states of another meaning: old ones are then forgotten */
    uint32_t state_bytes; /* 1 to RATION_STATE_MAX */
    const void *arg;      /* handed to the functions: parameters that rules do not have */

    /* NULL, or a constant text: what is wrong with these terms, and what to write instead; it
     * follows "the limit has". *longest_ns is how long a state lasts after a change, at most, and
     * says at first: the period, or the time in which capacity comes at the rate, if that is
     * longer. The function may be NULL. */
    const char *(*check)(const void *arg, const struct ration_terms *terms, int64_t *longest_ns);

    /* Decides. The state is aligned to 8 bytes; all zero is the fresh one. If `admitted` and the
     * cost is not 0, it becomes the state after the charge, as of now; else what is written to it
     * is lost. It may hold any bytes, from a damaged file, say: then any answer within bounds will
     * do. */
    void (*take)(const void *arg, const struct ration_terms *terms, void *state,
                 struct ration_attempt *attempt);

    /* Undoes a charge of `units`, made age_ns ago, and says whether it could: the state, as of now,
     * is then as if it had never been made, or stricter. What has come back by itself in the
     * meantime must not come back again. When in doubt return false: the units are lost to the
     * client. */
    bool (*give_back)(const void *arg, const struct ration_terms *terms, void *state,
                      int64_t elapsed_ns, uint64_t units, int64_t age_ns);
};

/* For your tests: makes `rounds` random decisions about limits of these terms, of which it knows
 * nothing but the contract. 0, or RATION_EALGORITHM and what was broken first; RATION_EINVAL for a
 * faulty algorithm or faulty terms. The same seed, the same decisions. What it cannot know is how
 * fast units may come back: compare that with a model of your own. */
RATION_API int ration_algorithm_test(const struct ration_own_algorithm *algorithm,
                                     const struct ration_terms *terms, uint64_t rounds,
                                     uint64_t seed, struct ration_error *error);

#endif
