/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adapts with `scope: fleet`: what the signals of this machine ask for, and what other nodes ask
 * for, lie on the board, one entry for each rule. So the process that evaluates the signals need
 * not be the one that reaches the other nodes (redis/fleet/factors.c), nor the same thread.
 *
 * Each pair of words is a value and the time at which it was known. A time of another value, the
 * one before or after, does no harm: values are repeated all the time.
 */
#include "base/clock.h"
#include "limiter/board.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"
#include "limiter/signals/signals.h"

#define PERCENT UINT64_C(0xFFFF)
#define LOSSES_SHIFT 16

/* OWN: percent, 0: never set. ASKED: percent | losses (48 bits). LOWEST: the lowest percent asked
 * for since the evaluator looked, 0: none. */
enum { OWN, OWN_TIME, ASKED, ASKED_TIME, LOWEST, WORDS };

static bool is_fresh(uint64_t at, int64_t now_ns)
{
    return at != 0 && at <= INT64_MAX && now_ns - (int64_t)at <= RN_SIGNALS_FLEET_NS;
}

static void set(uint64_t *words, int value, uint64_t to, int64_t now_ns)
{
    __atomic_store_n(&words[value], to, __ATOMIC_RELEASE);
    __atomic_store_n(&words[value + 1], (uint64_t)(now_ns > 0 ? now_ns : 1), __ATOMIC_RELEASE);
}

void rn_signals_fleet_set_own(struct rn_table *table, const struct rn_rule *rule, unsigned percent,
                              int64_t now_ns)
{
    uint64_t *words = rn_board_entry(table, RN_BOARD_FLEET, rule->name, WORDS);

    if (words != NULL)
        set(words, OWN, percent, now_ns);
}

unsigned rn_signals_fleet_own(struct rn_table *table, const struct rn_rule *rule, int64_t now_ns,
                              bool *fresh)
{
    const uint64_t *words = rn_board_find(table, RN_BOARD_FLEET, rule->name, WORDS);

    *fresh = words != NULL && is_fresh(__atomic_load_n(&words[OWN_TIME], __ATOMIC_ACQUIRE), now_ns);
    return words == NULL ? 0 : (unsigned)(__atomic_load_n(&words[OWN], __ATOMIC_ACQUIRE) & PERCENT);
}

unsigned rn_signals_fleet_ask(struct ration *r, const struct rn_book *book,
                              const struct rn_rule *rule, const struct rn_signals_ask *ask)
{
    uint64_t *words = rn_board_entry(r->table, RN_BOARD_FLEET, rule->name, WORDS);
    unsigned before = rn_factor_get(book, rule);

    if (words != NULL) {
        uint64_t losses = __atomic_load_n(&words[ASKED], __ATOMIC_ACQUIRE) >> LOSSES_SHIFT,
                 never = 0;

        /* A controller that begins after this must not take the factor for its own. */
        __atomic_compare_exchange_n(&words[OWN], &never, before < 100 ? before : 100, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        set(words, ASKED, (losses + ask->lost) << LOSSES_SHIFT | ask->percent, ask->now_ns);
    }
    if (ask->percent >= before || ask->percent >= 100)
        return before;
    uint64_t lowest = words == NULL ? 0 : __atomic_load_n(&words[LOWEST], __ATOMIC_ACQUIRE);

    if (words != NULL && (lowest == 0 || ask->percent < lowest))
        __atomic_store_n(&words[LOWEST], ask->percent, __ATOMIC_RELEASE);
    rn_factor_set(r, book, rule, ask->percent);
    return before;
}

bool rn_signals_fleet_asked(struct rn_table *table, const struct rn_rule *rule, int64_t now_ns,
                            struct rn_signals_asked *out)
{
    uint64_t *words = rn_board_find(table, RN_BOARD_FLEET, rule->name, WORDS);
    uint64_t lowest = words == NULL ? 0 : __atomic_exchange_n(&words[LOWEST], 0, __ATOMIC_ACQ_REL);
    uint64_t at = words == NULL ? 0 : __atomic_load_n(&words[ASKED_TIME], __ATOMIC_ACQUIRE);
    uint64_t asked = words == NULL ? 0 : __atomic_load_n(&words[ASKED], __ATOMIC_ACQUIRE);
    uint64_t percent = asked & PERCENT;

    *out = (struct rn_signals_asked){
        .percent = percent >= 1 && percent <= 100 ? (unsigned)percent : 100,
        .lowest = lowest >= 1 && lowest <= 100 ? (unsigned)lowest : 100,
        .losses = asked >> LOSSES_SHIFT};
    return percent != 0 && is_fresh(at, now_ns);
}
