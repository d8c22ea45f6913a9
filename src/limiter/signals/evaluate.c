/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Once a second one evaluator for each table looks at the signals and sets the factors. Several
 * processes may try: a word of the board says which one does it, and until when. The controllers
 * (core/ramp.h) are this process's own; an evaluator that takes over begins at the factors in
 * force, and never raises one before its signal has been calm for the whole time again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "limiter/board.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/book.h"
#include "limiter/signals/signals.h"

#define TICK_NS (RN_SECOND_NS * 9 / 10) /* a timer of a second may be early */
#define TERM_NS (5 * RN_SECOND_NS)      /* how long a silent evaluator keeps its office */
#define ID_BITS 20                      /* 44 are left: milliseconds until the year 2527 */

/* --- the evaluator ------------------------------------------------------------------------ */

/* Whether this process evaluates. The word: its last moment in milliseconds | id of the process. */
static bool is_elected(struct ration *r, int64_t now_ns)
{
    uint64_t *word = rn_board_entry(r->table, RN_BOARD_EVALUATOR, RN_SLICE("signals"), 1);
    uint64_t id = (r->id_seed.k0 & ((1u << ID_BITS) - 1)) | 1;
    uint64_t now_ms = (uint64_t)now_ns / 1000000, before, until, wanted;

    if (word == NULL)
        return true; /* the board is full: each decides for itself */
    before = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    until = before >> ID_BITS;
    wanted = (now_ms + TERM_NS / 1000000) << ID_BITS | id;
    /* One that ends too far in the future was written under another clock. */
    if ((before & ((1u << ID_BITS) - 1)) != id && until > now_ms &&
        until <= now_ms + 2 * TERM_NS / 1000000)
        return false;
    return __atomic_compare_exchange_n(word, &before, wanted, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* --- values --------------------------------------------------------------------------------- */

static bool sample_cpu(struct rn_signals *s, int64_t *value)
{
    struct rn_cpu_reading reading;
    bool had = s->has_cpu;

    s->has_cpu =
        rn_cpu_read(s->root != NULL ? s->root : "", rn_clock_read_ns(CLOCK_MONOTONIC), &reading);
    *value = had && s->has_cpu ? rn_cpu_share(&s->cpu, &reading) : -1;
    s->cpu = reading;
    return *value >= 0;
}

/* Puts the values that this process can know on the board. */
static void sample(struct ration *r, const struct rn_ruleset *set, int64_t now_ns)
{
    int64_t cpu = 0, value = 0;
    bool has_cpu = false, sampled = false;

    for (uint32_t i = 0; i < set->signal_count; i++) {
        const struct rn_signal *signal = &set->signals[i];

        switch (signal->source) {
        case RN_SIGNAL_CPU:
            if (!sampled)
                has_cpu = sample_cpu(&r->signals, &cpu);
            sampled = true;
            if (has_cpu)
                rn_signals_set(r->table, signal, now_ns, cpu);
            break;
        case RN_SIGNAL_LATENCY:
        case RN_SIGNAL_STATUS:
            if (rn_histogram_value(r->table, signal, now_ns, &value))
                rn_signals_set(r->table, signal, now_ns, value);
            break;
        case RN_SIGNAL_PUSH:
        case RN_SIGNAL_PROMETHEUS:
            break;
        }
    }
}

/* --- followers -------------------------------------------------------------------------------- */

/* In this order: the adapts, the one that follows other nodes, the surplus. */
static uint32_t follower_count(const struct rn_rule *rule)
{
    return rule->adapt.adapt_count + rule->adapt.has_fleet + rule->adapt.has_elastic;
}

static bool is_fleet(const struct rn_rule *rule, uint32_t i)
{
    return rule->adapt.has_fleet && i == rule->adapt.adapt_count;
}

static const struct rn_rule_adapt *follower_at(const struct rn_rule *rule, uint32_t i)
{
    if (i < rule->adapt.adapt_count)
        return &rule->adapt.adapts[i];
    return is_fleet(rule, i) ? &rule->adapt.fleet : &rule->adapt.elastic;
}

/* Where a controller begins: at the factor in force. One whose percentage other nodes get begins
 * with what it asked for last: the factor may be what another node asks for. */
static unsigned first_percent(struct ration *r, const struct rn_book *book,
                              const struct rn_rule *rule, uint32_t i)
{
    unsigned percent = rn_factor_get(book, rule), own = 0;
    bool fresh;

    if (i < rule->adapt.adapt_count && rule->adapt.adapts[i].fleet)
        own = rn_signals_fleet_own(r->table, rule, 0, &fresh);
    return own != 0 ? own : percent;
}

/* A controller that goes on as it was before a reload; otherwise at the factor in force. */
static void start(const struct rn_signals *old, const struct rn_rule_adapt *adapt, unsigned percent,
                  struct rn_signal_follower *follower)
{
    for (uint32_t i = 0; i < old->follower_count; i++) {
        const struct rn_signal_follower *was = &old->followers[i];

        if (was->rule == follower->rule && was->signal == follower->signal &&
            was->percent == follower->percent && was->by == follower->by &&
            was->is_fleet == follower->is_fleet) {
            follower->state = was->state;
            follower->losses = was->losses;
            follower->fired = was->fired;
            return;
        }
    }
    rn_ramp_start(&adapt->plan, &follower->state, percent);
    follower->state.lost = follower->is_fleet;
}

/* Makes the followers of another book. False: out of memory. */
static bool prepare(struct ration *r, const struct rn_book *book, int64_t now_ns)
{
    struct rn_signals *s = &r->signals;
    const struct rn_ruleset *set = book->ruleset;
    struct rn_signal_follower *followers;
    uint32_t count = 0, n = 0;

    if (s->version == book->version + 1)
        return true;
    for (uint32_t i = 0; i < set->rule_count; i++)
        count += follower_count(&set->rules[i]);
    followers = calloc(count + 1, sizeof *followers);
    if (followers == NULL)
        return false;
    for (uint32_t i = 0; i < set->rule_count; i++) {
        const struct rn_rule *rule = &set->rules[i];

        for (uint32_t k = 0; k < follower_count(rule); k++, n++) {
            const struct rn_rule_adapt *adapt = follower_at(rule, k);
            struct rn_slice signal = set->signals[adapt->signal].name;

            followers[n] = (struct rn_signal_follower){
                .rule = rn_siphash(&r->secret, rule->name.data, rule->name.len),
                .signal = rn_siphash(&r->secret, signal.data, signal.len),
                .percent = adapt->plan.percent,
                .by = adapt->plan.by,
                .is_fleet = is_fleet(rule, k)};
            start(s, adapt, first_percent(r, book, rule, k), &followers[n]);
        }
    }
    free(s->followers);
    s->followers = followers;
    s->follower_count = count;
    s->version = book->version + 1;
    for (uint32_t i = 0; i < RN_SIGNALS_MAX; i++) {
        s->stale[i] = false;
        s->is_new[i] = true;
        s->known_ns[i] = now_ns;
    }
    return true;
}

/* --- factors ------------------------------------------------------------------------------------
 */

struct values {
    bool known[RN_SIGNALS_MAX];
    int64_t value[RN_SIGNALS_MAX];
};

/* The percentage that other nodes ask for. A node that has fallen silent, and the time before this
 * node has heard of the others, end a surplus. */
static unsigned follow_fleet(struct ration *r, const struct rn_rule *rule,
                             struct rn_signal_follower *follower, int64_t now_ns, bool *known)
{
    struct rn_signals_asked asked;

    *known = rn_signals_fleet_asked(r->table, rule, now_ns, &asked);
    bool lost = *known && asked.losses != follower->losses;

    if (asked.lowest < follower->state.percent) /* it may be over by now */
        rn_ramp_follow(&rule->adapt.fleet.plan, &follower->state, now_ns, &asked.lowest, false);
    follower->losses = asked.losses;
    return rn_ramp_follow(&rule->adapt.fleet.plan, &follower->state, now_ns,
                          *known ? &asked.percent : NULL, lost);
}

/* The factor of a rule: the lowest of its adapts and of what other nodes ask for, or its surplus.
 * *by: the follower that changed it, or the first. */
static unsigned step(struct ration *r, const struct rn_rule *rule,
                     struct rn_signal_follower *followers, const struct values *v, int64_t now_ns,
                     uint32_t *by)
{
    unsigned lowest = 100, own = 100;
    bool known = true;

    *by = 0;
    for (uint32_t i = 0; i < follower_count(rule); i++) {
        const struct rn_rule_adapt *adapt = follower_at(rule, i);
        const int64_t *value = v->known[adapt->signal] ? &v->value[adapt->signal] : NULL;
        struct rn_ramp_state *state = &followers[i].state;
        unsigned before = state->percent, now;

        if (i < rule->adapt.adapt_count) {
            now = rn_ramp_lower(&adapt->plan, state, now_ns, value);
            own = adapt->fleet && now < own ? now : own;
            lowest = now < lowest ? now : lowest;
        } else if (is_fleet(rule, i)) {
            now = follow_fleet(r, rule, &followers[i], now_ns, &known);
            lowest = now < lowest ? now : lowest;
        } else {
            now = rn_ramp_raise(&adapt->plan, state, now_ns, value, lowest < 100 || !known);
            lowest = lowest < 100 ? lowest : now;
        }
        followers[i].fired |= now != 100;
        if (now != before)
            *by = i;
    }
    if (rule->adapt.has_fleet)
        rn_signals_fleet_set_own(r->table, rule, own, now_ns);
    return lowest;
}

static int set_factors(struct ration *r, const struct rn_book *book, const struct values *v,
                       const struct rn_signals_events *events, int64_t now_ns)
{
    const struct rn_ruleset *set = book->ruleset;
    struct rn_signal_follower *follower = r->signals.followers;
    int changes = 0;

    for (uint32_t i = 0; i < set->rule_count; i++) {
        const struct rn_rule *rule = &set->rules[i];
        uint32_t n = follower_count(rule), by;
        char text[RN_SIGNAL_TEXT] = "stale";

        if (n == 0)
            continue;
        unsigned before = rn_factor_get(book, rule);
        unsigned percent = step(r, rule, follower, v, now_ns, &by);
        uint32_t signal = follower_at(rule, by)->signal;
        struct rn_slice name = is_fleet(rule, by) ? RN_SLICE("fleet") : set->signals[signal].name;

        follower += n;
        if (percent == before && rn_factor_is_set(book, rule))
            continue;
        rn_factor_set(r, book, rule, percent);
        if (percent == before)
            continue;
        changes++;
        if (is_fleet(rule, by))
            snprintf(text, sizeof text, "%u%%", percent);
        else if (v->known[signal])
            rn_signal_write_value(rn_signal_unit(&set->signals[signal]), v->value[signal], text);
        if (events != NULL && events->changed != NULL)
            events->changed(events->arg, rule->name, before, percent, name, text);
    }
    return changes;
}

static int evaluate(struct ration *r, const struct rn_book *book,
                    const struct rn_signals_events *events, int64_t now_ns)
{
    const struct rn_ruleset *set = book->ruleset;
    struct values v;

    sample(r, set, now_ns);
    if (!prepare(r, book, now_ns))
        return 0;
    for (uint32_t i = 0; i < set->signal_count; i++) {
        v.known[i] = rn_signals_get(r->table, &set->signals[i], now_ns, &v.value[i], NULL);
        if (v.known[i])
            r->signals.known_ns[i] = now_ns;
        /* One that has no value yet after a start gets the time of its first one. */
        else if (now_ns - r->signals.known_ns[i] <= set->signals[i].expires_ns &&
                 r->signals.is_new[i])
            continue;
        r->signals.is_new[i] &= !v.known[i];
        if (r->signals.stale[i] == !v.known[i])
            continue;
        r->signals.stale[i] = !v.known[i];
        if (events != NULL && events->stale != NULL)
            events->stale(events->arg, &set->signals[i], !v.known[i]);
    }
    return set_factors(r, book, &v, events, now_ns);
}

int rn_signals_tick(struct ration *r, const struct rn_signals_events *events, int64_t now_ns)
{
    struct rn_signals *s = &r->signals;
    int changes = 0;

    if (__atomic_exchange_n(&s->ticking, true, __ATOMIC_ACQUIRE))
        return 0;
    now_ns = rn_limiter_now(r, now_ns);
    if (now_ns - s->ticked_ns >= TICK_NS || now_ns < s->ticked_ns || s->ticked_ns == 0) {
        struct rn_pin pin = rn_pin_take_counted(&r->shelf);

        s->ticked_ns = now_ns;
        if (pin.book != NULL && pin.book->ruleset->signal_count != 0) {
            bool was = s->is_evaluator;

            s->is_evaluator = is_elected(r, now_ns);
            if (!s->is_evaluator || !was)
                s->version = s->follower_count = 0; /* others have set the factors meanwhile */
            if (s->is_evaluator)
                changes = evaluate(r, pin.book, events, now_ns);
        }
        rn_pin_drop(&pin);
        __atomic_store_n(&s->looked_ns, now_ns, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&s->ticking, false, __ATOMIC_RELEASE);
    return changes;
}

int ration_signals_tick(struct ration *r, int64_t now_ns)
{
    return rn_signals_tick(r, NULL, now_ns);
}

int64_t rn_signals_age_ns(struct ration *r)
{
    int64_t at = __atomic_load_n(&r->signals.looked_ns, __ATOMIC_ACQUIRE);

    return at == 0 ? RATION_NEVER : rn_table_now(r->table) - at;
}

void rn_signals_each_follower(struct ration *r,
                              void (*see)(void *arg, struct rn_slice rule, struct rn_slice signal,
                                          bool fired),
                              void *arg)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_signals *s = &r->signals;
    bool current = pin.book && s->is_evaluator && s->version == pin.book->version + 1;
    uint32_t at = 0;

    for (uint32_t i = 0; current && i < pin.book->ruleset->rule_count; i++) {
        const struct rn_rule *rule = &pin.book->ruleset->rules[i];

        for (uint32_t k = 0; k < follower_count(rule); k++, at++)
            if (!is_fleet(rule, k))
                see(arg, rule->name, pin.book->ruleset->signals[follower_at(rule, k)->signal].name,
                    s->followers[at].fired);
    }
    rn_pin_drop(&pin);
}

void rn_signals_done(struct rn_signals *signals)
{
    free(signals->followers);
    signals->followers = NULL;
}
