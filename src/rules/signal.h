/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals, and what rules make of them: the sections `signals:`, and `adapt:` and `elastic:` of a
 * rule. core/ramp.h computes a factor from a signal's values; limiter/signals/ gets the values.
 */
#ifndef RN_RULES_SIGNAL_H
#define RN_RULES_SIGNAL_H

#include "base/slice.h"
#include "core/ramp.h"
#include "rules/native/statuses.h"

#define RN_SIGNALS_MAX 32 /* in a ruleset */
#define RN_ADAPTS_MAX 8   /* of a rule */
/* The longest window of a signal: ten minutes. */
#define RN_SIGNAL_OVER_MAX_NS INT64_C(600000000000)

struct rn_rule;

enum rn_signal_source {
    RN_SIGNAL_CPU,        /* used share of this machine, or of its cgroup's quota */
    RN_SIGNAL_LATENCY,    /* a quantile of the durations of a rule's requests */
    RN_SIGNAL_STATUS,     /* the share of a rule's requests that ended with some statuses */
    RN_SIGNAL_PUSH,       /* pushed from outside */
    RN_SIGNAL_PROMETHEUS, /* asked of a Prometheus server */
};

/* How values are written: 80%, 250ms, 1000. */
enum rn_signal_unit { RN_SIGNAL_SHARE, RN_SIGNAL_DURATION, RN_SIGNAL_NUMBER };

struct rn_signal {
    struct rn_slice name;
    enum rn_signal_source source;
    const struct rn_rule *of;    /* LATENCY, STATUS */
    uint32_t quantile;           /* LATENCY: in millionths */
    struct rn_statuses statuses; /* STATUS */
    int64_t over_ns;             /* LATENCY, STATUS: the window */
    int64_t expires_ns;          /* a value that is older is stale */
    int64_t every_ns;            /* PROMETHEUS */
    struct rn_slice url, query;  /* PROMETHEUS */
    struct rn_slice host, path;  /* of the url: an IPv6 address without brackets; the path before
                                    /api/v1/query, without a slash at its end */
    uint16_t port;
};

static inline enum rn_signal_unit rn_signal_unit(const struct rn_signal *signal)
{
    switch (signal->source) {
    case RN_SIGNAL_CPU:
    case RN_SIGNAL_STATUS:
        return RN_SIGNAL_SHARE;
    case RN_SIGNAL_LATENCY:
        return RN_SIGNAL_DURATION;
    case RN_SIGNAL_PUSH:
    case RN_SIGNAL_PROMETHEUS:
        break;
    }
    return RN_SIGNAL_NUMBER;
}

/* The name of a source, as rules write it. */
const char *rn_signal_source_name(enum rn_signal_source source);

/* One `adapt` or `elastic`. */
struct rn_rule_adapt {
    uint32_t signal; /* index in ruleset->signals */
    bool fleet;      /* `scope: fleet`: what one node asks for holds on all nodes */
    struct rn_ramp_plan plan;
};

/* How the factor of a rule follows signals. */
struct rn_rule_factor {
    const struct rn_rule_adapt *adapts; /* the lowest counts */
    uint32_t adapt_count;
    bool has_elastic;
    struct rn_rule_adapt elastic;
    bool has_fleet;             /* one of the adapts has `scope: fleet` */
    struct rn_rule_adapt fleet; /* then: how a factor is restored when a node falls silent */
};

/* Plain numbers, without a sign: no value is larger. */
#define RN_SIGNAL_MAX INT64_C(1000000000000)

/* 12, -0.5, as multiples of `unit`, a power of ten. What is smaller is cut off. False: no number,
 * or above RN_SIGNAL_MAX; *value is untouched. */
bool rn_signal_parse_decimal(struct rn_slice text, int64_t unit, int64_t *value);

#define RN_SIGNAL_TEXT 40 /* no value is longer */
void rn_signal_write_decimal(int64_t value, int64_t unit, char out[RN_SIGNAL_TEXT]);
/* A value as rules write it: 80%, 250ms, 1000.5. */
void rn_signal_write_value(enum rn_signal_unit unit, int64_t value, char out[RN_SIGNAL_TEXT]);

#endif
