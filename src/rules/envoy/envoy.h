/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envoy's descriptor trees (the format of envoyproxy/ratelimit; see
 * docs/envoy-format.md). Each node with a rate_limit is a rule of the ruleset,
 * whose key is made of the descriptor's values; the tree that finds it is read
 * by parse.c and searched by match.c.
 */
#ifndef RN_RULES_ENVOY_ENVOY_H
#define RN_RULES_ENVOY_ENVOY_H

#include "rules/ruleset.h"

/* Deeper trees are a load error, longer descriptors match nothing. */
#define RN_ENVOY_DEPTH_MAX 32
#define RN_ENVOY_PARTS_MAX (2 * RN_ENVOY_DEPTH_MAX)

struct rn_envoy_entry {
    struct rn_slice key, value;
};

/* One leaf of `metadata:`. The names that lead to it are joined with dots,
 * positions in lists are numbers from 0: `owner.team`, `regions.0`. */
struct rn_envoy_metadata {
    struct rn_slice key, value; /* value: as written, empty for null */
    bool text;                  /* it was quoted: `"7"` is a text, `7` a number */
};

/* A limit of a descriptor, with the settings of its file. */
struct rn_envoy_limit {
    const struct rn_rule_limit *limit; /* NULL: unlimited, or white-listed */
    const struct rn_rule *rule;        /* named like the path, domain.key_value.key;
                                          NULL: white-listed */
    bool unlimited, shadow_mode, quota_mode, detailed_metric;
    bool share_threshold;   /* of this level or one above: see parts of rn_envoy_match */
    uint32_t metric_values; /* bit i: metrics of this limit tell the values of entry i apart
                               (detailed_metric, value_to_metric) */
    struct rn_slice name;   /* rate_limit.name; empty: none */
    const struct rn_slice *replaces;
    uint32_t replaces_count;
    uint32_t requests_per_unit;
    int unit; /* 1 second, 2 minute, 3 hour, 4 day, 5 month, 6 year, 7 week; 0: another length */
    const struct rn_envoy_metadata *metadata;
    uint32_t metadata_count;
};

/* Whether a file is for this domain. */
bool rn_envoy_has_domain(const struct rn_ruleset *ruleset, struct rn_slice domain);

/* The limit of a descriptor (entries in order), or NULL: unknown domain, no match, or another depth
 * than the path's. On each level, the key with this value comes first, then wildcards in file
 * order, then the bare key; the search never goes back a level. Allocates nothing; any thread.
 *
 * `parts` receives *part_count parts of the counter's key: key and value of
 * each entry, the pattern in place of the value under share_threshold. They
 * point into the entries and the ruleset. */
const struct rn_envoy_limit *rn_envoy_match(const struct rn_ruleset *ruleset,
                                            struct rn_slice domain,
                                            const struct rn_envoy_entry *entries, size_t count,
                                            struct rn_slice parts[RN_ENVOY_PARTS_MAX],
                                            uint32_t *part_count);

#endif
