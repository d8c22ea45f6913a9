/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the readers of `limit:`: limits.c (texts), tiers.c (maps),
 * limits_check.c (whether everything beside it suits).
 */
#ifndef RN_RULES_NATIVE_LIMITS_INTERNAL_H
#define RN_RULES_NATIVE_LIMITS_INTERNAL_H

#include "rules/native/native_internal.h"

struct rn_limits_reader {
    struct rn_builder *builder;
    struct rn_report *report;
    struct rn_rule *rule;
    const struct rn_node *map;              /* the rule as written */
    int algorithm;                          /* enum ration_algorithm; -1: what each text implies */
    const struct ration_own_algorithm *own; /* if it is RATION_OWN_ALGORITHM */
    uint32_t sub_windows;
    bool from_first;
    int64_t lease_ns;
    /* The limits read so far: */
    uint32_t used;                  /* their algorithms, 1 << algorithm each */
    bool on_calendar, off_calendar; /* some fixed windows are, or are not */
    bool adaptive;                  /* some number of places is learnt */
};

/* Whether a node is {concurrent: adaptive, min: 5, max: 500}. */
bool rn_limits_is_adaptive(const struct rn_node *node);
/* Reads it; false after reporting. */
bool rn_limits_read_adaptive(struct rn_report *report, const struct rn_node *map,
                             struct ration_limit *spec);

/* A limit or a list of limits; false after reporting. */
bool rn_limits_read_tier(struct rn_limits_reader *r, const struct rn_node *node,
                         struct rn_tier *tier);

/* {by: tier, free: 100 per minute, ...} */
void rn_limits_read_map(struct rn_limits_reader *r, const struct rn_node *map);

/* Reports keys beside the limits that apply to none of them. */
void rn_limits_check(struct rn_limits_reader *r);

#endif
