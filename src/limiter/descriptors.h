/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the two files that decide Envoy's requests: what is known of each
 * descriptor on the way.
 */
#ifndef RN_LIMITER_DESCRIPTORS_H
#define RN_LIMITER_DESCRIPTORS_H

#include <ration/envoy.h>

#include "limiter/ruling.h"

#define RN_NO_CHARGE UINT8_MAX
/* Parts of keys, of all descriptors together: two for each entry. */
#define RN_DESCRIPTOR_PARTS (16 * RATION_DESCRIPTORS_MAX)

/* A limit that came with a descriptor, in the form that those of rules have. */
struct rn_given {
    struct rn_rule rule; /* if no rule matches */
    struct rn_rule_limit limit;
    struct rn_rule_limit *list; /* of one */
    struct rn_compiled compiled;
    const struct rn_compiled *own; /* of the rule: a variant */
};

struct rn_descriptor {
    const struct ration_descriptor_ask *ask;
    const struct rn_envoy_limit *match; /* NULL: none applies, or it was replaced */
    const struct rn_slice *parts;
    uint32_t part_count;
    uint8_t charge; /* of the ruling; RN_NO_CHARGE: there is none */
    bool given;     /* the limit of the ask counts */
};

/* Large (about 120 KB), on the stack; what lies behind counts is unset. */
struct rn_descriptors {
    const struct ration_descriptors *request;
    size_t count;
    size_t part_count;
    struct rn_descriptor items[RATION_DESCRIPTORS_MAX];
    struct rn_slice parts[RN_DESCRIPTOR_PARTS + RN_ENVOY_PARTS_MAX];
    struct rn_given given[RATION_DESCRIPTORS_MAX];
    struct rn_ruling ruling;
};

/* descriptors_given.c: makes the limit of an ask ready. The unit is a known one. */
void rn_given_init(struct rn_given *given, const struct rn_book *book,
                   const struct rn_descriptor *d, struct rn_slice domain);
/* The length of a unit; 0: there is none of this number. And back. */
int64_t rn_given_period(enum ration_unit unit);
enum ration_unit rn_given_unit(int64_t period_ns);

/* descriptors.c: whether it is refused only together with all others that are so. */
bool rn_descriptor_is_quota(const struct rn_descriptors *d, const struct rn_descriptor *item);

/* A number as the protocol has it. */
uint32_t rn_status_clip(uint64_t n);
/* descriptors_status.c: from a ruling that has ended, or was never begun. */
void rn_status_fill(struct ration_descriptor_status *status, const struct rn_descriptors *d,
                    size_t at);

#endif
