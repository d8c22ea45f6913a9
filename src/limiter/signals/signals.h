/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of signals, which lie on the board of the table, and the factors that follow them.
 * include/ration/signals.h is the contract with users.
 */
#ifndef RN_LIMITER_SIGNALS_SIGNALS_H
#define RN_LIMITER_SIGNALS_SIGNALS_H

#include <ration/signals.h>

#include "base/cpu.h"
#include "base/slice.h"
#include "rules/signal.h"

struct rn_book;
struct rn_rule;
struct rn_table;

/* One adapt or elastic of a rule, and where its controller is. */
struct rn_signal_follower {
    uint64_t rule, signal; /* hashes of their names: they outlive a reload */
    uint16_t percent, by;  /* of its plan */
    bool is_fleet;         /* it follows the other nodes */
    bool fired;            /* it has asked for another factor than 100 percent */
    uint64_t losses;       /* is_fleet: as they were last seen */
    struct rn_ramp_state state;
};

/* What the evaluator of this process remembers. Only the thread that has set `ticking` uses it. */
struct rn_signals {
    bool ticking;                     /* atomically */
    bool stale[RN_SIGNALS_MAX];       /* told as stale */
    bool is_new[RN_SIGNALS_MAX];      /* had no value since the rules came */
    int64_t known_ns[RN_SIGNALS_MAX]; /* when it last had one */
    bool has_cpu;
    bool is_evaluator;
    struct rn_cpu_reading cpu;
    int64_t ticked_ns;
    int64_t looked_ns; /* the end of that tick; atomically */
    uint64_t version;  /* of the book that the followers are of, + 1; 0: none */
    struct rn_signal_follower *followers;
    uint32_t follower_count;
    const char *root; /* "" but in tests: where the kernel's files are */
};

/* What a tick tells its caller. All texts are valid during the call. */
struct rn_signals_events {
    void *arg;
    /* The factor of a rule has changed; the signal that made it, and its value or "stale". "fleet"
     * and a percentage: other nodes. */
    void (*changed)(void *arg, struct rn_slice rule, unsigned from, unsigned to,
                    struct rn_slice signal, const char *value);
    void (*stale)(void *arg, const struct rn_signal *signal, bool stale);
};

/* As ration_signals_tick; `events` may be NULL. */
int rn_signals_tick(struct ration *r, const struct rn_signals_events *events, int64_t now_ns);
void rn_signals_done(struct rn_signals *signals);
/* Calls `see` for each adapt and elastic of a rule: which signal it follows, and whether that has
 * ever changed the limits since this process evaluates the signals. Only in the thread that ticks.
 * None if another process evaluates them. */
void rn_signals_each_follower(struct ration *r,
                              void (*see)(void *arg, struct rn_slice rule, struct rn_slice signal,
                                          bool fired),
                              void *arg);
/* How long ago this process last looked at the signals; RATION_NEVER: not yet. */
int64_t rn_signals_age_ns(struct ration *r);

/* The value of a signal; false: it is stale. `age_ns` (may be NULL) is negative if there never was
 * one. */
bool rn_signals_get(struct rn_table *table, const struct rn_signal *signal, int64_t now_ns,
                    int64_t *value, int64_t *age_ns);
/* Sets it. False: the board is full. */
bool rn_signals_set(struct rn_table *table, const struct rn_signal *signal, int64_t now_ns,
                    int64_t value);

/* The value in millionths; false: no number, or beyond RATION_SIGNAL_MAX. */
bool rn_signals_from_double(double value, int64_t *out);

/* --- fleet.c: adapts with `scope: fleet` --------------------------------------------------- */

/* What a node asks for counts so long after it was last heard: a little more than it takes to
 * notice that a node is gone (redis/fleet/fleet.h). */
#define RN_SIGNALS_FLEET_NS (INT64_C(6) * 1000000000)

struct rn_signals_asked {
    unsigned percent; /* the lowest that another node asks for, 1 to 100 */
    unsigned lowest;  /* since the last call: it has lowered the factor already */
    uint64_t losses;  /* how often the node that asked for the least has fallen silent */
};

/* What the signals of this machine ask for; the evaluator sets it. */
void rn_signals_fleet_set_own(struct rn_table *table, const struct rn_rule *rule, unsigned percent,
                              int64_t now_ns);
/* 0: it was never set. `fresh`: it is new enough for other nodes. */
unsigned rn_signals_fleet_own(struct rn_table *table, const struct rn_rule *rule, int64_t now_ns,
                              bool *fresh);
/* What other nodes ask for has come. A lower factor is in force at once; the evaluator does the
 * rest. Call it at least once a second, in any thread that has pinned the book. Returns the factor
 * before. */
struct rn_signals_ask {
    unsigned percent; /* the lowest, 1 to 100: 100 if no other node asks for less */
    bool lost;        /* the node that asked for less has fallen silent */
    int64_t now_ns;
};
unsigned rn_signals_fleet_ask(struct ration *r, const struct rn_book *book,
                              const struct rn_rule *rule, const struct rn_signals_ask *ask);
/* What other nodes ask for, for the evaluator; false: `percent` is unknown. */
bool rn_signals_fleet_asked(struct rn_table *table, const struct rn_rule *rule, int64_t now_ns,
                            struct rn_signals_asked *out);

/* --- histogram.c ------------------------------------------------------------------------ */

/* Adds the end of one request of `rule` to the signals about it; as ration_signal_outcome. */
void rn_histogram_add(struct rn_table *table, const struct rn_book *book,
                      const struct rn_rule *rule, unsigned status, int64_t duration_ns,
                      int64_t now_ns);
/* The quantile or share over the signal's window; false: fewer than RN_HISTOGRAM_LEAST requests. */
#define RN_HISTOGRAM_LEAST 10
bool rn_histogram_value(struct rn_table *table, const struct rn_signal *signal, int64_t now_ns,
                        int64_t *value);

#endif
