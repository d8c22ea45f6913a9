/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the files that decide Envoy's requests: the state of each descriptor on the way.
 */
#ifndef RN_LIMITER_ENVOY_DESCRIPTORS_H
#define RN_LIMITER_ENVOY_DESCRIPTORS_H

#include <ration/envoy.h>
#include <ration/usage.h>

#include "limiter/decide/gather.h"

#define RN_NO_CHARGE UINT8_MAX
/* Parts of keys, of all descriptors together: two for each entry. */
#define RN_DESCRIPTOR_PARTS (16 * RATION_DESCRIPTORS_MAX)
/* Entries of a descriptor that has attributes: all that one message can hold. */
#define RN_DESCRIPTOR_ENTRIES_MAX 1024

/* A limit that came with a descriptor, in the form that those of rules have. */
struct rn_given_limit {
    struct rn_rule rule; /* if no rule matches */
    struct rn_rule_limit limit;
    struct rn_rule_limit *list; /* of one */
    struct rn_compiled compiled;
    const struct rn_compiled *own; /* of the rule: a variant */
};

/* What a descriptor asks for. If several share a charge, the largest value counts; refunds share
 * with refunds only. */
enum rn_descriptor_purpose {
    RN_PURPOSE_LOOK,   /* 0 hits: whether one unit is left */
    RN_PURPOSE_ADMIT,  /* the hits of the request, or 1 */
    RN_PURPOSE_USED,   /* the descriptor has hits: a late debit if they do not fit */
    RN_PURPOSE_REFUND, /* hits to give back */
};

/* A native rule for one key: charged once for all descriptors that have the key. */
struct rn_native_charge {
    uint64_t hash; /* of the key */
    uint64_t cost; /* the largest of theirs */
    enum rn_descriptor_purpose purpose;
    uint8_t first, count;       /* its charges */
    char key[RATION_NAME_SIZE]; /* as text, cut to fit */
    struct rn_slice key_text;   /* the same */
    char usage_name[RATION_USAGE_CLIENT_MAX];
};

struct rn_descriptor {
    const struct ration_descriptor_ask *ask;
    const struct rn_envoy_limit *match; /* NULL: none applies, or it was replaced */
    const struct rn_slice *parts;
    uint32_t part_count;
    uint64_t charges; /* of `gathered`: bit i is charge i */
    uint8_t charge;   /* that of `match` or of its own limit; RN_NO_CHARGE: there is none */
    uint8_t reported; /* the charge that its status reports; RN_NO_CHARGE: none */
    bool given;       /* the limit of the ask counts */
    bool unlimited;   /* a rule applies that has no limit for it */
    bool allowed;     /* by an `allow`: neither limits nor bans apply */
};

/* Large (about 120 KB): part of a workspace. Items beyond their counts are unset. */
struct rn_descriptors {
    const struct ration_descriptors *request;
    struct rn_matches *matches;          /* scratch for native rules, */
    struct ration_attribute *attributes; /* and for the entries of a descriptor as attributes */
    size_t count;
    size_t part_count;
    struct rn_descriptor items[RATION_DESCRIPTORS_MAX];
    struct rn_slice parts[RN_DESCRIPTOR_PARTS + RN_ENVOY_PARTS_MAX];
    struct rn_given_limit given[RATION_DESCRIPTORS_MAX];
    /* By charge. */
    uint8_t purposes[RATION_CHARGES_MAX]; /* enum rn_descriptor_purpose */
    uint64_t units[RATION_CHARGES_MAX];   /* that are charged, looked for or given back */
    struct rn_native_charge natives[RN_MATCHES_MAX]; /* the first rules of `gathered` */
    struct rn_gathered gathered;
};

/* given_limit.c: makes the limit of an ask ready. The unit is a known one. */
void rn_descriptors_given_init(struct rn_given_limit *given, const struct rn_book *book,
                               const struct rn_descriptor *d, struct rn_slice domain);
/* The length of a unit; 0: there is none of this number. And back. */
int64_t rn_descriptors_given_period(enum ration_unit unit);
enum ration_unit rn_descriptors_given_unit(int64_t period_ns);

/* descriptors.c: the limit for a descriptor in Envoy's trees, as of rn_envoy_match. */
const struct rn_envoy_limit *
rn_descriptor_match(const struct rn_ruleset *ruleset, struct rn_slice domain,
                    const struct ration_descriptor_entry *from, size_t count,
                    struct rn_slice parts[RN_ENVOY_PARTS_MAX], uint32_t *part_count);
/* Whether it is in quota mode: the request is over only if all of these are. */
bool rn_descriptor_is_quota(const struct rn_descriptors *d, const struct rn_descriptor *item);
enum rn_descriptor_purpose rn_descriptor_purpose(const struct ration_descriptor_ask *ask);
/* The hits it names, or those of the request. */
uint64_t rn_descriptor_hits(const struct rn_descriptors *d,
                            const struct ration_descriptor_ask *ask);
/* Sets what a charge is for. */
void rn_descriptor_charge(struct rn_descriptors *d, size_t charge,
                          enum rn_descriptor_purpose purpose, uint64_t units);

/* native_rules.c: the entries as attributes, after the domain: returns how many.
 * count <= RN_DESCRIPTOR_ENTRIES_MAX. */
size_t rn_descriptor_attributes(struct rn_slice domain,
                                const struct ration_descriptor_entry *entries, size_t count,
                                struct ration_attribute *attributes);
/* Adds the native rules that apply, before any other rule. Returns the descriptor that a `deny`
 * is for, and adds nothing then; d->count: there is none. */
size_t rn_descriptors_add_native(struct rn_descriptors *d);
/* As if none had been added. */
void rn_descriptors_drop_native(struct rn_descriptors *d);

/* A number as the protocol has it. */
uint32_t rn_descriptors_status_clip(uint64_t n);
/* status.c: from a decision that has ended, or was never begun. Sets `reported`. */
void rn_descriptors_status_fill(struct ration_descriptor_status *status, struct rn_descriptors *d,
                                size_t at);

#endif
